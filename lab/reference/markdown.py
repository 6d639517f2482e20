"""Parts of pages in Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

GENERATED = "This page is made of what the code declares."


def cell(text: str) -> str:
    """A text as a cell of a table: one line, without the bars that divide cells."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def code(text: str) -> str:
    """A text as code, whatever it holds. Bars would divide cells, and are escaped in code in more than one way."""
    if "|" in text:
        return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; nothing, if it has no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if lines:
        yield f"| {' | '.join(headings)} |"
        yield f"|{'---|' * len(headings)}"
        yield from lines
        yield ""


def anchor(heading: str) -> str:
    """What a heading is linked to by, as Python-Markdown makes it."""
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def sentence(text: str) -> str:
    """A text with a capital at its beginning and a full stop at its end."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".:" else ".")
