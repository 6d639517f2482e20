"""Charts of a network with a transport: queues, drops and timeouts over time, and how long messages took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from syncline.report.charts import Figure, Mark, axis_name, layout_key, point_limit, stacked_panels, step_line
from syncline.report.escape import chart_text, short
from syncline.results.series import Windows, merged_count
from syncline.results.study import Study, Variant, seconds
from syncline.results.units import binary_scale, number, significant, time_scale

CONGESTION, COMPLETIONS, SLOWDOWNS = "congestion", "completions", "slowdowns"
EVENTS = {
    "drops": ("frames dropped", "@exposed", "triangle-down"),
    "timeouts": ("timeouts", "@text", "x"),
    "pauses": ("pauses", "@ace", "line-ns-open"),
}
"""What happens at a time, by column: its name, colour and mark."""
CDF_POINTS = 400
BACKGROUND = "background"
"""The kind of messages that are flows beside the run."""


def _joined(values: Sequence[float | None], count: int, join: Callable[[list[float]], float]) -> list[float]:
    known = [v or 0.0 for v in values]
    return [join(known[i : i + count]) for i in range(0, len(known), count)]


def _over_time(v: Variant, limit: int) -> Windows | None:
    """The peak queue and the numbers of events, in at most so many windows."""
    starts = [s for s in v.numbers(CONGESTION, "start_ps") if s is not None]
    if not starts:
        return None
    count = merged_count(len(starts), limit)
    width = (starts[1] - starts[0]) if len(starts) > 1 else 1e6
    edges = [seconds(start) or 0.0 for start in (*starts[::count], starts[-1] + width)]
    series: dict[str, list[float | None]] = {
        "peak_queue_bytes": [*_joined(v.numbers(CONGESTION, "peak_queue_bytes"), count, max)],
        **{name: [*_joined(v.numbers(CONGESTION, name), count, sum)] for name in EVENTS},
    }
    return Windows(edges, count, series)


ON_THE_TIMELINE = ("drops", "timeouts")
"""What is marked above the utilisation of a variant."""


def timeline_marks(v: Variant, limit: int) -> list[Mark]:
    """When a variant dropped frames and when its timers expired, in at most so many windows."""
    windows = _over_time(v, limit)
    if windows is None:
        return []
    found = []
    for name in ON_THE_TIMELINE:
        at = [(t, n) for t, n in zip(windows.edges_s, windows.series[name], strict=False) if n]
        if at:
            found.append(Mark(*EVENTS[name], at))
    return found


def congestion(study: Study) -> Figure | None:
    """A panel per variant: the longest queue at any output of a switch, and marks where frames were dropped, timers
    expired and switches asked for pauses.
    """
    limit = point_limit(4 * max(1, len(study.variants)))
    found = [(v, w) for v in study.variants if (w := _over_time(v, limit)) is not None]
    if not found:
        return None
    scale = time_scale(w.edges_s[-1] for _, w in found)
    memory = binary_scale([max((x or 0.0 for x in w.series["peak_queue_bytes"]), default=0.0) for _, w in found])
    height, domains = stacked_panels(len(found))
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"annotations": []}
    named: set[str] = set()
    for i, (v, w) in enumerate(found):
        y = axis_name("y", i)
        queue = [None if x is None else x / memory.factor for x in w.series["peak_queue_bytes"]]
        highest = max((x for x in queue if x is not None), default=0.0) or 1.0
        traces.append(
            {
                **step_line(w, queue, scale),
                "yaxis": y,
                "name": "longest queue",
                "showlegend": i == 0,
                "line": {"shape": "hv", "width": 1.2, "color": "@links"},
                "hovertemplate": f"longest queue: %{{y:.4~g}} {memory.unit}<extra></extra>",
            }
        )
        for place, (name, (label, colour, symbol)) in enumerate(EVENTS.items()):
            at = [(t, n) for t, n in zip(w.edges_s, w.series[name], strict=False) if n]
            if not at:
                continue
            mark = Mark(label, colour, symbol, [(t, n or 0.0) for t, n in at])
            drawn = {**mark.trace(significant(highest * (1.12 + 0.12 * place), 4), scale), "yaxis": y}
            traces.append({**drawn, "legendgroup": name, "showlegend": name not in named})
            named.add(name)
        layout[layout_key(y)] = {
            "domain": domains[i],
            "range": [0, significant(1.5 * highest, 4)],
            "title": {"text": memory.unit},
            "nticks": 4,
            "fixedrange": True,
            "zeroline": False,
            "anchor": "x",
        }
        title = {"xref": "paper", "yref": "paper", "y": domains[i][1], "yanchor": "bottom", "showarrow": False}
        text = f"<b>{chart_text(short(v.name, 48))}</b>"
        layout["annotations"].append({**title, "text": text, "x": 0, "xanchor": "left", "yshift": 2})
    end = max(w.edges_s[-1] for _, w in found)
    layout |= {
        "height": height + 26,
        "margin": {"l": 56, "r": 12, "t": 52, "b": 48},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        "showlegend": True,
        "xaxis": {
            "title": {"text": f"time since the start of the run ({scale.unit})"},
            "range": [0, significant(end / scale.factor, 6)],
            "anchor": axis_name("y", len(found) - 1),
            "zeroline": False,
            "hoverformat": ".4~g",
        },
    }
    return {"data": traces, "layout": layout}


def distribution(values: Sequence[float | None], counts: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Where a cumulative distribution steps, and to how much, in at most some hundred points; it begins at nothing, so
    that equal values are a line too.
    """
    known = [(x, n) for x, n in zip(values, counts, strict=True) if x is not None and n]
    total = sum(n for _, n in known)
    xs: list[float] = [x for x, _ in known[:1]]
    ys: list[float] = [0.0 for _ in known[:1]]
    below = 0.0
    for i, (x, n) in enumerate(known):
        below += n
        share = below / total
        if len(ys) == 1 or share - ys[-1] >= 1 / CDF_POINTS or i == len(known) - 1:
            xs.append(x)
            ys.append(share)
    return xs, ys


def _kinds(v: Variant) -> list[str | None]:
    """Of what kinds messages were: of the run, and flows beside it. Documents of old do not say."""
    return list(dict.fromkeys(v.column(COMPLETIONS, "kind")))


def _of_kind(v: Variant, table: str, name: str, kind: str | None) -> tuple[list[float | None], list[float | None]]:
    """A column of a table and the numbers of messages, of the rows of a kind."""
    rows = [row for row, of in enumerate(v.column(table, "kind")) if of == kind]
    values, counts = v.numbers(table, name), v.numbers(table, "messages")
    return [values[row] for row in rows], [counts[row] for row in rows]


def completions(study: Study) -> Figure | None:
    """Cumulative distributions of the time of messages, and of that time over what they take alone."""
    shown = [(v, kind) for v in study.variants for kind in _kinds(v)]
    if not shown:
        return None
    scale = time_scale(seconds(x) for v in study.variants for x in v.numbers(COMPLETIONS, "time_ps"))
    colours = ("@links", "@compute", "@ace", "@exposed", "@text", "@muted")
    dashes = ("solid", "dash", "dot")
    traces: list[dict[str, Any]] = []
    for i, (v, kind) in enumerate(shown):
        name = chart_text(short(v.name, 48)) + (", background" if kind == BACKGROUND else "")
        line = {"shape": "hv", "width": 1.4, "color": colours[i % len(colours)]}
        line["dash"] = dashes[i // len(colours) % len(dashes)]
        xs, ys = distribution(*_of_kind(v, COMPLETIONS, "time_ps", kind))
        slow, shares = distribution(*_of_kind(v, SLOWDOWNS, "slowdown", kind))
        common = {"type": "scatter", "mode": "lines", "line": line, "name": name, "legendgroup": str(i)}
        times = [significant((seconds(x) or 0.0) / scale.factor, 5) for x in xs]
        hover = "%{y:.1%} within %{x:.4~g}"
        traces.append(
            {
                **common,
                "x": times,
                "y": [significant(y, 5) for y in ys],
                "hovertemplate": f"{name}: {hover} {scale.unit}<extra></extra>",
            }
        )
        traces.append(
            {
                **common,
                "x": [significant(x, 5) for x in slow],
                "y": [significant(y, 5) for y in shares],
                "xaxis": "x2",
                "yaxis": "y2",
                "showlegend": False,
                "hovertemplate": f"{name}: {hover} times<extra></extra>",
            }
        )
    share = {"range": [0, 1.02], "tickformat": ".0%", "fixedrange": True, "zeroline": False}
    layout: dict[str, Any] = {
        "height": 300,
        "margin": {"l": 56, "r": 12, "t": 40, "b": 48},
        "legend": {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        "showlegend": len(shown) > 1,
        "yaxis": {**share, "title": {"text": "messages"}},
        "yaxis2": {**share, "anchor": "x2"},
        "xaxis": {"type": "log", "domain": [0, 0.47], "title": {"text": f"from sent to arrived ({scale.unit})"}},
        "xaxis2": {
            "type": "log",
            "domain": [0.53, 1],
            "anchor": "y2",
            "title": {"text": "times as long as alone"},
        },
    }
    return {"data": traces, "layout": layout}


def has_any(study: Study) -> bool:
    """Whether a variant has a network with a transport."""
    return any(number(row.get("connections")) for v in study.variants for row in v.rows("transport"))


def has_losses(study: Study) -> bool:
    """Whether a variant dropped frames or waited for a timeout."""
    return any(any(v.numbers(CONGESTION, name)) for v in study.variants for name in ON_THE_TIMELINE)
