"""Quantities are read exactly, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.base import quantities
from syncline.base.quantities import COMPUTE, FREQUENCY, LARGEST, RATE, SIZE, TIME, Kind, QuantityError

READERS: list[tuple[Kind, Callable[[object], int]]] = [
    (SIZE, quantities.size),
    (RATE, quantities.rate),
    (TIME, quantities.time),
    (FREQUENCY, quantities.frequency),
    (COMPUTE, quantities.compute_rate),
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64MB", 64_000_000),
        ("64MiB", 64 * 2**20),
        ("8kB", 8000),
        ("8KB", 8000),
        ("8KiB", 8192),
        ("1.5KiB", 1536),
        (" 2 GB ", 2_000_000_000),
        ("1e3B", 1000),
        ("0.001TiB", None),
        ("9223372036854775807B", LARGEST),
    ],
)
def test_sizes(text: str, value: int | None) -> None:
    if value is None:
        with pytest.raises(QuantityError):
            quantities.size(text)
    else:
        assert quantities.size(text) == value


def test_bits_are_eighths_of_bytes() -> None:
    assert quantities.rate("100Gb/s") == 12_500_000_000
    assert quantities.rate("8b/s") == 1
    assert quantities.rate("25GB/s") == 25_000_000_000


def test_cycles_are_rounded_to_the_nearest_picosecond() -> None:
    assert quantities.time("90cycles@1245MHz") == 72_289
    assert quantities.time("500cycles@1245MHz") == 401_606
    assert quantities.time("1cycle@1GHz") == 1000
    assert quantities.time("1cycles@400GHz") == 3  # 2.5 ps, halves up


def test_shares_are_exact_fractions() -> None:
    assert quantities.share("94%") == Fraction(94, 100)
    assert quantities.share("12.5 %") == Fraction(1, 8)
    assert quantities.format_share(Fraction(1, 8)) == "12.5%"


@pytest.mark.parametrize("micro", ["u", "\u00b5", "\u03bc"])
def test_micro_may_be_written_in_three_ways(micro: str) -> None:
    assert quantities.time(f"1.5{micro}s") == 1_500_000


@pytest.mark.parametrize(("kind", "read"), READERS, ids=lambda x: getattr(x, "name", ""))
@given(value=st.integers(1, LARGEST))
def test_what_is_formatted_is_read_back(kind: Kind, read: Callable[[object], int], value: int) -> None:
    assert read(kind.format(value)) == value


@given(
    number=st.fractions(min_value=0, max_value=10**6, max_denominator=10**4),
    unit=st.sampled_from(sorted(SIZE.units)),
)
def test_sizes_are_exact_or_refused(number: Fraction, unit: str) -> None:
    digits = f"{number.numerator / number.denominator:.6f}"
    exact = Fraction(digits) * SIZE.units[unit]
    if exact.denominator == 1 and 0 < exact <= LARGEST:
        assert quantities.size(digits + unit) == exact
    else:
        with pytest.raises(QuantityError):
            quantities.size(digits + unit)


@given(st.text(max_size=40) | st.integers() | st.floats() | st.none() | st.booleans() | st.lists(st.integers()))
def test_anything_is_a_quantity_or_a_quantity_error(value: object) -> None:
    for read in (
        *(read for _, read in READERS),
        quantities.share,
    ):
        try:
            read(value)
        except QuantityError as error:
            assert error.message
            assert error.accepted


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (quantities.size, 64, "the number has no unit; a size needs one (if you mean B, write 64B)"),
        (quantities.size, "64", "the unit is missing: write one of B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB"),
        (quantities.size, "64mb", "'mb' is not a unit of size; did you mean 'MB'?"),
        (quantities.size, "64GB/s", "'GB/s' is not a unit of size; that is a rate"),
        (quantities.size, "-1B", "a size cannot be negative"),
        (quantities.size, "0B", "the size must be more than zero"),
        (quantities.size, "0.5B", "this is not a whole number of B"),
        (quantities.size, "1e99TB", "the size is too large (at most 9223372036854775807B)"),
        (quantities.size, "1e999B", "the size is too large (at most 9223372036854775807B)"),
        (quantities.size, "", "this is not a size"),
        (quantities.size, None, "this is not a size"),
        (quantities.size, True, "this is not a size"),
        (quantities.size, "infB", "this is not a size"),
        (quantities.size, "\u0664B", "this is not a size"),
        (quantities.rate, "25GB", "'GB' is not a unit of rate; did you mean 'GB/s'?"),
        (quantities.rate, "100Gbps", "'Gbps' is not a unit of rate; did you mean 'Gb/s'?"),
        (quantities.rate, "1b/s", "this is not a whole number of B/s"),
        (quantities.time, "5cycles", "cycles need a clock: add one, such as @1245MHz"),
        (quantities.time, "5cycles@1245", "the unit is missing: write one of Hz, kHz, MHz, GHz, THz, PHz"),
        (quantities.time, "cycles@1GHz", "this is not a number of cycles"),
        (quantities.time, "0.0001cycles@1GHz", "this is less than half a picosecond"),
        (quantities.time, "0.5ps", "this is not a whole number of ps"),
        (quantities.share, 0.94, "the number has no unit; a percentage needs one (if you mean %, write 0.94%)"),
        (quantities.share, "0.94", "this is not a percentage: the % sign is missing"),
        (quantities.share, "101%", "the percentage is out of range"),
        (quantities.share, "0%", "the percentage is out of range"),
        (quantities.compute_rate, "120TFLOP", "'TFLOP' is not a unit of compute rate; did you mean 'TFLOP/s'?"),
    ],
)
def test_refusals_say_why(read: Callable[[object], object], text: object, message: str) -> None:
    with pytest.raises(QuantityError) as refused:
        read(text)
    assert refused.value.message == message


def test_zero_where_it_makes_sense() -> None:
    assert quantities.size("0B", zero=True) == 0
    assert quantities.time("0ns", zero=True) == 0
    with pytest.raises(QuantityError):
        quantities.size("-0.5B", zero=True)
