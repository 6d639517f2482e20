"""Charts of connections that are watched: window, threshold, rate and what is in flight, and round trips, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from syncline.report.charts import Figure, axis_name, layout_key, point_limit, stacked_panels
from syncline.report.escape import chart_text
from syncline.results.study import Study, Variant, seconds
from syncline.results.units import Scale, binary_scale, rate_scale, significant, time_scale

WATCHED: Final = "watched"
MOST_CONNECTIONS: Final = 24
"""Connections of a variant that its chart offers."""
SIZES: Final = {
    "cwnd_bytes": ("congestion window", "@links", "solid"),
    "ssthresh_bytes": ("slow-start threshold", "@exposed", "dash"),
    "flight_bytes": ("bytes in flight", "@muted", "dot"),
}
"""Columns of the table in bytes: what they are called, their colour and their dash."""
RATE: Final = "rate_bytes_per_s"
TRIP: Final = "rtt_ps"
PANEL_PX: Final = 150

Rows = list[dict[str, Any]]


def _connections(v: Variant) -> dict[str, Rows]:
    """The samples of each connection, by what it is called."""
    found: dict[str, Rows] = {}
    ends: dict[tuple[str, str], list[int]] = {}
    for row in v.rows(WATCHED):
        of = ends.setdefault((str(row["src"]), str(row["dst"])), [])
        if row["connection"] not in of:
            of.append(row["connection"])
        number = of.index(row["connection"])
        called = f"{row['src']} to {row['dst']}" + (f" (connection {number + 1})" if number else "")
        found.setdefault(called, []).append(row)
    return dict(list(found.items())[:MOST_CONNECTIONS])


def offered(study: Study) -> list[str]:
    """Connections that a reader can choose."""
    return list(dict.fromkeys(name for v in study.variants for name in _connections(v)))


def left_out(v: Variant) -> int:
    """Connections that are watched and not offered."""
    return max(0, len(set(v.column(WATCHED, "connection"))) - MOST_CONNECTIONS)


def thinned(values: Sequence[float | None], limit: int) -> list[int]:
    """Places of at most so many values, with the least and the most of every run of neighbours."""
    known = [i for i, value in enumerate(values) if value is not None]
    if len(known) <= limit:
        return known
    each = -(-2 * len(known) // limit)
    kept: set[int] = set()
    for start in range(0, len(known), each):
        run = known[start : start + each]
        kept |= {min(run, key=lambda i: values[i] or 0.0), max(run, key=lambda i: values[i] or 0.0)}
    return sorted(kept)


def watched(v: Variant, study: Study) -> Figure | None:
    """Panels above each other: sizes, the rate if one is set, and round trips; a connection at a time."""
    of = _connections(v)
    if not of:
        return None
    options = offered(study)
    first = next((name for name in options if name in of), "")
    every = [row for rows in of.values() for row in rows]
    has_rate = any(row[RATE] is not None for row in every)
    clock = time_scale(seconds(row["time_ps"]) for row in every)
    trips = time_scale(seconds(row[TRIP]) for row in every)
    memory = binary_scale([float(row[name]) for row in every for name in SIZES if row[name] is not None])
    rates = rate_scale(float(row[RATE]) for row in every if row[RATE] is not None)
    panels = [memory.unit, *([rates.unit] if has_rate else []), f"round trip ({trips.unit})"]
    height, domains = stacked_panels(len(panels), PANEL_PX)
    limit = point_limit(5 * len(of) * len(study.variants))
    traces: list[dict[str, Any]] = []

    def add(name: str, column: str, called: tuple[str, str, str], scale: Scale, panel: int) -> None:
        label, colour, dash = called
        scaled = [None if row[column] is None else row[column] / scale.factor for row in of[name]]
        kept = thinned(scaled, limit)
        if not kept:
            return
        # What was measured is a point; what is kept from one acknowledgement to the next is a step.
        is_measured = column == TRIP
        look = (
            {"mode": "markers", "marker": {"size": 3, "color": colour}}
            if is_measured
            else {"mode": "lines", "line": {"shape": "hv", "width": 1.4, "color": colour, "dash": dash}}
        )
        shown = len(options) < 2 or name == first
        traces.append(
            {
                "type": "scatter",
                **look,
                "x": [significant((seconds(of[name][i]["time_ps"]) or 0.0) / clock.factor, 8) for i in kept],
                "y": [significant(scaled[i] or 0.0, 5) for i in kept],
                "yaxis": axis_name("y", panel),
                "name": label,
                "legendgroup": label,
                "visible": shown,
                "showlegend": shown,
                "hovertemplate": f"{label}: %{{y:.4~g}} {scale.unit}<extra>{chart_text(name)}</extra>",
                **({"meta": {"option": name, "explains": True}} if len(options) > 1 else {}),
            }
        )

    for name in of:
        for column, called in SIZES.items():
            add(name, column, called, memory, 0)
        add(name, RATE, ("rate that is set", "@links", "solid"), rates, 1)
        add(name, TRIP, ("round trip", "@compute", "solid"), Scale(trips.unit, 1e12 * trips.factor, 3), len(panels) - 1)
    layout: dict[str, Any] = {
        "height": height + 26,
        "margin": {"l": 56, "r": 12, "t": 40, "b": 48},
        "legend": {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        "showlegend": True,
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": f"time since the start of the run ({clock.unit})"},
            "rangemode": "tozero",
            "anchor": axis_name("y", len(panels) - 1),
            "zeroline": False,
        },
    }
    for i, unit in enumerate(panels):
        axis = {"domain": domains[i], "rangemode": "tozero", "nticks": 5, "zeroline": False, "anchor": "x"}
        layout[layout_key(axis_name("y", i))] = {**axis, "title": {"text": unit}, "fixedrange": True}
    return {"data": traces, "layout": layout}
