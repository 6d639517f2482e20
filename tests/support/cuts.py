"""Optimal rates by looking at every set of GPUs, and checks of trees: no code is shared with what finds them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
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


def each(capacity: Capacities, gpus: Sequence[int], root: int) -> Fraction:
    """The best rate of a scatter, of the whole vector: what can enter a set has to be parts of the GPUs in it."""
    part = min(entering(capacity, inside) / len(inside) for inside in _sets(gpus) if root not in inside)
    return part * len(gpus)


def trees(gpus: Sequence[int], edges: Collection[tuple[int, int]], root: int) -> list[tuple[tuple[int, int], ...]]:
    """All trees from a root: an edge into each other GPU, from where the root can be found by going back."""
    others = [gpu for gpu in gpus if gpu != root]
    found = []
    for chosen in itertools.product(*([edge for edge in edges if edge[1] == gpu] for gpu in others)):
        parent = {dst: src for src, dst in chosen}
        for gpu in others:
            seen = {gpu}
            while gpu != root and parent[gpu] not in seen:
                gpu = parent[gpu]  # noqa: PLW2901
                seen.add(gpu)
            if gpu != root:
                break
        else:
            found.append(chosen)
    return found


def all_reduce(capacity: Capacities, gpus: Sequence[int]) -> float:
    """The best rate of trees to roots and of trees from them: a linear program over all of these trees."""
    import highspy

    program: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    edges = sorted(capacity)
    rows: list[dict[int, float]] = [{} for _ in edges]
    balance: list[dict[int, float]] = []
    for root in gpus:
        of_root: dict[int, float] = {}
        for way in (1, -1):
            ways = edges if way == 1 else [(dst, src) for src, dst in edges]
            for tree in trees(gpus, ways, root):
                column = program.getNumCol()
                program.addVar(0.0, highspy.kHighsInf)
                program.changeColCost(column, -1.0 if way == 1 else 0.0)
                of_root[column] = float(way)
                for src, dst in tree:
                    rows[edges.index((src, dst) if way == 1 else (dst, src))][column] = 1.0
        balance.append(of_root)
    limits = [*(float(capacity[edge]) for edge in edges), *(0.0 for _ in gpus)]
    for row, limit in zip([*rows, *balance], limits, strict=True):
        low = 0.0 if row in balance else -highspy.kHighsInf
        program.addRow(low, limit, len(row), list(row), list(row.values()))
    program.run()
    return -float(program.getInfo().objective_function_value)


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
    back: Sequence[Sequence[tuple[int, int]]] = (),
) -> str | None:
    """What is wrong with trees (root, weight, edges): that one does not span, or that a link carries too much. Where
    trees go `back` to the roots along other edges, these are checked, too.
    """
    load: dict[tuple[int, int], Fraction] = {}
    if back:
        reverse = [[(dst, src) for src, dst in edges] for edges in back]
        trees = [*trees, *((root, weight, edges) for (root, weight, _), edges in zip(trees, reverse, strict=True))]
    turned = len(trees) // 2 if back else len(trees)
    for number, (root, weight, edges) in enumerate(trees):
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
        for src, dst in edges if number < turned else [(dst, src) for src, dst in edges]:
            load[src, dst] = load.get((src, dst), Fraction(0)) + weight
            if both:
                load[dst, src] = load.get((dst, src), Fraction(0)) + weight
    for edge, carried in load.items():
        if carried > capacity.get(edge, 0):
            return f"the link {edge} carries {carried}"
    return None


def fault_of_paths(
    paths: Sequence[tuple[int, Fraction, Sequence[tuple[int, int]]]],
    capacity: Capacities,
    gpus: Sequence[int],
    part: Fraction,
) -> str | None:
    """What is wrong with paths (root, weight, edges) that bring each GPU but the root a part."""
    load: dict[tuple[int, int], Fraction] = {}
    got = {gpu: Fraction(0) for gpu in gpus}
    for root, weight, edges in paths:
        at = root
        for src, dst in edges:
            if src != at:
                return f"the edges {edges} are no path"
            at = dst
            load[src, dst] = load.get((src, dst), Fraction(0)) + weight
        got[at] += weight
        got[root] = part
    if set(got.values()) != {part}:
        return f"GPUs get {got}"
    return next((f"{edge} carries {sum_}" for edge, sum_ in load.items() if sum_ > capacity.get(edge, 0)), None)
