"""Draws NPUs that are linked to each other on a circle, and what forwards inside of it."""

from __future__ import annotations

import math
from typing import Final

from syncline.fabric.graph import Graph
from syncline.fabric.shapes import Box, Drawing, Point, straight
from syncline.fabric.wiring import pairs, wires

MOST_DRAWN: Final = 48
"""NPUs of a picture."""
SLOT: Final = 84.0
"""Of the circumference, for an NPU."""
WIDTH, HEIGHT = 66.0, 32.0


def places(count: int) -> list[Point]:
    """Places on a circle, from the top clockwise."""
    radius = max(100.0, count * SLOT / math.tau)
    angles = [math.tau * index / count - math.pi / 2 for index in range(count)]
    return [(round(radius * math.cos(angle), 3), round(radius * math.sin(angle), 3)) for angle in angles]


def lay_out(drawing: Drawing, graph: Graph, taking_part: frozenset[int]) -> None:
    """Adds the shapes of a fabric."""
    at = dict(enumerate(places(graph.npus)))
    inner = range(graph.npus, len(graph.nodes))
    near: dict[int, list[int]] = {node: [] for node in inner}
    for pair in pairs(graph):
        for node, other in ((pair.a, pair.b), (pair.b, pair.a)):
            if node in near and other < graph.npus:
                near[node].append(other)
    for index, node in enumerate(inner):
        x = sum(at[npu][0] for npu in near[node]) / max(1, len(near[node]))
        y = sum(at[npu][1] for npu in near[node]) / max(1, len(near[node]))
        at[node] = (0.45 * x, 0.45 * y + (index - (len(inner) - 1) / 2) * (HEIGHT + 12))
    drawing.wires += wires(graph, taking_part, lambda pair: straight(at[pair.a], at[pair.b]), at)
    for index, what in enumerate(graph.nodes):
        idle = what.kind == "npu" and index not in taking_part
        width = max(WIDTH, 7.2 * min(len(what.name), 14) + 12)
        drawing.boxes.append(Box(*at[index], width, HEIGHT, what.name[:14], what.kind, what.name, idle))
