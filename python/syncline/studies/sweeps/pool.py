"""Simulates on several processors at once, in processes of its own.

Each worker is a fresh process (not a fork: an engine that runs threads cannot be forked) that is sent one simulation,
or another piece of work, at a time. A worker that dies takes down the simulation it was at and nothing else.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, cast

from syncline.core import cancelling
from syncline.engine import runner
from syncline.experiment.load import Variant
from syncline.studies.sweeps import measures, remote
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.work import Task, Work, WorkerDiedError
from syncline.studies.sweeps.worker import Employer, Worker

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

Job = tuple[str, Variant, int]
"""A simulation under its key, and with how many seeds it is run if it loses frames."""


def simulate(
    jobs: Sequence[Job],
    threads: int | None = None,
    address: str | None = None,
    *,
    cancel: Cancellation | None = None,
) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
    """What comes of each job, as it comes, with `threads` of them at once; one per processor if not given. With the
    `address` of a Ray cluster, its workers simulate. Raises [`CancelledError`] when `cancel` is called, unless a
    cluster simulates.
    """
    tasks = [(key, (variant, seeds)) for key, variant, seeds in jobs]
    if address is None:
        return carry_out(measures.simulate, tasks, threads, cancel=cancel)
    return remote.carry_out(measures.simulate, tasks, address, threads)


def carry_out(
    work: Work, tasks: Sequence[Task], threads: int | None = None, *, cancel: Cancellation | None = None
) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
    """The same for what a function makes of each task."""
    cancelling.check(cancel)
    count = min(threads or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        one_by_one = [(key, partial(_one, work, key, given)) for key, given in tasks]
        yield from runner.concurrently(one_by_one, 1, cancel=cancel)
    else:
        yield from _Pool(work, tasks, count, cancel).outcomes()


def _one(work: Work, key: str, given: tuple[Any, ...]) -> tuple[str, Entry | WorkerDiedError]:
    return key, work(*given)


class _Pool:
    """Workers, and the tasks that none of them has yet."""

    def __init__(self, work: Work, tasks: Sequence[Task], count: int, cancel: Cancellation | None) -> None:
        self._cancel = cancel
        self._work = work
        self._pending = deque(tasks)
        self._count = count
        self._workers: dict[Connection, tuple[Worker, str]] = {}
        self._idle: list[Worker] = []
        self._employer = Employer()

    def outcomes(self) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
        try:
            for _ in range(self._count):
                self._give(self._employer.hire())
            while self._workers:
                cancelling.check(self._cancel)
                patience = None if self._cancel is None else runner.POLL_S
                for line in cast("list[Connection]", wait(list(self._workers), patience)):
                    yield self._receive(line)
        finally:
            for worker, _ in self._workers.values():
                worker.process.kill()
                worker.line.close()
                self._idle.append(worker)
            for worker in self._idle:
                worker.process.wait()
            self._employer.close()

    def _receive(self, line: Connection) -> tuple[str, Entry | WorkerDiedError]:
        """What a worker has to say, after it has been given something else to do."""
        worker, key = self._workers[line]
        try:
            entry: Entry = line.recv()
        except (EOFError, ConnectionError):
            del self._workers[line]
            line.close()
            status = worker.process.wait()
            if self._pending:
                self._give(self._employer.hire())
            return key, WorkerDiedError(f"the process that simulated this ended unexpectedly ({_how(status)})")
        self._give(worker)
        return key, entry

    def _give(self, worker: Worker) -> None:
        """Sends the next task, or tells the worker that there is none."""
        if not self._pending:
            self._workers.pop(worker.line, None)
            self._idle.append(worker)
            worker.line.close()
            return
        key, given = self._pending.popleft()
        self._workers[worker.line] = (worker, key)
        worker.give(self._work, given)


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    return f"signal {-status}: it may have run out of memory" if -status == signal.SIGKILL else f"signal {-status}"
