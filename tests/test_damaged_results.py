"""Results that were damaged, or edited: `report` names the file and the field, or shows what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command import Ended
from support.experiments import THREE_SYSTEMS

Command = Callable[..., Ended]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run."""
    from syncline.commands import cli

    folder = tmp_path_factory.mktemp("whole")
    (folder / "three.yaml").write_text(THREE_SYSTEMS.replace("resnet50", "resnet18"))
    assert cli.run(["run", str(folder / "three.yaml"), "--out", str(folder / "run"), "-q", "--json"]) == 0
    files = sorted(path for path in (folder / "run").rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def run(whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that may be damaged."""
    monkeypatch.chdir(tmp_path)
    for name, content in whole.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path / "run"


def put(file: Path, path: str, value: Any) -> None:
    """Puts a value into a document."""
    document = json.loads(file.read_text())
    *holders, last = path.split(".")
    node = document
    for key in holders:
        node = node[int(key) if isinstance(node, list) else key]
    node[int(last) if isinstance(node, list) else last] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("summary.json", "runs.0.name", "\ud800"),
        ("summary.json", "runs.0.name", "../../etc"),
        ("summary.json", "runs.0.iterations", "two"),
        ("summary.json", "runs.0.iterations", 1e300),
        ("summary.json", "runs.0.iterations", -1),
        ("summary.json", "runs.0.iteration_time_s", [1]),
        ("summary.json", "runs.0.iteration_time_s", 1e300),
        ("summary.json", "runs.1.endpoint.partitions.0.capacity_bytes", {"a": 1}),
        ("summary.json", "runs.1.exposed_by_collective", 7),
        ("summary.json", "runs.1.network.link_bytes", 2**200),
        ("summary.json", "runs", {}),
        ("summary.json", "warnings", [None]),
        ("summary.json", "status", "perhaps"),
        ("summary.json", "description", "a\udfff"),
        ("manifest.json", "variants", ["../outside"]),
        ("manifest.json", "variants", 3),
        ("manifest.json", "status", None),
        ("manifest.json", "command", ["a"]),
    ],
)
def test_values_of_documents(file: str, path: str, value: Any, run: Path, syncline_command: Command) -> None:
    put(run / file, path, value)
    ended = syncline_command("report", "run")
    assert (ended.status, ended.out) == (2, "")
    assert f"run/{file}: {path}" in ended.err
    assert ended.err.isascii()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"runs": NaN}', "[" * 10_000, '{"a": ' + "9" * 9999 + "}"])
@pytest.mark.parametrize("file", ["summary.json", "manifest.json"])
def test_texts_that_are_no_documents(file: str, content: str, run: Path, syncline_command: Command) -> None:
    (run / file).write_text(content)
    ended = syncline_command("report", "run")
    assert (ended.status, ended.out) == (2, "")
    assert f"run/{file}" in ended.err


def columns(file: Path, **changed: pa.Array) -> None:
    """Puts other columns into a table."""
    table = pq.read_table(file)
    for name, column in changed.items():
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, file)


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("links", "bytes", "x", "does not hold whole numbers"),
        ("links", "bytes", 1.5, "does not hold whole numbers"),
        ("links", "port", 3, "does not hold text"),
        ("links", "busy_ps", -1, "a number below zero"),
        ("collectives", "layer", [1], "which no command writes"),
        ("windows", "links", float("nan"), "an infinite number, or none"),
        ("windows", "compute", "x", "does not hold numbers"),
    ],
)
def test_columns_of_tables(
    table: str, column: str, value: Any, said: str, run: Path, syncline_command: Command
) -> None:
    file = run / f"Engine/tables/{table}.parquet"
    rows = pq.read_metadata(file).num_rows
    columns(file, **{column: pa.array([value] * rows)})
    ended = syncline_command("report", "run")
    assert (ended.status, ended.out) == (2, "")
    assert f"run/Engine/tables/{table}.parquet: {column}: this column" in ended.err
    assert said in ended.err


def test_a_table_that_ends_early_or_is_none(run: Path, syncline_command: Command) -> None:
    file = run / "SMs/tables/layers.parquet"
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], b"", b"PAR1PAR1", whole[:4] + bytes(100) + whole[104:]):
        file.write_bytes(content)
        ended = syncline_command("report", "run")
        assert (ended.status, ended.out) == (2, "")
        assert "run/SMs/tables/layers.parquet: this is not a Parquet table, or it is damaged" in ended.err


@pytest.mark.parametrize("missing", ["SMs/tables/layers.parquet", "SMs/tables", "Ideal"])
def test_what_is_missing_is_not_shown(missing: str, run: Path, syncline_command: Command) -> None:
    import shutil

    path = run / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert syncline_command("report", "run").status == 0


def test_every_table_of_a_run_is_described(run: Path) -> None:
    from syncline.core import facts
    from syncline.results import parquet

    for file in run.rglob("*.parquet"):
        known = [column.name for column in facts.engine().tables[file.stem].columns.values() if column.always]
        table = parquet.read_of_run(file, "f")
        assert set(known) <= set(table.column_names)
