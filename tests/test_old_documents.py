"""What earlier versions have written is read: samples of every version of the form of documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import syncline
from support.command import Ended
from syncline import _version

Command = Callable[..., Ended]

SAMPLES = Path(__file__).parent / "samples"


def test_every_version_has_samples() -> None:
    assert {folder.name for folder in SAMPLES.iterdir()} == {str(i + 1) for i in range(_version.SCHEMA_VERSION)}


@pytest.mark.parametrize("version", [folder.name for folder in sorted(SAMPLES.iterdir())])
def test_is_read(version: str, tmp_path: Path, syncline_command: Command) -> None:
    shutil.copytree(SAMPLES / version, tmp_path, dirs_exist_ok=True)
    for name in ("run", "complete", "sweep.parquet"):
        ended = syncline_command("report", str(tmp_path / name))
        assert ended.status == 0, ended.err
    run = syncline.read(tmp_path / "run")
    assert run.finished == ["small"]
    assert run.systems["small"].iteration_time_s == pytest.approx(0.005745170921)


@pytest.mark.parametrize("version", [folder.name for folder in sorted(SAMPLES.iterdir())])
def test_is_compared_and_explained(version: str, tmp_path: Path, syncline_command: Command) -> None:
    """Numbers of any two runs are compared, whichever files are left; a run with its experiment is explained."""
    shutil.copytree(SAMPLES / version, tmp_path, dirs_exist_ok=True)
    complete, run = str(tmp_path / "complete"), str(tmp_path / "run")
    ended = syncline_command("diff", complete, run, "--system", "SMs=small", "--json")
    assert ended.status == 0, ended.err
    (pair,) = json.loads(ended.out)["pairs"]
    assert sum(step["delta_ps"] for step in pair["steps"]) == pair["b_ps"] - pair["a_ps"]
    assert syncline.diff(complete, complete).pairs[0].delta_ps == 0
    ended = syncline_command("explain", complete, "--no-what-if", "--json")
    assert ended.status == 0, ended.err
    (system,) = json.loads(ended.out)["systems"]
    assert sum(part["ps"] for part in system["critical_path"]) == pair["a_ps"]
    read = syncline.read(complete)
    assert len(read.systems["SMs"].tables["layers"]) > 0
    ended = syncline_command("explain", run, "--no-what-if")
    assert ended.status == 2
    assert "the experiment of this run is missing, without which it cannot be explained" in ended.err
    ended = syncline_command("report", complete, run, "-o", str(tmp_path / "comparison.html"))
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("version", [folder.name for folder in sorted(SAMPLES.iterdir())])
def test_its_experiment_is_still_legal(version: str, syncline_command: Command) -> None:
    """Keys that were renamed since have their old names in `syncline.base.deprecations`, for as long as is promised."""
    ended = syncline_command("check", str(SAMPLES / version / "complete" / "experiment.resolved.yaml"))
    assert ended.status == 0, ended.err


def test_an_experiment_that_is_no_longer_legal_does_not_keep_numbers_from_being_compared(
    tmp_path: Path, syncline_command: Command
) -> None:
    shutil.copytree(SAMPLES / "1" / "complete", tmp_path / "old")
    file = tmp_path / "old" / "experiment.resolved.yaml"
    file.write_text(file.read_text() + "colour: blue\n")
    assert syncline_command("diff", str(tmp_path / "old"), str(tmp_path / "old")).status == 0
    assert syncline_command("report", str(tmp_path / "old")).status == 0
    ended = syncline_command("explain", str(tmp_path / "old"))
    assert ended.status == 2
    assert "colour: this key is not known" in ended.err


def test_a_newer_form_is_refused(tmp_path: Path, syncline_command: Command) -> None:
    shutil.copytree(SAMPLES / "1" / "run", tmp_path / "run")
    summary = tmp_path / "run" / "summary.json"
    found = json.loads(summary.read_text())
    summary.write_text(json.dumps(found | {"schema_version": _version.SCHEMA_VERSION + 1}))
    ended = syncline_command("report", str(tmp_path / "run"))
    assert (ended.status, ended.out) == (2, "")
    assert "schema_version: this was written by a newer Syncline" in ended.err


def test_runs_that_differ_in_fidelity_are_read(tmp_path: Path, syncline_command: Command) -> None:
    """Where systems have other backends, what they have in common is `mixed`."""
    text = "name: two\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 64kB}\n"
    (tmp_path / "two.yaml").write_text(text + "variants: [{name: a, network: packet}, {name: b, network: flow}]\n")
    assert syncline_command("run", str(tmp_path / "two.yaml"), "--out", str(tmp_path / "two")).status == 0
    assert json.loads((tmp_path / "two/summary.json").read_text())["fidelity"]["packet_bytes"] == "mixed"
    ended = syncline_command("report", str(tmp_path / "two"))
    assert ended.status == 0, ended.err
