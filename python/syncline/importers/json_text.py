"""JSON documents that keep the lines of their values, for messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from syncline.document import decode
from syncline.errors import InputError, Problem
from syncline.schedules.positions import Positions


@dataclass(slots=True)
class Text:
    """A JSON document."""

    file: str
    values: Any
    _text: str = field(repr=False)
    _positions: Positions | None = field(default=None, repr=False)

    def line(self, path: Sequence[str | int]) -> int | None:
        """The line of the value at a path."""
        self._positions = self._positions or Positions(self._text)
        try:
            return self._positions.line(path)
        except (ValueError, IndexError, RecursionError):
            return None

    def problem(
        self, path: Sequence[str | int], message: str, value: str | None = None, accepted: str | None = None
    ) -> Problem:
        """A problem at a path."""
        return Problem(self.file, self.line(path), ".".join(str(step) for step in path), value, message, accepted)


def load(content: bytes, file: str) -> Text:
    """Reads a document. Raises [`InputError`] with the line where it is not JSON; numbers that are none (NaN, Infinity)
    are refused.
    """
    text = decode(content, file)

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    try:
        values = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", str(error) if isinstance(error, ValueError) else "it is nested too deeply")
        raise InputError([Problem(file, line, "", None, f"this is not JSON: {reason}", "a JSON document")]) from None
    return Text(file, values, text)
