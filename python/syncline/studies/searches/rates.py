"""How fast NPUs along an axis exchange something, for estimates: bandwidth formulas of rings, and latency.

A collective of size S among n NPUs takes S f / r + l log2(n): f is the factor of nccl-tests (`bounds`), r the rate at
which an NPU of the communicator sends, l the latency between its NPUs. Where NPUs are in servers, r is what links
within them give, or for communicators that extend over several, the share that one has of links that leave a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Final

from syncline.engine import bounds
from syncline.engine.runs import PS_PER_S
from syncline.fabric.topologies import Fabric, Wired
from syncline.fabric.topology import Topology
from syncline.strategies.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Family:
    """The communicators along some axes."""

    ranks: int
    rate: float
    """Bytes per second that an NPU of one sends."""
    latency: int
    """Picoseconds across the fabric."""

    def collective(self, kind: str, size: int) -> float:
        """Picoseconds that a collective takes."""
        if self.ranks == 1:
            return 0.0
        moved = size * float(bounds.bus_bandwidth_factor(kind, self.ranks))
        return PS_PER_S * moved / self.rate + self.latency * log2(self.ranks)

    def message(self, size: int) -> float:
        """Picoseconds that a message between neighbours takes."""
        return PS_PER_S * size / self.rate + self.latency


@dataclass(slots=True)
class Rates:
    """Those of a fabric."""

    fabric: Fabric
    _servers: _Servers | None = None
    _known: dict[tuple[Mesh, tuple[str, ...]], Family] = field(default_factory=dict)
    _latency: int = 0

    def __post_init__(self) -> None:
        self._latency = self.fabric.diameter
        if isinstance(self.fabric, Wired):
            self._servers = _Servers.of(self.fabric)

    def along(self, mesh: Mesh, axes: Sequence[str]) -> Family:
        """The communicators along some axes of a mesh."""
        key = (mesh, tuple(axes))
        if key not in self._known:
            ranks = mesh.size(*axes)
            rate, latency = self._links(mesh, axes)
            self._known[key] = Family(ranks, max(1.0, rate), latency)
        return self._known[key]

    def _links(self, mesh: Mesh, axes: Sequence[str]) -> tuple[float, int]:
        """Bytes per second and picoseconds of what connects NPUs along some axes: of the slowest communicator, for
        which the others wait.
        """
        if isinstance(self.fabric, Topology):
            return _of_product(self.fabric, mesh, axes), self._latency
        if self._servers is None or mesh.size(*axes) == 1:
            return float(self.fabric.egress_rate), self._latency
        rate, is_within = min(map(self._servers.rate, mesh.groups(*axes)))
        return rate, self._servers.latency if is_within else self._latency


def _of_product(fabric: Topology, mesh: Mesh, axes: Sequence[str]) -> float:
    """All links of the dimensions along which these axes extend; of all, where axes are not along dimensions."""
    sizes = [size for _, size in mesh.dims]
    if sizes == [dim.size for dim in fabric.dims]:
        dims = [fabric.dims[number] for number in mesh.dims_of(axes)]
        return float(sum(dim.links_per_npu * dim.payload_rate for dim in dims) or fabric.egress_rate)
    return float(fabric.egress_rate)


PCIE: Final = "PCIe"
"""Links that GPUs of a server use only where there are no others."""


@dataclass(frozen=True, slots=True)
class _Servers:
    """Machines of a cluster: where NPUs are, and what links give."""

    hosts: tuple[int | None, ...]
    within: int
    """Bytes per second of an NPU within its server."""
    leaving: int
    """Bytes per second of all links that leave a server."""
    each: int
    """NPUs of a server."""
    latency: int
    """Picoseconds between NPUs of a server, through a switch."""

    @classmethod
    def of(cls, fabric: Wired) -> _Servers | None:
        """Those of a fabric, if it has some."""
        nodes = fabric.graph.nodes
        hosts = tuple(node.host for node in nodes[: fabric.npus])
        if hosts[0] is None:
            return None
        by_kind: dict[str, int] = {}
        after: dict[str, int] = {}
        leaving = 0
        for link in fabric.graph.links:
            if link.src == 0:
                by_kind[link.kind] = by_kind.get(link.kind, 0) + link.total_rate
                after[link.kind] = max(after.get(link.kind, 0), link.latency)
            if nodes[link.src].host == hosts[0] and nodes[link.dst].host != hosts[0]:
                leaving += link.total_rate
        better = {kind: rate for kind, rate in by_kind.items() if kind != PCIE} or by_kind
        latency = 2 * max((after[kind] for kind in better), default=0)
        return cls(hosts, sum(better.values()), leaving, hosts.count(hosts[0]), latency)

    def rate(self, group: Sequence[int]) -> tuple[float, bool]:
        """What an NPU of a communicator has, and whether that is within one server; all communicators of a family work
        at the same time.
        """
        on_servers = Counter(self.hosts[npu] for npu in group)
        if len(on_servers) == 1 or not self.leaving:
            return float(self.within), True
        return min(float(self.within), self.leaving * min(on_servers.values()) / self.each), False
