"""Products of rings, full meshes and switches, link by link, for pictures and small fabrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from syncline.fabric.graph import Graph, Link, Node, both_ways, checked
from syncline.fabric.topology import Dimension, Topology

MAX_NPUS: Final = 4096


def graph(topology: Topology) -> Graph:
    """The fabric of a product of up to `MAX_NPUS` NPUs. Its classes are the dimensions."""
    nodes = [Node(f"NPU {npu}", "npu") for npu in range(topology.npus)]
    links: list[Link] = []
    stride = 1
    for number, dim in enumerate(topology.dims):
        starts = [npu for npu in range(topology.npus) if npu // stride % dim.size == 0]
        for index, start in enumerate(starts if dim.size > 1 else []):
            line = [start + step * stride for step in range(dim.size)]
            if dim.block == "switch":
                nodes.append(Node(f"switch {index} of dimension {number}", "switch"))
                pairs = [(npu, len(nodes) - 1) for npu in line]
            elif dim.block == "ring":
                pairs = list(zip(line, [*line[1:], line[0]], strict=True))
            else:
                pairs = [(a, b) for place, a in enumerate(line) for b in line[place + 1 :]]
            links += _links(pairs, dim, class_name(number))
        stride *= dim.size
    return checked(Graph(str(topology), tuple(nodes), tuple(both_ways(links))))


def class_name(dimension: int) -> str:
    """The class of the links of a dimension."""
    return f"dimension {dimension}"


def _links(pairs: list[tuple[int, int]], dim: Dimension, kind: str) -> Iterator[Link]:
    for a, b in pairs:
        yield Link(a, b, dim.rate, dim.latency, kind, dim.links, dim.efficiency)
