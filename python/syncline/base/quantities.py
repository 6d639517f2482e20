"""Quantities with units, exactly.

A quantity is a decimal number and a unit: `64MiB`, `25GB/s`, `1.5us`, `500cycles@1245MHz`, `94%`. It is
read with rational arithmetic into an integer of the engine's unit (bytes, bytes per second, picoseconds,
hertz, FLOP/s); no floating point is involved, and a value that is not a whole number of that unit is
refused rather than rounded. The one exception are cycles, which are rounded to the nearest picosecond.

kB (or KB), MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of 1024. A lower-case `b` is a bit and
appears only in rates. Prefixes are case-sensitive: `mb` is neither megabytes nor megabits here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from syncline.base.errors import did_you_mean

LARGEST: Final = 2**63 - 1
"""The largest value of any quantity, in the engine's unit: what a column of a table can hold."""

_NUMBER = re.compile(r"([+-]?)([0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?)(?![0-9.])")
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class QuantityError(ValueError):
    """A text that is not the quantity that is needed."""

    def __init__(self, message: str, accepted: str) -> None:
        self.message = message
        self.accepted = accepted
        super().__init__(f"{message}; accepted: {accepted}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of quantity: its units, as multiples of the engine's unit."""

    name: str
    base: str
    units: MappingProxyType[str, Fraction]
    examples: str
    hidden: frozenset[str] = frozenset()

    @property
    def accepted(self) -> str:
        """What may be written, for people."""
        return f"a {self.name} with a unit, such as {self.examples}"

    def format(self, value: int) -> str:
        """The shortest text that `parse` reads back as `value`."""
        best = f"{value}{self.base}"
        for unit, factor in self.units.items():
            multiple = Fraction(value) / factor
            if unit not in self.hidden and multiple.denominator == 1:
                text = f"{multiple.numerator}{unit}"
                best = text if len(text) < len(best) else best
        return best


def _units(decimal: str, binary: str = "", extra: dict[str, Fraction] | None = None) -> MappingProxyType[str, Fraction]:
    table = {prefix + decimal: Fraction(factor) for prefix, factor in _DECIMAL.items()}
    if binary:
        table |= {prefix + binary: Fraction(factor) for prefix, factor in _BINARY.items()}
    return MappingProxyType(table | (extra or {}))


_BITS_PER_S = {f"{prefix}b/s": Fraction(factor, 8) for prefix, factor in _DECIMAL.items()}
_FLOPS = {f"{prefix}FLOPS": Fraction(factor) for prefix, factor in _DECIMAL.items()}
_TIMES = {
    "ps": Fraction(1),
    "ns": Fraction(10**3),
    "us": Fraction(10**6),
    "\u00b5s": Fraction(10**6),
    "\u03bcs": Fraction(10**6),
    "ms": Fraction(10**9),
    "s": Fraction(10**12),
}

SIZE: Final = Kind("size", "B", _units("B", "B"), "64MB, 64MiB or 8kB", frozenset({"KB"}))
RATE: Final = Kind(
    "rate", "B/s", _units("B/s", "B/s", _BITS_PER_S), "25GB/s or 100Gb/s", frozenset({"KB/s", *_BITS_PER_S})
)
TIME: Final = Kind(
    "time",
    "ps",
    MappingProxyType(_TIMES),
    "1.5us, 500ns or 500cycles@1245MHz",
    frozenset({"\u00b5s", "\u03bcs"}),
)
FREQUENCY: Final = Kind("frequency", "Hz", _units("Hz"), "1245MHz", frozenset({"KHz"}))
COMPUTE: Final = Kind(
    "compute rate", "FLOP/s", _units("FLOP/s", "", _FLOPS), "120TFLOP/s", frozenset({"KFLOP/s", *_FLOPS})
)
POWER: Final = Kind("power", "W", _units("W"), "700W or 1.2kW", frozenset({"KW"}))
SHARE_ACCEPTED: Final = "a percentage above 0% and up to 100%, such as 94%"


def size(text: object, *, zero: bool = False) -> int:
    """Bytes."""
    return _parse(SIZE, text, zero)


def rate(text: object, *, zero: bool = False) -> int:
    """Bytes per second."""
    return _parse(RATE, text, zero)


def frequency(text: object) -> int:
    """Hertz."""
    return _parse(FREQUENCY, text, zero=False)


def compute_rate(text: object) -> int:
    """FLOP/s."""
    return _parse(COMPUTE, text, zero=False)


def time(text: object, *, zero: bool = False) -> int:
    """Picoseconds. `500cycles@1245MHz` is rounded to the nearest one, halves up."""
    if isinstance(text, str) and "cycle" in text:
        return _cycles(text.strip(), zero)
    return _parse(TIME, text, zero)


def power(text: object) -> int:
    """Watts of a text such as `700W`. Raises [`QuantityError`]."""
    return _parse(POWER, text, zero=False)


def share(text: object) -> Fraction:
    """A percentage as a fraction in (0, 1]."""
    if not isinstance(text, str):
        raise QuantityError(_no_unit(text, "percentage", "%"), SHARE_ACCEPTED)
    match = _NUMBER.match(text.strip())
    if match is None:
        raise QuantityError("this is not a percentage", SHARE_ACCEPTED)
    unit = text.strip()[match.end() :].strip()
    if unit != "%":
        raise QuantityError("this is not a percentage: the % sign is missing", SHARE_ACCEPTED)
    value = Fraction(match[2]) / 100 * (-1 if match[1] == "-" else 1)
    if not 0 < value <= 1:
        raise QuantityError("the percentage is out of range", SHARE_ACCEPTED)
    return value


def format_share(value: Fraction) -> str:
    """The text that `share` reads back as `value`, which must be a decimal fraction."""
    percent = value * 100
    digits = 0
    while (percent * 10**digits).denominator != 1:
        digits += 1
    scaled = (percent * 10**digits).numerator
    if digits == 0:
        return f"{scaled}%"
    whole, fraction = divmod(scaled, 10**digits)
    return f"{whole}.{fraction:0{digits}d}%"


def _parse(kind: Kind, text: object, zero: bool) -> int:
    if not isinstance(text, str):
        raise QuantityError(_no_unit(text, kind.name, kind.base), kind.accepted)
    stripped = text.strip()
    match = _NUMBER.match(stripped)
    if match is None:
        raise QuantityError(f"this is not a {kind.name}", kind.accepted)
    unit = stripped[match.end() :].strip()
    if not unit:
        raise QuantityError(f"the unit is missing: {_what_unit(kind)}", kind.accepted)
    factor = kind.units.get(unit)
    if factor is None:
        raise QuantityError(f"'{unit[:20]}' is not a unit of {kind.name}{_unit_hint(kind, unit)}", kind.accepted)
    # Files of graphs have as many times as nodes, all of them whole: fractions take ten times as long.
    is_whole = match[2].isdecimal() and factor.denominator == 1
    value = int(match[2]) * factor.numerator if is_whole else Fraction(match[2]) * factor
    _check_range(kind, value, negative=match[1] == "-", zero=zero)
    if value.denominator != 1:
        raise QuantityError(f"this is not a whole number of {kind.base}", kind.accepted)
    return value.numerator


def _cycles(text: str, zero: bool) -> int:
    count, at, clock = text.partition("@")
    match = re.fullmatch(_NUMBER.pattern + r"\s*cycles?\s*", count)
    if match is None:
        raise QuantityError("this is not a number of cycles", TIME.accepted)
    if not at:
        raise QuantityError("cycles need a clock: add one, such as @1245MHz", TIME.accepted)
    value = Fraction(match[2]) * 10**12 / frequency(clock)
    _check_range(TIME, value, negative=match[1] == "-", zero=zero)
    rounded = int(value + Fraction(1, 2))
    if rounded == 0 and not zero:
        raise QuantityError("this is less than half a picosecond", TIME.accepted)
    return rounded


def _check_range(kind: Kind, value: int | Fraction, *, negative: bool, zero: bool) -> None:
    if negative and value != 0:
        raise QuantityError(f"a {kind.name} cannot be negative", kind.accepted)
    if value == 0 and not zero:
        raise QuantityError(f"the {kind.name} must be more than zero", kind.accepted)
    if value > LARGEST:
        raise QuantityError(f"the {kind.name} is too large (at most {LARGEST}{kind.base})", kind.accepted)


def _no_unit(value: object, name: str, base: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number has no unit; a {name} needs one (if you mean {base}, write {_short(value)}{base})"
    return f"this is not a {name}"


def _short(value: float) -> str:
    if isinstance(value, float):
        return format(value, "g")
    return str(value) if abs(value) < 10**30 else "..."


def _what_unit(kind: Kind) -> str:
    return "write one of " + ", ".join(u for u in kind.units if u not in kind.hidden and u.isascii())


def _unit_hint(kind: Kind, unit: str) -> str:
    per_s = re.fullmatch(r"([kKMGT]?)(b|B)(it)?(ps|/sec|/S)", unit)
    if kind is RATE and per_s is not None:
        return f"; did you mean '{per_s[1]}{per_s[2]}/s'?"
    if kind is RATE and unit in SIZE.units:
        return f"; did you mean '{unit}/s'?"
    if kind is SIZE and unit in RATE.units:
        return "; that is a rate"
    return did_you_mean(unit, [u for u in kind.units if u not in kind.hidden])
