"""Describes a measured system by what predicts best the sizes that it did not see.

Four descriptions are fitted:

| | |
|---|---|
| constants | the software model with constants of the system's own |
| constants and curve | the same, times a factor by size |
| line | time = alpha + size / beta |
| line and curve | the same, times a factor by size |

The *curve* is what remains between the measured times and the rest, smoothed: the mean of a Gaussian process over the
logarithm of the size, whose correlation falls by 1/e every `REACH` doublings. Between sizes it is interpolated, beyond
them it stays as it is. Sizes whose residuals are far from their neighbours' hardly count.

One size in four is held out, four times, and predicted by fits to the others. The description with the least mean
error is taken, if it is less than the line's by a tenth, below 1 MiB and from there up each for itself, since what
holds a system back differs. So no table is described worse than by a line, as far as its own sizes can tell. A table
with fewer than four sizes has none to hold out, and is described by constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from syncline.nccl.calibration import MIN_SIZES, AlphaBeta, Errors, Residual, Run, alpha_beta, errors_of, fit_table
from syncline.nccl.constants import Constants
from syncline.nccl.measured import Base, Line, Measured, Part
from syncline.nccl.model import time
from syncline.nccl.solver import solve

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

DESCRIPTIONS: Final = ("constants", "constants and curve", "line", "line and curve")
FOLDS: Final = 4
REACH: Final = 3.0
"""Doublings of the size over which the curve forgets."""
SWING: Final = 0.3
"""How far systems stray from what is fitted: standard deviation of the logarithm."""
NOISE: Final = 0.04
ROUNDS: Final = 4
"""Of weighing the residuals anew."""

MARGIN: Final = 0.9
"""What an error has to be of the line's to count as less: what has more parameters is also luckier."""

Time = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Selected:
    """How a table is described, and how well each description predicts what it does not see."""

    constants: Constants
    measured: Measured
    line: AlphaBeta
    held_out: dict[str, Errors]
    """By description, and of the `chosen` ones together."""
    below: str
    """The description of sizes below 1 MiB."""
    above: str
    """That of sizes from there up."""

    def residuals(self, run: Run) -> list[Residual]:
        """Measured against described, size by size."""
        return [Residual(size, seen, described(run, self.constants, self.measured, size)) for size, seen in run.times]


def select(run: Run, start: Constants, cancel: Cancellation | None = None) -> Selected:
    """The best description of a run, by its sizes held out. Raises [`CancelledError`] when `cancel` is called."""
    held: dict[str, list[Residual]] = {name: [] for name in DESCRIPTIONS}
    for fold in range(FOLDS if len(run.times) >= MIN_SIZES else 0):
        kept = replace(run, times=tuple(pair for i, pair in enumerate(run.times) if i % FOLDS != fold))
        unseen = [pair for i, pair in enumerate(run.times) if i % FOLDS == fold]
        constants, line = fit_table(kept, start, cancel), alpha_beta(kept.times)
        for name, part in _parts(kept, constants, line).items():
            found = [Residual(size, seen, _predict(kept, constants, line, part, size)) for size, seen in unseen]
            held[name].extend(found)
    errors = {name: errors_of(residuals) for name, residuals in held.items()}
    large = _best({name: found.large for name, found in errors.items()})
    small = _best({name: found.small for name, found in errors.items()})
    if errors[large].large is None:
        large = small
    if errors[small].small is None:
        small = large
    constants = fit_table(run, start, cancel)
    line = alpha_beta(run.times)
    parts = _parts(run, constants, line)
    measured = Measured(
        machine=run.platform.machine,
        kind=run.kind,
        algorithm=run.algorithm,
        gpus=run.platform.gpus,
        nodes=run.platform.nodes,
        line=Line(line.alpha, 1 / line.beta),
        below=parts[small],
        above=parts[large],
        nccl=run.platform.nccl,
        channels=run.platform.ctas,
    )
    errors["chosen"] = Errors(errors[large].large, errors[small].small)
    return Selected(constants, measured, line, errors, below=small, above=large)


def _best(errors: dict[str, float | None]) -> str:
    """The description with the least error; the line, if none is much better; constants, if no error is known."""
    known = {name: error for name, error in errors.items() if error is not None}
    best = min(known, key=known.__getitem__, default="constants")
    return best if not known or known[best] <= MARGIN * known["line"] else "line"


def described(run: Run, constants: Constants, measured: Measured, size: int) -> float:
    """Seconds."""
    return measured.time(size, time(run.platform, constants, run.kind, run.algorithm, size))


def smoothed(ratios: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    """What remains between measured and fitted times, as a factor by size (see above)."""
    places = [math.log2(size) for size, _ in ratios]
    values = [math.log(ratio) for _, ratio in ratios]
    covariance = [[SWING**2 * math.exp(-abs(a - b) / REACH) for b in places] for a in places]
    noise = [NOISE**2] * len(values)
    smooth = values
    for _ in range(ROUNDS):
        rows = [[c + (noise[i] if i == j else 0.0) for j, c in enumerate(row)] for i, row in enumerate(covariance)]
        weights = solve(rows, values)
        smooth = [math.fsum(c * w for c, w in zip(row, weights, strict=True)) for row in covariance]
        noise = [NOISE**2 + (v - s) ** 2 for v, s in zip(values, smooth, strict=True)]
    return tuple(math.exp(s) for s in smooth)


def _parts(run: Run, constants: Constants, line: AlphaBeta) -> dict[str, Part]:
    """All descriptions of a run, by name."""
    bases: dict[Base, Time] = {
        "constants": lambda size: time(run.platform, constants, run.kind, run.algorithm, size),
        "line": line.time,
    }
    sizes = tuple(size for size, _ in run.times)
    found: dict[str, Part] = {}
    for name, base in bases.items():
        found[name] = Part(name)
        factors = smoothed([(size, seen / base(size)) for size, seen in run.times])
        found[f"{name} and curve"] = Part(name, sizes, factors)
    return found


def _predict(run: Run, constants: Constants, line: AlphaBeta, part: Part, size: int) -> float:
    base = line.time(size) if part.base == "line" else time(run.platform, constants, run.kind, run.algorithm, size)
    return base * part.factor(size)
