"""All-reduces over switches whose neighbours have unequal links: trees that are used both ways.

The engine removes switches before it looks for trees, as a fair crossbar where it may. That loses nothing for trees
from given roots; trees that are used both ways may need other shares: of a star with links of 1, 1 and 2, those that
lead to the third GPU need all of the others. So where trees do not reach the bound, and links are equal either way,
the trees are those of a linear program over all trees whose edges pass links and switches: as large weights as all
links carry. Trees that are worth it are added (`columns`): at prices of links, an edge costs what the cheapest way
between its GPUs does, and the cheapest tree is a minimum spanning tree of these. Once no tree is cheaper than what it
gains, none are faster.

Nothing is gained by other trees to the roots than those from them: half of either, used both ways, take as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from syncline.treegen import loads
from syncline.treegen.columns import NOTHING, ROUNDS, Program, Way, cheapest_ways
from syncline.treegen.packing import MOST_UNEQUAL, Arc, Packing, Tree
from syncline.treegen.question import Question

Link = tuple[int, int]
"""Two nodes, the smaller one first."""
Spanning = tuple[Way, ...]
"""The edges of a tree."""


def improved(question: Question, packing: Packing) -> Packing:
    """The trees of an all-reduce, or faster ones if its trees do not reach the bound and links are equal either way."""
    gpus = len(question.gpus)
    capacity = {(src, dst): rate for src, dst, rate in question.arcs}
    is_even = all(capacity.get((dst, src)) == rate for (src, dst), rate in capacity.items())
    may_gain = packing.trees and packing.rate != packing.best_rate and len(question.nodes) != gpus
    if not may_gain or not is_even or gpus > MOST_UNEQUAL:
        return packing
    links = {link: rate for link, rate in capacity.items() if link[0] < link[1]}
    weights = _weights(gpus, links, question.link_unit)
    if weights is None or sum(weights.values()) <= packing.rate:
        return packing
    return _with_trees(question, packing, weights)


def _weights(gpus: int, links: Mapping[Link, int], unit: int) -> dict[Spanning, Fraction] | None:
    """The trees of the linear program with their weights; None where rounding got in the way."""
    program = Program(list(links.values()), unit)
    row = {link: number for number, link in enumerate(links)}
    trees: dict[Spanning, None] = {}
    # Until trees share links, short ones are the cheapest.
    prices = [0.0] * len(links)
    for _ in range(ROUNDS):
        tree, cost = _cheapest(gpus, links, prices)
        if cost >= 1 - NOTHING or tree in trees:
            break
        used: dict[int, int] = {}
        for link in (link for edge in tree for link in _passed(edge)):
            used[row[link]] = used.get(row[link], 0) + 1
        trees[tree] = None
        program.add(used, 1)
        prices = program.prices()
    weights = program.exact()
    return None if weights is None else {tree: weight for tree, weight in zip(trees, weights, strict=True) if weight}


def _cheapest(gpus: int, links: Mapping[Link, int], prices: Sequence[float]) -> tuple[Spanning, float]:
    """The cheapest tree at prices of links; of several, one over few links."""
    beside: dict[int, list[tuple[int, float]]] = {}
    for (one, two), price in zip(links, prices, strict=True):
        beside.setdefault(one, []).append((two, price))
        beside.setdefault(two, []).append((one, price))
    edges = [found for found in cheapest_ways(gpus, beside) if found[2][0] < found[2][-1]]
    group = list(range(gpus))
    tree, total = [], 0.0
    for cost, _, way in sorted(edges):
        one, two = group[way[0]], group[way[-1]]
        if one != two:
            group = [one if each == two else each for each in group]
            tree.append(way)
            total += cost
    return tuple(sorted(tree)), total


def _passed(edge: Way) -> list[Link]:
    """The links of a way."""
    return [(min(ends), max(ends)) for ends in pairwise(edge)]


def _with_trees(question: Question, packing: Packing, weights: Mapping[Spanning, Fraction]) -> Packing:
    """The packing with these trees: its arcs over switches have what the trees take, others have their links."""
    taken: dict[Way, Fraction] = {}
    for tree, weight in weights.items():
        for edge in tree:
            taken[edge] = taken.get(edge, Fraction(0)) + weight
    capacity = {(src, dst): rate for src, dst, rate in question.arcs}
    single = {(src, dst): Fraction(rate) for src, dst, rate in question.single}
    arcs: list[Arc] = []
    number: dict[Way, int] = {}
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
