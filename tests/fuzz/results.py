"""Damaged results: run directories, tables of sweeps, journals."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

from . import mutation
from .case import Case, Corpus, generator
from .corpus import inputs


def _json(chance: Random, content: bytes) -> bytes:
    """A damaged document: its values, or its bytes."""
    if chance.random() < 0.2:
        return mutation.data(chance, content)
    return json.dumps(mutation.document(chance, json.loads(content))).encode()


def _parquet(chance: Random, content: bytes) -> bytes:
    """A damaged table: its columns and values, or its bytes."""
    if chance.random() < 0.4:
        return mutation.data(chance, content)
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(content))
    names = table.column_names
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(names)
        kind = chance.randrange(6)
        values = table.column(names.index(name)).to_pylist()  # a name may stand for two by now
        if kind == 0:
            table = table.remove_column(names.index(name)) if len(names) > 1 else table
        elif kind == 1:
            table = table.append_column(chance.choice((name, "x", "time_s")), [values])
        elif kind == 2:
            table = table.slice(0, chance.choice((0, 1)))
        elif kind == 3:
            metadata = {key: mutation.data(chance, text) for key, text in (table.schema.metadata or {}).items()}
            table = table.replace_schema_metadata(chance.choice((metadata, {}, {b"syncline.sweep": b"{}"})))
        else:
            table = table.set_column(names.index(name), name, [_cells(chance, values, kind)])
        names = table.column_names
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink)
    except (pa.ArrowException, NotImplementedError):  # of types that have no place in a file
        return mutation.data(chance, content)
    return sink.getvalue()


def _cells(chance: Random, values: list[Any], kind: int) -> Any:
    """A column with another value somewhere, or of another type."""
    import pyarrow as pa

    if kind == 4 and values:
        values[chance.randrange(len(values))] = mutation.value(chance)
    else:
        values = [mutation.value(chance)] * len(values)
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
        return pa.array([None if value is None else ascii(value) for value in values])


@generator("run-directory", 10)
def run_directory(chance: Random, corpus: Corpus) -> Case:
    """A run with damaged files, reported, or written anew."""
    files = corpus.files(f"runs/{chance.choice(('small', 'one', 'text'))}")
    files = {name: content for name, content in files.items() if not name.endswith(("trace.json", "report.html"))}
    names = [name for name in files if name.endswith((".json", ".parquet"))]
    chosen = "summary.json" if chance.random() < 0.5 else chance.choice(names)
    for name in {chosen, chance.choice(names)} if chance.random() < 0.2 else {chosen}:
        if chance.random() < 0.04:
            del files[name]
        else:
            files[name] = (_json if name.endswith(".json") else _parquet)(chance, files[name])
    written = {f"run/{name}": content for name, content in files.items()}
    line = ["report", "run", *(["--json"] if chance.random() < 0.3 else [])]
    if chance.random() < 0.1:
        return Case([line, ["run", "one.yaml", "--out", "run", "--json"]], written | inputs("one.yaml"))
    return Case([line], written)


@generator("sweep-table", 6)
def sweep_table(chance: Random, corpus: Corpus) -> Case:
    """The table of a sweep, damaged and reported, or in the place of an output."""
    content = corpus.files("tables")[f"{chance.choice(('space', 'training'))}.parquet"]
    files = {"t.parquet": _parquet(chance, content)}
    if chance.random() < 0.1:
        line = ["sweep", "space.sweep.yaml", "--out", "t.parquet", "--threads", "1", "--json"]
        return Case([line], files | inputs("one.yaml", "space.sweep.yaml"))
    return Case([["report", "t.parquet", *(["--json"] if chance.random() < 0.3 else [])]], files)


@generator("journal", 8)
def journal(chance: Random, corpus: Corpus) -> Case:
    """A damaged journal that a sweep goes on with."""
    lines = corpus.files("tables")["space.parquet.journal"].splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        kind = chance.randrange(6)
        if kind == 0:
            lines[at] = mutation.data(chance, lines[at])
        elif kind == 1:
            lines[at] = lines[chance.randrange(len(lines))]
        elif kind == 2:
            lines[at] = json.dumps(mutation.value(chance)).encode() + b"\n"
        else:
            lines[at] = _entry(chance, lines[at])
    files = inputs("one.yaml", "space.sweep.yaml") | {"t.parquet.journal": b"".join(lines)}
    line = ["sweep", "space.sweep.yaml", "--out", "t.parquet", "--resume", "--threads", "1", "--json"]
    return Case([line, ["report", "t.parquet"]], files)


def _entry(chance: Random, line: bytes) -> bytes:
    """A line with other values, and the checksum that it had."""
    try:
        return json.dumps(mutation.document(chance, json.loads(line))).encode() + b"\n"
    except (ValueError, RecursionError):
        return b"[" * 5000 + b"\n"
