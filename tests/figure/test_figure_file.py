"""What figure files may say, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.base.errors import InputError
from syncline.experiment import packaged as studies
from syncline.studies.figures.file import Panel
from syncline.studies.figures.read import load

GOOD = """
name: mine
title: A figure
sweeps: [ace/design-space]
panels:
  - {kind: lines, title: One, x: endpoint.fsms, y: iteration_time_s}
"""


def _problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "mine.figure.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load(path, "mine.figure.yaml")
    return [str(problem) for problem in error.value.problems]


def test_a_figure_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.figure.yaml"
    path.write_text(GOOD)
    figure = load(path, "mine").figure
    (panel,) = figure.panels
    assert isinstance(panel, Panel)
    assert (figure.name, panel.parts, figure.columns) == ("mine", ["iteration_time_s"], 3)


@pytest.mark.parametrize("name", studies.figures())
def test_packaged_figures_are_read(name: str) -> None:
    figure = load(*studies.find_figure(name)).figure
    assert figure.name == name.replace("/", "-")
    assert set(figure.sweeps) <= set(studies.sweeps())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title: A figure\n", "", "mine.figure.yaml:2: title: this is missing"),
        ("name: mine", "name: 'a b/c'", "mine.figure.yaml:2: name: this is not a legal name"),
        ("title: One", "titel: One", "panels.0.title: this is missing"),
        ("title: One", "title: One, colour: red", "panels.0.colour: this key is not known"),
        ("kind: lines", "kind: pie", "there is no such kind of panel"),
        ("kind: lines", "kind: heat", "a heat map needs the column of its rows"),
        ("kind: lines", "kind: scatter", "a scatter needs the columns that tell its points apart"),
        ("kind: lines, ", "", "a panel needs its kind"),
        ("y: iteration_time_s", "y: [a, b]", "panels.0.y: a panel of lines shows one column"),
        ("y: iteration_time_s", "y: 3", "panels.0.y: "),
        ("y: iteration_time_s", "y: t_s, unit: parsec", "panels.0.unit: there is no such unit"),
        (
            "y: iteration_time_s",
            "y: t_s, speedup: true",
            "speedup needs relative_to: what the speed-up is measured against",
        ),
        ("y: iteration_time_s", "y: t_s, pareto: true", "pareto is not for a panel of lines"),
        ("kind: lines", "kind: stacked, log_y: true", "panels.0.log_y: log_y is not for a panel of stacked"),
        ("kind: lines", "kind: bars, log: true", "panels.0.log: log is not for a panel of bars"),
        ("y: iteration_time_s", "y: t_s, published: [{value: 1}]", "published values need a unit"),
        (
            "y: iteration_time_s",
            "y: t_s, unit: s, published: [{valu: 1}]",
            "panels.0.published.0.value: this is missing",
        ),
        (
            "sweeps: [ace/design-space]\n",
            "",
            "this panel needs rows of a sweep or of a closed form, and the figure has neither",
        ),
        ("panels:", "panels: []\nrest:", "panels: this list is empty"),
        ("title: A figure", "title: ''", "title: this text is empty"),
        ("title: A figure", "title: A figure\ncolumns: 9", "columns: this is too large"),
        ("title: A figure", "title: A figure\npaper: poster", "paper: this is not known"),
        ("y: iteration_time_s", "y: t_s, x_better: less", "panels.0.x_better: x_better is not for a panel of lines"),
        (
            "kind: lines",
            "kind: scatter, each: [base], y_better: more",
            "panels.0.y_better: y_better says which points pareto marks",
        ),
    ],
)
def test_wrong_figures_are_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    assert any(expected in problem for problem in _problems(tmp_path, GOOD.replace(old, new)))


def test_a_list_is_no_figure(tmp_path: Path) -> None:
    assert "a figure file is a mapping" in _problems(tmp_path, "[1, 2]")[0]


def test_every_problem_says_what_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "mine.figure.yaml"
    path.write_text("name: mine\ntitle: ''\npaper: poster\ncolumns: 9\nheight: 0\npanels: []\n")
    with pytest.raises(InputError) as error:
        load(path, "mine.figure.yaml")
    assert {problem.field: problem.accepted for problem in error.value.problems} == {
        "title": "text of at least one character",
        "paper": "column, page",
        "columns": "6 or less",
        "height": "1 or more",
        "panels": "a list of at least one entry",
    }
    assert "should" not in str(error.value)
