"""Mistakes in figures that are told before anything is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncline

EXPERIMENT = """
name: small
topology: Ring(4)
workload: {collective: all-reduce, size: 1MiB}
endpoint: {kind: ace, comm_memory_bandwidth: 450GB/s}
"""
SWEEP = "name: s\nbase: small.yaml\naxes: {endpoint.sram: [1MiB, 2MiB], endpoint.fsms: [4, 8]}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep that is never carried out."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("nothing is simulated for a figure that is wrong")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("syncline.studies.sweeps.run.simulate", refuse)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    (tmp_path / "s.sweep.yaml").write_text(SWEEP)
    return tmp_path


def _problems(folder: Path, *panels: str) -> list[tuple[str, str]]:
    listed = "".join(f"  - {{title: t, {panel}}}\n" for panel in panels)
    (folder / "f.figure.yaml").write_text(f"name: f\ntitle: t\nsweeps: [s.sweep.yaml]\npanels:\n{listed}")
    with pytest.raises(syncline.InputError) as error:
        syncline.figure("f.figure.yaml", threads=1)
    return [(problem.field, problem.message) for problem in error.value.problems]


@pytest.mark.parametrize(
    ("panel", "field", "said"),
    [
        ("kind: bars, x: endpoint.fsmz, y: time_s, mean: true", "x", "no simulation has a column 'endpoint.fsmz'"),
        ("kind: bars, x: endpoint.fsms, y: tims, mean: true", "y", "no simulation has a column 'tims'"),
        ("kind: bars, x: endpoint.fsms, y: iteration_time_s, mean: true", "y", "no simulation has a column"),
        ("kind: bars, x: endpoint.fsms, y: time_s", "x", "2 simulations have the same endpoint.fsms and the same"),
        ("kind: bars, x: endpoint.fsms, y: time_s, where: {endpoint.sram: 4MiB}", "where", "no simulation that"),
        ("kind: scatter, x: chunks, y: time_s, each: [endpoint.fsms], pareto: true", "pareto", "does not follow"),
        ("kind: scatter, x: area, y: time_s, each: [endpoint.sramm]", "each", "no simulation has a column"),
        ("kind: layers, run: small.yaml, variants: [small], y: exposd_s", "y", "no simulation has a column 'exposd_s'"),
        (
            "kind: timeline, run: small.yaml, variant: small, columns: {lnks: links}",
            "columns",
            "the windows of this run have no column 'lnks'; did you mean 'links'",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_is_simulated(folder: Path, panel: str, field: str, said: str) -> None:
    found = _problems(folder, panel)
    assert any(path == f"panels.0.{field}" and said in message for path, message in found), found


def test_all_mistakes_are_told_at_once(folder: Path) -> None:
    found = _problems(
        folder,
        "kind: heat, x: endpoint.fsms, series: endpoint.sram, y: time_s, pareto: true",
        "kind: bars, x: endpoint.fsmz, y: tims",
        "kind: bars, x: endpoint.fsms, y: time_s",
        "kind: lines, x: endpoint.fsms, series: endpoint.sram, y: time_s, colour: red",
    )
    fields = [field for field, _ in found]
    assert fields == ["panels.0.pareto", "panels.1.x", "panels.1.y", "panels.2.x", "panels.3.colour"]


def test_what_only_a_simulation_tells_is_left_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    panels = [
        # Equal, whatever the SRAM.
        {"kind": "bars", "title": "t", "x": "endpoint.fsms", "y": "lower_bound_s"},
        {"kind": "scatter", "title": "t", "x": "power_w", "y": "fsm_utilisation", "each": ["endpoint.fsms"]},
        {"kind": "bars", "title": "t", "x": "endpoint.fsms", "y": "time", "series": "endpoint.sram"},
    ]
    shown = syncline.figure({"name": "f", "title": "t", "sweeps": ["s.sweep.yaml"], "panels": panels}, threads=1)
    assert len(shown.table) == 2 + 4 + 4
