"""How progress is shown: from what is known of it alone, in lines that fit, and not at all where it is soon over."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from syncline.base import progress_display
from syncline.base.progress import Standing, Underway


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Terminal]:
    """A terminal of so many columns."""

    def of(columns: int) -> Terminal:
        made = Terminal()
        monkeypatch.setattr("sys.stderr", made)
        monkeypatch.setenv("COLUMNS", str(columns))
        return made

    return of


KNOWN = Standing(
    *(1, 4, ("a", "b", "c"), 20.0),
    underway=(Underway("a", 3.2e-3, 9_000_000, None),),
    events=24_000_000,
    expected_events=60_000_000,
)


def test_a_bar_with_all_that_is_known(terminal: Callable[[int], Terminal]) -> None:
    shown = terminal(160)
    watch = progress_display.shown()
    assert watch is not None
    watch(KNOWN)
    text = shown.getvalue().removeprefix("\r\x1b[K")
    assert text == (
        "[########............] 1/4 done; 20 s; about 30 s left; simulated 3.200 ms; 1.2 M events/s; to come: a, b, c"
    )
    watch(Standing(4, 4, (), 21.0, is_over=True))
    assert shown.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_the_line_fits(columns: int, terminal: Callable[[int], Terminal]) -> None:
    shown = terminal(columns)
    progress_display.Bar().hear(KNOWN)
    text = shown.getvalue().removeprefix("\r\x1b[K")
    assert len(text) < columns
    whole = progress_display.parts(KNOWN)
    assert all(piece in whole for piece in text.rpartition("] ")[2].split("; ") if piece and "[" not in piece)


def test_what_is_not_known_is_left_out() -> None:
    assert progress_display.parts(Standing(0, 1, ("a",), 3.0)) == ["0/1 done", "3 s", "to come: a"]
    assert progress_display.left_s(Standing(0, 1, ("a",), 3.0)) is None
    assert progress_display.left_s(Standing(1, 3, ("a", "b"), 3.0)) == pytest.approx(6.0)


def test_an_estimate_that_was_too_low_shows_nothing_as_done() -> None:
    late = Standing(0, 1, ("a",), 3.0, events=500, expected_events=100)
    assert progress_display.share(late) < 1
    assert "longer than expected" in progress_display.parts(late)
    assert not [part for part in progress_display.parts(late) if "left" in part]


def test_nothing_flickers(terminal: Callable[[int], Terminal]) -> None:
    shown = terminal(80)
    watch = progress_display.shown()
    assert watch is not None
    watch(Standing(0, 1, ("a",), 0.1))
    watch(Standing(1, 1, (), 0.2, is_over=True))
    assert shown.getvalue() == ""


def test_lines_of_a_log_come_late_and_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    watch = progress_display.shown()
    assert watch is not None
    for tenth in range(300):
        watch(Standing(0, 1, ("a",), tenth / 10))
    watch(Standing(1, 1, (), 30.0, is_over=True))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("; ")[1] for line in lines] == ["10 s", "15 s", "20 s", "25 s"]
    watch(Standing(0, 1, ("a",), 0.0))  # what comes next begins anew
    watch(Standing(0, 1, ("a",), 9.9))
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet() -> None:
    assert progress_display.shown(quiet=True) is None
