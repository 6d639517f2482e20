"""Who hears of progress and of warnings: a function, a bar in a notebook, or standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from syncline.base import progress_display
from syncline.base.errors import InputError
from syncline.base.progress import Standing, Watch
from syncline.commands.api.arguments import ARGUMENTS
from syncline.report.escape import html_text

if TYPE_CHECKING:
    from syncline.commands.api.simulate import Warn

Progress = Callable[[Standing], None] | bool | None
"""What hears of progress: a function; with `True` a bar in a notebook, else a line on standard error."""

UPDATE_S: Final = 0.2
"""How often a bar in a notebook changes at most."""


def watch_of(progress: Progress) -> Watch | None:
    """What hears of progress. Raises [`InputError`] for what cannot hear."""
    if progress is True:
        return Bar.in_notebook() or (progress_display.Bar() if sys.stderr.isatty() else Lines()).hear
    if progress is None or progress is False:
        return None
    if not callable(progress):
        message = "this cannot be told of progress"
        raise InputError([ARGUMENTS.problem("progress", progress, message, "True, or a function of a Standing")])
    return progress


def warn_of(progress: Progress) -> Warn | None:
    """What hears of warnings before something begins: standard error, where progress is shown."""
    if progress is not True:
        return None
    return lambda warning: print(f"warning: {warning}", file=sys.stderr, flush=True)


class Lines:
    """Shows progress on a standard error that is no terminal: a line when a simulation ends."""

    def __init__(self) -> None:
        self._done = 0

    def hear(self, standing: Standing) -> None:
        """Says how far the simulations are, if another one has ended."""
        if standing.done != self._done:
            print(said(standing), file=sys.stderr, flush=True)
        self._done = standing.done


class Bar:
    """Shows progress in a notebook: a bar in the output of the cell, which stays when all is done."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._spoke = 0.0

    @classmethod
    def in_notebook(cls) -> Watch | None:
        """What shows a bar, if this runs in a notebook: in a kernel of IPython, which has been imported by then."""
        ipython = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        if getattr(shell, "kernel", None) is None:
            return None
        from IPython.display import display

        return cls(display).hear

    def hear(self, standing: Standing) -> None:
        """Shows how far the simulations are, a few times a second."""
        now = time.monotonic()
        if now - self._spoke < UPDATE_S and not standing.is_over:
            return
        self._spoke = now
        page = {"text/html": bar(standing), "text/plain": said(standing)}
        if self._handle is None:
            self._handle = self._display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)


def bar(standing: Standing) -> str:
    """A bar of HTML, and how far the simulations are in words. Its colours are those of the page around it."""
    done = 1.0 if standing.is_over else progress_display.share(standing)
    return f'<progress value="{done:.3f}" style="width: 20em"></progress> {html_text(said(standing))}'


def said(standing: Standing) -> str:
    """How far the simulations are, in words."""
    return "; ".join(progress_display.parts(standing))
