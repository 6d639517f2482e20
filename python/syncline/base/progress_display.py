"""How far simulations are, as people see it: a bar on a terminal, elsewhere a line now and then if it takes long.

What is shown comes from a [`Standing`] alone: what it does not know is left out. Nothing of this reaches results.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from syncline.base.text_units import cells, duration

if TYPE_CHECKING:
    from syncline.base.progress import Standing, Watch

BAR: Final = 20
"""Characters of the bar."""
BAR_AFTER_S: Final = 0.3
"""What takes no longer shows no bar, which would only flicker."""
LINE_AFTER_S: Final = 10.0
"""What takes no longer has no lines."""
LINE_EVERY_S: Final = 5.0
NAMED: Final = 3
"""Simulations that are named as those to come."""


def shown(*, quiet: bool = False) -> Watch | None:
    """What shows progress on standard error; nothing where it is to be `quiet`."""
    if quiet:
        return None
    return Bar().hear if sys.stderr.isatty() else Lines().hear


class Bar:
    """A line of a terminal that is written again and again: a bar, and what is known."""

    def __init__(self) -> None:
        self._is_shown = False

    def hear(self, standing: Standing) -> None:
        """Shows how far the simulations are; takes the line away where they are over."""
        if standing.is_over:
            text = ""
        elif standing.elapsed_s < BAR_AFTER_S:
            return
        else:
            text = fitted([bar(standing), *parts(standing)], shutil.get_terminal_size().columns - 1)
        if text or self._is_shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        self._is_shown = bool(text)


class Lines:
    """Lines of a log: none for what is soon over."""

    def __init__(self) -> None:
        self._spoke_s = 0.0

    def hear(self, standing: Standing) -> None:
        """Says how far the simulations are, if it is time for that."""
        if standing.elapsed_s < self._spoke_s:  # other simulations have begun
            self._spoke_s = 0.0
        if standing.is_over or standing.elapsed_s < max(LINE_AFTER_S, self._spoke_s + LINE_EVERY_S):
            return
        self._spoke_s = standing.elapsed_s
        print("; ".join(parts(standing)), file=sys.stderr, flush=True)


def share(standing: Standing) -> float:
    """How much of the work is done, from 0 to 1: by events where their number is expected, else by simulations."""
    done = standing.done / standing.total if standing.total else 1.0
    if standing.expected_events:
        # The estimate may be too low: what is not done is not shown as done.
        done = max(done, min(standing.events / standing.expected_events, 0.99))
    return min(done, 1.0)


def is_late(standing: Standing) -> bool:
    """Whether there have been more events than were expected of all simulations, so that what is left is not known."""
    expected = standing.expected_events
    return expected is not None and 0 < expected < standing.events


def left_s(standing: Standing) -> float | None:
    """About how many seconds are left, if what has passed says anything about that."""
    done = share(standing)
    if is_late(standing) or not 0 < done < 1:
        return None
    return standing.elapsed_s * (1 - done) / done


def bar(standing: Standing) -> str:
    """The bar."""
    filled = round(BAR * share(standing))
    return f"[{'#' * filled}{'.' * (BAR - filled)}]"


def parts(standing: Standing) -> list[str]:
    """What there is to say, what matters most first."""
    found = [f"{standing.done}/{standing.total} done", f"{standing.elapsed_s:.0f} s"]
    left = left_s(standing)
    if left is not None:
        found.append(f"about {_long(left)} left")
    elif is_late(standing) and not standing.is_over:
        found.append("longer than expected")
    if len(standing.underway) == 1:
        found.append(f"simulated {duration(standing.underway[0].simulated_time_s)}")
    if standing.events and standing.elapsed_s > 0:
        found.append(f"{_count(standing.events / standing.elapsed_s)} events/s")
    if standing.waiting:
        more = len(standing.waiting) - NAMED
        found.append(f"to come: {', '.join(standing.waiting[:NAMED])}{f' and {more} more' if more > 0 else ''}")
    return found


def fitted(pieces: list[str], width: int) -> str:
    """As many of the pieces as fit into a line, in their order; none of them is cut."""
    text = ""
    for piece in pieces:
        longer = f"{text}; {piece}" if text and not text.endswith("]") else f"{text} {piece}".lstrip()
        if cells(longer) <= width:
            text = longer
    return text


def _count(value: float) -> str:
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.1f} {prefix}"
    return f"{value:.0f}"


def _long(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
