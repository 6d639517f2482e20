"""What the simulator predicts for collectives between processes of this host, with three constants that are fitted.

The host is a switch whose links carry a message from one rank's memory to another's: what a message costs beside its
bytes is `copy_overhead` of the endpoint `streams`, a byte the rate of a link, and a byte that is added `reduce_rate`.
The plan is the one that the library carried out, as it says. A predicted time is that of the simulation; its dependence
on the constants is piecewise linear, so that a fit takes a few steps of Newton's method (Gauss-Newton on relative
errors).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from syncline.base import progress_display
from syncline.base.errors import SimulationFailedError
from syncline.commands.api import single
from syncline.commands.api.arguments import Settings
from syncline.engine import runner
from syncline.engine import runs as engine
from syncline.experiment.merge import parse_override
from syncline.runtime.library import Chosen, RuntimeFailure
from syncline.runtime.measured import Measurement

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from syncline.experiment.load import Variant

SIMULATED: Final = {
    "direct": "direct",
    "halving-doubling": "halving-doubling",
    "chain": "ring",
    "ring": "ring-unidirectional",
}
"""Algorithms of the library by name, with those of the simulator."""
STEPS: Final = 4
"""Steps of Newton's method."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What a message and its bytes cost."""

    message_s: float
    """What each message takes beside its bytes."""
    byte_s: float
    """What a byte takes from memory to memory."""
    reduced_byte_s: float
    """What a byte takes to be added."""

    def vector(self) -> npt.NDArray[np.float64]:
        """The same as a vector."""
        import numpy as np

        return np.array([self.message_s, self.byte_s, self.reduced_byte_s])


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement beside its prediction."""

    measured: Measurement
    predicted_s: float
    is_fitted_on: bool
    """Whether the constants were fitted on it."""

    @property
    def error(self) -> float:
        """The prediction over the measurement, less 1."""
        return self.predicted_s / self.measured.time_s - 1


@dataclass(frozen=True, slots=True)
class Case:
    """A collective of a size, in bytes of the whole vector, and how the library carries it out."""

    kind: str
    size: int
    chosen: Chosen

    @property
    def algorithm(self) -> tuple[str, int | None]:
        """The algorithm of the simulator, and into how many slices it cuts the vector of a chain.

        Raises [`RuntimeFailure`] for a plan that is none of the library's own.
        """
        if self.chosen.name not in SIMULATED:
            message = f"the plan {self.chosen.name!r} is none of the library's own, and its time cannot be predicted"
            raise RuntimeFailure(f"{message}; accepted: no SYNCLINE_TOPOLOGY")
        return SIMULATED[self.chosen.name], self.chosen.chunks if self.chosen.name == "chain" else None


def times(cases: Sequence[Case], ranks: int, constants: Constants) -> npt.NDArray[np.float64]:
    """Seconds of collectives of sizes, as the simulator has them."""
    import numpy as np

    variants = [replace(_variant(case, ranks, constants), name=str(number)) for number, case in enumerate(cases)]
    outcomes = runner.run_all(variants, watch=progress_display.shown())
    outcomes.raise_if_refused()
    for name, message in outcomes.failures:
        raise SimulationFailedError(f"{name}: {message}")
    return np.array([result.summary["total_ps"] / engine.PS_PER_S for _, result in outcomes.results])


def _variant(case: Case, ranks: int, constants: Constants) -> Variant:
    name, slices = case.algorithm
    rate = max(1, round(1 / max(constants.byte_s, 1e-15)))
    reduce_rate = max(1, round(1 / max(constants.reduced_byte_s, 1e-15)))
    flags = single.Single(
        kind=case.kind,
        size=f"{case.size}B",
        topology=f"Switch({ranks}, rate={rate}B/s, latency=0s)",
        endpoint="streams",
        algorithm=name,
        backend="flow",
        slices=None if slices is None else str(slices),
    )
    overrides = [
        f"endpoint.copy_overhead={round(constants.message_s * 1e12)}ps",
        "endpoint.kernel_overhead=0s",
        "endpoint.event_overhead=0s",
        f"endpoint.reduce_rate={reduce_rate}B/s",
        "workload.element=4B",
    ]
    study, _ = single.load(flags, Settings(tuple(map(parse_override, overrides))))
    return study.variants[0]


def _case(measurement: Measurement) -> Case:
    return Case(measurement.kind, measurement.size, measurement.chosen)


def fitted(measurements: Sequence[Measurement], ranks: int) -> Constants:
    """The constants with which the simulation is nearest to measurements, by squares of relative errors."""
    import numpy as np

    cases = [_case(measurement) for measurement in measurements]
    target = np.array([measurement.time_s for measurement in measurements])
    constants = Constants(message_s=target.min() / 2, byte_s=1e-10, reduced_byte_s=1e-10)
    for _ in range(STEPS):
        base = times(cases, ranks, constants)
        columns = []
        for name in ("message_s", "byte_s", "reduced_byte_s"):
            value = getattr(constants, name)
            step = max(value * 0.01, 1e-9 if name == "message_s" else 1e-13)
            moved = times(cases, ranks, replace(constants, **{name: value + step}))
            columns.append((moved - base) / step)
        slopes = np.stack(columns, axis=1)
        rest = base - slopes @ constants.vector()
        constants = Constants(*_nonnegative(slopes / target[:, None], 1 - rest / target))
    return constants


def _nonnegative(matrix: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> list[float]:
    """Least squares with no variable below 0: the best of all choices of variables that are not 0."""
    import numpy as np

    best, least = np.zeros(matrix.shape[1]), float("inf")
    for number in range(1, matrix.shape[1] + 1):
        for chosen in itertools.combinations(range(matrix.shape[1]), number):
            part, *_ = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)
            if (part < 0).any():
                continue
            found = np.zeros(matrix.shape[1])
            found[list(chosen)] = part
            error = float(np.sum((matrix @ found - target) ** 2))
            if error < least:
                best, least = found, error
    return [float(value) for value in best]


def compared(kind: str, measurements: Sequence[Measurement], ranks: int) -> tuple[Constants, list[Row]]:
    """Fits the constants on every other size of all collectives measured, and predicts all sizes of one of them."""
    halves = {
        other: [m for m in measurements if m.kind == other][::2] for other in sorted({m.kind for m in measurements})
    }
    constants = fitted([m for half in halves.values() for m in half], ranks)
    wanted = [m for m in measurements if m.kind == kind]
    predicted = times([_case(m) for m in wanted], ranks, constants)
    return constants, [Row(m, float(time), m in halves[kind]) for m, time in zip(wanted, predicted, strict=True)]
