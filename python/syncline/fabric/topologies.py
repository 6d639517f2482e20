"""Fabrics of any form behind one type: products of dimensions, and what is described link by link.

`Fabric` is what an experiment runs on. Both forms have `npus`, `egress_rate`, `wire_rate`, `diameter`, `shape`,
`classes`, `specification()` and a text, so that results, rules and reports need not know which one they have.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from syncline.base.errors import did_you_mean
from syncline.fabric import allocation, notation, scale_out_notation, topology
from syncline.fabric import groups as grouping
from syncline.fabric.gpus import Gpu
from syncline.fabric.graph import Graph, Routing
from syncline.fabric.groups import Members
from syncline.fabric.machines import MACHINES
from syncline.fabric.topology import Topology, TopologyError

STRINGS_ACCEPTED: Final = f"{topology.ACCEPTED}; a network of switches ({scale_out_notation.ACCEPTED})"
ACCEPTED: Final = f"{STRINGS_ACCEPTED}; a machine ({notation.ACCEPTED}); a mapping with dims, or with file"

_WORD = re.compile(r"\s*([A-Za-z][\w-]*)")


@dataclass(frozen=True, slots=True)
class Wired:
    """A fabric that is described link by link: a machine, a cluster of machines, a network of switches, or a topology
    file.
    """

    graph: Graph
    name: str
    """The machine or network as text, or the path of the file as it was written."""
    content: bytes = field(default=b"", repr=False)
    """What the file holds; nothing for what is no file."""
    taking_part: frozenset[int] | None = None
    """The NPUs that communicate, if not all do; the others do not forward."""
    pcie_rate: int | None = None
    """Bytes per second of the PCIe links of a file that does not say it, where that is stated beside the file."""

    @property
    def gpu(self) -> Gpu | None:
        """What its NPUs are, where that follows from it: of a machine it does."""
        return None if self.graph.hardware is None else self.graph.hardware.gpu

    @property
    def npus(self) -> int:
        """NPUs in all."""
        return self.graph.npus

    @property
    def egress_rate(self) -> int:
        """Payload bytes per second over all outgoing links of an NPU that takes part: the mean, where they differ."""
        return self._mean_egress(wire=False)

    @property
    def wire_rate(self) -> int:
        """The same on the wire."""
        return self._mean_egress(wire=True)

    @property
    def fastest(self) -> int:
        """Payload bytes per second into or out of the NPU that has most."""
        rates: dict[tuple[int, bool], int] = {}
        for link in self.graph.links:
            for end in ((link.src, True), (link.dst, False)):
                if self.graph.nodes[end[0]].kind == "npu":
                    rates[end] = rates.get(end, 0) + link.total_rate
        return max(rates.values(), default=0)

    @property
    def diameter(self) -> int:
        """Picoseconds of link latency to the NPU that is farthest from the first one: no more than across."""
        after: dict[int, list[tuple[int, int]]] = {}
        for link in self.graph.links:
            after.setdefault(link.src, []).append((link.dst, link.latency))
        reached: dict[int, int] = {}
        waiting = [(0, 0)]
        while waiting:
            at, node = heapq.heappop(waiting)
            if node not in reached:
                reached[node] = at
                for there, latency in after.get(node, ()):
                    heapq.heappush(waiting, (at + latency, there))
        return max(at for node, at in reached.items() if self.graph.nodes[node].kind == "npu")

    @property
    def shape(self) -> str:
        """The name, which says what it is."""
        return self.name

    @property
    def classes(self) -> list[str]:
        """The classes of links, by the numbers that the engine gives them."""
        return self.graph.classes

    @property
    def file(self) -> str | None:
        """The path of the topology file, if it is one."""
        return self.name if self.content else None

    @property
    def shortest_latency(self) -> int:
        """Picoseconds of the link with the least latency."""
        return self.graph.shortest_latency

    @property
    def is_joined_by_switches(self) -> bool:
        """Whether no link leads from NPU to NPU, as in a mesh."""
        nodes = self.graph.nodes
        return not any(nodes[link.src].kind == nodes[link.dst].kind == "npu" for link in self.graph.links)

    @property
    def is_switched(self) -> bool:
        """Whether it is a network of switches, whose dimensions the engine takes for switches."""
        return self.graph.routing != Routing()

    def narrowed(self, members: Members | None) -> Wired:
        """The fabric as its members see it."""
        if members is None:
            return self
        return replace(self, taking_part=frozenset(npu for group in members for npu in group))

    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        return self.graph.specification()

    def attributes(self) -> list[dict[str, Any]]:
        """The attributes of nodes in the engine's description, for network backends that know them."""
        return self.graph.attributes()

    def __str__(self) -> str:
        return self.name

    def _mean_egress(self, *, wire: bool) -> int:
        """Links to NPUs that do not take part are of no use, and left out."""
        nodes, taking_part = self.graph.nodes, self.taking_part

        def useful(node: int) -> bool:
            return nodes[node].kind != "npu" or taking_part is None or node in taking_part

        senders = self.npus if taking_part is None else len(taking_part)
        total = sum(
            link.count * link.rate if wire else link.total_rate
            for link in self.graph.links
            if nodes[link.src].kind == "npu" and useful(link.src) and useful(link.dst)
        )
        return total // max(1, senders)


Fabric: TypeAlias = Topology | Wired


def parse(text: str) -> Fabric:
    """Reads a topology string, a machine or a network of switches. Raises [`TopologyError`]."""
    if _is_meant(text, MACHINES, scale_out_notation.NETWORKS):
        return machine(text)
    if _is_meant(text, scale_out_notation.NETWORKS, MACHINES):
        return network(text)
    try:
        return topology.parse(text)
    except TopologyError as error:
        accepted = ACCEPTED if error.accepted == topology.ACCEPTED else error.accepted
        raise TopologyError(error.message, accepted) from None


@lru_cache(maxsize=4)
def machine(text: str) -> Wired:
    """Reads a machine. Raises [`TopologyError`]."""
    try:
        cluster = notation.parse(text)
    except notation.MachineError as error:
        raise TopologyError(error.message, error.accepted) from None
    return Wired(cluster.graph(), str(cluster))


@lru_cache(maxsize=4)
def network(text: str) -> Wired:
    """Reads a network of switches. Raises [`TopologyError`]."""
    read = scale_out_notation.parse(text)
    return Wired(read.graph(), str(read))


def _is_meant(text: str, names: Collection[str], others: Collection[str]) -> bool:
    """Whether a text begins with one of these names, or with what is nearer to one than to any other."""
    word = _WORD.match(text)
    if word is None:
        return False
    known = (*topology.BLOCKS, topology.TORUS, *others)
    name = word[1]
    return (
        name in names
        or name.lower() in names
        or (name not in known and not did_you_mean(name, known) and bool(did_you_mean(name, names)))
    )


def members(fabric: Fabric, gpus: str | None, groups: str | None) -> Members | None:
    """The groups by NPU, or None if all NPUs, in their order, are one. Raises `AllocationError` or `GroupError`."""
    if gpus is not None:
        found: Members = (allocation.parse(gpus, fabric.npus),)
    elif groups is not None:
        found = grouping.parse(groups, fabric.npus)
    else:
        return None
    return None if grouping.all_npus(found, fabric.npus) else found


def grid(fabric: Fabric, members: Members | None) -> list[int]:
    """The ranks of every group as a grid: the dimensions of a product, [GPUs of a server, servers], or a line."""
    if isinstance(fabric, Topology) and members is None:
        return [dim.size for dim in fabric.dims]
    each = members or (tuple(range(fabric.npus)),)
    if isinstance(fabric, Topology):
        sizes = [dim.size for dim in fabric.dims]
        shapes = (box(sizes, group) for group in each)
    else:
        hosts = [node.host for node in fabric.graph.nodes]
        shapes = (servers([hosts[npu] for npu in group]) for group in each)
    first = next(shapes)
    return first if first is not None and all(shape == first for shape in shapes) else [len(each[0])]


def servers(hosts: Sequence[int | None]) -> list[int] | None:
    """The shape of ranks that are on these hosts: [ranks of a host, hosts] if each has as many, one after the other."""
    local = next((rank for rank, host in enumerate(hosts) if host != hosts[0]), len(hosts))
    blocks = [hosts[at : at + local] for at in range(0, len(hosts), local)]
    regular = all(len(block) == local and len(set(block)) == 1 for block in blocks)
    distinct = len({block[0] for block in blocks}) == len(blocks)
    if None in hosts or not regular or not distinct or local == 1 or len(blocks) == 1:
        return None
    return [local, len(blocks)]


def box(sizes: Sequence[int], members: Sequence[int]) -> list[int] | None:
    """The shape of ranks that are a box of a product with these sizes, in the order of NPU numbers; else None.

    A box has some coordinates along every dimension, and all their combinations.
    """
    stride = 1
    shape: list[int] = []
    expected = [0]
    for size in sizes:
        places = sorted({npu // stride % size for npu in members})
        shape.append(len(places))
        expected = [npu + place * stride for place in places for npu in expected]
        if len(expected) > len(members):
            return None
        stride *= size
    return [size for size in shape if size > 1] or [1] if list(members) == expected else None
