"""The drawing of a page: GPUs and their links, the trees upon them, and the sets of the certificate.

Trees are switched on and off by boxes to tick, without any script. All names of classes begin alike, and ids with the
name of the section, so that the drawing can be a part of any page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from syncline.fabric.graph import Graph
from syncline.fabric.shapes import Box, Drawing, Wire, straight
from syncline.fabric.svg import OTHER_COLOURS
from syncline.report.escape import html_text
from syncline.report.trees import picture
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

MARGIN: Final = 16.0
SET_NAMES: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LETTERS: Final = 12.0
"""Of names of GPUs, where these fit into their boxes."""
LETTER: Final = 0.58
"""The mean width of a letter, of its height."""
MOST_SCALE: Final = 1.4
DASHES: Final = ("", "7 4")
"""Lines of the trees that have the same colours as the first ones."""

_STYLE: Final = """
.trees-drawn input { margin: 0 .4rem 0 0; vertical-align: -.1em; }
.trees-drawn label { display: inline-block; margin: 0 1.1rem .25rem 0; font-size: .88rem; }
.trees-drawn label span { display: inline-block; width: 1.6em; margin-right: .4em; vertical-align: .25em; }
.trees-drawn label span { border-top: 3px solid; }
.trees-drawn svg text { fill: var(--text); font: 12px var(--sans); text-anchor: middle; }
.trees-drawn .trees-link { stroke: var(--line-strong); stroke-linecap: round; opacity: .45; }
.trees-drawn .trees-wire { fill: none; stroke-linecap: round; }
.trees-drawn .trees-gpu { fill: var(--raised); stroke: var(--line-strong); }
.trees-drawn .trees-cut { stroke: var(--exposed); stroke-width: 2.2; stroke-dasharray: 5 3; }
.trees-drawn svg .trees-set { font-weight: 700; stroke: var(--bg); stroke-width: 4px; paint-order: stroke; }
"""


def drawn(graph: Graph, question: Question, packing: Packing, name: str) -> str:
    """The drawing with the boxes that switch trees; their ids begin with the name, which no other drawing has."""
    shapes = picture.drawing(graph, question, packing)
    colours = {kind: _colour(number) for number, (kind, _) in enumerate(shapes.legend)}
    boxes = "".join(
        f'<label><input type="checkbox" id="{html_text(name)}-{number}" checked>'
        f'<span style="border-color:{colours[kind][0]};'
        f'border-top-style:{"dashed" if colours[kind][1] else "solid"}"></span>{html_text(words)}</label>'
        for number, (kind, words) in enumerate(shapes.legend, start=1)
    )
    hidden = "\n".join(
        f".trees-drawn:has(#{name}-{number}:not(:checked)) .trees-wire-{number} {{ display: none; }}"
        for number in range(1, len(shapes.legend) + 1)
    )
    svg = "\n".join(_svg(graph, question, packing, shapes, colours))
    notes = f'<p class="hint">{html_text(" ".join(_notes(question, packing, shapes)))}</p>'
    return (
        f"<style>{_STYLE}{hidden}</style>"
        f'<div class="trees-drawn">{boxes}<div class="figure" tabindex="0">{svg}</div>{notes}</div>'
    )


def sets_of(packing: Packing) -> dict[int, str]:
    """The names of the sets of the certificate, by the nodes that they hold; a single set has none."""
    if packing.bound is None or packing.bound.shares:
        return {}
    several = len(packing.bound.sets) > 1
    return {
        node: set_name(number) if several else "" for number, nodes in enumerate(packing.bound.sets) for node in nodes
    }


def set_name(number: int) -> str:
    """A letter, with a number where letters are used up."""
    letter = SET_NAMES[number % len(SET_NAMES)]
    return letter if number < len(SET_NAMES) else f"{letter}{number // len(SET_NAMES)}"


def _colour(number: int) -> tuple[str, str]:
    """The colour and the dashes of a tree."""
    turn, place = divmod(number, len(OTHER_COLOURS))
    return OTHER_COLOURS[place], DASHES[turn % len(DASHES)]


def _svg(
    graph: Graph, question: Question, packing: Packing, shapes: Drawing, colours: dict[str, tuple[str, str]]
) -> Iterator[str]:
    left, top, right, bottom = shapes.extent()
    width, height = right - left + 2 * MARGIN, bottom - top + 2 * MARGIN
    label = html_text(f"{shapes.title}: {shapes.subtitle}")
    yield (
        f'<svg role="img" aria-label="{label}" viewBox="{left - MARGIN:.1f} {top - MARGIN:.1f} {width:.1f} '
        f'{height:.1f}" style="max-width:{MOST_SCALE * width:.0f}px">'
    )
    yield from _links(graph, question)
    for wire in shapes.wires:
        yield _wire(wire, colours)
    sets = sets_of(packing)
    for place, box in enumerate(shapes.boxes):
        yield from _box(box, sets.get(place))
    yield "</svg>"


def _links(graph: Graph, question: Question) -> Iterator[str]:
    """Direct links between GPUs, as wide as they are many."""
    at = picture.centres(len(question.gpus))
    rates = {(src, dst): rate for src, dst, rate in question.arcs if max(src, dst) < len(question.gpus)}
    for (src, dst), rate in rates.items():
        if (dst, src) in rates and dst < src:
            continue
        many = rate / question.link_unit
        names = f"{graph.nodes[question.gpus[src]].name} and {graph.nodes[question.gpus[dst]].name}"
        title = f"<title>{html_text(names)}: {many:.4g} links each way</title>"
        path = straight(at[src], at[dst])
        yield f'<path class="trees-link" d="{path}" stroke-width="{min(16.0, 5 + 4 * many):.1f}">{title}</path>'


def _wire(wire: Wire, colours: dict[str, tuple[str, str]]) -> str:
    colour, dashes = colours[wire.kind]
    number = wire.kind.removeprefix("tree ")
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path class="trees-wire trees-wire-{number}" d="{wire.path}" stroke="{colour}" '
        f'stroke-width="{wire.width:.1f}"{dashed}><title>{html_text(wire.title)}</title></path>'
    )


def _box(box: Box, in_set: str | None) -> Iterator[str]:
    cut = "" if in_set is None else " trees-cut"
    place = f'x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}"'
    title = box.title if not in_set else f"{box.title}, set {in_set}"
    yield (
        f'<rect class="trees-gpu{cut}" {place} width="{box.width:.1f}" height="{box.height:.1f}" rx="6">'
        f"<title>{html_text(title)}</title></rect>"
    )
    # A style, since that of the section would go before an attribute.
    size = min(LETTERS, (box.width - 6) / (LETTER * max(1, len(box.label))))
    words = f'style="font-size:{size:.1f}px" pointer-events="none"'
    yield f'<text {words} x="{box.x:.1f}" y="{box.y + 4.2:.1f}">{html_text(box.label)}</text>'
    if in_set:
        corner = f'x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2 - 4:.1f}"'
        yield f'<text class="trees-set" pointer-events="none" {corner}>{html_text(in_set)}</text>'


def _notes(question: Question, packing: Packing, shapes: Drawing) -> Iterator[str]:
    if any(max(src, dst) < len(question.gpus) for src, dst, _ in question.arcs):
        yield "Grey: direct links between GPUs, wider where there are more."
    if packing.trees or packing.stages:
        yield "Arrows lead from the root of a tree outwards."
    if "against the arrows" in shapes.subtitle:
        yield "Data goes against the arrows."
    if packing.bound is not None and not packing.bound.shares:
        several = len(packing.bound.sets) > 1
        yield "Dashed: " + ("the sets of the certificate, by their letters." if several else "inside the cut.")
    for text in shapes.notes:
        yield f"{text[0].upper()}{text[1:]}."
