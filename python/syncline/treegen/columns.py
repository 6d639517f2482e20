"""Linear programs over trees, which are too many to be listed: columns that are added one by one (column generation).

A row is what something may take at most: a link, which carries so much. A column takes something of some rows, and
gains something. The solver's multipliers are prices: whoever asks adds what is worth more than it costs, until nothing
is. What is stated comes from fractions (`exact`), and is checked row by row.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from syncline.treegen import exact

ROUNDS: Final = 1000
"""Linear programs that are solved at most; the trees of the last one are as good as they are."""
NOTHING: Final = 1e-9
"""Less than that is gained by rounding alone."""


Way = tuple[int, ...]
"""The nodes of a way between two GPUs, with both ends."""


def cheapest_ways(gpus: int, leaving: Mapping[int, Sequence[tuple[int, float]]]) -> Iterator[tuple[float, int, Way]]:
    """From every GPU to every other one the cheapest way over switches alone, of several one over few links: its price,
    its links and its nodes. `leaving` has the links of a node, by where they lead, with their prices.
    """
    for src in range(gpus):
        seen: set[int] = set()
        queue: list[tuple[float, int, Way]] = [(0.0, 0, (src,))]
        while queue:
            cost, hops, way = heapq.heappop(queue)
            at = way[-1]
            if at in seen:
                continue
            seen.add(at)
            if at != src and at < gpus:  # GPUs do not forward
                yield cost, hops, way
                continue
            for there, price in leaving.get(at, ()):
                if there not in seen:
                    heapq.heappush(queue, (cost + price, hops + 1, (*way, there)))


class Program:
    """A linear program that gains as much as its rows allow, without columns at first."""

    def __init__(self, most: Sequence[int], unit: int) -> None:
        """Rows with what they may take at most, which the solver sees in this unit."""
        import highspy
        import numpy as np

        self.most = most
        self.unit = unit
        self.uses: list[dict[int, int]] = []
        """Of each column, by row, what it takes."""
        solver = exact.solver()
        nothing = np.array([], dtype=np.int32)
        for limit in most:
            solver.addRow(-highspy.kHighsInf, limit / unit, 0, nothing, np.array([]))
        self.solver = solver

    def add(self, uses: Mapping[int, int], gain: int) -> None:
        """A column more."""
        import highspy
        import numpy as np

        self.uses.append(dict(uses))
        rows = np.array(sorted(uses), dtype=np.int32)
        times = np.array([float(uses[row]) for row in sorted(uses)])
        self.solver.addCol(-float(gain), 0.0, highspy.kHighsInf, len(uses), rows, times)

    def prices(self) -> list[float]:
        """Solves the program: of each row, what is gained by a unit more."""
        self.solver.run()
        return [max(0.0, -price) for price in self.solver.getSolution().row_dual]

    def gained(self) -> float:
        """What the last solution gains, in the unit."""
        return -float(self.solver.getInfo().objective_function_value)

    def exact(self) -> list[Fraction] | None:
        """The last solution in fractions, of each column; None where rounding got in the way."""
        basis = exact.basis(self.solver)
        if basis is None:
            return None
        basic, full = basis
        place = {column: number for number, column in enumerate(basic)}
        matrix: list[dict[int, Fraction]] = [{} for _ in full]
        for number, row in enumerate(full):
            for column in basic:
                if row in self.uses[column]:
                    matrix[number][place[column]] = Fraction(self.uses[column][row])
        found = exact.solved(matrix, [Fraction(self.most[row]) for row in full])
        if found is None or any(value < 0 for value in found):
            return None
        taken = [Fraction(0)] * len(self.most)
        values = [Fraction(0)] * len(self.uses)
        for column, value in zip(basic, found, strict=True):
            values[column] = value
            for row, times in self.uses[column].items():
                taken[row] += value * times
        return None if any(all_ > limit for all_, limit in zip(taken, self.most, strict=True)) else values
