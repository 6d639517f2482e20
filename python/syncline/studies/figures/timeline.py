"""Busy shares of a run over time, from its table of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from syncline.base.errors import InputError, did_you_mean, one_of
from syncline.engine import runs as engine
from syncline.studies.figures.file import FigureFile, Timeline

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
    # As many points for a long run as for a short one: each is the mean of so many windows, give or take one.
    count = min(len(starts), panel.points)
    cuts = [i * len(starts) // count for i in range(count + 1)]
    width = starts[1] - starts[0] if len(starts) > 1 else 0
    times = [(starts[a] + (b - a) * width / 2) / PS_PER_MS for a, b in pairwise(cuts)]
    shares = {called: _means(table.column(column).to_pylist(), cuts) for column, called in panel.columns.items()}
    return Track(panel, times, shares)


def _means(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
