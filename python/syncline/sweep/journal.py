"""What a sweep has finished, kept as it goes, so that a sweep that is killed at any moment can be taken up again.

One JSON object per line: a header, then what came of each simulation under its key. A line is on the disk (fsync)
before anything else happens. Lines are only ever appended; a last line that was torn by the end of the process is
removed when the journal is opened again. A journal is locked while a sweep writes to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import syncline
from syncline.errors import InputError, Problem, shown

KIND: Final = "syncline sweep journal"
FORMAT: Final = 3

Status = Literal["done", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What came of a simulation."""

    status: Status
    error: str | None = None
    measures: dict[str, Any] = field(default_factory=dict)
    """Columns of the table and their values; equal whenever the simulation is run."""
    wall_time_s: float | None = None
    events: int | None = None


def beside(output: Path) -> Path:
    """The journal of an output."""
    return output.with_name(f"{output.name}.journal")


def check(path: Path, *, resume: bool) -> None:
    """Refuses to begin anew where there is a journal, or a sweep that writes one. Raises [`InputError`]."""
    if path.exists() and not resume:
        with path.open("rb") as file:
            _lock(file, path)
        accepted = "--resume, which goes on with it; or remove it to begin again"
        raise _refused(path, "there is a journal of an earlier sweep for this output", accepted)


@dataclass(slots=True)
class Journal:
    """An open journal."""

    entries: dict[str, Entry]
    path: Path
    _file: BinaryIO

    @classmethod
    def open(cls, path: Path, *, resume: bool) -> Journal:
        """Opens the journal at `path`, or makes one. Raises [`InputError`] if it must not be used."""
        check(path, resume=resume)
        try:
            file = path.open("r+b" if path.exists() else "x+b", buffering=0)
        except OSError as error:
            raise _refused(path, f"this journal cannot be used: {error.strerror}") from None
        try:
            _lock(file, path)
            entries, end = _read(file.read(), path)
            file.truncate(end)
            file.seek(end)
            journal = cls(entries, path, file)
            if end == 0:
                journal._append({"kind": KIND, "format": FORMAT, "version": syncline.__version__})
                _sync_folder(path.parent)
        except BaseException:
            file.close()
            raise
        return journal

    def add(self, key: str, name: str, entry: Entry) -> None:
        """Keeps what came of a simulation; it is on the disk when this returns."""
        self._append({"key": key, "name": name, **asdict(entry)})
        self.entries[key] = entry

    def close(self) -> None:
        """Lets others use the journal."""
        self._file.close()

    def _append(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, allow_nan=False).encode() + b"\n"
        try:
            while line:  # unbuffered: what does not fit on the disk is known here, not when the file is closed
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C has its effect after what is done here."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise _refused(path, "another sweep is writing to this journal", "an output of its own") from None


def _read(data: bytes, path: Path) -> tuple[dict[str, Entry], int]:
    """The entries, and where the last whole line ends."""
    end = data.rfind(b"\n") + 1
    lines = data[:end].splitlines()
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if number == 1:
                _check_header(value, path)
                continue
            key = value.pop("key")
            del value["name"]
            entries[key] = Entry(**value)
        except (ValueError, KeyError, TypeError, AttributeError):
            message = (
                f"line {number} is not one of a sweep's journal" if number > 1 else "this is not a sweep's journal"
            )
            raise _refused(path, message, "the journal that a sweep has written") from None
    return entries, end


def _check_header(value: Any, path: Path) -> None:
    if value["kind"] != KIND:
        raise ValueError
    if value["format"] != FORMAT:
        message = "this journal has the columns of another version of Syncline"
        raise _refused(path, message, "that version; or remove it to begin again")


def _sync_folder(folder: Path) -> None:
    """Has the folder's list of files on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(path: Path, message: str, accepted: str | None = None) -> InputError:
    return InputError([Problem("command line", None, "--out", shown(str(path)), f"{path}: {message}", accepted)])
