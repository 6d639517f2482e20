"""All-reduces over links that are unequal either way: trees to the roots and other trees away from them.

Where links are equal either way, a tree that is used both ways takes as much of a link as it takes of its opposite,
and such trees reach the bound. Elsewhere a sum may have to go to a root along one tree, and come back along another.
What is asked of the links is a linear program: of each arc, one part is for trees towards the roots and one for trees
away from them; from (and to) each root go trees of a weight; and the network has these trees if and only if into every
set of GPUs there leads, with the weights of the roots in it, the rate (Edmonds 1973), and the same out of it for the
trees the other way. Sets are too many to be listed, so that those are added that a solution violates; cuts find them.

HiGHS solves these programs in floating point. What is stated comes from fractions: the equations of the solver's last
basis are solved again exactly, the engine packs trees of exactly these weights, and the multipliers of the dual program
are a proof that no schedule of trees is faster, whatever the solver has done. Such a proof has sets of GPUs, each with
the times that it counts inwards or outwards. All of them together count a rate that is reduced and broadcast at least
as often as they are, less the most that they count of one GPU, where roots may be; an arc that enters sets so often, or
leaves them, counts as often as the larger of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from syncline.treegen import exact
from syncline.treegen.packing import Bound, Packing, Share, Tree, ask_network
from syncline.treegen.question import Question

MOST_GPUS: Final = 16
"""Of more GPUs, trees are those that are used both ways: exact solutions would take too long."""
ROUNDS: Final = 200
"""Linear programs that are solved at most."""
FINE: Final = 1 << 40
"""The rate in the unit in which floating-point solutions are looked at."""
SLACK: Final = 1 << 14
"""Of that unit, what a set may miss by rounding."""

Cut = tuple[tuple[int, ...], bool]
"""GPUs, and whether what enters them counts (trees from the roots), or what leaves them (trees to the roots)."""


@dataclass(frozen=True, slots=True)
class _Solution:
    """How links are divided, in the unit of the capacities."""

    rate: Fraction
    roots: list[Fraction]
    away: list[Fraction]
    """Per arc, what trees away from the roots have."""
    back: list[Fraction]
    multipliers: list[Fraction]
    """Per cut."""


def improved(question: Question, packing: Packing, root: int | None = None) -> Packing:
    """The trees of an all-reduce, or faster ones if its trees do not reach the bound; from a root, if one is given."""
    if root is None and packing.rate == packing.best_rate:
        return packing
    gpus = packing.gpus
    if len(packing.components) > 1:
        return replace(packing, bound=Bound(Fraction(0), (_closed(question),), 0))
    if not 2 <= gpus <= MOST_GPUS:
        return packing
    unit = _unit([arc.capacity for arc in packing.arcs])
    network = _Network(gpus, [(arc.src, arc.dst, int(arc.capacity / unit)) for arc in packing.arcs], root)
    solution, cuts = network.solved()
    if solution is None:
        return packing
    better = packing
    if solution.rate * unit > packing.rate or root is not None:
        better = replace(packing, trees=tuple(network.trees(solution, unit)), is_best=False)
    # Where switches were removed, other trees might have been possible.
    if root is None and len(question.nodes) == gpus:
        bound = _bound(network, cuts, solution.multipliers, unit)
        if bound is not None and bound.rate < packing.best_rate:
            better = replace(better, bound=bound)
    return better


def _closed(question: Question) -> tuple[int, ...]:
    """Nodes into which nothing leads, some GPUs but not all: from these a GPU is reached that others do not reach."""
    for gpu in range(len(question.gpus)):
        before = {gpu}
        waiting = [gpu]
        for node in waiting:
            for src, dst, _ in question.arcs:
                if dst == node and src not in before:
                    before.add(src)
                    waiting.append(src)
        if not before.issuperset(range(len(question.gpus))):
            return tuple(sorted(before))
    raise AssertionError("all GPUs reach each other")


@dataclass(frozen=True, slots=True)
class _Network:
    gpus: int
    arcs: list[tuple[int, int, int]]
    root: int | None

    def crosses(self, cut: Cut) -> list[int]:
        """The arcs that count."""
        inside, inward = set(cut[0]), cut[1]
        ends = [(src in inside, dst in inside) for src, dst, _ in self.arcs]
        return [arc for arc, (src, dst) in enumerate(ends) if (dst and not src if inward else src and not dst)]

    def solved(self) -> tuple[_Solution | None, list[Cut]]:
        """The best division of the links, and the sets that limit it."""
        cuts: list[Cut] = [((gpu,), inward) for gpu in range(self.gpus) for inward in (True, False)]
        for _ in range(ROUNDS):
            program = _Program(self, cuts)
            missing = [cut for cut in self._violated_nearly(program) if cut not in cuts]
            if missing:
                cuts += missing
                continue
            solution = program.exact()
            if solution is None:
                break
            missing = [cut for cut in self._violated(solution) if cut not in cuts]
            if not missing:
                return (solution if self._is_legal(solution) else None), cuts
            cuts += missing
        return None, cuts

    def _violated_nearly(self, program: _Program) -> Iterable[Cut]:
        """Sets that a floating-point solution violates by more than it is wrong."""
        values = program.values
        if values[0] <= 0:
            return []
        scale = FINE / values[0]
        # More than the rate is of no use to a set.
        away, back = (
            [min(FINE, math.ceil(max(0.0, value) * scale) + SLACK) for value in values[first : first + len(self.arcs)]]
            for first in (program.away, program.back)
        )
        roots = [math.floor(max(0.0, value) * scale) for value in values[1 : 1 + self.gpus]]
        return self._both_ways(roots, away, back)

    def _violated(self, solution: _Solution) -> Iterable[Cut]:
        scale = math.lcm(*(value.denominator for value in (*solution.roots, *solution.away, *solution.back)))
        whole = [[int(value * scale) for value in part] for part in (solution.roots, solution.away, solution.back)]
        if min(map(min, whole)) < 0:
            return []
        return self._both_ways(*whole)

    def _both_ways(self, roots: Sequence[int], away: Sequence[int], back: Sequence[int]) -> list[Cut]:
        found: list[Cut] = []
        for inward, capacity in ((True, away), (False, back)):
            answer, _ = self._given(roots, capacity, inward=inward, trees=False)
            found += [(tuple(nodes), inward) for nodes in answer["violated"]]
        return found

    def _given(
        self, roots: Sequence[int], capacity: Sequence[int], *, inward: bool, trees: bool
    ) -> tuple[Any, list[int]]:
        """What the engine says of trees from roots, or to them; and of each of its arcs, which one it is here."""
        kept = [arc for arc, has in enumerate(capacity) if has > 0]
        ends = [(src, dst) if inward else (dst, src) for src, dst, _ in self.arcs]
        weights = [(root, weight) for root, weight in enumerate(roots) if weight > 0]
        task = {"kind": "given", "roots": weights, "trees": trees}
        return ask_network(self.gpus, self.gpus, [(*ends[arc], capacity[arc]) for arc in kept], task), kept

    def _is_legal(self, solution: _Solution) -> bool:
        """Whether an exact solution keeps to the capacities and has the rate from its roots; cuts say the rest."""
        parts = zip(self.arcs, solution.away, solution.back, strict=True)
        fits = all(min(away, back) >= 0 and away + back <= capacity for (*_, capacity), away, back in parts)
        return fits and min(solution.roots) >= 0 and sum(solution.roots) == solution.rate

    def trees(self, solution: _Solution, unit: Fraction) -> Iterable[Tree]:
        """The trees of a solution: of equal weight to a root and from it."""
        scale = math.lcm(*(value.denominator for value in (*solution.roots, *solution.away, *solution.back)))
        roots = [int(value * scale) for value in solution.roots]
        ways: list[list[Tree]] = []
        for inward, part in ((True, solution.away), (False, solution.back)):
            answer, kept = self._given(roots, [int(value * scale) for value in part], inward=inward, trees=True)
            ways.append(
                [
                    Tree(tree["root"], Fraction(tree["weight"]), tuple(kept[arc] for arc in tree["arcs"]))
                    for tree in answer["trees"]
                ]
            )
        for root in range(self.gpus):
            away, back = ([tree for tree in way if tree.root == root] for way in ways)
            while away and back:
                weight = min(away[0].weight, back[0].weight)
                yield Tree(root, weight / scale * unit, away[0].arcs, back[0].arcs)
                for way in (away, back):
                    rest = way[0].weight - weight
                    way[:1] = [replace(way[0], weight=rest)] if rest else []


class _Program:
    """The linear program over some sets: the rate, the weight of each root, and the parts of each arc."""

    def __init__(self, network: _Network, cuts: Sequence[Cut]) -> None:
        import highspy
        import numpy as np

        self.network, self.arcs = network, len(network.arcs)
        self.away, self.back = 1 + network.gpus, 1 + network.gpus + self.arcs
        # Rows as (columns and coefficients, least, most). The rate comes from the roots; an arc has what it has.
        self.rows: list[tuple[dict[int, int], int | None, int | None]] = []
        self.rows.append(({0: -1, **{1 + gpu: 1 for gpu in range(network.gpus)}}, 0, 0))
        for arc, (_, _, capacity) in enumerate(network.arcs):
            self.rows.append(({self.away + arc: 1, self.back + arc: 1}, None, capacity))
        for cut in cuts:
            first = self.away if cut[1] else self.back
            row = {0: -1, **{1 + gpu: 1 for gpu in cut[0]}, **{first + arc: 1 for arc in network.crosses(cut)}}
            self.rows.append((row, 0, None))
        self.of_cuts = 1 + self.arcs
        columns = 1 + network.gpus + 2 * self.arcs
        infinity = highspy.kHighsInf
        solver = exact.solver()
        self.fixed = [
            network.root is not None and 1 <= column <= network.gpus and column != 1 + network.root
            for column in range(columns)
        ]
        for fixed in self.fixed:
            solver.addVar(0.0, 0.0 if fixed else infinity)
        solver.changeColCost(0, -1.0)
        for row, least, most in self.rows:
            numbers = np.array(sorted(row), dtype=np.int32)
            values = np.array([float(row[number]) for number in sorted(row)])
            low, high = -infinity if least is None else float(least), infinity if most is None else float(most)
            solver.addRow(low, high, len(row), numbers, values)
        solver.run()
        self.solver = solver
        self.values: list[float] = list(solver.getSolution().col_value)

    def exact(self) -> _Solution | None:
        """The solution of the solver's basis in fractions."""
        basis = exact.basis(self.solver)
        if basis is None:
            return None
        basic, tight = basis
        place = {column: number for number, column in enumerate(basic)}
        matrix = [{place[c]: Fraction(v) for c, v in self.rows[row][0].items() if c in place} for row in tight]
        # Columns that are not in the basis are 0.
        right = [Fraction(self.rows[row][2] or 0) for row in tight]
        found = exact.solved(matrix, right)
        transposed: list[dict[int, Fraction]] = [{} for _ in basic]
        for number, row in enumerate(matrix):
            for column, value in row.items():
                transposed[column][number] = value
        prices = exact.solved(transposed, [Fraction(-1 if column == 0 else 0) for column in basic])
        if found is None or prices is None:
            return None
        values = [Fraction(0)] * len(self.fixed)
        for column, value in zip(basic, found, strict=True):
            values[column] = value
        multipliers = [Fraction(0)] * (len(self.rows) - self.of_cuts)
        for number, price in zip(tight, prices, strict=True):
            if number >= self.of_cuts:
                multipliers[number - self.of_cuts] = max(Fraction(0), price)
        return _Solution(
            values[0],
            values[1 : self.away],
            values[self.away : self.back],
            values[self.back :],
            multipliers,
        )


def _bound(network: _Network, cuts: Sequence[Cut], multipliers: Sequence[Fraction], unit: Fraction) -> Bound | None:
    """What sets prove that count so many times: true of any sets and times."""
    scale = math.lcm(*(value.denominator for value in multipliers))
    used = [(cut, int(times * scale)) for cut, times in zip(cuts, multipliers, strict=True) if times]
    common = math.gcd(*(times for _, times in used))
    used = [(cut, times // common) for cut, times in used]
    of_gpu, inwards, outwards = [0] * network.gpus, [0] * len(network.arcs), [0] * len(network.arcs)
    for cut, times in used:
        for gpu in cut[0]:
            of_gpu[gpu] += times
        for arc in network.crosses(cut):
            (inwards if cut[1] else outwards)[arc] += times
    often = sum(times for _, times in used) - max(of_gpu)
    if often <= 0:
        return None
    often_each = [max(ways) for ways in zip(inwards, outwards, strict=True)]
    counted = (times * capacity for times, (_, _, capacity) in zip(often_each, network.arcs, strict=True))
    capacity = sum(counted) * unit
    sets = tuple(dict.fromkeys(nodes for (nodes, _), _ in used))
    shares = tuple(Share(nodes, inward, Fraction(times)) for (nodes, inward), times in used)
    return Bound(capacity / often, sets, int(capacity), shares)


def _unit(capacities: Iterable[Fraction]) -> Fraction:
    """The greatest unit of which all are multiples."""
    values = list(capacities)
    common = math.lcm(*(value.denominator for value in values))
    return Fraction(math.gcd(*(int(value * common) for value in values)), common)
