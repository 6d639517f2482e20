"""As few trees as possible at a rate: mixed-integer programs, solved by HiGHS.

The variables are trees: how much each carries, and whether it is used. All trees of a network are too many to be
listed, so that they are generated: the prices of a linear program say which tree is missing, and the engine finds the
cheapest one (column generation). The linear program bounds how few trees there can be, since a tree carries no more
than its smallest arc (its bottleneck). Then a program over the trees that were generated chooses some, first with
whole weights, which Blink calls the integer program (section 3.2.1, where weights are 0 or 1; that misses the optimum
on some machines), then with any weights if whole ones lose more than a threshold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from syncline import binding
from syncline.trees.packing import Arc, Packing, Tree

if TYPE_CHECKING:
    import highspy

TOLERANCE: Final = 1e-7
ROUNDS: Final = 400
"""Linear programs that are solved at most; what they have found by then is used."""
MANY_GPUS: Final = 16
FEW_ROUNDS: Final = 20
"""The same for more GPUs than that."""
MOST_TREES: Final = 4000
"""So many trees are looked at one by one; of more, those that a linear program asks for."""
MANY_TREES: Final = 64
"""Of more trees, those that cannot be in a best choice are left out first."""
MOST_NODES: Final = 200
"""Of the search tree of an integer program, which then ends with the best that it has found; no clock decides that."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """A choice of trees."""

    trees: tuple[Tree, ...]
    at_least: int
    """No choice of the same rate has fewer trees, whichever trees these are."""


@dataclass(frozen=True, slots=True)
class _Network:
    """Arcs with capacities in a common unit."""

    nodes: int
    root: int
    arcs: tuple[Arc, ...]
    capacity: tuple[int, ...]
    unit: Fraction
    heaviest: int
    """No tree carries more than this."""

    def bottleneck(self, tree: Sequence[int]) -> int:
        return min(self.heaviest, *(self.capacity[arc] for arc in tree))


def of(packing: Packing, *, threshold: float = 0.0, heaviest: Fraction | None = None) -> Fewest:
    """As few trees as have, together, the rate of those of a packing from one root, less a share `threshold` at most.
    No tree carries more than `heaviest` bytes per second, where that is given.
    """
    network, rate = _network(packing, heaviest)
    if rate == 0:
        return Fewest((), 0)
    columns = {tuple(sorted(tree.arcs)) for tree in packing.trees}
    needed = float(rate) * (1 - threshold)
    # No tree carries more than the widest arc.
    widest = min(network.heaviest, max(network.capacity))
    at_least = math.ceil(max(_generate(network, columns, needed), needed / widest) - TOLERANCE)
    best = _best(network, sorted(columns), rate, needed, at_least)
    if best is None or len(best.trees) > at_least:
        every = _every(network)
        if every is not None:
            best = _best(network, every, rate, needed, at_least)
    return best or Fewest(packing.trees, at_least)


def shallowest(packing: Packing) -> Fewest:
    """As shallow trees as have, together, the rate of those of a packing from one root, and of these as few as
    possible. In networks with too many trees to look at each, those of the packing are the answer.
    """
    network, rate = _network(packing)
    every = _every(network) if rate else None
    if every is None:
        return Fewest(packing.trees, 0)
    depths = [_depth(network, tree) for tree in every]
    for depth in range(min(depths), max(depths) + 1):
        trees = [tree for tree, deep in zip(every, depths, strict=True) if deep <= depth]
        if _most(network, trees) > float(rate) * (1 - TOLERANCE):
            best = _best(network, trees, rate, float(rate), 0)
            if best is not None:
                return best
    return Fewest(packing.trees, 0)


def _network(packing: Packing, heaviest: Fraction | None = None) -> tuple[_Network, Fraction]:
    """The network of a packing in whole units, and the rate of its trees on it."""
    arcs, trees = packing.arcs, packing.trees
    limits = [] if heaviest is None else [heaviest]
    unit = _unit([*(arc.capacity for arc in arcs), *limits]) if arcs else Fraction(1)
    capacity = tuple(int(arc.capacity / unit) for arc in arcs)
    most = max(capacity, default=0) if heaviest is None else int(heaviest / unit)
    nodes, root = sum(map(len, packing.components)), trees[0].root if trees else 0
    return _Network(nodes, root, arcs, capacity, unit, most), packing.rate / unit


def _best(
    network: _Network, trees: list[tuple[int, ...]], rate: Fraction, needed: float, at_least: int
) -> Fewest | None:
    """As few of the trees as reach a rate, with whole weights if these do."""
    for whole in (True, False):
        chosen = _choose(network, trees, needed, whole=whole)
        if chosen is not None:
            return Fewest(tuple(_exact(network, chosen, rate, whole=whole)), at_least)
    return None


def _every(network: _Network) -> list[tuple[int, ...]] | None:
    """All trees from the root, unless there are too many."""
    answer = _ask(network, {"kind": "every", "root": network.root, "most": MOST_TREES})
    return None if answer["trees"] is None else [tuple(tree) for tree in answer["trees"]]


def _linear(
    network: _Network, trees: Sequence[tuple[int, ...]], costs: Sequence[float], needed: float
) -> highspy.Highs:
    """The linear program that gives trees weights, at least `needed` in all, within the capacities; solved."""
    import highspy
    import numpy as np

    solver = _solver()
    arcs, infinity = len(network.arcs), highspy.kHighsInf
    nothing = np.array([], dtype=np.int32)
    upper = np.array([*map(float, network.capacity), infinity])
    lower = np.array([*([-infinity] * arcs), needed])
    solver.addRows(arcs + 1, lower, upper, 0, np.zeros(arcs + 1, dtype=np.int32), nothing, np.array([]))
    columns = [[*tree, arcs] for tree in trees]
    starts = np.cumsum([0, *map(len, columns[:-1])]).astype(np.int32)
    rows = np.array([row for column in columns for row in column], dtype=np.int32)
    count = len(columns)
    solver.addCols(
        count, np.array(costs), np.zeros(count), np.full(count, infinity), len(rows), starts, rows, np.ones(len(rows))
    )
    solver.run()
    return solver


def _most(network: _Network, trees: list[tuple[int, ...]]) -> float:
    """The largest rate of these trees."""
    solver = _linear(network, trees, [-1.0] * len(trees), 0.0)
    return -float(solver.getInfo().objective_function_value)


def _unit(capacities: Iterable[Fraction]) -> Fraction:
    """The greatest unit of which all are multiples."""
    values = list(capacities)
    common = math.lcm(*(value.denominator for value in values))
    return Fraction(math.gcd(*(int(value * common) for value in values)), common)


def _solver() -> highspy.Highs:
    import highspy

    solver: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 1)
    return solver


def _generate(network: _Network, columns: set[tuple[int, ...]], needed: float) -> float:
    """Adds the trees that a linear program asks for. Returns its least number of trees, 0 if it might ask for more."""
    import highspy
    import numpy as np

    arcs = len(network.arcs)
    begun = sorted(columns)
    solver = _linear(network, begun, [1.0 / network.bottleneck(tree) for tree in begun], needed)

    def add(tree: tuple[int, ...]) -> None:
        rows = np.array([*tree, arcs], dtype=np.int32)
        solver.addCol(1.0 / network.bottleneck(tree), 0.0, highspy.kHighsInf, len(rows), rows, np.ones(len(rows)))

    levels = sorted(set(network.capacity))
    for _ in range(ROUNDS if network.nodes <= MANY_GPUS else FEW_ROUNDS):
        solver.run()
        duals = solver.getSolution().row_dual
        costs = [max(0.0, -dual) for dual in duals[:arcs]]
        missing = False
        for tree in _cheapest(network, costs, levels):
            reduced = 1.0 / network.bottleneck(tree) + sum(costs[arc] for arc in tree) - duals[arcs]
            if reduced < -TOLERANCE and tree not in columns:
                columns.add(tree)
                add(tree)
                missing = True
        if not missing:
            return float(solver.getInfo().objective_function_value)
    return 0.0


def _cheapest(network: _Network, costs: list[float], levels: list[int]) -> list[tuple[int, ...]]:
    """The cheapest tree for each least capacity of its arcs, in ascending order of arcs, each once."""
    answer = _ask(network, {"kind": "cheapest", "root": network.root, "costs": costs, "least": levels})
    return sorted({tuple(sorted(tree)) for tree in answer["trees"] if tree is not None})


def _ask(network: _Network, task: dict[str, Any]) -> Any:
    """What the engine says of a network without switches."""
    from syncline import _core

    binding.require()
    request: dict[str, Any] = {
        "nodes": network.nodes,
        "terminals": network.nodes,
        "arcs": [(arc.src, arc.dst, capacity) for arc, capacity in zip(network.arcs, network.capacity, strict=True)],
        "task": task,
    }
    return json.loads(_core.packing(json.dumps(request)))


def _choose(
    network: _Network, trees: list[tuple[int, ...]], needed: float, *, whole: bool
) -> list[tuple[tuple[int, ...], float]] | None:
    """As few of the trees as reach a rate, with their weights; None if they do not reach it.

    A linear program says of each tree how many trees a solution with one unit of it has at least. So trees that are
    in no best solution are left out: at first all but those of the linear program's own, and if they do not reach its
    bound, those that no solution with fewer trees can have.
    """
    import highspy

    if len(trees) <= MANY_TREES:
        return _integer(network, trees, needed, whole=whole)
    solver = _linear(network, trees, [1.0 / network.bottleneck(tree) for tree in trees], needed)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    least = float(solver.getInfo().objective_function_value)
    beyond = solver.getSolution().col_dual
    allowed = TOLERANCE
    while True:
        kept = [tree for tree, more in zip(trees, beyond, strict=True) if more <= allowed]
        found = _integer(network, kept, needed, whole=whole)
        if len(kept) == len(trees):
            return found
        if found is not None and len(found) <= math.ceil(least + allowed - TOLERANCE):
            return found
        allowed = math.inf if found is None or not whole else len(found) - least + TOLERANCE


def _integer(
    network: _Network, trees: list[tuple[int, ...]], needed: float, *, whole: bool
) -> list[tuple[tuple[int, ...], float]] | None:
    """The same by an integer program over all of the trees; of equally few ones, the shallowest."""
    import highspy
    import numpy as np

    solver = _solver()
    solver.setOptionValue("mip_max_nodes", MOST_NODES)
    infinity = highspy.kHighsInf
    arcs, count = len(network.arcs), len(trees)
    depths = [_depth(network, tree) for tree in trees]
    for tree in trees:
        solver.addVar(0.0, float(network.bottleneck(tree)))
    for number, depth in enumerate(depths):
        solver.addVar(0.0, 1.0)
        # Depth decides between equal numbers of trees.
        solver.changeColCost(count + number, 1.0 + depth / (network.nodes * count + 1.0))
    for column in range(2 * count):
        if whole or column >= count:
            solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for arc in range(arcs):
        users = np.array([number for number, tree in enumerate(trees) if arc in tree], dtype=np.int32)
        if len(users):
            solver.addRow(-infinity, float(network.capacity[arc]), len(users), users, np.ones(len(users)))
    solver.addRow(needed, infinity, count, np.arange(count, dtype=np.int32), np.ones(count))
    for number, tree in enumerate(trees):
        pair = np.array([number, count + number], dtype=np.int32)
        solver.addRow(-infinity, 0.0, 2, pair, np.array([1.0, -float(network.bottleneck(tree))]))
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    values = solver.getSolution().col_value[:count]
    return [(tree, value) for tree, value in zip(trees, values, strict=True) if value > TOLERANCE]


def _depth(network: _Network, tree: tuple[int, ...]) -> int:
    return Tree(network.root, Fraction(0), _in_order(network, tree)).depth(network.arcs)


def _in_order(network: _Network, tree: Iterable[int]) -> tuple[int, ...]:
    """Arcs by their distance from the root."""
    leaving: dict[int, list[int]] = {}
    for arc in tree:
        leaving.setdefault(network.arcs[arc].src, []).append(arc)
    order = list(leaving.get(network.root, ()))
    for arc in order:
        order += leaving.get(network.arcs[arc].dst, ())
    return tuple(order)


def _exact(
    network: _Network, chosen: list[tuple[tuple[int, ...], float]], rate: Fraction, *, whole: bool
) -> Iterable[Tree]:
    """The trees with weights that are fractions and keep to the capacities whatever the solver has rounded."""
    if whole:
        weights = [Fraction(round(value)) for _, value in chosen]
    else:
        weights = [Fraction(value).limit_denominator(10**6) for _, value in chosen]
    load = [Fraction(0)] * len(network.arcs)
    for (tree, _), weight in zip(chosen, weights, strict=True):
        for arc in tree:
            load[arc] += weight
    fullest = max(used / capacity for used, capacity in zip(load, network.capacity, strict=True))
    scale = min(Fraction(1), 1 / fullest) if fullest else Fraction(1)
    total = sum(weights, Fraction(0)) * scale
    if total > rate:
        scale *= rate / total
    for (tree, _), weight in zip(chosen, weights, strict=True):
        yield Tree(network.root, weight * scale * network.unit, _in_order(network, tree))
