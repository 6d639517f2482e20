"""What helps to start: `syncline list`, `syncline init`, and names of collectives as others write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from support.command import Ended
from syncline.base import collective_names, document
from syncline.commands import listing
from syncline.commands.cli.init import MODELINE, SCHEMA
from syncline.experiment import load
from syncline.strategies import capacity

Command = Callable[..., Ended]


def test_everything_that_is_listed_says_what_it_is(syncline_command: Command) -> None:
    found = json.loads(syncline_command("list", "--json").out)["lists"]
    assert [each["kind"] for each in found] == list(listing.KINDS)
    for each in found:
        assert each["entries"], each["kind"]
        for entry in each["entries"]:
            assert entry["name"]
            assert entry["says"], entry
            assert "\n" not in entry["says"]
    assert syncline_command("list", "machine").err.startswith(
        "command line: KIND: there are no lists of these; did you mean 'machines'?"
    )


def test_an_experiment_to_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    assert syncline_command("init", "first").status == 0
    text = (tmp_path / "first.yaml").read_text()
    assert text.startswith(MODELINE)
    schema = json.loads((tmp_path / SCHEMA).read_text())
    jsonschema.Draft202012Validator(schema).validate(document.plain(document.read(text, "first.yaml")))
    small = ("--set", "workload.model=resnet18", "--set", "collective.chunk=16MiB")
    ended = syncline_command("run", "first.yaml", "--json", *small)
    assert ended.status == 0, ended.err
    exposed = {run["name"]: run["exposed_comm_share"] for run in json.loads(ended.out)["runs"]}
    assert exposed["as-it-is"] > exposed["twice-the-network"] >= 0  # it reacts to the network
    assert exposed["no-overlap"] > exposed["as-it-is"]
    before = [path.read_text() for path in (tmp_path / "first.yaml", tmp_path / SCHEMA)]
    (tmp_path / SCHEMA).write_text("{}")
    ended = syncline_command("init", "first")
    assert (ended.status, ended.out) == (2, "")
    assert "this file exists, and is not overwritten" in ended.err
    ended = syncline_command("init", "second")
    assert ended.status == 0
    assert f"{SCHEMA} is kept as it is" in ended.err
    assert ((tmp_path / "first.yaml").read_text(), (tmp_path / SCHEMA).read_text()) == (before[0], "{}")


@pytest.mark.parametrize(
    "flags",
    [
        ["--machine", "dgx-h100(nodes=2)", "--model", "gpt2"],
        ["--machine", "Torus(4, 4, rate=50GB/s, latency=500ns)"],
        ["--from", "ace/resnet50"],
        ["--from", "examples/compare-endpoints.yaml", "--no-schema"],
    ],
)
def test_other_beginnings(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = syncline_command("init", "mine", *flags)
    assert ended.status == 0, ended.err
    text = (tmp_path / "mine.yaml").read_text()
    assert re.findall("^name:.*$", text, re.MULTILINE) == ["name: mine"]
    assert text.startswith(MODELINE) == (tmp_path / SCHEMA).exists() == ("--no-schema" not in flags)
    assert syncline_command("check", "mine.yaml").status == 0


@pytest.mark.parametrize(
    ("machine", "model", "workload"),
    [
        ("dgx-h100(nodes=4)", "resnet50", {"batch": 8}),
        ("dgx1v", "gpt2-xl", {"batch": 4}),
        ("dgx-h100(nodes=4)", "llama3-8b", {"global_batch": 32, "zero": 3}),
        ("dgx-a100", "llama2-13b", {"global_batch": 8, "zero": 3}),
        ("dgx-h100(nodes=8)", "llama3-70b", {"global_batch": 64, "tensor": 4, "zero": 3, "recompute": "full"}),
    ],
)
def test_a_beginning_fits(
    machine: str,
    model: str,
    workload: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    syncline_command: Command,
) -> None:
    """In all variants: gradients of a division that are exchanged behind back-propagation are there as a whole."""
    monkeypatch.chdir(tmp_path)
    assert syncline_command("init", "mine", "--machine", machine, "--model", model, "--no-schema").status == 0
    study = load.load_file(tmp_path / "mine.yaml", "mine.yaml")
    written = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert {**written["workload"], **written.get("parallel", {})} == {"model": model, **workload}
    assert len(study.variants) == 3
    for variant in study.variants:
        assert not list(capacity.violations(variant.experiment))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--machine", "dgx-h100", "--model", "llama3-405b"],
            "--model: no division of this model fits into the memory",
        ),
        (["--machine", "dgx9"], "command line: --machine: 'dgx9' is not a machine; did you mean 'dgx2'?"),
        (["--model", "gpt9"], "command line: --model: no model is named so"),
        (["--from", "ace/resnet5"], "did you mean 'ace/resnet50'?"),
        (["--from", "ace/resnet50", "--model", "gpt2"], "--model: --from says this"),
        (["--from", "ace/resnet50-astra"], "command line: --from: workload.astra_text: there is no such file"),
    ],
)
def test_beginnings_that_lead_nowhere(
    flags: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = syncline_command("init", "mine", *flags)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["all-reduce", "all_reduce", "allreduce", "AllReduce", "ALL REDUCE", " all-Reduce "])
def test_spellings(text: str) -> None:
    assert collective_names.settled(text) == "all-reduce"


def test_spellings_are_of_one_collective_each() -> None:
    assert [collective_names.settled(name.replace("-", "_").upper()) for name in collective_names.NAMES] == list(
        collective_names.NAMES
    )
    assert collective_names.settled("reduce-all") == "reduce-all"


def test_spellings_in_files_and_commands(tmp_path: Path, syncline_command: Command) -> None:
    file = tmp_path / "x.yaml"
    text = (
        "name: x\ntopology: Ring(4)\nworkload: {collective: AllGather, size: 64kB}\nnetwork: analytical\n"
        "collective: {algorithms: {all_gather: direct}, priority: [allgather], chunks_of: {ALLGATHER: 2}}\n"
    )
    file.write_text(text)
    found = json.loads(syncline_command("run", str(file), "--json").out)
    other = (
        text.replace("AllGather", "all-gather")
        .replace("all_gather", "all-gather")
        .replace("[allgather]", "[all-gather]")
    )
    file.write_text(other.replace("ALLGATHER", "all-gather"))
    usual = json.loads(syncline_command("run", str(file), "--json").out)
    assert found["runs"] == usual["runs"]
    assert found["runs"][0]["collective"] == "all-gather"
    file.write_text(text.replace("all_gather: direct", "all_gather: direct, all-gather: ring"))
    ended = syncline_command("run", str(file))
    assert "x.yaml:5: collective.algorithms: all_gather and all-gather are the same collective" in ended.err
    for line in (
        ["collective", "{}", "--size", "1MB", "--topology", "Ring(4)"],
        ["bench", "{}", "--machine", "dgx-a100", "--sizes", "1MiB"],
        ["export", "{}", "--algorithm", "ring", "--ranks", "4"],
        ["trees", "--machine", "dgx1v", "--gpus", "0,1", "--collective", "{}"],
    ):
        ended = syncline_command(*(word.format("All_Reduce") for word in line), "--json")
        assert json.loads(ended.out)["collective"] == "all-reduce"
        ended = syncline_command(*(word.format("all-redcue") for word in line))
        assert (ended.status, ended.out) == (2, "")
        assert "did you mean 'all-reduce'?" in ended.err
