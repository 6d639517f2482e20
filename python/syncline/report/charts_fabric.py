"""The fabric of a run, drawn with every directed link in the colour of what happened there.

Half of the line between two nodes is the link that leaves the node at that end, so that both directions are to be seen.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.report.charts import Figure
from syncline.report.charts_heat import BUSY, QUANTITIES, colour_bar, queues_of, said, top
from syncline.report.escape import chart_text
from syncline.results.study import Variant
from syncline.results.units import PS_PER_S, number, significant

MOST_NODES: Final = 160
MOST_LINKS: Final = 1500
ROW_LETTERS: Final = 140
"""As many fit into a row."""
SHADES: Final = 8
"""Colours of lines: of each there is one trace."""
ARC: Final = 8
"""Pieces of a line between nodes of a row, which bends below it."""
ROW: Final = 1.0
PANEL_GAP: Final = 0.8
"""Between the grids of the third dimension."""
BEND: Final = 0.3
"""How far a link around the ends of a line stands off from it."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Link:
    """All parallel links from one node to another."""

    src: str
    dst: str
    values: dict[str, float]
    """By quantity: of the busiest of them how busy it was, and the sum of everything that is counted."""


def drawn(v: Variant, most: Mapping[str, float]) -> Figure | None:
    """Nodes and the links between them; traces for each quantity of `most`. NPUs of a product are on a circle or a
    grid, and otherwise nodes are in rows by their distance from the NPUs.

    Nothing without a table that says where links lead, without a link that was busy, where NPUs that are alike were
    simulated once, or where there are too many nodes to tell them apart.
    """
    links = _links(v, most)
    nodes = dict.fromkeys([*(link.src for link in links), *(link.dst for link in links)])
    if not links or len(nodes) > MOST_NODES or len(links) > MOST_LINKS:
        return None
    if not any(link.values[BUSY] for link in links):
        return None
    rows = _rows(list(nodes), links, _npus(v))
    grid = _grid(v, len(nodes)) if len(rows) == 1 else None
    if grid is not None:
        at = dict(zip(sorted(nodes, key=_number), grid, strict=True))
        halves = [_curved(at[link.src], at[link.dst]) for link in links]
    else:
        at = _circle(rows[0]) if len(rows) == 1 else _placed(rows, links)
        halves = [_line(at[link.src], at[link.dst], rows=len(rows) > 1) for link in links]
    data = [trace for name in most for trace in _traces(name, most[name], links, halves, choose=len(most) > 1)]
    height = 420 if len(rows) == 1 else 110 + 120 * len(rows)
    if grid is not None:
        height = 110 + round(70 * (1 + max(y for _, y in grid)))
    hidden = {"visible": False, "fixedrange": True}
    return {
        "data": [*data, _nodes(rows, at)],
        "layout": {
            "height": height,
            "margin": {"l": 10, "r": 12, "t": 12, "b": 12},
            "showlegend": False,
            "hovermode": "closest",
            "xaxis": hidden,
            "yaxis": {**hidden, **({"scaleanchor": "x"} if len(rows) == 1 and grid is None else {})},
        },
    }


def _npus(v: Variant) -> set[str]:
    """The names of the NPUs: the first nodes are NPUs, and every one of them has a link."""
    count = number(v.run.get("npus"))
    numbers = v.tables["links"].column("node").to_pylist()
    return {src for (src, _), node in zip(_ends(v), numbers, strict=True) if count is None or (node or 0) < count}


def _ends(v: Variant) -> list[tuple[str, str]]:
    """The names of both ends of every link, in the order of the table of links; none where that is not known."""
    queues = queues_of(v)
    if queues is not None and "to" in queues.column_names:
        return list(zip(queues.column("node").to_pylist(), queues.column("to").to_pylist(), strict=True))
    links = v.tables.get("links")
    if links is None or "to" not in links.column_names or v.copies:
        return []
    count = number(v.run.get("npus")) or 0

    def name(node: int) -> str:
        return f"{'NPU' if node < count else 'switch'} {node}"

    columns = (links.column(column).to_pylist() for column in ("node", "to"))
    return [(name(node), name(to)) for node, to in zip(*columns, strict=True)]


def _links(v: Variant, most: Mapping[str, float]) -> list[_Link]:
    queues = queues_of(v)
    total_ps = (v.total_s or 0.0) * PS_PER_S
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: dict.fromkeys(most, 0.0))
    tables = {name: v.tables.get("links") if name == BUSY else queues for name in most}
    columns = {
        name: table.column(QUANTITIES[name].column).to_pylist()
        for name, table in tables.items()
        if table is not None and QUANTITIES[name].column in table.column_names
    }
    for row, (src, dst) in enumerate(_ends(v)):
        values = found[src, dst]
        for name, column in columns.items():
            value = number(column[row]) or 0.0
            if name == BUSY:
                values[name] = max(values[name], 100.0 * value / total_ps if total_ps else 0.0)
            else:
                values[name] += value
    return [_Link(src, dst, values) for (src, dst), values in found.items()]


def _number(name: str) -> int:
    """The number of a node by its name."""
    last = name.rsplit(" ", maxsplit=1)[-1]
    return int(last) if last.isdecimal() else 0


def _grid(v: Variant, nodes: int) -> list[Point] | None:
    """Places of the NPUs of a product of two or three dimensions, by number: rows and columns, and beside each other
    those of the third. Nothing for other fabrics.
    """
    links = v.tables["links"]
    if not {"node", "to", "dim"}.issubset(links.column_names):
        return None
    columns = (links.column(column).to_pylist() for column in ("node", "to", "dim"))
    steps: dict[int, set[int]] = defaultdict(set)
    for node, to, dim in zip(*columns, strict=True):
        steps[dim].add(abs(to - node))
    strides = [min(of_dim) for _, of_dim in sorted(steps.items())]
    if not 2 <= len(strides) <= 3 or strides[0] != 1 or sorted(strides) != strides:
        return None
    sizes = [further // stride for stride, further in zip(strides, [*strides[1:], nodes], strict=True)]
    if math.prod(sizes) != nodes or any(
        step % stride or not 0 < step // stride < size
        for stride, size, (_, of_dim) in zip(strides, sizes, sorted(steps.items()), strict=True)
        for step in of_dim
    ):
        return None

    def place(npu: int) -> Point:
        x, y, panel = [*(npu // stride % size for stride, size in zip(strides, sizes, strict=True)), 0][:3]
        return x + panel * (sizes[0] + PANEL_GAP), float(y)

    return [place(npu) for npu in range(nodes)]


def _curved(a: Point, b: Point) -> list[Point]:
    """From a node of a grid to the middle of the link to another one. One that passes others, or leads to another grid,
    bends around them.
    """
    across, down = b[0] - a[0], b[1] - a[1]
    length = math.hypot(across, down)
    if length <= 1:
        return [a, (a[0] + across / 2, a[1] + down / 2)]
    # To the same side for both directions.
    side = 1 if (across, down) > (0, 0) else -1
    off = BEND * (1 + length / 12)
    share = [i / ARC for i in range(ARC // 2 + 1)]
    bent = [4 * off * t * (1 - t) * side for t in share]
    return [
        (a[0] + across * t + down / length * by, a[1] + down * t - across / length * by)
        for t, by in zip(share, bent, strict=True)
    ]


def _rows(nodes: Sequence[str], links: Sequence[_Link], npus: set[str]) -> list[list[str]]:
    """Nodes by how many links they are away from an NPU, the NPUs first."""
    near = defaultdict(list)
    for link in links:
        near[link.dst].append(link.src)
        near[link.src].append(link.dst)
    depth = dict.fromkeys((node for node in nodes if node in npus), 0)
    row = list(depth)
    while row:
        further = [other for node in row for other in near[node] if other not in depth]
        depth.update((other, depth[row[0]] + 1) for other in further)
        row = list(dict.fromkeys(further))
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for node, distance in depth.items():
        rows[distance].append(node)
    return [row for row in rows if row]


def _circle(nodes: Sequence[str]) -> dict[str, Point]:
    angles = [math.tau * i / len(nodes) for i in range(len(nodes))]
    return {node: (math.sin(angle), math.cos(angle)) for node, angle in zip(nodes, angles, strict=True)}


def _placed(rows: Sequence[Sequence[str]], links: Sequence[_Link]) -> dict[str, Point]:
    """Every row across the whole width, each node near the middle of those below that it is linked to."""
    at: dict[str, Point] = {}
    for depth, row in enumerate(rows):
        order: Sequence[str] = row
        if depth:
            sums: dict[str, float] = defaultdict(float)
            counts: Counter[str] = Counter()
            for link in links:
                if link.dst in row and link.src in at:
                    sums[link.dst] += at[link.src][0]
                    counts[link.dst] += 1
            order = sorted(row, key=lambda node: sums[node] / max(1, counts[node]))
        at.update((node, ((i + 0.5) / len(row), depth * ROW)) for i, node in enumerate(order))
    return at


def _line(a: Point, b: Point, *, rows: bool) -> list[Point]:
    """From a node to the middle of the line to another one. Between nodes of a row it is an arc below that."""
    if not rows or a[1] != b[1]:
        return [a, ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)]
    depth = ROW * min(0.75, 0.12 + abs(a[0] - b[0]))
    share = [i / ARC for i in range(ARC // 2 + 1)]
    return [(a[0] + (b[0] - a[0]) * t, a[1] - depth * 4 * t * (1 - t)) for t in share]


def _traces(
    name: str, most: float, links: Sequence[_Link], halves: Sequence[Sequence[Point]], *, choose: bool
) -> list[Any]:
    """The lines of all links, a trace for each shade, and a point on each that says how much it is."""
    scale = top(name, most)
    visible: dict[str, Any] = {"visible": name == BUSY, "meta": {"option": name}} if choose else {}
    shades: dict[int, list[Point | tuple[None, None]]] = defaultdict(list)
    for link, half in zip(links, halves, strict=True):
        shade = min(SHADES - 1, int(SHADES * link.values[name] / scale))
        shades[shade] += [*half, (None, None)]
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [None if point[0] is None else significant(point[0], 5) for point in shades[shade]],
            "y": [None if point[1] is None else significant(point[1], 5) for point in shades[shade]],
            "line": {"color": f"@heat:{(shade + 0.5) / SHADES}", "width": 1.5 + 3.5 * shade / SHADES},
            "hoverinfo": "skip",
            **visible,
        }
        for shade in sorted(shades)
    ]
    # Away from the middle, where the link back ends too.
    points = [tuple(a + 0.6 * (b - a) for a, b in zip(half[-2], half[-1], strict=True)) for half in halves]
    return [
        *lines,
        {
            "type": "scatter",
            "mode": "markers",
            "x": [significant(x, 5) for x, _ in points],
            "y": [significant(y, 5) for _, y in points],
            "text": [chart_text(f"{link.src} to {link.dst}") for link in links],
            "marker": {
                "size": 7,
                "color": [significant(link.values[name], 4) for link in links],
                "colorscale": "@heat",
                "cmin": 0,
                "cmax": significant(scale, 4),
                "line": {"width": 1, "color": "@line-strong"},
                "colorbar": colour_bar(name),
            },
            "hovertemplate": f"%{{text}}: {said(name, 'marker.color')}",
            **visible,
        },
    ]


def _labels(row: Sequence[str]) -> list[str]:
    """The names of a row; where there is no room, their last words, which are numbers; or nothing."""
    last = [name.rsplit(" ", maxsplit=1)[-1] for name in row]
    fitting = (names for names in (list(row), last) if sum(len(name) + 2 for name in names) <= ROW_LETTERS)
    return next(fitting, [""] * len(row))


def _nodes(rows: Sequence[Sequence[str]], at: Mapping[str, Point]) -> dict[str, Any]:
    nodes = [(depth, node) for depth, row in enumerate(rows) for node in row]
    labels = {node: label for row in rows for node, label in zip(row, _labels(row), strict=True)}
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [significant(at[node][0], 5) for _, node in nodes],
        "y": [significant(at[node][1], 5) for _, node in nodes],
        "text": [chart_text(labels[node]) for _, node in nodes],
        "customdata": [chart_text(node) for _, node in nodes],
        "textposition": ["bottom center" if depth == 0 else "top center" for depth, _ in nodes],
        "cliponaxis": False,
        "marker": {
            "size": 13,
            "symbol": ["circle" if depth == 0 else "square" for depth, _ in nodes],
            "color": "@raised",
            "line": {"width": 1.5, "color": "@text"},
        },
        "hovertemplate": "%{customdata}<extra></extra>",
    }
