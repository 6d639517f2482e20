"""Which trees to take: few ones, shallow ones, or those that are predicted to be fastest for a size.

Data goes along a tree in slices, one behind the other: with `k` of them, a tree of depth `d` takes the time of `k + d
- 1` slices (Blink, section 4.2.1 and Fig. 11). A slice takes the time of its bytes and an overhead `a`. All trees end
at the same time when each has bytes in proportion to its weight; with the best number of slices

    T = S/W + (d - 1) a + 2 sqrt((d - 1) a S/W)

where `S` is the size, `W` the rate of all trees and `d` the largest depth, twice that in an all-reduce. So deep trees
cost time when the size is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from syncline.trees import fewest
from syncline.trees.packing import TASKS, Packing, Tree

Objective: TypeAlias = Literal["time", "trees", "depth"]

OBJECTIVES: Final[tuple[Objective, ...]] = ("time", "trees", "depth")
OVERHEAD_S: Final = 5e-6
"""What a slice takes beside its bytes: the commands that copy it and say that it is there (section 4.2.1 counts at
least three); an assumption, for the choice of trees only."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Trees, and how many there have to be."""

    trees: tuple[Tree, ...]
    at_least: int | None
    """No choice of the same rate has fewer trees; None where that was not found out."""


def hops(packing: Packing, trees: Sequence[Tree]) -> int:
    """The most arcs that a slice passes: up and down again in an all-reduce."""
    return max(tree.depth(packing.arcs) for tree in trees) * (2 if packing.collective == "all-reduce" else 1)


def seconds(packing: Packing, trees: Sequence[Tree], size: int, overhead_s: float = OVERHEAD_S) -> float:
    """The predicted time of so many bytes, with an overhead for each slice."""
    carried = size / float(sum(tree.weight for tree in trees) * packing.roots)
    further = (hops(packing, trees) - 1) * overhead_s
    return carried + further + 2 * math.sqrt(further * carried)


def slices(packing: Packing, trees: Sequence[Tree], size: int, overhead_s: float = OVERHEAD_S) -> int:
    """The number of slices with which trees take that time."""
    carried = size / float(sum(tree.weight for tree in trees))
    return max(1, round(math.sqrt((hops(packing, trees) - 1) * carried / overhead_s)))


def of(
    packing: Packing, objective: Objective, size: int, threshold: float = 0.0, overhead_s: float = OVERHEAD_S
) -> Chosen:
    """The trees for an objective. Of collectives from all roots at once, and of all-reduces, the trees of each root
    are those that the engine found.
    """
    if not packing.trees or TASKS[packing.collective] != "from-root":
        return Chosen(packing.trees, None)
    few = fewest.of(packing, threshold=threshold)
    if objective == "trees":
        return Chosen(few.trees, few.at_least)
    shallow = fewest.shallowest(packing)
    if objective == "depth":
        return Chosen(shallow.trees, few.at_least)
    best = min((few.trees, shallow.trees), key=lambda trees: (seconds(packing, trees, size, overhead_s), len(trees)))
    return Chosen(best, few.at_least)
