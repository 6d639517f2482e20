"""Layers of a run, from the engine to the numbers of a panel."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.experiments import THREE_SYSTEMS, study
from syncline.base.errors import InputError
from syncline.engine import runs as engine
from syncline.report.figures import draw
from syncline.studies.figures import layers, runs
from syncline.studies.figures.file import FigureFile, Layers
from syncline.studies.figures.read import load

FIGURE = """
name: mine
title: A figure
panels:
  - {kind: layers, title: Waits, run: three.yaml, variants: [SMs, Ideal], unit: us, published: [{x: conv1, value: 3}]}
  - {kind: layers, title: Both, run: three.yaml, variants: [SMs], y: [compute_s, exposed_s]}
"""


@pytest.fixture(scope="module")
def results() -> dict[str, engine.Result]:
    return {v.name: engine.run(v) for v in study(THREE_SYSTEMS, "training.update=false").variants}


def _file(tmp_path: Path, text: str = FIGURE) -> FigureFile:
    (tmp_path / "three.yaml").write_text(THREE_SYSTEMS)
    path = tmp_path / "mine.figure.yaml"
    path.write_text(text)
    return load(path, "mine.figure.yaml")


def test_sums_over_layers_are_those_of_the_run(tmp_path: Path, results: dict[str, engine.Result]) -> None:
    file = _file(tmp_path)
    waits, both = (p for p in file.figure.panels if isinstance(p, Layers))
    shown = layers.of(file, 0, waits, results)
    for name in waits.variants:
        summary = results[name].summary
        mine = [v for v in shown.values if v.series == name]
        assert sum(v.value for v in mine) == pytest.approx(summary["exposed_ps"] / 1e6)
        assert [v.published for v in mine if v.x == "conv1"] == [3]
    assert sum(v.value for v in shown.values) > 0
    shown = layers.of(file, 1, both, results)
    summary = results["SMs"].summary
    for part, total in (("compute_s", summary["compute_ps"]), ("exposed_s", summary["exposed_ps"])):
        mine = [v for v in shown.values if v.part == part]
        assert sum(v.value for v in mine) * shown.y_scale.factor == pytest.approx(total / 1e12)
        assert len(mine) == results["SMs"].tables["layers"].num_rows
    svg, png, _ = draw.draw(file.figure, [shown])
    assert b"layer4.2.conv3" in svg
    assert png.startswith(b"\x89PNG")


def test_layers_of_one_name_are_told_apart(results: dict[str, engine.Result]) -> None:
    table = results["Ideal"].tables["layers"]
    named = table.set_column(table.column_names.index("layer"), "layer", [["same"] * table.num_rows])
    rows = layers.rows(
        "run", "Ideal", engine.Result(results["Ideal"].summary, results["Ideal"].tables | {"layers": named})
    )
    assert len({row["layer"] for row in rows}) == table.num_rows
    assert rows[3]["layer"] == "same (3)"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("variants: [SMs]", "variants: [SM]", r"panels\.1\.variants\.0: .*no variant of this name; did you mean 'SMs'"),
        ("variants: [SMs]", "variants: []", r"panels\.1\.variants: "),
        ("variants: [SMs],", "variants: [SMs, Ideal],", r"panels\.1\.y: several columns can be stacked"),
        ("run: three.yaml, variants: [SMs],", "run: four.yaml, variants: [SMs],", r"panels\.1\.run: there is no such"),
        ("run: three.yaml, variants: [SMs],", "run: ace/allreduce, variants: [ACE],", "has no layers"),
        ("unit: us", "unit: parsec", r"panels\.0\.unit: there is no such unit"),
        (", unit: us", "", r"panels\.0: published values need a unit"),
        ("title: Both", "title: Both, log: true", r"panels\.1\.log: this key is not known"),
    ],
)
def test_wrong_layers_are_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in FIGURE
    with pytest.raises(InputError, match=expected):
        runs.variants(_file(tmp_path, FIGURE.replace(old, new)))


def test_columns_that_layers_lack_are_named(tmp_path: Path, results: dict[str, engine.Result]) -> None:
    file = _file(tmp_path, FIGURE.replace("[compute_s, exposed_s]", "exposd_s"))
    panel = file.figure.panels[1]
    assert isinstance(panel, Layers)
    with pytest.raises(InputError, match="no simulation has a column 'exposd_s'; did you mean 'exposed_s'"):
        layers.of(file, 1, panel, results)
