"""The page in a real browser: it asks for nothing, says no error, and every chart has marks."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.browser import Page
from support.marks import check_charts
from support.pages import charts_of
from syncline.report import html, packed
from syncline.report.markup import Cell, Column, table
from syncline.report.page import Around, whole

COMMAND = "syncline run study.yaml --seed 1"
CHARTS = {
    "chart-breakdown",
    "chart-utilisation",
    "chart-ace-3",
    "chart-partitions-3",
    "chart-links",
    "chart-heat-3",
}


@pytest.fixture(scope="module")
def text(study: Any) -> str:
    """The page of the whole study."""
    document, variants = study
    return html.build(document, variants, COMMAND)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (800, "light"), (800, "dark")])
def test_whole_study(page: Page, text: str, tmp_path: Path, width: int, theme: str) -> None:
    page.open(text, width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    check_charts(page, CHARTS)
    empty = page.run(
        "return [...document.querySelectorAll('table')].filter((t) => !t.tBodies[0].rows.length)"
        ".map((t) => t.dataset.table)"
    )
    assert empty == []
    assert len(page.column("layers-3", 0)) == 54
    assert len(page.column("collectives-3", 0)) == 108
    page.screenshot(tmp_path / f"report-{width}-{theme}.png")
    assert (tmp_path / f"report-{width}-{theme}.png").stat().st_size > 50_000


def test_titles_of_panels_have_room_on_a_phone(page: Page, text: str) -> None:
    page.open(text, 390)
    boxes = page.run(
        "return [...document.querySelectorAll('#chart-utilisation .annotation-text')]"
        ".map((t) => t.getBoundingClientRect()).map((b) => [b.left, b.right, b.top, b.bottom])"
    )
    assert len(boxes) == 10
    for one, other in itertools.combinations(boxes, 2):
        across, down = (min(one[i + 1], other[i + 1]) - max(one[i], other[i]) for i in (0, 2))
        assert across <= 1 or down <= 1


def test_rows_with_settings_below_are_low_on_a_phone(page: Page) -> None:
    long = Cell("twice the link rate", below=f"--set '{'topology=Ring(4, rate=25GB/s)_' * 4}'")
    columns = [Column("variant", numeric=False), Column("change", numeric=False), Column("time"), Column("saves")]
    rows = table("what-if", columns, [["all-reduce", long, "58.21", "20"]])
    page.open(whole(Around("a page", [], "", "", ()), rows, {}), 390)
    assert page.overflow() <= 0
    assert page.run("return document.querySelector('tbody tr').offsetHeight") < 150
    assert page.run("return document.querySelector('tbody small').getBoundingClientRect().right") < 390


def test_names_are_shown_as_text(page: Page, text: str) -> None:
    page.open(text)
    assert "<script>alert('layer')</script>" in page.column("layers-3", 1)
    assert page.run("return document.querySelectorAll('main script').length") == 0


def test_every_variant_can_be_chosen(page: Page, text: str) -> None:
    page.open(text)
    for i in range(5):
        page.click(f"[data-tabs='links'] button[data-variant='{i}']")
        page.wait(f"return !!document.querySelector('#chart-heat-{i} .hm image')")
        check_charts(page, {f"chart-heat-{i}"})
        shown = page.run("return [...document.querySelectorAll('.panel.on')].map((p) => p.dataset.variant)")
        # layers, ACE (which only variant 3 has), links, collectives
        assert shown == [str(i), "3", str(i), str(i)]
    page.read_logs()
    assert page.errors == []


def test_links_of_one_dimension_can_be_chosen(page: Page, text: str) -> None:
    page.open(text)
    seen = (
        "return document.getElementById('chart-utilisation')._fullData"
        ".filter((t) => t.visible === true).map((t) => t.name)"
    )
    assert page.run(seen) == ["compute", "all links"] * 5
    page.click("[data-charts] button[data-option='dim 1']")
    page.wait("return document.querySelector('#chart-utilisation .legend').textContent.includes('1')")
    assert page.run(seen) == ["compute", "links of dim 1"] * 5
    check_charts(page, CHARTS)


def test_tables_sort_by_click(page: Page, text: str) -> None:
    page.open(text)
    exposed = 12
    header = f"[data-table='layers-3'] th:nth-child({exposed + 1})"
    before = page.column("layers-3", exposed)

    def number(shown: str) -> float:
        return float(shown.replace(",", "").replace("<", ""))

    page.click(f"{header} button")
    down = page.column("layers-3", exposed)
    assert down != before
    assert sorted(down) == sorted(before)
    assert [number(x) for x in down] == sorted((number(x) for x in before), reverse=True)
    page.click(f"{header} button")
    assert [number(x) for x in page.column("layers-3", exposed)] == sorted(map(number, before))
    page.click("[data-table='layers-3'] th:nth-child(2) button")
    names = page.column("layers-3", 1)
    assert names.index("conv2_1.3x3") < names.index("conv3_1.3x3") < names.index("fc1000")
    completed = 9
    page.click(f"[data-table='collectives-3'] th:nth-child({completed + 1}) button")
    shown = page.column("collectives-3", completed)
    finished = [s for s in shown if s != "in flight"]
    assert shown == finished + ["in flight"] * (len(shown) - len(finished)), "absent ones last"


def test_bars_in_cells_are_drawn(page: Page, text: str) -> None:
    page.open(text)
    widths = page.run(
        "return [...document.querySelectorAll(\"[data-table='exposed'] .bar\")]"
        ".map((b) => b.getBoundingClientRect().width)"
    )
    assert len(widths) > 40
    assert min(widths) > 1
    assert max(widths) > 40


def test_print_fits_the_paper(page: Page, text: str) -> None:
    page.open(text, theme="dark")
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    widths = page.run(
        "return [...document.querySelectorAll('.chart .main-svg')]"
        ".map((s) => s.getBoundingClientRect().width).filter((w) => w)"
    )
    assert max(widths) <= 690
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.run("window.dispatchEvent(new Event('afterprint'))")
    page.wait("return document.querySelector('#chart-links .main-svg').clientWidth > 900")
    pdf = base64.b64decode(page.cdp("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")


def degenerate(make_study: Callable[..., Any], what: str) -> tuple[str, set[str]]:
    """A page with little on it, and the charts that it must have."""
    if what == "one variant, one window":
        document, variants = make_study(1, ["ACE"])
        return html.build(document, variants, COMMAND), {"chart-breakdown", "chart-utilisation"}
    document, variants = make_study(20, ["ACE", "Ideal"])
    if what == "no tables":
        return html.build(document, {}, COMMAND), {"chart-breakdown", "chart-partitions-0"}
    if what == "long names":
        names = ["W" * 400, "A variant with a name of many words " * 8]
        for run, name in zip(document["runs"], names, strict=True):
            run["name"] = name
        variants = dict(zip(names, variants.values(), strict=True))
        return html.build(document, variants, "x" * 900), {"chart-breakdown", "chart-links"}
    assert what == "nothing"
    return html.build({}, {}, COMMAND), set()


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("what", ["one variant, one window", "no tables", "long names", "nothing"])
def test_degenerate_studies(page: Page, make_study: Callable[..., Any], tmp_path: Path, what: str, width: int) -> None:
    text, expected = degenerate(make_study, what)
    page.open(text, width)
    assert page.errors == []
    assert page.overflow() <= 0
    check_charts(page, expected)
    page.screenshot(tmp_path / "report.png")


@pytest.mark.parametrize("chart", sorted(CHARTS))
def test_the_check_sees_an_empty_series(page: Page, text: str, chart: str) -> None:
    """Without this the check of the charts could pass on a page without any mark."""
    head, rest = text.split('id="charts">', 1)
    data, tail = rest.split("</script>", 1)
    figures = charts_of(text)
    assert data
    trace = figures[chart]["data"][-1 if chart != "chart-utilisation" else 0]
    key = "z" if trace["type"] == "heatmap" else "y" if trace["type"] == "scatter" else "x"
    trace[key] = [[None] * len(r) for r in trace[key]] if key == "z" else [None for _ in trace[key]]
    page.open(f'{head}id="charts">{packed.packed(json.dumps(figures))}</script>{tail}')
    with pytest.raises(AssertionError, match=f"{chart} has traces without marks"):
        check_charts(page, CHARTS)


def test_the_check_sees_a_missing_chart(page: Page, make_study: Callable[..., Any]) -> None:
    document, variants = make_study(20)
    for tables in variants.values():
        tables["windows"] = tables["windows"].slice(0, 0)
    page.open(html.build(document, variants, COMMAND))
    with pytest.raises(AssertionError, match=r"not on the page.*chart-utilisation"):
        check_charts(page, CHARTS)
