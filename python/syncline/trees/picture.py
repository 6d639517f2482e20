"""Trees drawn on the GPUs that take part: one colour a tree, arrows from its root outwards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from syncline.fabric.circle_layout import HEIGHT, WIDTH, places
from syncline.fabric.graph import Graph
from syncline.fabric.shapes import Box, Drawing, Point, Wire
from syncline.fabric.svg import render
from syncline.trees.packing import TOWARDS_ROOT, Packing
from syncline.trees.question import Question

MOST_TREES: Final = 16
"""Of more trees, the first ones are drawn."""
APART: Final = 5.0
"""Between the lines of two trees along the same link."""
SPREAD: Final = 1.7
"""Of places, beyond those of a machine without trees."""
CLEAR: Final = 6.0
"""Between a box and where lines end."""
HEAD: Final = 7.0
"""Of an arrow."""
SHORT: Final = 9
"""Letters that fit into a box; more are set smaller."""
TURN: Final = 0.45
"""Of the sides of its head, in radians."""


def svg(graph: Graph, question: Question, packing: Packing) -> str:
    """The picture of the trees of a packing as SVG."""
    return render(drawing(graph, question, packing))


def centres(count: int) -> list[Point]:
    """Where so many GPUs are drawn."""
    return [(SPREAD * x, SPREAD * y) for x, y in places(count)]


def drawing(graph: Graph, question: Question, packing: Packing) -> Drawing:
    """The trees of a packing as shapes; the wires of the first tree have the kind `tree 1`."""
    if packing.stages:  # the trees of its broadcast, which has the shape that people know
        packing = packing.stages[-1]
    unit, trees = question.link_unit, packing.trees[:MOST_TREES]
    rate = float(packing.rate / unit)
    subtitle = f"{len(packing.trees)} trees, {rate:g} links together"
    if packing.collective in TOWARDS_ROOT:
        subtitle += "; data goes against the arrows"
    drawn = Drawing(f"{packing.collective} on {graph.name}", subtitle)
    at = centres(len(question.gpus))
    roots = {tree.root for tree in packing.trees}
    for rank, gpu in enumerate(question.gpus):
        name = graph.nodes[gpu].name
        label = f"{name} *" if len(roots) == 1 and rank in roots else name
        drawn.boxes.append(Box(*at[rank], WIDTH, HEIGHT, label[:14], "npu", name, small=len(label) > SHORT))
    heaviest = max((tree.weight for tree in trees), default=1)
    between: dict[tuple[int, int], int] = {}
    for number, tree in enumerate(trees, start=1):
        kind = f"tree {number}"
        root = graph.nodes[question.gpus[tree.root]].name
        drawn.legend.append(
            (kind, f"{kind}: root {root}, weight {float(tree.weight / unit):.4g}, depth {tree.depth(packing.arcs)}")
        )
        for arc in (*tree.arcs, *(tree.back or ())):
            src, dst = packing.arcs[arc].src, packing.arcs[arc].dst
            pair = min(src, dst), max(src, dst)
            place = between.get(pair, 0)
            between[pair] = place + 1
            shift = APART * (-1) ** place * ((place + 1) // 2) * (1 if src < dst else -1)
            title = f"{kind}: {graph.nodes[question.gpus[src]].name} to {graph.nodes[question.gpus[dst]].name}"
            width = 1.2 + 1.6 * float(tree.weight / heaviest)
            drawn.wires.append(Wire(" ".join(_arrow(at[src], at[dst], shift)), kind, width, title))
    if len(packing.trees) > len(trees):
        drawn.notes.append(f"{len(packing.trees) - len(trees)} more trees are not drawn")
    if len(roots) == 1:
        drawn.notes.append("* the root of all trees")
    return drawn


def _arrow(src: Point, dst: Point, shift: float) -> Iterator[str]:
    """A line from one box to another, beside the direct one by so much, and the head of an arrow."""
    angle = math.atan2(dst[1] - src[1], dst[0] - src[0])
    aside = -math.sin(angle) * shift, math.cos(angle) * shift
    # Where the line leaves a box: by its side, or by its top or bottom.
    across, along = abs(math.cos(angle)), abs(math.sin(angle))
    clear = min((WIDTH / 2 + CLEAR) / max(across, 1e-9), (HEIGHT / 2 + CLEAR) / max(along, 1e-9))
    start = src[0] + clear * math.cos(angle) + aside[0], src[1] + clear * math.sin(angle) + aside[1]
    end = dst[0] - clear * math.cos(angle) + aside[0], dst[1] - clear * math.sin(angle) + aside[1]
    yield f"M {start[0]:.1f} {start[1]:.1f} L {end[0]:.1f} {end[1]:.1f}"
    for side in (-TURN, TURN):
        x, y = end[0] - HEAD * math.cos(angle + side), end[1] - HEAD * math.sin(angle + side)
        yield f"M {x:.1f} {y:.1f} L {end[0]:.1f} {end[1]:.1f}"
