"""A process that does work for this one, one piece at a time.

It is a fresh interpreter that imports what the work needs, and nothing of the program that asks for it: a script that
starts workers is not run again in them, and needs no `if __name__ == "__main__":`. It does not outlive the process that
started it, however that ends, and does not hear of Ctrl-C, which is for that process to handle.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import spawn
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final

from syncline.base import interrupts, last_resort
from syncline.studies.sweeps.work import Work

PROGRAM: Final = "import sys; sys.path[:] = sys.argv[3:]; from syncline.studies.sweeps.worker import main; main()"


@dataclass(frozen=True, slots=True)
class Worker:
    """A process, and the line over which it hears what to do and answers. It ends when the line is closed."""

    process: subprocess.Popen[bytes]
    line: Connection

    def give(self, work: Work, given: tuple[Any, ...]) -> None:
        """Sends it a piece of work. That it died is found when it is waited for."""
        with suppress(ConnectionError):
            self.line.send((work, given))


class Employer:
    """Starts workers, which end when this is closed, or when its process ends."""

    def __init__(self) -> None:
        self._alive, self._kept = os.pipe()

    def close(self) -> None:
        """Ends the workers that are left."""
        os.close(self._alive)
        os.close(self._kept)

    def hire(self) -> Worker:
        """A worker with nothing to do yet."""
        ours, theirs = Pipe()
        with theirs:
            handed = (theirs.fileno(), self._alive)
            command = [spawn.get_executable(), *_flags(), "-P", "-c", PROGRAM, *map(str, handed), *_search_path()]
            with interrupts.held_back(), _deaf_children():
                return Worker(subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=handed), ours)


def main() -> None:
    """The life of a worker: it ends when there is nobody to work for."""
    line, alive = Connection(int(sys.argv[1])), int(sys.argv[2])
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    with suppress(EOFError, ConnectionError):
        while True:
            work, given = line.recv()
            try:
                result = work(*given)
            except Exception as error:  # a bug: what asked for this hears that the process has ended
                last_resort.leave(error, ["(a process that simulates)"])
            line.send(result)


def _end_with(alive: int) -> None:
    os.read(alive, 1)  # which nobody writes to
    os._exit(1)


def _flags() -> list[str]:
    """The flags of this interpreter, such as -O and -W, which `multiprocessing` hands on as well."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return flags


def _search_path() -> list[str]:
    """Where this process finds modules, those of scripts and notebooks included."""
    return [path for path in sys.path if isinstance(path, str)]


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile do not hear of Ctrl-C, from their first moment: they inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
