"""Progress in a notebook is a bar of HTML; elsewhere it is a line."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import syncline
from syncline.base.progress import Standing, Underway
from syncline.commands.api import progress

TINY: dict[str, Any] = {"topology": "Ring(4)", "workload": {"collective": "all-reduce", "size": "64KiB"}}


class Page:
    """Stands in for IPython: what a cell shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, page: dict[str, str], *, raw: bool, display_id: bool) -> Page:
        assert raw
        assert display_id
        assert page["text/plain"]
        self.shown.append(page["text/html"])
        return self

    def update(self, page: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(page["text/html"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Page:
    """A notebook's kernel."""
    page = Page()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = page.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return page


def test_a_bar_in_a_notebook(notebook: Page, capsys: pytest.CaptureFixture[str]) -> None:
    syncline.run(TINY, progress=True)
    assert notebook.shown[-1].startswith('<progress value="1.000"')
    assert "1/1 done" in notebook.shown[-1]
    assert capsys.readouterr() == ("", "")


def test_lines_elsewhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))
    syncline.run(TINY, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "1/1 done" in err


def test_the_bar_shows_the_share_of_events_and_the_rate() -> None:
    underway = (Underway("<b>", 0.25, 600_000, 1_000_000),)
    html = progress.bar(Standing(0, 2, ("<b>", "c"), 0.5, False, underway, 600_000, 2_000_000))
    assert html.startswith('<progress value="0.300"')
    assert "simulated 250.000 ms" in html
    assert "1.2 M events/s" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    beyond = progress.bar(Standing(0, 1, ("b",), 0.5, False, (), 3_000_000, 2_000_000))
    assert beyond.startswith('<progress value="0.990"')
