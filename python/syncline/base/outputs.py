"""Writes the files of a user: the one place where it is decided which of them may be replaced.

A file that is one of those that the same command reads is never written. A file that exists is replaced only if it is
of the kind that is written there, so that what a command has written, the same command writes anew; anything else is
left alone, and refused with what is accepted. A kind is told by how a file begins, which costs one short reading. An
empty file holds nothing that could be lost, and counts as no file.

Folders have rules of their own (`rundir` of a run), but what is written into others than runs goes through here.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncline.base import atomic, folders, inputs
from syncline.base.errors import InputError, command_line, unwritten

HEAD_BYTES: Final = 8192
"""As much of a file as is looked at."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of one kind."""

    what: str
    """What one is, as the end of a sentence: `a page of Syncline`."""
    is_one: Callable[[Path], bool]
    """Whether a file that exists is one."""


def begun(what: str, pattern: bytes) -> Kind:
    """Files whose first bytes match a pattern; `.` is any byte, line ends too."""
    return Kind(what, lambda path: re.match(pattern, _head(path), re.DOTALL) is not None)


def packed(what: str, pattern: bytes) -> Kind:
    """Files that are packed by gzip, and begin like this within."""

    def is_one(path: Path) -> bool:
        with suppress(zlib.error):
            begin = zlib.decompressobj(31).decompress(_head(path), HEAD_BYTES)
            return re.match(pattern, begin, re.DOTALL) is not None
        return False

    return Kind(what, is_one)


_TIMELINE: Final = "a timeline that Syncline has written"
_CHROME: Final = rb'\{"displayTimeUnit":"ns","otherData":\{"variant":'

PAGE: Final = begun(
    "a page that Syncline has written", rb'<!DOCTYPE html>.{0,1024}<meta name="generator" content="Syncline '
)
PICTURE: Final = begun("an SVG picture", rb"(<\?xml [^>]*>\s*)?(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]")
PNG: Final = begun("a PNG picture", rb"\x89PNG\r\n")
PDF: Final = begun("a PDF document", rb"%PDF-")
FIGURE_NUMBERS: Final = begun("the numbers of a figure", rb"panel,x,series,measure,value,")
SOFTWARE: Final = begun("a file of software constants", rb"software: ")
PLAN: Final = begun("a plan", rb'\s*\{\s*"format": ?"syncline-plan"')
MSCCL_XML: Final = begun("MSCCL XML", rb"\s*<algo ")
MSCCLPP_JSON: Final = begun("an execution plan of MSCCL++", rb'\s*\{\s*"name": ?"[^"]*",\s*"collective": ?"')
GRAPH: Final = begun("a graph file", rb'\s*\{\s*"format": ?"syncline-graph"')
IMPORTED: Final = begun("an experiment that syncline import has written", rb"# Written by syncline import ")
DIFFERENCES: Final = begun("a list of differences that syncline import has written", rb"# What differs in meaning: ")
SHAPES: Final = begun("a file of shapes", rb'\{"format": "syncline-shapes"')
KERNELS: Final = begun("a table of measured kernels", rb"kind,direction,m,k,n,")
CHAKRA: Final = begun("an execution trace that Syncline has written", rb".{1,256}syncline_")
COMMUNICATORS: Final = begun("a list of communicators", rb'\{"[^"]*": ?\[\s*\d')
KINETO: Final = begun("a profile that Syncline has written", rb'\{"schemaVersion": 1, "distributedInfo": ')
CHROME: Final = begun(_TIMELINE, _CHROME)
PERFETTO: Final = begun(_TIMELINE, rb"\n.{1,1024}about this trace")
"""The first packet has all names: those of few categories, then those of events, of which this is the first."""
LEDGER: Final = begun("a page that syncline reproduce has written", rb"<!-- Written by `make reproduction`")
TOPOLOGY: Final = begun("a topology file", rb"(<\?xml [^>]*>\s*)?<system[\s>]|[^{}<>]*\bGPU0\b")


TIMELINES: Final = {
    ".json": CHROME,
    ".json.gz": packed(_TIMELINE, _CHROME),
    ".pftrace": PERFETTO,
    ".perfetto-trace": PERFETTO,
}
"""Timelines by the suffixes of their files."""


def same(content: bytes) -> Kind:
    """Files with exactly this content."""
    return Kind("the same as what is written", lambda path: path.read_bytes() == content)


def refusal(path: Path, kind: Kind) -> tuple[str, str] | None:
    """Why a file is not written, and what is accepted; nothing if it may be."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None  # there is none, or writing says why not
    if stat.S_ISDIR(found.st_mode):
        return "this is a directory", "the name of a file"
    if not stat.S_ISREG(found.st_mode):
        return "this exists and is not a regular file", "the name of a file"
    if inputs.was_read(found):
        return "this file is read by the same command", "another name"
    with inputs.not_remembered():
        is_one = (found.st_size == 0 and _read(path) == b"") or kind.is_one(path)
    return None if is_one else (f"this file exists and is not {kind.what}", f"a new file, or {kind.what}")


def check(path: Path | None, kind: Kind, flag: str = "--out") -> None:
    """Raises [`InputError`] if a file exists that is not replaced, before anything is computed for it."""
    wrong = None if path is None else refusal(path, kind)
    if wrong is not None:
        raise command_line(flag, str(path), *wrong)


def check_all(each: Iterable[tuple[Path, Kind]], flag: str = "--out") -> None:
    """The same of files that are written together: either all of them or none. Raises one [`InputError`]."""
    wrong = [(path, found) for path, kind in each if (found := refusal(path, kind)) is not None]
    if wrong:
        raise InputError(problem for path, why in wrong for problem in command_line(flag, str(path), *why).problems)


def write_into(folder: Path, files: Mapping[str, tuple[bytes, Kind]], flag: str = "--out") -> None:
    """Writes files by their names into a folder, which is made. Raises [`InputError`] before any is written if one of
    them is not replaced, or where they cannot be written; and [`NotWrittenError`] where the disk is full.
    """
    check_all(((folder / name, kind) for name, (_, kind) in files.items()), flag)
    with folders.made(folder, flag):
        try:
            for name, (content, _) in files.items():
                atomic.write(folder / name, content)
        except (OSError, ValueError) as error:
            raise unwritten(folder, error, flag) from None


def write(path: Path, content: str | bytes, kind: Kind, flag: str = "--out") -> None:
    """Writes a file as a whole or not at all. Raises [`InputError`] where it is not replaced, or cannot be written; and
    [`NotWrittenError`] where the disk is full.
    """
    check(path, kind, flag)
    try:
        atomic.write(path, content)
    except (OSError, ValueError) as error:
        raise unwritten(path, error, flag) from None


def _head(path: Path) -> bytes:
    """The beginning of a file; nothing of one that cannot be read."""
    return _read(path) or b""


def _read(path: Path) -> bytes | None:
    """The beginning of a file, if it can be read: files of the kernel look empty and have no end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(handle, "rb") as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return None
