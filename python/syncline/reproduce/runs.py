"""Simulations of packaged studies, each run once however many claims need it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from syncline import engine, studies
from syncline.engine import Result
from syncline.errors import SimulationFailedError
from syncline.schema.load import Study, Variant, load_file
from syncline.schema.merge import parse_override


@dataclass(frozen=True, slots=True)
class Run:
    """A variant of a study with some fields changed."""

    study: str
    variant: str
    settings: tuple[str, ...] = ()


@dataclass(slots=True)
class Runs:
    """The simulations so far. Threads may share it."""

    _variants: dict[Run, Variant] = field(default_factory=dict)
    _results: dict[str, Result] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def result(self, run: Run) -> Result:
        """What the simulation returns; waits if another thread is at it."""
        variant = self.variant(run)
        key = json.dumps(engine.specification(variant.experiment, variant.astra_text))
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._results:
                self._results[key] = self._simulate(run, variant)
            return self._results[key]

    def variant(self, run: Run) -> Variant:
        """The experiment of a run."""
        if run not in self._variants:
            self._variants[run] = next(v for v in load_study(run).variants if v.name == run.variant)
        return self._variants[run]

    def finished(self) -> list[Result]:
        """Everything that was simulated."""
        return list(self._results.values())

    def _simulate(self, run: Run, variant: Variant) -> Result:
        try:
            return engine.run(variant)
        except SimulationFailedError as error:
            name = " ".join([run.study, run.variant, *run.settings])
            raise SimulationFailedError(f"{name}: {error}") from None


def load_study(run: Run) -> Study:
    """The study of a run, with its changes."""
    path, label = studies.find(run.study)
    settings = [parse_override(f"variants.{run.variant}.{setting}", "reproduce") for setting in run.settings]
    return load_file(path, label, settings)


def least(low: int, high: int, reaches: Callable[[int], bool]) -> int | None:
    """Where a goal is first reached between `low` and `high`, coming from below, if it is.

    Doubles until the goal is reached and then halves the interval, so that a goal which is missed again far above
    (schedules lock into patterns that differ by a few percent) does not hide where it is first reached.
    """
    missed, reached = low - 1, low
    while not reaches(reached):
        if reached == high:
            return None
        missed, reached = reached, min(max(2 * reached, reached + 1), high)
    while reached - missed > 1:
        middle = (missed + reached) // 2
        if reaches(middle):
            reached = middle
        else:
            missed = middle
    return reached
