"""Opens the files of a user: the one place where that is done.

Only regular files are opened, and standard input, which is `-` on the command line. Directories, devices, sockets and
pipes between processes are refused, since reading one may never end; nothing here waits for a writer. What a file is
is asked of the opened file, so that none can be exchanged between the question and the reading. Every reading has a
limit of size, which is said where it is exceeded.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, Final

from syncline.base.errors import InputError, Problem

STANDARD_INPUT: Final = Path("/dev/stdin")
EXAMPLES: Final = Path(__file__).parents[1] / "examples"
MAX_TABLE_BYTES: Final = 2**30
"""Most that is read of a Parquet table, of a journal or of a JSON document that a command has written."""
_PIECE: Final = 2**20
_NOT_READ: Final = {
    stat.S_ISDIR: "this is a directory, not a file",
    stat.S_ISFIFO: "this is a pipe, not a regular file",
    stat.S_ISSOCK: "this is a socket, not a regular file",
    stat.S_ISCHR: "this is a device, not a regular file",
    stat.S_ISBLK: "this is a device, not a regular file",
}
_opened: ContextVar[set[tuple[int, int]] | None] = ContextVar("files that were opened", default=None)
"""Device and number of each, so that a file is known again by another name; nothing where nobody wants to know."""


@contextmanager
def remembered() -> Iterator[None]:
    """Files that are opened within are those of one command, which [`was_read`] knows."""
    if _opened.get() is not None:  # within another one, which goes on
        yield
        return
    before = _opened.set(set())
    try:
        yield
    finally:
        _opened.reset(before)


@contextmanager
def not_remembered() -> Iterator[None]:
    """What is opened within is looked at, and no input."""
    before = _opened.set(None)
    try:
        yield
    finally:
        _opened.reset(before)


def was_read(found: os.stat_result) -> bool:
    """Whether a file is one that the command has read."""
    return (found.st_dev, found.st_ino) in (_opened.get() or ())


def given(path: str | Path) -> Path:
    """The file that is meant by an argument of the command line: `-` is standard input, and `examples/...` are the
    examples of the package where there is no such file.
    """
    if str(path) == "-":
        return STANDARD_INPUT
    named = Path(path)
    parts = named.parts
    if parts[:1] == (EXAMPLES.name,) and ".." not in parts and "\0" not in str(path) and not os.path.lexists(named):
        example = EXAMPLES.joinpath(*parts[1:])
        return example if example.is_file() else named
    return named


def folder_of(path: Path) -> Path:
    """Where relative paths start that are written in a file: beside it."""
    return Path() if path == STANDARD_INPUT else path.parent


def read_bytes(path: Path, label: str, max_bytes: int = MAX_TABLE_BYTES) -> bytes:
    """The content of a regular file, or of standard input.

    Raises [`InputError`] that says why there is none, or that there are more than `max_bytes`.
    """
    if path == STANDARD_INPUT:
        return content(sys.stdin.buffer, label, max_bytes) if sys.stdin is not None else b""
    with open_regular(path, label) as file:
        return content(file, label, max_bytes)


def content(file: BinaryIO, label: str, max_bytes: int = MAX_TABLE_BYTES) -> bytes:
    """What is left to read of an opened file. Raises [`InputError`] like [`read_bytes`]."""
    try:
        data = _read(file, max_bytes)
    except (OSError, ValueError) as error:
        raise _refused(label, f"cannot be read: {_reason(error)}") from None
    if len(data) > max_bytes:
        raise _refused(label, f"the file is larger than {max_bytes} bytes")
    return data


def open_regular(path: Path, label: str, *, write: bool = False) -> BinaryIO:
    """A regular file, opened unbuffered for reading, or for both. Raises [`InputError`] if it is none."""
    try:
        handle = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise _refused(label, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise _refused(label, _unopened(error)) from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise _refused(label, next(text for is_such, text in _NOT_READ.items() if is_such(status.st_mode)))
    known = _opened.get()
    if known is not None and not write:
        known.add((status.st_dev, status.st_ino))
    return os.fdopen(handle, "r+b" if write else "rb", buffering=0)


def _read(file: BinaryIO, max_bytes: int) -> bytes:
    """At most one byte more than `max_bytes`."""
    pieces: list[bytes] = []
    left = max_bytes + 1
    while left > 0:
        piece = file.read(min(left, _PIECE))
        if piece is None:  # a regular file that waits, as some of the kernel's do
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _unopened(error: Exception) -> str:
    kind = getattr(error, "errno", None)
    if kind == errno.EISDIR:
        return _NOT_READ[stat.S_ISDIR]
    if kind in (errno.ENXIO, errno.ENODEV):  # a socket, or a device without its driver
        return "this is not a regular file"
    return f"cannot be read: {_reason(error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "the input never ends"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _refused(label: str, message: str) -> InputError:
    return InputError([Problem(label, None, "", None, message)])
