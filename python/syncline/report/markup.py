"""Small pieces of HTML: tables, tabs, notes. Everything passed in as text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from syncline.report.charts import Figure
from syncline.report.escape import html_text

Charts = dict[str, Figure]
"""Charts of a page by the id of their element."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    unit: str = ""
    numeric: bool = True
    hint: str = ""
    width: int = 0
    """Least width in per cent, so that bars of several columns compare; 0: as needed."""


@dataclass(frozen=True)
class Cell:
    """A cell that carries a mark: `bar` is a length and `heat` a shade, both from 0 to 1."""

    text: str
    bar: float | None = None
    heat: float | None = None
    below: str = ""
    hint: str = ""
    """What a pointer is told, such as the whole of a text that is cut."""


Row = Sequence[str | Cell]

LONG = 28
"""Characters of a text that may wrap within its words; shorter ones keep to one line."""
WIDE = 10
"""Columns of a table that may grow no wider on paper."""
TALL = 18
"""Rows of a table that scrolls."""


def _cell(value: str | Cell, column: Column) -> str:
    kind = ' class="n"' if column.numeric else ""
    if isinstance(value, str):
        if len(value) > LONG:
            kind = ' class="long"'
        return f"<td{kind}>{html_text(value)}</td>"
    inner = html_text(value.text)
    if value.below:
        inner += f"<small>{html_text(value.below)}</small>"
    if value.bar is not None and value.bar >= 0.005:
        inner = f'<span class="bar" style="--w:{value.bar:.3f}"></span>{inner}'
        kind = ' class="n has-bar"'
    style = f' title="{html_text(value.hint)}"' if value.hint else ""
    if not column.numeric and (len(value.text) > LONG or value.below):
        kind = ' class="long above"' if value.below else ' class="long"'
    if value.heat is not None:
        kind = ' class="n heat"'
        style += f' style="--v:{value.heat:.3f}"'
    return f"<td{kind}{style}>{inner}</td>"


def _heading(c: Column) -> str:
    unit = f' <span class="unit">{html_text(c.unit)}</span>' if c.unit else ""
    hint = f' title="{html_text(c.hint)}"' if c.hint else ""
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", html_text(c.title))
    kinds = (["n"] if c.numeric else []) + (["long"] if len(c.title) > LONG else [])
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    width = f' style="width:{c.width}%"' if c.width else ""
    return f'<th scope="col"{kind}{width}><button type="button"{hint}>{title}{unit}</button></th>'


def _row(row: Row, columns: Sequence[Column]) -> str:
    return "<tr>" + "".join(_cell(v, c) for v, c in zip(row, columns, strict=True)) + "</tr>"


def table(name: str, columns: Sequence[Column], rows: Sequence[Row], foot: Row | None = None) -> str:
    """A table that scrolls in its own box; a click on a heading sorts it."""
    box = "scroll tall" if len(rows) > TALL else "scroll"
    kind = "sortable wide" if len(columns) > WIDE else "sortable"
    head = "".join(_heading(c) for c in columns)
    body = "\n".join(_row(row, columns) for row in rows)
    end = f"<tfoot>{_row(foot, columns)}</tfoot>" if foot is not None else ""
    return (
        f'<div class="{box}" tabindex="0"><table class="{kind}" data-table="{html_text(name)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{end}</table></div>"
    )


def note(text: str) -> str:
    """What stands in the place of a chart or table that has nothing to show."""
    return f'<p class="note">{html_text(text)}</p>'


def hint(text: str) -> str:
    """How to read what follows."""
    return f'<p class="hint">{html_text(text)}</p>'


def reproduce(command: str) -> str:
    """The command that makes the page's results again, to be copied."""
    code = f"<pre><code>{html_text(command)}</code></pre>"
    return f'<h3>Reproduce</h3><div class="command">{code}<button type="button" class="copy">Copy</button></div>'


def chart(charts: Charts, name: str, figure: Figure | None, empty: str, label: str) -> str:
    """The place of a chart, registered for the script; a note if there is nothing to draw."""
    if figure is None:
        return note(empty)
    charts[name] = figure
    height = int(figure["layout"]["height"])
    return (
        f'<div class="chart" id="{html_text(name)}" role="img" aria-label="{html_text(label)}" '
        f'style="min-height:{height}px"></div>'
    )


def tabs(name: str, labels: Sequence[tuple[int, str]], chosen: int, panel: Callable[[int], str]) -> str:
    """One panel per variant with buttons to choose; all sections follow one choice."""
    if not any(i == chosen for i, _ in labels):
        chosen = labels[0][0]
    buttons = "".join(
        f'<button type="button" data-variant="{i}" aria-pressed="{str(i == chosen).lower()}">'
        f"{html_text(label)}</button>"
        for i, label in labels
    )
    panels = "".join(
        f'<div class="panel{" on" if i == chosen else ""}" data-variant="{i}">'
        f'<p class="panel-name">{html_text(label)}</p>{panel(i)}</div>'
        for i, label in labels
    )
    bar = f'<div class="tabs" role="group" aria-label="Variant">{buttons}</div>' if len(labels) > 1 else ""
    return f'<div class="tabbed" data-tabs="{html_text(name)}">{bar}{panels}</div>'


def choice(names: str, what: str, options: Sequence[tuple[str, str]]) -> str:
    """Buttons that choose which traces charts show, the first at first; nothing where there is nothing to choose.

    `names` are the ids of the charts, with spaces between them, and an option is that of a trace (`meta.option`) with
    its label.
    """
    if len(options) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" data-option="{html_text(option)}" '
        f'aria-pressed="{str(i == 0).lower()}">{html_text(label)}</button>'
        for i, (option, label) in enumerate(options)
    )
    charts = html_text(names)
    return f'<div class="tabs" role="group" data-charts="{charts}"><span>{html_text(what)}:</span>{buttons}</div>'


def section(name: str, title: str, body: str) -> str:
    """A section with an anchor."""
    return f'<section id="{html_text(name)}"><h2>{html_text(title)}</h2>{body}</section>'
