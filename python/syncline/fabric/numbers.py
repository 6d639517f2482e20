"""NPUs by number, in an order that counts: lists, or numbers and ranges as text."""

from __future__ import annotations

from typing import Final

from syncline.fabric.allocation import AllocationError, ends

NUMBERS_ACCEPTED: Final = "NPUs as a list, or numbers and ranges as text, such as 0-3,8"


def numbers(given: list[int] | str, npus: int) -> list[int]:
    """NPUs of a fabric of so many, in the order in which they are given. Raises [`AllocationError`]."""
    found: list[int] = []
    for item in given.split(",") if isinstance(given, str) else given:
        first, last = ends(str(item))
        if last >= npus:
            raise AllocationError(f"there is no NPU {last}: the fabric has {npus}")
        found += range(first, last + 1)
    if len(set(found)) != len(found):
        raise AllocationError("an NPU is listed twice")
    if not found:
        raise AllocationError("no NPU is listed")
    return found
