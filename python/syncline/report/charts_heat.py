"""A heat map of every directed link: how busy each was and, with a transport, what it dropped, marked and paused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from syncline.report.charts import Figure, named_axis
from syncline.report.escape import chart_text
from syncline.results.series import compact, merged_count
from syncline.results.study import Study, Table, Variant
from syncline.results.units import PS_PER_S, number, significant

MAX_HEAT_COLUMNS: Final = 512
BUSY: Final = "busy"
QUEUES: Final = "queues"


@dataclass(frozen=True)
class Quantity:
    """What may colour links."""

    title: str
    """What the colour bar says."""
    unit: str
    """What follows a value."""
    column: str
    """Where a value is read."""


MOST_LABELS: Final = 37
"""Ports that have a label of their own, as many as fit the height of the map."""
QUANTITIES: Final = {
    BUSY: Quantity("busy (%)", " %", "busy_ps"),
    "drops": Quantity("frames dropped", " frames dropped", "drops"),
    "marks": Quantity("frames marked", " frames marked", "marks"),
    "pauses": Quantity("pauses", " pauses", "pauses"),
}
"""What may colour links, by the name that readers choose; all but the first are columns of the table `queues`."""


def top(name: str, most: float) -> float:
    """Where the scale of a quantity ends, given the most at any link: in percent for what is a share."""
    return max(1e-9, 100.0 * most if name == BUSY else most)


def said(name: str, value: str) -> str:
    """A value of plotly's with its unit, as a pointer is told it."""
    return f"%{{{value}:{'.1f' if name == BUSY else ',.4~g'}}}{QUANTITIES[name].unit}<extra></extra>"


def colour_bar(name: str) -> dict[str, Any]:
    """What stands beside the scale of a quantity."""
    return {"title": {"text": QUANTITIES[name].title, "side": "right"}, "thickness": 12, "outlinewidth": 0}


def queues_of(v: Variant) -> Table | None:
    """The table of queues, if its rows are those of the table of links."""
    queues = v.tables.get(QUEUES)
    if queues is None or queues.num_rows != v.length("links"):
        return None
    # Both have a row for every link in the order of links.
    return queues if "port" in queues.column_names and v.column(QUEUES, "port") == v.column("links", "port") else None


def options(study: Study) -> list[str]:
    """What links can be coloured by: how busy they were, and what happened at any of them at all."""
    queues = [table for v in study.variants if (table := queues_of(v)) is not None]

    def happened(name: str) -> bool:
        return any(
            any(number(value) for value in table.column(name).to_pylist())
            for table in queues
            if name in table.column_names
        )

    return [BUSY, *(name for name in QUANTITIES if name != BUSY and happened(name))]


def highest(study: Study) -> dict[str, float]:
    """The most of each quantity at any link of any variant: the scale that all variants have in common."""
    most = {BUSY: max((x.busy or 0.0 for v in study.variants for g in v.link_loads.values() for x in g), default=0.0)}
    for name in options(study)[1:]:
        most[name] = max(x or 0.0 for v in study.variants if queues_of(v) is not None for x in v.numbers(QUEUES, name))
    return most


def heat(v: Variant, most: dict[str, float]) -> Figure | None:
    """Every directed link, nodes along and ports down; a trace for each quantity of `most`, the first of them shown."""
    links = v.tables.get("links")
    if links is None or not {"node", "port", "dim", "busy_ps"}.issubset(links.column_names):
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    queues = queues_of(v)
    counted = [name for name in most if name != BUSY and queues is not None and name in queues.column_names]
    values: Any = links
    for name in counted:
        assert queues is not None
        values = values.append_column(f"queue_{name}", queues.column(name))
    numbers = values.column("node")
    nodes = sorted(node for node in pc.unique(numbers).to_pylist() if node is not None)
    count = merged_count(len(nodes), MAX_HEAT_COLUMNS)
    # There may be millions of links.
    place = pc.divide(pc.index_in(numbers, pa.array(nodes, numbers.type)), count)
    groups = values.append_column("place", place).group_by(["port", "place"], use_threads=False)
    columns = {BUSY: "busy_ps", **{name: f"queue_{name}" for name in counted}}
    found = groups.aggregate([("dim", "min"), *((column, "mean") for column in columns.values())])
    keys = [
        (port or "", at)
        for port, at in zip(found.column("port").to_pylist(), found.column("place").to_pylist(), strict=True)
    ]
    order: dict[str, tuple[int, str]] = {}
    for (port, _), dim in zip(keys, found.column("dim_min").to_pylist(), strict=True):
        order[port] = min(order.get(port, (dim or 0, port)), (dim or 0, port))
    ports = sorted(order, key=lambda port: order[port])
    total_ps = (v.total_s or 0.0) * PS_PER_S
    factors = {BUSY: 100.0 / total_ps if total_ps else 0.0}
    cells: dict[str, dict[tuple[str, int], float | None]] = {}
    for name, column in columns.items():
        means = [number(x) for x in found.column(f"{column}_mean").to_pylist()]
        factor = factors.get(name, 1.0)
        cells[name] = {key: None if x is None else factor * x for key, x in zip(keys, means, strict=True)}
    if not any(cells[BUSY].values()):
        return None
    width = -(-len(nodes) // count)

    def trace(name: str) -> dict[str, Any]:
        rows = [[cells[name].get((port, at)) for at in range(width)] for port in ports]
        return {
            "type": "heatmap",
            "z": [compact(row) for row in rows],
            "x": nodes[::count],
            "y": list(range(len(ports))),
            "text": [[chart_text(port)] * width for port in ports],
            "colorscale": "@heat",
            "zmin": 0,
            "zmax": significant(top(name, most[name]), 4),
            "xgap": 1 if width <= 160 else 0,
            "ygap": 1,
            "colorbar": colour_bar(name),
            "hovertemplate": f"node %{{x}}, port %{{text}}: {said(name, 'z')}",
            **({} if len(cells) == 1 else {"visible": name == BUSY, "meta": {"option": name}}),
        }

    axis = named_axis(ports)
    apart = -(-len(ports) // MOST_LABELS)
    ticks = {name: axis[name][::apart] for name in ("tickvals", "ticktext")}
    what = "node" if count == 1 else f"nodes, means of {count}"
    return {
        "data": [trace(name) for name in cells],
        "layout": {
            "height": 110 + max(60, min(900, 24 * len(ports))),
            "margin": {"l": 10, "r": 12, "t": 12, "b": 48},
            "xaxis": {"title": {"text": what}, "showgrid": False, "zeroline": False},
            "yaxis": {**axis, **ticks, "title": {"text": "port"}},
        },
    }
