"""Trees that are found by trying, held against the integer program that finds them otherwise."""

from __future__ import annotations

import itertools
import random

import pytest

from syncline.fabric import notation
from syncline.treegen import choice, fewest, pack, question, search
from syncline.treegen.question import Question


def _regular(chance: random.Random) -> Question:
    """A network of links with equal capacities either way; every GPU has equally much."""
    gpus = chance.choice([5, 6, 7])
    capacity: dict[tuple[int, int], int] = {}
    for _ in range(chance.randint(2, 3)):
        order = chance.sample(range(gpus), gpus)
        count = chance.randint(1, 2)
        for pair in itertools.pairwise([*order, order[0]]):
            for ends in (pair, pair[::-1]):
                capacity[ends] = capacity.get(ends, 0) + count
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(capacity.items()))
    return Question(tuple(range(gpus)), tuple(range(gpus)), arcs, 1, "all", others=False)


@pytest.mark.parametrize("seed", range(25))
def test_trying_finds_as_few_trees_as_the_integer_program(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack.of(_regular(random.Random(seed)), "broadcast")
    tried = [choice.of(packed, goal, 1) for goal in ("trees", "depth")]
    monkeypatch.setattr(search, "exactly", lambda *_: None)
    solved = [choice.of(packed, goal, 1) for goal in ("trees", "depth")]

    def shape(chosen: choice.Chosen) -> tuple[int, object]:
        return len(chosen.trees), sum(tree.weight for tree in chosen.trees)

    assert [shape(chosen) for chosen in tried] == [shape(chosen) for chosen in solved]
    assert [chosen.at_least for chosen in tried] == [chosen.at_least for chosen in solved]
    deep = [max(tree.depth(packed.arcs) for tree in chosen.trees) for chosen in (tried[1], solved[1])]
    assert deep[0] == deep[1]


@pytest.mark.parametrize("machine", ["dgx1v", "dgx1p"])
def test_no_integer_program_is_needed_on_a_dgx1(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From every root, trying a few hundred links finds the shallowest trees."""
    monkeypatch.setattr("syncline.treegen.fewest._integer", lambda *_, **__: pytest.fail("an integer program"))
    asked = question.asked(notation.parse(machine).graph(), tuple(range(8)))
    for root in range(8):
        packed = pack.of(asked, "broadcast", root)
        chosen = fewest.shallowest(packed)
        assert sum(tree.weight for tree in chosen.trees) == packed.best_rate


def test_what_trying_says() -> None:
    """Two trees of a ring, none where a link is missing, nothing where GPUs have links to spare."""
    ends, ring = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)], [1] * 6
    trees = [(0, 2), (5, 3), (0, 5)]
    assert search.exactly(ends, ring, trees, 2.0, range(1, 3)) == [(0, 1), (1, 1)]
    assert search.exactly(ends, ring, trees, 2.0, range(1, 2)) is None
    assert search.exactly(ends, ring, trees[:1], 2.0, range(1, 9)) is None
    assert search.exactly(ends, [9] * 6, trees, 2.0, range(1, 9)) is None
    assert search.exactly(ends, ring, [], 2.0, range(1, 9)) is None
