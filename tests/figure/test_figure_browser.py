"""The page of a figure in a real browser: it asks for nothing, the drawing can be read, and numbers are beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.browser import Page
from support.figures import build, panels
from syncline.experiment.packaged import find_figure
from syncline.report.figures import draw
from syncline.report.figures import page as pages
from syncline.studies.figures import closed_form, values
from syncline.studies.figures.file import Figure, Panel
from syncline.studies.figures.read import load

WIDTHS = [1280, 390]
TEXTS = "return [...document.querySelectorAll('.figure svg text')].map((t) => t.textContent)"
"""What the drawing says."""


@pytest.fixture(scope="module")
def text() -> str:
    """The page of a packaged figure for which nothing is simulated."""
    file = load(*find_figure("ace1/fig5"))
    tables = closed_form.tables(file)
    shown = [values.of(file, i, p, tables) for i, p in enumerate(file.figure.panels) if isinstance(p, Panel)]
    svg, *_ = draw.draw(file.figure, shown)
    return pages.build(file.figure, shown, svg, ["an assumption"], "syncline figure ace1/fig5")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_loads_from_disk_alone(page: Page, text: str, tmp_path: Path, width: int, theme: str) -> None:
    page.open(text, width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    assert page.cut_letters() == []
    said = page.run(TEXTS)
    for expected in ("(a) baseline", "remote writes", "published", "cores", "network utilisation [%]"):
        assert expected in said
    letters = "return Math.min(...[...document.querySelectorAll('.figure svg text')]"
    letters += ".map((t) => t.getBoundingClientRect().height))"
    assert page.run(letters) >= 7, "letters that are too small to read"
    page.screenshot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 30_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_drawing_has_the_colours_of_the_page(page: Page, text: str, theme: str) -> None:
    page.open(text, theme=theme)
    background, letters, axis, marker = page.run(
        "const style = (e) => getComputedStyle(e);"
        "const line = [...document.querySelectorAll('.figure path')].find((p) => style(p).stroke !== 'none');"
        "const marker = [...document.querySelectorAll('.figure use')].find((u) => (u.getAttribute('style') || '')"
        ".includes('fill: var(--surface)'));"
        "return [style(document.body).backgroundColor, style(document.querySelector('.figure text')).fill,"
        " style(line).stroke, [style(marker).fill, style(marker).stroke]]"
    )
    ink = "rgb(27, 31, 39)" if theme == "light" else "rgb(232, 235, 240)"
    paper = "rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 28)"
    assert (background, letters, axis) == (paper, ink, ink)
    assert marker == [paper, ink]


def test_numbers_are_complete_and_sort_by_key(page: Page, text: str) -> None:
    page.open(text)
    assert len(page.column("panel0", 0)) == 3 * 12
    assert page.column("panel4", 2) == ["50", "", "15"]
    assert page.column("panel4", 3) == ["+23.9", "", "-5.0"]
    utilisation = "[data-table='panel3'] th:nth-child(3) button"
    page.press_enter(utilisation)
    down = [float(x) for x in page.column("panel3", 2)]
    assert len(down) == 36
    assert down == sorted(down, reverse=True)
    page.press_enter(utilisation)
    assert [float(x) for x in page.column("panel3", 2)] == down[::-1]


def test_a_wide_drawing_scrolls_by_key_in_a_narrow_window(page: Page, text: str) -> None:
    page.open(text, 390)
    scrolled = "const box = document.querySelector('.figure'); return box.scrollLeft"
    page.run("document.querySelector('.figure').focus()")
    page.browser.switch_to.active_element.send_keys("\ue014" * 3)  # the right arrow
    page.wait(scrolled.replace("box.scrollLeft", "box.scrollLeft > 20"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["lines", "bars", "stacked", "heat", "scatter"])
def test_every_kind_of_panel_can_be_read(page: Page, tmp_path: Path, kind: str, width: int) -> None:
    page.open(build(panels(tmp_path, kind)), width)
    assert page.errors == []
    assert page.overflow() <= 0
    assert page.cut_letters() == []
    assert page.overlapping() == []
    assert any("published" in said for said in page.run(TEXTS))


def test_the_check_sees_letters_that_are_cut_or_overlap(page: Page) -> None:
    """Without this the checks could pass on anything."""
    label = '<text x="10" y="20">one</text><text x="12" y="22">other</text><text x="190" y="80">a long name</text>'
    svg = f'<svg width="200pt" height="100pt" viewBox="0 0 200 100">{label}</svg>'.encode()
    figure = Figure.model_validate({"name": "n", "title": "t", "panels": [PANEL]})
    page.open(pages.build(figure, [], svg, [], "syncline figure n"))
    assert page.cut_letters() == ["a long name"]
    assert page.overlapping() == [["one", "other"]]


PANEL = {"kind": "lines", "title": "One", "x": "a", "y": "b"}
