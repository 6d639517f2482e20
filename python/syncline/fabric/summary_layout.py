"""Draws what is too large to draw: a card per dimension of a product, or per kind of node."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from syncline.fabric import description
from syncline.fabric.graph import NODE_KINDS, Graph, Node, NodeKind, Routing
from syncline.fabric.product import class_name
from syncline.fabric.shapes import Box, Drawing, Frame, Point, Text, Wire, curve, straight
from syncline.fabric.topology import Dimension, Topology

CARD_WIDTH, CARD_HEIGHT = 230.0, 290.0
STEP: Final = 268.0
RADIUS: Final = 72.0
MOST_DOTS: Final = 12
KIND_STEP: Final = 240.0


def dimensions(drawing: Drawing, topology: Topology) -> None:
    """Adds a card for every dimension: how its lines look, and how many there are."""
    shown = [(number, dim) for number, dim in enumerate(topology.dims) if dim.size > 1]
    for index, (number, dim) in enumerate(shown):
        x = index * STEP
        drawing.frames.append(Frame(x - CARD_WIDTH / 2, -118, CARD_WIDTH, CARD_HEIGHT, ""))
        _glyph(drawing, (x, -14.0), number, dim)
        name = {"ring": "ring", "fully-connected": "full mesh", "switch": "switch"}[dim.block]
        lines = topology.npus // dim.size
        many = f"{dim.links} x " if dim.links > 1 else ""
        said = (
            f"dimension {number}: {name} of {dim.size:,}",
            f"{many}{description.rate(dim.rate)} a link, {description.latency(dim.latency)}",
            f"{lines:,} such line{'' if lines == 1 else 's'}",
        )
        for row, text in enumerate(said):
            drawing.texts.append(Text(x, 108 + 20 * row, text, strong=row == 0))
        if index:
            drawing.texts.append(Text(x - STEP / 2, -8, "\u00d7", strong=True))


def _glyph(drawing: Drawing, centre: Point, number: int, dim: Dimension) -> None:
    """A line of the dimension, with up to `MOST_DOTS` NPUs."""
    kind, dots = class_name(number), min(dim.size, MOST_DOTS)
    angles = [math.tau * index / dots - math.pi / 2 for index in range(dots)]
    at = [(centre[0] + RADIUS * math.cos(angle), centre[1] + RADIUS * math.sin(angle)) for angle in angles]
    title = f"dimension {number}"
    if dim.block == "switch":
        drawing.wires += [Wire(straight(place, centre), kind, 2.0, title) for place in at]
        drawing.boxes.append(Box(*centre, 54, 24, "switch", "switch", title, small=True))
    elif dim.block == "ring":
        drawing.wires += [Wire(straight(a, b), kind, 2.0, title) for a, b in zip(at, [*at[1:], at[0]], strict=True)]
    else:
        pairs = [(a, b) for place, a in enumerate(at) for b in at[place + 1 :]]
        drawing.wires += [Wire(straight(a, b), kind, 1.4, title) for a, b in pairs]
    for index, place in enumerate(at):
        hidden = dots < dim.size and index == dots - 1
        drawing.boxes.append(Box(*place, 24, 18, "\u2026" if hidden else str(index), "npu", f"NPU {index}", small=True))


def kinds(drawing: Drawing, graph: Graph) -> None:
    """Adds a box for every kind of node, and a line for every class of links between two kinds. In a network of
    switches these are of several kinds, by what they are called.
    """
    names = {"npu": "NPU", "switch": "switch", "nic": "NIC", "cpu": "CPU"}
    layers = graph.routing != Routing()

    def of(node: Node) -> tuple[NodeKind, str]:
        layer = node.name.split(" ")[0] if layers and node.kind == "switch" else ""
        return node.kind, f"{layer} switch" if layer else names[node.kind]

    number = Counter(of(node) for node in graph.nodes)
    shown = sorted(number, key=lambda kind: NODE_KINDS.index(kind[0]))
    labels = {kind: description.counted(number[kind], kind[1]) for kind in shown}
    width = max(128.0, *(6.8 * len(label) + 16 for label in labels.values()))
    at = {kind: (index * (KIND_STEP + width - 128), 0.0) for index, kind in enumerate(shown)}
    between: Counter[tuple[tuple[NodeKind, str], tuple[NodeKind, str], str]] = Counter()
    for link in graph.links:
        ends = sorted((of(graph.nodes[link.src]), of(graph.nodes[link.dst])), key=shown.index)
        between[ends[0], ends[1], link.kind] += link.count
    places: Counter[tuple[tuple[NodeKind, str], tuple[NodeKind, str]]] = Counter()
    for (a, b, kind), count in between.items():
        level = places[a, b]
        places[a, b] += 1
        title = f"{count:,} {kind} links, both directions counted"
        (ax, ay), (bx, by) = at[a], at[b]
        lift = -(60.0 + 46 * level)
        if a == b:
            path, middle = curve((ax - 30, ay - 20), (ax + 30, ay - 20), (0, lift)), (ax, ay - 20 + 0.75 * lift)
        elif abs(shown.index(a) - shown.index(b)) == 1 and not level:
            path, middle = straight(at[a], at[b]), ((ax + bx) / 2, ay)
        else:
            path, middle = curve((ax, ay + 20), (bx, by + 20), (0, -lift)), ((ax + bx) / 2, ay + 20 - 0.75 * lift)
        drawing.wires.append(Wire(path, kind, 3.0, title, label=f"{count:,} x {kind}", at=middle))
    for named, label in labels.items():
        drawing.boxes.append(Box(*at[named], width, 44, label, named[0], label))
    drawing.notes.append("too large to draw node by node: kinds of nodes, and how many links there are between them")
