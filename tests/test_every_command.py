"""What README promises of every command: `--json` prints one document on standard output, and nothing else there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import syncline
from support.command import Ended
from support.experiments import SMALL
from support.topologies import dgx1_xml
from syncline import cli

Command = Callable[..., Ended]

SHORT = SMALL.replace("resnet50", "resnet18") + "training: {iterations: 1}\nnetwork: analytical\n"
DIVIDED = "name: gpt\ntopology: dgx-a100\nworkload: {model: gpt2, global_batch: 16, parameters: {vocabulary: 50304}}\n"
SCHEDULE = Path(__file__).parents[1] / "examples/plans/ring4.xml"

EXAMPLES: dict[str, list[str]] = {
    "run": ["short.yaml"],
    "check": ["short.yaml"],
    "fit": ["divided.yaml"],
    "search": ["search.yaml", "--threads", "1"],
    "explain": ["run", "--no-what-if"],
    "diff": ["run", "run"],
    "sweep": ["short.sweep.yaml"],
    "figure": ["short.figure.yaml"],
    "collective": ["all-reduce", "--size", "1MB", "--topology", "Ring(4)"],
    "bench": ["all-reduce", "--machine", "dgx-a100", "--sizes", "1MiB"],
    "calibrate": ["measured.csv", "--machine", "dgx-a100"],
    "measure": ["gpt2", "--shapes", "shapes.json"],
    "reproduce": ["tutorial"],
    "trees": ["--machine", "dgx1v", "--gpus", "1,4,5,6"],
    "verify": [str(SCHEDULE)],
    "export": ["all-reduce", "--algorithm", "ring", "--ranks", "4"],
    "export-trace": ["short.yaml"],
    "import": ["fx", "module.json"],
    "report": ["run"],
    "schema": ["figure"],
    "topology show": ["Ring(4)"],
    "topology detect": ["--nccl-file", "nccl.xml"],
}
"""What each command is given. A command that is missing here fails the test."""


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command of the command line."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.fixture
def folder(tmp_path: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs of all commands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.yaml").write_text(SHORT)
    (tmp_path / "divided.yaml").write_text(DIVIDED)
    (tmp_path / "search.yaml").write_text(f"{DIVIDED}network: flow\nsearch: {{tensor: [1, 2], simulate: 1}}\n")
    (tmp_path / "short.sweep.yaml").write_text("name: s\nbase: short.yaml\naxes: {npu.sms: [40, 80]}\n")
    panel = "{kind: bars, title: t, x: npu.sms, y: iteration_time_s}"
    (tmp_path / "short.figure.yaml").write_text(f"name: f\ntitle: t\nsweeps: [short.sweep.yaml]\npanels: [{panel}]\n")
    (tmp_path / "measured.csv").write_text(
        "size_bytes,time_us\n1048576,60\n16777216,200\n268435456,2500\n1073741824,9700\n67108864,700\n"
    )
    operator = {"name": "fc", "op": "linear", "layer": "fc", "inputs": [[2, 4]], "output": [2, 4], "weight": [4, 4]}
    module = {"format": "syncline-fx", "version": 1, "operators": [{**operator, "parameters": 16, "element": 4}]}
    (tmp_path / "module.json").write_text(json.dumps(module))
    (tmp_path / "nccl.xml").write_text(dgx1_xml())
    assert syncline_command("run", "short.yaml", "--out", "run").status == 0
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_prints_exactly_one_document(name: str, folder: Path, syncline_command: Command) -> None:
    flags = [flag for parameter in COMMANDS[name].params for flag in parameter.opts]
    assert "--json" in flags
    ended = syncline_command(*name.split(), *EXAMPLES[name], "--json")
    assert ended.status == 0, ended.err
    document = json.loads(ended.out)
    assert isinstance(document, dict)
    assert name == "schema" or document["schema_version"] == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_input_is_one_object_on_standard_error(name: str, folder: Path, syncline_command: Command) -> None:
    ended = syncline_command(*name.split(), *EXAMPLES[name], "--json", "--no-such-flag")
    assert (ended.status, ended.out) == (2, "")
    assert json.loads(ended.err)["errors"]


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
        assert "accepted: FILE.parquet or FILE.csv" in ended.err
        assert not (folder / name).exists()
    (folder / "notes.csv").write_text("mine\n")
    assert syncline_command("sweep", "short.sweep.yaml", "--out", "notes.csv").status == 2
    assert (folder / "notes.csv").read_text() == "mine\n"


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
