"""Trees of all-reduces over switches whose neighbours have unequal links, against all trees that there are."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest

from syncline.fabric import notation
from syncline.treegen import loads, pack, question
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

Links = dict[tuple[int, int], int]


def _question(gpus: int, links: Links) -> Question:
    both = [*links.items(), *(((dst, src), rate) for (src, dst), rate in links.items())]
    arcs = tuple(sorted((src, dst, rate) for (src, dst), rate in both))
    nodes = max(gpus, *(max(ends) + 1 for ends in links))
    return Question(tuple(range(gpus)), tuple(range(nodes)), arcs, 1, "all", others=False)


def _check(asked: Question, packed: Packing) -> None:
    """Trees reach every GPU, are used both ways, and keep to every link."""
    gpus = len(asked.gpus)
    capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
    for tree in packed.trees:
        assert tree.back is None
        reached = {tree.root}
        for arc in (packed.arcs[number] for number in tree.arcs):
            assert arc.src in reached
            assert arc.dst not in reached
            assert all(node >= gpus for node in arc.via)
            reached.add(arc.dst)
        assert reached == set(range(gpus))
    carried = loads.on_links(loads.connections(packed, packed.trees))
    assert all(sum(each) <= capacity[link] for link, each in carried.items())


@pytest.mark.parametrize(
    ("gpus", "links", "rate"),
    [
        (3, {(0, 3): 1, (1, 3): 1, (2, 3): 2}, 1),
        (3, {(0, 2): 3, (0, 3): 2, (1, 2): 3, (1, 3): 3, (2, 3): 3}, 5),
        (3, {(0, 3): 1, (1, 3): 1, (3, 4): 2, (2, 4): 2}, 1),
    ],
    ids=["star", "triangle", "two switches"],
)
def test_shares_of_switches_suit_the_trees(gpus: int, links: Links, rate: int) -> None:
    asked = _question(gpus, links)
    packed = pack.of(asked, "all-reduce")
    _check(asked, packed)
    assert packed.rate == packed.best_rate == rate


def test_gpus_of_a_cluster_in_unequal_numbers() -> None:
    asked = question.asked(notation.parse("dgx-h100(nodes=3)").graph(), (0, 8, 9, 16))
    packed = pack.of(asked, "all-reduce")
    _check(asked, packed)
    assert packed.rate == packed.best_rate == 2 * asked.link_unit


@pytest.mark.parametrize("seed", range(40))
def test_no_trees_are_faster(seed: int) -> None:
    """As fast as a linear program over every tree of every way, of which small networks have a few hundred."""
    chance = Random(f"undirected {seed}")
    gpus, switches = chance.choice(((3, 1), (3, 2), (4, 1)))
    pairs = combinations(range(gpus + switches), 2)
    links = {pair: chance.randint(1, 6) for pair in pairs if pair[1] >= gpus or chance.random() < 0.4}
    asked = _question(gpus, links)
    packed = pack.of(asked, "all-reduce")
    _check(asked, packed)
    assert float(packed.rate) == pytest.approx(_best_of_all(gpus, links), rel=1e-6)
    assert packed.rate == packed.best_rate


def _best_of_all(gpus: int, links: Links) -> float:
    """The most that all trees together carry."""
    import highspy
    import numpy as np

    ways = [way for src, dst in combinations(range(gpus), 2) for way in _ways(gpus, links, (src,), dst)]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    row = {link: number for number, link in enumerate(links)}
    for rate in links.values():
        solver.addRow(-highspy.kHighsInf, float(rate), 0, np.array([], dtype=np.int32), np.array([]))
    for tree in combinations(ways, gpus - 1):
        if not _spans(gpus, tree):
            continue
        used: dict[int, float] = {}
        for way in tree:
            for ends in pairwise(way):
                number = row[min(ends), max(ends)]
                used[number] = used.get(number, 0.0) + 1.0
        rows = np.array(sorted(used), dtype=np.int32)
        times = np.array([used[number] for number in sorted(used)])
        solver.addCol(-1.0, 0.0, highspy.kHighsInf, len(used), rows, times)
    solver.run()
    return -float(solver.getObjectiveValue())


def _ways(gpus: int, links: Links, way: tuple[int, ...], dst: int) -> list[tuple[int, ...]]:
    """All ways over switches that go on from one and end at a GPU."""
    found = []
    for ends in links:
        if way[-1] not in ends:
            continue
        there = ends[1] if ends[0] == way[-1] else ends[0]
        if there == dst:
            found.append((*way, dst))
        elif there >= gpus and there not in way:
            found += _ways(gpus, links, (*way, there), dst)
    return found


def _spans(gpus: int, tree: tuple[tuple[int, ...], ...]) -> bool:
    group = list(range(gpus))
    for way in tree:
        one, two = group[way[0]], group[way[-1]]
        group = [one if each == two else each for each in group]
    return len(set(group)) == 1
