"""Runs the variants of a study, several at once: the engine releases the interpreter lock.

Outcomes are handed to the caller as they come. On Ctrl-C the caller is told at once; simulations that
are under way cannot be stopped from outside, so they live on threads that do not keep the process.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from syncline import engine
from syncline.engine import Prepared, Result
from syncline.errors import InputError, SimulationFailedError
from syncline.schema.load import Variant

POLL_S = 0.1

T = TypeVar("T")


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
    """Seconds since the first of them began."""
    is_over: bool = False
    """Whether this is the last that is heard: all are finished, or an error has ended them."""
    simulated_s: float | None = None
    """Simulated seconds, where that is known."""
    events: int | None = None
    """Events of all of them together so far, where that is known."""
    expected_events: int | None = None
    """Events that all of them are expected to take together, where that is known."""


Watch = Callable[[Standing], None]
"""Hears of progress, on the thread that waits for the simulations."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the simulation of a variant ended."""

    index: int
    variant: Variant
    result: Result | None = None
    failure: str | None = None
    refused: InputError | None = None


@dataclass(slots=True)
class Outcomes:
    """How the simulations ended, in the order of the variants; `interrupted` if some never did."""

    outcomes: list[Outcome]
    interrupted: bool = False

    @property
    def results(self) -> list[tuple[Variant, Result]]:
        """What was simulated."""
        return [(o.variant, o.result) for o in self.outcomes if o.result is not None]

    @property
    def failures(self) -> list[tuple[str, str]]:
        """The variants that failed, and why."""
        return [(o.variant.name, o.failure) for o in self.outcomes if o.failure is not None]

    @property
    def refused(self) -> bool:
        """Whether the engine refused a variant."""
        return any(o.refused is not None for o in self.outcomes)

    def raise_if_refused(self) -> None:
        """Raises the [`InputError`]s with which the engine refused variants, as one."""
        refusals = [o.refused for o in self.outcomes if o.refused is not None]
        if refusals:
            raise InputError(p for error in refusals for p in error.problems)


def run_all(
    variants: Sequence[Variant],
    threads: int | None = None,
    finished: Callable[[Outcome], None] | None = None,
    *,
    steady: bool = False,
    prepared: Sequence[Prepared | None] | None = None,
    watch: Watch | None = None,
    expected_events: int | None = None,
) -> Outcomes:
    """Simulates the variants, `threads` at once, and calls `finished` on this thread after each; with `steady` each
    says what one more iteration costs. `prepared`: by variant, what of it has been set up already, with that `steady`.
    `watch` hears how far they are, and of how many events are expected.
    """
    outcomes: list[Outcome] = []
    interrupted = False
    set_up = [None] * len(variants) if prepared is None else prepared
    tasks = [
        (v.name, partial(_one, index, v, steady=steady, prepared=kept))
        for index, (v, kept) in enumerate(zip(variants, set_up, strict=True))
    ]
    try:
        for outcome in concurrently(tasks, threads, watch, expected_events):
            outcomes.append(outcome)
            if finished is not None:
                finished(outcome)
    except KeyboardInterrupt:
        interrupted = True
    return Outcomes(sorted(outcomes, key=lambda o: o.index), interrupted)


def concurrently(
    tasks: Sequence[tuple[str, Callable[[], T]]],
    threads: int | None = None,
    watch: Watch | None = None,
    expected_events: int | None = None,
) -> Iterator[T]:
    """What the named tasks return, as they end; `watch` hears how far they are, and of how many events are expected. An
    exception of a task is raised here, and so is one of `watch`.
    """
    pending: queue.SimpleQueue[tuple[str, Callable[[], T]]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()
    for task in tasks:
        pending.put(task)
    for _ in range(min(threads or os.cpu_count() or 1, len(tasks))):
        threading.Thread(target=_work, args=(pending, done), daemon=True).start()
    with Progress([name for name, _ in tasks], watch, expected_events) as progress:
        left = len(tasks)
        try:
            while left:
                try:
                    name, value, error = done.get(timeout=POLL_S)
                except queue.Empty:
                    progress.tick()
                    continue
                if error is not None:
                    raise error
                left -= 1
                progress.finished(name)
                yield cast("T", value)
        finally:
            _drain(pending)


def _work(
    pending: queue.SimpleQueue[tuple[str, Callable[[], T]]],
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]],
) -> None:
    while True:
        try:
            name, task = pending.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((name, task(), None))
        except BaseException as error:  # a panic of the engine, or a bug: raised again on the main thread
            done.put((name, None, error))


def _one(index: int, variant: Variant, *, steady: bool, prepared: Prepared | None) -> Outcome:
    try:
        return Outcome(index, variant, result=engine.run(variant, steady=steady, prepared=prepared))
    except SimulationFailedError as error:
        return Outcome(index, variant, failure=str(error))
    except InputError as error:
        return Outcome(index, variant, refused=error)


def _drain(pending: queue.SimpleQueue[tuple[str, Callable[[], T]]]) -> None:
    while True:
        try:
            pending.get_nowait()
        except queue.Empty:
            return


class Progress:
    """Counts what is finished, and says so."""

    def __init__(self, names: Sequence[str], watch: Watch | None, expected_events: int | None = None) -> None:
        self._expected_events = expected_events
        self._waiting = list(names)
        self._total = len(names)
        self._began = time.monotonic()
        self._watch = watch

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._say(is_over=True)

    def tick(self) -> None:
        """Says how far things are."""
        self._say()

    def finished(self, name: str) -> None:
        """A simulation ended."""
        self._waiting.remove(name)
        self._say()

    def _say(self, *, is_over: bool = False) -> None:
        if self._watch is not None:
            done, elapsed_s = self._total - len(self._waiting), time.monotonic() - self._began
            expected = self._expected_events
            waiting = tuple(self._waiting)
            self._watch(Standing(done, self._total, waiting, elapsed_s, is_over, expected_events=expected))
