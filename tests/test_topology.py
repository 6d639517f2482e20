"""Topology strings."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.fabric import topology
from syncline.fabric.topology import BLOCKS, Dimension, Topology, TopologyError


def test_parameters_of_a_dimension() -> None:
    parsed = topology.parse("Ring(4, rate=200GB/s, latency=72.289ns, links=2, efficiency=94%)_Ring(8)")
    assert parsed.dims == (
        Dimension("ring", 4, 200_000_000_000, 72_289, 2, Fraction(94, 100)),
        Dimension("ring", 8, 50_000_000_000, 500_000, 1, Fraction(1)),
    )
    assert parsed.dims[0].payload_rate == 188_000_000_000
    assert parsed.dims[0].filled_in == frozenset()
    assert parsed.dims[1].filled_in == {"rate", "latency", "links", "efficiency"}


def test_a_torus_is_short_for_rings() -> None:
    assert topology.parse("Torus(4,8,4, latency=1us)") == topology.parse(
        "Ring(4, latency=1us)_Ring(8, latency=1us)_Ring(4, latency=1us)"
    )


def test_totals_of_table_v() -> None:
    links = "latency=500cycles@1245MHz, efficiency=94%"
    parsed = topology.parse(
        f"Ring(4, rate=200GB/s, latency=90cycles@1245MHz, efficiency=94%)_Torus(8,4,rate=25GB/s,{links})"
    )
    assert (parsed.npus, parsed.shape) == (128, "4x8x4")
    assert parsed.wire_rate == 500_000_000_000
    assert parsed.egress_rate == 470_000_000_000
    assert parsed.diameter == 2 * 72_289 + 4 * 401_606 + 2 * 401_606


def test_full_meshes_and_switches() -> None:
    mesh = topology.parse("FullyConnected(8, rate=25GB/s, latency=1us, links=2)")
    assert (mesh.npus, mesh.dims[0].links_per_npu, mesh.diameter) == (8, 14, 1_000_000)
    assert mesh.egress_rate == 14 * 25_000_000_000
    star = topology.parse("Switch(16, rate=25GB/s, latency=300ns, links=12, efficiency=80%)")
    assert (star.npus, star.dims[0].links_per_npu, star.diameter) == (16, 12, 600_000)
    assert star.egress_rate == 240_000_000_000


def test_blocks_mix() -> None:
    parsed = topology.parse("FullyConnected(8)_Switch(16)_Ring(5)")
    assert (parsed.npus, parsed.shape) == (640, "8x16x5")
    assert [d.links_per_npu for d in parsed.dims] == [7, 1, 2]
    assert parsed.diameter == (1 + 2 + 2) * 500_000


@pytest.mark.parametrize("block", BLOCKS)
def test_one_npu_needs_no_links(block: str) -> None:
    alone = topology.parse(f"{block}(1)")
    assert (alone.egress_rate, alone.diameter) == (0, 0)


def test_rings_of_one_and_two() -> None:
    assert topology.parse("Ring(1)").egress_rate == 0
    assert topology.parse("Ring(2)").egress_rate == 100_000_000_000  # both links, to the same neighbour


dimensions = st.builds(
    Dimension,
    block=st.sampled_from(list(BLOCKS.values())),
    size=st.integers(1, 64),
    rate=st.integers(100, 10**13),
    latency=st.integers(0, 10**9),
    links=st.integers(1, 4),
    efficiency=st.integers(1, 10_000).map(lambda n: Fraction(n, 10_000)),
)


@given(st.lists(dimensions, min_size=1, max_size=4))
def test_what_is_printed_is_read_back(dims: list[Dimension]) -> None:
    printed = Topology(tuple(dims))
    if any(d.payload_rate == 0 for d in dims):
        return
    assert topology.parse(str(printed)) == printed


@given(st.text(alphabet="RingToruSwch(),_=0123456789 rate%GB/slinks.@", max_size=60))
def test_anything_is_a_topology_or_a_topology_error(text: str) -> None:
    try:
        assert topology.parse(text).npus >= 1
    except TopologyError as error:
        assert error.message
        assert error.accepted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the topology is empty"),
        ("4x8x4", "no block such as Ring(4) at character 1"),
        ("Rign(4)", "'Rign' is not a block; did you mean 'Ring'?"),
        ("Swich(16)", "'Swich' is not a block; did you mean 'Switch'?"),
        ("FullyConnected(2,4)", "FullyConnected takes one size, not 2; Torus(4,8,4) takes several"),
        ("FullyConnected(4097, links=2)", "an NPU would have 8192 links"),
        ("Switch(65536, links=2)", "a switch would have 131072 links"),
        ("Switch(65536)", "a switch would have 65536 links"),
        ("Ring(0)", "in Ring: size '0' is not a whole number from 1 to 67108864"),
        ("Ring(-4)", "in Ring: size '-4' is not a whole number from 1 to 67108864"),
        ("Ring(4.0)", "in Ring: size '4.0' is not a whole number from 1 to 67108864"),
        ("Ring()", "in Ring: size '' is not a whole number from 1 to 67108864"),
        ("Ring(4, 4)", "Ring takes one size, not 2; Torus(4,8,4) takes several"),
        ("Ring(rate=1GB/s)", "Ring takes one size, not 0; Torus(4,8,4) takes several"),
        ("Torus(rate=1GB/s)", "in Torus: the sizes are missing"),
        ("Ring(4)Ring(4)", "blocks are joined by _, found 'R' at character 8"),
        ("Ring(4)_", "no block such as Ring(4) at character 9"),
        ("Ring(4, bandwith=1GB/s)", "in Ring: 'bandwith' is not a parameter"),
        ("Ring(4, rats=1GB/s)", "in Ring: 'rats' is not a parameter; did you mean 'rate'?"),
        ("Ring(4, rate=1GB/s, rate=2GB/s)", "in Ring: rate is given twice"),
        ("Ring(rate=1GB/s, 4)", "in Ring: the size '4' comes after a parameter"),
        ("Ring(4, links=0)", "in Ring: links '0' is not a whole number from 1 to 32"),
        ("Ring(4, efficiency=0.94)", "in Ring: efficiency=0.94: this is not a percentage: the % sign is missing"),
        ("Torus(4096,4096,4096)", "the topology has more than 67108864 NPUs"),
        ("Ring(4, rate=1B/s, efficiency=1%)", "rate times efficiency is less than one byte per second"),
    ],
)
def test_refusals_say_why(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        topology.parse(text)
    assert refused.value.message == message
