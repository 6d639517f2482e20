"""Fits the constants of the software model to measured tables, and says how well they predict what they did not see.

The fit is a maximum a posteriori estimate. Residuals are logarithms of predicted over measured time with a standard
deviation of 4 %, softened beyond 5 % so that single outliers do not count; the logarithms of the constants have a
normal prior around a starting set (`constants.START`, or the class of the machine) whose widths are those by which
systems differ (`constants.WIDTH`). A constant that the table says nothing of therefore stays where it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from syncline.base.errors import InputError, Problem, one_of
from syncline.core import cancelling
from syncline.fabric.machines import MACHINES
from syncline.nccl import networks, wire
from syncline.nccl.constants import LIMITS, NAMES, NO_DELAY, START, WIDTH, Constants
from syncline.nccl.measurements import Table
from syncline.nccl.model import algorithms, time
from syncline.nccl.platform import Platform, ctas_of, gpu_of, nccl_of
from syncline.nccl.solver import minimise, soften

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

NOISE: Final = 0.04
SOFT: Final = 0.05
CALIBRATED_WIDTH: Final = WIDTH.changed(
    {
        "network_latency_scale": 1.5,
        "efficiency_network": 1.0,
        "efficiency_single": 1.0,
        "efficiency_spread": 0.3,
        "efficiency_simple": 0.3,
        "efficiency_nvls": 0.3,
    }
)
"""How far the fit of a single table may move: networks are congested, and may be slower than a class by any factor."""
MIB: Final = 2**20
MIN_SIZES: Final = 4
"""With fewer, none can be held out."""
SMALL: Final = 64 * 1024
"""Sizes that show the launch."""
PLATEAU: Final = 2**30
PLATEAU_WEIGHT: Final = math.sqrt(2)
"""Sizes from here on show the rates that everything tends to, and residuals of theirs count twice in the sum of
squares."""
UNSEEN_WIDTH: Final = 0.2
"""How far the launch may stray where no size shows it: it is not to make up for what large sizes lack."""
OWN: Final = ("launch", "efficiency_spread")
"""Constants that every run has of its own."""


@dataclass(frozen=True, slots=True)
class Run:
    """Measured times of one collective on one platform."""

    name: str
    platform: Platform
    kind: str
    algorithm: str
    times: tuple[tuple[int, float], ...]
    """Sizes in bytes and times in seconds, in order of size."""
    weight: float = 1.0
    """What a residual of this run counts; less than one for a run of several on one system."""

    def part(self, parity: int) -> Run:
        """Every other size."""
        return replace(self, times=self.times[parity::2])


@dataclass(frozen=True, slots=True)
class Residual:
    """A measured and a predicted time, in seconds."""

    size: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """The plain fit that the model is held against: T = alpha + S / beta."""

    alpha: float
    """Seconds."""
    beta: float
    """Bytes per second; infinite if the times do not grow."""

    def time(self, size: int) -> float:
        """Seconds."""
        return self.alpha + size / self.beta


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean absolute errors; nothing where there is no size."""

    large: float | None
    """From 1 MiB up."""
    small: float | None
    """Below 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is given about a table beside it."""

    kind: str | None = None
    """The collective, where the table does not say it."""
    algorithm: str | None = None
    """What NCCL_ALGO was, where the table does not say it."""
    column: str = "out-of-place"
    """Which times are used."""
    force: bool = False
    """Whether a table of another GPU is accepted."""


def run_of(table: Table, platform: Platform, given: Given | None = None) -> Run:
    """What a table says of a platform. Raises [`InputError`] if they do not fit together."""
    given = given or Given()
    kind = given.kind
    problems: list[Problem] = []

    def refuse(field: str, message: str, accepted: str | None = None) -> None:
        problems.append(Problem(table.name, None, field, None, message, accepted))

    measured_on = gpu_of(table.about.get("gpu", ""))
    if measured_on is not None and measured_on != platform.gpu and not given.force:
        what = f"the table was measured on {table.about['gpu']}, {platform} has {platform.gpu}"
        others = [name for name, machine in MACHINES.items() if gpu_of(machine.gpu.title) == measured_on]
        refuse("gpu", what, " or ".join([*(f"--machine {name}" for name in others), "--force"]))
    fitting = platform
    if table.nodes is not None and table.nodes not in (platform.nodes, platform.hosts):
        what = f"the table was measured on {table.nodes} nodes, {platform} has {platform.nodes}"
        refuse("nodes", what, f"--machine {platform.cluster.machine.name}(nodes={table.nodes})")
    elif table.gpus is not None and table.gpus != platform.gpus:
        local, rest = divmod(table.gpus, platform.nodes)
        if rest or local > platform.gpus_per_node:
            machine = platform.cluster.machine
            accepted = f"--machine {machine.name}(nodes={-(-table.gpus // machine.gpus)})"
            refuse("gpus", f"the table was measured on {table.gpus} GPUs, {platform} has {platform.gpus}", accepted)
        else:
            fitting = platform.with_gpus(local)
    if not table.nvls:
        fitting = _without_nvls(fitting)
    settings = table.about.get("nccl", "")
    fitting = replace(fitting, nccl=nccl_of(settings), ctas=ctas_of(settings))
    chosen = kind or table.kind or "all-reduce"
    if kind is None and table.kind is None and table.bus_factor is not None and table.bus_factor < 1.005:
        factor = f"busbw is {table.bus_factor:.3g} times algbw, which is not so for all-reduce"
        message = f"the table does not name its collective, and its {factor}"
        refuse("collective", message, "--collective KIND")
    if table.kind is not None and kind is not None and kind != table.kind:
        refuse("collective", f"the table is of {table.kind}, not of {kind}", table.kind)
    algorithm = given.algorithm or table.algorithm
    if table.algorithm not in ("auto", algorithm):
        refuse("algorithm", f"the table was measured with {table.algorithm}, not with {algorithm}", table.algorithm)
    possible = possible_algorithms(fitting, chosen)
    counts = given.algorithm is not None or chosen == "all-reduce"
    if not problems and fitting.gpus > 1 and counts and algorithm not in possible:
        name = "NCCL_ALGO" if given.algorithm is None else "algorithm"
        refuse(name, f"{fitting} does not run {chosen} with '{algorithm}'", one_of(possible))
    times = tuple(table.times(given.column))
    if not times:
        refuse("rows", f"no size has a time {given.column}", "at least one size with a time")
    if problems:
        raise InputError(problems)
    return Run(table.name, fitting, chosen, algorithm if chosen == "all-reduce" else "auto", times)


def possible_algorithms(platform: Platform, kind: str) -> list[str]:
    """What NCCL_ALGO may be set to for a collective on a platform."""
    known = algorithms(platform, kind)
    named = {wire.RING: "ring", wire.TREE: "tree", wire.NVLS: "nvls", wire.NVLS_TREE: "nvls"}
    return ["auto", *(named[name] for name in known if name in named)]


def fit(runs: Sequence[Run], start: Constants = START, width: Constants = WIDTH) -> Constants:
    """The constants that the runs together support best; of what every run has of its own, the mean."""
    return fit_each(runs, start, width)[0]


def fit_each(
    runs: Sequence[Run],
    start: Constants = START,
    width: Constants = WIDTH,
    also_from: Sequence[Constants] = (),
    cancel: Cancellation | None = None,
) -> tuple[Constants, tuple[Constants, ...]]:
    """The constants that the runs together support best, and those that each of them has of its own.

    The descent begins at `start`, around which the prior lies, and at all others of `also_from`; the best end counts.

    How a program launches a collective (one process for all GPUs or one for each, old software or new) is not the
    machine's, nor is how evenly the flows of many nodes spread over the network: every run has its own launch and,
    with more than two nodes, its own `efficiency_spread`. The launch of all is the geometric mean of the runs that
    have small sizes, the spread that of all that have more than two nodes.

    Raises [`CancelledError`] when `cancel` is called.
    """
    shared = [name for name in fitted_names(runs) if name not in OWN]
    own = [(name, run) for name in OWN for run in runs if _matters(name, [run])]
    names = [*shared, *(name for name, _ in own)]
    centres = [math.log(getattr(start, name)) for name in names]
    widths = [getattr(width, name) for name in shared]
    widths += [
        min(UNSEEN_WIDTH if name == "launch" and run.times[0][0] >= SMALL else math.inf, getattr(width, name))
        for name, run in own
    ]
    places = [[(i + len(shared), name) for i, (name, r) in enumerate(own) if r is run] for run in runs]

    def constants(parameters: Sequence[float], run: int) -> Constants:
        values = {name: within(name, value) for name, value in zip(shared, parameters, strict=False)}
        return start.changed(values | {name: within(name, parameters[place]) for place, name in places[run]})

    def residuals(parameters: Sequence[float]) -> list[float]:
        cancelling.check(cancel)
        errors = []
        for index, run in enumerate(runs):
            here = constants(parameters, index)
            for size, measured in run.times:
                predicted = time(run.platform, here, run.kind, run.algorithm, size)
                weight = run.weight * (PLATEAU_WEIGHT if size >= PLATEAU else 1.0)
                errors.append(weight * soften(math.log(predicted / measured), SOFT) / NOISE)
        return errors + [(a - b) / w for a, b, w in zip(parameters, centres, widths, strict=True)]

    begins = [[math.log(getattr(begin, name)) for name in names] for begin in (start, *also_from)]
    ends = [minimise(residuals, begin) for begin in begins]
    found = min(ends, key=lambda end: math.fsum(error * error for error in residuals(end)))
    each = tuple(constants(found, index) for index in range(len(runs)))
    small = [c.launch for c, run in zip(each, runs, strict=True) if run.times[0][0] < SMALL]
    spread = [c.efficiency_spread for c, run in zip(each, runs, strict=True) if run.platform.nodes > 2]
    values = {"launch": _geometric_mean(small or [c.launch for c in each])}
    if spread:
        values["efficiency_spread"] = _geometric_mean(spread)
    return each[0].changed(values), each


def fitted_names(runs: Sequence[Run]) -> list[str]:
    """The constants that the times of any run depend on."""
    return [name for name in NAMES if _matters(name, runs)]


def fit_table(run: Run, start: Constants, cancel: Cancellation | None = None) -> Constants:
    """The constants of a single system, that of a class or another, from a class's.

    A network that is congested, or links that are slower, may be far from the class. So the descent begins a second
    time where the largest size takes what it does.
    """
    size, measured = run.times[-1]
    ratio = time(run.platform, start, run.kind, run.algorithm, size) / measured
    if run.platform.nodes > 1:
        rates = ["efficiency_single" if run.platform.single_nic else "efficiency_network"]
    else:
        rates = ["efficiency_simple", "efficiency_nvls"]
    scaled = start.changed({name: within(name, math.log(getattr(start, name) * ratio)) for name in rates})
    return fit_each([run], start, CALIBRATED_WIDTH, [scaled], cancel)[0]


def residuals_of(run: Run, constants: Constants) -> list[Residual]:
    """Measured against predicted, size by size."""
    return [
        Residual(size, measured, time(run.platform, constants, run.kind, run.algorithm, size))
        for size, measured in run.times
    ]


def alpha_beta(times: Sequence[tuple[int, float]]) -> AlphaBeta:
    """The two parameters with the least sum of squared relative errors."""
    weights = [1 / t**2 for _, t in times]
    n = math.fsum(weights)
    s = math.fsum(w * size for w, (size, _) in zip(weights, times, strict=True))
    ss = math.fsum(w * size * size for w, (size, _) in zip(weights, times, strict=True))
    t = math.fsum(w * time for w, (_, time) in zip(weights, times, strict=True))
    st = math.fsum(w * size * time for w, (size, time) in zip(weights, times, strict=True))
    determinant = n * ss - s * s
    if determinant <= 0:
        return AlphaBeta(t / n, math.inf)
    slope = (n * st - s * t) / determinant
    alpha = (ss * t - s * st) / determinant
    if slope <= 0:
        return AlphaBeta(t / n, math.inf)
    return AlphaBeta(alpha, 1 / slope) if alpha > 0 else AlphaBeta(0.0, ss / st)


def alpha_beta_residuals(run: Run, plain: AlphaBeta) -> list[Residual]:
    """The plain fit against the measured times."""
    return [Residual(size, measured, plain.time(size)) for size, measured in run.times]


def errors_of(residuals: Iterable[Residual]) -> Errors:
    """Mean absolute errors from 1 MiB up and below."""
    large: list[float] = []
    small: list[float] = []
    for residual in residuals:
        (large if residual.size >= MIB else small).append(abs(residual.error))
    return Errors(_mean(large), _mean(small))


def hold_out(run: Run, start: Constants = START) -> list[Residual]:
    """Every size as predicted by a fit on the sizes next to it: on every other one, from the first or the second."""
    found: list[Residual] = []
    for parity in (0, 1):
        constants = fit([run.part(parity)], start)
        found += residuals_of(run.part(1 - parity), constants)
    return sorted(found, key=lambda r: r.size)


def alpha_beta_hold_out(run: Run) -> list[Residual]:
    """The same for the plain fit."""
    found: list[Residual] = []
    for parity in (0, 1):
        found += alpha_beta_residuals(run.part(1 - parity), alpha_beta(run.part(parity).times))
    return sorted(found, key=lambda r: r.size)


def _matters(name: str, runs: Sequence[Run]) -> bool:
    """Whether the times of any run depend on a constant."""
    if name == "network_latency_scale":
        return any(run.platform.nodes > 1 for run in runs)
    if name == "network_delay":
        return any(
            run.platform.nodes > 1 and networks.of(run.platform).constants["network_delay"] > NO_DELAY for run in runs
        )
    if name in ("efficiency_network", "efficiency_single"):
        single = name == "efficiency_single"
        return any(run.platform.nodes > 1 and run.platform.single_nic == single for run in runs)
    if name == "efficiency_spread":
        return any(run.platform.nodes > 2 for run in runs)
    if name in ("nvls_latency", "efficiency_nvls"):
        nvls = {wire.NVLS} if name == "nvls_latency" else {wire.NVLS, wire.NVLS_TREE}
        runs = [run for run in runs if name != "nvls_latency" or run.kind == "all-reduce"]
        return any(nvls & set(algorithms(run.platform, run.kind, run.algorithm)) for run in runs)
    return True


def within(name: str, logarithm: float) -> float:
    """The constant of a logarithm, no more and no less than it may be."""
    low, high = LIMITS[name]
    return min(high, max(low, math.exp(min(logarithm, 50.0))))


def _without_nvls(platform: Platform) -> Platform:
    return replace(platform, nvls=False)


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
