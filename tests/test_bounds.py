"""Closed forms."""

from __future__ import annotations

from fractions import Fraction

import pytest

from syncline.engine import bounds
from syncline.fabric.topology import parse


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


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all-reduce", Fraction(7, 4)),
        ("reduce-scatter", Fraction(7, 8)),
        ("all-gather", Fraction(7, 8)),
        ("all-to-all", Fraction(7, 8)),
        ("gather", Fraction(7, 8)),
        ("scatter", Fraction(7, 8)),
        ("broadcast", Fraction(1)),
        ("reduce", Fraction(1)),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, factor: Fraction) -> None:
    assert bounds.bus_bandwidth_factor(kind, 8) == factor
