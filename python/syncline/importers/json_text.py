"""JSON documents that keep the lines of their values, for messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncline.base import json_reading
from syncline.base.document import decode
from syncline.base.errors import InputError, Problem
from syncline.base.positions import Positions


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


def load(content: bytes, file: str, parse_float: Callable[[str], Any] | None = None) -> Text:
    """Reads a document; `parse_float` makes numbers of those with a fraction or an exponent. Raises [`InputError`] with
    the line where it is not JSON.
    """
    text = decode(content, file)
    try:
        values = json_reading.parse(text, parse_float)
    except json_reading.NotJsonError as error:
        message = f"this is not JSON: {error.reason}"
        raise InputError([Problem(file, error.line, "", None, message, "a JSON document")]) from None
    return Text(file, values, text)
