"""What `auto` chose, and what timeouts cost, in sentences for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from syncline.base import text_units
from syncline.sections.networks import timeouts


def sentences(runs: Iterable[dict[str, Any]], *, named: bool) -> list[str]:
    """One for each run, or entry of a document, that left its algorithm open, and one for each that left its slices
    open; `named` says which run it is about.
    """
    found: list[str] = []
    for run in runs:
        choice = run.get("algorithm_choice")
        if choice is not None:
            of = f"{run['name']}: " if named else ""
            found.append(f"{of}auto chose {choice['chosen']}: {choice['because']}")
        sliced = run.get("slices_choice")
        if sliced is not None:
            of = f"{run['name']}: " if named else ""
            size = text_units.size(sliced["slice_bytes"])
            found.append(f"{of}{sliced['by'].upper()} chose slices of {size}, {sliced['because']}")
    return found


def of_timeouts(runs: Iterable[dict[str, Any]], *, named: bool) -> list[str]:
    """One for each run, or entry of a document, in which retransmission timers expired."""
    found: list[str] = []
    for run in runs:
        text = timeouts.sentence(run["network"], run.get("total_time_s") or run.get("time_s") or 0.0)
        if text is not None:
            found.append(f"{run['name']}: {text}" if named else text)
    return found
