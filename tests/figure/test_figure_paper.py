"""Figures of papers: as wide as a column or a page, in letters that can be read, with one legend for all panels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from support.colours import contrast
from support.figures import file_of, panels, space
from syncline.report.figures import draw
from syncline.report.figures.layout import CELL
from syncline.report.sweep import scale_of
from syncline.studies.figures import values
from syncline.studies.figures.file import PAPER, Panel
from syncline.studies.sweeps import table

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


PANELS = (
    "kind: scatter, x: area_um2, y: collectives_per_s_per_mm2, each: [endpoint.sram, endpoint.fsms], pareto: true",
    "kind: bars, x: endpoint.fsms, series: endpoint.sram, y: time_s",
    "kind: scatter, x: power_w, y: bus_bandwidth_bytes_per_s, each: [endpoint.sram, endpoint.fsms], pareto: true",
    "kind: heat, x: endpoint.fsms, series: endpoint.sram, y: time_s",
    "kind: lines, x: endpoint.fsms, series: endpoint.sram, y: bus_bandwidth_bytes_per_s, log: true",
)


@pytest.mark.parametrize("paper", ["column", "page", ""])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_nothing_lies_upon_anything_else_or_leaves_the_page(tmp_path: Path, count: int, paper: str) -> None:
    import matplotlib as mpl

    file = file_of(tmp_path, *(panel for panel in PANELS[:count]))
    numbers = [values.of(file, i, p, [space()]) for i, p in enumerate(file.figure.panels) if isinstance(p, Panel)]
    described = file.figure.model_copy(update={"paper": paper, "columns": 2})
    with mpl.rc_context(draw.STYLE):
        made, axes = draw.drawing(described, numbers)
        made.draw_without_rendering()
    assert check_texts(made) > 10 * count
    assert min(of.bbox.height for of in axes) > made.dpi * (0.5 if paper else 1)
    assert min(of.bbox.width for of in axes) > made.dpi


TOPOLOGIES = (
    "Ring(4, rate=50GB/s, latency=500ns, links=1, efficiency=100%)_Ring(2, rate=25GB/s, latency=400ns, efficiency=94%)",
    "Ring(8, rate=50GB/s, latency=500ns, links=1, efficiency=94%)",
)
LONG_TITLE = "a title that goes on and on until it can no longer fit into the width of its panel at all, really"


@pytest.mark.parametrize(("names", "times"), [(range(1, 31), 1), (TOPOLOGIES, 12)])
def test_many_series_long_names_and_long_titles_have_room(tmp_path: Path, names: Sequence[Any], times: int) -> None:
    import matplotlib as mpl

    rows = [
        {"variant": "A", "status": "done", "workload.size_bytes": size, "series": name, "time_s": 1e-9 * size / (i + 1)}
        for size in (2**10, 2**20)
        for i, name in enumerate(names)
    ]
    panel = "x: workload.size, y: time_s, series: series"
    file = file_of(tmp_path, f"kind: lines, {panel}", f"kind: bars, {panel}")
    one, two = (p for p in file.figure.panels if isinstance(p, Panel))
    described = file.figure.model_copy(update={"title": "A very long title " * times})
    found = [table.of_rows(rows, ("workload.size_bytes", "series"))]
    titled = one.model_copy(update={"title": LONG_TITLE})
    with mpl.rc_context(draw.STYLE):
        made, axes = draw.drawing(described, [values.of(file, i, p, found) for i, p in enumerate((titled, two))])
        made.draw_without_rendering()
    assert check_texts(made) > 10
    assert min(of.bbox.height for of in axes) > made.dpi


def check_texts(made: Any) -> int:
    """No text lies upon another or leaves the page; how many there are."""
    texts = [t for t in made.findobj(Text) if t.get_text().strip() and t.get_visible()]
    # Ticks beyond the ends of an axis are there, and not drawn.
    boxes = [(t.get_text(), box) for t in texts if (box := t.get_window_extent()).width and _is_drawn(t, box)]
    page = made.bbox.padded(0.5)
    for (text, box), (other, beside) in itertools.combinations(boxes, 2):
        assert not _overlap(box, beside), (text, other)
    for text, box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text
    return len(boxes)


def test_numbers_upon_cells_can_be_read(tmp_path: Path) -> None:
    rows = [{"status": "done", "x": i, "y": 1, "time_s": 1.0 + i} for i in range(64)]
    file = file_of(tmp_path, "kind: heat, x: x, y: time_s, series: y, unit: s")
    (panel,) = file.figure.panels
    assert isinstance(panel, Panel)
    _, (axes,) = draw.drawing(file.figure, [values.of(file, 0, panel, [table.of_rows(rows, ("x", "y"))])])
    (image,) = axes.images
    cells = [text for text in axes.texts if text.get_gid() == CELL]
    assert len(cells) == 64
    drawn: Any = image.get_array()
    shades = image.to_rgba(drawn)
    for place, text in enumerate(cells):
        assert contrast(shades[0, place], to_rgb(text.get_color())) >= 4.5


def _is_drawn(text: Text, box: Any) -> bool:
    middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    for axes in text.figure.axes:
        inside = axes.bbox.padded(1)
        if text in axes.get_xticklabels():
            return bool(inside.containsx(middle[0]))
        if text in axes.get_yticklabels():
            return bool(inside.containsy(middle[1]))
    return True


def _overlap(one: Any, other: Any) -> bool:
    """Whether two boxes share more than the rounding of letters to dots."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(width > 1 and height > 1)


@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("power_w", "power [W]"),
        ("energy_per_collective_j", "energy per collective [mJ]"),
        ("collectives_per_s_per_mm2", "collectives [1/(s mm\N{SUPERSCRIPT TWO})]"),
    ],
)
def test_what_has_a_unit_has_it_on_its_axis(tmp_path: Path, column: str, label: str) -> None:
    file = file_of(tmp_path, f"kind: bars, x: endpoint.fsms, series: endpoint.sram, y: {column}")
    (panel,) = file.figure.panels
    assert isinstance(panel, Panel)
    _, (axes,) = draw.drawing(file.figure, [values.of(file, 0, panel, [space()])])
    assert axes.get_ylabel() == label
