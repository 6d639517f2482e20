"""Busy shares of a run over time, from its table of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from syncline import engine
from syncline.errors import InputError, did_you_mean, one_of
from syncline.figures.file import FigureFile, Timeline

PS_PER_MS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Track:
    """A timeline with its numbers."""

    panel: Timeline
    times_ms: Sequence[float]
    """The middle of each point."""
    shares: Mapping[str, Sequence[float]]
    """From 0 to 1, under the names that the panel gives."""


def of(file: FigureFile, place: int, panel: Timeline, result: engine.Result) -> Track:
    """The timeline of a run. Raises [`InputError`] for columns that its table of windows does not have."""
    table = result.tables["windows"]
    known = [name for name in table.column_names if name not in ("window", "start_ps")]
    for column in panel.columns:
        if column not in known:
            message = f"the windows of this run have no column '{column}'{did_you_mean(column, known)}"
            raise InputError([file.problem(("panels", place, "columns"), message, one_of(known))])
    starts = table.column("start_ps").to_pylist()
    if not starts:
        message = f"the run of {panel.variant} takes no time: there is nothing to show"
        raise InputError([file.problem(("panels", place, "run"), message, "a run that takes time")])
    step = -(-len(starts) // panel.points)
    width = starts[1] - starts[0] if len(starts) > 1 else 0
    times = [(starts[i] + min(step, len(starts) - i) * width / 2) / PS_PER_MS for i in range(0, len(starts), step)]
    shares = {called: _means(table.column(column).to_pylist(), step) for column, called in panel.columns.items()}
    return Track(panel, times, shares)


def _means(values: Sequence[float], step: int) -> list[float]:
    return [sum(part) / len(part) for i in range(0, len(values), step) if (part := values[i : i + step])]
