"""What earlier versions have written is read: samples of every version of the form of documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import syncline
from support.command import Ended
from syncline.schema import documents

Command = Callable[..., Ended]

SAMPLES = Path(__file__).parent / "samples"


def test_every_version_has_samples() -> None:
    assert {folder.name for folder in SAMPLES.iterdir()} == {str(i + 1) for i in range(documents.SCHEMA_VERSION)}


@pytest.mark.parametrize("version", [folder.name for folder in sorted(SAMPLES.iterdir())])
def test_is_read(version: str, tmp_path: Path, syncline_command: Command) -> None:
    shutil.copytree(SAMPLES / version, tmp_path, dirs_exist_ok=True)
    for name in ("run", "sweep.parquet"):
        ended = syncline_command("report", str(tmp_path / name))
        assert ended.status == 0, ended.err
    run = syncline.read(tmp_path / "run")
    assert run.finished == ["small"]
    assert run.systems["small"].iteration_time_s == pytest.approx(0.005745170921)


def test_a_newer_form_is_refused(tmp_path: Path, syncline_command: Command) -> None:
    shutil.copytree(SAMPLES / "1" / "run", tmp_path / "run")
    summary = tmp_path / "run" / "summary.json"
    found = json.loads(summary.read_text())
    summary.write_text(json.dumps(found | {"schema_version": documents.SCHEMA_VERSION + 1}))
    ended = syncline_command("report", str(tmp_path / "run"))
    assert (ended.status, ended.out) == (2, "")
    assert "schema_version: this was written by a newer Syncline" in ended.err


def test_runs_that_differ_in_fidelity_are_read(tmp_path: Path, syncline_command: Command) -> None:
    """Where systems have other backends, what they have in common is `mixed`."""
    text = "name: two\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 64kB}\n"
    (tmp_path / "two.yaml").write_text(text + "variants: [{name: a}, {name: b, network: analytical}]\n")
    assert syncline_command("run", str(tmp_path / "two.yaml"), "--out", str(tmp_path / "two")).status == 0
    assert json.loads((tmp_path / "two/summary.json").read_text())["fidelity"]["packet_bytes"] == "mixed"
    ended = syncline_command("report", str(tmp_path / "two"))
    assert ended.status == 0, ended.err
