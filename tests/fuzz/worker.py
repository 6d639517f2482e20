"""Processes that run cases, with limits of time and memory.

A worker runs the command line within itself, so that a case takes milliseconds; what a command prints goes through the
real file descriptors into memory. One that hangs, or is ended by a signal, is replaced. Simulations that are expected
to take long are refused before they start: what is sought is what takes long without being expected to.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from io import TextIOWrapper
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any, Final

from .case import Case
from .verdict import Ended

TIMEOUT_S: Final = 30.0
"""Of processor time: how busy the machine is otherwise means nothing."""
ASLEEP_S: Final = 120.0
"""Of waiting without an end."""
POLL_S: Final = 0.5
MEMORY_BYTES: Final = 5 * 2**30
"""Of address space: libraries reserve more than they use."""
MOST_EVENTS: Final = 30_000
TIRED_BYTES: Final = 5 * 2**29
"""Address space with which a worker is replaced."""
MOST_MEMORY_BYTES: Final = 2**29
MOST_OUTPUT: Final = 2**24
WORK_OF_TRIALS: Final = 400_000
"""Of a choice of `auto`, which takes seconds otherwise."""


class Worker:
    """A process that runs one case at a time."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._errors: IO[bytes] | None = None
        """Standard error of the process, once it has answered."""

    def run(self, case: Case) -> list[Ended]:
        """How the commands of a case ended, up to the first that did not return."""
        connection = self._started()
        connection.send(case)
        ends: list[Ended] = []
        for _ in case.commands:
            try:
                if not self._has_answered(connection):
                    self.end()
                    return [*ends, Ended(None, ended_by="hang", detail=f"not done after {TIMEOUT_S:.0f} s")]
                ends.append(connection.recv())
                self._errors = self._errors or self._standard_error()
            except (EOFError, ConnectionError):
                detail = self._how_it_died()
                return [*ends, Ended(None, ended_by="abort", detail=detail)]
        if self._address_space() > TIRED_BYTES:
            self.end()
        return ends

    def _address_space(self) -> int:
        """What is left of it is what commands may take; what earlier ones have freed is not given back."""
        assert self._process is not None
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[0]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _has_answered(self, connection: Connection) -> bool:
        """Waits for the end of a command; not for one that takes too long."""
        began, before = time.monotonic(), self._processor_time_s()
        while not connection.poll(POLL_S):
            if self._processor_time_s() - before > TIMEOUT_S or time.monotonic() - began > ASLEEP_S:
                return False
        return True

    def _processor_time_s(self) -> float:
        """What all threads of the process have taken so far."""
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _standard_error(self) -> IO[bytes] | None:
        """The file in memory that takes the place of standard error; it outlives the process while it is open."""
        assert self._process is not None
        try:
            return Path(f"/proc/{self._process.pid}/fd/2").open("rb")
        except OSError:
            return None

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._forget()

    def _forget(self) -> None:
        if self._errors is not None:
            self._errors.close()
        self._process = self._errors = None

    def _started(self) -> Connection:
        if self._process is None or not self._process.is_alive() or self._connection is None:
            self._forget()
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._connection

    def _how_it_died(self) -> str:
        assert self._process is not None
        self._process.join()
        code, words = self._process.exitcode or 0, self._last_words()
        self._forget()
        ended = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
        return f"{ended} {words}".rstrip()

    def _last_words(self) -> str:
        """What it wrote to standard error, which a process that is no more cannot send."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read(MOST_OUTPUT).decode("utf-8", "replace").strip()


def _work(connection: Connection) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ |= {"COLUMNS": "120", "NO_COLOR": "1"}
    for name in ("OMP_NUM_THREADS", "ARROW_IO_THREADS", "RAYON_NUM_THREADS", "MALLOC_ARENA_MAX"):
        os.environ[name] = "2"
    home = Path(tempfile.mkdtemp(prefix="syncline-fuzz-"))
    out, err = (_captured(number) for number in (1, 2))
    sys.stdout = TextIOWrapper(os.fdopen(1, "wb", closefd=False), "utf-8", "strict")
    sys.stderr = TextIOWrapper(os.fdopen(2, "wb", closefd=False), "utf-8", "backslashreplace", line_buffering=True)
    try:
        from typer import main

        from syncline.commands import cli

        # The command line is the same for every case: that it is read from signatures takes more than most commands.
        main.get_command = cache(main.get_command)
        _refuse_long_simulations()
        environment = dict(os.environ)
        while True:
            case: Case = connection.recv()
            os.environ.clear()  # of what options of earlier cases have set
            os.environ.update(environment)
            folder = home / "case"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _write(folder, case.files)
            os.chdir(folder)
            for arguments in case.commands:
                connection.send(_run(cli.run, arguments, out, err))
    except (EOFError, ConnectionError):
        pass
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _captured(number: int) -> int:
    """Has a file in memory in place of a file descriptor of this process."""
    memory = os.memfd_create(f"fuzz{number}")
    os.dup2(memory, number)
    return memory


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _run(command: Callable[[list[str]], int], arguments: list[str], out: int, err: int) -> Ended:
    for memory in (out, err):
        os.ftruncate(memory, 0)
        os.lseek(memory, 0, os.SEEK_SET)
    sys.argv = ["syncline", *arguments]
    status: int | None = None
    ended_by, detail = None, ""
    try:
        status = command(arguments)
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else 1
    except BaseException:
        ended_by, detail = "traceback", traceback.format_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        ended_by, detail = "traceback", traceback.format_exc()
    said_out, said_err = (os.pread(memory, MOST_OUTPUT, 0) for memory in (out, err))
    return Ended(status, said_out, said_err, ended_by, detail)


def _refuse_long_simulations() -> None:
    """Has the engine refuse what its estimate says takes long, and `auto` do with shorter trials."""
    from syncline.base.errors import SimulationFailedError
    from syncline.core import _core
    from syncline.engine import estimate, trials
    from syncline.engine import runs as engine
    from syncline.engine.runs import Prepared, Result
    from syncline.experiment.load import Variant

    run = engine.run

    def short(
        variant: Variant,
        *,
        steady: bool = False,
        prepared: Prepared | None = None,
        monitor: _core.Monitor | None = None,
    ) -> Result:
        expected = estimate.of(variant.experiment, engine.preview(variant))
        if expected.events > MOST_EVENTS or expected.memory_bytes > MOST_MEMORY_BYTES:
            raise SimulationFailedError("this takes too long to be tried")
        return run(variant, steady=steady, prepared=prepared, monitor=monitor)

    engine.run = short
    trials.WORK = WORK_OF_TRIALS  # type: ignore[misc]
