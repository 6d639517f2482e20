"""Optimal rates by looking at every set of GPUs, and checks of trees: no code is shared with what finds them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

Capacities = Mapping[tuple[int, int], Fraction | int]
"""Of ordered pairs of GPUs."""


def entering(capacity: Capacities, inside: frozenset[int]) -> Fraction:
    """What leads into a set."""
    return Fraction(sum(c for (src, dst), c in capacity.items() if src not in inside and dst in inside))


def _sets(gpus: Sequence[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(gpus)):
        yield from map(frozenset, itertools.combinations(gpus, size))


def from_root(capacity: Capacities, gpus: Sequence[int], root: int) -> Fraction:
    """The best rate of a broadcast: the least cut that separates the root (Edmonds)."""
    return min(entering(capacity, inside) for inside in _sets(gpus) if root not in inside)


def from_all(capacity: Capacities, gpus: Sequence[int]) -> Fraction:
    """The best rate of an all-gather, of the whole vector."""
    each = min(entering(capacity, inside) / (len(gpus) - len(inside)) for inside in _sets(gpus))
    return each * len(gpus)


def both_ways(capacity: Capacities, gpus: Sequence[int]) -> Fraction:
    """The best rate of an all-reduce on equal capacities both ways, over all partitions (Tutte, Nash-Williams)."""
    best = None
    for parts in partitions(list(gpus)):
        if len(parts) > 1:
            crossing = sum((entering(capacity, part) for part in parts), Fraction(0))
            rate = crossing / (2 * (len(parts) - 1))
            best = rate if best is None else min(best, rate)
    assert best is not None
    return best


def partitions(gpus: list[int]) -> Iterator[list[frozenset[int]]]:
    """All ways to divide GPUs into sets."""
    if not gpus:
        yield []
        return
    first, *others = gpus
    for parts in partitions(others):
        yield [frozenset([first]), *parts]
        for number, part in enumerate(parts):
            yield [*parts[:number], part | {first}, *parts[number + 1 :]]


def fault(
    trees: Sequence[tuple[int, Fraction, Sequence[tuple[int, int]]]],
    capacity: Capacities,
    gpus: Sequence[int],
    *,
    both: bool,
) -> str | None:
    """What is wrong with trees (root, weight, edges): that one does not span, or that a link carries too much."""
    load: dict[tuple[int, int], Fraction] = {}
    for root, weight, edges in trees:
        if weight <= 0:
            return "a weight is not positive"
        reached = {root}
        left = list(edges)
        while left:
            onward = [edge for edge in left if edge[0] in reached]
            if not onward:
                return f"the edges {left} do not follow from root {root}"
            for edge in onward:
                if edge[1] in reached:
                    return f"GPU {edge[1]} is reached twice"
                reached.add(edge[1])
                left.remove(edge)
        if reached != set(gpus):
            return f"a tree reaches {sorted(reached)} only"
        for src, dst in edges:
            load[src, dst] = load.get((src, dst), Fraction(0)) + weight
            if both:
                load[dst, src] = load.get((dst, src), Fraction(0)) + weight
    for edge, carried in load.items():
        if carried > capacity.get(edge, 0):
            return f"the link {edge} carries {carried}"
    return None
