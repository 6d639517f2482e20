"""Which trees to take, and from which root: few trees, shallow ones, or those that are predicted to be fastest.

Data goes along a tree in slices, one behind the other. How long that takes is predicted in `prediction`. So deep trees
cost time when the size is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from syncline.treegen import fewest, pack, prediction, roots
from syncline.treegen import packing as packed_trees
from syncline.treegen.packing import ROOTED, TASKS, Collective, Packing, Tree
from syncline.treegen.question import Question

Objective: TypeAlias = Literal["time", "trees", "depth"]

OBJECTIVES: Final[tuple[Objective, ...]] = ("time", "trees", "depth")
OVERHEAD_S: Final = 5e-6
"""What a slice takes beside its bytes: the commands that copy it and say that it is there (section 4.2.1 counts at
least three); an assumption, for the choice of trees only, where none is given."""
STAGES: Final[tuple[Collective, Collective]] = ("reduce", "broadcast")
KEPT: Final = 16
"""Packings and their trees that are kept."""
MOST_ROOTS: Final = 16
"""So many GPUs of equally good rate are compared by time as roots."""
BOTH_WAYS: Final = "both-ways"
ONE_AFTER_THE_OTHER: Final = "one-after-the-other"
"""How an all-reduce goes along trees: up and down at the same time, or first a reduce and then a broadcast."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Trees, and how many there have to be."""

    trees: tuple[Tree, ...]
    at_least: int | None
    """No choice of the same rate has fewer trees; None where that was not found out."""


def seconds(packing: Packing, trees: Sequence[Tree], size: int, overhead_s: float = OVERHEAD_S) -> float:
    """The predicted time of so many bytes, with an overhead for each slice."""
    return prediction.of(_stages(packing, trees), size, overhead_s).seconds


def slices(packing: Packing, trees: Sequence[Tree], size: int, overhead_s: float = OVERHEAD_S) -> int:
    """The number of slices with which trees take that time."""
    return prediction.of(_stages(packing, trees), size, overhead_s).slices


def _stages(packing: Packing, trees: Sequence[Tree]) -> tuple[Packing, ...]:
    return packing.stages or (replace(packing, trees=tuple(trees)),)


def of(
    packing: Packing, objective: Objective, size: int, threshold: float = 0.0, overhead_s: float = OVERHEAD_S
) -> Chosen:
    """The trees for an objective. Of collectives from all roots at once, of all-reduces, and of those in which each GPU
    has a part of its own, they are those that the engine found.
    """
    if not packing.trees or TASKS[packing.collective] != "from-root":
        return Chosen(packing.trees, None)
    few = _few(packing, threshold)
    if objective == "trees":
        return Chosen(few.trees, few.at_least)
    shallow = _shallow(packing)
    if objective == "depth":
        return Chosen(shallow.trees, few.at_least)
    best = min((few.trees, shallow.trees), key=lambda trees: (seconds(packing, trees, size, overhead_s), len(trees)))
    return Chosen(best, few.at_least)


# Trees for several sizes are asked for one after the other, and the sizes decide among the same few.
_few = lru_cache(KEPT)(lambda packing, threshold: fewest.of(packing, threshold=threshold))
_shallow = lru_cache(KEPT)(fewest.shallowest)
_packed = lru_cache(KEPT)(pack.of)


@dataclass(frozen=True, slots=True)
class Best:
    """Trees of a collective on a machine, with all that was chosen."""

    packing: Packing
    """With the trees that were chosen."""
    at_least: int | None
    """See [`Chosen`]."""
    predicted_s: dict[str, float] = field(default_factory=dict)
    """Of an all-reduce, the predicted time of either way to go along trees."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What trees are chosen for."""

    objective: Objective
    size: int
    threshold: float = 0.0
    """Of the rate, what may be given up for fewer trees."""
    overhead_s: float = OVERHEAD_S


def best(question: Question, collective: Collective, root: int | Literal["auto"] | None, goal: Goal) -> Best:
    """The trees of a collective. The root is a place in the list of GPUs, the first one if there is none. With `auto`,
    it is the GPU with the best rate, of these the one with the smallest predicted time, and then the first one. An
    all-reduce has any roots if none is given, and with `auto` a single one; of more than `question.MOST_GPUS`, where
    trees stand for others, none can be given.
    """

    def from_root(kind: Collective, place: int) -> Best:
        packed = _packed(question, kind, place)
        chosen = of(packed, goal.objective, goal.size, goal.threshold, goal.overhead_s)
        return Best(replace(packed, trees=chosen.trees), chosen.at_least)

    def time(found: Packing) -> float:
        return seconds(found, found.trees, goal.size, goal.overhead_s) if found.trees or found.stages else 0.0

    def fastest(kind: Collective) -> Best:
        rates = packed_trees.rates(question, kind)
        places = [place for place, rate in enumerate(rates) if rate == max(rates)][:MOST_ROOTS]
        candidates = [from_root(kind, place) for place in places]
        for place in sorted(set(range(len(rates))) - set(places), key=lambda place: (-rates[place], place)):
            # Over switches, trees may not reach the bound of their root, and those of another root be faster.
            if len(candidates) == MOST_ROOTS or rates[place] <= max(found.packing.rate for found in candidates):
                break
            candidates.append(from_root(kind, place))
        return min(candidates, key=lambda found: (-found.packing.rate, time(found.packing)))

    if collective in ROOTED:
        return fastest(collective) if root == "auto" else from_root(collective, root or 0)
    if collective != "all-reduce":
        return from_root(collective, 0)
    both = roots.moved(question, _packed(question, collective), root)
    if both.best_rate == 0:
        return Best(both, None)
    if both.generators:
        return Best(both, None, {BOTH_WAYS: time(both)})
    place = root if isinstance(root, int) else roots.of_stages(question)
    stages = tuple(from_root(kind, place).packing for kind in STAGES)
    after = replace(both, trees=(), stages=stages)
    predicted = {BOTH_WAYS: time(both)} if both.trees else {}
    if all(stage.trees for stage in stages):
        predicted[ONE_AFTER_THE_OTHER] = time(after)
    # Both ways, if anything but the time is to be best, and there are such trees.
    ways = list(predicted) if goal.objective == "time" else list(predicted)[:1]
    way = min(ways, key=predicted.__getitem__, default=BOTH_WAYS)
    return Best(after if way == ONE_AFTER_THE_OTHER else both, None, predicted)
