"""The figure of all allocations: how speed-ups are distributed, and a bar for each distinct one.

As Blink's Figs. 14 and 15: trees over rings in theory by the number of GPUs, and the rates of both side by side, which
are simulated ones where the table has any.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.report.figures.draw import COLOURS, PUBLISHED, SMALL, STYLE, WIDEST
from syncline.studies.trees import sweep_table
from syncline.studies.trees.sweep_table import Row, Spread, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS: Final = 180
"""Allocations that have bars; of more, those with the first numbers."""
PER_ROW: Final = 60
"""Allocations of a row of bars, whose names can be read."""
HEIGHT: Final = 2.6
"""Inches of a panel, without the names below it."""
LETTER: Final = 0.062
"""Inches of a letter of a name that stands upright."""
GAP: Final = 1.0
"""Between bars of different numbers of GPUs, in allocations."""


def svg(table: Table) -> bytes:
    """The figure as SVG, the same bytes for the same numbers. The table has a row that is done."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        out = io.BytesIO()
        _figure(table).savefig(out, format="svg", metadata={"Date": None, "Creator": "Syncline"})
    return out.getvalue()


def title(table: Table) -> str:
    """What the figure shows."""
    return f"{table.about['collective']} on allocations of {table.about['machine']}"


def shown(table: Table) -> list[Row]:
    """The rows that have bars: GPUs that are not apart, by their number."""
    rows = [row for row in table.rows if row["status"] == "done" and row["trees_rate_links"]]
    return sorted(rows, key=lambda row: row["gpu_count"])[:MOST_BARS]


def _figure(table: Table) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = shown(table)
    spreads = [
        (what, column)
        for what, column in (("in theory", "theoretical_speedup"), ("simulated", "speedup"))
        if sweep_table.spreads(table.rows, column)
    ]
    lines = [rows[start : start + PER_ROW] for start in range(0, len(rows), PER_ROW)]
    names = LETTER * max((len(row["gpus"]) for row in rows), default=0)
    heights = [*([HEIGHT] if spreads else []), *(HEIGHT + names for _ in lines)]
    if not heights:
        heights = [HEIGHT]
    figure = Figure(figsize=(WIDEST, sum(heights) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title(table), fontsize=10)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    if spreads:
        parts = grid[0].subgridspec(1, len(spreads))
        for place, (what, column) in enumerate(spreads):
            _spread(figure.add_subplot(parts[place]), table, column, what)
    for number, line in enumerate(lines):
        axes = figure.add_subplot(grid[number + bool(spreads)])
        _bars(axes, table, line, first=number == 0)
        axes.set_ylim(0, 1.07 * _most(table, rows))  # rows of bars are of one height
    if lines:
        alike = "GPUs: the first of the allocations whose links are alike"
        axes.set_xlabel("GPUs" if table.about.get("every") else alike)
    if not spreads and not lines:
        axes = figure.add_subplot(grid[0])
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no allocation is connected by the links that trees may use", ha="center")
    return figure


def _spread(axes: Axes, table: Table, column: str, what: str) -> None:
    """Boxes with the quarters of all allocations, from the least to the most, and a point for each distinct one."""
    found = sweep_table.spreads(table.rows, column)
    axes.bxp(
        [_box(spread) for spread in found],
        positions=[spread.gpu_count for spread in found],
        widths=0.5,
        showfliers=False,
        medianprops={"color": COLOURS[1], "linewidth": 1.6},
        boxprops={"color": COLOURS[6]},
        whiskerprops={"color": COLOURS[6]},
        capprops={"color": COLOURS[6]},
    )
    rows = [row for row in table.rows if row.get(column) is not None]
    most = max(row["allocations"] for row in rows)
    axes.scatter(
        [row["gpu_count"] for row in rows],
        [row[column] for row in rows],
        # An area in proportion to the allocations, but for rare ones, which would not be seen.
        s=[4 + 36 * row["allocations"] / most for row in rows],
        color=COLOURS[0],
        alpha=0.55,
        linewidths=0,
        zorder=3,
    )
    axes.axhline(1.0, color=PUBLISHED, linewidth=0.8, linestyle="--")
    axes.set_xticks([spread.gpu_count for spread in found], [str(spread.gpu_count) for spread in found])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of GPUs")
    axes.set_ylabel("trees over rings")
    axes.set_title(f"Speed-up, {what}: all allocations, and the median")


def _box(spread: Spread) -> dict[str, Any]:
    return {
        "med": spread.median,
        "q1": spread.lower,
        "q3": spread.upper,
        "whislo": spread.least,
        "whishi": spread.most,
        "fliers": [],
    }


def _bars(axes: Axes, table: Table, rows: Sequence[Row], *, first: bool) -> None:
    """Bars of trees and rings for each row, those of one number of GPUs together."""
    series = _series(table)
    width = 0.8 / len(series)
    places: list[float] = []
    at, before = 0.0, None
    for row in rows:
        if before is not None and row["gpu_count"] != before:
            at += GAP
        places.append(at)
        before, at = row["gpu_count"], at + 1
    for number, (label, column, scale) in enumerate(series):
        values = [row.get(column) for row in rows]
        heights = [0.0 if value is None else value / scale for value in values]
        shifted = [place - 0.4 + width * (number + 0.5) for place in places]
        axes.bar(shifted, heights, width * 0.92, color=COLOURS[number], label=label)
    bounds = [row["bound_rate_links"] * _scale(table, row) for row in rows]
    axes.hlines(
        bounds,
        [place - 0.45 for place in places],
        [place + 0.45 for place in places],
        color=PUBLISHED,
        linewidth=0.9,
        label="bound",
    )
    axes.set_xticks(places, [row["gpus"] for row in rows], rotation=90, fontsize=SMALL)
    axes.set_xlim(-1, max(places[-1] + 1, 7))  # few bars are no wider than many
    axes.set_ylabel("algorithm bandwidth [GB/s]" if table.compared else "rate [links]")
    if first:
        of = "simulated" if table.compared else "in theory"
        axes.set_title(f"Trees and rings, {of}")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _most(table: Table, rows: Sequence[Row]) -> float:
    """The highest bar or bound."""
    bars = [(row.get(column) or 0.0) / scale for row in rows for _, column, scale in _series(table)]
    return float(max([*bars, *(row["bound_rate_links"] * _scale(table, row) for row in rows)]))


def _series(table: Table) -> list[tuple[str, str, float]]:
    """What bars show: label, column, and what its values are divided by."""
    if not table.compared:
        return [("packed trees", "trees_rate_links", 1.0), ("rings", "rings_rate_links", 1.0)]
    names = (("packed trees", "trees"), ("rings", "rings"), ("double binary trees", "double_binary_trees"))
    return [
        (label, f"{name}_algorithm_bandwidth_bytes_per_s", 1e9)
        for label, name in names
        if any(row.get(f"{name}_time_s") is not None for row in table.rows)
    ]


def _scale(table: Table, row: Row) -> float:
    """Of a link, in the unit of the bars."""
    scale = row["link_unit_bytes_per_s"] / 1e9 if table.compared else 1.0
    return scale if math.isfinite(scale) else 1.0
