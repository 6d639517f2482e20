"""NPUs by number, in an order that counts: lists, or numbers and ranges as text."""

from __future__ import annotations

import re
from typing import Final

_ITEM: Final = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", re.ASCII)
NUMBERS_ACCEPTED: Final = "NPUs as a list, or numbers and ranges as text, such as 0-3,8"


class NumbersError(ValueError):
    """What names no NPUs of a fabric."""


def numbers(given: list[int] | str, npus: int) -> list[int]:
    """NPUs of a fabric of so many, in the order in which they are given. Raises [`NumbersError`]."""
    found: list[int] = []
    for item in given.split(",") if isinstance(given, str) else given:
        match = _ITEM.fullmatch(str(item))
        if match is None:
            raise NumbersError(f"'{str(item).strip()[:20]}' is neither a number nor a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise NumbersError(f"the range '{str(item).strip()}' runs backwards")
        if last >= npus:
            raise NumbersError(f"there is no NPU {last}: the fabric has {npus}")
        found += range(first, last + 1)
    if len(set(found)) != len(found):
        raise NumbersError("an NPU is listed twice")
    if not found:
        raise NumbersError("no NPU is listed")
    return found
