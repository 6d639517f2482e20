"""The sizes of a table: `1KiB:8GiB:x2`, `1MiB:16MiB:+1MiB`, `4KiB,64KiB,1MiB`, or several of these.

`A:B:xF` begins at A and multiplies by F, `A:B:+S` adds S; both end at B or just below it. Sizes are whole elements of
four bytes, which nccl-tests calls `float`; what a factor makes of them is rounded down to that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from syncline.base import quantities
from syncline.base.errors import InputError, Problem, command_line, shown
from syncline.base.quantities import QuantityError

FLAG: Final = "--sizes"
DEFAULT: Final = "1KiB:8GiB:x2"
ELEMENT_BYTES: Final = 4
"""nccl-tests counts elements of `float` unless told otherwise."""
MAX_SIZES: Final = 4096
LEAST_FACTOR: Final = Fraction(101, 100)
MAX_SIZE: Final = 2**50
ACCEPTED: Final = "FIRST:LAST:xFACTOR, FIRST:LAST:+STEP or sizes with commas between, such as 1KiB:8GiB:x2 or 4KiB,1MiB"

_FACTOR = re.compile(r"x([0-9]{1,6}(?:\.[0-9]{1,6})?)", re.ASCII)


def parse(text: str) -> tuple[int, ...]:
    """Bytes, in ascending order, each once. Raises [`InputError`] with all that is wrong."""
    found: set[int] = set()
    problems: list[Problem] = []
    for item in text.split(","):
        try:
            for size in _item(item.strip()):
                found.add(size)
                if len(found) > MAX_SIZES:
                    raise _wrong(item, f"these are more than {MAX_SIZES} sizes", "a larger factor or step")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return tuple(sorted(found))


def _item(item: str) -> Iterator[int]:
    parts = item.split(":")
    if len(parts) == 1:
        yield _size(item, item)
        return
    if len(parts) != 3:
        message = "a range consists of a first size, a last size, and a factor or a step"
        raise _wrong(item, message, ACCEPTED)
    first, last = _size(item, parts[0].strip()), _size(item, parts[1].strip())
    if last < first:
        raise _wrong(item, "the range runs backwards", f"{parts[1].strip()}:{parts[0].strip()}:{parts[2].strip()}")
    yield from _range(item, first, last, parts[2].strip())


def _range(item: str, first: int, last: int, rule: str) -> Iterator[int]:
    match = _FACTOR.fullmatch(rule)
    if match is not None and Fraction(match[1]) >= LEAST_FACTOR:
        size = Fraction(first)
        while size <= last:
            yield int(size) // ELEMENT_BYTES * ELEMENT_BYTES
            size *= Fraction(match[1])
    elif rule.startswith("+"):
        step = _size(item, rule[1:].strip())
        yield from range(first, last + 1, step)
    else:
        message = f"'{rule}' is neither a factor of 1.01 or more nor a step"
        raise _wrong(item, message, "xFACTOR such as x2, or +STEP such as +1MiB")


def _size(item: str, text: str) -> int:
    try:
        size = quantities.size(text)
    except QuantityError as error:
        raise _wrong(item, error.message, f"{ACCEPTED}; {error.accepted}") from None
    if size > MAX_SIZE:
        raise _wrong(item, f"{text} is too large", f"up to {quantities.SIZE.format(MAX_SIZE)}")
    if size % ELEMENT_BYTES:
        raise _wrong(item, f"{text} is no whole number of elements", f"a multiple of {ELEMENT_BYTES} bytes")
    return size


def _wrong(item: str, message: str, accepted: str) -> InputError:
    return command_line(FLAG, item, f"in {shown(item)}: {message}" if item else "a size is missing", accepted)
