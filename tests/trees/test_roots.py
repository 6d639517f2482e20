"""The choice of roots, and of trees both ways or one after the other."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support import cuts
from support.command import Ended
from syncline.fabric import notation
from syncline.treegen import choice, pack, question, roots
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

Command = Callable[..., Ended]

STAR = """
npus: 4
links:
  - {from: 0, to: 1, rate: 10GB/s, latency: 500ns}
  - {from: 1, to: 2, rate: 20GB/s, latency: 500ns}
  - {from: 1, to: 3, rate: 20GB/s, latency: 500ns}
"""


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "scatter", "gather"])
def test_no_root_is_better_than_auto(kind: str, syncline_command: Command) -> None:
    """By rate, then by time, then by number, whatever the collective; GPU 0 alone has one link only."""
    for gpus in ("0,1,3,4,5", "1,4,5,6"):
        flags = ["trees", "--machine", "dgx1v", "--gpus", gpus, "--collective", kind, "--json", "--size", "10MB"]
        every = [_document(syncline_command(*flags, "--root", gpu)) for gpu in gpus.split(",")]
        chosen = _document(syncline_command(*flags, "--root", "auto"))
        best = min(every, key=lambda found: (-found["rate_bytes_per_s"], found["predicted_time_s"]))
        assert {**chosen, "cost": None} == {**best, "cost": None}


def _listed(packed: Packing) -> list[Any]:
    ends = [[(packed.arcs[arc].src, packed.arcs[arc].dst) for arc in tree.arcs] for tree in packed.trees]
    return [(tree.root, tree.weight, edges) for tree, edges in zip(packed.trees, ends, strict=True)]


@pytest.mark.parametrize("size", range(2, 9))
def test_roots_of_an_all_reduce_are_moved_at_no_cost(size: int) -> None:
    """From any one root, or from the centre of each tree: the same rate, on links that carry no more."""
    graph = notation.parse("dgx1v").graph()
    for gpus in itertools.combinations(range(8), size):
        asked = question.asked(graph, gpus)
        found = pack.of(asked, "all-reduce")
        capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
        deepest = max((tree.depth(found.arcs) for tree in found.trees), default=0)
        for root in (None, "auto", size - 1):
            other = roots.moved(asked, found, root)
            assert other.rate == found.rate
            assert cuts.fault(_listed(other), capacity, range(size), both=True) is None
            depth = max((tree.depth(other.arcs) for tree in other.trees), default=0)
            assert depth <= (deepest if root is None else size - 1)
            assert root is None or len({tree.root for tree in other.trees}) <= 1
            assert root != size - 1 or {tree.root for tree in other.trees} <= {root}


def test_either_way_of_an_all_reduce_has_a_time() -> None:
    """What is predicted to be faster is taken; with a large vector both ways, which have the larger rate."""
    asked = question.asked(notation.parse("dgx1v").graph(), tuple(range(8)))
    for size in (10**4, 10**6, 10**8, 10**11):
        best = choice.best(asked, "all-reduce", None, choice.Goal("time", size))
        assert set(best.predicted_s) == {choice.BOTH_WAYS, choice.ONE_AFTER_THE_OTHER}
        taken = choice.ONE_AFTER_THE_OTHER if best.packing.stages else choice.BOTH_WAYS
        assert best.predicted_s[taken] == min(best.predicted_s.values())
    assert not best.packing.stages
    stages = tuple(pack.of(asked, kind) for kind in choice.STAGES)
    after = replace(best.packing, trees=(), stages=stages)
    assert after.rate == 3 * asked.link_unit < best.packing.rate  # six links down and six up, in turn


@pytest.mark.parametrize("seed", range(30))
def test_the_root_of_two_stages_is_best_for_both_together(seed: int) -> None:
    """Links are unequal either way, so that the best roots of a reduce and of a broadcast are others."""
    chance = random.Random(seed)
    gpus = chance.randint(3, 5)
    arcs = tuple((src, dst, chance.randint(1, 9)) for src, dst in itertools.permutations(range(gpus), 2))
    asked = Question(tuple(range(gpus)), tuple(range(gpus)), arcs, 1, "all", others=False)
    times = [sum(1 / pack.of(asked, kind, root).rate for kind in choice.STAGES) for root in range(gpus)]
    assert times[roots.of_stages(asked)] == min(times)


def test_one_root_of_an_all_reduce(tmp_path: Path, syncline_command: Command) -> None:
    """The centre of a star, unless another one is asked for."""
    path = tmp_path / "links.yaml"
    path.write_text(STAR)
    flags = ["trees", "--topology-file", str(path), "--collective", "all-reduce", "--json"]
    for root, where, depth in (("auto", 1, 1), ("0", 0, 2)):
        found = _document(syncline_command(*flags, "--root", root))
        assert {tree["root"] for tree in found["trees"]} == {where}
        assert {tree["depth"] for tree in found["trees"]} == {depth}
        assert found["rate_bytes_per_s"] == found["optimal_rate_links"] * found["link_unit_bytes_per_s"]
