"""Trees over switches whose links are unequal either way: the best ones that there are.

The engine removes switches before it looks for trees. That loses nothing where as much comes into every node as goes
out of it. Elsewhere, how switches are removed decides what is left, and since they make no copies, the bound of the
cuts may be out of reach. So where trees do not reach it, they are those of a linear program over all trees whose edges
pass links and switches: from the root, from all roots with equal rates, or for an all-reduce to roots and from them, as
much of the one as of the other. Trees that are worth it are added (`columns`): at prices of links, an edge costs what
the cheapest way between its GPUs does, and the engine finds the cheapest tree of these (Edmonds 1967). Once no tree is
cheaper than what it gains, none are faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise
from typing import Final

from syncline.treegen.columns import NOTHING, ROUNDS, Program, Way, cheapest_ways
from syncline.treegen.packing import MOST_UNEQUAL, TASKS, TOWARDS_ROOT, Arc, Packing, Tree, ask_network
from syncline.treegen.question import Question

OF_A_LINK: Final = 1e-10
"""What a link costs beside its price: of ways and trees of equal price, those over few links are taken."""

Link = tuple[int, int]
"""Two nodes, in the direction of data."""
Spanning = tuple[Way, ...]
"""The edges of a tree, from its root on; of a tree to the root, the last ones of the data first."""


@dataclass(frozen=True, slots=True)
class _Want:
    """Trees that are asked for: away from a root, or to it."""

    root: int
    to_root: bool


def improved(question: Question, packing: Packing, root: int | None) -> Packing | None:
    """A packing with the best trees over switches, where its own do not reach its bound; None where that says nothing,
    or of too many GPUs. The root is that of the collective, or of an all-reduce whose trees all have the same root.
    """
    gpus = len(question.gpus)
    is_all_reduce = packing.collective == "all-reduce"
    is_moved = is_all_reduce and root is not None
    may_gain = packing.rate < packing.best_rate or is_moved
    if not may_gain or len(question.nodes) == gpus or gpus > MOST_UNEQUAL:
        return None
    if is_all_reduce and len(packing.components) > 1:
        return None
    backward = packing.collective in TOWARDS_ROOT
    capacity = {(dst, src) if backward else (src, dst): rate for src, dst, rate in question.arcs}
    roots = list(range(gpus)) if root is None else [root]
    # A rate is one of all roots if all have to send.
    apart = [[place] for place in roots] if is_all_reduce else [roots]
    ways = (False, True) if is_all_reduce else (False,)
    rates = [[_Want(place, to_root) for place in places for to_root in ways] for places in apart]
    assert packing.bound is not None
    unit = max(capacity.values())
    search = _Search(gpus, capacity, rates, unit)
    is_best = search.run(float(packing.bound.rate / unit))
    weights = search.weights()
    if weights is None:
        return None
    found = _packed(question, packing, capacity, weights)
    better = found if found.rate > packing.rate or is_moved else packing
    # Trees from other roots than a given one may be faster.
    return replace(better, is_best=is_best and not is_moved)


class _Search:
    """The linear program: a row for each link and for each want, a column for each rate and for each tree."""

    def __init__(self, gpus: int, capacity: Mapping[Link, int], rates: Sequence[Sequence[_Want]], unit: int) -> None:
        self.gpus = gpus
        self.links = {link: row for row, link in enumerate(capacity)}
        self.wants = {want: row for row, want in enumerate(chain.from_iterable(rates), start=len(capacity))}
        self.program = Program([*capacity.values(), *(0 for _ in self.wants)], unit)
        for wants in rates:
            self.program.add({self.wants[want]: 1 for want in wants}, 1)
        self.of_rates = [[self.wants[want] for want in wants] for wants in rates]
        self.trees: dict[tuple[_Want, Spanning], None] = {}

    def run(self, limit: float) -> bool:
        """Adds trees until none is worth it, or their rate is the limit, in the unit; whether that has come about."""
        prices = [0.0] * len(self.links) + [1.0] * len(self.wants)
        for _ in range(ROUNDS):
            if not self._add(prices):
                return True
            prices = self.program.prices()
            if self.program.gained() >= limit * (1 - NOTHING):
                return True
        return False

    def _add(self, prices: Sequence[float]) -> bool:
        """Adds the cheapest tree of each want, if it is worth it; whether any is."""
        edges = list(_edges(self.gpus, self.links, prices))
        is_any = False
        for want, row in self.wants.items():
            tree = _cheapest(self.gpus, edges, want)
            uses = {row: -1}
            for link in (link for edge in tree for link in pairwise(edge)):
                uses[self.links[link]] = uses.get(self.links[link], 0) + 1
            cost = sum(prices[link] * times for link, times in uses.items() if link != row)
            if cost < prices[row] - NOTHING and (want, tree) not in self.trees:
                self.trees[want, tree] = None
                self.program.add(uses, 0)
                is_any = True
        return is_any

    def weights(self) -> list[tuple[_Want, Spanning, Fraction]] | None:
        """The trees with their weights, of each want as much as its rate; None where rounding got in the way."""
        values = self.program.exact()
        if values is None:
            return None
        left = {row: rate for rate, rows in zip(values, self.of_rates, strict=False) for row in rows}
        found = []
        for (want, tree), value in zip(self.trees, values[len(self.of_rates) :], strict=True):
            weight = min(value, left[self.wants[want]])
            if weight:
                left[self.wants[want]] -= weight
                found.append((want, tree, weight))
        return found


def _edges(gpus: int, links: Mapping[Link, int], prices: Sequence[float]) -> Iterator[tuple[float, Way]]:
    """The cheapest way from every GPU to every other one, over switches alone."""
    leaving: dict[int, list[tuple[int, float]]] = {}
    for (src, dst), row in links.items():
        leaving.setdefault(src, []).append((dst, prices[row] + OF_A_LINK))
    return ((cost, way) for cost, _, way in cheapest_ways(gpus, leaving))


def _cheapest(gpus: int, edges: Sequence[tuple[float, Way]], want: _Want) -> Spanning:
    """The cheapest tree of these edges."""
    ends = [(way[-1], way[0]) if want.to_root else (way[0], way[-1]) for _, way in edges]
    costs = [cost for cost, _ in edges]
    task = {"kind": "cheapest", "root": want.root, "costs": costs, "least": [1]}
    (tree,) = ask_network(gpus, gpus, [(*pair, 1) for pair in ends], task)["trees"]
    leaving: dict[int, list[int]] = {}
    for number in sorted(tree):
        leaving.setdefault(ends[number][0], []).append(number)
    order = list(leaving.get(want.root, ()))
    for number in order:
        order += leaving.get(ends[number][1], ())
    return tuple(edges[number][1] for number in order)


def _packed(
    question: Question,
    packing: Packing,
    capacity: Mapping[Link, int],
    weights: Sequence[tuple[_Want, Spanning, Fraction]],
) -> Packing:
    """The packing with these trees: its arcs over switches have what the trees take, others have their links."""
    taken: dict[Way, Fraction] = {}
    for _, tree, weight in weights:
        for edge in tree:
            taken[edge] = taken.get(edge, Fraction(0)) + weight
    backward = packing.collective in TOWARDS_ROOT
    single = {(dst, src) if backward else (src, dst): Fraction(rate) for src, dst, rate in question.single}
    number = {edge: place for place, edge in enumerate(sorted(taken))}
    arcs = []
    for edge in number:
        ends, via = (edge[0], edge[-1]), edge[1:-1]
        rate = taken[edge] if via else Fraction(capacity[ends])
        arcs.append(Arc(*ends, rate, via, None if via else single.get(ends)))
    listed: dict[_Want, list[tuple[tuple[int, ...], Fraction]]] = {}
    for want, tree, weight in weights:
        listed.setdefault(want, []).append((tuple(number[edge] for edge in tree), weight))
    trees: list[Tree] = []
    for want, away in listed.items():
        if packing.collective == "all-reduce" and not want.to_root:
            trees += _both_ways(want.root, away, listed[_Want(want.root, True)])
        elif not want.to_root:
            trees += (Tree(want.root, weight, tree) for tree, weight in away)
    return replace(
        packing,
        arcs=tuple(arcs),
        opposite=tuple(number.get(edge[::-1]) for edge in number),
        trees=tuple(trees),
        own=len(arcs) if TASKS[packing.collective] == "from-root" else None,
        few=(),
    )


def _both_ways(
    root: int, away: list[tuple[tuple[int, ...], Fraction]], back: list[tuple[tuple[int, ...], Fraction]]
) -> Iterator[Tree]:
    """Trees from a root, each with one to it of the same weight."""
    ways = [list(away), list(back)]
    while all(ways):
        weight = min(way[0][1] for way in ways)
        yield Tree(root, weight, ways[0][0][0], ways[1][0][0])
        for way in ways:
            tree, rest = way[0][0], way[0][1] - weight
            way[:1] = [(tree, rest)] if rest else []
