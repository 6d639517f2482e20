"""Trees for links that messages share."""

from __future__ import annotations

from dataclasses import replace

from syncline.treegen import choice, pack
from syncline.treegen.loads import NEARLY, at_equal_shares, of_one_shape
from syncline.treegen.packing import IN_PARTS, TASKS, Packing
from syncline.treegen.question import Question


def on_shared_links(asked: Question, packed: Packing, root: int) -> Packing:
    """Trees for links that messages share, with weights that they have there: the given ones or, for collectives both
    ways or from all roots, those of a broadcast. Of those that are nearly as fast, it is the fewest that wait least for
    one another.
    """
    if not packed.trees:
        return packed
    found = [at_equal_shares(asked, packed)]
    if packed.collective in IN_PARTS:  # its paths are those of a flow, and each has a part of its own
        return found[0]
    if TASKS[packed.collective] != "from-root":
        one_way = pack.of(asked, "broadcast", root)
        for goal in ("depth", "trees"):
            shape = replace(one_way, trees=choice.of(one_way, goal, 0).trees)
            found.append(of_one_shape(asked, packed, shape))
    best = max(trees.rate for trees in found)
    return min((trees for trees in found if trees.rate >= NEARLY * best), key=lambda trees: len(trees.trees))


def both_ways(asked: Question, packed: Packing) -> Packing:
    """Trees of an all-reduce that take the same way to their roots as from them: the given ones, or if some do not,
    those of a broadcast.
    """
    if all(tree.back is None for tree in packed.trees):
        return packed
    return of_one_shape(asked, packed, pack.of(asked, "broadcast", 0))
