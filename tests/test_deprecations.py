"""Old names work, and each is remarked on once, with the new name and the version that takes the old one away."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import syncline
from support.command import Ended
from syncline.base import deprecations
from syncline.base.deprecations import DeprecatedNameWarning, Renamed
from syncline.commands.api.tables import Table
from syncline.results import parquet
from syncline.studies.figures import file as figures
from syncline.studies.sweeps import file as sweeps

Command = Callable[..., Ended]

SOON = "999.0.0"
EXPERIMENT = "name: old\ntopology: Ring(4)\nnetwork: analytical\n"
COLLECTIVE = EXPERIMENT + "workload: {collective: all-reduce, size: 64kB}\n"


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_nothing_stays_longer_than_its_version() -> None:
    keys = [renamed for of in deprecations.KEYS.values() for renamed in of.values()]
    names = [Renamed(*renamed) for renamed in syncline._RENAMED.values()]
    for renamed in [*names, *keys, *deprecations.OPTIONS.values(), *deprecations.COLUMNS.values()]:
        assert version(renamed.until) > version(syncline.__version__), f"take the old name of {renamed.new} out"


def test_new_names_exist() -> None:
    assert {new for new, _ in syncline._RENAMED.values()} <= set(syncline.__all__)
    assert not set(syncline._RENAMED) & set(syncline.__all__)


def test_names_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(syncline._RENAMED, "simulate", ("run", SOON))
    with pytest.warns(DeprecatedNameWarning) as seen:
        assert syncline.simulate is syncline.run
    (warning,) = seen
    assert str(warning.message) == (
        f"the name syncline.simulate is now called run; the old name works until version {SOON}"
    )
    assert warning.filename == __file__  # it points to who used the name
    with pytest.raises(AttributeError, match="no attribute 'simulated'"):
        syncline.simulated  # noqa: B018
    assert "simulate" not in dir(syncline)


def test_keys_of_experiments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, syncline_command: Command) -> None:
    """In the file, in a variant, with `--set` and from Python: all of them mean the new key."""
    monkeypatch.setitem(deprecations.KEYS["experiment"], "collective.pieces", Renamed("collective.chunks", SOON))
    monkeypatch.setitem(deprecations.KEYS["experiment"], "window", Renamed("collective.inflight", SOON))
    new = tmp_path / "new.yaml"
    new.write_text(COLLECTIVE + "collective: {chunks: 4, inflight: 2}\nvariants: [{name: a}, {name: b}]\n")
    old = tmp_path / "old.yaml"
    old.write_text(COLLECTIVE + "window: 2\ncollective: {pieces: 3}\nvariants: [{name: a}, {name: b}]\n")
    ended = syncline_command("run", str(old), "--set", "variants.a.collective.pieces=4", "--set", "collective.pieces=4")
    assert ended.status == 0, ended.err
    for line in (
        f"warning: the key window ({old}:5) is now called collective.inflight; the old name works until",
        f"warning: the key collective.pieces ({old}:6) is now called collective.chunks; the old name works until",
        "warning: the field collective.pieces is now called collective.chunks; the old name works until",
    ):
        assert ended.err.count(line) == 1, ended.err
    assert ended.out == syncline_command("run", str(new)).out
    with pytest.warns(DeprecatedNameWarning, match="the field window is now called"):
        study = syncline.load(new, set={"window": 3})
    assert study.resolved()["variants"][0]["collective"]["inflight"] == 3


def test_a_key_under_both_names_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, syncline_command: Command
) -> None:
    monkeypatch.setitem(deprecations.KEYS["experiment"], "collective.pieces", Renamed("collective.chunks", SOON))
    both = tmp_path / "both.yaml"
    both.write_text(COLLECTIVE + "collective: {pieces: 3, chunks: 3}\n")
    ended = syncline_command("check", str(both))
    assert ended.status == 2
    assert (
        f"{both}:5: collective.pieces: this is the old name of collective.chunks, which is given as well" in ended.err
    )
    ended = syncline_command("check", str(both), "--json")
    assert json.loads(ended.err)["errors"]  # the document is alone there


def test_keys_of_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(deprecations.KEYS["sweep"], "across", Renamed("axes", SOON))
    monkeypatch.setitem(deprecations.KEYS["experiment"], "window", Renamed("collective.inflight", SOON))
    (tmp_path / "base.yaml").write_text(COLLECTIVE)
    (tmp_path / "s.sweep.yaml").write_text("name: s\nbase: base.yaml\nacross: {window: [1, 2]}\n")
    path = tmp_path / "s.sweep.yaml"
    with pytest.warns(DeprecatedNameWarning) as seen:
        found = sweeps.load(path, "s.sweep.yaml")
    assert found.axes[0].paths == (("collective", "inflight"),)
    expected = {
        f"the key across (s.sweep.yaml:3) is now called axes; the old name works until version {SOON}",
        f"the field window is now called collective.inflight; the old name works until version {SOON}",
    }
    assert {str(warning.message) for warning in seen} == expected
    with pytest.warns(DeprecatedNameWarning):
        assert syncline.sweep(path, threads=1).table.to_arrow().column("collective.inflight").to_pylist() == [1, 2]
    monkeypatch.setitem(deprecations.KEYS["figure"], "heading", Renamed("title", SOON))
    text = (
        "name: f\nheading: F\nsweeps: [s.sweep.yaml]\npanels: [{kind: bars, title: p, x: npus, y: iteration_time_s}]\n"
    )
    (tmp_path / "f.figure.yaml").write_text(text)
    with pytest.warns(DeprecatedNameWarning, match="the key heading"):
        assert figures.load(tmp_path / "f.figure.yaml", "f.figure.yaml").figure.title == "F"


def test_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, syncline_command: Command) -> None:
    monkeypatch.setitem(deprecations.OPTIONS, ("collective", "--bytes"), Renamed("--size", SOON))
    monkeypatch.setitem(deprecations.OPTIONS, ("topology show", "--as-json"), Renamed("--json", SOON))
    line = ["collective", "all-reduce", "--topology", "Ring(4)"]
    expected = syncline_command(*line, "--size", "1MB").out
    said = f"warning: the option --bytes is now called --size; the old name works until version {SOON}\n"
    for words in (["--bytes", "1MB"], ["--bytes=1MB"]):
        ended = syncline_command(*line, *words)
        assert (ended.status, ended.out) == (0, expected)
        assert ended.err.count(said) == 1
    assert said not in syncline_command(*line, "--bytes=1MB", "--quiet").err
    ended = syncline_command(*line, "--bytes", "1MB", "--json")
    assert json.loads(ended.out)
    assert said in ended.err
    assert json.loads(syncline_command("topology", "show", "Ring(4)", "--as-json").out)
    for words in (["--set", "--bytes"], ["--", "--bytes"]):  # the word is no option there
        assert said not in syncline_command("run", "ace/resnet50", *words).err
    assert "--bytes" not in syncline_command("collective", "--help").out


def test_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, syncline_command: Command) -> None:
    """Tables have both names, what is read has the new one, and figures may still use the old one."""
    table = pa.table({"npus": [4, 8], "iteration_time_s": [1.0, 2.0]})
    before = parquet.content(table, ".parquet")
    monkeypatch.setitem(deprecations.COLUMNS, "total_s", Renamed("iteration_time_s", SOON))
    (tmp_path / "new.parquet").write_bytes(parquet.content(table, ".parquet"))
    written = pa.parquet.read_table(tmp_path / "new.parquet")
    assert written.column_names == ["npus", "iteration_time_s", "total_s"]
    assert written.column("total_s") == written.column("iteration_time_s")
    assert written.schema.field("total_s").metadata[b"deprecated"] == b"iteration_time_s"
    assert parquet.read(tmp_path / "new.parquet", "t").column_names == table.column_names
    (tmp_path / "old.parquet").write_bytes(before)
    older = table.rename_columns(["npus", "total_s"])
    pa.parquet.write_table(older, tmp_path / "older.parquet")
    assert parquet.read(tmp_path / "older.parquet", "t").column_names == table.column_names
    assert Table("t", table).to_arrow().column("total_s").to_pylist() == [1.0, 2.0]
    with pytest.warns(DeprecatedNameWarning, match="the column total_s is now called iteration_time_s"):
        assert deprecations.column("total_s") == "iteration_time_s"
    (tmp_path / "base.yaml").write_text(COLLECTIVE)
    (tmp_path / "s.sweep.yaml").write_text("name: s\nbase: base.yaml\naxes: {collective.chunks: [1, 2]}\n")
    monkeypatch.setitem(deprecations.COLUMNS, "pieces", Renamed("collective.chunks", SOON))
    panel = "{kind: lines, title: p, x: pieces, y: time_s}"
    (tmp_path / "f.figure.yaml").write_text(f"name: f\ntitle: F\nsweeps: [s.sweep.yaml]\npanels: [{panel}]\n")
    ended = syncline_command("figure", str(tmp_path / "f.figure.yaml"), "--out", str(tmp_path / "out"))
    assert ended.status == 0, ended.err
    assert ended.err.count("warning: the column pieces is now called collective.chunks") == 1


def test_nothing_is_said_where_nothing_is_old(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(COLLECTIVE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        syncline.load(tmp_path / "new.yaml", set={"collective.chunks": 2})
        table = pa.table({"npus": [4]})
        assert Table("t", table).to_arrow() is table
