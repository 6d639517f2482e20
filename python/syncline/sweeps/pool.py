"""Simulates on several processors at once, in processes of its own.

Each worker is a fresh process (spawned, not forked: an engine that runs threads cannot be forked) that is sent one
simulation, or another piece of work, at a time. It does not outlive this process, however that ends, and does not hear
of Ctrl-C, which is for this process to handle. A worker that dies takes down the simulation it was at and nothing else.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, cast

from syncline import cancelling, interrupts, runner
from syncline.schema.load import Variant
from syncline.sweeps import measures, remote
from syncline.sweeps.journal import Entry
from syncline.sweeps.work import Task, Work, WorkerDiedError

if TYPE_CHECKING:
    from syncline.cancelling import Cancellation

Job = tuple[str, Variant, int]
"""A simulation under its key, and with how many seeds it is run if it loses frames."""

_context = multiprocessing.get_context("spawn")


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
        self._workers: dict[Connection, tuple[BaseProcess, str]] = {}
        self._idle: list[BaseProcess] = []

    def outcomes(self) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
        try:
            for _ in range(self._count):
                self._hire()
            while self._workers:
                cancelling.check(self._cancel)
                patience = None if self._cancel is None else runner.POLL_S
                for connection in cast("list[Connection]", wait(list(self._workers), patience)):
                    yield self._receive(connection)
        finally:
            for process, _ in self._workers.values():
                process.kill()
                self._idle.append(process)
            for process in self._idle:
                process.join()

    def _receive(self, connection: Connection) -> tuple[str, Entry | WorkerDiedError]:
        """What a worker has to say, after it has been given something else to do."""
        process, key = self._workers[connection]
        try:
            entry: Entry = connection.recv()
        except (EOFError, ConnectionError):
            del self._workers[connection]
            process.join()
            if self._pending:
                self._hire()
            return key, WorkerDiedError(
                f"the process that simulated this ended unexpectedly ({_how(process.exitcode)})"
            )
        self._give(connection, process)
        return key, entry

    def _hire(self) -> None:
        ours, theirs = _context.Pipe()
        process = _context.Process(target=_work, args=(theirs, self._work), daemon=True)
        with interrupts.held_back(), _deaf_children():
            process.start()
        theirs.close()
        self._give(ours, process)

    def _give(self, connection: Connection, process: BaseProcess) -> None:
        """Sends the next task, or tells the worker that there is none."""
        if not self._pending:
            self._workers.pop(connection, None)
            self._idle.append(process)
            connection.close()
            return
        key, given = self._pending.popleft()
        self._workers[connection] = (process, key)
        with suppress(ConnectionError):  # a worker that died is found when it is waited for
            connection.send(given)


def _work(connection: Connection, work: Work) -> None:
    """The life of a worker: it ends when there is nobody to work for."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        while True:
            connection.send(work(*connection.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear of Ctrl-C, from their first moment: they inherit the mask."""
    resource_tracker.ensure_running()  # which would change the mask when the first worker is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"exit status {exitcode}"
    return (
        f"signal {-exitcode}: it may have run out of memory" if -exitcode == signal.SIGKILL else f"signal {-exitcode}"
    )
