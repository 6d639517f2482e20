"""Charts of a whole study: breakdown, utilisation over time, links.

A chart is a plotly figure as plain data. A colour is a token such as `@compute`, which the page's
script replaces with the colour of the current theme; a token stands for one meaning everywhere.
Names of users go through `chart_text`. A builder returns nothing where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from syncline.report.escape import chart_text, short
from syncline.results.series import Windows, compact, dimension_columns, mean, windows
from syncline.results.study import Study, Variant
from syncline.results.units import Scale, byte_scale, percent, ratio, significant, time_scale

Figure = dict[str, Any]

MAX_POINTS = 2000
"""Points of one series."""
POINT_BUDGET = 60_000
"""Points of all series of a page, so that it stays small with many variants."""
PATTERNS = ("", "/", ".")
"""What tells classes of links apart that share a colour."""
PANEL_PX = 92
GAP_PX = 34
TITLE_LINE_PX = 15
"""A line of the title of a panel."""


def point_limit(series: int) -> int:
    """Points per series that keep a page of so many series within its budget."""
    return max(50, min(MAX_POINTS, POINT_BUDGET // max(1, series)))


def named_axis(names: Sequence[str], limit: int = 26) -> dict[str, Any]:
    """A vertical axis of names, first on top; positions are numbers, so names may repeat."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [chart_text(short(n, limit)) for n in names],
        "range": [len(names) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def _rest(study: Study) -> str:
    """What time is called that is neither compute nor exposed communication."""
    if not study.is_training:
        return "communication"
    waits = {
        "waiting for messages of other classes (bubble)": any(v.bubble_s for v in study.variants),
        "waiting for background compute": any(v.background_wait_s for v in study.variants),
        "waiting after the last kernel": any(v.drain_s for v in study.variants),
    }
    return " or ".join(name for name, found in waits.items() if found) or "neither"


def breakdown(study: Study) -> Figure | None:
    """Stacked bars: where the time of each variant goes."""
    shown = [v for v in study.variants if v.time_s]
    if not shown:
        return None
    scale = time_scale(v.time_s for v in shown)
    parts: dict[str, list[float]] = {"compute": [], "overlap": [], "exposed": [], "other": []}
    for v in shown:
        compute = v.per_iteration(v.compute_s) or 0.0
        overlap = min(compute, v.per_iteration(v.overlapped_s) or 0.0)
        exposed = v.per_iteration(v.exposed_s) or 0.0
        rest = (v.time_s or 0.0) - compute - exposed
        parts["compute"].append(compute - overlap)
        parts["overlap"].append(overlap)
        parts["exposed"].append(exposed)
        parts["other"].append(rest if rest > 0.002 * (v.time_s or 0.0) else 0.0)
    labels = {
        "compute": "compute",
        "overlap": "compute hiding communication",
        "exposed": "exposed communication",
        "other": _rest(study),
    }
    names = [v.name for v in shown]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": labels[part],
            "y": list(range(len(shown))),
            "x": [scale.of(x) for x in values],
            "text": [scale.label(x) if x > 0 else "" for x in values],
            "customdata": [
                [chart_text(v.name), percent(ratio(x, v.time_s))] for v, x in zip(shown, values, strict=True)
            ],
            "hovertemplate": f"<b>%{{customdata[0]}}</b><br>{labels[part]}: "
            "%{text} (%{customdata[1]})<extra></extra>",
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "insidetextfont": {"color": f"@on-{part}"},
            "width": 0.66,
            "marker": {"color": f"@{part}", "line": {"width": 1, "color": "@surface"}},
        }
        for part, values in parts.items()
        if any(values)
    ]
    longest = max(v.time_s or 0.0 for v in shown)
    per = " per iteration" if study.is_training else ""
    return {
        "data": traces,
        "layout": {
            "barmode": "stack",
            "height": 96 + 40 * len(shown),
            "margin": {"l": 10, "r": 76, "t": 34, "b": 46},
            "uniformtext": {"mode": "hide", "minsize": 10},
            "legend": {
                "orientation": "h",
                "y": 1,
                "yanchor": "bottom",
                "x": 0,
                "traceorder": "normal",
            },
            "showlegend": True,
            "xaxis": {
                "title": {"text": f"time{per} ({scale.unit})"},
                "range": [0, significant(1.01 * longest / scale.factor, 5)],
                "zeroline": False,
            },
            "yaxis": named_axis(names),
            "annotations": [
                {
                    "x": scale.of(v.time_s),
                    "y": i,
                    "text": f"<b>{scale.label(v.time_s)}</b>",
                    "showarrow": False,
                    "xanchor": "left",
                    "xshift": 5,
                }
                for i, v in enumerate(shown)
            ],
        },
    }


def stacked_panels(
    count: int, panel_px: int = PANEL_PX, top_px: int = 26, gap_px: int = GAP_PX
) -> tuple[int, list[list[float]]]:
    """Height of a chart of equal panels and the domains of their vertical axes, first on top."""
    bottom_px = 48
    inner = count * panel_px + (count - 1) * gap_px
    domains = []
    for i in range(count):
        upper = 1 - i * (panel_px + gap_px) / inner
        domains.append([round(max(0.0, upper - panel_px / inner), 6), round(upper, 6)])
    return inner + top_px + bottom_px, domains


def axis_name(prefix: str, i: int) -> str:
    """`x`, `x2`, `x3`, ... as plotly counts axes."""
    return prefix if i == 0 else f"{prefix}{i + 1}"


def layout_key(axis: str) -> str:
    """The key of an axis in a layout."""
    return f"{axis[0]}axis{axis[1:]}"


def step_line(w: Windows, values: Sequence[float | None], scale: Scale) -> dict[str, Any]:
    """A series as steps that are as wide as their windows."""
    edges = w.edges_s
    regular = len(edges) > 2
    if regular:
        width = edges[1] - edges[0]
        regular = all(abs(edges[i] - i * width - edges[0]) < 1e-3 * width for i in range(len(edges) - 1))
    x: dict[str, Any]
    if regular:
        x = {
            "x0": significant(edges[0] / scale.factor, 8),
            "dx": significant((edges[1] - edges[0]) / scale.factor, 10),
        }
    else:
        x = {"x": [significant(e / scale.factor, 8) for e in edges]}
    return {
        **x,
        "y": compact([*values, values[-1]]),
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv"},
    }


def _percentages(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else 100 * v for v in values]


def _panel_title(text: str, y: float, below: str) -> list[dict[str, Any]]:
    """The name of a panel and, below it, what is said of it: beside each other they have no room on a phone."""
    common = {"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "y": y, "yanchor": "bottom"}
    common |= {"showarrow": False}
    return [
        {**common, "text": f"<b>{text}</b>", "yshift": 2 + TITLE_LINE_PX},
        {**common, "text": below, "yshift": 2, "font": {"color": "@muted"}},
    ]


def utilisation_limit(study: Study) -> int:
    """Points of one series of the utilisation chart."""
    return point_limit(sum(2 + len(dimension_columns(v)) for v in study.variants))


@dataclass(frozen=True)
class Mark:
    """What happened at times, to be marked above series."""

    label: str
    colour: str
    symbol: str
    at: Sequence[tuple[float, float]]
    """Times in seconds, and how often it happened."""

    def trace(self, height: float, scale: Scale) -> dict[str, Any]:
        """The marks at a height."""
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [significant(t / scale.factor, 8) for t, _ in self.at],
            "y": [height] * len(self.at),
            "customdata": [int(n) for _, n in self.at],
            "name": self.label,
            "marker": {"symbol": self.symbol, "size": 6, "color": self.colour},
            "hovertemplate": f"%{{customdata:,}} {self.label}<extra></extra>",
        }


MARK_PERCENT = 9
"""The height between rows of marks, of a panel that shows a hundred per cent."""


def utilisation(study: Study, marks: Callable[[Variant, int], Sequence[Mark]] | None = None) -> Figure | None:
    """Small multiples over time: busy share of compute and links, one panel per variant, with marks above it."""
    shown: list[tuple[Variant, Windows, list[str]]] = []
    limit = utilisation_limit(study)
    first = next(iter(link_options(study)), "")
    named: set[str] = set()
    for v in study.variants:
        dims = dimension_columns(v)
        w = windows(v, ["compute", "links", *dims], limit)
        if w is not None and any(mean(s) is not None for s in w.series.values()):
            shown.append((v, w, dims))
    if not shown:
        return None
    scale = time_scale(w.edges_s[-1] for _, w, _ in shown)
    height, domains = stacked_panels(len(shown), gap_px=GAP_PX + TITLE_LINE_PX)
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"annotations": []}
    for i, (v, w, dims) in enumerate(shown):
        y = axis_name("y", i)
        for column in ("compute", "links", *dims):
            if column not in w.series:
                continue
            compute = column == "compute"
            option = "" if compute else link_option(v, column)
            label = "compute" if compute else chart_text(link_label(option))
            explains = option not in named
            named.add(option)
            traces.append(
                {
                    **step_line(w, _percentages(w.series[column]), scale),
                    "yaxis": y,
                    "name": label,
                    "legendgroup": "compute" if compute else "links",
                    "showlegend": explains and (compute or option == first),
                    "visible": compute or option == first,
                    "meta": {} if compute else {"option": option, "explains": explains},
                    "line": {
                        "shape": "hv",
                        "width": 0.6 if compute else 1.3,
                        "color": "@compute" if compute else "@links",
                    },
                    "hovertemplate": f"{label}: %{{y:.1f}} %<extra></extra>",
                    **({"fill": "tozeroy", "fillcolor": "@compute-soft"} if compute else {}),
                }
            )
        above = marks(v, limit) if marks is not None else ()
        for place, mark in enumerate(above, start=1):
            drawn = {**mark.trace(104 + MARK_PERCENT * (place - 0.5), scale), "yaxis": y, "legendgroup": mark.label}
            traces.append({**drawn, "showlegend": mark.label not in named})
            named.add(mark.label)
        layout[layout_key(y)] = {
            "domain": domains[i],
            "range": [0, 104 + MARK_PERCENT * len(above)],
            "tickvals": [0, 50, 100],
            "ticktext": ["0", "50 %", "100 %"],
            "fixedrange": True,
            "zeroline": False,
            "anchor": "x",
        }
        means = w.means()
        said = " \u00b7 ".join(
            f"mean {label} {percent(means[key])}"
            for key, label in (("compute", "compute"), ("links", "links"))
            if key in means
        )
        layout["annotations"] += _panel_title(chart_text(short(v.name, 40)), domains[i][1], said)
    end = max(w.edges_s[-1] for _, w, _ in shown)
    layout |= {
        "height": height + 26 + TITLE_LINE_PX,
        "margin": {"l": 56, "r": 12, "t": 52 + TITLE_LINE_PX, "b": 48},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0},
        "showlegend": True,
        "xaxis": {
            "title": {"text": f"time since the start of the run ({scale.unit})"},
            "range": [0, significant(end / scale.factor, 6)],
            "anchor": axis_name("y", len(shown) - 1),
            "zeroline": False,
            "hoverformat": ".4~g",
        },
    }
    return {"data": traces, "layout": layout}


ALL_LINKS = "all"
"""The choice of links that stands for all of them."""


def link_option(variant: Variant, column: str) -> str:
    """`links` or `link_dim0` as a choice of links: variants may give one name to classes of different numbers."""
    return ALL_LINKS if column == "links" else variant.link_class(int(column.removeprefix("link_dim")))


def link_label(option: str) -> str:
    """A choice of links in words."""
    return "all links" if option == ALL_LINKS else f"links of {option}"


def link_options(study: Study) -> list[str]:
    """Choices of links for the utilisation chart: the classes of all variants by their names."""
    found: dict[str, None] = {}
    for v in study.variants:
        for column in [*(c for c in ("links",) if c in v.columns("windows")), *dimension_columns(v)]:
            found[link_option(v, column)] = None
    return list(found)


def link_bars(study: Study) -> Figure | None:
    """Mean busy share and bytes per link of each dimension, with the range over its links."""
    shown = [(v, v.link_loads) for v in study.variants if v.link_loads]
    if not any(link.size for _, g in shown for links in g.values() for link in links):
        return None
    classes = list(dict.fromkeys(v.link_class(d) for v, g in shown for d in g))
    loads = [(v, {v.link_class(d): links for d, links in g.items()}) for v, g in shown]
    scale = byte_scale(link.size for _, g in shown for links in g.values() for link in links)
    most = max(len(g) for _, g in loads)
    thick = 0.72 / most
    traces = []
    for k, label in enumerate(classes):
        for column, (axis, unit, digits) in enumerate((("x", " %", 1), ("x2", f" {scale.unit}", scale.digits))):
            positions, values, plus, minus = [], [], [], []
            for i, (_, g) in enumerate(loads):
                links = g.get(label, [])
                samples = [100 * (x.busy or 0.0) if column == 0 else x.size / scale.factor for x in links]
                if not samples:
                    continue
                weights = [link.copies for link in links]
                place = list(g).index(label) - (len(g) - 1) / 2  # a variant has room for its own classes only
                centre = sum(s * w for s, w in zip(samples, weights, strict=True)) / sum(weights)
                positions.append(significant(i + place * thick, 5))
                values.append(significant(centre, 5))
                plus.append(significant(max(samples) - centre, 4))
                minus.append(significant(centre - min(samples), 4))
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": chart_text(label),
                    "legendgroup": f"class {k}",
                    "showlegend": column == 0,
                    "width": significant(0.96 * thick, 4),
                    "x": values,
                    "y": positions,
                    "xaxis": axis,
                    "yaxis": "y" if column == 0 else "y2",
                    "marker": {"color": f"@dim{k % 6}", "pattern": {"shape": PATTERNS[k // 6 % len(PATTERNS)]}},
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": plus,
                        "arrayminus": minus,
                        "thickness": 1.2,
                        "width": 3,
                        "color": "@text",
                    },
                    "hovertemplate": f"{chart_text(label)}: %{{x:,.{digits}f}}{unit} mean, "
                    f"%{{error_x.array:.3~g}} above at most<extra></extra>",
                }
            )
    names = [v.name for v, _ in shown]
    groups_px = 18 + 13 * most
    side = {**named_axis(names), "showticklabels": False, "anchor": "x2"}
    return {
        "data": traces,
        "layout": {
            "barmode": "overlay",
            "height": 100 + groups_px * len(shown),
            "margin": {"l": 10, "r": 12, "t": 34, "b": 48},
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "showlegend": True,
            "xaxis": {
                "domain": [0, 0.485],
                "title": {"text": "busy share of a link (%)"},
                "rangemode": "tozero",
                "anchor": "y",
            },
            "xaxis2": {
                "domain": [0.515, 1],
                "title": {"text": f"bytes over a link ({scale.unit})"},
                "rangemode": "tozero",
                "anchor": "y2",
            },
            "yaxis": {**named_axis(names), "anchor": "x"},
            "yaxis2": side,
        },
    }
