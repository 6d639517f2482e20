"""How far simulations are, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Underway:
    """How far a simulation is that is not finished."""

    name: str
    simulated_time_s: float
    """Seconds of simulated time that have passed in it; 0 until its first event. It begins anew where a run simulates
    more than once: several jobs are simulated together, then each alone; what one more iteration costs may take
    further iterations, from the beginning.
    """
    events: int
    """Events so far, over all that it has simulated. They grow about evenly with wall time."""
    expected_events: int | None
    """About how many there will be, where that is known; there may turn out to be more."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far several simulations are."""

    done: int
    """Simulations that are finished."""
    total: int
    """All of them."""
    waiting: tuple[str, ...]
    """The names of those that are not finished, in their order."""
    elapsed_s: float
    """Seconds of wall time since the first of them began."""
    is_over: bool = False
    """Whether this is the last that is heard: all are finished, or an error has ended them."""
    underway: tuple[Underway, ...] = ()
    """Those that have begun and are not finished, in their order; empty where tasks other than simulations are
    waited for, as while algorithms are tried out."""
    events: int = 0
    """Events of all of them so far, those that are finished included: over `elapsed_s`, events per second."""
    expected_events: int | None = None
    """About how many there will be in all, where that is known of each: `events` over it is the share that is done."""


Watch = Callable[[Standing], None]
"""Hears of progress, on the thread that waits for the simulations."""
