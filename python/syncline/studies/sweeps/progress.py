"""How far a sweep is, on standard error: a bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from syncline.base.progress import Standing, Watch

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_EVERY_S: Final = 2.0


class Checked:
    """Says now and then how many points have been checked, as long as that takes."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._spoke = time.monotonic()
        self._quiet = quiet

    def __call__(self, count: int) -> None:
        """So many points have been checked."""
        now = time.monotonic()
        if not self._quiet and now - self._spoke >= LINE_EVERY_S:
            self._spoke = now
            print(f"{count}/{self._total} points checked", file=sys.stderr, flush=True)


class SweepProgress:
    """Counts simulations; the time that is left is estimated from their events, as far as these are expected.

    `watch` hears of each that ends, by the names that they have for people, whether this is `quiet` or not.
    """

    def __init__(
        self,
        weights: dict[str, int],
        already: int,
        *,
        quiet: bool,
        what: str = "simulations",
        watch: Watch | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._what = what
        self._watch = watch
        self._waiting = {key: (names or {}).get(key, key) for key in weights}
        average = sum(weights.values()) // max(1, sum(weight > 0 for weight in weights.values())) or 1
        self._weights = {key: weight or average for key, weight in weights.items()}
        self._left = sum(self._weights.values())
        self._first: tuple[float, int] | None = None
        self._done = already
        self._total = already + len(weights)
        self._failed = 0
        self._began = self._spoke = time.monotonic()
        self._quiet = quiet
        self._bar: Progress | None = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total, completed=already)

    def __enter__(self) -> SweepProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._tell(is_over=True)

    def finished(self, key: str, *, failed: bool) -> None:
        """A simulation ended."""
        self._done += 1
        self._failed += failed
        self._waiting.pop(key, None)
        self._tell()
        self._left -= self._weights[key]
        self._first = self._first or (time.monotonic(), self._left)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=self._say())
        elif not self._quiet:
            now = time.monotonic()
            if now - self._spoke >= LINE_EVERY_S or self._done == self._total:
                self._spoke = now
                said = "; ".join(part for part in (f"{self._done}/{self._total} {self._what}", self._say()) if part)
                print(said, file=sys.stderr, flush=True)

    def _tell(self, *, is_over: bool = False) -> None:
        if self._watch is not None:
            elapsed_s = time.monotonic() - self._began
            self._watch(Standing(self._done, self._total, tuple(self._waiting.values()), elapsed_s, is_over))

    def _say(self) -> str:
        failed = f"{self._failed} failed; " if self._failed else ""
        now = time.monotonic()
        if not self._left or self._first is None:
            return f"{failed}{now - self._began:.0f} s"
        since, left = self._first  # processes that start take time of their own, which says nothing about the rest
        estimate = f"about {(now - since) * self._left / (left - self._left):.0f} s left" if left > self._left else ""
        return f"{failed}{estimate}".removesuffix("; ")
