"""Folded runs against unfolded ones: one point of every study that the ledger rests on.

Folding is exact, so that everything compared is equal to the last bit. Where a study's own machine would take long
unfolded, the point is on a smaller one or moves less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from syncline.fabric.topology import Topology
from syncline.studies.reproduction.runs import Run, Runs

_SMALL: Final = ("topology.dims.1.size=2", "topology.dims.2.size=2")
_EXCHANGED: Final = (
    "topology=Switch(4, rate=1200Gb/s, latency=500ns)_Switch(4, rate=100Gb/s, latency=500ns)",
    "collective.per_dimension=[direct, direct]",
    "collective.chunks=8",
    "network={backend: analytical}",
)
"""A smaller machine without trees, in which ranks have roles of their own, so that it does not fold."""
_RING: Final = (
    "topology=Ring(8, rate=23.5GB/s, latency=500ns)",
    "groups=null",
    "collective={plan: null, algorithm: ring, loops: 1}",
)
"""Streams around a ring, since the ranks of a chain differ."""
_WITHOUT_LOSSES: Final = "network={backend: flow, posting: rotated, jitter: 0us}"
"""What loses frames is never folded."""
UNFOLDED: Final = "fold=off"
POINTS: Final = (
    Run("ace/allreduce", "ACE", ("workload.size=8MB",)),
    Run("ace/contention", "SmallBoth"),
    Run("ace/resnet50", "BaselineCommOpt", _SMALL),
    Run("ace/resnet50-dynamic", "Dynamic", _SMALL),
    Run("ace/gnmt", "BaselineCompOpt", _SMALL),
    Run("ace/dlrm", "ACE", _SMALL),
    Run("ace/dlrm-optimised", "ACE optimised", _SMALL),
    Run("ace1/allreduce", "Baseline"),
    Run("ace1/alltoall", "ACE"),
    Run("ace1/resnet50", "Baseline", _SMALL),
    Run("ace1/gnmt", "Ideal", _SMALL),
    Run("hoti/allreduce", "A2A", ("topology=Switch(16, rate=100Gb/s, latency=500ns)", _WITHOUT_LOSSES)),
    Run("hoti/dlrm", "hier", _EXCHANGED),
    Run("tutorial/six-phase", "All-reduce"),
    Run("tutorial/torus", "4x4x4"),
    Run("tutorial/asymmetric", "Local dimension first"),
    Run("blink/micro", "All-reduce 8", _RING),
    Run("blink/training", "NCCL", ("topology=Ring(8, rate=23.5GB/s, latency=500ns)", "gpus=null")),
    Run("blink/dgx2", "Ring Simple", ("topology=Switch(16, rate=150GB/s, latency=300ns)",)),
)
COMPARED: Final[dict[str, Callable[[dict[str, Any]], int]]] = {
    "total time": lambda summary: int(summary["total_ps"]),
    "compute": lambda summary: int(summary["compute_ps"]),
    "exposed": lambda summary: int(summary["exposed_ps"]),
    "bytes injected": lambda summary: int(summary["network"]["injected_bytes"]),
    "memory bytes read": lambda summary: int(summary["endpoint"]["memory_read_bytes"]),
    "memory bytes written": lambda summary: int(summary["endpoint"]["memory_write_bytes"]),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A point, simulated folded and unfolded."""

    study: str
    variant: str
    topology: str
    settings: tuple[str, ...]
    """What is smaller than in the study."""
    npus: int
    simulated_npus: int
    """When folded."""
    different: tuple[str, ...]
    """What is not the same."""

    @property
    def equal(self) -> bool:
        """Whether folding has changed nothing."""
        return not self.different

    def as_document(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {**dataclasses.asdict(self), "equal": self.equal}


def tasks(runs: Runs, points: Sequence[Run] | None = None) -> list[tuple[str, Callable[[], Any]]]:
    """The simulations of points, by default of all."""
    each = [run for point in (POINTS if points is None else points) for run in (point, _unfolded(point))]
    return [(f"{run.study} {run.variant}, {run.settings[-1:] or 'folded'}", partial(runs.result, run)) for run in each]


def comparisons(runs: Runs) -> list[Comparison]:
    """All points, folded and unfolded."""
    return [compared(runs, point) for point in POINTS]


def differences(found: list[Comparison]) -> list[str]:
    """Everything that folding has changed, each as a sentence."""
    return [
        f"{c.study} {c.variant} on {c.topology}: folded and unfolded runs differ in {', '.join(c.different)}"
        for c in found
        if not c.equal
    ]


def compared(runs: Runs, point: Run) -> Comparison:
    """A point, folded and unfolded."""
    folded, unfolded = (runs.result(run).summary for run in (point, _unfolded(point)))
    topology = runs.variant(point).experiment.topology
    assert isinstance(topology, Topology)
    shape = "x".join(str(dim.size) for dim in topology.dims)
    different = tuple(name for name, of in COMPARED.items() if of(folded) != of(unfolded))
    return Comparison(
        *(point.study, point.variant, shape, point.settings),
        *(folded["npus"], folded["simulated_npus"], different),
    )


def _unfolded(point: Run) -> Run:
    return dataclasses.replace(point, settings=(*point.settings, UNFOLDED))
