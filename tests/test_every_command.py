"""What README promises of every command: `--json` prints one document on standard output, and nothing else there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

import syncline
from support import schemas
from support.command import Ended
from support.full_disk import largest_file
from support.inputs import EXAMPLES
from syncline.commands import cli

Command = Callable[..., Ended]


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command of the command line."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_prints_exactly_one_document(name: str, folder: Path, syncline_command: Command) -> None:
    flags = [flag for parameter in COMMANDS[name].params for flag in parameter.opts]
    assert "--json" in flags
    ended = syncline_command(*name.split(), *EXAMPLES[name], "--json")
    assert ended.status == 0, ended.err
    document = json.loads(ended.out)
    assert isinstance(document, dict)
    if name == "schema":
        jsonschema.Draft202012Validator.check_schema(document)
        return
    assert document["schema_version"] == 1
    assert document["version"] == syncline.__version__
    assert not schemas.problems(schemas.BY_COMMAND[name], document)


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_input_is_one_object_on_standard_error(name: str, folder: Path, syncline_command: Command) -> None:
    ended = syncline_command(*name.split(), *EXAMPLES[name], "--json", "--no-such-flag")
    assert (ended.status, ended.out) == (2, "")
    assert not schemas.problems("errors", json.loads(ended.err))


def test_a_table_has_the_format_of_its_suffix(folder: Path, syncline_command: Command) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    for suffix in (".csv", ".parquet"):
        ended = syncline_command("sweep", "short.sweep.yaml", "--out", f"t{suffix}")
        assert ended.status == 0, ended.err
    as_text = pyarrow.csv.read_csv(folder / "t.csv")
    table = pyarrow.parquet.read_table(folder / "t.parquet")
    assert as_text.column_names == table.column_names
    assert as_text.column("iteration_time_s").to_pylist() == table.column("iteration_time_s").to_pylist()
    assert syncline_command("sweep", "short.sweep.yaml", "--out", "t.csv", "--resume").status == 0
    for name in ("t", "t.xlsx", "t.csv.gz"):
        ended = syncline_command("sweep", "short.sweep.yaml", "--out", name)
        assert (ended.status, ended.out) == (2, "")
        assert "accepted: FILE.parquet, FILE.csv, FILE.json" in ended.err
        assert not (folder / name).exists()
    (folder / "notes.csv").write_text("mine\n")
    assert syncline_command("sweep", "short.sweep.yaml", "--out", "notes.csv").status == 2
    assert (folder / "notes.csv").read_text() == "mine\n"


@pytest.mark.parametrize("command", ["export", "export-trace", "init", "topology show"])
def test_a_full_disk_is_no_wrong_input(
    syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text("name: one\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\n")
    line, file = {
        "export": (["all-reduce", "--algorithm", "ring", "--ranks", "4", "-o", "plan.json"], "plan.json"),
        "export-trace": (["one.yaml", "--format", "chakra", "-o", "traces"], "traces/one.0.et"),
        "init": (["mine"], "mine.yaml"),
        "topology show": (["Ring(4)", "--svg", "ring.svg"], "ring.svg"),
    }[command]
    with largest_file(100):
        ended = syncline_command(*command.split(), *line)
    assert (ended.status, ended.err) == (1, f"{file}: cannot be written: File too large\n")
    assert not Path(file).exists()


@pytest.mark.parametrize(
    "line",
    [
        ["check", "examples/compare-endpoints.yaml"],
        ["check", "examples/text-workload.yaml"],
        ["verify", "examples/plans/ring4.xml"],
        ["verify", "examples/plans/rounds4.xml"],
        ["verify", "examples/plans/exchange.json"],
        ["verify", "examples/plans/dgx1-ways.json"],
    ],
    ids=lambda line: line[1],
)
def test_examples_come_with_the_package(line: list[str], folder: Path, syncline_command: Command) -> None:
    ended = syncline_command(*line)
    assert ended.status == 0, ended.err
    assert syncline_command(*line[:1], f"{line[1]}x").status == 2
    assert (Path(syncline.__file__).parent / line[1]).is_file()
    (folder / line[1]).parent.mkdir(parents=True)
    (folder / line[1]).write_text("mine")
    assert syncline_command(*line).status == 2  # a file of one's own goes before


@pytest.mark.parametrize("name", ["missing", "missing.parquet", "no/such/table.csv"])
def test_results_that_are_not_there(name: str, syncline_command: Command) -> None:
    ended = syncline_command("report", name)
    assert (ended.status, ended.out) == (2, "")
    assert "there is no such file" in ended.err
