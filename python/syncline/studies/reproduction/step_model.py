"""The closed form of an all-reduce that an NPU's own cores carry out (ACE paper, first version, section 3).

An all-reduce is a sequence of steps, each of which costs, one after the other,

* a fixed latency: scheduling and message headers;
* the local reads of what is sent, by all cores: two per byte of a reduction, one per byte that is passed on;
* the write to the remote memory, over all links at once.

The sum and the local write are hidden behind the reads. What is left out: contention of cores for the memory, and any
overlap of reads with remote writes, of which the text says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the time of an all-reduce goes, in seconds."""

    latency: float
    reads: float
    network: float

    @property
    def total(self) -> float:
        """All of it: nothing overlaps."""
        return self.latency + self.reads + self.network


@dataclass(frozen=True, slots=True)
class StepModel:
    """What steps of an all-reduce cost on an NPU. Rates are bytes per second, times seconds."""

    link_rate: float
    """One link and direction, on the wire."""
    links: int
    """Links of an NPU."""
    efficiency: float
    """The share of the wire that payload gets."""
    core_read: float
    """What a core reads from memory."""
    step_latency: float
    """Fixed cost of a step."""

    def spent(self, size: float, shape: Sequence[int], cores: int) -> Spent:
        """What an all-reduce of `size` bytes takes on a torus.

        Reduce-scatter along one dimension after the other and all-gather back, the vector divided over the
        orders of the dimensions and the directions of the rings so that all links are busy in every step.
        """
        sent = size * (1 - 1 / prod(shape))
        steps = 2 * sum(n - 1 for n in shape)
        reads = 2 * sent + sent  # of the reductions, and of what is passed on
        network = 2 * sent / (self.links * self.link_rate * self.efficiency)
        return Spent(steps * self.step_latency, reads / (cores * self.core_read), network)

    def utilisation(self, size: float, shape: Sequence[int], cores: int) -> float:
        """The share of the wire's bandwidth that an NPU uses for payload while it lasts."""
        sent = 2 * size * (1 - 1 / prod(shape))
        return sent / self.spent(size, shape, cores).total / (self.links * self.link_rate)


def insertion_delay_s(size: float, link_rate: float) -> float:
    """Seconds that an all-reduce of `size` bytes takes on the link of a node, of `link_rate` bytes per second.

    A node sends, and receives, about twice the vector (HOTI 2020, section IV-A1). Latencies and waits are left out.
    """
    return 2 * size / link_rate
