"""The page of `syncline diff`: waterfalls between two runs, drawn as SVG, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from syncline.report.escape import html_text, short
from syncline.report.markup import Column, Row, hint, note, section, table
from syncline.report.page import Around, whole
from syncline.results.units import PS_PER_S, Scale, percent, ratio, time, time_scale
from syncline.studies.reasons import said

ROW: Final = 26.0
NAMES: Final = 340.0
"""Width of the names to the left of the bars."""
BARS: Final = 500.0
VALUES: Final = 120.0
"""Width of the numbers to the right of the bars."""
MOST_STEPS: Final = 24
"""Steps of a drawing; the smallest others are one."""
_STYLE: Final = """<style>
.waterfall text { font: 13px var(--sans); }
.waterfall .longer { fill: var(--exposed); }
.waterfall .shorter { fill: var(--compute); }
.waterfall .whole { fill: var(--other); }
.waterfall line { stroke: var(--line-strong); }
.waterfall .value { text-anchor: start; }
</style>"""


def build(document: Mapping[str, Any]) -> str:
    """The page for the document of `diff`."""
    names = [str(document[side]["name"]) for side in ("a", "b")]
    body = _STYLE
    titles = []
    for number, pair in enumerate(document["pairs"]):
        anchor = f"pair-{number}"
        titles.append((anchor, html_text(short(str(pair["system_a"]), 30))))
        body += section(anchor, _title(pair), _sentence(pair) + _drawn(pair) + _table(anchor, pair))
    missing = "".join(
        note(f"Only in {document[side]['source']}: {', '.join(document['unmatched'][side])}.")
        for side in ("a", "b")
        if document["unmatched"][side]
    )
    sources = [f"{side.upper()}: {document[side]['source']}" for side in ("a", "b")]
    title = names[0] if names[0] == names[1] else f"{names[0]} and {names[1]}"
    return whole(Around(title, sources, str(document.get("version") or ""), missing, titles, "diff"), body, {})


def _title(pair: Mapping[str, Any]) -> str:
    a, b = str(pair["system_a"]), str(pair["system_b"])
    return a if a == b else f"{a} to {b}"


def _sentence(pair: Mapping[str, Any]) -> str:
    first, second = (pair[f"{side}_ps"] / PS_PER_S for side in ("a", "b"))
    if first == second:
        text = f"Both take {time(first)}."
    else:
        longer = "longer" if second > first else "less"
        by = percent(ratio(abs(second - first), first))
        text = f"From {time(first)} to {time(second)}: {time(abs(second - first))} ({by}) {longer}."
    return f'<p class="headline">{html_text(text)}</p>'


def _steps(pair: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The steps of a drawing: those that change something, the smallest of many as one."""
    found = [(said.part(step), int(step["delta_ps"])) for step in pair["steps"] if step["delta_ps"]]
    if len(found) <= MOST_STEPS:
        return found
    large = sorted(found, key=lambda step: -abs(step[1]))[: MOST_STEPS - 1]
    rest = [step for step in found if step not in large]
    kept = [step for step in found if step in large]
    return [*kept, (f"{len(rest)} smaller steps", sum(delta for _, delta in rest))]


def _drawn(pair: Mapping[str, Any]) -> str:
    """Bars from the time of A to that of B, each where the one before has ended."""
    first, second = int(pair["a_ps"]), int(pair["b_ps"])
    steps = _steps(pair)
    levels = [first]
    for _, delta in steps:
        levels.append(levels[-1] + delta)
    largest = max(*levels, second, 1)
    scale = time_scale([largest / PS_PER_S])

    def x(level: float) -> float:
        return NAMES + BARS * level / largest

    rows = [_bar(0, "A", (x(0), x(first)), "whole", scale.label(first / PS_PER_S))]
    for number, (name, delta) in enumerate(steps, start=1):
        low, high = sorted((levels[number - 1], levels[number]))
        rows.append(_joint(number, x(levels[number - 1])))
        kind = "longer" if delta > 0 else "shorter"
        rows.append(_bar(number, short(name, 50), (x(low), x(high)), kind, _signed(scale, delta)))
    last = len(steps) + 1
    rows.append(_joint(last, x(levels[-1])))
    rows.append(_bar(last, "B", (x(0), x(second)), "whole", scale.label(second / PS_PER_S)))
    width, height = NAMES + BARS + VALUES, ROW * (last + 1)
    label = html_text(f"Waterfall from {pair['system_a']} of A to {pair['system_b']} of B")
    return (
        f'<div class="figure waterfall"><svg role="img" aria-label="{label}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width:{width:.0f}px;min-width:560px">{"".join(rows)}</svg></div>'
    )


def _bar(row: int, name: str, ends: tuple[float, float], kind: str, value: str) -> str:
    top, left = ROW * row, ends[0]
    width = max(1.0, ends[1] - left)
    return (
        f'<text x="{NAMES - 10:.0f}" y="{top + 18:.0f}" text-anchor="end">{html_text(name)}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{top + 4:.0f}" width="{width:.1f}" height="{ROW - 8:.0f}"/>'
        f'<text class="value" x="{left + width + 6:.1f}" y="{top + 18:.0f}">{html_text(value)}</text>'
    )


def _joint(row: int, at: float) -> str:
    top = ROW * row
    return f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top - 4:.0f}" y2="{top + 4:.0f}"/>'


def _signed(scale: Scale, picoseconds: int) -> str:
    text = scale.label(abs(picoseconds) / PS_PER_S)
    sign = "+" if picoseconds > 0 else "\N{MINUS SIGN}" if picoseconds else ""
    return text.replace("<", f"<{sign}") if text.startswith("<") else sign + text


def _table(name: str, pair: Mapping[str, Any]) -> str:
    steps: Sequence[Mapping[str, Any]] = pair["steps"]
    scale = time_scale(pair[f"{side}_ps"] / PS_PER_S for side in ("a", "b"))
    columns = [
        Column("part of an iteration", numeric=False),
        *(Column(side, scale.unit) for side in ("A", "B")),
        Column("difference", scale.unit, hint="B less A; the differences add up to that of the last row"),
    ]

    def cells(name: str, entry: Mapping[str, Any]) -> Row:
        times = [scale.text(entry[f"{side}_ps"] / PS_PER_S) for side in ("a", "b")]
        return [name, *times, _signed(scale, entry["delta_ps"]).removesuffix(f" {scale.unit}")]

    how = hint("Parts of an iteration, or of a collective on its own; exposed communication by what it waited for.")
    return how + table(name, columns, [cells(said.part(step), step) for step in steps], cells("all", pair))
