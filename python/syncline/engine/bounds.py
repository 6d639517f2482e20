"""Closed forms: what a composition of rings sends, and how nccl-tests rates a collective.

What no schedule can beat is the engine's to say (`crates/system/src/bound.rs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from syncline.fabric.topology import Topology

PASSES: Final = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}
"""How often every byte crosses the fabric, in units of (N-1)/N."""
WHOLE: Final = frozenset({"broadcast", "reduce"})
"""Collectives whose bus bandwidth is their algorithm bandwidth."""

PER_DIMENSION: Final = frozenset({"ring", "hierarchical"})
LOCAL_FIRST: Final = frozenset({"ace-4-phase", "hierarchical-optimal"})


@dataclass(frozen=True, slots=True)
class RingPhase:
    """A phase of a collective: rings along one dimension."""

    kind: str
    dim: int
    ranks: int
    share: Fraction
    """The part of the vector that an NPU works on."""

    @property
    def steps(self) -> int:
        """Messages that an NPU sends for one chunk and lane."""
        return (self.ranks - 1) * PASSES[self.kind]

    @property
    def sent(self) -> Fraction:
        """Bytes that an NPU sends per byte of the vector."""
        return self.share * self.steps / self.ranks


def bus_bandwidth_factor(kind: str, ranks: int) -> Fraction:
    """The factor between algorithm and bus bandwidth, as nccl-tests defines it."""
    return Fraction(1) if kind in WHOLE else Fraction(PASSES.get(kind, 1) * (ranks - 1), ranks)


def phases(kind: str, algorithm: str, topology: Topology) -> list[RingPhase]:
    """The phases of a collective, in order (the plans of `crates/collective/src/plan.rs`)."""
    rings = [(index, dim.size) for index, dim in enumerate(topology.dims) if dim.size > 1]
    if kind == "all-reduce" and algorithm in PER_DIMENSION:
        return [RingPhase("all-reduce", index, size, Fraction(1)) for index, size in rings]
    inward: list[RingPhase] = []
    share = Fraction(1)
    for index, size in rings:
        inward.append(RingPhase("reduce-scatter", index, size, share))
        share /= size
    outward = [RingPhase("all-gather", p.dim, p.ranks, p.share) for p in reversed(inward)]
    if kind == "reduce-scatter":
        return inward
    if kind == "all-gather":
        return outward
    if algorithm not in LOCAL_FIRST or not rings:
        return inward + outward
    local = inward[0]
    between = [RingPhase("all-reduce", index, size, Fraction(1, local.ranks)) for index, size in rings[1:]]
    return [local, *between, outward[-1]]


def sent_per_byte(kind: str, algorithm: str, topology: Topology) -> Fraction:
    """Bytes that an NPU sends per byte of its vector."""
    return sum((phase.sent for phase in phases(kind, algorithm, topology)), Fraction(0))


def payload_bound(kind: str, algorithm: str, topology: Topology) -> Fraction:
    """Bytes per second that an NPU can send at most with a composition: its busiest dimension is full."""
    each = phases(kind, algorithm, topology)
    sent = {dim: sum((p.sent for p in each if p.dim == dim), Fraction(0)) for dim in {p.dim for p in each}}
    rates = {dim: topology.dims[dim].links_per_npu * topology.dims[dim].payload_rate for dim in sent}
    return sum(sent.values(), Fraction(0)) / max(sent[dim] / rates[dim] for dim in sent)
