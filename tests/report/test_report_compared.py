"""Several runs in one report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.command import Ended
from support.pages import charts_of, check_page
from syncline.report import compared

EXPERIMENT = {
    "name": "t",
    "topology": "Torus(2,4)",
    "workload": {"collective": "all-reduce", "size": "100KB"},
    "fold": "off",
    "network": "analytical",
    "variants": [{"name": "A"}, {"name": "B", "collective": {"algorithm": "direct"}}],
}


def test_runs_side_by_side(syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps(EXPERIMENT))
    for name, chunks in (("one", 1), ("two", 4)):
        flags = ("--out", str(tmp_path / name), "--set", f"collective.chunks={chunks}")
        assert syncline_command("run", str(path), *flags).status == 0
    places = [str(tmp_path / name) for name in ("one", "two")]
    target = tmp_path / "c.html"
    ended = syncline_command("report", *places, "-o", str(target), "--json")
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["variants"] == ["one: A", "one: B", "two: A", "two: B"]
    page = target.read_text()
    text = "".join(check_page(page).text)
    for said in ("What differs", "collective.chunks", "collective.algorithm", "2 runs: t"):
        assert said in text
    drawn = charts_of(page)["chart-fabric-0"]["data"]
    assert len(drawn[-1]["x"]) == 8, "every NPU of a run that is not folded is drawn"
    for given, message in (
        ((places[0], places[0]), "this run is given twice"),
        ((places[0], str(path)), "a sweep is not compared"),
        ((*places, "--baseline", "A"), "speed-ups are against the first run"),
        ((places[0], str(tmp_path)), "this is not the directory of a run"),
    ):
        refused = syncline_command("report", *given)
        assert (refused.status, message in refused.err) == (2, True), refused.err


def test_runs_of_other_kinds_and_of_other_work(syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    for name, workload in (
        ("collective", {"collective": "all-reduce", "size": "1MB"}),
        ("resnet18", {"model": "resnet18", "batch": 4}),
        ("resnet50", {"model": "resnet50", "batch": 4}),
    ):
        experiment = {"name": "t", "topology": "Ring(4)", "network": "analytical", "workload": workload}
        path.write_text(json.dumps(experiment | {"collective": {"algorithm": "ring"}}))
        assert syncline_command("run", str(path), "--out", str(tmp_path / name)).status == 0
    refused = syncline_command("report", str(tmp_path / "collective"), str(tmp_path / "resnet18"))
    assert (refused.status, "single collectives have no numbers in common" in refused.err) == (2, True)
    places = [str(tmp_path / name) for name in ("resnet18", "resnet50")]
    target = tmp_path / "c.html"
    assert syncline_command("report", *places, "-o", str(target)).status == 0
    assert "workloads differ: times are those of different work" in "".join(check_page(target.read_text()).text)


def test_of_long_values_the_part_that_differs_is_shown() -> None:
    block = "Ring(4, rate=200GB/s, latency=72ns, efficiency=94%)"
    whole = [f"{block}_Ring(4, rate={rate}GB/s, latency=400ns, efficiency=94%)" for rate in (25, 50)]
    runs = [
        compared.Compared(name, {"runs": [{"name": "A"}]}, {}, {"A": {"topology": topology}})
        for name, topology in zip("ab", whole, strict=True)
    ]
    text = compared.settings_section(runs)
    for rate, topology in zip((25, 50), whole, strict=True):
        assert f'title="{topology}">\N{HORIZONTAL ELLIPSIS}rate={rate}GB/s\N{HORIZONTAL ELLIPSIS}<' in text


def test_two_runs_of_five_variants_are_below_two_megabytes(study: Any) -> None:
    document, variants = study
    runs = [compared.Compared(name, document, variants, {}) for name in ("before", "after")]
    page = compared.build(runs, "syncline report before after")
    assert len(page.encode()) < 2_000_000
    assert "in the report of its own run" in page


def test_labels_are_as_short_as_tells_directories_apart() -> None:
    assert compared.labels([Path("/a/x"), Path("/a/y")]) == ["x", "y"]
    assert compared.labels([Path("/a/x"), Path("/b/x")]) == ["a/x", "b/x"]
