"""Tables that commands write: formats, units and meanings, and the page that lists them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from lab.reference import tables as table_reference
from support.command import Ended
from support.inputs import EXAMPLES
from syncline.studies import command_tables
from syncline.studies.searches import table as searches

Command = Callable[..., Ended]


def test_every_column_says_what_it_is() -> None:
    page = table_reference.page()
    for form in command_tables.forms().values():
        assert len({column.name for column in form.columns}) == len(form.columns)
        assert all(column.unit and column.meaning.endswith(".") for column in form.columns)
        assert all(f"`{column.name}`" in page for column in form.columns)
    assert set(searches.MEANINGS) == set(searches.TYPES)


@pytest.mark.parametrize("name", command_tables.forms())
def test_formats(name: str, folder: Path, syncline_command: Command) -> None:
    line = [name, *EXAMPLES[name]]
    for suffix in (".json", ".parquet", ".csv", ".csv"):  # a table of one's own is written anew
        ended = syncline_command(*line, "--json", "--out", f"t{suffix}")
        assert ended.status == 0, ended.err
    table = pyarrow.parquet.read_table(folder / "t.parquet")
    assert table.num_rows
    for field in table.schema:
        assert field.metadata[b"unit"]
        assert field.metadata[b"meaning"]
    assert pyarrow.csv.read_csv(folder / "t.csv").column_names == table.column_names
    assert json.loads((folder / "t.json").read_text()).keys() == json.loads(ended.out).keys()
    (folder / "notes.csv").write_text("mine\n")
    for out in ("t.xlsx", "notes.csv"):
        ended = syncline_command(*line, "--out", out)
        assert (ended.status, ended.out) == (2, "")
        assert "FILE.parquet, FILE.csv, FILE.json" in ended.err or "a new file" in ended.err
    assert not (folder / "t.xlsx").exists()
    assert (folder / "notes.csv").read_text() == "mine\n"


def test_values_are_those_of_the_document(folder: Path, syncline_command: Command) -> None:
    ended = syncline_command("run", "short.yaml", "--json", "--out", "t.parquet")
    (entry,) = json.loads(ended.out)["runs"]
    (row,) = pyarrow.parquet.read_table(folder / "t.parquet").to_pylist()
    for name in ("name", "iteration_time_s", "exposed_comm_share", "npus", "algorithm"):
        assert row[name] == entry[name]
    assert row["link_bytes"] == entry["network"]["link_bytes"]
    assert row["network_s"] == entry["endpoint"]["breakdown"]["network_s"]
    assert row["folded"] is entry["fidelity"]["folded"]
