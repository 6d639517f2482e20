"""NCCL's own estimate, by which it chooses among algorithms between nodes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.nccl import model, tuning, wire
from syncline.nccl.platform import platform

KIB, MIB, GIB = 2**10, 2**20, 2**30


def chosen(machine: str, size: int) -> tuple[str, str]:
    """The algorithm and protocol with the least estimate."""
    where = platform(machine)
    ways = [
        (algorithm, protocol)
        for algorithm in model.algorithms(where, "all-reduce")
        for protocol in (("Simple",) if algorithm == wire.NVLS_TREE else ("LL", "LL128", "Simple"))
    ]
    return min(ways, key=lambda way: tuning.estimate(where, "all-reduce", way[0], way[1], size))


def test_a_ring_is_latency_and_bytes() -> None:
    """16 GPUs, 28 steps within and 2 between nodes, 1.4 times for Simple; 2 (N-1)/N of the vector at 8 x 48 GB/s."""
    latency = 1.4 * (8.4e-6 + 28 * 3.4e-6 + 2 * (14e-6 + 2 * tuning.NIC_LATENCY))
    expected = latency + 2 * 15 / 16 * GIB / (8 * 48e9)
    found = tuning.estimate(platform("dgx-h100(nodes=2)"), "all-reduce", wire.RING, "Simple", GIB)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("nodes", [4, 8])
def test_small_messages_go_by_trees_and_the_largest_by_rings(nodes: int) -> None:
    machine = f"dgx-h100(nodes={nodes})"
    assert chosen(machine, KIB) == (wire.TREE, "LL")
    assert chosen(machine, MIB) == (wire.TREE, "LL128")
    assert chosen(machine, 64 * MIB) == (wire.NVLS_TREE, "Simple")
    assert chosen(machine, 16 * GIB) == (wire.RING, "Simple")


def test_two_nodes_stay_with_trees() -> None:
    assert chosen("dgx-h100(nodes=2)", 16 * GIB)[0] == wire.NVLS_TREE
    assert chosen("dgx-a100(nodes=2)", 16 * GIB)[0] == wire.TREE
    assert chosen("dgx-a100(nodes=4)", 16 * GIB)[0] == wire.RING


def test_the_depth_of_a_tree_is_logarithmic() -> None:
    times = [
        tuning.estimate(platform(f"dgx-a100(nodes={nodes})"), "all-reduce", wire.TREE, "LL", 8) for nodes in (4, 8, 16)
    ]
    assert times[1] - times[0] == pytest.approx(times[2] - times[1])
    assert times[1] - times[0] == pytest.approx(2 * (5e-6 + tuning.NIC_LATENCY))


def test_nvls_trees_carry_what_their_channels_do() -> None:
    """57.7 GB/s per GPU of a node on the bus with two nodes, 45.5 with more."""
    assert tuning.nvls_tree_rate(platform("dgx-h100(nodes=2)")) == pytest.approx(8 * 57.7e9 / (2 * 15 / 16))
    assert tuning.nvls_tree_rate(platform("dgx-h100(nodes=8)")) == pytest.approx(8 * 45.5e9 / (2 * 63 / 64))


@given(st.sampled_from(("LL", "LL128", "Simple")), st.floats(0, 40))
def test_the_factor_of_a_tree_lies_on_the_lines_of_its_table(protocol: str, place: float) -> None:
    factors = tuning.TREE_FACTORS[protocol]
    size = int(64 * 2**place)
    ends = [factors[k] if k < len(factors) else 1.0 for k in (math.floor(place), math.floor(place) + 1)]
    assert min(ends) - 1e-9 <= tuning.tree_factor(protocol, size) <= max(ends) + 1e-9 or place < 1
    assert tuning.tree_factor(protocol, 64 * 2**8) == pytest.approx(factors[8])


def test_what_is_chosen_decides_the_time() -> None:
    assert model.chosen([1.0, 100.0], [3.0, 7.0]) == pytest.approx(3.0)
    assert model.chosen([1.0, 1.0], [2.0, 8.0]) == pytest.approx(4.0)
