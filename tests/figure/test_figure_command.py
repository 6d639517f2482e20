"""`syncline figure`, from the command to its files and its page."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended
from syncline.studies.sweeps.journal import Journal

EXPERIMENT = """
name: tiny
topology:
  dims:
    - {block: Ring, size: 4, rate: 50GB/s, latency: 500ns}
    - {block: Ring, size: 2, rate: 50GB/s, latency: 500ns}
workload: {collective: all-reduce, size: 1MiB}
network: {backend: packet}
collective: {algorithm: hierarchical, chunk: 64KiB}
output: {window: 1us}
variants:
  - {name: Ideal, endpoint: {kind: ideal}}
  - {name: Slow, endpoint: {kind: baseline, comm_memory_bandwidth: 100GB/s, comm_sms: 4}}
"""
SWEEP = """
name: links
base: tiny.yaml
axes: {topology.dims.0.rate: [25GB/s, 50GB/s]}
"""
FIGURE = """
name: mine
title: Two links & <two> endpoints
sweeps: [links.sweep.yaml]
columns: 2
panels:
  - kind: bars
    title: Time
    x: topology.dims.0.rate
    series: variant
    y: time_s
    unit: us
    published: [{x: 50GB/s, series: Ideal, value: 30}]
  - kind: timeline
    title: Links
    run: tiny.yaml
    variant: Slow
    columns: {links: network}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("tiny.yaml", EXPERIMENT), ("links.sweep.yaml", SWEEP), ("mine.figure.yaml", FIGURE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_figure_leaves_drawing_numbers_and_page(folder: Path, syncline_command: Callable[..., Ended]) -> None:
    ended = syncline_command("figure", "mine.figure.yaml", "--out", "out", "--threads", "1", "--json")
    assert (ended.status, ended.err.splitlines()[-1]) == (0, "figure: out/mine.html (.svg, .png, .pdf, .csv)")
    document = json.loads(ended.out)
    (panel,) = document["panels"]
    assert {(v["x"], v["series"]) for v in panel["values"]} == {
        (rate, variant) for rate in (25_000_000_000, 50_000_000_000) for variant in ("Ideal", "Slow")
    }
    rows = list(csv.DictReader((folder / "out/mine.csv").read_text().splitlines()))
    numbers = [row for row in rows if row["panel"] == "Time"]
    assert [float(row["value"]) for row in numbers] == [v["value"] for v in panel["values"]]
    assert {(row["measure"], row["unit"], row["x_is"]) for row in numbers} == {
        ("time_us", "us", "topology.dims.0.rate_bytes_per_s")
    }
    (track,) = document["timelines"]
    curve = [row for row in rows if row["panel"] == "Links"]
    assert [(float(row["x"]), float(row["value"])) for row in curve] == [(v["x"], v["value"]) for v in track["values"]]
    assert len(curve) > 10
    assert {(row["series"], row["measure"], row["unit"], row["x_is"]) for row in curve} == {
        ("network", "busy_percent", "%", "time_ms")
    }
    assert [row["published"] for row in rows if row["series"] == "Ideal"] == ["", "30"]
    page = (folder / "out/mine.html").read_text()
    assert "Two links &amp; &lt;two&gt; endpoints" in page
    assert "<two>" not in page
    assert "<svg" in page
    assert (folder / "out/mine.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "out/links.parquet").exists()


def test_what_is_finished_is_not_simulated_again(folder: Path, syncline_command: Callable[..., Ended]) -> None:
    first = syncline_command("figure", "mine.figure.yaml", "--out", "out", "--threads", "1", "--json")
    journal = (folder / "out/links.parquet.journal").read_text()
    svg = (folder / "out/mine.svg").read_bytes()
    second = syncline_command("figure", "mine.figure.yaml", "--out", "out", "--threads", "1", "--json")
    assert (folder / "out/links.parquet.journal").read_text() == journal
    assert (folder / "out/mine.svg").read_bytes() == svg
    one, other = json.loads(first.out), json.loads(second.out)
    assert one.pop("cost")
    assert other.pop("cost")
    assert one == other


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("sweeps: [links.sweep.yaml]", "sweeps: [nothing]", "mine.figure.yaml:4: sweeps.0: there is no such file"),
        ("run: tiny.yaml", "run: none.yaml", "panels.1.run: there is no such file"),
        (
            "variant: Slow",
            "variant: Slwo",
            "panels.1.variant: tiny.yaml has no variant of this name; did you mean",
        ),
        ("links: network", "ghost: network", "the windows of this run have no column 'ghost'"),
        ("y: time_s", "y: tims", "panels.0.y: no simulation has a column 'tims'; did you mean 'time_s'"),
    ],
)
def test_wrong_figures_end_with_status_2(
    folder: Path, syncline_command: Callable[..., Ended], old: str, new: str, expected: str
) -> None:
    assert old in FIGURE
    (folder / "mine.figure.yaml").write_text(FIGURE.replace(old, new))
    ended = syncline_command("figure", "mine.figure.yaml", "--out", "out", "--threads", "1", "-q")
    assert (ended.status, ended.out) == (2, "")
    assert expected in ended.err
    assert not (folder / "out/mine.html").exists()


def test_an_output_that_is_a_file_is_refused(folder: Path, syncline_command: Callable[..., Ended]) -> None:
    (folder / "out").write_text("")
    ended = syncline_command("figure", "mine.figure.yaml", "--out", "out")
    assert ended.status == 2
    assert "--out: this is not a directory" in ended.err


def test_a_closed_form_needs_no_simulation(
    tmp_path: Path, syncline_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spec: str, monitor: object = None) -> None:
        pytest.fail("nothing is simulated for a closed form")

    monkeypatch.setattr("syncline.core._core.run", refuse)
    ended = syncline_command("figure", "ace1/fig5", "--out", str(tmp_path), "--json", "-q")
    assert (ended.status, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["assumptions"] == []
    assert [len(panel["values"]) for panel in document["panels"]] == [36, 36, 36, 36, 3]
    written = [f"ace1-fig5.{suffix}" for suffix in ("csv", "html", "pdf", "png", "svg")]
    assert sorted(path.name for path in tmp_path.iterdir()) == written


def test_a_figure_needs_no_browser(
    tmp_path: Path, syncline_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert syncline_command("figure", "ace1/fig5", "--out", str(tmp_path), "-q").status == 0
    assert (tmp_path / "ace1-fig5.png").read_bytes().startswith(b"\x89PNG")


def test_layers_reach_all_outputs(folder: Path, syncline_command: Callable[..., Ended]) -> None:
    (folder / "train.yaml").write_text("name: t\ntopology: Ring(4)\nworkload: {model: resnet18, batch: 8}\n")
    panel = "{kind: layers, title: Waits, run: train.yaml, variants: [t], y: compute_s, unit: us}"
    (folder / "layers.figure.yaml").write_text(f"name: layers\ntitle: Layers\npanels: [{panel}]\n")
    ended = syncline_command("figure", "layers.figure.yaml", "--out", "out", "-q", "--json")
    assert (ended.status, ended.err) == (0, "")
    (shown,) = json.loads(ended.out)["panels"]
    assert shown["unit"] == "us"
    assert shown["values"][0]["x"] == "conv1"
    assert "conv1" in (folder / "out/layers.html").read_text()
    assert "conv1" in (folder / "out/layers.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "FIGURE: this is missing\n    accepted: the path of a figure file, or a study: ace/fig10, "),
        (("",), "FIGURE: there is no such file and no study of this name\n"),
        (("ace/placment",), "did you mean 'ace/placement'?"),
        (("ace/resnet50",), "FIGURE: this is an experiment: syncline run ace/resnet50 runs it"),
        (("ace/design-space",), "FIGURE: this is a sweep: syncline sweep ace/design-space runs it"),
        (("nothing\0",), "FIGURE: there is no such file"),
    ],
)
def test_other_names_are_told_what_there_is(
    syncline_command: Callable[..., Ended], arguments: tuple[str, ...], expected: str
) -> None:
    ended = syncline_command("figure", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert expected in ended.err


def test_a_figure_is_no_experiment(syncline_command: Callable[..., Ended]) -> None:
    assert "syncline figure ace/fig10 runs it" in syncline_command("run", "ace/fig10").err
    assert "syncline figure ace1/fig5 runs it" in syncline_command("sweep", "ace1/fig5").err


def test_two_figures_cannot_write_one_sweep(folder: Path, syncline_command: Callable[..., Ended]) -> None:
    (folder / "out").mkdir()
    journal = Journal.open(folder / "out/links.parquet.journal", resume=False)
    ended = syncline_command("figure", "mine.figure.yaml", "--out", "out", "-q")
    journal.close()
    assert ended.status == 2
    assert "another sweep is writing to this journal" in ended.err
