"""Closed forms."""

from __future__ import annotations

from fractions import Fraction

import pytest

from syncline import bounds
from syncline.topology import parse


def test_what_the_compositions_send() -> None:
    topology = parse("Torus(4,4,4)")
    assert bounds.sent_per_byte("all-reduce", "ace-4-phase", topology) == Fraction(9, 4)
    assert bounds.sent_per_byte("all-reduce", "ring", topology) == Fraction(9, 2)
    assert bounds.sent_per_byte("all-reduce", "six-phase", topology) == Fraction(2 * 63, 64)
    assert bounds.sent_per_byte("all-gather", "ring", topology) == Fraction(63, 64)


@pytest.mark.parametrize(("shape", "gbps"), [("4,4", 282), ("2,2", 376), ("4,1", 235)])
def test_the_slow_dimensions_bound_the_four_phases(shape: str, gbps: int) -> None:
    topology = parse(f"Ring(4, rate=200GB/s, efficiency=94%)_Torus({shape}, rate=25GB/s, efficiency=94%)")
    assert bounds.payload_bound("all-reduce", "ace-4-phase", topology) == gbps * 10**9


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "ace-4-phase", "hierarchical-optimal", "six-phase"])
@pytest.mark.parametrize(
    "shape", ["Ring(1)", "Ring(2)", "Ring(7)", "Torus(3,1,5)", "Torus(4,8,4)", "FullyConnected(8)_Switch(4)"]
)
@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
def test_nothing_sends_less_than_the_bound_assumes(algorithm: str, shape: str, kind: str) -> None:
    topology = parse(shape)
    least = bounds.bus_bandwidth_factor(kind, topology.npus)
    assert bounds.sent_per_byte(kind, algorithm, topology) >= least


def test_small_messages_are_bound_by_latency() -> None:
    assert bounds.lower_bound_s("all-reduce", 2, parse("Torus(8,8, latency=1us)")) == pytest.approx(8e-6)
    assert bounds.lower_bound_s("all-reduce", 0, parse("Torus(8,8)")) == 0
    assert bounds.lower_bound_s("all-reduce", 10**9, parse("Ring(1)")) == 0


def test_a_switch_is_two_hops_and_one_egress() -> None:
    star = parse("Switch(8, rate=300GB/s, latency=1us)")
    assert bounds.lower_bound_s("all-gather", 8, star) == pytest.approx(2e-6, rel=1e-4)
    assert bounds.lower_bound_s("all-gather", 24 * 10**9, star) == pytest.approx(0.07 + 2e-6)
