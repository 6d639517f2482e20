"""Parses JSON that others have written, whatever it holds: no text ends in an exception that says nothing of it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any


class NotJsonError(ValueError):
    """A text is not JSON: why, and on which line where that is known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse(text: str, parse_float: Callable[[str], Any] | None = None) -> Any:
    """The values of a JSON text. `parse_float` makes numbers of those with a fraction or an exponent.

    Raises [`NotJsonError`] where a text is no JSON, or none that can be read: numbers that are none (NaN, Infinity),
    integers with more digits than Python converts, and values that are nested deeper than Python's stack.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=parse_float)
    except NotJsonError:
        raise
    except json.JSONDecodeError as error:
        raise NotJsonError(error.msg, error.lineno) from None
    except RecursionError:
        raise NotJsonError("it is nested too deeply") from None
    except ValueError:
        raise _of_digits(text) from None


def _refuse(word: str) -> Any:
    raise NotJsonError(f"{word} is no number of JSON")


def _of_digits(text: str) -> NotJsonError:
    """Python converts no integer of so many digits, since that takes time with their square."""
    most = sys.get_int_max_str_digits()
    found = re.search(rf"[0-9]{{{most + 1}}}", text)
    line = None if found is None else text.count("\n", 0, found.start()) + 1
    return NotJsonError(f"an integer has more than {most:,} digits", line)
