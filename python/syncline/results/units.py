"""Numbers for people: a unit that fits, and no more digits than can be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LARGEST = 1e300
"""What can be drawn."""
MISSING = "\N{EN DASH}"
PS_PER_S = 10**12


@dataclass(frozen=True)
class Scale:
    """A unit and how many of the base unit it holds."""

    unit: str
    factor: float
    digits: int

    def of(self, value: float | None) -> float | None:
        """The value in this unit, rounded so that it stays short when it is embedded in a page."""
        return None if value is None else significant(value / self.factor, 5)

    def text(self, value: float | None) -> str:
        """The bare number in this unit, for a column whose heading names the unit."""
        if value is None:
            return MISSING
        least = 10.0**-self.digits
        if 0 < value / self.factor < least / 2:
            return f"<{least:.{self.digits}f}"
        return f"{value / self.factor:,.{self.digits}f}"

    def label(self, value: float | None) -> str:
        """The number with its unit."""
        return MISSING if value is None else f"{self.text(value)} {self.unit}".rstrip()


_TIME = [("s", 1.0), ("ms", 1e-3), ("\N{MICRO SIGN}s", 1e-6), ("ns", 1e-9), ("ps", 1e-12)]
_BYTES = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)]
_BINARY = [("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0), ("B", 1.0)]
_COUNT = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)]


def _scale(units: list[tuple[str, float]], values: Iterable[float | None]) -> Scale:
    largest = max((abs(v) for v in values if v is not None), default=0.0)
    # 999.95 would print as 1,000.0: such a value belongs to the next unit.
    unit, factor = next(((u, f) for u, f in units if largest >= f * 0.99995), units[-1])
    if largest == 0.0:
        unit, factor = units[-1] if units[-1][1] >= 1.0 else units[2]
    scaled = largest / factor
    exact = factor == 1.0 and units is not _TIME
    digits = 0 if exact or scaled >= 1000 else 1 if scaled >= 100 else 2 if scaled >= 10 else 3
    return Scale(unit, factor, digits)


def time_scale(values_s: Iterable[float | None]) -> Scale:
    """A common unit for times in seconds."""
    return _scale(_TIME, values_s)


def byte_scale(values_bytes: Iterable[float | None]) -> Scale:
    """A common decimal unit for sizes."""
    return _scale(_BYTES, values_bytes)


def binary_scale(values_bytes: Iterable[float | None]) -> Scale:
    """A common binary unit for memories."""
    return _scale(_BINARY, values_bytes)


def rate_scale(values: Iterable[float | None]) -> Scale:
    """A common decimal unit for bytes per second."""
    scale = _scale(_BYTES, values)
    return Scale(f"{scale.unit}/s", scale.factor, scale.digits)


def count_scale(values: Iterable[float | None]) -> Scale:
    """A common unit for counts."""
    return _scale(_COUNT, values)


def time(value_s: float | None) -> str:
    """One time with the unit that fits it."""
    return time_scale([value_s]).label(value_s)


def size(value_bytes: float | None) -> str:
    """One size with the unit that fits it."""
    return byte_scale([value_bytes]).label(value_bytes)


def percent(share: float | None, digits: int = 1) -> str:
    """A share as per cent."""
    return MISSING if share is None else f"{100 * share:.{digits}f} %"


def factor(value: float | None) -> str:
    """A speed-up."""
    return MISSING if value is None else f"{value:.2f}\N{MULTIPLICATION SIGN}"


def significant(value: float, digits: int) -> float:
    """The value to so many significant digits; whole numbers stay whole (and print shorter)."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def number(value: Any) -> float | None:
    """A number that can be drawn, or nothing: results may lack a key, and tables may hold nulls."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Axes reach beyond what they show, and must be finite as well.
    return float(value) if abs(value) <= LARGEST else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """A quotient, or nothing where it has no meaning."""
    return None if part is None or not whole else part / whole
