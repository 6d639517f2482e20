"""Least squares for a handful of parameters: Levenberg and Marquardt's method, in plain Python.

Parameters are logarithms of positive constants, so that a step is a relative change. Ten parameters and some
hundred residuals take a few milliseconds per step; the same input gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

Residuals = Callable[[Sequence[float]], list[float]]

MAX_STEPS: Final = 80
MAX_CHANGE: Final = 1.0
"""The largest change of a logarithm in one step: a factor of e."""
_DIFFERENCE: Final = 1e-4
_FINE: Final = 1e-7


def minimise(residuals: Residuals, start: Sequence[float]) -> list[float]:
    """The parameters with the least sum of squares that descent from `start` finds."""
    here = list(start)
    errors = residuals(here)
    cost = _squares(errors)
    damping = 1e-2
    for _ in range(MAX_STEPS):
        normal, gradient = _normal_equations(residuals, here, errors)
        improved = False
        for _ in range(12):
            step = solve(_damped(normal, damping), [-slope for slope in gradient])
            there = [
                value + max(-MAX_CHANGE, min(MAX_CHANGE, change)) for value, change in zip(here, step, strict=True)
            ]
            found = residuals(there)
            found_cost = _squares(found)
            if found_cost < cost:
                improved = cost - found_cost > _FINE * cost
                here, errors, cost = there, found, found_cost
                damping = max(damping / 5, 1e-9)
                break
            damping *= 4
        if not improved:
            break
    return here


def soften(error: float, scale: float) -> float:
    """The pseudo-Huber loss as a residual: `error` if small, growing like a root beyond `scale`.

    One point that is far off then pulls no harder than one that is somewhat off.
    """
    far = error / scale
    return math.copysign(math.sqrt(2 * scale * scale * (math.sqrt(1 + far * far) - 1)), error)


def _normal_equations(
    residuals: Residuals, here: list[float], errors: list[float]
) -> tuple[list[list[float]], list[float]]:
    columns = []
    for index in range(len(here)):
        ahead, behind = here.copy(), here.copy()
        ahead[index] += _DIFFERENCE
        behind[index] -= _DIFFERENCE
        pairs = zip(residuals(ahead), residuals(behind), strict=True)
        columns.append([(a - b) / (2 * _DIFFERENCE) for a, b in pairs])
    normal = [[_dot(a, b) for b in columns] for a in columns]
    return normal, [_dot(column, errors) for column in columns]


def _damped(normal: list[list[float]], damping: float) -> list[list[float]]:
    """A + damping diag A."""
    return [
        [value + (damping * (value + 1e-9) if i == j else 0.0) for j, value in enumerate(row)]
        for i, row in enumerate(normal)
    ]


def solve(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    """Gauss and Jordan's elimination of A x = b; A is square and not singular."""
    size = len(vector)
    rows = [[*row, value] for row, value in zip(matrix, vector, strict=True)]
    for index in range(size):
        pivot = max(range(index, size), key=lambda k: abs(rows[k][index]))
        rows[index], rows[pivot] = rows[pivot], rows[index]
        for other in range(size):
            if other != index:
                factor = rows[other][index] / rows[index][index]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[index], strict=True)]
    return [rows[index][size] / rows[index][index] for index in range(size)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def _squares(errors: Sequence[float]) -> float:
    return math.fsum(e * e for e in errors)
