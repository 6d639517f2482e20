"""A figure as one self-contained HTML page: drawing, numbers beside published ones, and what it rests on."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence

import syncline
from syncline.figure.file import Figure
from syncline.figure.timeline import Track
from syncline.figure.values import Shown, Value, called
from syncline.report.escape import html_text
from syncline.report.markup import Column, hint, section, table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def build(figure: Figure, panels: Sequence[Shown | Track], svg: bytes, notes: Sequence[str], command: str) -> str:
    """The page. `notes` are assumptions and warnings; `command` makes the figure again."""
    drawing = svg.decode()
    drawing = drawing[drawing.index("<svg") :]
    tables = "".join(_table(i, panel) for i, panel in enumerate(panels) if isinstance(panel, Shown))
    facts = "".join(f"<li>{html_text(note)}</li>" for note in notes)
    body = [
        section("drawing", "Figure", f'<div class="figure">{drawing}</div>'),
        section("numbers", "Numbers", tables or hint("This figure has no numbers but those of its curves.")),
        section("facts", "What it rests on", f"<p>Made by <code>{html_text(command)}</code></p><ul>{facts}</ul>"),
    ]
    css = importlib.resources.files("syncline.report").joinpath("report.css").read_text(encoding="utf-8")
    newline = "\n"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Syncline {html_text(syncline.__version__)}">
<title>{html_text(figure.title)} \u2013 Syncline figure</title>
<link rel="icon" href="data:,">
<style>
{css}
.figure {{ background: #ffffff; padding: .5rem; overflow-x: auto; }}
.figure svg {{ width: 100%; height: auto; max-width: 70rem; }}
</style>
</head>
<body>
<header>
<p class="brand">Syncline figure</p>
<h1>{html_text(figure.title)}</h1>
<p class="subtitle">{html_text(figure.source)}</p>
</header>
<main>
<p class="hint">{html_text(figure.description)}</p>
{newline.join(body)}
</main>
</body>
</html>
"""


def _table(place: int, shown: Shown) -> str:
    """The values of a panel; published ones and what is between them, where there are any."""
    panel = shown.panel
    compared = any(v.published is not None for v in shown.values)
    several = len(panel.parts) > 1
    columns = [Column(called(panel.x), numeric=False)]
    if shown.values[0].series is not None:
        columns.append(Column(called(panel.series or "configuration"), numeric=False))
    if several:
        columns.append(Column("measure", numeric=False))
    columns.append(Column(called(panel.parts[0]) if not several else "value", shown.y_scale.unit))
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
