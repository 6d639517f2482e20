"""Networks of switches between many NPUs: leaf-spine, fat tree, and super-nodes around a global switch.

*Leaf-spine*: a two-level Clos network (Clos, "A study of non-blocking switching networks", Bell System Technical
Journal 32, 1953). Every leaf switch has `hosts` NPUs and a link to every spine switch.

*Fat tree*: the three-level one of equal switches with `k` ports (Al-Fares, Loukissas, Vahdat, "A scalable, commodity
data center network architecture", SIGCOMM 2008, section 3). There are k pods with k/2 edge switches and k/2 aggregation
switches each, and (k/2)^2 core switches; aggregation switch i of every pod is linked to the cores i k/2 to
(i + 1) k/2 - 1. That makes k^3/4 NPUs, as many links on each level, (k/2)^2 ways between pods and k/2 within one.
An oversubscription of o puts o times as many NPUs on every edge switch, which then has (1 + o) k/2 ports.

*Super-nodes*: those of Rashidi et al., "Scalable distributed training of recommendation models: an ASTRA-sim + NS3
case-study with TCP/IP transport", Hot Interconnects 2020, section III and Table III. NPU a of a super-node sends to NPU
b of it over local switch (a + b) mod `switches`, and to other super-nodes over the one global switch.

In leaf-spines and fat trees the way is chosen by D-mod-k routing (`Routing` of `crates/topology`), unless the network
backend chooses among all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final

from syncline.base import quantities
from syncline.fabric.graph import BY_DESTINATION, Graph, Link, Node, Routing, both_ways, checked

SCALE_UP: Final = "scale-up"
SCALE_OUT: Final = "scale-out"
HOST: Final = "host"
UPLINK: Final = "uplink"
AGGREGATION: Final = "aggregation"
CORE: Final = "core"
"""Classes of links: within and between super-nodes; of NPUs to their switch; to spines; to aggregation and cores."""
MOST_LINKS: Final = 65_535
"""The most links of a network of switches, each direction counted: ways to all of its NPUs are kept in tables."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """The memory for waiting packets of every switch of a kind."""

    size: int
    """Bytes."""
    whole: bool
    """Whether this is the buffer of a switch, which is divided evenly among its ports, rather than that of a port."""

    def of_port(self, ports: int) -> int:
        """Bytes of each of so many ports, rounded down."""
        return self.size // ports if self.whole else self.size

    def text(self, kind: str) -> str:
        """The parameter of a kind of switch as it is written."""
        name = "_".join(part for part in (kind, "switch" if self.whole else "", "buffer") if part)
        return f"{name}={quantities.SIZE.format(self.size)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOut(ABC):
    """What these networks have in common."""

    rate: int
    """Bytes per second of the link of an NPU and direction, on the wire."""
    latency: int
    """Picoseconds of one link."""
    efficiency: Fraction = Fraction(1)
    """The share of the wire that payload gets."""
    buffers: dict[str, Buffer] = field(default_factory=dict)
    """By kind of switch, where stated; that of no kind is for all others."""
    filled_in: tuple[str, ...] = field(default=(), compare=False)
    """What was not written, in words."""

    NAME: ClassVar[str]
    KINDS: ClassVar[tuple[str, ...]]
    """The kinds of switches that may have buffers of their own, from the NPUs upwards."""
    ROUTING: ClassVar[Routing] = BY_DESTINATION

    @property
    @abstractmethod
    def npus(self) -> int:
        """NPUs in all."""

    @property
    @abstractmethod
    def links(self) -> int:
        """Links, each direction counted."""

    @property
    @abstractmethod
    def ports(self) -> dict[str, int]:
        """The ports of a switch of every kind that there is."""

    @abstractmethod
    def _sizes(self) -> dict[str, str]:
        """The parameters that no other network has, as they are written."""

    @abstractmethod
    def _nodes(self) -> list[Node]:
        """NPUs, then switches."""

    @abstractmethod
    def _links(self) -> Iterable[Link]:
        """All links, one direction."""

    def buffer(self, kind: str) -> int | None:
        """Bytes of buffer of every port of a kind of switch, if that is stated."""
        buffer = self.buffers.get(kind, self.buffers.get(""))
        return None if buffer is None else buffer.of_port(self.ports[kind])

    def graph(self) -> Graph:
        """The network link by link."""
        graph = Graph(
            name=str(self),
            nodes=tuple(self._nodes()),
            links=tuple(both_ways(self._links())),
            assumptions=self.filled_in,
            routing=self.ROUTING,
        )
        return checked(graph)

    def _switch(self, name: str, kind: str, host: int | None = None) -> Node:
        """A switch, with what its kind has of buffer."""
        return Node(name, "switch", host, self.buffer(kind))

    def __str__(self) -> str:
        values = {
            **self._sizes(),
            "latency": quantities.TIME.format(self.latency),
            "efficiency": quantities.format_share(self.efficiency) if self.efficiency != 1 else "",
        }
        written = [f"{name}={value}" for name, value in values.items() if value]
        written += [buffer.text(kind) for kind, buffer in self.buffers.items()]
        return f"{self.NAME}({', '.join(written)})"

    def _link(self, src: int, dst: int, kind: str, rate: int | None = None, latency: int | None = None) -> Link:
        """A link as most are, or with a rate and a latency of its own."""
        rate, latency = self.rate if rate is None else rate, self.latency if latency is None else latency
        return Link(src, dst, rate, latency, kind, 1, self.efficiency)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSpine(ScaleOut):
    """Leaf switches with NPUs, and spine switches that are linked to every leaf."""

    leaves: int
    hosts: int
    """NPUs of a leaf."""
    spines: int
    uplink_rate: int
    """Bytes per second of a link between leaf and spine and direction, on the wire."""

    NAME: ClassVar = "LeafSpine"
    KINDS: ClassVar = ("leaf", "spine")

    @property
    def npus(self) -> int:
        """NPUs of all leaves."""
        return self.leaves * self.hosts

    @property
    def links(self) -> int:
        """Those of NPUs, and one for each pair of leaf and spine."""
        return 2 * (self.npus + self.leaves * self.spines)

    @property
    def ports(self) -> dict[str, int]:
        """Of leaves, and of spines."""
        return {"leaf": self.hosts + self.spines, "spine": self.leaves}

    def _sizes(self) -> dict[str, str]:
        counts = {"leaves": str(self.leaves), "hosts": str(self.hosts), "spines": str(self.spines)}
        rates = {"rate": self.rate, "uplink_rate": self.uplink_rate}
        return counts | {name: quantities.RATE.format(rate) for name, rate in rates.items()}

    def _nodes(self) -> list[Node]:
        nodes = [Node(f"NPU {npu}", "npu") for npu in range(self.npus)]
        nodes += [self._switch(f"leaf {leaf}", "leaf") for leaf in range(self.leaves)]
        return nodes + [self._switch(f"spine {spine}", "spine") for spine in range(self.spines)]

    def _links(self) -> Iterator[Link]:
        for npu in range(self.npus):
            yield self._link(npu, self.npus + npu // self.hosts, HOST)
        for leaf in range(self.npus, self.npus + self.leaves):
            for spine in range(self.spines):
                yield self._link(leaf, self.npus + self.leaves + spine, UPLINK, self.uplink_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTree(ScaleOut):
    """A three-level fat tree of switches with `k` ports."""

    k: int
    oversubscription: Fraction = Fraction(1)
    """What the NPUs of an edge switch can send, over what it can send up."""

    NAME: ClassVar = "FatTree"
    KINDS: ClassVar = ("edge", "aggregation", "core")

    @property
    def half(self) -> int:
        """Half of the ports of a switch: the switches of a kind in a pod."""
        return self.k // 2

    @property
    def hosts(self) -> int:
        """NPUs of an edge switch."""
        return int(self.half * self.oversubscription)

    @property
    def npus(self) -> int:
        """NPUs of all pods: k^3/4, times the oversubscription."""
        return self.k * self.half * self.hosts

    @property
    def links(self) -> int:
        """Those of NPUs, and k^3/4 from edge to aggregation and from aggregation to core."""
        return 2 * (self.npus + 2 * self.k * self.half**2)

    @property
    def ports(self) -> dict[str, int]:
        """k; of edge switches more, if they are oversubscribed."""
        return {"edge": self.hosts + self.half, "aggregation": self.k, "core": self.k}

    def _sizes(self) -> dict[str, str]:
        over = str(self.oversubscription).replace("/", ":") if self.oversubscription != 1 else ""
        return {"k": str(self.k), "oversubscription": over, "rate": quantities.RATE.format(self.rate)}

    def _nodes(self) -> list[Node]:
        pods = [(pod, i) for pod in range(self.k) for i in range(self.half)]
        nodes = [Node(f"NPU {npu}", "npu") for npu in range(self.npus)]
        nodes += [self._switch(f"edge {pod}/{i}", "edge") for pod, i in pods]
        nodes += [self._switch(f"aggregation {pod}/{i}", "aggregation") for pod, i in pods]
        return nodes + [self._switch(f"core {i}", "core") for i in range(self.half**2)]

    def _links(self) -> Iterator[Link]:
        edges = self.npus
        aggregations = edges + self.k * self.half
        cores = aggregations + self.k * self.half
        for npu in range(self.npus):
            yield self._link(npu, edges + npu // self.hosts, HOST)
        for edge in range(self.k * self.half):
            pod = edge // self.half * self.half
            for i in range(self.half):
                yield self._link(edges + edge, aggregations + pod + i, AGGREGATION)
        for aggregation in range(self.k * self.half):
            for i in range(self.half):
                core = cores + aggregation % self.half * self.half + i
                yield self._link(aggregations + aggregation, core, CORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperNodes(ScaleOut):
    """Groups of NPUs with local switches, and one global switch with a link to every NPU."""

    groups: int
    size: int
    """NPUs of a super-node."""
    switches: int
    """Local switches of a super-node; none where it has one NPU."""
    local_rate: int
    """Bytes per second of all links of an NPU to its local switches together, in one direction."""
    local_latency: int
    """Picoseconds of one of them."""

    NAME: ClassVar = "SuperNodes"
    KINDS: ClassVar = ("local", "")

    @property
    def npus(self) -> int:
        """NPUs of all super-nodes."""
        return self.groups * self.size

    @property
    def links(self) -> int:
        """Those to local switches, and one to the global switch."""
        return 2 * self.npus * (self.switches + 1)

    @property
    def ports(self) -> dict[str, int]:
        """Of local switches, and of the global one."""
        return ({"local": self.size} if self.switches else {}) | {"": self.npus}

    @property
    def link_rate(self) -> int:
        """Bytes per second of one link to a local switch, rounded down."""
        return self.local_rate // self.switches

    def buffer(self, kind: str) -> int | None:
        """Bytes of buffer of every port of a kind of switch: that of no kind is the global one's only."""
        buffer = self.buffers.get(kind)
        return None if buffer is None else buffer.of_port(self.ports[kind])

    def graph(self) -> Graph:
        """The network link by link, whose super-nodes have local switches of their own."""
        graph = ScaleOut.graph(self)
        return replace(graph, routing=Routing("groups", self.size, SCALE_UP)) if self.switches else graph

    def _sizes(self) -> dict[str, str]:
        written = {"groups": str(self.groups), "size": str(self.size)}
        if self.switches:
            written["switches"] = str(self.switches)
            written["local_rate"] = quantities.RATE.format(self.local_rate)
            written["local_latency"] = quantities.TIME.format(self.local_latency)
        return written | {"rate": quantities.RATE.format(self.rate)}

    def _nodes(self) -> list[Node]:
        if not self.switches:
            nodes = [Node(f"NPU {npu}", "npu") for npu in range(self.npus)]
            return [*nodes, self._switch("global switch", "")]
        groups = range(self.groups)
        nodes = [Node(f"super-node {g} NPU {i}", "npu", g) for g in groups for i in range(self.size)]
        for g in groups:
            nodes += [self._switch(f"super-node {g} switch {i}", "local", g) for i in range(self.switches)]
        return [*nodes, self._switch("global switch", "")]

    def _links(self) -> Iterator[Link]:
        for npu in range(self.npus):
            first = self.npus + npu // self.size * self.switches
            for switch in range(first, first + self.switches):
                yield self._link(npu, switch, SCALE_UP, self.link_rate, self.local_latency)
        for npu in range(self.npus):
            yield self._link(npu, self.npus + self.groups * self.switches, SCALE_OUT)
