"""How a run ended that was given up if it took too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

NO_LIMIT: Final = 2**64 - 1
"""Picoseconds and work that no run reaches."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a run ended that was given up if it took too long (`attempt.rs`)."""

    ending: Literal["complete", "late", "costly"]
    time_ps: int
    events: int
    work: int
    """Those events, and what the network did beyond them, in events."""
    delivered_bytes: int
    busiest_link_ps: int
    """The longest that a link was busy, or was asked to be where backends ignore contention."""
    slices: int | None
    """Slices of its pipelines, if it has any, and all have as many."""
    phases: int
    """Phases of a collective, at most."""
