"""What rings through GPUs of a machine carry, in closed form: what packed trees are held against (Blink, section 5.1).

A ring is one direction of a cycle through all GPUs. What its links carry past a GPU is more than the vector where all
give something (an all-reduce passes each part twice, but for what a GPU has itself), and as much in a broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from syncline.fabric.machines import Cluster
from syncline.nccl import mesh


@dataclass(frozen=True, slots=True)
class Rings:
    """All rings through some GPUs together."""

    rate: Fraction
    """Bytes per second that they carry past a GPU."""
    over_nvlink: bool
    """Whether they go over NVLinks (NVSwitches included), and not over PCIe."""


def rings(cluster: Cluster, gpus: Sequence[int]) -> Rings | None:
    """As many rings as fit through GPUs of one machine; None for one GPU, and for GPUs of several machines, whose rings
    share NICs in ways that no closed form here knows.
    """
    machine = cluster.machine
    if cluster.hosts > 1 or len(gpus) < 2:
        return None
    if machine.switch_links:
        return Rings(machine.switch_links * machine.nvlink_rate * cluster.efficiency, over_nvlink=True)
    rate, over_nvlink = mesh.ring_rate(machine, gpus)
    if over_nvlink:
        return Rings(rate * cluster.efficiency, over_nvlink=True)
    # What is known of PCIe holds for the machine's own rate and the usual share of payload.
    is_usual = cluster.pcie_efficiency is None and cluster.pcie_rate is None
    return Rings(Fraction(rate), over_nvlink=False) if is_usual else None


def carried(kind: str, ranks: int) -> Fraction | None:
    """The part of its own rate with which a ring carries the vector of a collective; None where rings are no way to do
    it, or where there is one rank.
    """
    if ranks < 2:
        return None
    passes = {
        "broadcast": Fraction(1),
        "reduce": Fraction(1),
        "all-gather": Fraction(ranks, ranks - 1),
        "reduce-scatter": Fraction(ranks, ranks - 1),
        "all-reduce": Fraction(ranks, 2 * (ranks - 1)),
    }
    return passes.get(kind)


def ring_rate(cluster: Cluster, gpus: Sequence[int], kind: str) -> tuple[Fraction, bool] | None:
    """Bytes of the vector per second, and whether it goes over NVLinks; None where no closed form is known."""
    found, share = rings(cluster, gpus), carried(kind, len(gpus))
    return None if found is None or share is None else (found.rate * share, found.over_nvlink)
