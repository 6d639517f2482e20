"""How a command of `syncline` ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """Exit status, standard output and standard error."""

    status: int
    out: str
    err: str
