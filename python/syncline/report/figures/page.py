"""A figure as one self-contained HTML page: drawing, numbers beside published ones, and what it rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from syncline import _version
from syncline.report.escape import html_text
from syncline.report.figures.draw import PUBLISHED
from syncline.report.markup import Column, hint, reproduce, section, table
from syncline.report.page import Around, whole
from syncline.studies.column_names import called
from syncline.studies.figures.file import Figure
from syncline.studies.figures.timeline import Track
from syncline.studies.figures.values import Shown, Value

TITLES = (("drawing", "Figure"), ("numbers", "Numbers"), ("facts", "What it rests on"))
PX_PER_PT = 4 / 3
LEAST_SCALE = 1.0
"""How far a drawing is shrunk into a narrow window before it scrolls: smaller letters cannot be read."""
MOST_SCALE = 1.5


def build(figure: Figure, panels: Sequence[Shown | Track], svg: bytes, notes: Sequence[str], command: str) -> str:
    """The page. `notes` are assumptions and warnings; `command` makes the figure again."""
    tables = "".join(_table(i, panel) for i, panel in enumerate(panels) if isinstance(panel, Shown))
    facts = "".join(f"<li>{html_text(note)}</li>" for note in notes)
    shown = (hint(figure.description) if figure.description else "") + drawing(figure.title, svg.decode())
    rests = f'{reproduce(command)}<ul class="assumptions">{facts}</ul>'
    contents = (shown, tables or hint("This figure has no numbers besides those of its curves."), rests)
    body = "\n".join(section(name, title, text) for (name, title), text in zip(TITLES, contents, strict=True))
    return whole(Around(figure.title, [figure.source], _version.version(), "", TITLES, "figure"), body, {})


def drawing(title: str, svg: str) -> str:
    """A drawing of matplotlib in the page's colours. Letters follow from the style; what is drawn names black and white
    itself.
    """
    found = re.search(r'<svg [^>]*?width="([0-9.]+)pt"', svg)
    assert found is not None, "matplotlib states the width of its drawings"
    width = PX_PER_PT * float(found[1])
    drawn = svg[found.start() :]
    for named, themed in (
        ("stroke: #000000", "stroke: var(--text)"),
        (f"stroke: {PUBLISHED}", "stroke: var(--text)"),
        ("fill: #ffffff", "fill: var(--surface)"),
    ):
        drawn = drawn.replace(named, themed)
    size = f"min-width:{LEAST_SCALE * width:.0f}px;max-width:{MOST_SCALE * width:.0f}px"
    label = html_text(title)
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" style="{size}" ', 1)
    return f'<div class="figure" tabindex="0">{drawn}</div>'


def _table(place: int, shown: Shown) -> str:
    """The values of a panel; published ones and what is between them, where there are any."""
    panel = shown.panel
    compared = any(v.published is not None for v in shown.values)
    several = panel.spread or len(panel.parts) > 1
    columns = [Column(called(panel.x), numeric=False)]
    if shown.values[0].series is not None:
        columns.append(Column(called(panel.series or "configuration"), numeric=False))
    if several:
        columns.append(Column("measure", numeric=False))
    columns.append(Column("value" if several else shown.measure, shown.y_scale.unit))
    if compared:
        columns += [Column("published", shown.y_scale.unit), Column("difference", "%")]
    rows = []
    for value in shown.values:
        row = [shown.x_text(value.x)]
        if shown.values[0].series is not None:
            row.append(shown.series_text(value.series))
        if several:
            row.append(called(value.part))
        row.append(f"{value.value:.4g}")
        if compared:
            row += _compared(value)
        rows.append(row)
    return f"<h3>{html_text(panel.title)}</h3>{table(f'panel{place}', columns, rows)}"


def _compared(value: Value) -> list[str]:
    if value.published is None:
        return ["", ""]
    difference = f"{100 * (value.value / value.published - 1):+.1f}" if value.published else ""
    return [f"{value.published:g}", difference]
