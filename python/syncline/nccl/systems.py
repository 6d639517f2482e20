"""Which measured systems each class of constants is fitted on, and how.

Constants of a node are a class's, fitted on tables of single nodes; tables of the same machine share one vote.
Those of a network (`networks.py`) are fitted on tables of several nodes, of whatever GPUs, with the constants of nodes
held fast.

What is left of the NICs' rate with more than two nodes (`efficiency_spread`) differs more than anything else does: it
is the median of what the fitted systems with more than two nodes have and of the rates that users of such systems state
without a table.
`python -m lab.validation --refit` writes the class files anew.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncline.nccl import measurements, networks
from syncline.nccl.calibration import NOISE, PLATEAU, SMALL, Given, Run, fit_each, run_of, within
from syncline.nccl.constants import NO_DELAY, START, WIDTH, Constants, Fitted, Software, load
from syncline.nccl.model import time
from syncline.nccl.platform import platform
from syncline.nccl.solver import minimise, soften

LAUNCH_WIDTH: Final = 0.2
"""How far the launch of a system of several nodes may stray from that of its class."""
ROUND_DELAY: Final = 10e-6
UNKNOWN: Final = 2.0
"""Where the fit of a delay begins, and how far it may be from there: nothing is known of it."""
EVEN: Final = 5.0
"""Rows that every table counts as, the square root: each system has one vote."""
SOFT_NETWORK: Final = 0.2
"""Residuals from which on a row counts less: networks stray more than nodes do."""
LEAST_SPREAD: Final = 0.35
"""How far latencies stray where too few systems are known to say: as far as those of five A100 systems."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The rate of large messages that somebody reports of a system with more than two nodes."""

    about: str
    share: float
    """Bus bandwidth over the rate of a node's NICs."""
    source: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A class: its machines and the systems, each one or several tables, that it is fitted on."""

    name: str
    about: str
    machines: tuple[str, ...]
    systems: tuple[tuple[str, ...], ...]

    @property
    def tables(self) -> list[str]:
        """All tables."""
        return [table for system in self.systems for table in system]


STATED: Final = (
    Stated("A100, 3 nodes, 4 NICs of 200 Gb/s: 96 GB/s", 0.96, "https://github.com/NVIDIA/nccl-tests/issues/119"),
    Stated("A100, 5 nodes, 8 NICs of 100 Gb/s: 58 GB/s", 0.58, "https://github.com/NVIDIA/nccl-tests/issues/169"),
    Stated("H100, 4 nodes, 8 NICs of 400 Gb/s: 320 GB/s", 0.80, "https://github.com/NVIDIA/nccl/issues/1221"),
    Stated("H100, 8 nodes, 8 NICs of 400 Gb/s: 350 GB/s", 0.875, "https://github.com/uccl-project/uccl/issues/205"),
)

PLANS: Final = (
    Plan(
        "v100-mesh",
        "V100 in a hybrid cube mesh (DGX-1V); P100 (DGX-1P) uses it unfitted",
        ("dgx1v", "dgx1p"),
        (("v100-8-dgx1",),),
    ),
    Plan("v100-nvswitch", "V100 behind NVSwitch (DGX-2)", ("dgx2",), (("v100-12-dgx2",),)),
    Plan(
        "a100-nvswitch",
        "A100 behind NVSwitch (DGX A100, HGX A100)",
        ("dgx-a100",),
        (
            ("a100-8-oci",),
            ("a100-8-superbench",),
            ("a100-8-note-threads", "a100-8-note-processes"),
            ("a100-8-note-2.19",),
        ),
    ),
    Plan(
        "h100-nvswitch",
        "H100 behind NVSwitch, with NVLS where all GPUs of a node take part (DGX H100, HGX H100)",
        ("dgx-h100", "dgx-h200"),
        (
            ("h100-8-nvls",),
            ("h20-8-nvls",),
            ("h100-8-nvls-large",),
            ("h100-8-reduce-scatter-ring",),
            ("h100-2",),
        ),
    ),
    Plan("b200-nvswitch", "B200 behind NVSwitch (DGX B200, HGX B200)", ("dgx-b200",), (("b200-8-p6",),)),
    Plan("gb200-nvl72", "GB200 in a rack of 72 behind NVSwitches (NVL72)", ("gb200-nvl72",), (("gb200-72-nvl72",),)),
)
CHECKS: Final = (
    ("a100-8-superbench-all-gather", "a100-nvswitch"),
    ("a100-8-superbench-reduce-scatter", "a100-nvswitch"),
    ("a100-8-superbench-broadcast", "a100-nvswitch"),
    ("a100-8-superbench-reduce", "a100-nvswitch"),
    ("a100-8-superbench-all-to-all", "a100-nvswitch"),
    ("v100-12-dgx2-broadcast", "v100-nvswitch"),
    ("v100-12-dgx2", "v100-mesh"),
    ("v100-8-dgx1", "v100-nvswitch"),
)
"""Tables that were not fitted, and the class that predicts them."""


def run(table: str) -> Run:
    """A table that comes with the package, on the machine that it names, which may be that of a GPU much like it."""
    read = measurements.packaged(table)
    return run_of(read, platform(read.about["machine"]), Given(force=True))


def fitted_machines(software: Software) -> set[str]:
    """The machines that a class was fitted on, without their parameters."""
    packaged = [f.table for f in software.fitted_on if f.table in measurements.names()]
    written = [measurements.packaged(table).about["machine"] for table in packaged] or software.machines
    return {machine.partition("(")[0] for machine in written}


def fit_class(plan: Plan, without: Iterable[str] = ()) -> Software:
    """The class as fitted on its systems of single nodes, but for those of which a table is named."""
    left_out = set(without)
    systems = [tables for tables in plan.systems if not left_out & set(tables)]
    runs = [replace(run(table), weight=len(tables) ** -0.5) for tables in systems for table in tables]
    runs = [r for r in runs if r.platform.nodes == 1]
    constants, each = fit_each(runs) if runs else (START, ())
    launches = [math.log(c.launch) for c, r in zip(each, runs, strict=True) if r.times[0][0] < SMALL]
    sources = [Fitted(r.name, measurements.packaged(r.name).about["source"]) for r in runs]
    spread = max(LEAST_SPREAD, _spread(launches))
    return Software(plan.name, plan.about, plan.machines, constants, tuple(sources), spread)


def fit_network(name: str, without: Iterable[str] = ()) -> dict[str, float]:
    """The constants of a network as fitted on its tables, but for those named; of the GPUs, those of their classes.

    InfiniBand's tables say which share of the NICs' rate data reaches (its steps take what NCCL publishes); those of
    another network, what it adds to a step. Launch and spread are each system's own. With no table left, nothing is
    fitted.
    """
    network = networks.NETWORKS[name]
    runs = [run(table) for table in network.fitted_on if table not in set(without)]
    start = dict(network.constants)
    if not runs:
        return start
    delayed = start["network_delay"] > NO_DELAY
    shared = ["network_delay"] if delayed else ["efficiency_network"]
    if any(r.platform.single_nic for r in runs):
        shared.append("efficiency_single")
    else:
        start["efficiency_single"] = networks.VERBS["efficiency_single"]
    start["network_delay"] = ROUND_DELAY if delayed else NO_DELAY
    known = {r.platform.software: load(r.platform.software).constants for r in runs}
    of_node = [known[r.platform.software].changed(start) for r in runs]
    own = [("launch", i) for i in range(len(runs))]
    own += [("efficiency_spread", i) for i, r in enumerate(runs) if r.platform.nodes > 2]
    centres = [math.log(start[n]) for n in shared]
    centres += [math.log(getattr(of_node[i], n)) for n, i in own]
    widths = [UNKNOWN if n == "network_delay" else getattr(WIDTH, n) for n in shared]
    widths += [LAUNCH_WIDTH if n == "launch" else WIDTH.efficiency_spread for n, _ in own]

    def of_run(parameters: Sequence[float], index: int) -> Constants:
        values = {n: within(n, value) for n, value in zip(shared, parameters, strict=False)}
        mine = zip(own, parameters[len(shared) :], strict=True)
        return of_node[index].changed(values | {n: within(n, value) for (n, i), value in mine if i == index})

    def residuals(parameters: Sequence[float]) -> list[float]:
        errors = []
        for index, r in enumerate(runs):
            here = of_run(parameters, index)
            weight = len(r.times) ** -0.5 * EVEN
            for size, measured in r.times:
                predicted = time(r.platform, here, r.kind, r.algorithm, size)
                errors.append(weight * soften(math.log(predicted / measured), SOFT_NETWORK) / NOISE)
        return errors + [(a - b) / w for a, b, w in zip(parameters, centres, widths, strict=True)]

    found = minimise(residuals, centres)
    values = start | {n: within(n, value) for n, value in zip(shared, found, strict=False)}
    if delayed:
        return values
    spreads = [_spread_of(r, of_run(found, i)) for i, r in enumerate(runs) if r.platform.nodes > 2]
    spreads += [min(stated.share / values["efficiency_network"], 1.0) for stated in STATED]
    return values | {"efficiency_spread": statistics.median(spreads)}


def _spread_of(fitted: Run, constants: Constants) -> float:
    """What a system with more than two nodes leaves of the NICs' rate, by its largest sizes, which show no more."""
    rows = [(size, measured) for size, measured in fitted.times if size >= PLATEAU]
    if not rows:
        return constants.efficiency_spread

    def residuals(parameters: Sequence[float]) -> list[float]:
        here = constants.changed({"efficiency_spread": within("efficiency_spread", parameters[0])})
        times = [time(fitted.platform, here, fitted.kind, fitted.algorithm, size) for size, _ in rows]
        return [math.log(found / measured) for found, (_, measured) in zip(times, rows, strict=True)]

    return within("efficiency_spread", minimise(residuals, [math.log(START.efficiency_spread)])[0])


def _spread(logarithms: list[float]) -> float:
    if len(logarithms) < 3:
        return 0.0
    mean = math.fsum(logarithms) / len(logarithms)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in logarithms) / (len(logarithms) - 1))
