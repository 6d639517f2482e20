"""As few trees as possible at a rate: mixed-integer programs, solved by HiGHS.

The variables are trees: how much each carries, and whether it is used. All trees of a network are too many to be
listed, so that they are generated: the prices of a linear program say which tree is missing, and the engine finds the
cheapest one (column generation). The linear program bounds how few trees there can be, since a tree carries no more
than its smallest arc (its bottleneck). Then a program over the trees that were generated chooses some, first with
whole weights, which Blink calls the integer program (section 3.2.1, where weights are 0 or 1; that misses the optimum
on some machines), then with any weights if whole ones lose more than a threshold.

All of that sees a network without switches. What switches are replaced by is a choice, and few trees may need another
one (`Packing.few`). So with switches the bound is that of the widest tree over the network as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from syncline.core import binding
from syncline.treegen import search
from syncline.treegen.packing import Arc, Packing, Tree

if TYPE_CHECKING:
    import highspy
    import numpy as np
    import numpy.typing as npt

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
MOST_NODES_LISTED: Final = 64
"""In networks with more nodes, trees are not looked at one by one, nor asked for by a linear program."""
MORE_TREES: Final = 3
"""So many numbers of trees, from the bound of the linear program on, are tried before an integer program is solved."""
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

    @property
    def ends(self) -> list[tuple[int, int]]:
        """From where to where each arc leads."""
        return [(arc.src, arc.dst) for arc in self.arcs]

    def bottleneck(self, tree: Sequence[int]) -> int:
        return min(self.heaviest, *(self.capacity[arc] for arc in tree))


def of(packing: Packing, *, threshold: float = 0.0, heaviest: Fraction | None = None) -> Fewest:
    """As few trees as have, together, the rate of those of a packing from one root, less a share `threshold` at most.
    No tree carries more than `heaviest` bytes per second, where that is given.
    """
    network, rate = _network(packing, heaviest)
    if rate == 0:
        return Fewest((), 0)
    needed = float(rate) * (1 - threshold)
    if packing.widest is not None and (packing.own is not None or network.nodes > MOST_NODES_LISTED):
        return _over_switches(packing, network, needed, heaviest)
    columns = {tuple(sorted(tree.arcs)) for tree in packing.trees}
    # No tree carries more than the widest arc.
    widest = min(network.heaviest, max(network.capacity))
    at_least = math.ceil(max(_generate(network, columns, needed), needed / widest) - TOLERANCE)
    best = _best(network, sorted(columns), rate, needed, at_least)
    if best is None or len(best.trees) > at_least:
        every = _every(network)
        if every is not None:
            best = _best(network, every, rate, needed, at_least)
    return best or Fewest(packing.trees, at_least)


def _over_switches(packing: Packing, network: _Network, needed: float, heaviest: Fraction | None) -> Fewest:
    """The same with switches, or many GPUs: of what switches can be replaced by, two ways are looked at."""
    assert packing.widest is not None
    widest = packing.widest if heaviest is None else min(packing.widest, heaviest)
    at_least = math.ceil(needed * float(network.unit / widest) - TOLERANCE)
    best = packing.trees
    if packing.few and len(packing.few) < len(best) and all(tree.weight <= widest for tree in packing.few):
        best = packing.few
    if network.nodes <= MANY_GPUS and len(best) > at_least:
        columns = {tuple(sorted(tree.arcs)) for tree in packing.trees}
        _generate(network, columns, needed)
        chosen = _best(network, sorted(columns), packing.rate / network.unit, needed, at_least)
        if chosen is not None and len(chosen.trees) < len(best):
            best = chosen.trees
    return Fewest(_enough(best, needed * network.unit), at_least)


def _enough(trees: tuple[Tree, ...], needed: Fraction | float) -> tuple[Tree, ...]:
    """As many trees as carry what is needed, the heaviest first, in their own order."""
    order = sorted(range(len(trees)), key=lambda place: (-trees[place].weight, place))
    kept, carried = set(), Fraction(0)
    for place in order:
        if carried >= needed * (1 - TOLERANCE):
            break
        kept.add(place)
        carried += trees[place].weight
    return tuple(tree for place, tree in enumerate(trees) if place in kept)


def shallowest(packing: Packing) -> Fewest:
    """As shallow trees as have, together, the rate of those of a packing from one root, and of these as few as
    possible. In networks with too many trees to look at each, those of the packing are the answer.
    """
    network, rate = _network(packing)
    every = _every(network) if rate else None
    if every is None:
        return Fewest(packing.trees, 0)
    depths = _depths(network, every)
    for depth in range(min(depths), max(depths) + 1):
        trees = [tree for tree, deep in zip(every, depths, strict=True) if deep <= depth]
        best = _best(network, trees, rate, float(rate) * (1 - TOLERANCE), 0)
        if best is not None:
            return best
    return Fewest(packing.trees, 0)


def _network(packing: Packing, heaviest: Fraction | None = None) -> tuple[_Network, Fraction]:
    """The network of a packing in whole units, and the rate of its trees on it."""
    arcs, trees = packing.arcs[: packing.own], packing.trees
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
    import highspy

    relaxed = _linear(network, trees, 1.0 / _widths(network, trees), needed)
    if relaxed.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    for whole in (True, False):
        chosen = _choose(network, trees, needed, relaxed, whole=whole)
        if chosen is not None:
            return Fewest(tuple(_exact(network, chosen, rate, whole=whole)), at_least)
    return None


def _every(network: _Network) -> list[tuple[int, ...]] | None:
    """All trees from the root, unless there are too many."""
    if network.nodes > MOST_NODES_LISTED:
        return None
    answer = _ask(network, {"kind": "every", "root": network.root, "most": MOST_TREES})
    return None if answer["trees"] is None else [tuple(tree) for tree in answer["trees"]]


def _widths(network: _Network, trees: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """What each tree carries at most."""
    import numpy as np

    numbers = np.array(trees, dtype=np.int64).reshape(len(trees), -1)
    least: npt.NDArray[np.float64] = np.array(network.capacity, dtype=np.float64)[numbers].min(axis=1)
    return np.minimum(least, float(network.heaviest))


def _linear(
    network: _Network, trees: Sequence[tuple[int, ...]], costs: npt.NDArray[np.float64], needed: float
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
    count = len(trees)
    each = np.array(trees, dtype=np.int32).reshape(count, -1)
    rows = np.concatenate([each, np.full((count, 1), arcs, dtype=np.int32)], axis=1).ravel()
    starts = (np.arange(count) * (each.shape[1] + 1)).astype(np.int32)
    solver.addCols(count, costs, np.zeros(count), np.full(count, infinity), len(rows), starts, rows, np.ones(len(rows)))
    solver.run()
    return solver


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
    solver = _linear(network, begun, 1.0 / _widths(network, begun), needed)

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
    from syncline.core import _core

    binding.require()
    request: dict[str, Any] = {
        "nodes": network.nodes,
        "terminals": network.nodes,
        "arcs": [(arc.src, arc.dst, capacity) for arc, capacity in zip(network.arcs, network.capacity, strict=True)],
        "task": task,
    }
    return json.loads(_core.packing(json.dumps(request)))


def _choose(
    network: _Network, trees: list[tuple[int, ...]], needed: float, relaxed: highspy.Highs, *, whole: bool
) -> list[tuple[tuple[int, ...], float]] | None:
    """As few of the trees as reach a rate, with their weights; None if they do not reach it.

    A linear program says of each tree how many trees a solution with one unit of it has at least. So trees that are
    in no best solution are left out: at first all but those of the linear program's own, and if they do not reach its
    bound, those that no solution with fewer trees can have.
    """
    if len(trees) <= MANY_TREES:
        return _integer(network, trees, needed, whole=whole)
    least = float(relaxed.getInfo().objective_function_value)
    solution = relaxed.getSolution()
    # Trees of the linear program come first, since others are tried in this order.
    ranked = sorted(zip(solution.col_value, solution.col_dual, range(len(trees)), strict=True), key=_by_weight)
    trees = [trees[place] for _, _, place in ranked]
    beyond = [more for _, more, _ in ranked]
    allowed = TOLERANCE
    while True:
        kept = [tree for tree, more in zip(trees, beyond, strict=True) if more <= allowed]
        found = _tried(network, kept, needed, least) if whole else None
        found = found or _integer(network, kept, needed, whole=whole)
        if len(kept) == len(trees):
            return found
        if found is not None and len(found) <= math.ceil(least + allowed - TOLERANCE):
            return found
        allowed = math.inf if found is None or not whole else len(found) - least + TOLERANCE


def _by_weight(column: tuple[float, float, int]) -> tuple[bool, int]:
    """Columns of a solution by whether they are used."""
    weight, _, place = column
    return weight <= TOLERANCE, place


def _tried(
    network: _Network, trees: list[tuple[int, ...]], needed: float, least: float
) -> list[tuple[tuple[int, ...], float]] | None:
    """The same by trying, where that is quick: of as many trees as a linear program asks for, or a few more."""
    fewest = math.ceil(least - TOLERANCE)
    numbers = range(fewest, fewest + MORE_TREES)
    found = search.exactly(network.ends, network.capacity, trees, needed, numbers)
    return None if found is None else [(trees[place], float(weight)) for place, weight in found]


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
    widths = _widths(network, trees)
    # A tree that carries a unit or nothing is used as often as it carries something.
    single = (widths == 1.0) & whole
    users = [[number for number, tree in enumerate(trees) if arc in tree] for arc in range(arcs)]
    apart = np.flatnonzero(~single)
    used = np.where(single, np.arange(count), count + np.cumsum(~single) - 1)
    # Depth decides between equal numbers of trees.
    cost = np.zeros(count + len(apart))
    cost[used] = 1.0 + np.array(_depths(network, trees)) / (network.nodes * count + 1.0)
    # How much is carried per tree, then whether it is used.
    columns = len(cost)
    upper = np.concatenate([widths, np.ones(len(apart))])
    empty = np.array([], dtype=np.int32)
    solver.addCols(columns, cost, np.zeros(columns), upper, 0, np.zeros(columns, dtype=np.int32), empty, np.array([]))
    integer = np.arange(0 if whole else count, columns, dtype=np.int32)
    kinds = np.full(len(integer), highspy.HighsVarType.kInteger.value, dtype=np.uint8)
    solver.changeColsIntegrality(len(integer), integer, kinds)
    rows = [
        *((of, np.ones(len(of)), -infinity, float(network.capacity[arc])) for arc, of in enumerate(users) if of),
        (list(range(count)), np.ones(count), needed, infinity),
        *(([tree, used[tree]], np.array([1.0, -widths[tree]]), -infinity, 0.0) for tree in apart),
    ]
    starts = np.cumsum([0, *(len(row[0]) for row in rows[:-1])]).astype(np.int32)
    places = np.array([place for row in rows for place in row[0]], dtype=np.int32)
    values = np.concatenate([row[1] for row in rows])
    lower, most = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
    solver.addRows(len(rows), lower, most, len(places), starts, places, values)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    carried = solver.getSolution().col_value[:count]
    return [(tree, value) for tree, value in zip(trees, carried, strict=True) if value > TOLERANCE]


def _depths(network: _Network, trees: Sequence[Sequence[int]]) -> list[int]:
    """The depth of each tree."""
    import numpy as np

    numbers = np.array(trees, dtype=np.int64).reshape(len(trees), -1)
    src = np.array([arc.src for arc in network.arcs], dtype=np.int64)
    dst = np.array([arc.dst for arc in network.arcs], dtype=np.int64)
    parent = np.full((len(trees), network.nodes), network.root, dtype=np.int64)
    np.put_along_axis(parent, dst[numbers], src[numbers], axis=1)
    at = np.broadcast_to(np.arange(network.nodes), parent.shape)
    depth = np.zeros(parent.shape, dtype=np.int64)
    while (below := at != network.root).any():
        depth += below
        at = np.take_along_axis(parent, at, axis=1)
    return [int(deep) for deep in depth.max(axis=1)]


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
