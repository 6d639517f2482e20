"""Links as wires: both directions and all parallel links between two nodes are one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from syncline.fabric import description
from syncline.fabric.graph import NVLINK, Graph
from syncline.fabric.shapes import Point, Wire, widths


@dataclass(frozen=True, slots=True)
class Pair:
    """Links of a class between two nodes, the first of which has the smaller number."""

    a: int
    b: int
    kind: str
    rate: int
    """Payload bytes per second of all of them, in the direction that has more."""
    count: int
    one_way: bool


def pairs(graph: Graph) -> list[Pair]:
    """All links, in order of appearance."""
    found: dict[tuple[int, int, str], dict[bool, tuple[int, int]]] = {}
    for link in graph.links:
        up = link.src < link.dst
        ends = (link.src, link.dst) if up else (link.dst, link.src)
        rate, count = found.setdefault((*ends, link.kind), {}).get(up, (0, 0))
        found[*ends, link.kind][up] = (rate + link.total_rate, count + link.count)
    return [
        Pair(a, b, kind, max(rate for rate, _ in ways.values()), max(n for _, n in ways.values()), len(ways) == 1)
        for (a, b, kind), ways in found.items()
    ]


def wires(
    graph: Graph, taking_part: frozenset[int], path: Callable[[Pair], str], at: Mapping[int, Point]
) -> Iterator[Wire]:
    """The lines of all links between nodes that have a place; those of idle NPUs are faint."""
    shown = [pair for pair in pairs(graph) if pair.a in at and pair.b in at]
    width = widths(pair.rate for pair in shown)
    for pair in shown:
        idle = any(graph.nodes[end].kind == "npu" and end not in taking_part for end in (pair.a, pair.b))
        between = f"{graph.nodes[pair.a].name} {'to' if pair.one_way else 'and'} {graph.nodes[pair.b].name}"
        direct = graph.nodes[pair.a].kind == graph.nodes[pair.b].kind == "npu"
        many = f"{pair.count} x " if pair.count > 1 else ""
        yield Wire(
            path=path(pair),
            kind=pair.kind,
            width=width[pair.rate],
            title=f"{between}: {many}{pair.kind}, {description.rate(pair.rate)}",
            double=direct and pair.count == 2,
            label=f"x{pair.count}" if direct and pair.count > 2 and pair.kind == NVLINK else "",
            at=((at[pair.a][0] + at[pair.b][0]) / 2, (at[pair.a][1] + at[pair.b][1]) / 2),
            idle=idle,
        )
