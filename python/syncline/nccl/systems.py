"""Which measured systems each class of constants is fitted on, and how.

A class is fitted in two stages: first the constants of a node, on the tables of single nodes; then, with these held
fast, those of the network, on the tables of several nodes. Tables of the same machine share one vote.

What is left of the NICs' rate with more than two nodes (`efficiency_spread`) is the network's, and networks differ more
in it than anything else does: it is the median of what the systems of the class with more than two nodes have and of
the rates that users of such systems, of any class, state without a table.
`python -m lab.validation --refit` writes the class files anew.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from syncline.nccl import measurements
from syncline.nccl.calibration import SMALL, Given, Run, fit_each, run_of
from syncline.nccl.constants import NAMES, START, WIDTH, Constants, Fitted, Software
from syncline.nccl.platform import platform

NETWORK: Final = ("network_latency_scale", "efficiency_network", "efficiency_single", "efficiency_spread")
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
        (("v100-8-dgx1",), ("v100-16-p3dn-ring",)),
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
            ("a100-32-deepops",),
            ("a100-16-oci",),
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
            ("h100-16-ring",),
            ("h100-16-tree",),
            ("h100-32-vm",),
            ("h100-64-tuned",),
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
    ("h100-16-efa", "h100-nvswitch"),
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
    """The class as fitted on its systems, but for those of which a table is named."""
    left_out = set(without)
    systems = [tables for tables in plan.systems if not left_out & set(tables)]
    runs = [replace(run(table), weight=len(tables) ** -0.5) for tables in systems for table in tables]
    single = [r for r in runs if r.platform.nodes == 1]
    several = [r for r in runs if r.platform.nodes > 1]
    constants, each = fit_each(single) if single else (START, ())
    if several:
        constants = constants.changed(_network(several, constants))
    launches = [math.log(c.launch) for c, r in zip(each, single, strict=True) if r.times[0][0] < SMALL]
    sources = [Fitted(r.name, measurements.packaged(r.name).about["source"]) for r in runs]
    spread = max(LEAST_SPREAD, _spread(launches))
    return Software(plan.name, plan.about, plan.machines, constants, tuple(sources), spread)


def _network(runs: list[Run], constants: Constants) -> dict[str, float]:
    """The constants of the network, with those of the node held fast."""
    fast = WIDTH.changed({name: 0.01 for name in NAMES if name not in NETWORK} | {"launch": 0.2})
    found, each = fit_each(runs, constants, fast)
    values = {name: getattr(found, name) for name in NETWORK}
    spreads = [c.efficiency_spread for c, r in zip(each, runs, strict=True) if r.platform.nodes > 2]
    spreads += [min(stated.share / found.efficiency_network, 1.0) for stated in STATED]
    if len(spreads) == len(STATED):
        return values
    return values | {"efficiency_spread": statistics.median(spreads)}


def _spread(logarithms: list[float]) -> float:
    if len(logarithms) < 3:
        return 0.0
    mean = math.fsum(logarithms) / len(logarithms)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in logarithms) / (len(logarithms) - 1))
