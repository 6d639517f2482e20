"""The ACE paper's figures (Rashidi et al., ISCA 2021), simulated.

Figures 5 and 6 sweep what a single all-reduce is given of the NPU until it reaches 90 % of what the ideal
endpoint achieves on the same topology; Figure 4 puts kernels beside an all-reduce with dynamic contention; the rest
compares the systems of Table VI training ResNet-50. What compares several workloads or sizes is in `training`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

from syncline.engine import bounds
from syncline.engine.runs import PS_PER_S, Result
from syncline.experiment.load import Variant
from syncline.fabric.topology import Topology
from syncline.sections import hardware_cost
from syncline.sections.endpoints import AceEndpoint
from syncline.studies.reproduction import training
from syncline.studies.reproduction.ledger import Claim, Finding, Value
from syncline.studies.reproduction.runs import Run, Runs, least

ALL_REDUCE: Final = "ace/allreduce"
TRAINING: Final = "ace/resnet50"
CONTENTION: Final = "ace/contention"
MEASURED: Final = {"ace-fig4-contention": ("Alone", "GEMM", "Lookup"), "ace-fig4b-dlrm": ("Small", "SmallBoth")}
"""Claims on kernels beside an all-reduce, and the variants of the study that they compare, beside nothing first."""
SYSTEMS: Final = ("BaselineNoOverlap", "BaselineCommOpt", "BaselineCompOpt", "ACE", "Ideal")
SHAPES: Final = {16: (4, 2, 2), 64: (4, 4, 4)}
"""The shapes that the means of Figure 5 are taken over; the paper does not give the one of 16 NPUs."""
FLAT: Final = (4, 4, 1)
"""The other shape of 16 NPUs, reported beside the claim."""
GOAL: Final = 0.9
ALL_SMS: Final = 80
ALL_MEMORY_GBPS: Final = 900
DRIVEN_GBPS: Final = 300
READS_PER_SENT: Final = Fraction(3, 2)
"""Reads per byte sent of a baseline: 2 in reduce-scatter and 1 in all-gather, which send equally much."""


CLOSED_FORMS: Final = frozenset({"ace-analytic-memory", "ace-table4-area-power"})
"""Claims for which nothing is simulated."""


class GoalMissedError(Exception):
    """Everything that the NPU has is not enough to reach the goal."""


@dataclass(frozen=True, slots=True)
class Ace:
    """Computes the simulated values of the paper's claims."""

    runs: Runs

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        if claim.id in training.METRICS:
            return Finding(claim, *training.METRICS[claim.id](training.Training(self.runs)))
        try:
            return Finding(claim, *METRICS[claim.id](self))
        except GoalMissedError as missed:
            return Finding(claim, None, str(missed))

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""

        def trying(search: Callable[[Sequence[int]], int], shape: Sequence[int]) -> Callable[[], None]:
            def attempt() -> None:
                with suppress(GoalMissedError):
                    search(shape)

            return attempt

        ids = {claim.id for claim in claims}
        slowed = [name for claim, names in MEASURED.items() if claim in ids for name in names]
        tasks: list[tuple[str, Callable[[], Any]]] = []
        trained = training.Training(self.runs)
        points = [point for i in training.METRICS if i in ids for point in training.POINTS.get(i, training.grid)()]
        tasks += [(f"{p.workload}, {p.system}, {p.npus}", partial(trained.summary, p)) for p in dict.fromkeys(points)]
        if any(i.startswith("ace-resnet50") for i in ids):
            tasks += [(system, partial(self.system, system)) for system in SYSTEMS]
        tasks += [(f"{CONTENTION} {name}", partial(self.system, name, CONTENTION)) for name in slowed]
        ratio = "ace-fig5-memory-bandwidth-ratio"
        for npus, shape in SHAPES.items():
            if ids & {ratio, "ace-fig5-baseline-memory-bandwidth"}:
                tasks.append((f"Fig. 5 baseline {npus}", trying(self.baseline_memory, shape)))
            if ids & {ratio, "ace-fig5-ace-memory-bandwidth"}:
                tasks.append((f"Fig. 5 ACE {npus}", trying(self.ace_memory, shape)))
        if "ace-fig6-sms" in ids:
            tasks.append(("Fig. 6", trying(self.sms, SHAPES[64])))
        return tasks

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        ids = [claim.id for claim in claims if claim.id not in training.METRICS]
        found: list[Variant] = []
        if len(ids) < len(claims):
            plain = (training.Point(workload, system) for workload in training.WORKLOADS for system in SYSTEMS)
            found += [self.runs.variant(Run(training.WORKLOADS[p.workload], p.system)) for p in plain]
        for claim, names in MEASURED.items():
            found += [self.runs.variant(Run(CONTENTION, name)) for name in names if claim in ids]
        if any(not i.startswith("ace-resnet50") and i not in CLOSED_FORMS and i not in MEASURED for i in ids):
            found += [self.runs.variant(Run(ALL_REDUCE, name)) for name in ("Ideal", "Baseline", "ACE")]
        if any(i.startswith("ace-resnet50") for i in ids):
            found += [self.runs.variant(Run(TRAINING, name)) for name in SYSTEMS]
        return found

    # --- the all-reduce

    def topology(self, shape: Sequence[int]) -> Topology:
        """The study's topology with other sizes."""
        base = self.runs.variant(Run(ALL_REDUCE, "Ideal")).experiment.topology
        assert isinstance(base, Topology)
        return Topology(tuple(dataclasses.replace(d, size=n) for d, n in zip(base.dims, shape, strict=True)))

    def all_reduce(self, variant: str, shape: Sequence[int], *settings: str) -> Result:
        """The all-reduce on a torus of a shape."""
        return self.runs.result(Run(ALL_REDUCE, variant, (f"topology={self.topology(shape)}", *settings)))

    def achieved(self, variant: str, shape: Sequence[int], *settings: str) -> float:
        """Payload bytes per second that an NPU sends."""
        summary = self.all_reduce(variant, shape, *settings).summary
        return float(summary["network"]["injected_bytes"] / summary["npus"] / (summary["total_ps"] / PS_PER_S))

    def wire_bandwidth(self, shape: Sequence[int]) -> float:
        """GB/s on the wire with the ideal endpoint, links' efficiency included."""
        topology = self.topology(shape)
        return self.achieved("Ideal", shape) * topology.wire_rate / topology.egress_rate / 1e9

    def baseline_memory(self, shape: Sequence[int]) -> int:
        """GB/s of memory bandwidth that a baseline with all SMs needs."""
        return self._least_memory("Baseline", shape, f"endpoint.comm_sms={ALL_SMS}")

    def ace_memory(self, shape: Sequence[int]) -> int:
        """GB/s of memory bandwidth that ACE needs."""
        return self._least_memory("ACE", shape)

    def sms(self, shape: Sequence[int]) -> int:
        """SMs that a baseline with all memory bandwidth needs."""
        memory = f"endpoint.comm_memory_bandwidth={ALL_MEMORY_GBPS}GB/s"
        return self._least("Baseline", shape, ALL_SMS, lambda n: (memory, f"endpoint.comm_sms={n}"))

    def _least_memory(self, variant: str, shape: Sequence[int], *settings: str) -> int:
        return self._least(
            variant, shape, ALL_MEMORY_GBPS, lambda n: (*settings, f"endpoint.comm_memory_bandwidth={n}GB/s")
        )

    def _least(self, variant: str, shape: Sequence[int], most: int, given: Callable[[int], tuple[str, ...]]) -> int:
        """The least amount of a resource, up to `most`, with which a variant reaches the goal on a shape."""
        ideal = self.achieved("Ideal", shape)
        found = least(1, most, lambda amount: self.achieved(variant, shape, *given(amount)) >= GOAL * ideal)
        if found is None:
            share = self.achieved(variant, shape, *given(most)) / ideal
            settings = ", ".join(given(most))
            raise GoalMissedError(f"{variant} with {settings} reaches {share:.1%} of ideal on {_name(shape)}")
        return found

    def memory_claim(self, needed: Callable[[Sequence[int]], int]) -> tuple[float, str]:
        """The mean over the shapes, and each."""
        values = {shape: needed(shape) for shape in SHAPES.values()}
        mean = sum(values.values()) / len(values)
        return mean, "; ".join(f"{_name(shape)}: {value} GB/s" for shape, value in values.items())

    # --- kernels beside an all-reduce

    def slowdowns(self, claim: str) -> list[float]:
        """How much longer an all-reduce takes beside kernels than beside nothing."""
        alone, *beside = (float(self.system(name, CONTENTION)["total_ps"]) for name in MEASURED[claim])
        return [time / alone for time in beside]

    # --- training

    def system(self, name: str, study: str = TRAINING) -> dict[str, Any]:
        """The summary of a system of Table VI, or of another variant of a study."""
        return self.runs.result(Run(study, name)).summary

    def iteration(self, name: str) -> float:
        """Seconds of an iteration."""
        summary = self.system(name)
        return float(summary["total_ps"] / summary["iterations"] / PS_PER_S)

    def exposed_percent(self, name: str) -> float:
        """Exposed communication as a share of the iteration."""
        summary = self.system(name)
        return float(100 * summary["exposed_ps"] / summary["total_ps"])

    def compute(self, name: str) -> float:
        """Compute time of the run."""
        return float(self.system(name)["compute_ps"])


Computed = tuple[Value, str]


def _memory_reads(ace: Ace) -> Computed:
    totals = ace.all_reduce("Baseline", SHAPES[64]).summary["endpoint"]
    return totals["memory_read_bytes"] / totals["sent_bytes"], "counted over the run"


def _sent_per_cached(ace: Ace) -> Computed:
    totals = ace.all_reduce("ACE", SHAPES[64]).summary["endpoint"]
    return totals["sent_bytes"] / totals["loaded_bytes"], "counted over the run"


def _analytic_memory(ace: Ace) -> Computed:
    reuse = bounds.sent_per_byte("all-reduce", "ace-4-phase", ace.topology(SHAPES[64]))
    return [float(DRIVEN_GBPS * READS_PER_SENT), float(DRIVEN_GBPS / reuse)], "closed form, nothing is simulated"


def _area_and_power(ace: Ace) -> Computed:
    endpoint = ace.runs.variant(Run(TRAINING, "ACE")).experiment.endpoint
    assert isinstance(endpoint, AceEndpoint)
    cost = hardware_cost.ace(sram_bytes=endpoint.sram, fsms=endpoint.fsms, alus=endpoint.alus)
    return [float(cost.area_um2), float(cost.power_mw)], "closed form; the table rounds 4254.537 mW up"


def _ideal_bandwidth(ace: Ace) -> Computed:
    shapes = (SHAPES[64], SHAPES[16], FLAT)
    parts = []
    for shape in shapes:
        topology = ace.topology(shape)
        payload = ace.achieved("Ideal", shape) / 1e9
        bound = float(bounds.payload_bound("all-reduce", "ace-4-phase", topology)) / 1e9
        parts.append(f"{_name(shape)}: {payload:.1f} of {bound:.0f} GB/s payload")
    return ace.wire_bandwidth(SHAPES[64]), "; ".join(parts)


def _bandwidth_ratio(ace: Ace) -> Computed:
    baseline, _ = ace.memory_claim(ace.baseline_memory)
    engine, _ = ace.memory_claim(ace.ace_memory)
    return baseline / engine, f"{baseline:g} over {engine:g} GB/s"


def _sms(ace: Ace) -> Computed:
    return ace.sms(SHAPES[64]), ""


def _compute_ratio(ace: Ace) -> Computed:
    comm, comp, engine = (ace.compute(s) for s in ("BaselineCommOpt", "BaselineCompOpt", "ACE"))
    note = "a static split of memory bandwidth and SMs allows 1.716 and 1.026, never both"
    return [comm / comp, comp / engine], note


def _speedup(ace: Ace) -> Computed:
    engine = ace.iteration("ACE")
    return [ace.iteration(s) / engine for s in ("BaselineCommOpt", "BaselineCompOpt")], ""


def _of_ideal(ace: Ace) -> Computed:
    ideal = ace.iteration("Ideal")
    note = "ACE's compute has 772 of ideal's 900 GB/s"
    return [100 * ideal / ace.iteration(s) for s in ("BaselineCommOpt", "BaselineCompOpt", "ACE")], note


FITTED_NOTE: Final = "the SMs of communication are fitted on the first; the second is a prediction"
BUSY_NOTE: Final = "the measured all-reduce is far from its bandwidth even alone"


METRICS: Final[dict[str, Callable[[Ace], Computed]]] = {
    "ace-memory-reads-baseline": _memory_reads,
    "ace-bytes-sent-per-cached-byte": _sent_per_cached,
    "ace-analytic-memory": _analytic_memory,
    "ace-table4-area-power": _area_and_power,
    "ace-fig4-contention": lambda ace: (ace.slowdowns("ace-fig4-contention"), FITTED_NOTE),
    "ace-fig4b-dlrm": lambda ace: (ace.slowdowns("ace-fig4b-dlrm")[0], BUSY_NOTE),
    "ace-fig5-ideal-bandwidth": _ideal_bandwidth,
    "ace-fig5-baseline-memory-bandwidth": lambda ace: ace.memory_claim(ace.baseline_memory),
    "ace-fig5-ace-memory-bandwidth": lambda ace: ace.memory_claim(ace.ace_memory),
    "ace-fig5-memory-bandwidth-ratio": _bandwidth_ratio,
    "ace-fig6-sms": _sms,
    "ace-resnet50-iteration-time": lambda ace: (1e3 * ace.iteration("BaselineCompOpt"), "the compute scale's fit"),
    "ace-resnet50-commopt-exposed": lambda ace: (ace.exposed_percent("BaselineCommOpt"), "the chunking's fit"),
    "ace-resnet50-ace-exposed": lambda ace: (ace.exposed_percent("ACE"), ""),
    "ace-resnet50-compute-ratio": _compute_ratio,
    "ace-resnet50-commopt-over-compopt": lambda ace: (
        ace.iteration("BaselineCommOpt") / ace.iteration("BaselineCompOpt"),
        "",
    ),
    "ace-resnet50-speedup": _speedup,
    "ace-resnet50-of-ideal": _of_ideal,
}


def _name(shape: Sequence[int]) -> str:
    return "x".join(str(n) for n in shape)
