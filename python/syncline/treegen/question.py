"""What is asked about a machine: the network of the GPUs that take part, in the engine's terms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Final, Literal, TypeAlias

from syncline.fabric.allocation import NVLINK_CLASSES
from syncline.fabric.graph import BUNDLED, C2C, INFINIBAND, Graph

Links: TypeAlias = Literal["auto", "nvlink", "pcie", "all"]

LINKS: Final[tuple[Links, ...]] = ("auto", "nvlink", "pcie", "all")
MOST_GPUS: Final = 256
"""So many GPUs can have plans of trees, paths, roots of choice, and every tree listed."""
MOST_RATED: Final = 1152
"""So many can have rates and trees; those of a root stand for the others' where all send."""


@dataclass(frozen=True, slots=True)
class Question:
    """A network: GPUs first, as numbers from 0, then what forwards."""

    gpus: tuple[int, ...]
    """Of each terminal, its number in the machine."""
    nodes: tuple[int, ...]
    """Of each node, its number in the graph."""
    arcs: tuple[tuple[int, int, int], ...]
    """From, to, payload bytes per second of all parallel links together."""
    link_unit: int
    """Payload bytes per second of one NVLink; where there is no one rate, the greatest unit of all capacities."""
    links: Links
    """Which links trees may use."""
    others: bool
    """Whether there are other links."""
    single: tuple[tuple[int, int, int], ...] = ()
    """From, to, payload bytes per second of one link, where GPUs have several that messages take one by one."""


def asked(graph: Graph, gpus: Sequence[int], links: Links = "auto") -> Question:
    """The network of these GPUs. With `auto`, trees use NVLinks alone (NVSwitches included) where GPUs have some and
    need nothing else to reach each other's machine.
    """
    if links == "auto":
        links = "nvlink" if _nvlink_only(graph, gpus) else "all"
    kinds = _kinds(graph, links)
    nodes = (*gpus, *_forwarding(graph, kinds))
    number = {node: index for index, node in enumerate(nodes)}
    capacity: dict[tuple[int, int], int] = {}
    for link in graph.links:
        if link.kind in kinds and link.src in number and link.dst in number:
            pair = number[link.src], number[link.dst]
            capacity[pair] = capacity.get(pair, 0) + link.total_rate
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(capacity.items()))
    unit = graph.link_unit or reduce(gcd, (rate for _, _, rate in arcs), 0) or 1
    others = any(link.kind not in kinds for link in graph.links)
    apart = (
        (number[link.src], number[link.dst], link.payload_rate)
        for link in graph.links
        if link.count > 1 and link.kind in kinds - BUNDLED and link.src in gpus and link.dst in gpus
    )
    return Question(tuple(gpus), nodes, arcs, unit, links, others, tuple(sorted(apart)))


def _kinds(graph: Graph, links: Links) -> frozenset[str]:
    """The classes of links that trees use. PCIe comes with what connects the sockets that it hangs off, and with no
    network: trees over PCIe are those of one machine. GPUs whose links to CPUs are of another kind have none.
    """
    if links == "nvlink":
        return NVLINK_CLASSES
    every = frozenset(graph.classes)
    return every - NVLINK_CLASSES - {INFINIBAND, C2C} if links == "pcie" else every


def _nvlink_only(graph: Graph, gpus: Sequence[int]) -> bool:
    """Whether the GPUs are those of one machine with NVLinks."""
    hosts = {graph.nodes[gpu].host for gpu in gpus}
    return len(hosts) == 1 and any(
        link.kind in NVLINK_CLASSES and graph.nodes[link.src].host in hosts for link in graph.links
    )


def _forwarding(graph: Graph, kinds: Collection[str]) -> list[int]:
    """What forwards and has a link of such a class."""
    used = {end for link in graph.links if link.kind in kinds for end in (link.src, link.dst)}
    return [index for index, node in enumerate(graph.nodes) if node.kind != "npu" and index in used]
