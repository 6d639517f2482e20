"""A fabric as a directed multigraph of NPUs, switches, NICs and CPUs, as the engine takes it.

NPUs come first and are numbered as the machine numbers its GPUs. Everything else forwards; an NPU that does
not take part does not. Rates are bytes per second of one link and direction on the wire, latencies are
picoseconds, and payload gets the `efficiency` share of the wire.

*Parallel links.* A `Link` may stand for `count` equal links between the same two nodes. What the engine gets
depends on the class: links of `BUNDLED` classes are one entry with the summed rate, since hardware spreads every
message over all of them (NVLinks to an NVSwitch fabric, uplinks of a network), and so are those of topology files that
begin or end at a switch; all others, NVLinks between two GPUs above all, are one entry each, since rings and trees use
them one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from syncline.base.description import Described
from syncline.base.quantities import LARGEST
from syncline.fabric.gpu_products import Hardware

NodeKind: TypeAlias = Literal["npu", "switch", "nic", "cpu"]

NODE_KINDS: Final[tuple[NodeKind, ...]] = ("npu", "switch", "nic", "cpu")
NVLINK: Final = "NVLink"
NVSWITCH: Final = "NVSwitch"
PCIE: Final = "PCIe"
C2C: Final = "C2C"
INFINIBAND: Final = "InfiniBand"
BUNDLED: Final = frozenset({NVSWITCH, PCIE, INFINIBAND})
"""Classes whose parallel links carry every message together."""
MAX_NODES: Final = 2**20
MAX_LINKS: Final = 2**22
"""Entries of `specification`."""
SHOWN: Final = 5
"""So many examples are named where something is wrong with many nodes or links."""


@dataclass(frozen=True, slots=True)
class Node:
    """An NPU or something that forwards."""

    name: str
    kind: NodeKind
    host: int | None = None
    """The machine of a cluster, or the super-node, that it is part of; None for what they share."""
    buffer: int | None = None
    """Bytes that wait at most at each output port of a switch, where that is stated."""


@dataclass(frozen=True, slots=True)
class Link:
    """Equal parallel links from one node to another."""

    src: int
    dst: int
    rate: int
    """Bytes per second of one of them, on the wire."""
    latency: int
    """Picoseconds."""
    kind: str
    """The class, such as NVLink."""
    count: int = 1
    efficiency: Fraction = Fraction(1)
    """The share of the wire that payload gets."""
    together: bool = False
    """Whether they carry every message together although others of their class do not."""

    @property
    def is_bundle(self) -> bool:
        """Whether they carry every message together."""
        return self.together or self.kind in BUNDLED

    @property
    def payload_rate(self) -> int:
        """Payload bytes per second of one of them, rounded down."""
        return self.rate * self.efficiency.numerator // self.efficiency.denominator

    @property
    def total_rate(self) -> int:
        """Payload bytes per second of all of them."""
        return self.count * self.payload_rate

    @property
    def reverse(self) -> Link:
        """The same links the other way."""
        return replace(self, src=self.dst, dst=self.src)


@dataclass(frozen=True, slots=True)
class Routing:
    """Which of several equally good ways messages take (`Routing` of `crates/topology`)."""

    by: Literal["source", "destination", "groups"] = "source"
    """Machines choose by the source, Clos networks by the digits of the destination's number (D-mod-k); in groups of
    NPUs the sum of two places chooses the switch between them."""
    size: int = 0
    """NPUs of a group."""
    kind: str = ""
    """The class of links within a group."""


BY_DESTINATION: Final = Routing("destination")
BUFFER: Final = "buffer_per_port_bytes"
"""What network backends call the buffer of a switch."""


class GraphError(ValueError):
    """Nodes and links that are not a fabric."""

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("; ".join(messages))


@dataclass(frozen=True)
class Graph:
    """A fabric. `checked` makes one. What is asked of it again and again is kept, since there may be 10^5 links."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    link_unit: int | None = None
    """Payload bytes per second of one NVLink and direction, where there is one rate."""
    assumptions: tuple[str, ...] = ()
    """What was filled in."""
    warnings: tuple[str, ...] = ()
    """What is odd about it."""
    routing: Routing = Routing()
    """Which of several equally good ways messages take."""
    hardware: Hardware | None = None
    """What follows about its GPUs, if it is a machine of GPUs."""

    @cached_property
    def npus(self) -> int:
        """NPUs; they are the first nodes."""
        return sum(node.kind == "npu" for node in self.nodes)

    @property
    def classes(self) -> list[str]:
        """The classes of links, in order of appearance."""
        return list(dict.fromkeys(link.kind for link in self.links))

    @cached_property
    def shortest_latency(self) -> int:
        """Picoseconds of the link with the least latency; 0 without links."""
        return min((link.latency for link in self.links), default=0)

    def egress_rate(self, node: int) -> int:
        """Payload bytes per second over all outgoing links of a node."""
        return sum(link.total_rate for link in self.links if link.src == node)

    def specification(self) -> Described:
        """The engine's description, which is that of all calls."""
        return self._specified

    @cached_property
    def _specified(self) -> Described:
        classes = self.classes
        number = {kind: index for index, kind in enumerate(classes)}
        routing: dict[str, Any] = {"by": self.routing.by}
        if self.routing.by == "groups":
            routing |= {"size": self.routing.size, "class": number[self.routing.kind]}
        return Described(
            {
                "kind": "graph",
                "npus": self.npus,
                "nodes": [{"name": node.name, "kind": node.kind} for node in self.nodes],
                "classes": classes,
                "links": [
                    {
                        "from": link.src,
                        "to": link.dst,
                        "rate_bytes_per_s": rate,
                        "latency_ps": link.latency,
                        "class": number[link.kind],
                    }
                    for link in self.links
                    for rate in _entries(link)
                ],
                **({} if self.routing == Routing() else {"routing": routing}),
            }
        )

    def attributes(self) -> list[dict[str, Any]]:
        """The attributes of nodes in the engine's description, for network backends that know them."""
        stated = [(index, node.buffer) for index, node in enumerate(self.nodes) if node.buffer is not None]
        return [{"node": index, "name": BUFFER, "value": buffer} for index, buffer in stated]


def checked(graph: Graph) -> Graph:
    """The graph as a fabric that the engine takes. Raises [`GraphError`] with everything that is wrong; what is merely
    odd, such as links that lead one way only, becomes a warning.
    """
    messages = list(_faults(graph.nodes, graph.links))
    if messages:
        raise GraphError(messages)
    warnings = [*graph.warnings, *_one_way(graph.nodes, graph.links)]
    apart = unreachable(graph, range(graph.npus))
    if apart:
        pair = f"{graph.nodes[0].name} and {_named(graph.nodes, apart)}"
        warnings.append(f"not every NPU reaches every other: {pair} do not reach each other")
    return replace(graph, assumptions=tuple(dict.fromkeys(graph.assumptions)), warnings=tuple(warnings))


def both_ways(links: Iterable[Link]) -> Iterator[Link]:
    """Every link and its reverse."""
    for link in links:
        yield link
        yield link.reverse


def unreachable(
    graph: Graph, gpus: Collection[int], kinds: Collection[str] | None = None, start: int | None = None
) -> list[int]:
    """The NPUs among `gpus` that do not both reach `start` (the first of them, if None) and are reached from it.

    Paths lead over NPUs in `gpus` and everything that forwards, on links of the classes `kinds` (all, if None).
    """
    if not gpus:
        return []
    origin, allowed = min(gpus) if start is None else start, frozenset(gpus)
    forward = _reached(graph, origin, allowed, kinds, backward=False)
    both = forward & _reached(graph, origin, allowed, kinds, backward=True)
    return sorted(allowed - both)


def components(graph: Graph, gpus: Collection[int], kinds: Collection[str] | None = None) -> list[list[int]]:
    """The NPUs among `gpus` in groups that reach each other, as in `unreachable`."""
    left, groups = sorted(gpus), []
    while left:
        apart = set(unreachable(graph, gpus, kinds, left[0]))
        groups.append([gpu for gpu in left if gpu not in apart])
        left = [gpu for gpu in left if gpu in apart]
    return groups


def _reached(
    graph: Graph, start: int, allowed: frozenset[int], kinds: Collection[str] | None, *, backward: bool
) -> set[int]:
    after: dict[int, list[int]] = {}
    for link in graph.links:
        if kinds is None or link.kind in kinds:
            src, dst = (link.dst, link.src) if backward else (link.src, link.dst)
            after.setdefault(src, []).append(dst)
    seen, waiting = {start}, [start]
    while waiting:
        for node in after.get(waiting.pop(), ()):
            if node not in seen and (graph.nodes[node].kind != "npu" or node in allowed):
                seen.add(node)
                waiting.append(node)
    return seen


def _entries(link: Link) -> list[int]:
    """Payload rates of the engine's entries for a link."""
    if link.is_bundle:
        return [link.count * link.rate * link.efficiency.numerator // link.efficiency.denominator]
    return [link.payload_rate] * link.count


def _faults(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[str]:
    """Everything that makes nodes and links unusable."""
    kinds = [node.kind for node in nodes]
    npus = kinds.count("npu")
    if npus == 0:
        yield "there is no NPU"
    if "npu" in kinds[npus:]:
        yield "NPUs must come before everything else"
    repeated = [name for name, times in Counter(node.name for node in nodes).items() if times > 1]
    if repeated:
        yield f"two nodes have the same name: {_some(repeated)}"
    if len(nodes) > MAX_NODES:
        yield f"there are {len(nodes)} nodes, more than {MAX_NODES}"
    if sum(1 if link.is_bundle else link.count for link in links) > MAX_LINKS:
        yield f"there are more than {MAX_LINKS} links"
    for link in links:
        if not (0 <= link.src < len(nodes) and 0 <= link.dst < len(nodes)):
            yield f"a link leads from node {link.src} to node {link.dst}, but there are {len(nodes)} nodes"
        elif link.src == link.dst:
            yield f"a link leads from {nodes[link.src].name} to itself"
        elif link.count < 1 or link.latency < 0 or not 1 <= link.payload_rate <= LARGEST // link.count:
            yield f"the link from {nodes[link.src].name} to {nodes[link.dst].name} has no usable rate, latency or count"


def _one_way(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[str]:
    """Says which links have no equal the other way."""
    rates: Counter[tuple[int, int, str]] = Counter()
    for link in links:
        rates[link.src, link.dst, link.kind] += link.total_rate
    lone = [
        f"{nodes[src].name} to {nodes[dst].name} ({kind})"
        for (src, dst, kind), rate in rates.items()
        if rates.get((dst, src, kind), 0) != rate
    ]
    if lone:
        yield f"links without an equal in the other direction: {_some(lone)}"


def _named(nodes: Sequence[Node], numbers: Sequence[int]) -> str:
    return _some([nodes[number].name for number in numbers])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
