"""What may come of a command, whatever it was given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Final, NoReturn

from .lines import known

STATUSES: Final = (0, 1, 2)
LEAKS: Final = (
    ("Traceback (most recent call last)", "traceback"),
    ("panicked at", "panic"),
    ("the engine stopped at an error of its own", "panic"),
    ("Exception in thread", "traceback"),
    ("Exception ignored in", "traceback"),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int | None
    """None if it did not return."""
    out: bytes = b""
    err: bytes = b""
    ended_by: str | None = None
    """`traceback`, `abort` or `hang`, if it did not return."""
    detail: str = ""
    """The traceback, or the signal."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with how a command ended."""

    kind: str
    detail: str


def judge(arguments: list[str], ended: Ended) -> Flaw | None:
    """The first thing that is wrong; nothing if all is well."""
    if ended.ended_by is not None:
        return Flaw(ended.ended_by, ended.detail)
    try:
        out, err = ended.out.decode("utf-8"), ended.err.decode("utf-8")
    except UnicodeDecodeError:
        return Flaw("encoding", "this is not UTF-8")
    for sign, kind in LEAKS:
        if sign in err or sign in out:
            return Flaw(kind, (err if sign in err else out)[-2000:])
    if "Warning: " in err and ".py:" in err:
        return Flaw("warning of a library", err[-500:])
    if ended.status not in STATUSES:
        return Flaw("status", f"the exit status is {ended.status}")
    return _output(arguments, ended.status or 0, out, err)


@cache
def _taking_values() -> frozenset[str]:
    """The options of any command that are followed by a value."""
    options = [p for parameters, _ in known().values() for p in parameters if p.param_type_name == "option"]
    return frozenset(name for option in options if not option.is_flag for name in option.opts)


def is_as_json(arguments: list[str]) -> bool:
    """Whether a document is asked for: `--json` stands there, and not as the value of an option."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return any(word == "--json" and before not in _taking_values() for before, word in pairs)


def _output(arguments: list[str], status: int, out: str, err: str) -> Flaw | None:
    as_json = is_as_json(arguments)
    if status == 2:
        if out:
            return Flaw("output beside an error", out[:500])
        if not err.strip():
            return Flaw("no message", "the status is 2, and nothing is said")
        if as_json and not _is_complaint(err):
            return Flaw("no object on standard error", err[-500:])
        return None
    if status == 1 and not err.strip() and not out.strip():
        return Flaw("no message", "the status is 1, and nothing is said")
    if as_json and (out or status == 0) and "--help" not in arguments and "--version" not in arguments:
        try:
            json.loads(out, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return Flaw("no single document", f"{error}: {out[:300]}")
    return None


def _is_complaint(err: str) -> bool:
    """Whether the last line is an object with errors; remarks may stand before it."""
    try:
        return bool(json.loads(err.strip().rsplit("\n", 1)[-1])["errors"])
    except (ValueError, KeyError, TypeError):
        return False


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
