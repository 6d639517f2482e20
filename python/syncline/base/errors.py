"""What can be wrong with an input, and how it is said.

Every check appends [`Problem`]s to a list; the list is raised once, as [`InputError`], so that a person
who made five mistakes is told of five.
"""

from __future__ import annotations

import difflib
import errno
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Final, Protocol

from syncline import _version

SHOWN_VALUE_LENGTH = 60
MOST_LISTED: Final = 50
"""Problems that are listed, of all that are found."""
UNKNOWN_KEY = "this key is not known"
"""Says that a key is wrong, whatever its value."""
_UNSHOWN = frozenset({"a mapping", "a list"})
"""What stands for a value that is too long to be printed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an input."""

    file: str
    line: int | None
    field: str
    value: str | None
    message: str
    accepted: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"
        is_of_value = not self.message.startswith(UNKNOWN_KEY)
        if is_of_value and self.value and self.value not in _UNSHOWN and self.value not in self.message:
            text += f"\n    given: {self.value}"
        return text if self.accepted is None else f"{text}\n    accepted: {self.accepted}"


class InputError(Exception):
    """The input is wrong; the problems say how."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(_distinct(problems))
        super().__init__("\n".join(self._lines()))

    @property
    def omitted(self) -> int:
        """How many problems are not listed: who has made that many mistakes begins with the first."""
        return max(0, len(self.problems) - MOST_LISTED)

    def _lines(self) -> list[str]:
        more = [f"... and {self.omitted} more"] if self.omitted else []
        return [*(str(problem) for problem in self.problems[:MOST_LISTED]), *more]

    def as_text(self) -> str:
        """The problems for a person."""
        count = len(self.problems)
        heading = "1 error" if count == 1 else f"{count} errors"
        return "\n".join([*self._lines(), heading])

    def as_json(self) -> str:
        """The problems as one JSON object."""
        listed = [asdict(problem) for problem in self.problems[:MOST_LISTED]]
        omitted = {"omitted": self.omitted} if self.omitted else {}
        return json.dumps({**_version.versions(), "errors": listed, **omitted}, ensure_ascii=True)


class PartialRun(Protocol):
    """What had been simulated before an error: the `Run` that [`syncline.run`] returns."""

    @property
    def document(self) -> dict[str, Any]:
        """The document of `syncline run --json`."""

    @property
    def status(self) -> str:
        """`complete` or `partial`."""

    @property
    def finished(self) -> list[str]:
        """The systems that were simulated and whose tables are known."""

    @property
    def failed(self) -> dict[str, str]:
        """The systems whose simulation failed, and why."""

    @property
    def systems(self) -> Mapping[str, Any]:
        """The systems that were simulated, by name."""


class SimulationFailedError(Exception):
    """A simulation started and could not be finished; `run` has what came of the others, if there were any."""

    def __init__(self, message: str, *, run: PartialRun | None = None) -> None:
        super().__init__(message)
        self.run = run


class CancelledError(Exception):
    """A `syncline.Cancellation` ended this; `run` has the systems that were finished, if there were any."""

    def __init__(self, message: str = "this was cancelled", *, run: PartialRun | None = None) -> None:
        super().__init__(message)
        self.run = run


FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing fails with where the disk is at fault, and no input is wrong."""


class NotWrittenError(OSError):
    """Something could not be written: `filename` says what, and notes what is to be done. `run` has what was
    simulated, if it was a run that could not be written.
    """

    run: PartialRun | None = None


class EngineDefectError(SimulationFailedError):
    """The engine stopped at an error of its own."""


def command_line(field: str, value: object, message: str, accepted: str | None = None) -> InputError:
    """A single wrong argument."""
    return InputError([Problem("command line", None, field, shown(value), message, accepted)])


def unwritten(path: PurePath, error: OSError | ValueError, flag: str = "--out") -> InputError | NotWrittenError:
    """Why a file could not be written: an error of the input, unless the disk is full."""
    if isinstance(error, OSError) and error.errno in FULL:
        return NotWrittenError(error.errno, error.strerror, error.filename or str(path))
    reason = getattr(error, "strerror", None) or error
    return command_line(flag, str(path), f"this cannot be written: {reason}")


def shown(value: object) -> str | None:
    """A value as it appears in an error: short, on one line."""
    if value is None:
        return None
    text = value if isinstance(value, str) else _plain(value)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: SHOWN_VALUE_LENGTH + 1])
    return text if len(text) <= SHOWN_VALUE_LENGTH else text[: SHOWN_VALUE_LENGTH - 3] + "..."


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest candidate, or nothing."""
    known = {c.casefold(): c for c in candidates}
    close = difflib.get_close_matches(word.casefold()[:80], known, n=1, cutoff=0.65)
    return f"; did you mean '{known[close[0]]}'?" if close else ""


def one_of(candidates: Iterable[str]) -> str:
    """The candidates as a list for people."""
    return ", ".join(candidates)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**SHOWN_VALUE_LENGTH else "a very large number"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return str(value)


def _distinct(problems: Iterable[Problem]) -> Iterable[Problem]:
    """The problems in order of place, each once."""
    unique = dict.fromkeys(problems)
    return sorted(unique, key=lambda p: (p.file, p.line or 0))
