"""What trees put on the links of a machine, and how fast they are where messages share links.

A packing counts bytes: it is as fast as the fullest link allows if every message gets a share of a link in proportion
to its bytes. Networks give equal shares to connections, a connection being all messages from one GPU to another over
one way. Where those of a link have unequal loads, the heaviest gets too little while others leave gaps that it cannot
use, since trees pass on slice by slice. `factor` counts with equal shares, which is exact where loads are equal and
careful elsewhere; `together` with full links, for trees from and to all GPUs of several servers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

from syncline.treegen.packing import TASKS, TOWARDS_ROOT, Arc, Packing, Tree, sums
from syncline.treegen.question import Question

NEARLY: Final = Fraction(98, 100)
"""Of the best rate, what trees have that are as good."""
Way = tuple[int, ...]
"""The nodes that a message passes, with both ends."""


def messages(packing: Packing, trees: Sequence[Tree]) -> Iterator[tuple[Way, Fraction]]:
    """The ways of all messages of trees, and the bytes per second on them."""
    backward = packing.collective in TOWARDS_ROOT
    both = packing.collective == "all-reduce"
    for tree in trees:
        for number in tree.arcs:
            arc = packing.arcs[number]
            way = (arc.src, *arc.via, arc.dst)
            if not backward:
                yield way, tree.weight
            if backward or (both and tree.back is None):
                yield way[::-1], tree.weight
        for number in tree.back or ():
            arc = packing.arcs[number]
            yield (arc.src, *arc.via, arc.dst), tree.weight


def connections(packing: Packing, trees: Sequence[Tree]) -> dict[Way, Fraction]:
    """The bytes per second on each way."""
    return sums(trees, messages(packing, trees))


def on_links(ways: Mapping[Way, Fraction]) -> dict[tuple[int, int], list[Fraction]]:
    """By link, the loads of the connections that it carries."""
    found: dict[tuple[int, int], list[Fraction]] = {}
    for way, weight in ways.items():
        for link in pairwise(way):
            found.setdefault(link, []).append(weight)
    return found


def factor(asked: Question, ways: Mapping[Way, Fraction]) -> Fraction:
    """By how much all weights can grow until a connection has its equal share of a link; below 1 where they are too
    large already.
    """
    capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
    loads = on_links(ways).items()
    return min(Fraction(capacity[link]) / (len(each) * max(each)) for link, each in loads)


def together(asked: Question, ways: Mapping[Way, Fraction]) -> Fraction:
    """The same where a link is full as long as any connection has something to send. So it is where all GPUs send over
    many trees, of which none waits for another one: heavy connections take what light ones leave.
    """
    capacity = {(src, dst): rate for src, dst, rate in asked.arcs}
    return min(Fraction(capacity[link]) / sum(each) for link, each in on_links(ways).items())


def at_equal_shares(asked: Question, packing: Packing) -> Packing:
    """The same trees with weights that every connection can carry."""
    if not packing.trees:
        return packing
    grow = min(factor(asked, connections(packing, packing.trees)), Fraction(1))
    return replace(packing, trees=tuple(replace(tree, weight=tree.weight * grow) for tree in packing.trees))


def of_one_shape(asked: Question, packing: Packing, shape: Packing) -> Packing:
    """For a collective both ways, or from all roots, the trees of a broadcast: used both ways, or from every root. They
    have weights that every connection can carry.
    """
    ranks = len(asked.gpus)
    arcs = [arc for tree in shape.trees for number in tree.arcs for arc in both(shape.arcs[number])]
    arcs = list(dict.fromkeys(arcs))
    number = {(arc.src, arc.dst, arc.via): place for place, arc in enumerate(arcs)}
    opposite = tuple(number[arc.dst, arc.src, arc.via[::-1]] for arc in arcs)
    from_all = TASKS[packing.collective] == "from-all"
    trees: list[Tree] = []
    for tree in shape.trees:
        edges = [number[arc.src, arc.dst, arc.via] for arc in (shape.arcs[place] for place in tree.arcs)]
        for root in range(ranks) if from_all else (tree.root,):
            weight = tree.weight / ranks if from_all else tree.weight
            trees.append(Tree(root, weight, rooted(arcs, (*edges, *(opposite[edge] for edge in edges)), root)))
    grown = replace(packing, arcs=tuple(arcs), opposite=opposite, trees=tuple(trees))
    grow = factor(asked, connections(grown, grown.trees))
    return replace(grown, trees=tuple(replace(tree, weight=tree.weight * grow) for tree in trees))


def rooted(arcs: Sequence[Arc], edges: Collection[int], root: int) -> tuple[int, ...]:
    """Of the arcs of a tree both ways, those that lead away from a root."""
    leaving: dict[int, list[int]] = {}
    for edge in edges:
        leaving.setdefault(arcs[edge].src, []).append(edge)
    found: list[int] = []
    seen, waiting = {root}, [root]
    for node in waiting:
        for edge in leaving.get(node, ()):
            if arcs[edge].dst not in seen:
                seen.add(arcs[edge].dst)
                waiting.append(arcs[edge].dst)
                found.append(edge)
    return tuple(found)


def both(arc: Arc) -> tuple[Arc, Arc]:
    """An arc, and the one that leads the other way."""
    return arc, Arc(arc.dst, arc.src, arc.capacity, arc.via[::-1])
