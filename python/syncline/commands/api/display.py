"""How results look in a notebook: small tables of HTML, with units, and with all text of users escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from syncline.base.text_units import bandwidth, duration, percent, size
from syncline.report.escape import html_text

MEASURES: Final[Sequence[tuple[str, str, Callable[[Any], str]]]] = (
    ("iteration", "iteration_time_s", duration),
    ("exposed %", "exposed_comm_share", percent),
    ("time", "time_s", duration),
    ("bus bandwidth", "bus_bandwidth_bytes_per_s", bandwidth),
    ("efficiency", "efficiency", percent),
    ("sent per NPU", "bytes_sent_per_npu", size),
    ("bandwidth", "achieved_bandwidth_bytes_per_s", bandwidth),
    ("ACE area", "area_um2", lambda value: f"{value / 1e6:.3f} mm2"),
    ("ACE power", "power_w", lambda value: f"{value:.3f} W"),
)
"""What the table of a sweep says of a simulation, in a terminal and in a notebook: heading, column and how its values
are written.
"""
UNITS: Final[Sequence[tuple[str, Callable[[Any], str]]]] = (
    ("_bytes_per_s", bandwidth),
    ("_bytes", size),
    ("_share", percent),
    ("efficiency", percent),
    ("_s", duration),
)
"""How values are written whose names end so."""


def cell(name: str, value: object) -> str:
    """A value of a document, in the unit that its name says."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        written = next((written for ending, written in UNITS if name.endswith(ending)), None)
        return written(value) if written is not None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return str(value)


def heading(name: str) -> str:
    """The name of a value without its unit, for people."""
    ending = next((ending for ending, _ in UNITS if name.endswith(ending) and ending.startswith("_")), "")
    return name.removesuffix(ending if ending != "_share" else "").replace("_", " ")


def rows(
    caption: str,
    entries: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    most: int,
    more: str,
    measures: Sequence[tuple[str, str, Callable[[Any], str]]] = (),
) -> str:
    """The first of the rows of a document, those columns of them that have any value; `more` says where others are.
    Columns of `measures` have their headings and are written as these say, the others as their names say.
    """
    known = {name: (heading, written) for heading, name, written in measures}

    def written(name: str, value: object) -> str:
        return known[name][1](value) if name in known and value is not None else cell(name, value)

    cells = [[written(name, entry.get(name)) for name in names] for entry in entries[:most]]
    used = [at for at in range(len(names)) if at == 0 or any(row[at] != "-" for row in cells)]
    headings = [known[names[at]][0] if names[at] in known else heading(names[at]) for at in used]
    text = table(caption, headings, [[row[at] for at in used] for row in cells])
    left = len(entries) - most
    return text + paragraphs([f"{left:,} further rows: {more}"] if left > 0 else [])


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its first column names what each row is about, the others are numbers."""
    head = "".join(f'<th scope="col">{html_text(heading)}</th>' for heading in headings)
    body = ""
    for first, *others in rows:
        cells = "".join(f'<td style="text-align: right">{html_text(cell)}</td>' for cell in others)
        body += f'<tr><th scope="row" style="text-align: left">{html_text(first)}</th>{cells}</tr>'
    return (
        f'<table><caption style="text-align: left">{html_text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def paragraphs(texts: Iterable[str]) -> str:
    """Sentences below a table."""
    return "".join(f"<p>{html_text(text)}</p>" for text in texts)


def counted(number: int, what: str) -> str:
    """A number of things: `1 warning`, `2 warnings`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
