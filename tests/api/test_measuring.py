"""Measuring from a program: the document and the table of the command, with a stand-in for PyTorch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import syncline
from support.command import Ended
from support.fake_torch import torch
from support.results import apart_from_cost, shows_itself
from syncline.sections import kernel_table, shapes

Command = Callable[..., Ended]

MODEL: Final[dict[str, Any]] = {
    "name": "tiny",
    "description": "Two layers",
    "source": "This test",
    "parameters": {"wide": 8},
    "layers": [
        {"name": "in", "operators": [{"kind": "linear", "rows": "samples", "inputs": "wide", "outputs": "2 * wide"}]},
        {"name": "out", "operators": [{"kind": "linear", "rows": "samples", "inputs": "2 * wide", "outputs": 4}]},
    ],
}
GIVEN: Final[dict[str, Any]] = {"precision": "fp32", "micro_batch": 2, "device": "cpu"}
COMMAND: Final = ("measure", "tiny.yaml", "--precision", "fp32", "--micro-batch", "2", "--device", "cpu")


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call takes a thousandth of a second, and processors are idle."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(json.dumps(MODEL))
    monkeypatch.setitem(sys.modules, "torch", torch())
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))

    def seconds(call: Callable[[], object]) -> float:
        call()
        return 1e-3

    monkeypatch.setattr("syncline.measurements.timing._seconds", seconds)


def test_equals_the_command(syncline_command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    ended = syncline_command(*COMMAND, "--launch", "--out", "command.csv", "--shapes", "command.json", "--json")
    assert ended.status == 0, ended.err
    found = syncline.measure("tiny.yaml", **GIVEN, launch=True, out="function.csv", shapes="function.json")
    assert capsys.readouterr() == ("", "")
    said = apart_from_cost(json.loads(ended.out))
    assert apart_from_cost(found.document) == said | {"table": "function.csv"}
    assert said["measured"]
    assert Path("function.csv").read_text() == Path("command.csv").read_text()
    assert Path("function.json").read_text() == Path("command.json").read_text() == found.shapes
    assert found.save("saved.csv") == Path("saved.csv")
    assert Path("saved.csv").read_text() == Path("command.csv").read_text()
    (warning,) = found.warnings
    assert warning == "launch graph m=256 k=0 n=0 count=1 fp32 is not measured: a CPU has no graphs of kernels"
    assert f"warning: {warning}" in ended.err
    shows_itself(found)


def test_what_was_measured_has_types() -> None:
    found = syncline.measure(["tiny.yaml", MODEL], **GIVEN)  # the same model twice: each kernel once
    assert "table" not in found.document
    assert (found.torch, found.device, len(found), found.status) == ("2.0", found.document["device"], 8, "complete")
    assert found.kernels == len(found.measured)
    assert {row.time_s for row in found.measured} == {found.measured[0].time_s}
    rows = found.table.to_arrow().to_pylist()
    assert tuple(rows[0]) == shapes.COLUMNS
    assert [row["time_s"] for row in rows] == [row.time_s for row in found.measured]
    assert next((row["m"], row["k"], row["n"]) for row in rows) == (2, 8, 16)
    assert found.table.columns["bytes"]["unit"] == "B"
    table = kernel_table.read(found.save("t.csv").read_bytes(), "t.csv")
    assert [row.kernel for row in table.rows] == [row.kernel for row in found.measured]
    assert syncline.measure(MODEL, **GIVEN).document["measured"] == found.document["measured"]


def test_what_would_be_measured_needs_no_pytorch(monkeypatch: pytest.MonkeyPatch, syncline_command: Command) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = syncline.measure("gpt3-175b", tensor=8, shapes="shapes.json")
    ended = syncline_command("measure", "gpt3-175b", "--tensor", "8", "--shapes", "shapes.json", "--json")
    assert apart_from_cost(found.document) == apart_from_cost(json.loads(ended.out))
    assert (found.device, found.torch, found.measured) == (None, None, ())
    assert len(shapes.loads(found.shapes)) == found.kernels
    assert "not measured" in found._repr_html_()
    with pytest.raises(syncline.InputError, match="arguments: path: nothing was measured"):
        found.save("t.csv")
    with pytest.raises(syncline.InputError, match="arguments: device: PyTorch is not installed: measurements need it"):
        syncline.measure("gpt2")


def test_progress_and_cancelling() -> None:
    heard: list[syncline.Standing] = []
    cancel = syncline.Cancellation()

    def hear(standing: syncline.Standing) -> None:
        heard.append(standing)
        if standing.done == 2:
            cancel.cancel()

    with pytest.raises(syncline.CancelledError):
        syncline.measure(MODEL, **GIVEN, out="t.csv", progress=hear, cancel=cancel)
    assert [standing.done for standing in heard] == [1, 2]
    assert len(Path("t.csv").read_text().splitlines()) == 1 + 3  # the third was under way
    heard.clear()
    syncline.measure(MODEL, **GIVEN, progress=heard.append)
    assert [(standing.done, standing.total, standing.is_over) for standing in heard[-2:]] == [
        (8, 8, False),
        (8, 8, True),
    ]
    assert syncline.measure(MODEL, **GIVEN, seconds=1e-9).warnings == (
        "the time is up: 8 of 8 kernels are not measured",
    )


def test_what_is_cancelled_before_leaves_an_older_table() -> None:
    older = "kind,direction,m,k,n,older\n"
    Path("older.csv").write_text(older)
    cancel = syncline.Cancellation()
    cancel.cancel()
    with pytest.raises(syncline.CancelledError):
        syncline.measure(MODEL, **GIVEN, out="older.csv", cancel=cancel)
    assert Path("older.csv").read_text() == older


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"models": "gpt5"}, ("models",)),
        ({"models": 4}, ("models",)),
        ({"models": ["gpt2", 4]}, ("models",)),
        ({"models": ()}, ("models",)),
        ({"models": "-"}, ("models",)),
        ({"device": "tpu", "precision": "fp8", "grid": "some"}, ("device", "precision", "grid")),
        ({"micro_batch": 0, "tensor": 2**21, "sequence": -1}, ("micro_batch", "tensor", "sequence")),
        ({"micro_batch": None, "sequence": "1", "tensor": True}, ("micro_batch", "sequence", "tensor")),
        ({"models": "gpt2", "tensor": 7}, ("tensor",)),
        ({"models": "resnet50", "sequence": 8}, ("sequence",)),
        ({"out": "t.parquet", "seconds": 0}, ("out", "seconds")),
        ({"out": 4, "shapes": b"s", "launch": "yes", "seed": -1}, ("seed", "launch", "out", "shapes")),
        ({"out": "nowhere/t.csv"}, ("out",)),
        ({"shapes": "nowhere/s.json"}, ("shapes",)),
        ({"device": "cuda"}, ("device",)),
        ({"device": None, "precision": None}, ("device", "precision")),
        ({"shapes": "\0"}, ("shapes",)),
        ({"out": "\0.csv"}, ("out",)),
    ],
)
def test_says_what_is_wrong(given: dict[str, Any], wrong: tuple[str, ...]) -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.measure(**{"models": MODEL} | given)
    assert [f"{problem.file}: {problem.field}" for problem in caught.value.problems] == [
        f"arguments: {name}" for name in wrong
    ]
    assert " --" not in str(caught.value)


def test_says_where_a_model_is_wrong() -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.measure([MODEL | {"layers": []}, MODEL | {"depth": 4}])
    assert [(problem.file, problem.field) for problem in caught.value.problems] == [
        ("model", "layers"),
        ("model", "depth"),
    ]
