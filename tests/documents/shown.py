"""Whether what a command prints is what a page shows, and how a page is brought up to date.

`...` on a line of its own stands for any number of lines, `…` within a line for any text.
"""

from __future__ import annotations

import re
from typing import Final

ANY_LINES: Final = "..."
ANY_TEXT: Final = "…"


def lines_of(printed: str) -> list[str]:
    """What was printed, as a page shows it: without blanks at the ends of lines and empty lines around the whole."""
    lines = [line.rstrip() for line in printed.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether what is shown describes all that was printed."""
    pattern = "".join(map(_of_line, lines_of("\n".join(shown))))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _of_line(line: str) -> str:
    return r"(?:[^\n]*\n)*?" if line.strip() == ANY_LINES else f"{_of_text(line)}\n"


def _of_text(line: str) -> str:
    return r"[^\n]*".join(map(re.escape, line.split(ANY_TEXT)))


def updated(shown: list[str], printed: list[str]) -> list[str]:
    """The lines that a page should show. Lines with `…` stay where they still describe a line. Where lines were left
    out, as many are shown before the first `...` and behind the last one as there were.
    """
    old = lines_of("\n".join(shown))
    if not old or agrees(old, printed):
        return shown
    loose = [line for line in old if ANY_TEXT in line]
    new = [next((one for one in loose if re.fullmatch(_of_text(one), line)), line) for line in printed]
    if ANY_LINES not in (line.strip() for line in old):
        return new
    gaps = [at for at, line in enumerate(old) if line.strip() == ANY_LINES]
    head, tail = gaps[0], len(old) - 1 - gaps[-1]
    if head + tail >= len(new):
        return new
    return [*new[:head], ANY_LINES, *new[len(new) - tail :]]
