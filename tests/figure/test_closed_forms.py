"""Rows of closed forms, and what is said of forms that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.base.errors import InputError
from syncline.experiment.packaged import find_figure
from syncline.report.figures import draw
from syncline.studies.figures import closed_form, values
from syncline.studies.figures.file import Panel
from syncline.studies.figures.read import load
from syncline.studies.reproduction import ace1
from syncline.studies.reproduction.runs import Runs
from syncline.studies.sweeps.table import Table

FORM = """
name: mine
title: A figure
closed_forms:
  - model: all-reduce-steps
    set: {size: 16MB, shape: [4, 4], links: 4, efficiency: 95%, step_latency: 2us, core_read: 64GB/s}
    cases:
      slow: {link_rate: 25GB/s}
      fast: {link_rate: 75GB/s}
    axes: {cores: [1, 4]}
panels:
  - {kind: lines, title: One, x: cores, series: variant, y: time_s}
"""


def _tables(tmp_path: Path, text: str) -> list[Table]:
    path = tmp_path / "mine.figure.yaml"
    path.write_text(text)
    return closed_form.tables(load(path, "mine.figure.yaml"))


def test_rows_have_their_parameters_and_what_the_formula_gives(tmp_path: Path) -> None:
    (table,) = _tables(tmp_path, FORM)
    assert table.axes == ("cores",)
    assert [(row["variant"], row["cores"]) for row in table.rows] == [
        ("slow", 1),
        ("slow", 4),
        ("fast", 1),
        ("fast", 4),
    ]
    row = table.rows[1]
    # 12 steps of 2 us; 15/16 of 16 MB read three times by four cores; sent twice over four links.
    assert row["latency_s"] == pytest.approx(24e-6)
    assert row["local_reads_s"] == pytest.approx(45e6 / 256e9)
    assert row["remote_writes_s"] == pytest.approx(30e6 / 95e9)
    assert row["time_s"] == pytest.approx(24e-6 + 45e6 / 256e9 + 30e6 / 95e9)
    assert row["network_utilisation"] == pytest.approx(30e6 / row["time_s"] / 100e9)
    assert (row["size_bytes"], row["link_rate_bytes_per_s"], row["shape"]) == (16_000_000, 25e9, "4x4")


def test_axes_may_have_units(tmp_path: Path) -> None:
    text = FORM.replace("cores: [1, 4]", "cores: [1, 4], core_read: [12.8GB/s, 64GB/s]")
    (table,) = _tables(tmp_path, text.replace(", core_read: 64GB/s}", "}"))
    assert table.axes == ("core_read_bytes_per_s", "cores")
    assert len(table.rows) == 8


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "all-reduce-steps",
            "allreduce-steps",
            "closed_forms.0.model: there is no closed form with this name; did you",
        ),
        ("links: 4, ", "", "closed_forms.0: the parameter 'links' is missing"),
        (
            "links: 4, ",
            "link: 4, ",
            "closed_forms.0.set.link: there is no parameter of this name; did you mean 'l",
        ),
        ("size: 16MB", "size: 16", "closed_forms.0.set.size: the number has no unit"),
        ("shape: [4, 4]", "shape: [4, 0]", "closed_forms.0.set.shape: "),
        ("link_rate: 25GB/s", "link_rate: fast", "closed_forms.0.cases.slow.link_rate: this is not a rate"),
        ("cores: [1, 4]", "cores: [1, none]", "closed_forms.0.axes.cores.1: "),
        ("cores: [1, 4]", "cores: []", "closed_forms.0.axes.cores: "),
        ("cores: [1, 4]", "cores: [1], links: [2]", "closed_forms.0.set.links: links is an axis of this closed form"),
        (
            "    cases:\n      slow: {link_rate: 25GB/s}\n      fast: {link_rate: 75GB/s}\n",
            "",
            "cases: this is missing",
        ),
        (
            "  - model:",
            "  - modell: x\n    model:",
            "closed_forms.0.modell: this key is not known; did you mean 'model'",
        ),
    ],
)
def test_wrong_forms_are_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in FORM
    with pytest.raises(InputError) as error:
        _tables(tmp_path, FORM.replace(old, new))
    assert any(expected in str(problem) for problem in error.value.problems), error.value.as_text()


def test_more_rows_than_anybody_draws_are_refused(tmp_path: Path) -> None:
    cores = list(range(1, 4000))
    with pytest.raises(InputError, match="these are 15996 rows; at most 10000"):
        _tables(tmp_path, FORM.replace("cores: [1, 4]", f"cores: {cores}, links: [1, 2]").replace("links: 4, ", ""))


def test_the_figure_says_what_the_claim_says() -> None:
    """Its parameters are written down in the figure and in the claim."""
    file = load(*find_figure("ace1/fig5"))
    panel = file.figure.panels[-1]
    assert isinstance(panel, Panel)
    shown = values.of(file, len(file.figure.panels) - 1, panel, closed_form.tables(file))
    found = {value.x: value for value in shown.values}
    claimed, _ = ace1.METRICS["ace1-fig5-analytical"](ace1.Ace1(Runs()))
    assert isinstance(claimed, list)
    assert [found["(a)"].value, found["(c)"].value] == pytest.approx(claimed)
    assert [found["(a)"].published, found["(c)"].published] == [50, 15]


def test_the_insertion_delay_is_twice_the_vector_on_a_link(tmp_path: Path) -> None:
    """8 MB over 100 Gb/s take 1.28 ms (HOTI 2020, section IV-A1)."""
    form = """
name: mine
title: A figure
closed_forms:
  - {model: insertion-delay, set: {link_rate: 100Gb/s}, cases: {model: {}}, axes: {size: [8MB, 256MB]}}
panels:
  - {kind: lines, title: One, x: size, y: time_s}
"""
    (table,) = _tables(tmp_path, form)
    assert [row["time_s"] for row in table.rows] == pytest.approx([1.28e-3, 40.96e-3])


@pytest.mark.parametrize(("x_label", "shown"), [("", "size [MB]"), ("vector", "vector [MB]"), ("size [M]", "size [M]")])
def test_bare_numbers_below_an_axis_have_their_unit_beside_its_name(tmp_path: Path, x_label: str, shown: str) -> None:
    path = tmp_path / "mine.figure.yaml"
    path.write_text(f"""
name: mine
title: A figure
closed_forms:
  - {{model: insertion-delay, set: {{link_rate: 100Gb/s}}, cases: {{model: {{}}}}, axes: {{size: [8MB, 256MB]}}}}
panels:
  - {{kind: lines, title: One, x: size, y: time_s, x_label: "{x_label}"}}
""")
    file = load(path, "mine.figure.yaml")
    panel = file.figure.panels[0]
    assert isinstance(panel, Panel)
    svg, *_ = draw.draw(file.figure, [values.of(file, 0, panel, closed_form.tables(file))])
    assert f">{shown}</text>" in svg.decode()
