"""Allocations whose links are alike, against a search through all renamings."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from math import comb

import pytest

from syncline.fabric import notation
from syncline.treegen import allocations, border, pack, packing, question
from syncline.treegen.allocations import TooManyError
from syncline.treegen.question import Question


def _asked(machine: str, links: question.Links = "auto") -> Question:
    graph = notation.parse(machine).graph()
    return question.asked(graph, range(graph.npus), links)


def _alike(asked: Question, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether some renaming keeps all links; switches keep their names."""
    rate = {(src, dst): capacity for src, dst, capacity in asked.arcs}
    inner = range(len(asked.gpus), len(asked.nodes))

    def kept(order: tuple[int, ...]) -> bool:
        name = dict(zip(one, order, strict=True)) | {node: node for node in inner}
        return all(
            rate.get((a, b)) == rate.get((name[a], name[b])) for a, b in itertools.permutations((*one, *inner), 2)
        )

    return any(map(kept, itertools.permutations(other)))


def _classes(asked: Question, size: int) -> list[tuple[tuple[int, ...], int]]:
    """The first of each class, and how many are in it."""
    found: list[list[tuple[int, ...]]] = []
    for chosen in itertools.combinations(range(len(asked.gpus)), size):
        group = next((group for group in found if _alike(asked, group[0], chosen)), None)
        if group is None:
            found.append([chosen])
        else:
            group.append(chosen)
    return [(group[0], len(group)) for group in found]


def _random(seed: int) -> Question:
    """A small network with few different rates, some links one way only, and perhaps a switch."""
    draw = random.Random(seed)
    gpus, switches = draw.randint(2, 6), draw.randint(0, 2)
    nodes = range(gpus + switches)
    arcs = tuple((a, b, rate) for a, b in itertools.permutations(nodes, 2) if (rate := draw.choice((0, 0, 1, 1, 2))))
    if draw.random() < 0.5:  # the same both ways
        arcs = tuple((a, b, r) for x, y, r in arcs if x < y for a, b in ((x, y), (y, x)))
    return Question(tuple(range(10, 10 + gpus)), tuple(nodes), arcs, 1, "all", False)


@pytest.mark.parametrize("seed", range(60))
def test_any_network_as_by_all_renamings(seed: int) -> None:
    asked = _random(seed)
    for size in range(1, len(asked.gpus) + 1):
        found = allocations.of(asked, [size])
        wanted = [(tuple(10 + place for place in first), many) for first, many in _classes(asked, size)]
        assert [(each.gpus, each.alike) for each in found] == wanted


@pytest.mark.parametrize(("machine", "size"), [("dgx1v", 3), ("dgx1v", 4), ("dgx1p", 4)])
def test_machines_as_by_all_renamings(machine: str, size: int) -> None:
    asked = _asked(machine)
    found = [(each.gpus, each.alike) for each in allocations.of(asked, [size])]
    assert found == _classes(asked, size)


@pytest.mark.parametrize(("machine", "distinct"), [("dgx1v", 46), ("dgx1p", 14)])
def test_as_many_as_published(machine: str, distinct: int) -> None:
    """Blink, section 5: of 3 to 8 GPUs that NVLinks connect."""
    graph = notation.parse(machine).graph()
    found = allocations.of(_asked(machine), range(3, 9))
    connected = [each for each in found if len(pack.of(question.asked(graph, each.gpus), "broadcast").components) == 1]
    assert len(connected) == distinct


@pytest.mark.parametrize(
    ("machine", "links"),
    [("dgx1v", "auto"), ("dgx1v", "all"), ("dgx1p", "auto"), ("dgx2", "auto"), ("dgx-h100", "all")],
)
def test_every_allocation_is_counted_once(machine: str, links: question.Links) -> None:
    asked = _asked(machine, links)
    gpus = len(asked.gpus)
    for size in range(1, gpus + 1):
        found = allocations.of(asked, [size])
        assert sum(each.alike for each in found) == comb(gpus, size)
        assert [each.gpus for each in found] == sorted({each.gpus for each in found})
    if machine == "dgx1v":
        assert len(allocations.of(asked, range(2, 9), every=True)) == 247


@pytest.mark.parametrize("kind", ["broadcast", "all-reduce"])
def test_what_is_alike_has_the_same_rate(kind: packing.Collective) -> None:
    graph = notation.parse("dgx1v").graph()
    asked = _asked("dgx1v")
    rates: dict[allocations.Shape, set[Fraction]] = {}
    for size in range(2, 9):
        for gpus in itertools.combinations(range(8), size):
            rate = pack.of(question.asked(graph, gpus), kind).rate
            rates.setdefault(allocations.shape(asked, gpus), set()).add(rate)
    assert all(len(found) == 1 for found in rates.values())
    assert len(rates) == len(allocations.of(asked, range(2, 9)))


def test_gpus_on_switches_are_told_by_their_number() -> None:
    found = allocations.of(_asked("gb200-nvl72"), [2, 3, 60])
    assert [(each.gpus[-1], each.alike) for each in found] == [(1, comb(72, 2)), (2, comb(72, 3)), (59, comb(72, 60))]


def test_too_many() -> None:
    with pytest.raises(TooManyError, match="more than a table can count"):
        allocations.of(_asked("gb200-nvl72"), range(2, 73))
    with pytest.raises(TooManyError, match="there are 65519 allocations of 2 to 16 GPUs"):
        allocations.of(_asked("dgx1v(nodes=2)"), range(2, 17))
    with pytest.raises(TooManyError, match="there are 65519 allocations"):
        allocations.of(_asked("dgx2"), range(2, 17), every=True)


@pytest.mark.parametrize("machine", ["dgx1v", "dgx1p", "dgx2", "dgx-h100", "dgx1v(nodes=2)", "dgx2(nodes=2)"])
def test_the_border_of_a_certificate_carries_what_it_says(machine: str) -> None:
    """The links across it, counted on the machine, are the capacity that the engine states, and prove the rate."""
    graph = notation.parse(machine).graph()
    last = graph.npus - 1
    for gpus in ((0, 1), (0, 1, 2, 3), (1, 4, 5, 6), (0, 2, 3, 5, 6), tuple(range(8)), (0, 1, 2, last)):
        asked = question.asked(graph, gpus)
        for kind in packing.TASKS:
            packed = pack.of(asked, kind)
            assert packed.bound is not None
            assert sum(each.rate for each in border.crossings(asked, packed)) == packed.bound.capacity
            held = border.sets(asked, packed)
            assert sum(map(len, held)) == len(frozenset().union(*held))
            assert "limits the rate" not in border.reason(asked, packed), "the certificate is explained"


def test_one_gpu_has_no_border() -> None:
    graph = notation.parse("dgx1v").graph()
    asked = question.asked(graph, (3,))
    packed = pack.of(asked, "all-reduce")
    assert (border.crossings(asked, packed), border.sets(asked, packed), border.reason(asked, packed)) == ([], [], "")
