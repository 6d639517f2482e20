"""Numbers with units read back as what they were, by the units that quantities are read with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.base import quantities, text_units
from syncline.base.quantities import Kind
from syncline.results import units

COUNTS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read(text: str, kind: Kind) -> float:
    """What a number with a unit is worth."""
    number, _, unit = text.replace(",", "").partition(" ")
    return float(number) * float(kind.units[unit]) * (1e-12 if kind is quantities.TIME else 1)


@given(st.floats(1e-12, 1e5))
@pytest.mark.parametrize("text", [units.time, text_units.duration])
def test_times_read_back(text: Callable[[float], str], seconds: float) -> None:
    # Of some picoseconds, a message has whole ones.
    assert read(text(seconds), quantities.TIME) == pytest.approx(seconds, rel=2e-3, abs=5.1e-13)


@given(st.integers(1, 10**15))
def test_sizes_and_rates_read_back(number: int) -> None:
    for label in (units.size(number), units.binary_scale([number]).label(number)):
        assert read(label, quantities.SIZE) == pytest.approx(number, rel=2e-3)
    assert read(units.rate_scale([number]).label(number), quantities.RATE) == pytest.approx(number, rel=2e-3)
    assert read(text_units.size(number), quantities.SIZE) == pytest.approx(number, rel=0.051)
    assert read(text_units.bandwidth(number), quantities.RATE) == pytest.approx(number, rel=0.051)


@given(st.integers(1, 10**15))
def test_counts_and_numbers_on_axes_read_back(count: int) -> None:
    scale = units.count_scale([count])
    number, _, unit = scale.label(count).replace(",", "").partition(" ")
    assert float(number) * COUNTS[unit] == pytest.approx(count, rel=2e-3)
    assert (scale.of(count) or 0) * COUNTS[unit] == pytest.approx(count, rel=1e-4)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=5))
def test_a_common_unit_suits_the_largest(seconds: list[float]) -> None:
    scale = units.time_scale(seconds)
    assert 0.99 < max(seconds) / scale.factor < 1000 or scale.unit == "s"
    for value in seconds:
        shown = scale.text(value)
        if not shown.startswith("<"):
            step = 10.0**-scale.digits
            assert float(shown.replace(",", "")) == pytest.approx(value / scale.factor, abs=0.51 * step)


@given(st.floats(0, 100))
def test_shares_and_factors(value: float) -> None:
    assert float(units.percent(value).removesuffix(" %")) == pytest.approx(100 * value, abs=0.051)
    assert float(text_units.percent(value).removesuffix(" %")) == pytest.approx(100 * value, abs=0.051)
    assert float(units.factor(value).removesuffix("\N{MULTIPLICATION SIGN}")) == pytest.approx(value, abs=0.0051)
    assert float(text_units.times(value).removesuffix("x")) == pytest.approx(value, abs=0.0051)
