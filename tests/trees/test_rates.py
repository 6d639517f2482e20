"""Rates and trees of machines and of random networks, held against all cuts."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from support import cuts
from syncline.fabric import notation
from syncline.treegen import choice, fewest, pack, packing, question
from syncline.treegen.packing import Collective, Packing
from syncline.treegen.question import Question

CUBE = [
    *[(0, 3, 2), (2, 3, 2), (1, 2, 2), (1, 5, 2), (5, 6, 2), (6, 7, 2), (4, 7, 2), (0, 4, 2)],
    *[(0, 1, 1), (1, 3, 1), (3, 7, 1), (5, 7, 1), (4, 5, 1), (4, 6, 1), (2, 6, 1), (0, 2, 1)],
]
"""NVLinks of a DGX-1V, as its topology dumps have them; a DGX-1P has one of each."""
UNITS = {"dgx1v": 25 * 10**9, "dgx1p": 20 * 10**9}


def _capacity(machine: str, gpus: tuple[int, ...]) -> dict[tuple[int, int], int]:
    links = [(a, b, count if machine == "dgx1v" else 1) for a, b, count in CUBE if a in gpus and b in gpus]
    return {pair: count for a, b, count in links for pair in ((a, b), (b, a))}


def _as_listed(packed: Packing, gpus: tuple[int, ...], unit: int) -> list[tuple[int, Fraction, list[tuple[int, int]]]]:
    def edges(tree: packing.Tree) -> list[tuple[int, int]]:
        return [(gpus[packed.arcs[arc].src], gpus[packed.arcs[arc].dst]) for arc in tree.arcs]

    return [(gpus[tree.root], tree.weight / unit, edges(tree)) for tree in packed.trees]


@pytest.mark.parametrize("machine", UNITS)
@pytest.mark.parametrize("size", range(3, 9))
def test_every_allocation_of_a_dgx1(machine: str, size: int) -> None:
    """The optimum over all cuts, by trees that span and fit; of a broadcast by as few as possible."""
    graph, unit = notation.parse(machine).graph(), UNITS[machine]
    for gpus in itertools.combinations(range(8), size):
        capacity = _capacity(machine, gpus)
        asked = question.asked(graph, gpus)
        for root in range(size):
            packed = pack.of(asked, "broadcast", root)
            best = cuts.from_root(capacity, gpus, gpus[root])
            assert packed.rate == packed.best_rate == best * unit, (gpus, root)
            assert cuts.fault(_as_listed(packed, gpus, unit), capacity, gpus, both=False) is None
            best = cuts.each(capacity, gpus, gpus[root])
            for kind in ("scatter", "gather"):
                packed = pack.of(asked, kind, root)
                assert packed.rate == packed.best_rate == best * unit, (gpus, root)
                if best:
                    assert cuts.fault_of_paths(_as_listed(packed, gpus, unit), capacity, gpus, best / size) is None
        packed = pack.of(asked, "all-gather")
        assert packed.rate == packed.best_rate == cuts.from_all(capacity, gpus) * unit, gpus
        assert cuts.fault(_as_listed(packed, gpus, unit), capacity, gpus, both=False) is None
        if size <= 6:
            packed = pack.of(asked, "all-reduce")
            assert packed.rate == packed.best_rate == cuts.both_ways(capacity, gpus) * unit, gpus
            assert cuts.fault(_as_listed(packed, gpus, unit), capacity, gpus, both=True) is None


@pytest.mark.parametrize("machine", UNITS)
def test_as_few_trees_as_there_can_be(machine: str) -> None:
    """On every allocation whose GPUs reach each other, the number of trees is the bound over all trees."""
    graph, unit = notation.parse(machine).graph(), UNITS[machine]
    for size in range(2, 9):
        for gpus in itertools.combinations(range(8), size):
            packed = pack.of(question.asked(graph, gpus), "broadcast")
            for objective in choice.OBJECTIVES if packed.trees else ():
                chosen = choice.of(packed, objective, 10**8)
                few = Packing(packed.collective, packed.components, packed.bound, packed.arcs, (), chosen.trees)
                assert few.rate == packed.rate
                assert cuts.fault(_as_listed(few, gpus, unit), _capacity(machine, gpus), gpus, both=False) is None
                if objective == "trees":
                    assert len(chosen.trees) == chosen.at_least, gpus


def test_the_published_trees_of_a_dgx1v() -> None:
    """Six unit trees of depth 4 (roots 0, 1, 4, 5) or 5, or four deeper ones (Blink, section 3.2.1)."""
    asked = question.asked(notation.parse("dgx1v").graph(), tuple(range(8)))
    for root in range(8):
        packed = pack.of(asked, "broadcast", root)
        few, shallow = (choice.of(packed, goal, 10**8).trees for goal in ("trees", "depth"))
        assert sorted(float(tree.weight / asked.link_unit) for tree in few) == [1, 1, 2, 2]
        assert max(tree.depth(packed.arcs) for tree in shallow) == (4 if root in (0, 1, 4, 5) else 5)


def _random(chance: random.Random) -> tuple[Question, dict[tuple[int, int], int]]:
    """A network whose links have unequal capacities either way, some of them none; fractions of an odd unit."""
    nodes, unit = chance.randint(2, 6), chance.choice([1, 7, 1_234_567])
    capacity = {
        pair: unit * chance.randint(1, 12)
        for pair in itertools.permutations(range(nodes), 2)
        if chance.random() < chance.choice([0.4, 0.9])
    }
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(capacity.items()))
    numbers = tuple(range(nodes))
    return Question(numbers, numbers, arcs, unit, "all", others=False), capacity


@pytest.mark.parametrize("seed", range(200))
def test_random_networks(seed: int) -> None:
    chance = random.Random(seed)
    asked, capacity = _random(chance)
    gpus = asked.gpus
    relabelled = list(gpus)
    chance.shuffle(relabelled)
    arcs = tuple(sorted((relabelled[src], relabelled[dst], rate) for src, dst, rate in asked.arcs))
    other = Question(gpus, gpus, arcs, asked.link_unit, "all", others=False)
    for root in gpus:
        packed = pack.of(asked, "broadcast", root)
        assert packed.rate == packed.best_rate == cuts.from_root(capacity, gpus, root)
        assert cuts.fault(_as_listed(packed, gpus, 1), capacity, gpus, both=False) is None
        assert pack.of(other, "broadcast", relabelled[root]).rate == packed.rate
    packed = pack.of(asked, "all-gather")
    assert packed.rate == packed.best_rate == cuts.from_all(capacity, gpus)
    assert cuts.fault(_as_listed(packed, gpus, 1), capacity, gpus, both=False) is None
    backward = {(dst, src): rate for (src, dst), rate in capacity.items()}
    packed = pack.of(asked, "reduce-scatter")
    assert packed.rate == cuts.from_all(backward, gpus)
    for kind, there in (("scatter", capacity), ("gather", backward)):
        packed = pack.of(asked, kind, gpus[-1])  # type: ignore[arg-type]
        best = cuts.each(there, gpus, gpus[-1])
        assert packed.rate == packed.best_rate == best
        if best:
            assert cuts.fault_of_paths(_as_listed(packed, gpus, 1), there, gpus, best / len(gpus)) is None


@pytest.mark.parametrize(
    ("machine", "gpus", "each"),
    [("dgx2", 16, 6), ("dgx2", 5, 6), ("dgx-a100", 8, 12), ("dgx-h100", 3, 18), ("gb200-nvl72", 72, 18)],
)
def test_nvswitch_is_no_mesh(machine: str, gpus: int, each: int) -> None:
    """A GPU has as much as its links to the switch, whomever it talks to; one-hop trees reach the optimum."""
    asked = question.asked(notation.parse(machine).graph(), tuple(range(gpus)))
    unit = asked.link_unit
    broadcast = pack.of(asked, "broadcast", gpus // 2)
    assert broadcast.rate == broadcast.best_rate == each * unit
    for collective, rate in (
        ("all-gather", Fraction(each * gpus, gpus - 1)),
        ("reduce-scatter", Fraction(each * gpus, gpus - 1)),
        ("all-reduce", Fraction(each * gpus, 2 * (gpus - 1))),
    ):
        packed = pack.of(asked, collective)  # type: ignore[arg-type]
        assert packed.rate == packed.best_rate == rate * unit
        assert [tree.depth(packed.arcs) for tree in packed.trees] == [1] * gpus


COLLECTIVES: tuple[Collective, ...] = ("broadcast", "all-gather", "all-reduce")


@pytest.mark.parametrize("machine", ["dgx-a100(nodes=2)", "dgx-h100(nodes=3)", "dgx1v(nodes=2)", "dgx2(nodes=2)"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_clusters(machine: str, collective: Collective) -> None:
    """Switches are removed without a loss, and nothing carries too much on any link of the cluster."""
    cluster = notation.parse(machine)
    asked = question.asked(cluster.graph(), tuple(range(cluster.npus)))
    packed = pack.of(asked, collective)
    assert packed.rate == packed.best_rate > 0
    left = {(src, dst): Fraction(rate) for src, dst, rate in asked.arcs}
    for arc in packed.arcs:
        ends = (arc.src, *arc.via, arc.dst)
        for hop in itertools.pairwise(ends):
            left[hop] -= arc.capacity
    assert min(left.values()) >= 0


@pytest.mark.parametrize("machine", ["dgx2", "dgx-h100(nodes=3)", "dgx2(nodes=2)", "gb200-nvl72"])
def test_few_trees_over_switches_fit(machine: str) -> None:
    """They span, load no link beyond what it carries, and are not fewer than the bound."""
    cluster = notation.parse(machine)
    asked = question.asked(cluster.graph(), tuple(range(cluster.npus)))
    packed = pack.of(asked, "broadcast", 1)
    few = fewest.of(packed)
    assert sum(tree.weight for tree in few.trees) == packed.rate == packed.best_rate
    assert few.at_least <= len(few.trees) <= len(packed.trees)
    load: dict[tuple[int, int], Fraction] = {}
    for tree in few.trees:
        reached = {tree.root}
        for arc in (packed.arcs[number] for number in tree.arcs):
            assert arc.src in reached
            assert arc.dst not in reached
            reached.add(arc.dst)
            for hop in itertools.pairwise((arc.src, *arc.via, arc.dst)):
                load[hop] = load.get(hop, Fraction(0)) + tree.weight
        assert len(reached) == cluster.npus
    capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
    assert all(carried <= capacity[hop] for hop, carried in load.items())


@pytest.mark.parametrize(
    ("machine", "collective"),
    [
        *itertools.product(
            ["dgx-a100(nodes=10)", "dgx2(nodes=5)"], ["broadcast", "all-gather", "reduce-scatter", "all-reduce"]
        ),
        *itertools.product(["gb200-nvl72(nodes=2)", "dgx1v(nodes=9)"], ["all-gather", "all-reduce"]),
    ],
)
def test_names_decide_nothing_among_many_gpus(machine: str, collective: Collective) -> None:
    """Above 64 GPUs the best rate is reached whatever GPUs and switches are called, and every link carries its load."""
    cluster = notation.parse(machine)
    asked = question.asked(cluster.graph(), tuple(range(cluster.npus)))
    chance, gpus = random.Random(7), len(asked.gpus)
    names = [*chance.sample(range(gpus), gpus), *chance.sample(range(gpus, len(asked.nodes)), len(asked.nodes) - gpus)]
    arcs = tuple(sorted((names[src], names[dst], rate) for src, dst, rate in asked.arcs))
    other = Question(asked.gpus, asked.nodes, arcs, asked.link_unit, asked.links, others=asked.others)
    rates = set()
    for of in (asked, other):
        packed = pack.of(of, collective, 3 if of is asked else names[3])
        assert packed.rate == packed.best_rate
        rates.add(packed.rate)
        left = {(src, dst): Fraction(rate) for src, dst, rate in of.arcs}
        for tree in packed.trees:
            for number in tree.arcs:
                arc = packed.arcs[number]
                hops = list(itertools.pairwise((arc.src, *arc.via, arc.dst)))
                for src, dst in hops:
                    left[(src, dst) if collective != "reduce-scatter" else (dst, src)] -= tree.weight
                    if collective == "all-reduce":
                        left[dst, src] -= tree.weight
        assert min(left.values()) >= 0
    assert len(rates) == 1


@pytest.mark.parametrize(
    ("machine", "kinds"),
    # On a DGX-1V, GPUs at the ends of a quad's double links are of another kind than those in their middle.
    [("dgx-a100(nodes=10)", 1), ("gb200-nvl72(nodes=2)", 1), ("dgx1v(nodes=9)", 2)],
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_trees_of_one_root_are_predicted_as_all_of_them(
    machine: str, kinds: int, collective: Collective, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands for all trees has their rate and their time, for small and large vectors."""
    cluster = notation.parse(machine)
    asked = question.asked(cluster.graph(), tuple(range(cluster.npus)))
    every = pack.of(asked, collective)
    monkeypatch.setattr(pack, "MOST_GPUS", 64)
    # Another object, as answers are kept.
    one = pack.of(replace(asked, others=not asked.others), collective)
    assert (every.roots, one.roots) == (1, cluster.npus // kinds)
    assert len(one.trees) * one.roots == len(every.trees)
    assert (one.rate, one.bound) == (every.rate, every.bound)
    for size in (10**4, 10**8):
        expected = choice.seconds(every, every.trees, size)
        assert choice.seconds(one, one.trees, size) == pytest.approx(expected, rel=1e-9)


def test_a_weight_may_be_given_up_for_fewer_trees() -> None:
    asked = question.asked(notation.parse("dgx1v").graph(), (0, 1, 2, 3))
    packed = pack.of(asked, "broadcast")
    few = fewest.of(packed, threshold=0.4)
    assert len(few.trees) < len(fewest.of(packed).trees)
    assert sum(tree.weight for tree in few.trees) >= Fraction(6, 10) * packed.rate
