"""The page of a sweep: what is best, what it costs, maps of two axes, and every row.

Where rows have an area, performance is set against it: for each setting of the axes that do not belong to the engine,
the engines that no other beats in both are the ones to choose from (the Pareto front).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncline.base.quantities import SIZE
from syncline.report.charts import Figure
from syncline.report.escape import chart_text, short
from syncline.report.markup import Cell, Charts, Column, chart, hint, note, section, table
from syncline.report.page import Around, whole
from syncline.results.units import MISSING, Scale, number, percent, rate_scale, significant, time, time_scale
from syncline.studies import columns as declared

Row = Mapping[str, Any]

ALIKE = 0.05
"""The largest difference of numbers over their middle of which a map says that it is small."""
MOST_MAPS = 12
"""Maps on a page; further settings are in the table."""
COLOURS = ("@compute", "@exposed", "@ace", "@links", "@other", "@overlap")
"""Those of the settings in a chart of area and performance, which shows no more of them."""
MM2 = 1e6
TITLES = (("headline", "Headline"), ("area", "Area"), ("maps", "Maps"), ("rows", "Rows"))


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rows of a sweep and the columns that it varies."""

    rows: Sequence[Row]
    axes: Sequence[str]

    @property
    def done(self) -> list[Row]:
        """Rows that have a time."""
        return [row for row in self.rows if seconds(row) is not None]

    @property
    def varied(self) -> list[str]:
        """Everything by which rows are told apart: bases, variants and axes with more than one value."""
        return [c for c in ("base", "variant", *self.axes) if len({row.get(c) for row in self.rows}) > 1]


def build(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The page of a table of `sweep`: its rows, and its metadata."""
    sweep = Sweep(rows, [str(axis) for axis in about.get("axes", [])])
    figures: Charts = {}
    body = "\n".join(
        part for part in (_headline(sweep), _area(sweep, figures), _maps(sweep, figures), _table(sweep)) if part
    )
    failed = len(rows) - sum(row.get("status") == "done" for row in rows)
    banners = f'<p class="banner"><a href="#rows">{failed} of {len(rows)}</a> have no result.</p>\n' if failed else ""
    facts = [f"{len(rows)} simulations", f"{len(sweep.axes)} axes"]
    name, version = str(about.get("name") or "Sweep"), str(about.get("version") or "")
    return whole(Around(name, facts, version, banners, TITLES, "sweep"), body, figures)


def seconds(row: Row) -> float | None:
    """The time that a row is compared by."""
    return next((value for name in declared.TIMES if (value := number(row.get(name))) is not None), None)


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """The points that no other beats, by cost (less is better) and performance (more is better); cheapest first.

    Of equal points all are kept.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1], i))
    front: list[int] = []
    for i in order:
        if not front or points[i][1] > points[front[-1]][1] or points[i] == points[front[-1]]:
            front.append(i)
    return front


def setting(row: Row, columns: Sequence[str]) -> str:
    """The values of some columns in words."""
    return ", ".join(f"{called(c)} {value_text(c, row.get(c))}" for c in columns) or "all"


def called(column: str) -> str:
    """A column in a heading: the path of a field without its unit."""
    return column.removesuffix("_bytes_per_s").removesuffix("_bytes")


def value_text(column: str, value: Any) -> str:
    """A value of an axis; sizes as they are written in files."""
    if value is None:
        return MISSING
    if column.endswith("_bytes") and isinstance(value, int):
        return SIZE.format(value)
    if column.endswith("_bytes_per_s") and isinstance(value, int):
        return rate_scale([value]).label(value)
    return short(value, 48)


def groups(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """Rows by the values of some columns, in their order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(c) for c in columns), []).append(row)
    return [(setting(members[0], columns), members) for members in found.values()]


def _headline(sweep: Sweep) -> str:
    if not sweep.done:
        return section("headline", "Headline", note("No simulation of this sweep has a result."))
    best = min(sweep.done, key=lambda row: seconds(row) or 0.0)
    worst = max(sweep.done, key=lambda row: seconds(row) or 0.0)
    text = f"Fastest with {time(seconds(best))}: {setting(best, sweep.varied)}. "
    text += f"Slowest with {time(seconds(worst))}: {setting(worst, sweep.varied)}."
    return section("headline", "Headline", hint(text))


def _area(sweep: Sweep, figures: Charts) -> str:
    rows = [row for row in sweep.done if number(row.get("area_um2")) is not None and seconds(row)]
    if len({row["area_um2"] for row in rows}) < 2:
        return ""
    outside = [c for c in sweep.varied if "endpoint" not in c.split(".") and c != "variant"]
    contexts = groups(rows, outside)
    figure = fronts(contexts[: len(COLOURS)], [c for c in sweep.varied if c not in outside])
    body = hint(
        "Performance is relative to the best of the same setting. A line joins the engines that no other beats in both "
        "area and performance."
    )
    shares = [best / time for _, of in contexts if (best := min(map(_time, of))) for time in map(_time, of) if time]
    if shares and 1 - min(shares) < ALIKE:
        body += hint(f"Differences are small: no engine is more than {100 * (1 - min(shares)):.2g} % behind the best.")
    body += chart(figures, "chart-area", figure, "", "Performance against the area of the engine")
    if len(contexts) > len(COLOURS):
        body += note(f"The first {len(COLOURS)} of {len(contexts)} settings; the table has all of them.")
    return section("area", "Performance and area", body)


def _time(row: Row) -> float:
    return seconds(row) or 0.0


def fronts(contexts: Sequence[tuple[str, list[Row]]], inside: Sequence[str]) -> Figure:
    """Area against relative performance: all points, and a line through the best of each setting."""
    traces: list[dict[str, Any]] = []
    for k, (name, rows) in enumerate(contexts):
        best = min(seconds(row) or 0.0 for row in rows)
        points = [(float(row["area_um2"]) / MM2, 100 * best / (seconds(row) or best)) for row in rows]
        front = pareto(points)
        for kind, chosen in (("markers", list(range(len(points)))), ("lines+markers", front)):
            is_front = kind != "markers"
            traces.append(
                {
                    "type": "scatter",
                    "mode": kind,
                    "name": chart_text(short(name, 60)),
                    "legendgroup": str(k),
                    "showlegend": is_front,
                    "x": [significant(points[i][0], 6) for i in chosen],
                    "y": [significant(points[i][1], 5) for i in chosen],
                    "customdata": [[chart_text(setting(rows[i], inside)), time(seconds(rows[i]))] for i in chosen],
                    "hovertemplate": "%{customdata[0]}<br>%{x:.3f} mm\u00b2, %{customdata[1]}, "
                    "%{y:.1f} % of the best<extra></extra>",
                    "opacity": 1 if is_front else 0.45,
                    "marker": {"color": COLOURS[k], "size": 9 if is_front else 6},
                    "line": {"color": COLOURS[k], "shape": "hv", "width": 2},
                }
            )
    return {
        "data": traces,
        "layout": {
            "height": 420,
            "margin": {"l": 10, "r": 12, "t": 64, "b": 48},
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "showlegend": True,
            "xaxis": {"title": {"text": "area of the engine of one NPU (mm\u00b2)"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "performance (% of the best)"}},
        },
    }


def _maps(sweep: Sweep, figures: Charts) -> str:
    """A map of the first two axes of numbers for each setting of the others."""
    numeric = [c for c in sweep.varied if all(number(row.get(c)) is not None for row in sweep.rows)]
    if len(numeric) < 2 or not sweep.done:
        return ""
    down, along = numeric[:2]
    others = [c for c in sweep.varied if c not in (down, along)]
    contexts = groups(sweep.done, others)
    body = hint(
        "Times; the stronger the colour, the slower, each map on its own scale. Where times differ by less than "
        f"{100 * ALIKE:g} %, the scale spans so much around their middle, and says it."
    )
    for k, (name, rows) in enumerate(contexts[:MOST_MAPS]):
        label = f"Times by {called(down)} and {called(along)}: {name}"
        body += hint(name) + chart(figures, f"chart-map-{k}", heat(rows, down, along), "", label)
    if len(contexts) > MOST_MAPS:
        body += note(f"The first {MOST_MAPS} of {len(contexts)} settings; the table has all of them.")
    return section("maps", "Two axes at a time", body)


def heat(rows: Sequence[Row], down: str, along: str) -> Figure:
    """The time of each pair of values."""
    times = {(row[down], row[along]): seconds(row) for row in rows}
    ys, xs = sorted({y for y, _ in times}), sorted({x for _, x in times})
    scale = time_scale(times.values())
    cells = [[times.get((y, x)) for x in xs] for y in ys]
    low, high, remark = scale_of([scale.of(cell) for line in cells for cell in line])
    return {
        "data": [
            {
                "type": "heatmap",
                "z": [[scale.of(cell) for cell in line] for line in cells],
                "x": list(range(len(xs))),
                "y": list(range(len(ys))),
                "text": [[scale.text(cell) for cell in line] for line in cells],
                "texttemplate": "%{text}",
                "colorscale": "@heat",
                "zmin": low,
                "zmax": high,
                "xgap": 1,
                "ygap": 1,
                "colorbar": {
                    "title": {"text": f"{scale.unit} ({remark})" if remark else scale.unit, "side": "right"},
                    "thickness": 12,
                    "outlinewidth": 0,
                },
                "hovertemplate": f"%{{z}} {scale.unit}<extra></extra>",
            }
        ],
        "layout": {
            "height": 110 + 34 * len(ys),
            "margin": {"l": 10, "r": 12, "t": 12, "b": 48},
            "xaxis": _ticks(along, xs),
            "yaxis": _ticks(down, ys),
        },
    }


def scale_of(values: Iterable[float | None]) -> tuple[float, float, str]:
    """The ends of a scale of colours for numbers, and what is to be said of it: that they hardly differ, where that is
    so. Such numbers are in the middle of the scale.
    """
    known = [value for value in values if value is not None]
    if not known:
        return 0.0, 1.0, ""
    low, high = min(known), max(known)
    middle = (low + high) / 2
    if high > low and high - low >= ALIKE * abs(middle):
        return low, high, ""
    share = 100 * (high - low) / abs(middle) if middle else 0.0
    half = ALIKE / 2 * abs(middle) or 1.0
    said = f"small differences: {share:.2g} % in all" if share else "all equal"
    return middle - half, middle + half, said


def _ticks(column: str, values: Sequence[Any]) -> dict[str, Any]:
    """An axis with one place for each value."""
    return {
        "title": {"text": chart_text(called(column))},
        "tickmode": "array",
        "tickvals": list(range(len(values))),
        "ticktext": [chart_text(value_text(column, value)) for value in values],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _table(sweep: Sweep) -> str:
    times = time_scale(seconds(row) for row in sweep.rows)
    rates = rate_scale(number(row.get("achieved_bandwidth_bytes_per_s")) for row in sweep.rows)
    has_area = any(row.get("area_um2") is not None for row in sweep.rows)
    columns = [Column(called(c), numeric=_is_numeric(sweep, c)) for c in sweep.varied]
    known = (name for name in declared.TIMES if any(number(row.get(name)) is not None for row in sweep.rows))
    timed = next(known, declared.TIMES[0])
    columns += [_declared("time", timed, times.unit), _declared("exposed", "exposed_comm_share", "%")]
    columns += [_declared("bandwidth", "achieved_bandwidth_bytes_per_s", rates.unit)]
    columns += [_declared("area", "area_um2", "mm\u00b2"), _declared("power", "power_w", "W")] if has_area else []
    columns += [Column("status", numeric=False, hint=declared.meaning("status"))]
    rows = [_cells(row, sweep, (times, rates), has_area=has_area) for row in sweep.rows]
    return section("rows", "Rows", table("rows", columns, rows) if rows else note("There are no rows."))


def _declared(title: str, name: str, unit: str) -> Column:
    """The heading for a column of the sweep's table, shown in `unit`."""
    return Column(title, unit, hint=declared.meaning(name))


def _cells(row: Row, sweep: Sweep, scales: tuple[Scale, Scale], *, has_area: bool) -> list[str | Cell]:
    times, rates = scales
    area, power = number(row.get("area_um2")), number(row.get("power_w"))
    cost = [MISSING if area is None else f"{area / MM2:.3f}", MISSING if power is None else f"{power:.3f}"]
    return [
        *(value_text(c, row.get(c)) for c in sweep.varied),
        times.text(seconds(row)),
        percent(number(row.get("exposed_comm_share"))).removesuffix(" %"),
        rates.text(number(row.get("achieved_bandwidth_bytes_per_s"))),
        *(cost if has_area else []),
        f"{row.get('status')}: {row.get('error')}" if row.get("error") else str(row.get("status")),
    ]


def _is_numeric(sweep: Sweep, column: str) -> bool:
    return all(row.get(column) is None or number(row.get(column)) is not None for row in sweep.rows)
