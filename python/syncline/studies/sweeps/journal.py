"""What a sweep has finished, kept as it goes, so that a sweep that is killed at any moment can be taken up again.

One JSON object per line: a header, then what came of each simulation under its key, each with a checksum of itself. A
line is on the disk (fsync) before anything else happens. Lines are only ever appended; a last line that was torn by the
end of the process is removed when the journal is opened again, and a line that does not hold its checksum counts for
nothing: its simulation is run again. A journal is locked while a sweep writes to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from syncline import _version
from syncline.base import inputs
from syncline.base.errors import InputError, NotWrittenError, Problem, shown

KIND: Final = "syncline sweep journal"
FORMAT: Final = 4
_BEGIN: Final = b'{"kind": "' + KIND.encode()
"""How every journal begins."""
_NO_JOURNAL: Final = ("this is not a sweep's journal", "the journal that a sweep has written")
NAMED: Final = 10
"""Lines that are named one by one when they do not hold."""

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


def _cell(value: object) -> object:
    """A value that a table can hold."""
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError


Cell = Annotated[object, PlainValidator(_cell)]


class _Line(TypedDict):
    """A line after the header."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    key: str
    name: str
    status: Status
    error: str | None
    measures: dict[str, Cell]
    wall_time_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    events: Annotated[int, Field(ge=0, lt=2**63)] | None


_LINE: Final = TypeAdapter(_Line)


def beside(output: Path) -> Path:
    """The journal of an output."""
    return output.with_name(f"{output.name}.journal")


def check(path: Path, *, resume: bool) -> None:
    """Refuses to begin anew where there is a journal, or a sweep that writes one. Raises [`InputError`]."""
    if path.exists() and not resume:
        with inputs.open_regular(path, str(path)) as file:
            _lock(file, path)
        accepted = "--resume to continue it; or remove the journal to begin again"
        raise _refused(path, "there is a journal of an earlier sweep for this output", accepted)


@dataclass(slots=True)
class Journal:
    """An open journal."""

    entries: dict[str, Entry]
    path: Path
    damaged: Sequence[int]
    """Numbers of the lines that did not hold when it was opened, from 1."""
    _file: BinaryIO

    @classmethod
    def open(cls, path: Path, *, resume: bool) -> Journal:
        """Opens the journal at `path`, or makes one. Raises [`InputError`] if it must not be used."""
        check(path, resume=resume)
        file = _opened(path)
        try:
            _lock(file, path)
            entries, damaged, end = _read(inputs.content(file, str(path)), path)
            file.truncate(end)
            file.seek(end)
            journal = cls(entries, path, damaged, file)
            if end == 0:
                journal._append({"kind": KIND, "format": FORMAT, "version": _version.version()})
                _sync_folder(path.parent)
        except BaseException:
            file.close()
            raise
        return journal

    @property
    def remark(self) -> str | None:
        """What there is to say about lines that did not hold."""
        if not self.damaged:
            return None
        lines = ", ".join(str(number) for number in self.damaged[:NAMED])
        more = len(self.damaged) - NAMED
        lines += f" and {more} more" if more > 0 else ""
        one = len(self.damaged) == 1
        does, what = ("line {} does", "it is") if one else ("lines {} do", "they are")
        return f"{self.path}: {does.format(lines)} not hold the checksum: {what} set aside and simulated again"

    def add(self, key: str, name: str, entry: Entry) -> None:
        """Keeps what came of a simulation; it is on the disk when this returns."""
        self._append({"key": key, "name": name, **asdict(entry)})
        self.entries[key] = entry

    def remove(self) -> None:
        """Removes the journal, in which nothing is."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Lets others use the journal."""
        self._file.close()

    def _append(self, value: dict[str, Any]) -> None:
        line = json.dumps({**value, "checksum": checksum(value)}, allow_nan=False).encode() + b"\n"
        try:
            while line:  # unbuffered: what does not fit on the disk is known here, not when the file is closed
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise NotWrittenError(error.errno, error.strerror, str(self.path)) from None


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise _refused(path, "another sweep is writing to this journal", "another output") from None


def checksum(value: dict[str, Any]) -> str:
    """The checksum of a line without it. It is also one of the format: lines of another format do not hold.

    Raises [`ValueError`] for what no line says: infinite numbers, or text that is not Unicode.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return hashlib.sha256(f"{FORMAT} {text}".encode()).hexdigest()[:16]


def _opened(path: Path) -> BinaryIO:
    """The file, which is made if it does not exist."""
    if path.exists():
        return inputs.open_regular(path, str(path), write=True)
    try:
        return path.open("x+b", buffering=0)
    except OSError as error:
        raise _refused(path, f"this journal cannot be used: {error.strerror}") from None


def _read(data: bytes, path: Path) -> tuple[dict[str, Entry], list[int], int]:
    """The entries, the numbers of the lines that do not hold, and where the last whole line ends."""
    end = data.rfind(b"\n") + 1
    if end == 0 and data and not (data.startswith(_BEGIN) or _BEGIN.startswith(data)):
        raise _refused(path, *_NO_JOURNAL)
    lines = data[:end].split(b"\n")[:-1]
    entries: dict[str, Entry] = {}
    damaged: list[int] = []
    for number, line in enumerate(lines, start=1):
        if number == 1 and _is_header(line, path):
            continue
        held = _held(line)
        if held is None:
            damaged.append(number)
        else:
            entries[held[0]] = held[1]
    if lines and damaged[:1] == [1] and not entries:
        raise _refused(path, *_NO_JOURNAL)
    return entries, damaged, end


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a line says, if it is a mapping."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _holds(value: dict[str, Any]) -> bool:
    """Whether a line holds its checksum, which is taken out of it."""
    try:
        return bool(value.pop("checksum", None) == checksum(value))
    except (ValueError, RecursionError):
        return False


def _held(line: bytes) -> tuple[str, Entry] | None:
    """The key and the entry of a line, if it holds."""
    value = _parsed(line)
    if value is None or not _holds(value):
        return None
    try:
        checked = _LINE.validate_python(value)
    except ValidationError:
        return None
    key = checked["key"]
    return key, Entry(**{name: value[name] for name in Entry.__dataclass_fields__})


def _is_header(line: bytes, path: Path) -> bool:
    """Whether this is a header that holds. Raises [`InputError`] for the header of another format."""
    value = _parsed(line)
    if value is None or value.get("kind") != KIND:
        return False
    if isinstance(value.get("format"), int) and value["format"] != FORMAT:
        message = "this journal was written by another version of Syncline"
        raise _refused(path, message, "that version; or remove the journal to begin again")
    return _holds(value)


def _sync_folder(folder: Path) -> None:
    """Has the folder's list of files on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(path: Path, message: str, accepted: str | None = None) -> InputError:
    return InputError([Problem("command line", None, "--out", shown(str(path)), f"{path}: {message}", accepted)])
