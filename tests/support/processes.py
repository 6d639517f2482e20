"""Functions that are carried out by several processes at once, as ranks of a communicator."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from syncline.runtime.library import Communicator, new_identity

SECONDS = 150.0
"""After so long, a rank is taken to hang."""

Body = Callable[..., Any]


def ranks(
    body: Body, count: int, *arguments: Any, environment: dict[str, str] | None = None, silent: Sequence[int] = ()
) -> list[Any]:
    """What a function of a module returns in each process, where it is called with a communicator of its own. What it
    raises is raised here. Nothing is expected of `silent` ranks.
    """
    return each(_with_communicator, count, body, new_identity(), *arguments, environment=environment, silent=silent)


def each(
    body: Body, count: int, *arguments: Any, environment: dict[str, str] | None = None, silent: Sequence[int] = ()
) -> list[Any]:
    """The same with the rank's number, and how many there are, in place of a communicator."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    processes = [
        context.Process(target=_member, args=(pipes[rank][1], body, (rank, count, *arguments), environment or {}))
        for rank in range(count)
    ]
    try:
        for process in processes:
            process.start()
        for _, outlet in pipes:
            outlet.close()
        answers = []
        for rank, (inlet, _) in enumerate(pipes):
            if rank in silent:
                continue
            assert inlet.poll(SECONDS), f"rank {rank} hangs"
            answers.append(inlet.recv())
    finally:
        for process in processes:
            process.kill()
            process.join()
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _with_communicator(rank: int, count: int, body: Body, identity: bytes, *arguments: Any) -> Any:
    communicator = Communicator(identity, rank, count)
    answer = body(communicator, *arguments)
    communicator.close()
    return answer


def _member(outlet: Connection, body: Body, arguments: Sequence[Any], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    try:
        answer = body(*arguments)
    except BaseException as error:  # also what pytest raises where something was expected
        answer = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        answer.add_note(traceback.format_exc())
    outlet.send(answer)
