"""Tables as files, Parquet or CSV: they are written, and read again, and what no command writes is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import inputs
from syncline.base.errors import InputError, Problem, one_of
from syncline.core import facts

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = (".parquet", ".csv", ".json")
"""How commands may write a table: its suffix says it. `.json` is the document that the table is made of."""
MOST_CELLS: Final = 200_000_000
"""Values of a table that is read; a damaged file may promise any number."""
WHOLE, NUMBER, TEXT = "whole numbers", "numbers", "text"

KINDS: Final = {"int": WHOLE, "optional-int": WHOLE, "float": NUMBER, "text": TEXT}
"""What columns of a run hold, by what the engine stores them as."""


def read(path: Path, label: str, accepted: str | None = None) -> pa.Table:
    """The table in a file, every value checked to be one. Raises [`InputError`], which says what is `accepted` where
    the file is no table at all.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = inputs.read_bytes(path, label)
    try:
        file = pq.ParquetFile(pa.BufferReader(owned(data)))
        cells = file.metadata.num_rows * max(1, file.metadata.num_columns)
        if cells > MOST_CELLS:
            raise _refused(label, "", f"this table has {cells} values; at most {MOST_CELLS} are read")
        table = file.read()
        table.validate(full=True)
    except (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError, MemoryError, pa.ArrowException):
        raise _refused(label, "", "this is not a Parquet table, or it is damaged", accepted) from None
    twice = {name for name in table.column_names if table.column_names.count(name) > 1}
    problems = [Problem(label, None, name, None, "there are several columns of this name") for name in sorted(twice)]
    if not problems:
        problems = [problem for name in table.column_names for problem in _of_column(table, name, label)]
    if problems:
        raise InputError(problems)
    return table


def owned(data: bytes) -> pa.Buffer:
    """A copy of the bytes in memory of Arrow's own. Arrow reads columns on threads, and the last of them lets go of the
    memory at some time afterwards. Memory of Python needs Python's lock for that, and a thread that asks for it while
    Python shuts down takes the process down (`terminate called without an active exception`).
    """
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    sink.write(data)
    return sink.getvalue()


def metadata(path: Path) -> dict[bytes, bytes]:
    """What a table says about itself; nothing if the file is no table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(pa.BufferReader(owned(inputs.read_bytes(path, str(path)))))
    except (InputError, OSError, ValueError, pa.ArrowException):
        return {}
    return dict(schema.metadata or {})


def content(table: pa.Table, suffix: str) -> bytes:
    """A table as a file of a suffix: CSV for `.csv`, else Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    if suffix == ".csv":
        pa.csv.write_csv(table, sink)
    else:
        pq.write_table(table, sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def looks_like(path: Path, key: str, columns: Sequence[str]) -> bool:
    """Whether a file looks like a table of a kind: its metadata have the key, or CSV begins with these columns."""
    if path.suffix != ".csv":
        return key.encode() in metadata(path)
    try:
        head = inputs.read_bytes(path, str(path))[:200].decode("utf-8", "replace")
    except InputError:
        return False
    return head.startswith(",".join(f'"{name}"' for name in columns))


def read_of_run(path: Path, label: str) -> pa.Table:
    """A table of a run, with the columns that it may have: one that is absent is not shown; further ones of windows are
    numbers. Raises [`InputError`].
    """
    table = read(path, label)
    declared = facts.engine().tables.get(path.stem)
    known = {} if declared is None else {name: KINDS.get(c.stored) for name, c in declared.columns.items()}
    other = NUMBER if path.stem == "windows" else None
    problems: list[Problem] = []
    for name in table.column_names:
        needed = known.get(name, other)
        if needed is not None and needed not in _kinds(table.schema.field(name).type):
            problems.append(Problem(label, None, name, None, f"this column does not hold {needed}", needed))
        elif needed in (WHOLE, NUMBER) and _least(table.column(name)) < (-1 if name in ("dim", "npu") else 0):
            problems.append(Problem(label, None, name, None, "this column holds a number below zero", "0 or more"))
    if problems:
        raise InputError(problems)
    return table


def _of_column(table: pa.Table, name: str, label: str) -> list[Problem]:
    import pyarrow.compute as pc

    kind = table.schema.field(name).type
    if not _kinds(kind):
        message = f"this column holds {kind}, which no command writes"
        return [Problem(label, None, name, None, message, one_of((WHOLE, NUMBER, TEXT, "truth values")))]
    if NUMBER in _kinds(kind) and WHOLE not in _kinds(kind):
        legal = pc.all(pc.less_equal(pc.abs(table.column(name)), 1e30), min_count=0).as_py()
        if not legal:
            return [Problem(label, None, name, None, "this column holds an infinite number, or none")]
    return []


def _kinds(kind: pa.DataType) -> tuple[str, ...]:
    """What the values of a type can be read as."""
    import pyarrow as pa

    if pa.types.is_int64(kind) or pa.types.is_int32(kind):
        return (WHOLE, NUMBER)
    if pa.types.is_float64(kind) or pa.types.is_float32(kind):
        return (NUMBER,)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (TEXT,)
    return ("truth values",) if pa.types.is_boolean(kind) else ()


def _least(column: pa.ChunkedArray) -> float:
    import pyarrow.compute as pc

    least = pc.min(column).as_py()
    return 0 if least is None else float(least)


def _refused(label: str, field: str, message: str, accepted: str | None = None) -> InputError:
    return InputError([Problem(label, None, field, None, message, accepted)])
