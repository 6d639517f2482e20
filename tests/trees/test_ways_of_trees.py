"""Messages of trees go over the links that the trees were packed on, whatever the fabric would choose."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import syncline
from syncline.fabric import notation
from syncline.treegen import pack, plan, question

KINDS = ("broadcast", "reduce", "scatter", "gather", "all-gather", "reduce-scatter", "all-reduce")
SIZE = 300_000_000

BESIDE = """
nodes: [A, B, {name: S, kind: switch}]
defaults: {latency: 1us}
links:
  - {from: A, to: B, rate: 3GB/s}
  - {from: A, to: S, rate: 2GB/s}
  - {from: B, to: S, rate: 2GB/s}
"""
TWO = """
nodes: [A, B, {name: S, kind: switch}, {name: T, kind: switch}]
defaults: {latency: 1us}
links:
  - {from: A, to: T, rate: 2GB/s}
  - {from: B, to: T, rate: 2GB/s}
  - {from: A, to: S, rate: 2GB/s}
  - {from: B, to: S, rate: 2GB/s}
"""


def _seconds(kind: str, fabric: dict[str, Any]) -> float:
    settings = {"workload.element": "1B"} | ({"collective.trees.links": "all"} if "machine" in fabric else {})
    ran = syncline.collective(kind, size=SIZE, algorithm="packed-trees", backend="flow", set=settings, **fabric)
    return float(ran.document["time_s"])


def _trees(kind: str, fabric: dict[str, Any]) -> dict[str, Any]:
    return dict(syncline.trees(collective=kind, links="all", size=SIZE, **fabric).document)


@pytest.mark.parametrize("text", [BESIDE, TWO], ids=["a switch beside a link", "two switches"])
@pytest.mark.parametrize("kind", KINDS)
def test_ways_beside_the_fabrics_own(kind: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(text)
    fabric = {"topology_file": file}
    assert _seconds(kind, fabric) == pytest.approx(SIZE / _trees(kind, fabric)["rate_bytes_per_s"], rel=0.02)


@pytest.mark.parametrize(
    ("kind", "machine", "gpus"),
    [("broadcast", "gb200-nvl72(nodes=2,trays=2)", "0,1,8"), ("all-gather", "dgx-a100(nodes=2)", "0-2,8,9")],
)
def test_switches_and_cards_of_a_machine_together(kind: str, machine: str, gpus: str) -> None:
    fabric = {"machine": machine, "gpus": gpus}
    assert _seconds(kind, fabric) == pytest.approx(SIZE / _trees(kind, fabric)["rate_bytes_per_s"], rel=0.06)


@pytest.mark.parametrize("seed", range(28))
def test_any_fabric_takes_the_time_of_the_rate(seed: int, tmp_path: Path) -> None:
    """Random links between GPUs and switches: no faster than the rate, and not much slower. Connections that share a
    link have equal shares of it, which trees of unequal weights do not need, so that some are.
    """
    chance, kind = Random(f"ways {seed}"), KINDS[seed % len(KINDS)]
    gpus = [f"G{number}" for number in range(chance.randint(2, 4))]
    switches = [f"S{number}" for number in range(chance.randint(1, 2))]
    hub = [(gpu, switches[0]) for gpu in gpus]
    others = [pair for pair in combinations([*gpus, *switches], 2) if pair not in hub and chance.random() < 0.5]
    links = [{"from": src, "to": dst, "rate": f"{chance.randint(1, 5)}GB/s"} for src, dst in [*hub, *others]]
    nodes = [*gpus, *({"name": name, "kind": "switch"} for name in switches)]
    file = tmp_path / "fabric.yaml"
    file.write_text(json.dumps({"nodes": nodes, "defaults": {"latency": "1us"}, "links": links}))
    fabric = {"topology_file": file}
    least = SIZE / _trees(kind, fabric)["rate_bytes_per_s"]
    assert 0.999 * least < _seconds(kind, fabric) < 1.25 * least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["broadcast", "reduce", "scatter", "gather", "all-gather", "reduce-scatter"])
def test_the_bound_of_links_that_are_unequal_either_way_is_what_the_best_trees_take(
    kind: str, seed: int, tmp_path: Path
) -> None:
    """What cuts say (the engine) and how many trees fit (the packing) is one number, found in two ways; nothing that
    is simulated is faster.
    """
    chance = Random(f"cuts {seed}")
    gpus = range(chance.randint(3, 4))
    links = [{"from": src, "to": dst, "rate": f"{chance.randint(1, 9)}GB/s"} for src, dst in permutations(gpus, 2)]
    file = tmp_path / "fabric.yaml"
    file.write_text(json.dumps({"npus": len(gpus), "directed": True, "defaults": {"latency": "1ns"}, "links": links}))
    fabric: dict[str, Any] = {"topology_file": file}
    settings = {"workload.element": "1B"}
    ran = syncline.collective(kind, size=SIZE, algorithm="packed-trees", backend="flow", set=settings, **fabric)
    found = ran.document
    assert found["lower_bound_s"] == pytest.approx(SIZE / _trees(kind, fabric)["rate_bytes_per_s"], rel=1e-6)
    assert found["lower_bound_s"] <= found["time_s"]


def test_only_ways_that_need_it_are_named() -> None:
    """Machines whose GPUs have one way to each other have plans that runtimes carry out as they are."""
    for machine in ("dgx1v", "dgx2", "dgx-h100"):
        graph = notation.parse(machine).graph()
        asked = question.asked(graph, range(graph.npus))
        form = plan.form(graph, asked, pack.of(asked, "broadcast"), 4, "trees")
        assert "through" not in json.dumps(form)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ({"through": ["T"]}, "the fabric has no switch 'T' that messages pass"),
        ({"through": ["B"]}, "the fabric has no switch 'B' that messages pass"),
        ({"through": ["S", "S"]}, "there is no way from A to B through S, S"),
    ],
)
def test_a_way_that_there_is_not(way: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(BESIDE)
    send = {"op": "s", "block": 0, "to": 1, "into": [0, 0], "way": way}
    program = {
        "collective": "broadcast",
        "blocks": 1,
        "ranks": [[[{"steps": [send]}]], [[{"steps": [{"op": "r", "block": 0, "from": 0}]}]]],
    }
    head = {"format": "syncline-plan", "version": 2, "collective": "broadcast", "root": 0, "grid": [2]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**head, "name": "one", "programs": [program]}))
    with pytest.raises(syncline.InputError) as refused:
        syncline.collective("broadcast", size=SIZE, topology_file=file, plan=path, backend="flow")
    assert any(said in problem.message for problem in refused.value.problems)
