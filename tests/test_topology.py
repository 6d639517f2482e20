"""Topology strings."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline import topology
from syncline.topology import Ring, Topology, TopologyError


def test_parameters_of_a_dimension() -> None:
    parsed = topology.parse("Ring(4, rate=200GB/s, latency=72.289ns, links=2, efficiency=94%)_Ring(8)")
    assert parsed.dims == (
        Ring(4, 200_000_000_000, 72_289, 2, Fraction(94, 100)),
        Ring(8, 50_000_000_000, 500_000, 1, Fraction(1)),
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


def test_rings_of_one_and_two() -> None:
    assert topology.parse("Ring(1)").egress_rate == 0
    assert topology.parse("Ring(2)").egress_rate == 100_000_000_000  # both links, to the same neighbour


rings = st.builds(
    Ring,
    size=st.integers(1, 64),
    rate=st.integers(100, 10**13),
    latency=st.integers(0, 10**9),
    links=st.integers(1, 4),
    efficiency=st.integers(1, 10_000).map(lambda n: Fraction(n, 10_000)),
)


@given(st.lists(rings, min_size=1, max_size=4))
def test_what_is_printed_is_read_back(dims: list[Ring]) -> None:
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
        ("Switch(16)", "Switch is not available in this version"),
        ("FullyConnected(8)_Ring(2)", "FullyConnected is not available in this version"),
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
        ("Torus(4,4,4,links=16)", "an NPU would have 96 links"),
        ("Ring(4, rate=1B/s, efficiency=1%)", "rate times efficiency is less than one byte per second"),
    ],
)
def test_refusals_say_why(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        topology.parse(text)
    assert refused.value.message == message
