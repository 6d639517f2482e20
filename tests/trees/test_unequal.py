"""All-reduces over links that are unequal either way, held against a linear program over all trees there are."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support import cuts
from support.command import Ended
from syncline.treegen import pack, unequal
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

Command = Callable[..., Ended]


def _question(gpus: int, capacity: dict[tuple[int, int], int]) -> Question:
    numbers = tuple(range(gpus))
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(capacity.items()))
    return Question(numbers, numbers, arcs, 1, "all", others=False)


def _fault(packed: Packing, capacity: dict[tuple[int, int], int], gpus: int) -> str | None:
    def edges(arcs: tuple[int, ...]) -> list[tuple[int, int]]:
        return [(packed.arcs[arc].src, packed.arcs[arc].dst) for arc in arcs]

    listed = [(tree.root, tree.weight, edges(tree.arcs)) for tree in packed.trees]
    back = [edges(tree.back) for tree in packed.trees if tree.back is not None]
    assert len(back) in (0, len(listed))
    return cuts.fault(listed, capacity, range(gpus), both=not back, back=back)


def _proved(packed: Packing, capacity: dict[tuple[int, int], int], gpus: int) -> Fraction:
    """The bound that sets prove, counted anew."""
    assert packed.bound is not None
    shares = packed.bound.shares
    of_arc = {}
    for src, dst in capacity:
        into = sum(s.times for s in shares if s.inward and src not in s.nodes and dst in s.nodes)
        out = sum(s.times for s in shares if not s.inward and src in s.nodes and dst not in s.nodes)
        of_arc[src, dst] = max(into, out)
    often = max(sum(s.times for s in shares if gpu in s.nodes) for gpu in range(gpus))
    total = sum(s.times for s in shares)
    return sum((Fraction(capacity[arc]) * times for arc, times in of_arc.items()), Fraction(0)) / (total - often)


def _network(seed: int, most: int) -> tuple[int, dict[tuple[int, int], int]]:
    chance = random.Random(seed)
    gpus = chance.randint(2, most)
    density = chance.choice([0.5, 0.8, 1.0])
    pairs = itertools.permutations(range(gpus), 2)
    return gpus, {pair: chance.randint(1, 9) for pair in pairs if chance.random() < density}


@pytest.mark.parametrize("seed", range(80))
def test_nothing_is_faster_of_all_trees(seed: int) -> None:
    """The rate is the optimum over all trees; it is proved by sets, and trees of that rate fit."""
    gpus, capacity = _network(seed, 5)
    packed = pack.of(_question(gpus, capacity), "all-reduce")
    if len(packed.components) > 1:
        assert packed.rate == packed.best_rate == 0
        return
    assert packed.rate == packed.best_rate
    assert float(packed.rate) == pytest.approx(cuts.all_reduce(capacity, range(gpus)), rel=1e-7)
    assert _fault(packed, capacity, gpus) is None
    if packed.bound is not None and packed.bound.shares:
        assert _proved(packed, capacity, gpus) == packed.rate


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_larger_networks_are_proved(seed: int) -> None:
    gpus, capacity = _network(seed, 8)
    packed = pack.of(_question(gpus, capacity), "all-reduce")
    even = {(a, b): min(rate, capacity.get((b, a), 0)) for (a, b), rate in capacity.items()}
    assert packed.rate == packed.best_rate
    assert packed.rate >= (cuts.both_ways(even, range(gpus)) if gpus < 8 else 0)
    assert packed.rate <= cuts.both_ways(capacity, range(gpus))
    if packed.trees:
        assert _fault(packed, capacity, gpus) is None


def test_a_ring_one_way() -> None:
    """No link has an opposite, so that no tree could be used both ways."""
    capacity = {(gpu, (gpu + 1) % 4): 6 for gpu in range(4)}
    packed = pack.of(_question(4, capacity), "all-reduce")
    assert packed.rate == packed.best_rate == 4  # 6 links of 4 are each used by 3 trees to a root and 3 from it
    assert _fault(packed, capacity, 4) is None


def test_a_root_that_is_given() -> None:
    gpus, capacity = _network(3, 4)
    asked = _question(gpus, capacity)
    best = pack.of(asked, "all-reduce")
    for root in range(gpus):
        packed = unequal.improved(asked, best, root)
        assert {tree.root for tree in packed.trees} == {root}
        assert 0 < packed.rate <= best.rate
        assert _fault(packed, capacity, gpus) is None


UNEVEN = """
npus: 4
directed: true
defaults: {latency: 500ns}
links:
  - {from: 0, to: 1, rate: 30GB/s}
  - {from: 1, to: 0, rate: 10GB/s}
  - {from: 1, to: 2, rate: 20GB/s}
  - {from: 2, to: 1, rate: 10GB/s}
  - {from: 2, to: 3, rate: 20GB/s}
  - {from: 3, to: 2, rate: 5GB/s}
  - {from: 3, to: 0, rate: 30GB/s}
  - {from: 0, to: 3, rate: 10GB/s}
  - {from: 2, to: 0, rate: 10GB/s}
  - {from: 0, to: 2, rate: 20GB/s}
"""


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


@pytest.mark.parametrize("root", [None, "2"])
def test_the_plan_takes_the_time_of_the_rate(root: str | None, tmp_path: Path, syncline_command: Command) -> None:
    """Trees to the roots and trees from them are one plan, which is verified and simulated."""
    links = tmp_path / "links.yaml"
    links.write_text(UNEVEN)
    fabric = ["--topology-file", str(links)]
    flags = ["trees", *fabric, "--collective", "all-reduce", "--size", "100GB"]
    flags += [] if root is None else ["--root", root]
    found = _document(syncline_command(*flags, "--json"))
    assert root is not None or not any("do not reach the bound" in warning for warning in found["warnings"])
    assert any("edges_to_root" in tree for tree in found["trees"])
    path = str(tmp_path / "trees.json")
    assert syncline_command(*flags, "--format", "plan", "-o", path).status == 0
    assert syncline_command("verify", path).status == 0
    run = ["collective", "all-reduce", "--size", "20GB", *fabric, "--plan", path, "--backend", "flow", "--json"]
    rate = _document(syncline_command(*run))["algorithm_bandwidth_bytes_per_s"]
    assert rate == pytest.approx(found["rate_bytes_per_s"], rel=0.01)
