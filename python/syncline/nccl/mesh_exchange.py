"""Messages between GPUs that are wired point to point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

from syncline.fabric.machines import Cluster
from syncline.nccl.mesh import Hop, Traffic, links_between, route, to_nic

if TYPE_CHECKING:
    from syncline.nccl.platform import Platform


@dataclass(frozen=True, slots=True)
class Network:
    """What a GPU exchanges with other nodes, in bytes."""

    out: Fraction = Fraction(0)
    into: Fraction = Fraction(0)


def direct(where: Platform, kind: str, size: int) -> Fraction:
    """Bytes that would take a GPU of the platform, with all that rings give it, as long as a direct collective of
    `size` bytes takes its busiest link: all-to-all, gather, scatter, or sendrecv.
    """
    busiest = Fraction(0)
    for host, local in enumerate(where.local_gpus):
        traffic, network = _exchanges(where, kind, size, local, rooted=host == 0)
        busiest = max(busiest, _seconds(where.cluster, local, traffic, network))
    return busiest * where.nvlink_rate


def _exchanges(
    where: Platform, kind: str, size: int, local: tuple[int, ...], *, rooted: bool
) -> tuple[Traffic, dict[int, Network]]:
    """What the GPUs of a node send each other, and what each exchanges with other nodes."""
    share, others = Fraction(size, where.gpus), where.gpus - len(local)
    if kind == "sendrecv":
        if where.nodes > 1:
            ends = {local[0]: Network(into=Fraction(size)), local[-1]: Network(out=Fraction(size))}
            if len(local) == 1:
                ends = {local[0]: Network(Fraction(size), Fraction(size))}
            return dict.fromkeys(pairwise(local), Fraction(size)), ends
        return dict.fromkeys(pairwise((*local, *(local[:1] if len(local) > 1 else ()))), Fraction(size)), {}
    if kind not in ("gather", "scatter"):
        each = Network(others * share, others * share)
        return dict.fromkeys(permutations(local, 2), share), dict.fromkeys(local, each)
    if not rooted:
        each = Network(out=share) if kind == "gather" else Network(into=share)
        return {}, dict.fromkeys(local, each)
    root = Network(into=others * share) if kind == "gather" else Network(out=others * share)
    pairs = [(gpu, local[0]) if kind == "gather" else (local[0], gpu) for gpu in local[1:]]
    return dict.fromkeys(pairs, share), {local[0]: root}


def _seconds(cluster: Cluster, local: Sequence[int], traffic: Traffic, network: Mapping[int, Network]) -> Fraction:
    """The time of the busiest link at full rate."""
    machine = cluster.machine
    links = links_between(machine, local)
    loads: dict[tuple[object, ...], Fraction] = {}

    def load(path: Iterable[Hop], size: Fraction) -> None:
        for where, rate, share in path:
            loads[where] = loads.get(where, Fraction(0)) + size * share / rate

    for (source, target), size in traffic.items():
        load(route(machine, links, local, source, target), size)
    for gpu, exchanged in network.items():
        load(to_nic(cluster, gpu, out=True), exchanged.out)
        load(to_nic(cluster, gpu, out=False), exchanged.into)
    return max(loads.values(), default=Fraction(0))
