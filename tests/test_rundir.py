"""The directory of a run: complete files, or none; nobody else's files touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

import syncline
from support.command import Ended
from support.experiments import SMALL, THREE_SYSTEMS
from support.full_disk import largest_file
from syncline.base.errors import NotWrittenError
from syncline.core import facts
from syncline.engine import completing
from syncline.report import html

Command = Callable[..., Ended]

pytestmark = pytest.mark.usefixtures("fake_engine")


@pytest.fixture
def three(tmp_path: Path) -> str:
    """An experiment file with three variants."""
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    return str(path)


def test_contents(syncline_command: Command, three: str, tmp_path: Path) -> None:
    out = tmp_path / "deep/run"
    ended = syncline_command("run", three, "--out", str(out), "--json", "--seed", "7")
    assert ended.status == 0
    names = sorted(p.name for p in out.iterdir())
    assert names == [
        "Engine",
        "Ideal",
        "SMs",
        "experiment.resolved.yaml",
        "manifest.json",
        "report.html",
        "summary.json",
    ]
    assert json.loads((out / "summary.json").read_text()) == json.loads(ended.out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["status"], manifest["seed"]) == ("complete", 7)
    assert manifest["command"].startswith("syncline run ")
    assert manifest["config_hash"].startswith("sha256:")
    assert json.loads((out / "SMs/trace.json").read_text())
    table = pq.read_table(out / "SMs/tables/links.parquet")
    assert table.column("bytes").to_pylist() == [10, 20]
    assert str(table.schema.field("bytes").type) == "int64"
    assert (out / "report.html").read_text().startswith("<!")


def test_a_run_can_be_repeated_from_its_resolved_experiment(
    syncline_command: Command, three: str, tmp_path: Path
) -> None:
    syncline_command("run", three, "--out", str(tmp_path / "first"))
    ended = syncline_command("run", str(tmp_path / "first/experiment.resolved.yaml"), "--out", str(tmp_path / "second"))
    assert ended.status == 0
    hashes = [json.loads((tmp_path / n / "manifest.json").read_text())["config_hash"] for n in ("first", "second")]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("topology", ["dgx1p", "dgx1v", "dgx-a100", "dgx-h100"])
def test_a_collective_on_a_named_gpu_can_be_repeated(syncline_command: Command, topology: str, tmp_path: Path) -> None:
    """What the GPU brings is written in full, and is nobody's setting when it is read again."""
    (tmp_path / "e.yaml").write_text(
        f"name: e\ntopology: {topology}\nworkload: {{collective: all-reduce, size: 1MB}}\n"
    )
    assert syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run")).status == 0
    ended = syncline_command("check", str(tmp_path / "run/experiment.resolved.yaml"))
    assert ended.status == 0, ended.err


def test_workload_files_are_kept_with_the_run(syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n")
    (tmp_path / "e.yaml").write_text(SMALL.replace("{model: resnet50, batch: 32}", "{astra_text: w.txt}"))
    assert syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run")).status == 0
    (tmp_path / "w.txt").unlink()
    assert syncline_command("check", str(tmp_path / "run/experiment.resolved.yaml")).status == 0


def test_an_earlier_run_is_replaced(syncline_command: Command, three: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    syncline_command("run", three, "--out", str(out))
    (out / "notes.txt").write_text("mine")
    (tmp_path / "small.yaml").write_text(SMALL)
    ended = syncline_command("run", str(tmp_path / "small.yaml"), "--out", str(out))
    assert ended.status == 0
    assert f"warning: {out} has results of the experiment three, which are replaced by those of small\n" in ended.err
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["small"]
    again = syncline_command("run", str(tmp_path / "small.yaml"), "--out", str(out), "--seed", "2")
    assert (again.status, "replaced" in again.err) == (0, False)
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("what", ["file", "someone's folder", "file as parent"])
def test_anything_else_is_refused_before_simulating(
    syncline_command: Command,
    three: str,
    tmp_path: Path,
    what: str,
    fake_engine: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(_: str, monitor: object = None) -> dict[str, Any]:
        raise AssertionError

    monkeypatch.setattr(fake_engine, "run", never)
    out = tmp_path / "out"
    if what == "someone's folder":
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    else:
        out.write_text("mine")
    target = out / "below" if what == "file as parent" else out
    ended = syncline_command("run", three, "--out", str(target))
    assert (ended.status, ended.out) == (2, "")
    assert "directory" in ended.err


def test_a_crash_while_writing_leaves_no_half_written_file(
    syncline_command: Command, three: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    written: list[str] = []

    def crash(table: object, where: Path) -> None:
        written.append(where.name)
        if len(written) == 12:
            raise OSError("disk full")
        where.write_bytes(b"")

    monkeypatch.setattr(pq, "write_table", crash)
    ended = syncline_command("run", three, "--out", str(out), "--threads", "1")
    assert ended.status == 1
    assert all(name in ended.out for name in ("SMs", "Engine", "Ideal")), "all were simulated"
    assert ended.err.splitlines()[-1] == f"{out / 'Engine'}: cannot be written: disk full"
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["Ideal", "SMs"]
    assert not list(out.glob("**/.incomplete-*"))
    assert json.loads((out / "manifest.json").read_text())["status"] == "partial"


TABLES_BYTES = 200_000
"""Tables are smaller, and the page of a run is larger."""
ONE = "name: one\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\n"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_page_that_has_no_room_loses_no_results(
    syncline_command: Command, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    out = tmp_path / "run"
    with largest_file(TABLES_BYTES):
        ended = syncline_command("run", str(tmp_path / "one.yaml"), "--out", str(out), *flags)
    assert ended.status == 1
    assert "bound" in ended.out if not flags else json.loads(ended.out)["status"] == "complete"
    assert ended.err.splitlines()[-2:] == [
        f"{out / 'report.html'}: cannot be written: File too large",
        f"all numbers are in {out}: once it can be written, `syncline report {out}` makes the page",
    ]
    assert json.loads((out / "manifest.json").read_text())["status"] == "complete"
    assert syncline_command("report", str(out)).status == 0
    assert (out / "report.html").stat().st_size > TABLES_BYTES


def test_in_python_a_run_that_has_no_room_comes_with_the_error(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    with largest_file(TABLES_BYTES), pytest.raises(NotWrittenError, match="run/report") as raised:
        syncline.run(tmp_path / "one.yaml", out=tmp_path / "run")
    assert raised.value.run is not None
    assert raised.value.run.finished == ["one"]


def test_a_report_can_be_made_again(
    syncline_command: Command, three: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncline_command("run", three, "--out", str(tmp_path / "run"))
    seen: list[Any] = []

    def build(document: Any, variants: Any, command: str, _trees: str, _explained: Any) -> str:
        seen.append((document, variants, command))
        return "<!doctype html>"

    monkeypatch.setattr(html, "build", build)
    assert syncline_command("report", str(tmp_path / "run"), "-o", str(tmp_path / "r.html")).status == 0
    document, variants, command = seen[0]
    assert document["name"] == "three"
    assert list(variants) == ["SMs", "Engine", "Ideal"]
    written = {path.stem for path in (tmp_path / "run/SMs/tables").iterdir()}
    assert set(variants["SMs"]) == written <= set(facts.engine().tables)
    assert {"collectives", "links", "windows"} <= written
    assert command.startswith("syncline run")
    assert (tmp_path / "r.html").read_text() == "<!doctype html>"


def test_a_damaged_run_is_wrong_input(syncline_command: Command, three: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    syncline_command("run", three, "--out", str(out))
    (out / "summary.json").write_text("{")
    assert syncline_command("report", str(out)).status == 2


def test_an_interrupt_before_any_simulation_leaves_no_directory(
    syncline_command: Command, three: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(completing, "slow_links", interrupted)
    ended = syncline_command("run", three, "--out", str(tmp_path / "run"))
    assert (ended.status, (tmp_path / "run").exists()) == (130, False)
