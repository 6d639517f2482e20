"""Which messages of trees have to name the nodes that they pass.

A tree's edge goes over the links that the trees were packed on. A message takes the route of the fabric: over as few
links as possible, and of these the fastest. Where that is the only best way and the one of the edge, a plan says
nothing. Elsewhere, such as where a switch stands beside a direct link, or two of them beside each other, it names the
nodes of the edge.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.fabric.graph import Graph
from syncline.treegen.question import Question

PROBE: Final = 2**20
"""Bytes of a message by which ways of as many links are compared, as in the engine (`topology::graph`)."""
PS_PER_S: Final = 10**12
MOST: Final = 1 << 14
"""Ways through different nodes that the engine tells apart on a fabric."""

Cost = tuple[int, int]
"""Links, and picoseconds of a message over one after the other."""


@dataclass(slots=True)
class Passing:
    """The ways of messages on a fabric."""

    graph: Graph
    asked: Question
    _leaving: dict[int, list[tuple[int, int]]] = field(init=False)
    _routes: dict[int, dict[int, int | None]] = field(default_factory=dict)
    told: set[tuple[str, ...]] = field(default_factory=set)
    """The names on all ways that have to name them."""
    _forward: bool | None = None
    """Whether GPUs forward, once it is known."""

    def __post_init__(self) -> None:
        self._leaving = _leaving(self.graph)

    def named(self, src: int, via: Sequence[int], dst: int) -> list[str] | None:
        """The names of the nodes between two GPUs of the question that a message passes, if it has to name them."""
        way = [self.asked.nodes[node] for node in (src, *via, dst)]
        before = {} if self._gpus_forward() else self._before(way[0])
        at = way[-1]
        for node in reversed(way[:-1]):
            if before.get(at) != node:
                names = tuple(self.graph.nodes[node].name for node in way[1:-1])
                self.told.add(names)
                return list(names)
            at = node
        return None

    def _gpus_forward(self) -> bool:
        """Whether nothing else connects some GPUs, so that the fabric's routes follow a tree (`topology::graph`)."""
        if self._forward is None:
            gpus = self.asked.gpus
            self._forward = any(dst not in self._before(src) for src in gpus for dst in gpus if src != dst)
        return self._forward

    def _before(self, src: int) -> dict[int, int | None]:
        """Of each node, the one before it on the best way from a GPU; None where several ways are equally good."""
        if src not in self._routes:
            self._routes[src] = _searched(self.graph, self._leaving, src)
        return self._routes[src]


def _searched(graph: Graph, leaving: dict[int, list[tuple[int, int]]], src: int) -> dict[int, int | None]:
    before: dict[int, int | None] = {}
    best: dict[int, Cost] = {src: (0, 0)}
    queue: list[tuple[Cost, int]] = [((0, 0), src)]
    while queue:
        cost, at = heapq.heappop(queue)
        if cost > best[at] or (at != src and graph.nodes[at].kind == "npu"):
            continue
        for there, time in leaving.get(at, ()):
            reached = cost[0] + 1, cost[1] + time
            if there not in best or reached < best[there]:
                best[there] = reached
                before[there] = at
                heapq.heappush(queue, (reached, there))
            elif reached == best[there] and there != src and before[there] != at:
                before[there] = None
    return before


def _leaving(graph: Graph) -> dict[int, list[tuple[int, int]]]:
    """By node, those that links lead to, and the picoseconds of a message over the fastest link of each."""
    fastest: dict[tuple[int, int], int] = {}
    for link in graph.links:
        rate = link.total_rate if link.is_bundle else link.payload_rate
        time = -(-PROBE * PS_PER_S // rate) + link.latency
        fastest[link.src, link.dst] = min(time, fastest.get((link.src, link.dst), time))
    found: dict[int, list[tuple[int, int]]] = {}
    for (src, dst), time in fastest.items():
        found.setdefault(src, []).append((dst, time))
    return found
