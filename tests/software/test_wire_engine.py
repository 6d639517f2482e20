"""The closed forms against simulations of the same machine, link by link.

4 GiB, one chunk, an ideal endpoint whose steps cost a picosecond: what remains is what the wires carry, and latencies
that make 1 % at most. Broadcast and reduce are cut into slices on the way, whose first one takes all steps. In the
graphs of clusters a NIC hangs off PCIe, which is narrower than some NICs; the NICs here are slower than their PCIe.

Documented in docs/validation.md: what the two do not have in common.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest

from support.registry import WITHOUT_PACKETS
from syncline.core import _core
from syncline.engine import runs as engine
from syncline.fabric import allocation, notation, topology
from syncline.nccl import wire
from syncline.nccl.platform import Platform, platform

SIZE = 4 * 2**30
SWITCHED = ("dgx2", "dgx-a100", "dgx-h100")
MESHES = ("dgx1p", "dgx1v")
CLUSTERS = (
    "dgx-h100(nodes=2, nic_rate=40GB/s)",
    "dgx-h100(nodes=4, nic_rate=40GB/s)",
    "dgx2(nodes=2, nic_rate=10GB/s)",
    "dgx-h100(nodes=2, nics=single, nic_rate=40GB/s)",
    "dgx-a100(nodes=3, nics=single, nic_rate=20GB/s)",
)
RINGS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce")
AGREE = 0.02


@dataclass(frozen=True)
class Simulated:
    """What a simulation says."""

    seconds: float
    nvlink_bytes: int
    """Out of the busiest GPU, or into it, over NVLink."""
    nic_bytes: int
    """Out of the busiest node, or into it, through its NICs."""


@lru_cache(maxsize=256)
def simulated(machine: str, kind: str, algorithm: str, backend: str) -> Simulated:
    """A collective of all GPUs of a machine."""
    cluster = notation.parse(machine)
    graph = cluster.graph()
    several = cluster.hosts > 1
    groups = {"members": [list(range(graph.npus))], "grid": [cluster.machine.gpus, cluster.hosts]} if several else None
    seconds, links = run(graph.specification(), kind, algorithm, backend, groups)
    of_class = [(graph.classes[dim], node, port, sent) for dim, node, port, sent in links]
    nvlink: dict[tuple[str, str], int] = {}
    nic: dict[tuple[int | None, bool], int] = {}
    for name, node, port, sent in of_class:
        there = next(n for n in graph.nodes if port.endswith(f"to {n.name}"))
        here = graph.nodes[node]
        if name in allocation.NVLINK_CLASSES:
            for end, direction in ((here, "out"), (there, "in")):
                if end.kind == "npu":
                    nvlink[end.name, direction] = nvlink.get((end.name, direction), 0) + sent
        if name == "InfiniBand":
            for end, out in ((here, True), (there, False)):
                if end.kind == "nic":
                    nic[end.host, out] = nic.get((end.host, out), 0) + sent
    return Simulated(seconds, max(nvlink.values()), max(nic.values(), default=0))


def run(
    fabric: dict[str, Any], kind: str, algorithm: str, backend: str, groups: dict[str, Any] | None = None
) -> tuple[float, list[tuple[int, int, str, int]]]:
    """Seconds, and per link: class, sending node, port and bytes."""
    result = _core.run(
        json.dumps(
            {
                "fabric": fabric,
                "groups": groups,
                "network": {"backend": backend},
                "endpoint": {"kind": "ideal", "step_latency_ps": 1},
                "collectives": {
                    "algorithm": algorithm,
                    "padding": True,
                    "chunking": {"by": "count", "chunks": 1},
                    "inflight": 1,
                    "scheduling": "fifo",
                    "lanes": "split",
                    "element_bytes": 4,
                },
                "job": {"kind": "collective", "collective": kind, "bytes": SIZE, "root": 0},
                "output": {"window_ps": 10**12, "trace_npus": [], "trace_limit": 0},
            }
        )
    )
    links = engine.table("links", result["tables"]["links"]).to_pydict()
    rows = list(zip(links["dim"], links["node"], links["port"], links["bytes"], strict=True))
    return json.loads(result["summary"])["total_ps"] / engine.PS_PER_S, rows


def closed_form(where: Platform, kind: str, algorithm: str) -> wire.Wire:
    if algorithm == "double-binary-tree":
        return wire.tree(where.gpus, where.nodes, SIZE)
    if kind in ("gather", "scatter"):
        return wire.rooted(where.gpus, where.nodes, where.nics, SIZE)
    if algorithm == "direct":
        return wire.direct(where.gpus, where.nodes, SIZE)
    return wire.ring(kind, where.gpus, where.nodes, SIZE)


def ratio(machine: str, kind: str, algorithm: str, backend: str) -> float:
    """Simulated time over that of the closed form."""
    where = platform(machine)
    seconds = closed_form(where, kind, algorithm).seconds(where.nvlink_rate, where.node_nic_rate)
    return simulated(machine, kind, algorithm, backend).seconds / seconds


@pytest.mark.parametrize("backend", WITHOUT_PACKETS)
class TestRings:
    @pytest.mark.parametrize("kind", RINGS)
    @pytest.mark.parametrize("machine", SWITCHED)
    def test_behind_a_switch(self, machine: str, kind: str, backend: str) -> None:
        assert ratio(machine, kind, "ring", backend) == pytest.approx(1, abs=AGREE)
        found = simulated(machine, kind, "ring", backend)
        assert found.nvlink_bytes == pytest.approx(wire.ring(kind, platform(machine).gpus, 1, SIZE).nvlink_bytes)

    @pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
    @pytest.mark.parametrize("machine", MESHES)
    def test_over_all_nvlinks_of_a_mesh(self, machine: str, kind: str, backend: str) -> None:
        assert ratio(machine, kind, "ring", backend) == pytest.approx(1, abs=AGREE)
        found = simulated(machine, kind, "ring", backend)
        assert found.nvlink_bytes == pytest.approx(wire.ring(kind, 8, 1, SIZE).nvlink_bytes)


class TestRingsOfSeveralNodes:
    """With the flow backend: the analytical one does not see that messages share a NIC."""

    @pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
    @pytest.mark.parametrize("machine", CLUSTERS)
    def test_times(self, machine: str, kind: str) -> None:
        assert ratio(machine, kind, "ring", "flow") == pytest.approx(1, abs=AGREE)

    @pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
    @pytest.mark.parametrize("machine", CLUSTERS)
    def test_bytes(self, machine: str, kind: str) -> None:
        """Every GPU ends the node's part of one ring, so that all send as much over NVLink as the mean."""
        where, found = platform(machine), simulated(machine, kind, "ring", "flow")
        expected = wire.ring(kind, where.gpus, where.nodes, SIZE)
        assert found.nic_bytes == pytest.approx(expected.nic_bytes, rel=1e-3)
        assert found.nvlink_bytes == pytest.approx(expected.nvlink_bytes, rel=1e-3)


class TestNics:
    def test_two_of_a_switch_are_both_used(self) -> None:
        found = ratio("dgx-a100(nodes=2, nic_rate=20GB/s)", "all-reduce", "ring", "flow")
        assert found == pytest.approx(1, abs=AGREE)

    def test_rings_of_an_odd_number_of_nodes_leave_their_rail_once(self) -> None:
        """Where the ring closes, two of them may meet at a NIC of a pair."""
        found = ratio("dgx-a100(nodes=3, nic_rate=20GB/s)", "all-reduce", "ring", "flow")
        assert 1 - AGREE < found < 2 + AGREE


class TestDirect:
    @pytest.mark.parametrize("kind", ["all-to-all", "gather", "scatter"])
    @pytest.mark.parametrize("machine", SWITCHED)
    def test_behind_a_switch(self, machine: str, kind: str) -> None:
        assert ratio(machine, kind, "direct", "flow") == pytest.approx(1, abs=AGREE)
        expected = closed_form(platform(machine), kind, "direct")
        assert simulated(machine, kind, "direct", "flow").nvlink_bytes == pytest.approx(expected.nvlink_bytes)

    @pytest.mark.parametrize("machine", SWITCHED)
    def test_without_contention_at_the_root_as_well(self, machine: str) -> None:
        assert ratio(machine, "all-to-all", "direct", "analytical") == pytest.approx(1, abs=AGREE)
        assert ratio(machine, "scatter", "direct", "analytical") == pytest.approx(1, abs=AGREE)

    @pytest.mark.parametrize("machine", CLUSTERS)
    def test_bytes_of_several_nodes(self, machine: str) -> None:
        where, found = platform(machine), simulated(machine, "all-to-all", "direct", "flow")
        expected = wire.direct(where.gpus, where.nodes, SIZE)
        assert found.nic_bytes == pytest.approx(expected.nic_bytes)
        assert found.nvlink_bytes == pytest.approx(expected.nvlink_bytes)

    @pytest.mark.parametrize("machine", [*CLUSTERS, *(f"dgx-a100(nodes={n}, nic_rate=20GB/s)" for n in (2, 3))])
    def test_several_nodes_take_longer_than_their_bytes(self, machine: str) -> None:
        """Messages meet others at the NIC of whom they go to."""
        assert 1 - AGREE < ratio(machine, "all-to-all", "direct", "flow") < 1.15


class TestTrees:
    """NCCL's tree is a chain in a node and trees between nodes; the engine's are trees between all."""

    @pytest.mark.parametrize("nodes", [2, 4, 8, 16])
    @pytest.mark.parametrize("backend", WITHOUT_PACKETS)
    def test_between_nodes_of_one_gpu(self, nodes: int, backend: str) -> None:
        times, sent = between(nodes, backend)
        assert times == pytest.approx(1, abs=AGREE)
        assert sent == pytest.approx(1)

    def test_three_nodes_do_not_reach_it(self) -> None:
        assert wire.tree(3, 3, 1000).nic_bytes == 1500
        times, sent = between(3, "flow")
        assert 1 < times < 1.1
        assert sent == pytest.approx(1)

    @pytest.mark.parametrize("machine", SWITCHED)
    @pytest.mark.parametrize("backend", WITHOUT_PACKETS)
    def test_in_a_node_a_chain_sends_less(self, machine: str, backend: str) -> None:
        """A chain of g GPUs sends 2 (g-1)/g of the vector, trees send twice the vector."""
        more = Fraction(platform(machine).gpus, platform(machine).gpus - 1)
        found = simulated(machine, "all-reduce", "double-binary-tree", backend)
        assert found.nvlink_bytes == pytest.approx(2 * SIZE, rel=1e-6)
        assert 1 <= ratio(machine, "all-reduce", "double-binary-tree", backend) / more < 1 + AGREE


def between(nodes: int, backend: str) -> tuple[float, float]:
    """Simulated time and bytes over those of the closed form, of trees between nodes of one GPU each."""
    fabric = topology.parse(f"Switch({nodes}, rate=50GB/s, latency=1ns)").specification()
    seconds, links = run(fabric, "all-reduce", "double-binary-tree", backend)
    expected = wire.tree(nodes, nodes, SIZE)
    return seconds / expected.seconds(1e30, 50e9), max(link[3] for link in links) / float(expected.nic_bytes)
