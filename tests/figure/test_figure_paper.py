"""Figures of papers: as wide as a column or a page, in letters that can be read, with one legend for all panels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from support.figures import panels
from syncline.figures import draw, values
from syncline.figures.file import PAPER
from syncline.report.sweep import scale_of

KINDS = ("lines", "bars", "stacked", "heat", "scatter")


def drawn(tmp_path: Path, kind: str, paper: str) -> tuple[Any, list[Any]]:
    """A figure of three panels with its axes, as it is drawn."""
    import matplotlib as mpl

    figure, shown = panels(tmp_path, kind)
    with mpl.rc_context(draw.STYLE):
        made, axes = draw.drawing(figure.model_copy(update={"paper": paper}), shown)
        made.canvas.draw()
    return made, axes


@pytest.mark.parametrize(("kind", "paper"), [*((kind, "column") for kind in KINDS), ("bars", "page")])
def test_it_fits_the_width_and_letters_are_large_enough(tmp_path: Path, kind: str, paper: str) -> None:
    figure, _ = drawn(tmp_path, kind, paper)
    assert figure.get_figwidth() == PAPER[paper]
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    assert min(t.get_fontsize() for t in texts) >= draw.SMALL
    box = figure.get_tightbbox()
    assert box.x0 >= -0.01
    assert box.x1 <= PAPER[paper] + 0.01


@pytest.mark.parametrize("kind", ["lines", "bars", "stacked"])
def test_panels_that_show_the_same_have_one_legend(tmp_path: Path, kind: str) -> None:
    figure, axes = drawn(tmp_path, kind, "" if kind == "lines" else "page")
    assert len(figure.legends) == 1
    assert all(of.get_legend() is None for of in axes)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == len(set(labels)) > 1


def test_the_pdf_is_as_wide_as_the_column(tmp_path: Path) -> None:
    figure, shown = panels(tmp_path, "lines")
    pdf = draw.draw(figure.model_copy(update={"paper": "column"}), shown).pdf
    found = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ", pdf)
    assert found is not None
    assert float(found[1]) == pytest.approx(72 * PAPER["column"])


def test_a_scale_says_when_differences_are_small() -> None:
    low, high, remark = scale_of([1.0, 1.001])
    assert (low, high) == pytest.approx((1.0005 * 0.975, 1.0005 * 1.025))
    assert remark == "small differences: 0.1 % in all"
    assert scale_of([2.0, 2.0])[2] == "all equal"
    assert scale_of([1.0, 1.2]) == (1.0, 1.2, "")
    assert scale_of([0.0, 0.0]) == (-1.0, 1.0, "all equal")


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("total_s", "total time"),
        ("iteration_time_s", "iteration time"),
        ("exposed_comm_s", "exposed communication"),
        ("endpoint.sram_bytes", "SRAM"),
        ("endpoint.fsms", "FSMs"),
        ("achieved_bandwidth_bytes_per_s", "achieved bandwidth"),
        ("collective.inflight", "chunks in flight"),
        ("network.jitter_s", "jitter"),
    ],
)
def test_axes_have_names_of_people(column: str, name: str) -> None:
    assert values.human(column) == name
