"""GPUs wired point to point: the rings of some of them, and how messages go between those without a link in common.

*Rings.* As many Hamiltonian cycles as their NVLinks hold, each in both directions; a DGX-1V has three. Where the GPUs
that take part have no common cycle of NVLinks, the ring goes over PCIe.

*Messages.* Over the NVLinks of the pair; without one, through a third GPU that takes part, which recent NCCL does for
sends and receives (`NCCL_NVB_DISABLE` switches it off): the one whose narrower link is widest, in equal parts where
several are. Where there is none, over the PCIe switches, and between sockets where these are on both. To other nodes
they go over PCIe as well, to the NIC of the GPU's own switch or the only one.

What is busiest decides; all of it is a schedule that the machine's links can carry, so that no lower bound of the
same graph lies above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from syncline.fabric import hardware
from syncline.fabric.machines import Cluster, Machine

Traffic: TypeAlias = Mapping[tuple[int, int], Fraction]
"""Bytes between pairs of GPUs of a machine."""
Hop: TypeAlias = tuple[tuple[object, ...], int, Fraction]
"""A link: what it is called, its rate, and the share of a message that it carries."""

MOST_STEPS: Final = 200_000
"""Of the search for rings; the eight GPUs of a DGX-1 take far fewer."""


def ring_rate(machine: Machine, local: Sequence[int]) -> tuple[int, bool]:
    """Bytes per second out of every GPU that all rings through some GPUs of a machine carry together, and whether
    they go over NVLinks.
    """
    rings = _ring_count(machine.pairs, tuple(local))
    if rings or len(local) < 2:
        return max(rings, 1) * machine.nvlink_rate, True
    return min(rate for _, rate in _pcie_path(machine, local[0], local[-1])), False


def pcie_rate(machine: Machine) -> int:
    """Bytes per second of payload over a PCIe link of the machine."""
    rate, efficiency = hardware.pcie_rate(machine.pcie_gt)
    return int(rate * efficiency)


def socket_rate(machine: Machine) -> int:
    """Bytes per second of payload between the sockets of the machine."""
    if machine.socket is None:
        return pcie_rate(machine)
    return int(machine.socket.rate * machine.socket.efficiency)


def links_between(machine: Machine, local: Sequence[int]) -> dict[tuple[int, int], int]:
    """How many NVLinks join each pair of the GPUs that take part."""
    return _between(machine.pairs, local)


def _between(pairs: Sequence[tuple[int, int, int]], local: Sequence[int]) -> dict[tuple[int, int], int]:
    """NVLinks between pairs that take part, both ways round."""
    found = {(a, b): count for a, b, count in pairs if a in local and b in local}
    return found | {(b, a): count for (a, b), count in found.items()}


def route(
    machine: Machine, links: Mapping[tuple[int, int], int], local: Sequence[int], source: int, target: int
) -> Iterator[Hop]:
    """The links between two GPUs."""
    direct = links.get((source, target), 0)
    if direct:
        yield (source, target), direct * machine.nvlink_rate, Fraction(1)
        return
    between = {gpu: min(links.get((source, gpu), 0), links.get((gpu, target), 0)) for gpu in local}
    widest = max(between.values())
    if not widest:
        yield from ((where, rate, Fraction(1)) for where, rate in _pcie_path(machine, source, target))
        return
    through = [gpu for gpu, width in between.items() if width == widest]
    for gpu in through:
        for hop in ((source, gpu), (gpu, target)):
            yield hop, links[hop] * machine.nvlink_rate, Fraction(1, len(through))


def _pcie_path(machine: Machine, source: int, target: int) -> Iterator[tuple[tuple[object, ...], int]]:
    """The links of a path over PCIe, and their rates."""
    rate = pcie_rate(machine)
    here, there = (gpu * machine.pcie_switches // machine.gpus for gpu in (source, target))
    yield ("out of GPU", source), rate
    yield ("into GPU", target), rate
    if here == there:
        return
    yield ("out of switch", here), rate
    yield ("into switch", there), rate
    half = machine.pcie_switches // 2
    if (here < half) != (there < half):
        yield ("socket", here < half), socket_rate(machine)


def to_nic(cluster: Cluster, gpu: int, *, out: bool) -> Iterator[Hop]:
    """The links between a GPU and its NIC, which may be on another switch."""
    machine, nics = cluster.machine, cluster.nic_groups
    pcie, here = pcie_rate(machine), gpu * machine.pcie_switches // machine.gpus
    there = gpu * nics // machine.gpus * machine.pcie_switches // nics
    towards = ("out of", "into") if out else ("into", "out of")
    yield (f"{towards[0]} GPU", gpu), pcie, Fraction(1)
    if here == there:
        return
    yield (f"{towards[0]} switch", here), pcie, Fraction(1)
    yield (f"{towards[1]} switch", there), pcie, Fraction(1)
    half = machine.pcie_switches // 2
    if (here < half) != (there < half) and machine.socket is not None:
        yield ("socket", not out), socket_rate(machine), Fraction(1)


@lru_cache(maxsize=1024)
def _ring_count(pairs: tuple[tuple[int, int, int], ...], local: tuple[int, ...]) -> int:
    return _rings(_between(pairs, local), local)


def _rings(links: Mapping[tuple[int, int], int], local: Sequence[int]) -> int:
    """Cycles through all that can be packed, counted in both directions."""
    if len(local) < 2:
        return 0
    if len(local) == 2:
        return links.get((local[0], local[1]), 0)
    cycles = [tuple(frozenset(pair) for pair in zip(c, (*c[1:], c[0]), strict=True)) for c in _cycles(links, local)]
    free = {frozenset(pair): count for pair, count in links.items()}
    steps = 0

    def packed(first: int) -> int:
        nonlocal steps
        best = 0
        for index in range(first, len(cycles)):
            steps += 1
            if steps > MOST_STEPS:
                break
            if all(free[pair] for pair in cycles[index]):
                for pair in cycles[index]:
                    free[pair] -= 1
                best = max(best, 1 + packed(index))
                for pair in cycles[index]:
                    free[pair] += 1
        return best

    return 2 * packed(0)


def _cycles(links: Mapping[tuple[int, int], int], local: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Hamiltonian cycles, each in one of its two directions."""

    def extended(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(path) == len(local):
            if links.get((path[-1], path[0])) and path[1] < path[-1]:
                yield path
            return
        for gpu in local:
            if gpu not in path and links.get((path[-1], gpu)):
                yield from extended((*path, gpu))

    return extended((local[0],))
