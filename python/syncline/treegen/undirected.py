"""All-reduces over switches whose neighbours have unequal links: trees that are used both ways.

The engine removes switches before it looks for trees, as a fair crossbar where it may. That loses nothing for trees
from given roots; trees that are used both ways may need other shares: of a star with links of 1, 1 and 2, those that
lead to the third GPU need all of the others. So where trees do not reach the bound, and links are equal either way,
the trees are those of a linear program over all trees whose edges pass links and switches: as large weights as all
links carry. Trees are too many to be listed. Those that are worth it are added: at prices of links, an edge costs what
the cheapest way between its GPUs does, and the cheapest tree is a minimum spanning tree of these (column generation,
with the multipliers of the program as prices). Once no tree is cheaper than what it gains, none are faster.

Nothing is gained by other trees to the roots than those from them: half of either, used both ways, take as much.

HiGHS solves the programs in floating point. The weights that are stated solve the equations of its last basis in
fractions, and are checked link by link.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

from syncline.treegen import loads
from syncline.treegen.packing import Arc, Packing, Tree
from syncline.treegen.question import Question
from syncline.treegen.unequal import solved

MOST_GPUS: Final = 32
"""Of more GPUs, trees are those that the engine found: exact solutions would take too long."""
ROUNDS: Final = 1000
"""Linear programs that are solved at most; the trees of the last one are as good as they are."""
NOTHING: Final = 1e-9
"""Less than that is gained by rounding alone."""

Link = tuple[int, int]
"""Two nodes, the smaller one first."""
Edge = tuple[int, ...]
"""The nodes of a way between two GPUs, with both ends."""
Spanning = tuple[Edge, ...]
"""The edges of a tree."""


def improved(question: Question, packing: Packing) -> Packing:
    """The trees of an all-reduce, or faster ones if its trees do not reach the bound and links are equal either way."""
    gpus = len(question.gpus)
    capacity = {(src, dst): rate for src, dst, rate in question.arcs}
    is_even = all(capacity.get((dst, src)) == rate for (src, dst), rate in capacity.items())
    may_gain = packing.trees and packing.rate != packing.best_rate and len(question.nodes) != gpus
    if not may_gain or not is_even or gpus > MOST_GPUS:
        return packing
    links = {link: rate for link, rate in capacity.items() if link[0] < link[1]}
    weights = _weights(gpus, links, question.link_unit)
    if weights is None or sum(weights.values()) <= packing.rate:
        return packing
    return _with_trees(question, packing, weights)


def _weights(gpus: int, links: Mapping[Link, int], unit: int) -> dict[Spanning, Fraction] | None:
    """The trees of the linear program with their weights; None where rounding got in the way."""
    program = _Program(links, unit)
    for _ in range(ROUNDS):
        tree, cost = _cheapest(gpus, links, program.prices)
        if cost >= 1 - NOTHING or tree in program.trees:
            break
        program.add(tree)
    return program.exact()


class _Program:
    """The linear program over some trees: a row for each link, a column for each tree."""

    def __init__(self, links: Mapping[Link, int], unit: int) -> None:
        import highspy
        import numpy as np

        self.links = links
        self.row = {link: number for number, link in enumerate(links)}
        self.trees: dict[Spanning, int] = {}
        self.uses: list[dict[int, int]] = []
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1), ("presolve", "off")):
            solver.setOptionValue(option, value)
        nothing = np.array([], dtype=np.int32)
        for rate in links.values():
            solver.addRow(-highspy.kHighsInf, rate / unit, 0, nothing, np.array([]))
        self.solver: highspy.Highs = solver
        # Until trees share links, short ones are the cheapest.
        self.prices: list[float] = [0.0] * len(links)

    def add(self, tree: Spanning) -> None:
        """Solves the program with a tree more."""
        import highspy
        import numpy as np

        used: dict[int, int] = {}
        for edge in tree:
            for link in _passed(edge):
                used[self.row[link]] = used.get(self.row[link], 0) + 1
        self.trees[tree] = len(self.uses)
        self.uses.append(used)
        rows = np.array(sorted(used), dtype=np.int32)
        times = np.array([float(used[row]) for row in sorted(used)])
        self.solver.addCol(-1.0, 0.0, highspy.kHighsInf, len(used), rows, times)
        self.solver.run()
        self.prices = [max(0.0, -price) for price in self.solver.getSolution().row_dual]

    def exact(self) -> dict[Spanning, Fraction] | None:
        """The weights of the solver's basis in fractions, if links carry them."""
        import highspy

        basis = self.solver.getBasis()
        basic = [column for column, status in enumerate(basis.col_status) if status == highspy.HighsBasisStatus.kBasic]
        full = [row for row, status in enumerate(basis.row_status) if status != highspy.HighsBasisStatus.kBasic]
        if len(basic) != len(full):
            return None
        place = {column: number for number, column in enumerate(basic)}
        matrix: list[dict[int, Fraction]] = [{} for _ in full]
        for number, row in enumerate(full):
            for column in basic:
                if row in self.uses[column]:
                    matrix[number][place[column]] = Fraction(self.uses[column][row])
        rates = list(self.links.values())
        found = solved(matrix, [Fraction(rates[row]) for row in full])
        if found is None or any(weight < 0 for weight in found):
            return None
        load = [Fraction(0)] * len(rates)
        for column, weight in zip(basic, found, strict=True):
            for row, times in self.uses[column].items():
                load[row] += weight * times
        if any(carried > rate for carried, rate in zip(load, rates, strict=True)):
            return None
        trees = list(self.trees)
        return {trees[column]: weight for column, weight in zip(basic, found, strict=True) if weight}


def _cheapest(gpus: int, links: Mapping[Link, int], prices: Sequence[float]) -> tuple[Spanning, float]:
    """The cheapest tree at prices of links; of several, one over few links."""
    beside: dict[int, list[tuple[int, float]]] = {}
    for (one, two), price in zip(links, prices, strict=True):
        beside.setdefault(one, []).append((two, price))
        beside.setdefault(two, []).append((one, price))
    edges = []
    for src in range(gpus):
        seen: set[int] = set()
        queue: list[tuple[float, int, Edge]] = [(0.0, 0, (src,))]
        while queue:
            cost, hops, way = heapq.heappop(queue)
            at = way[-1]
            if at in seen:
                continue
            seen.add(at)
            if src < at < gpus:
                edges.append((cost, hops, way))
            if at == src or at >= gpus:  # GPUs do not forward
                for there, price in beside.get(at, ()):
                    if there not in seen:
                        heapq.heappush(queue, (cost + price, hops + 1, (*way, there)))
    group = list(range(gpus))
    tree, total = [], 0.0
    for cost, _, way in sorted(edges):
        one, two = group[way[0]], group[way[-1]]
        if one != two:
            group = [one if each == two else each for each in group]
            tree.append(way)
            total += cost
    return tuple(sorted(tree)), total


def _passed(edge: Edge) -> list[Link]:
    """The links of a way."""
    return [(min(ends), max(ends)) for ends in pairwise(edge)]


def _with_trees(question: Question, packing: Packing, weights: Mapping[Spanning, Fraction]) -> Packing:
    """The packing with these trees: its arcs over switches have what the trees take, others have their links."""
    taken: dict[Edge, Fraction] = {}
    for tree, weight in weights.items():
        for edge in tree:
            taken[edge] = taken.get(edge, Fraction(0)) + weight
    capacity = {(src, dst): rate for src, dst, rate in question.arcs}
    single = {(src, dst): Fraction(rate) for src, dst, rate in question.single}
    arcs: list[Arc] = []
    number: dict[Edge, int] = {}
    for edge, weight in sorted(taken.items()):
        for way in (edge, edge[::-1]):
            ends, via = (way[0], way[-1]), way[1:-1]
            number[way] = len(arcs)
            rate = weight if via else Fraction(capacity[ends])
            arcs.append(Arc(*ends, rate, via, None if via else single.get(ends)))
    opposite = tuple(number[arc.dst, *reversed(arc.via), arc.src] for arc in arcs)
    trees = []
    for tree, weight in weights.items():
        edges = [number[way] for edge in tree for way in (edge, edge[::-1])]
        trees.append(Tree(0, weight, loads.rooted(arcs, edges, 0)))
    return replace(packing, arcs=tuple(arcs), opposite=opposite, trees=tuple(trees), own=None, few=())
