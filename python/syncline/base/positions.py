"""On which lines of a JSON text its values stand.

Asked of what is wrong only, so that reading a file costs nothing for it. What is not on the way to a value is skipped
by the decoder of the standard library.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_DIGITS: Final = 18
"""Digits of the largest index of an item."""
_END_OF_LINE: Final = re.compile("\n")
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()

Key = str | int
"""The name of an entry, or the index of an item."""


@dataclass(slots=True)
class Positions:
    """A legal JSON text, and where the values are that were asked for so far."""

    text: str
    _children: dict[int, dict[Key, int]] = field(default_factory=dict)
    """The entries of mappings and lists, by where these begin."""
    _ends: list[int] = field(default_factory=list)
    """Where lines end."""

    def line(self, path: Sequence[Key]) -> int:
        """The line of the value at a path, or of the smallest one around it. Items may be given as text."""
        at = self._after_blanks(0)
        for key in path:
            within = self._within(at)
            is_place = isinstance(key, str) and key.isdecimal() and len(key) <= MOST_DIGITS
            found = within.get(key, within.get(int(key)) if is_place else None)
            if found is None:
                break
            at = found
        if not self._ends:
            self._ends = [end.start() for end in _END_OF_LINE.finditer(self.text)]
        return bisect_left(self._ends, at) + 1

    def _within(self, at: int) -> dict[Key, int]:
        if at not in self._children:
            kind = self.text[at : at + 1]
            self._children[at] = self._entries(at) if kind in ("{", "[") else {}
        return self._children[at]

    def _entries(self, at: int) -> dict[Key, int]:
        found: dict[Key, int] = {}
        is_mapping = self.text[at] == "{"
        here = self._after_blanks(at + 1)
        while self.text[here] not in "]}":
            key: Key = len(found)
            if is_mapping:
                key, here = _DECODER.raw_decode(self.text, here)
                here = self._after_blanks(self._after_blanks(here) + 1)
            found[key] = here
            _, here = _DECODER.raw_decode(self.text, here)
            here = self._after_blanks(here)
            if self.text[here] == ",":
                here = self._after_blanks(here + 1)
        return found

    def _after_blanks(self, at: int) -> int:
        blanks = _BLANK.match(self.text, at)
        return at if blanks is None else blanks.end()
