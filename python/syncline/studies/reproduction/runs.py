"""Simulations of packaged studies, each run once however many claims need it."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import document
from syncline.base.document import Node
from syncline.base.errors import InputError, SimulationFailedError
from syncline.core import cancelling
from syncline.engine import completing, estimate
from syncline.engine import runs as engine
from syncline.engine.runs import Result
from syncline.experiment import packaged as studies
from syncline.experiment.load import Changes, Study, Variant, load_changed
from syncline.experiment.merge import parse_override
from syncline.studies.reproduction.kept import Kept

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

READ: Final = ("links", "phases", "layers", "collectives", "transport")
"""The tables that claims read; the others would only fill the memory."""


@dataclass(frozen=True, slots=True)
class Run:
    """A variant of a study with some fields changed."""

    study: str
    variant: str
    settings: tuple[str, ...] = ()


@dataclass(slots=True)
class Runs:
    """The simulations so far. Threads may share it."""

    seed: int = 0
    """The seed of random numbers."""
    kept: Kept | None = None
    """Simulations of earlier processes, and where those of this one are kept."""
    memory_limit: int | None = None
    """Bytes that a simulation may take, if that is not for the process to say."""
    cancel: Cancellation | None = None
    """What ends simulations before they are finished."""
    _variants: dict[Run, Variant] = field(default_factory=dict)
    _results: dict[str, Result] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changes: tuple[str, ...] = ()
    _applied: set[str] = field(default_factory=set)

    def changed(self, changes: Sequence[str]) -> Runs:
        """The same, with fields changed in every simulation: `PATH=VALUE`, of all variants or, where the path begins
        with `variants.NAME.`, of one. Both share what was simulated.
        """
        return dataclasses.replace(self, _changes=(*self._changes, *changes), _applied=set())

    def of_seed(self, seed: int) -> Runs:
        """The same with random numbers of another seed. Both share what was simulated."""
        return dataclasses.replace(self, seed=seed, _variants={})

    def idle(self) -> list[str]:
        """The changes that no simulation so far had any use for, since it was of another variant."""
        return [change for change in self._changes if change not in self._applied]

    def result(self, run: Run) -> Result:
        """What the simulation returns; waits if another thread is at it. Raises [`CancelledError`] when `cancel` is
        called.
        """
        cancelling.check(self.cancel)
        variant = self.variant(run)
        key = json.dumps([variant.seed, completing.specification(variant.experiment, variant.astra_text)])
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._results:
                self._results[key] = self._found(key) or self._simulate(run, variant, key)
            return self._results[key]

    def variant(self, run: Run) -> Variant:
        """The experiment of a run."""
        run = dataclasses.replace(run, settings=(*run.settings, *self._changes_of(run.variant)))
        if run not in self._variants:
            study = load_study(run).seeded(self.seed).limited(self.memory_limit).ended_by(self.cancel)
            self._variants[run] = study.variants[0]
        return self._variants[run]

    def finished(self) -> list[Result]:
        """Everything that was simulated."""
        return list(self._results.values())

    def _changes_of(self, variant: str) -> list[str]:
        prefix = f"variants.{variant}."
        mine = [c for c in self._changes if c.startswith(prefix) or not c.startswith("variants.")]
        self._applied.update(mine)
        return [change.removeprefix(prefix) for change in mine]

    def _found(self, key: str) -> Result | None:
        return None if self.kept is None else self.kept.find(key)

    def _simulate(self, run: Run, variant: Variant, key: str) -> Result:
        try:
            result = engine.run(variant)
        except SimulationFailedError as error:
            name = " ".join([run.study, run.variant, *run.settings, *self._changes])
            raise SimulationFailedError(f"{name}: {error}") from None
        tables = {name: table for name, table in result.tables.items() if name in READ}
        result = Result(result.summary, tables)
        if self.kept is not None:
            self.kept.add(key, result)
        return result


class _LookedAtError(Exception):
    """A simulation was looked at, and not run."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        """What it would take."""


@dataclass(slots=True)
class _Ahead(Runs):
    """Estimates the first simulation that a piece of work asks for instead of running it."""

    seconds: dict[str, float] = field(default_factory=dict)

    def result(self, run: Run) -> Result:
        variant = self.variant(run)
        key = json.dumps([variant.seed, completing.specification(variant.experiment, variant.astra_text)])
        if key not in self.seconds:
            is_kept = self.kept is not None and self.kept.has(key)
            self.seconds[key] = 0.0 if is_kept else estimate.of(variant.experiment, engine.preview(variant)).time_s
        raise _LookedAtError(self.seconds[key])


def estimated(
    tasks: Callable[[Runs], Sequence[tuple[str, Callable[[], object]]]], seed: int = 0, kept: Kept | None = None
) -> list[float]:
    """Seconds that pieces of work take, which `tasks` makes for runs: at least, since each may need more than one
    simulation, and those that are kept take none. One of each kind is looked at, the one in the middle; a kind has
    names that begin with the same two words.
    """
    ahead = _Ahead(seed, kept)
    kinds: dict[tuple[str, ...], list[Callable[[], object]]] = {}
    for name, task in tasks(ahead):
        kinds.setdefault(tuple(name.split()[:2]), []).append(task)
    takes: list[float] = []
    for kind in kinds.values():
        try:
            kind[len(kind) // 2]()
        except _LookedAtError as looked_at:
            takes += [looked_at.seconds] * len(kind)
        except InputError:
            pass  # what is wrong is said when it is run
    return takes


def load_study(run: Run) -> Study:
    """The study of a run, with its changes, and of its variants the one."""
    path, label, root = _file(run.study)
    settings = [parse_override(setting, "reproduce") for setting in run.settings]
    return load_changed(
        document.copied(root),
        label,
        path.parent,
        Changes(forced=settings, only={run.variant}, folders={"reproduce": path.parent}),
    )


@cache
def _file(study: str) -> tuple[Path, str, Node]:
    """The file of a study, read once: there are thousands of simulations. Loading changes a tree, so it gets a copy."""
    path, label = studies.find(study)
    return path, label, document.read(document.read_text(path, label), label)


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
