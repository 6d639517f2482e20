"""Charts of an ACE: how full it is over time, and how far its partitions fill."""

from __future__ import annotations

from typing import Any

from syncline.report.charts import Figure, axis_name, layout_key, named_axis, point_limit, stacked_panels, step_line
from syncline.report.escape import chart_text
from syncline.results.series import windows
from syncline.results.study import Variant
from syncline.results.units import binary_scale, number, percent, ratio, significant, time_scale

SERIES = ("ace_active", "sram_bytes", "fsm_busy")


def occupancy(v: Variant, among: int) -> Figure | None:
    """Three panels over time: active share, bytes held in SRAM, busy FSMs."""
    w = windows(v, SERIES, point_limit(among * 2 * len(SERIES)))
    if w is None or not w.series:
        return None
    if not any(value for values in w.series.values() for value in values):
        return None
    scale = time_scale([w.edges_s[-1]])
    capacity = sum(number(p.get("capacity_bytes")) or 0.0 for p in v.partitions)
    held = [x for x in w.series.get("sram_bytes", []) if x is not None]
    memory = binary_scale([max([capacity, *held])])
    fsms = number(v.endpoint.get("fsms")) or 0.0
    panels = {
        "ace_active": ("Time with at least one chunk", "%", 100.0, 100.0),
        "sram_bytes": ("SRAM held", memory.unit, 1 / memory.factor, capacity / memory.factor),
        "fsm_busy": ("FSMs busy", "FSMs", 1.0, fsms),
    }
    shown = [name for name in SERIES if name in w.series]
    height, domains = stacked_panels(len(shown), panel_px=104)
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    for i, name in enumerate(shown):
        title, unit, to_unit, limit = panels[name]
        y = axis_name("y", i)
        values = [None if x is None else x * to_unit for x in w.series[name]]
        traces.append(
            {
                **step_line(w, values, scale),
                "yaxis": y,
                "name": title,
                "line": {"shape": "hv", "width": 1.1, "color": "@ace"},
                "fill": "tozeroy",
                "fillcolor": "@ace-soft",
                "hovertemplate": f"%{{y:.3~g}} {unit}<extra></extra>",
            }
        )
        top = max([limit, *(x for x in values if x is not None)])
        layout[layout_key(y)] = {
            "domain": domains[i],
            "range": [0, significant(1.12 * top or 1.0, 4)],
            "title": {"text": unit},
            "nticks": 4,
            "fixedrange": True,
            "zeroline": False,
            "anchor": "x",
        }
        layout["annotations"].append(
            {
                "text": f"<b>{title}</b>",
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "xanchor": "left",
                "y": domains[i][1],
                "yanchor": "bottom",
                "yshift": 2,
                "showarrow": False,
            }
        )
        if limit and name != "ace_active":
            layout["shapes"].append(
                {
                    "type": "line",
                    "xref": "paper",
                    "x0": 0,
                    "x1": 1,
                    "yref": y,
                    "y0": significant(limit, 5),
                    "y1": significant(limit, 5),
                    "line": {"width": 1.2, "dash": "dash", "color": "@muted"},
                }
            )
            all_of_it = f"{limit:.4g} {unit}" if name == "sram_bytes" else f"{fsms:g} FSMs"
            layout["annotations"].append(
                {
                    "text": f"dashed: all {all_of_it}",
                    "xref": "paper",
                    "yref": "paper",
                    "x": 1,
                    "xanchor": "right",
                    "y": domains[i][1],
                    "yanchor": "bottom",
                    "yshift": 2,
                    "showarrow": False,
                    "font": {"color": "@muted"},
                }
            )
    layout |= {
        "height": height,
        "margin": {"l": 64, "r": 12, "t": 28, "b": 48},
        "showlegend": False,
        "hovermode": "x unified",
        "xaxis": {
            "title": {"text": f"time since the start of the run ({scale.unit})"},
            "range": [0, significant(w.edges_s[-1] / scale.factor, 6)],
            "anchor": axis_name("y", len(shown) - 1),
            "zeroline": False,
            "hoverformat": ".4~g",
        },
    }
    return {"data": traces, "layout": layout}


def partitions(v: Variant) -> Figure | None:
    """Peak of each partition within its capacity."""
    rows = []
    for p in v.partitions:
        capacity, peak = number(p.get("capacity_bytes")), number(p.get("peak_bytes"))
        if capacity or peak:
            rows.append((str(p.get("phase", "")), capacity or 0.0, peak or 0.0))
    if not rows:
        return None
    scale = binary_scale(max(c, p) for _, c, p in rows)
    names = [r[0] if not r[0].isdigit() else f"phase {r[0]}" for r in rows]
    text = [
        f"{p / scale.factor:.4g} of {c / scale.factor:.4g} {scale.unit}, {percent(ratio(p, c), 0)}" for _, c, p in rows
    ]
    common: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(rows))),
        "customdata": [[chart_text(n), t] for n, t in zip(names, text, strict=True)],
        "hovertemplate": "<b>%{customdata[0]}</b>: %{customdata[1]}<extra></extra>",
    }
    largest = max(max(c, p) for _, c, p in rows) / scale.factor
    return {
        "data": [
            {
                **common,
                "name": "capacity",
                "x": [scale.of(c) for _, c, _ in rows],
                "width": 0.72,
                "marker": {"color": "@capacity"},
            },
            {
                **common,
                "name": "most ever held",
                "x": [scale.of(p) for _, _, p in rows],
                "width": 0.4,
                "marker": {"color": "@ace"},
            },
        ],
        "layout": {
            "barmode": "overlay",
            "height": 96 + 32 * len(rows),
            "margin": {"l": 10, "r": 12, "t": 34, "b": 48},
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "showlegend": True,
            "xaxis": {
                "title": {"text": f"SRAM ({scale.unit})"},
                "range": [0, significant(1.42 * largest, 4)],
                "zeroline": False,
            },
            "yaxis": named_axis(names),
            "annotations": [
                {
                    "x": scale.of(max(c, p)),
                    "y": i,
                    "text": text[i],
                    "showarrow": False,
                    "xanchor": "left",
                    "xshift": 6,
                }
                for i, (_, c, p) in enumerate(rows)
            ],
        },
    }
