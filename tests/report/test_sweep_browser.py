"""The page of a sweep in a real browser: it asks for nothing, its charts have marks, its table is whole and sorts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from matplotlib.colors import LinearSegmentedColormap

from support.browser import Page
from support.colours import contrast
from support.marks import check_charts
from support.sweeps import ABOUT, row
from syncline.report import sweep

ROWS = [
    row(*point, variant=variant, achieved_bandwidth_bytes_per_s=1e9 * sum(point[:2]))
    for point in itertools.product((1, 2, 4, 8), (4, 8, 16, 20), ("Ring(4)", "Ring(4)_Torus(8, 4)"))
    for variant in ("ACE", "ACE with a name of many words that is long")
]
FAILED = row(16, 4, status="refused", error="the SRAM has no room for a chunk of 64 KiB", iteration_time_s=None)
CHARTS = {"chart-area", *(f"chart-map-{k}" for k in range(4))}


@pytest.fixture(scope="module")
def text() -> str:
    return sweep.build([*ROWS, FAILED], ABOUT)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_the_page_of_a_sweep(page: Page, text: str, tmp_path: Path, width: int, theme: str) -> None:
    page.open(text, width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    assert page.cut_letters() == []
    check_charts(page, CHARTS)
    assert len(page.column("rows", 0)) == len(ROWS) + 1
    page.screenshot(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").stat().st_size > 30_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_upon_cells_can_be_read(page: Page, theme: str) -> None:
    rows = [
        row(1 + sram, fsms, iteration_time_s=1e-3 * (1 + 8 * sram + fsms)) for sram in range(4) for fsms in range(8)
    ]
    page.open(sweep.build(rows, ABOUT), 1280, theme)
    ends = page.run(
        "return ['0', '1', '2'].map((i) => getComputedStyle(document.documentElement).getPropertyValue('--heat' + i))"
    )
    scale = LinearSegmentedColormap.from_list("heat", [colour.strip() for colour in ends])
    cells = page.run(
        "return [...document.querySelectorAll('#chart-map-0 .heatmap-label text')]"
        ".map((t) => [parseFloat(t.textContent), getComputedStyle(t).fill.match(/\\d+/g).map(Number)])"
    )
    assert len(cells) == len(rows)
    for value, ink in cells:
        assert contrast(scale((value - 1) / 31), [part / 255 for part in ink]) >= 4.5, value


def test_rows_sort_by_key_and_those_without_a_time_stay_last(page: Page, text: str) -> None:
    page.open(text)
    headings: list[str] = page.run(
        "return [...document.querySelectorAll(\"[data-table='rows'] thead th\")].map((h) => h.textContent)"
    )
    place = next(i for i, heading in enumerate(headings) if heading.startswith("time"))
    page.press_enter(f"[data-table='rows'] th:nth-child({place + 1}) button")
    times = page.column("rows", place)
    numbers = [float(t.replace(",", "")) for t in times[:-1]]
    assert numbers == sorted(numbers, reverse=True)
    assert times[-1] == "\N{EN DASH}"
    page.press_enter(f"[data-table='rows'] th:nth-child({place + 1}) button")
    again = page.column("rows", place)
    assert again[:-1] == times[-2::-1]
    assert again[-1] == times[-1]


def test_a_sweep_without_results_has_no_charts_and_no_errors(page: Page) -> None:
    page.open(sweep.build([FAILED], ABOUT), 390)
    assert page.errors == []
    assert page.overflow() <= 0
    assert page.column("rows", 0) == ["\N{EN DASH}"]
