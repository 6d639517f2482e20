"""Roots of the trees of an all-reduce.

A tree that is used both ways takes as much of each link one way as the other way, wherever its root is. So its root can
be moved at no cost in rate: to its centre, from where it is shallowest, or to a GPU that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

from syncline.treegen import directed, unequal
from syncline.treegen import packing as packed_trees
from syncline.treegen.packing import Packing, Tree
from syncline.treegen.question import Question


def moved(question: Question, packing: Packing, root: int | Literal["auto"] | None) -> Packing:
    """The trees of an all-reduce from a root; with `auto`, from the one root with which they are shallowest; without
    one, each from its centre. Where trees to the roots are others than those from them, roots stay where they are,
    unless one is given; that may cost rate. Trees that stand for those of all roots keep theirs.
    """
    if packing.generators:
        return packing
    if any(tree.back is not None for tree in packing.trees):
        if not isinstance(root, int):
            return packing
        return directed.improved(question, packing, root) or unequal.improved(question, packing, root)
    depths = [_depths(packing, tree) for tree in packing.trees]
    if isinstance(root, int):
        places = [root] * len(depths)
    elif root == "auto":
        deepest = [max(of_trees) for of_trees in zip(*depths, strict=True)]
        places = [deepest.index(min(deepest))] * len(depths) if deepest else []
    else:
        places = [
            tree.root if of_tree[tree.root] == min(of_tree) else of_tree.index(min(of_tree))
            for tree, of_tree in zip(packing.trees, depths, strict=True)
        ]
    return replace(packing, trees=_joined(map(partial(_from, packing), packing.trees, places)))


def of_stages(question: Question) -> int:
    """The root with which a reduce and then a broadcast take the least time together, by their rates."""
    up, down = (packed_trees.rates(question, kind) for kind in ("reduce", "broadcast"))
    return min(range(len(up)), key=lambda place: 1 / up[place] + 1 / down[place])


def _depths(packing: Packing, tree: Tree) -> list[int]:
    """The depth of a tree from every GPU: as far as the farther of the two GPUs that are farthest from each other."""
    first = _distances(packing, tree, tree.root)
    there = _distances(packing, tree, first.index(max(first)))
    back = _distances(packing, tree, there.index(max(there)))
    return [max(pair) for pair in zip(there, back, strict=True)]


def _distances(packing: Packing, tree: Tree, start: int) -> list[int]:
    """Of every GPU, the arcs of the tree between it and one of them."""
    distance = [0] * packing.gpus
    for number in _from(packing, tree, start).arcs:
        distance[packing.arcs[number].dst] = distance[packing.arcs[number].src] + 1
    return distance


def _from(packing: Packing, tree: Tree, root: int) -> Tree:
    """The same tree from another root: the arcs between both turn round."""
    if root == tree.root:
        return tree
    touching: dict[int, list[tuple[int, int]]] = {}
    for number in tree.arcs:
        arc, opposite = packing.arcs[number], packing.opposite[number]
        assert opposite is not None, "a tree that is used both ways has an opposite for each arc"
        touching.setdefault(arc.src, []).append((arc.dst, number))
        touching.setdefault(arc.dst, []).append((arc.src, opposite))
    order, reached = [root], {root}
    arcs = []
    for at in order:
        for to, number in touching[at]:
            if to not in reached:
                reached.add(to)
                order.append(to)
                arcs.append(number)
    return Tree(root, tree.weight, tuple(arcs))


def _joined(trees: Iterable[Tree]) -> tuple[Tree, ...]:
    """The trees, equal ones as one."""
    joined: dict[tuple[int, tuple[int, ...]], Tree] = {}
    for tree in trees:
        same = tree.root, tuple(sorted(tree.arcs))
        weight = tree.weight + (joined[same].weight if same in joined else 0)
        joined[same] = replace(joined.get(same, tree), weight=weight)
    return tuple(joined.values())
