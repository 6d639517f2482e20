"""Trees drawn on the GPUs that take part: one colour a tree, arrows from its root outwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncline.fabric.circle_layout import HEIGHT, WIDTH, places
from syncline.fabric.graph import Graph
from syncline.fabric.shapes import Box, Drawing, Point, Wire
from syncline.fabric.svg import render
from syncline.treegen.packing import TOWARDS_ROOT, Packing
from syncline.treegen.question import Question

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
    packing = _drawn(packing)
    rate = float(packing.rate / question.link_unit)
    return _drawing(graph, [Part(question, packing)], f"{len(packing.trees)} trees, {rate:g} links together")


def of_parts(graph: Graph, parts: Sequence[Part]) -> Drawing:
    """Trees over several kinds of links in one picture, their numbers one after the other."""
    unit = parts[0].question.link_unit
    said = (
        f"{len(part.packing.trees)} trees{part.over}, {float(part.packing.rate / unit):.4g} links together"
        for part in parts
    )
    return _drawing(graph, parts, "; ".join(said))


@dataclass(frozen=True, slots=True)
class Part:
    """Trees over one kind of links."""

    question: Question
    packing: Packing
    over: str = ""
    """Which links these are, such as ` over PCIe`."""
    double: bool = False
    """Whether their lines are double."""


def _drawn(packing: Packing) -> Packing:
    """Of an all-reduce in two stages, the broadcast, whose trees have the shape that people know."""
    return packing.stages[-1] if packing.stages else packing


def _drawing(graph: Graph, given: Sequence[Part], subtitle: str) -> Drawing:
    parts = [replace(part, packing=_drawn(part.packing)) for part in given]
    question, packing = parts[0].question, parts[0].packing
    if packing.collective in TOWARDS_ROOT:
        subtitle += "; data goes against the arrows"
    drawn = Drawing(f"{packing.collective} on {graph.name}", subtitle)
    at = centres(len(question.gpus))
    roots = {tree.root for part in parts for tree in part.packing.trees}
    for rank, gpu in enumerate(question.gpus):
        name = graph.nodes[gpu].name
        label = f"{name} *" if len(roots) == 1 and rank in roots else name
        drawn.boxes.append(Box(*at[rank], WIDTH, HEIGHT, label[:14], "npu", name, small=len(label) > SHORT))
    between: dict[tuple[int, int], int] = {}
    for part in parts:
        _add(drawn, graph, part, between)
    more = sum(len(part.packing.trees) for part in parts) - len(drawn.legend)
    if more:
        drawn.notes.append(f"{more} more trees are not drawn")
    if len(roots) == 1:
        drawn.notes.append("* the root of all trees")
    return drawn


def _add(drawn: Drawing, graph: Graph, part: Part, between: dict[tuple[int, int], int]) -> None:
    """Draws the trees of a part; `between` has the lines that are there, by the places of their ends."""
    question, packing = part.question, part.packing
    at = centres(len(question.gpus))
    unit, first = question.link_unit, len(drawn.legend) + 1
    trees = packing.trees[: max(0, MOST_TREES - len(drawn.legend))]
    heaviest = max((tree.weight for tree in trees), default=1)
    for number, tree in enumerate(trees, start=first):
        kind = f"tree {number}"
        root = graph.nodes[question.gpus[tree.root]].name
        weight = f"weight {float(tree.weight / unit):.4g}, depth {tree.depth(packing.arcs)}"
        drawn.legend.append((kind, f"{kind}{part.over}: root {root}, {weight}"))
        for arc in (*tree.arcs, *(tree.back or ())):
            src, dst = packing.arcs[arc].src, packing.arcs[arc].dst
            pair = min(src, dst), max(src, dst)
            place = between.get(pair, 0)
            between[pair] = place + 1
            shift = APART * (-1) ** place * ((place + 1) // 2) * (1 if src < dst else -1)
            title = (
                f"{kind}{part.over}: {graph.nodes[question.gpus[src]].name} to {graph.nodes[question.gpus[dst]].name}"
            )
            width = 1.2 + 1.6 * float(tree.weight / heaviest)
            drawn.wires.append(Wire(" ".join(_arrow(at[src], at[dst], shift)), kind, width, title, part.double))


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
