"""NCCL's own estimate, by which it chooses among algorithms between nodes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.nccl import chunks, model, tuning, wire
from syncline.nccl.platform import NCCL, ctas_of, nccl_of, platform

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
    latency = 1.4 * (8.4e-6 + 28 * 3.4e-6 + 2 * 14e-6)
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
    assert times[1] - times[0] == pytest.approx(2 * 5e-6)


def test_nvls_trees_carry_what_their_channels_do() -> None:
    """57.7 GB/s per GPU of a node on the bus with two nodes, 45.5 with more."""
    two, eight = (replace(platform(f"dgx-h100(nodes={nodes})"), nccl=(2, 28)) for nodes in (2, 8))
    assert tuning.nvls_tree_rate(two) == pytest.approx(8 * 57.7e9 / (2 * 15 / 16))
    assert tuning.nvls_tree_rate(eight) == pytest.approx(8 * 45.5e9 / (2 * 63 / 64))


def test_until_2_27_they_carry_half_of_the_nics_with_more_than_two_nodes() -> None:
    assert tuning.nvls_tree_rate(platform("dgx-h100(nodes=8)")) == pytest.approx(5 / 6 * 8 * 48e9 / 2)
    assert tuning.nvls_tree_rate(platform("dgx-h100(nodes=2)")) == pytest.approx(8 * 57.7e9 / (2 * 15 / 16))


def test_releases_change_from_nvls_trees_to_rings_at_other_sizes() -> None:
    """Eight nodes: between 512 MiB and 1 GiB until 2.27 (table h100-64-tuned shows it), at more since 2.28."""
    for nccl, ring_from in (((2, 26), GIB), ((2, 30), 4 * GIB)):
        where = replace(platform("dgx-h100(nodes=8)"), nccl=nccl)
        firsts = [
            min((wire.NVLS_TREE, wire.RING), key=lambda way: tuning.estimate(where, "all-reduce", way, "Simple", size))
            for size in (ring_from // 2, ring_from)
        ]
        assert firsts == [wire.NVLS_TREE, wire.RING]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.26.2; default", (2, 26)),
        ("of 2020, about 2.7", (2, 7)),
        ("not stated; NCCL_ALGO=Ring NCCL_MIN_CTAS=24", NCCL),
        ("2.4.8; NCCL_TREE_THRESHOLD=0", (2, 4)),
        ("of 2024, not stated", NCCL),
        ("", NCCL),
    ],
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert nccl_of(text) == version


def test_least_channels_are_read() -> None:
    assert ctas_of("not stated; NCCL_MIN_CTAS=24 NCCL_IB_QPS_PER_CONNECTION=2") == 24
    assert ctas_of("2.26.2; default") == 0


@pytest.mark.parametrize("nodes", [1, 2])
def test_old_releases_lack_protocols_and_algorithms(nodes: int) -> None:
    machine = platform("dgx-h100" if nodes == 1 else f"dgx-h100(nodes={nodes})")
    for nccl, ll128, nvls in (((2, 4), False, False), ((2, 16), True, False), ((2, 27), True, True)):
        where = replace(machine, nccl=nccl)
        ways = model.open_model(where).candidates(MIB)
        assert any(way.protocol == "LL128" for way in ways) == ll128
        assert any(way.algorithm in (wire.NVLS, wire.NVLS_TREE) for way in ways) == nvls


class TestGathersWithin:
    """All-gather and reduce-scatter in one node: NVLS begins earlier than rings with Simple, which carry more."""

    @pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
    def test_b200_uses_nvls_for_middle_sizes(self, kind: str) -> None:
        found = model.open_model(platform("dgx-b200"), kind=kind)
        first = {size: found.candidates(size)[0].algorithm for size in (MIB, 2 * MIB, 16 * MIB, 128 * MIB, GIB)}
        assert [size for size, way in first.items() if way == wire.NVLS] == [16 * MIB]

    def test_h100_stays_with_rings(self) -> None:
        """NCCL counts on 8 x 40 GB/s there."""
        found = model.open_model(platform("dgx-h100"), kind="all-gather")
        assert {found.candidates(2**k)[0].algorithm for k in range(10, 34)} == {wire.RING}

    def test_releases_since_2_28_do_too(self) -> None:
        where = replace(platform("dgx-b200"), nccl=(2, 28))
        assert model.algorithms(where, "all-gather") == (wire.RING,)

    def test_a_rack_has_too_many_gpus(self) -> None:
        assert model.algorithms(platform("gb200-nvl72"), "all-gather") == (wire.RING,)


class TestChunks:
    """The rules of `calcCollChunking`: 16 channels and 8 GPUs, so that 128 KiB make rounds of 16 MiB."""

    @pytest.mark.parametrize(
        ("nodes", "size", "kibibytes"),
        [
            *((2, 4 * MIB, 32), (2, 8 * MIB, 64), (2, 63 * MIB, 64), (2, 64 * MIB, 128), (2, GIB, 128)),
            *((4, 4 * MIB, 32), (4, 8 * MIB, 64), (4, GIB, 64), (8, GIB, 64)),
            *((1, 7 * MIB, 16), (1, 8 * MIB, 32), (1, 64 * MIB, 64), (1, GIB, 128)),
        ],
    )
    def test_of_h100(self, nodes: int, size: int, kibibytes: int) -> None:
        where = platform("dgx-h100" if nodes == 1 else f"dgx-h100(nodes={nodes})")
        assert chunks.chunk(where, size) == kibibytes * KIB
        assert chunks.loop(where, size) == min(size, 128 * kibibytes * KIB)

    def test_more_channels_make_larger_rounds(self) -> None:
        where = platform("dgx-h100(nodes=8)")
        assert chunks.loop(replace(where, ctas=24), GIB) == 1.5 * chunks.loop(where, GIB)
        assert chunks.loop(replace(where, ctas=8), GIB) == chunks.loop(where, GIB)


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
