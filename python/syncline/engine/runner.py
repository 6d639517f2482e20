"""Runs the variants of a study, several at once: the engine releases the interpreter lock.

Outcomes are handed to the caller as they come. On Ctrl-C the caller is told at once. Simulations that are under way
are told to end through their monitors; one that is still being set up hears of it at its first event.
A program that ends meanwhile waits for that; an interrupted command does not.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from syncline.base.errors import CancelledError, InputError, SimulationFailedError
from syncline.base.progress import Standing, Underway, Watch
from syncline.core import cancelling
from syncline.engine import runs as engine
from syncline.engine.runs import PS_PER_S, Prepared, Result
from syncline.experiment.load import Variant

if TYPE_CHECKING:
    from syncline.core import _core
    from syncline.core.cancelling import Cancellation

POLL_S = 0.1

T = TypeVar("T")


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
    cancelled: bool = False
    """Whether some never did because this was cancelled."""

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
    expected: Sequence[int | None] | None = None,
) -> Outcomes:
    """Simulates the variants, `threads` at once, and calls `finished` on this thread after each; with `steady` each
    says what one more iteration costs. `prepared`: by variant, what of it has been set up already, with that `steady`.
    `watch` hears how far they are; `expected` has the events of each, as far as they are known. What ends the variants
    ends this, as an interrupt does, with those outcomes that there are.
    """
    outcomes: list[Outcome] = []
    interrupted = cancelled = False
    set_up = [None] * len(variants) if prepared is None else prepared
    monitors = [cancelling.monitor(variant.cancel) for variant in variants]
    tasks = [
        (v.name, partial(_one, index, v, steady=steady, prepared=kept, monitor=monitor))
        for index, (v, kept, monitor) in enumerate(zip(variants, set_up, monitors, strict=True))
    ]
    cancel = next((variant.cancel for variant in variants if variant.cancel is not None), None)
    try:
        for outcome in concurrently(tasks, threads, watch, cancel=cancel, monitors=monitors, expected=expected):
            outcomes.append(outcome)
            if finished is not None:
                finished(outcome)
    except KeyboardInterrupt:
        interrupted = True
    except CancelledError:
        cancelled = True
    return Outcomes(sorted(outcomes, key=lambda o: o.index), interrupted, cancelled)


def concurrently(
    tasks: Sequence[tuple[str, Callable[[], T]]],
    threads: int | None = None,
    watch: Watch | None = None,
    *,
    cancel: Cancellation | None = None,
    monitors: Sequence[_core.Monitor] = (),
    expected: Sequence[int | None] | None = None,
) -> Iterator[T]:
    """What the named tasks return, as they end; `watch` hears how far they are. An exception of a task is raised here,
    and so are one of `watch`, and [`CancelledError`] when `cancel` is called.

    `monitors` are those of the simulations that the tasks are, which are ended where this is left before they are
    finished; `expected` has the events of each, as far as they are known. A task that is under way then goes on on its
    thread, and the process waits for it when it ends: Python would end that thread inside of native code, which aborts
    the process.
    """
    cancelling.check(cancel)
    pending: queue.SimpleQueue[tuple[str, Callable[[], T]]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()
    for task in tasks:
        pending.put(task)
    workers = [
        threading.Thread(target=_work, args=(pending, done), daemon=True)
        for _ in range(min(threads or os.cpu_count() or 1, len(tasks)))
    ]
    for worker in workers:
        worker.start()
    with Progress([name for name, _ in tasks], watch, monitors, expected) as progress:
        left = len(tasks)
        try:
            while left:
                try:
                    name, value, error = done.get(timeout=POLL_S)
                except queue.Empty:
                    cancelling.check(cancel)
                    progress.tick()
                    continue
                if error is not None:
                    raise error
                left -= 1
                progress.finished(name)
                yield cast("T", value)
        finally:
            _drain(pending)
            for monitor in monitors:
                monitor.cancel()
            for worker in workers if left else ():
                atexit.register(worker.join)


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


def _one(index: int, variant: Variant, *, steady: bool, prepared: Prepared | None, monitor: _core.Monitor) -> Outcome:
    try:
        result = engine.run(variant, steady=steady, prepared=prepared, monitor=monitor)
        return Outcome(index, variant, result=result)
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
    """Counts what is finished, and says so, with what monitors see of the simulations."""

    def __init__(
        self,
        names: Sequence[str],
        watch: Watch | None,
        monitors: Sequence[_core.Monitor] = (),
        expected: Sequence[int | None] | None = None,
    ) -> None:
        self._monitors = list(zip(names, monitors, expected or [None] * len(monitors), strict=True)) if monitors else []
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
            events = sum(monitor.events for _, monitor, _ in self._monitors)
            self._watch(
                Standing(
                    done,
                    self._total,
                    tuple(self._waiting),
                    elapsed_s,
                    is_over,
                    self._underway(),
                    events,
                    self._expected(),
                )
            )

    def _underway(self) -> tuple[Underway, ...]:
        return tuple(
            Underway(name, monitor.time_ps / PS_PER_S, monitor.events, expected)
            for name, monitor, expected in self._monitors
            if monitor.events and name in self._waiting
        )

    def _expected(self) -> int | None:
        known = [expected for _, _, expected in self._monitors if expected is not None]
        return sum(known) if known and len(known) == len(self._monitors) else None
