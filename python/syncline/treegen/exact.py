"""Linear programs whose answers are exact.

HiGHS solves them in floating point. What is stated comes from fractions: the equations of the solver's last basis are
solved again, and whoever asks checks the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import highspy


def solver() -> highspy.Highs:
    """A solver that says nothing and always finds the same."""
    import highspy

    found: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1), ("presolve", "off")):
        found.setOptionValue(option, value)
    return found


def basis(solved_by: highspy.Highs) -> tuple[list[int], list[int]] | None:
    """The columns that may differ from 0 and the rows that hold with equality, of the last solution; None if these are
    not as many equations as unknowns.
    """
    import highspy

    found = solved_by.getBasis()
    basic = [column for column, status in enumerate(found.col_status) if status == highspy.HighsBasisStatus.kBasic]
    tight = [row for row, status in enumerate(found.row_status) if status != highspy.HighsBasisStatus.kBasic]
    return (basic, tight) if len(basic) == len(tight) else None


def solved(matrix: Sequence[dict[int, Fraction]], right: Sequence[Fraction]) -> list[Fraction] | None:
    """The solution of as many equations as unknowns; None if there is not exactly one."""
    rows = [(dict(row), value) for row, value in zip(matrix, right, strict=True)]
    order: list[tuple[int, dict[int, Fraction], Fraction]] = []
    while rows:
        # The row with fewest unknowns, and of these the one that fewest rows have, keep the others sparse.
        users: dict[int, int] = {}
        for row, _ in rows:
            for unknown in row:
                users[unknown] = users.get(unknown, 0) + 1
        shortest = min(range(len(rows)), key=lambda place: len(rows[place][0]))
        pivot_row, pivot_value = rows.pop(shortest)
        if not pivot_row:
            return None
        column = min(pivot_row, key=lambda number: (users[number], number))
        pivot = pivot_row[column]
        order.append((column, pivot_row, pivot_value))
        for number, (row, value) in enumerate(rows):
            factor = row.get(column, Fraction(0)) / pivot
            if factor:
                for other, amount in pivot_row.items():
                    left = row.get(other, Fraction(0)) - factor * amount
                    if left:
                        row[other] = left
                    else:
                        row.pop(other, None)
                rows[number] = (row, value - factor * pivot_value)
    found: dict[int, Fraction] = {}
    for column, row, value in reversed(order):
        known = sum((amount * found[other] for other, amount in row.items() if other != column), Fraction(0))
        found[column] = (value - known) / row[column]
    return [found[number] for number in range(len(matrix))]
