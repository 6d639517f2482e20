"""Trees over switches whose links are unequal either way, against a linear program over flows that knows no trees."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from support.command import Ended
from syncline.treegen import choice, loads, pack, packing
from syncline.treegen.choice import Goal
from syncline.treegen.packing import Collective, Packing
from syncline.treegen.question import Question

Command = Callable[..., Ended]
Links = dict[tuple[int, int], int]

COLLECTIVES: Final[tuple[Collective, ...]] = ("broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce")
STAR: Final = {(0, 3): 1, (3, 0): 2, (1, 3): 1, (3, 1): 1, (2, 3): 1, (3, 2): 1}
"""Three GPUs on a switch, which could send the first one twice as much as each of them sends."""
EVEN_STAR: Final = {**STAR, (3, 0): 1}
CROSSED: Final = {
    **{(1, 4): 2, (4, 1): 1, (2, 4): 2, (4, 2): 2, (3, 4): 1, (4, 3): 1},
    **{(0, 1): 1, (1, 0): 1},
}
"""Four GPUs, three of them on a switch, the first one on the second one."""


def _question(gpus: int, links: Links) -> Question:
    nodes = 1 + max(max(ends) for ends in links)
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(links.items()))
    return Question(tuple(range(gpus)), tuple(range(nodes)), arcs, 1, "all", others=False)


def _star(gpus: int) -> Links:
    """A star whose switch could send the first GPU twice as much as it receives from each."""
    ends = range(gpus)
    return {**{(gpu, gpus): 1 for gpu in ends}, **{(gpus, gpu): 2 if gpu == 0 else 1 for gpu in ends}}


def _check(asked: Question, packed: Packing) -> None:
    """Trees reach every GPU, way by way in order, and keep to every link."""
    for tree in packed.trees:
        _check_ways(asked, packed, tree.root, tree.arcs)
        if tree.back is not None:
            _check_ways(asked, packed, tree.root, tree.back, to_root=True)
    carried = loads.on_links(loads.connections(packed, packed.trees))
    capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
    assert all(sum(each) <= capacity[link] for link, each in carried.items())


def _check_ways(asked: Question, packed: Packing, root: int, arcs: Collection[int], *, to_root: bool = False) -> None:
    reached = {root}
    for arc in (packed.arcs[number] for number in arcs):
        near, far = (arc.dst, arc.src) if to_root else (arc.src, arc.dst)
        assert near in reached
        assert far not in reached
        assert all(node >= len(asked.gpus) for node in arc.via)
        reached.add(far)
    assert reached == set(range(len(asked.gpus)))


@pytest.mark.parametrize(
    ("gpus", "links", "collective", "rate"),
    [
        (3, STAR, "broadcast", 1),
        (3, STAR, "all-gather", Fraction(3, 2)),
        (3, STAR, "all-reduce", Fraction(3, 4)),  # it passes four links from GPUs, which carry three
        (3, EVEN_STAR, "broadcast", 1),
        (3, EVEN_STAR, "all-gather", Fraction(3, 2)),
        (3, EVEN_STAR, "all-reduce", Fraction(3, 4)),
        (4, CROSSED, "all-reduce", 1),  # up 0-1-2 and 3-2, down 2-1-0 and 2-3
    ],
)
def test_more_to_send_than_is_received_costs_nothing(
    gpus: int, links: Links, collective: Collective, rate: Fraction | int
) -> None:
    asked = _question(gpus, links)
    packed = pack.of(asked, collective)
    _check(asked, packed)
    assert packed.rate == rate


@pytest.mark.parametrize("seed", range(24))
def test_no_trees_are_faster(seed: int) -> None:
    chance = Random(f"directed {seed}")
    gpus, switches = chance.choice(((3, 1), (3, 2), (4, 1), (4, 2), (5, 1)))
    links: Links = {}
    for one, two in permutations(range(gpus + switches), 2):
        if one < two and (two >= gpus or chance.random() < 0.3):
            links[one, two], links[two, one] = chance.choice((1, 2, 3, 7)), chance.choice((1, 2, 5, 8))
    asked = _question(gpus, links)
    for collective in COLLECTIVES:
        packed = pack.of(asked, collective)
        _check(asked, packed)
        assert float(packed.rate) == pytest.approx(_best_of_flows(gpus, links, collective), rel=1e-6), collective
        assert packed.rate <= packed.best_rate


def test_all_trees_have_the_root_that_is_given() -> None:
    asked = _question(4, CROSSED)
    goal = Goal("trees", 10**6)
    for root in range(4):
        packed = choice.best(asked, "all-reduce", root, goal).packing
        _check(asked, packed)
        assert {tree.root for tree in packed.trees} == {root}
        assert packed.rate == pytest.approx(_best_of_flows(4, CROSSED, "all-reduce", root))


def test_another_root_may_be_faster_than_the_one_of_the_best_bound() -> None:
    links = {
        **{(0, 6): 5, (6, 0): 5, (1, 6): 15, (6, 1): 15, (2, 6): 21, (6, 2): 30, (3, 6): 3, (6, 3): 50},
        **{(4, 6): 10, (6, 4): 10, (5, 6): 5, (6, 5): 25},
        **{(0, 4): 3, (4, 0): 3, (1, 0): 50, (0, 1): 25, (4, 3): 50, (3, 4): 100},
    }
    asked = _question(6, links)
    assert [int(rate) for rate in packing.rates(asked, "broadcast")[:3]] == [23, 23, 21]
    best = choice.best(asked, "broadcast", "auto", Goal("trees", 10**6)).packing
    assert best.trees[0].root == 2
    assert best.rate == 21 > pack.of(asked, "broadcast", 0).rate


@pytest.mark.parametrize("collective", ["broadcast", "all-gather", "all-reduce"])
def test_many_gpus_use_what_links_have_both_ways(collective: Collective) -> None:
    """Too many for a linear program, their switch is removed on links that are alike either way."""
    gpus = packing.MOST_UNEQUAL + 1
    even = dict.fromkeys(_star(gpus), 1)
    packed = pack.of(_question(gpus, _star(gpus)), collective)
    _check(_question(gpus, _star(gpus)), packed)
    assert packed.rate == pack.of(_question(gpus, even), collective).rate > 0


def test_one_after_the_other_where_no_tree_goes_both_ways() -> None:
    """A ring of more GPUs than trees to roots and from them are looked for, whose links have no opposites."""
    ring = {(gpu, (gpu + 1) % 20): 6 for gpu in range(20)}
    for objective in choice.OBJECTIVES:
        chosen = choice.best(_question(20, ring), "all-reduce", None, Goal(objective, 10**6))
        assert chosen.packing.rate == 3
        assert list(chosen.predicted_s) == [choice.ONE_AFTER_THE_OTHER]


def _topology(links: Links, gpus: int, file: Path) -> list[str]:
    nodes = 1 + max(max(ends) for ends in links)
    names = [f"g{node}" if node < gpus else f"s{node}" for node in range(nodes)]
    described = [f"{{name: {name}, kind: switch}}" if name[0] == "s" else name for name in names]
    lines = [f"  - {{from: {names[src]}, to: {names[dst]}, rate: {rate}GB/s}}" for (src, dst), rate in links.items()]
    file.write_text("\n".join(["directed: true", f"nodes: [{', '.join(described)}]", "links:", *lines, ""]))
    return ["--topology-file", str(file)]


@pytest.mark.parametrize(("links", "gpus"), [(STAR, 3), (CROSSED, 4)], ids=["star", "crossed"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_plans_take_the_time_of_the_rate(
    links: Links, gpus: int, collective: Collective, tmp_path: Path, syncline_command: Command
) -> None:
    fabric = _topology(links, gpus, tmp_path / "links.yaml")
    flags = ["trees", *fabric, "--collective", collective, "--size", "20GB"]
    found: dict[str, Any] = json.loads(syncline_command(*flags, "--json").out)
    path = str(tmp_path / "trees.json")
    assert syncline_command(*flags, "--format", "plan", "-o", path).status == 0
    assert syncline_command("verify", path).status == 0
    run = ["collective", collective, "--size", "20GB", *fabric, "--plan", path, "--backend", "flow", "--json"]
    ran = syncline_command(*run)
    assert ran.status == 0, ran.err
    rate = json.loads(ran.out)["algorithm_bandwidth_bytes_per_s"]
    assert rate == pytest.approx(found["rate_bytes_per_s"], rel=0.01)


def test_a_rate_below_the_bound_is_told(tmp_path: Path, syncline_command: Command) -> None:
    fabric = _topology(STAR, 3, tmp_path / "links.yaml")
    below = "these trees do not reach the bound, but 75 % of it; a linear program finds no faster ones"
    assert below in syncline_command("trees", *fabric, "--collective", "all-reduce").err
    ring = {(gpu, (gpu + 1) % 20): 6 for gpu in range(20)}
    fabric = _topology(ring, 20, tmp_path / "ring.yaml")
    below = "a reduce and then a broadcast do not reach the bound, but 95 % of it: there are no trees both ways"
    assert below in syncline_command("trees", *fabric, "--collective", "all-reduce").err


def test_trees_that_are_not_found_are_told(tmp_path: Path, syncline_command: Command) -> None:
    """The GPUs are connected, but by too many links one way for what looks for trees."""
    gpus = packing.MOST_UNEQUAL + 1
    links = {**_star(gpus), (0, 1): 1, (gpus, 0): 4}
    del links[gpus, 1]
    fabric = _topology(links, gpus, tmp_path / "links.yaml")
    told = f"switches join more than {packing.MOST_UNEQUAL} of them by links that are unequal either way"
    for collective in ("broadcast", "all-reduce"):
        shown = syncline_command("trees", *fabric, "--collective", collective)
        assert shown.status == 0
        assert f"no trees of these GPUs were found: {told}" in shown.err
    refused = syncline_command("trees", *fabric, "--collective", "broadcast", "--format", "plan")
    assert refused.status == 2
    assert f"no trees of these GPUs were found: {told}" in refused.err


class _Flows:
    """A linear program: first the rate, then whatever is added."""

    def __init__(self) -> None:
        import highspy

        self.solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self.solver.setOptionValue("output_flag", False)
        self.columns = 0
        self.rate = self.column()
        self.solver.changeColCost(self.rate, -1.0)

    def column(self) -> int:
        self.solver.addVar(0.0, float("inf"))
        self.columns += 1
        return self.columns - 1

    def row(self, least: float, most: float, terms: Collection[tuple[int, float]]) -> None:
        import numpy as np

        of: dict[int, float] = {}
        for column, times in terms:
            of[column] = of.get(column, 0.0) + times
        self.solver.addRow(least, most, len(of), np.array(list(of), dtype=np.int32), np.array(list(of.values())))


def _best_of_flows(gpus: int, links: Links, collective: Collective, root: int | None = None) -> float:
    """The largest rate for which every GPU receives it as a flow from the roots (Edmonds 1973), over edges between GPUs
    that are flows through switches.
    """
    flows, infinity = _Flows(), float("inf")
    rooted = {"broadcast": 0, "reduce": 0}.get(collective, root)
    senders = [flows.column() for _ in range(gpus)]
    flows.row(0, 0, [(flows.rate, -1), *((sender, 1) for sender in senders)])
    for gpu, sender in enumerate(senders):
        if rooted is not None and gpu != rooted:
            flows.row(0, 0, [(sender, 1)])
        elif collective in ("all-gather", "reduce-scatter"):
            flows.row(0, 0, [(sender, gpus), (flows.rate, -1)])
    used: dict[tuple[int, int], list[tuple[int, float]]] = {link: [] for link in links}
    for to_root in (False, True):
        if collective == "all-reduce" or to_root == (collective in packing.TOWARDS_ROOT):
            edges = _edges_of_flows(flows, gpus, links, used)
            turned = {(dst, src): column for (src, dst), column in edges.items()}
            _reach_all(flows, gpus, turned if to_root else edges, senders)
    for link, terms in used.items():
        flows.row(-infinity, links[link], terms)
    flows.solver.run()
    return -float(flows.solver.getObjectiveValue())


def _edges_of_flows(
    flows: _Flows, gpus: int, links: Links, used: dict[tuple[int, int], list[tuple[int, float]]]
) -> dict[tuple[int, int], int]:
    """Capacities between GPUs, each a part of a flow from the one through switches alone."""
    edges = {pair: flows.column() for pair in permutations(range(gpus), 2)}
    nodes = 1 + max(max(ends) for ends in links)
    for source in range(gpus):
        of = {link: flows.column() for link in links if link[1] != source and (link[0] == source or link[0] >= gpus)}
        for link, column in of.items():
            used[link].append((column, 1.0))
        for node in set(range(nodes)) - {source}:
            terms = [(column, 1.0) for link, column in of.items() if link[1] == node]
            terms += [(column, -1.0) for link, column in of.items() if link[0] == node]
            flows.row(0, 0, [*terms, (edges[source, node], -1.0)] if node < gpus else terms)
    return edges


def _reach_all(flows: _Flows, gpus: int, edges: Mapping[tuple[int, int], int], senders: list[int]) -> None:
    """Every GPU receives the rate, from itself too."""
    infinity = float("inf")
    for target in range(gpus):
        of = {pair: flows.column() for pair in edges if pair[0] != target}
        for pair, column in of.items():
            flows.row(-infinity, 0, [(column, 1.0), (edges[pair], -1.0)])
        for gpu in range(gpus):
            terms = [(column, 1.0) for pair, column in of.items() if pair[1] == gpu]
            terms += [(column, -1.0) for pair, column in of.items() if pair[0] == gpu]
            # What a GPU sends on is no more than what it receives and has of its own.
            own = [(senders[gpu], 1.0)]
            flows.row(0, infinity, [*terms, *own, (flows.rate, -1.0)] if gpu == target else [*terms, *own])
