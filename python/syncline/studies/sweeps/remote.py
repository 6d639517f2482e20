"""Simulates on a Ray cluster, in place of processes of this machine.

Ray is an optional extra (`pip install syncline[ray]`) and is imported when it is asked for. A worker simulates one task
at a time; a worker that dies takes down its task and nothing else, as in `pool`. The journal is that of the process
which asks: what workers return is on its disk before the next result is looked at.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, Final

from syncline.base.errors import InputError, SimulationFailedError, command_line
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.work import Task, Work, WorkerDiedError

AHEAD: Final = 2
"""Tasks that a processor of the cluster has or waits for: more would only fill the memory of its object store."""


def missing(address: str) -> InputError | None:
    """What to say where a cluster is asked for and there is no Ray."""
    if not address.strip():
        return command_line("--ray", address, "this is no address", "HOST:PORT, auto or local")
    if importlib.util.find_spec("ray") is None:
        message = "the package ray is not installed"
        return command_line("--ray", address, message, "pip install 'syncline[ray]', or no --ray")
    return None


def carry_out(
    work: Work, tasks: Sequence[Task], address: str, most: int | None = None
) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
    """What comes of each task, as it comes; `most` of them at once, or as many as the cluster has processors.

    Raises [`SimulationFailedError`] if the cluster cannot be reached.
    """
    if not tasks:
        return
    ray: Any = importlib.import_module("ray")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise SimulationFailedError(f"--ray {address}: the cluster cannot be reached: {reason}") from None
    try:
        yield from _outcomes(ray, work, tasks, most)
    finally:
        ray.shutdown()


def _outcomes(
    ray: Any, work: Work, tasks: Sequence[Task], most: int | None
) -> Generator[tuple[str, Entry | WorkerDiedError], None, None]:
    processors = int(ray.cluster_resources().get("CPU", 1))
    at_once = most or AHEAD * max(1, processors)
    # A task is tried once: one that takes all memory would take down worker after worker.
    remote = ray.remote(num_cpus=1, max_retries=0)(_of_task)
    waiting, running = deque(tasks), dict[Any, str]()
    while waiting or running:
        while waiting and len(running) < at_once:
            key, given = waiting.popleft()
            running[remote.remote(work, given)] = key
        finished, _ = ray.wait(list(running), num_returns=1)
        for reference in finished:
            key = running.pop(reference)
            try:
                outcome = ray.get(reference)
            except ray.exceptions.RayTaskError:
                raise  # an error of Syncline, not of the cluster
            except ray.exceptions.RayError as error:
                said = str(error).partition("\n")[0]
                outcome = WorkerDiedError(f"the worker that simulated this ended unexpectedly ({said})")
            yield key, outcome


def _of_task(work: Work, given: tuple[Any, ...]) -> Entry:
    """The life of a task, in a process of the cluster."""
    return work(*given)
