"""The ACE paper's figures of training (Rashidi et al., ISCA 2021): sections VI-B to VI-D, Figures 9, 11 and 12.

Three workloads on 16 to 128 NPUs with the systems of Table VI. The paper gives numbers of NPUs; the shapes are those
of its other figures and the nearest to them. Performance is the inverse of the iteration time, and means are
arithmetic.

An iteration carries the same gradients whatever the system, so that the effective network bandwidth of two systems
(bytes of an iteration over its time) compares as the inverse of their iteration times. Bytes on the links do not serve:
they contain padding, and the runs end with the last computation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import fmean
from typing import Any, Final

from syncline.engine.runs import PS_PER_S
from syncline.fabric.topology import Topology
from syncline.studies.reproduction.ledger import Value
from syncline.studies.reproduction.runs import Run, Runs

WORKLOADS: Final = {"ResNet-50": "ace/resnet50", "GNMT": "ace/gnmt", "DLRM": "ace/dlrm"}
OPTIMISED: Final = "ace/dlrm-optimised"
SHAPES: Final = {16: (4, 2, 2), 32: (4, 4, 2), 64: (4, 4, 4), 128: (4, 8, 4)}
BASELINES: Final = ("BaselineNoOverlap", "BaselineCommOpt", "BaselineCompOpt")
OVERLAPPING: Final = ("BaselineCommOpt", "BaselineCompOpt")
SYSTEMS: Final = (*BASELINES, "ACE", "Ideal")
SRAM: Final = (1, 2, 4, 8)
FSMS: Final = (4, 8, 16, 20)
CHOSEN: Final = (4, 16)
"""MiB of SRAM and FSMs of Table V."""
WITHIN: Final = 0.01
"""What may be lost where something should not fall."""


@dataclass(frozen=True, slots=True)
class Point:
    """A simulation of the grid."""

    workload: str
    system: str
    npus: int = 128
    settings: tuple[str, ...] = ()
    study: str = ""
    """Another study than the workload's own."""


Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Training:
    """Computes the simulated values of the claims about training."""

    runs: Runs

    def run(self, point: Point) -> Run:
        """The simulation of a point."""
        study = point.study or WORKLOADS[point.workload]
        base = self.runs.variant(Run(study, point.system)).experiment.topology
        assert isinstance(base, Topology)
        sizes = zip(base.dims, SHAPES[point.npus], strict=True)
        shape = Topology(tuple(dataclasses.replace(dim, size=size) for dim, size in sizes))
        moved = () if shape == base else (f"topology={shape}",)
        return Run(study, point.system, (*moved, *point.settings))

    def summary(self, point: Point) -> dict[str, Any]:
        """What a simulation says."""
        return self.runs.result(self.run(point)).summary

    def iteration(self, point: Point) -> float:
        """Seconds of an iteration."""
        summary = self.summary(point)
        return float(summary["total_ps"] / summary["iterations"] / PS_PER_S)

    def exposed(self, point: Point) -> float:
        """Seconds of exposed communication in an iteration."""
        summary = self.summary(point)
        return float(summary["exposed_ps"] / summary["iterations"] / PS_PER_S)

    def times(self, workload: str, npus: int) -> dict[str, float]:
        """The iteration time of each system."""
        return {system: self.iteration(Point(workload, system, npus)) for system in SYSTEMS}

    def of_ideal(self, workload: str, npus: int = 128) -> dict[str, float]:
        """The share of the ideal system's performance, in per cent."""
        times = self.times(workload, npus)
        return {system: 100 * times["Ideal"] / time for system, time in times.items()}

    def gains(self, workload: str) -> list[float]:
        """How much faster ACE is than the best baseline, for each size."""
        found = []
        for npus in SHAPES:
            times = self.times(workload, npus)
            found.append(min(times[system] for system in BASELINES) / times["ACE"])
        return found

    def performance(self, sram: int, fsms: int) -> float:
        """Of an ACE of other size, relative to the one chosen; mean over workloads and sizes."""
        return fmean(
            self.iteration(engine(workload, npus, *CHOSEN)) / self.iteration(engine(workload, npus, sram, fsms))
            for workload, npus in product(WORKLOADS, SHAPES)
        )


def engine(workload: str, npus: int, sram: int, fsms: int) -> Point:
    """An ACE with `sram` MiB and `fsms` FSMs."""
    if (sram, fsms) == CHOSEN:
        return Point(workload, "ACE", npus)
    return Point(workload, "ACE", npus, (f"endpoint.sram={sram}MiB", f"endpoint.fsms={fsms}"))


def grid() -> Iterator[Point]:
    """Figure 11."""
    return (Point(*point) for point in product(WORKLOADS, SYSTEMS, SHAPES))


def engines() -> Iterator[Point]:
    """Figure 9a."""
    return (engine(*point) for point in product(WORKLOADS, SHAPES, SRAM, FSMS))


def at_128(workload: str) -> Iterator[Point]:
    """Figure 10."""
    return (Point(workload, system) for system in SYSTEMS)


def _bigger(training: Training) -> Computed:
    bigger = training.performance(8, 20)
    parts = {name: fmean(_gain(training, name, npus) for npus in SHAPES) for name in WORKLOADS}
    return bigger, "; ".join(f"{name}: {gain:.3f}" for name, gain in parts.items())


def _gain(training: Training, workload: str, npus: int) -> float:
    bigger = training.iteration(engine(workload, npus, 8, 20))
    return training.iteration(engine(workload, npus, *CHOSEN)) / bigger


def _knee(training: Training) -> Computed:
    found = {key: training.performance(*key) for key in product(SRAM, FSMS)}
    steps = [((a, f), (b, f)) for a, b in pairwise(SRAM) for f in FSMS]
    steps += [((s, a), (s, b)) for a, b in pairwise(FSMS) for s in SRAM]
    falls = [f"{less} to {more}" for less, more in steps if found[more] < found[less] * (1 - WITHIN)]
    sram, fsms = CHOSEN
    gain_sram, gain_fsms = found[8, fsms] - found[CHOSEN], found[sram, 20] - found[CHOSEN]
    losses = [found[4, fsms] - found[2, fsms], found[2, fsms] - found[1, fsms]]
    fsm_losses = [found[sram, 16] - found[sram, 8], found[sram, 8] - found[sram, 4]]
    knee = all(loss > gain_sram for loss in losses) and all(loss > gain_fsms for loss in fsm_losses)
    note = (
        f"16 FSMs, {_list([found[s, fsms] for s in SRAM])} with {', '.join(map(str, SRAM))} MiB; "
        f"4 MiB, {_list([found[sram, f] for f in FSMS])} with {', '.join(map(str, FSMS))} FSMs"
    )
    if falls:
        note += f"; falls from {', '.join(falls)}"
    return float(knee and not falls), note


def _utilisation(training: Training, of_pass: str) -> list[float]:
    """Per cent of the time of a pass in which the engine holds a chunk."""
    found = []
    for workload in WORKLOADS:
        busy = training.summary(Point(workload, "ACE"))["passes"]
        found.append(100 * sum(p["engine_active_ps"] for p in busy if p["pass"] == of_pass) / _length(busy, of_pass))
    return found


def _length(passes: list[dict[str, Any]], of_pass: str) -> int:
    return sum(p["to_ps"] - p["from_ps"] for p in passes if p["pass"] == of_pass)


def _backward(training: Training) -> Computed:
    return _utilisation(training, "backward"), "from the first kernel of back-propagation to the end of the last"


def _forward(training: Training) -> Computed:
    shares = []
    for workload in WORKLOADS:
        first = next(
            p
            for p in training.summary(Point(workload, "ACE"))["passes"]
            if p["pass"] == "forward" and p["iteration"] == 0
        )
        shares.append(100 * first["engine_active_ps"] / (first["to_ps"] - first["from_ps"]))
    resnet, gnmt, dlrm = shares
    note = ", ".join(f"{name} {share:.1f} %" for name, share in zip(WORKLOADS, shares, strict=True))
    return float(resnet == 0 and gnmt == 0 and 0 < dlrm < 50), note


def _speedup(workload: str) -> Callable[[Training], Computed]:
    def compute(training: Training) -> Computed:
        times = training.times(workload, 128)
        return [times[system] / times["ACE"] for system in OVERLAPPING], _breakdown(training, workload)

    return compute


def _share_of_ideal(workload: str) -> Callable[[Training], Computed]:
    def compute(training: Training) -> Computed:
        shares = training.of_ideal(workload)
        return [shares[system] for system in (*OVERLAPPING, "ACE")], _breakdown(training, workload)

    return compute


def _breakdown(training: Training, workload: str) -> str:
    parts = []
    for system in SYSTEMS:
        point = Point(workload, system)
        parts.append(f"{system} {1e3 * training.iteration(point):.3f} ({1e3 * training.exposed(point):.3f} exposed)")
    return f"ms: {', '.join(parts)}"


def _mean_of_ideal(training: Training) -> Computed:
    shares = [training.of_ideal(workload, npus) for workload, npus in product(WORKLOADS, SHAPES)]
    means = [fmean(share[system] for share in shares) for system in (*BASELINES, "ACE")]
    by_workload = {
        workload: [fmean(training.of_ideal(workload, n)[system] for n in SHAPES) for system in (*BASELINES, "ACE")]
        for workload in WORKLOADS
    }
    return means, "; ".join(f"{name}: {_list(values, '.1f')}" for name, values in by_workload.items())


def _mean_gain(training: Training) -> Computed:
    gains = {workload: training.gains(workload) for workload in WORKLOADS}
    note = "; ".join(f"{name}: {_list(values, '.2f')}" for name, values in gains.items())
    return [fmean(values) for values in gains.values()], f"{note} on {', '.join(map(str, SHAPES))} NPUs"


def _largest_gain(training: Training) -> Computed:
    return [max(training.gains(workload)) for workload in WORKLOADS], ""


def _network(training: Training) -> Computed:
    ratios = []
    for workload, npus in product(WORKLOADS, SHAPES):
        times = training.times(workload, npus)
        ratios += [times[system] / times["ACE"] for system in BASELINES]
    return [fmean(ratios), max(ratios)], "bytes of an iteration over its time"


def _orderings(training: Training) -> Computed:
    broken = []
    for workload, npus in product(WORKLOADS, SHAPES):
        times = training.times(workload, npus)
        here = f"{workload} on {npus}"
        if min(times[system] for system in BASELINES) <= times["ACE"]:
            broken.append(f"ACE is not the fastest: {here}")
        if times["BaselineCompOpt"] >= times["BaselineCommOpt"]:
            broken.append(f"CommOpt beats CompOpt: {here}")
        if times["BaselineNoOverlap"] >= times["BaselineCommOpt"]:
            broken.append(f"CommOpt beats NoOverlap: {here}")
        beats = times["BaselineNoOverlap"] < times["BaselineCompOpt"]
        if beats != (workload == "ResNet-50" and npus > min(SHAPES)):
            broken.append(f"NoOverlap {'beats' if beats else 'does not beat'} CompOpt: {here}")
    for workload, system in product(WORKLOADS, ("BaselineNoOverlap", "BaselineCompOpt")):
        gains = [times[system] / times["ACE"] for times in (training.times(workload, npus) for npus in SHAPES)]
        if any(after < before * (1 - WITHIN) for before, after in pairwise(gains)):
            broken.append(f"the gain over {system} shrinks for {workload}: {_list(gains)}")
    return float(not broken), "; ".join(broken) or "all of them"


def _exposed_grows(training: Training) -> Computed:
    broken = []
    for workload, system in product(WORKLOADS, SYSTEMS):
        points = [Point(workload, system, npus) for npus in SHAPES]
        for before, after in pairwise(points):
            slack = WITHIN * training.iteration(after)
            if training.exposed(after) < training.exposed(before) - slack:
                broken.append(f"{workload}, {system}: {before.npus} to {after.npus}")
    return float(not broken), "; ".join(broken) or "for every system and workload"


def _optimised(training: Training) -> Computed:
    found = []
    for plain, optimised in _both_loops():
        found.append(training.iteration(plain) / training.iteration(optimised))
    return found, "over two iterations; it does not last"


def _both_loops() -> Iterator[tuple[Point, Point]]:
    """DLRM with its tables in line with the iteration, and in the background."""
    for system in ("BaselineCompOpt", "ACE"):
        yield Point("DLRM", system), Point("DLRM", f"{system} optimised", study=OPTIMISED)


METRICS: Final[dict[str, Callable[[Training], Computed]]] = {
    "ace-fig9a-bigger-engine": _bigger,
    "ace-fig9a-knee": _knee,
    "ace-fig9b-utilisation-backward": _backward,
    "ace-fig9b-utilisation-forward": _forward,
    "ace-gnmt-speedup": _speedup("GNMT"),
    "ace-gnmt-of-ideal": _share_of_ideal("GNMT"),
    "ace-dlrm-speedup": _speedup("DLRM"),
    "ace-dlrm-of-ideal": _share_of_ideal("DLRM"),
    "ace-fig11-mean-of-ideal": _mean_of_ideal,
    "ace-fig11-mean-speedup": _mean_gain,
    "ace-fig11-max-speedup": _largest_gain,
    "ace-fig11-network-utilisation": _network,
    "ace-fig11-orderings": _orderings,
    "ace-fig11-exposed-grows": _exposed_grows,
    "ace-fig12-dlrm-optimised": _optimised,
}

POINTS: Final[dict[str, Callable[[], Iterator[Point]]]] = {
    "ace-fig9a-bigger-engine": engines,
    "ace-fig9a-knee": engines,
    "ace-fig9b-utilisation-backward": lambda: (Point(workload, "ACE") for workload in WORKLOADS),
    "ace-fig9b-utilisation-forward": lambda: (Point(workload, "ACE") for workload in WORKLOADS),
    "ace-gnmt-speedup": lambda: at_128("GNMT"),
    "ace-gnmt-of-ideal": lambda: at_128("GNMT"),
    "ace-dlrm-speedup": lambda: at_128("DLRM"),
    "ace-dlrm-of-ideal": lambda: at_128("DLRM"),
    "ace-fig12-dlrm-optimised": lambda: (point for loops in _both_loops() for point in loops),
}
"""The simulations that a claim needs; those that are not named need the grid."""


def _list(values: list[float], form: str = ".3f") -> str:
    return ", ".join(f"{value:{form}}" for value in values)
