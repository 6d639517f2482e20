"""What is asked about a machine: the network of the GPUs that take part, in the engine's terms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Final, Literal, TypeAlias

from syncline.fabric.allocation import NVLINK_CLASSES
from syncline.fabric.graph import Graph

Links: TypeAlias = Literal["auto", "nvlink", "all"]

LINKS: Final[tuple[Links, ...]] = ("auto", "nvlink", "all")
MOST_GPUS: Final = 256
"""So many GPUs can have plans of trees, and every tree listed."""
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


def asked(graph: Graph, gpus: Sequence[int], links: Links = "auto") -> Question:
    """The network of these GPUs. With `auto`, trees use NVLinks alone (NVSwitches included) where GPUs have some and
    need nothing else to reach each other's machine.
    """
    if links == "auto":
        links = "nvlink" if _nvlink_only(graph) else "all"
    kinds = NVLINK_CLASSES if links == "nvlink" else frozenset(graph.classes)
    nodes = (*gpus, *_forwarding(graph, kinds))
    number = {node: index for index, node in enumerate(nodes)}
    capacity: dict[tuple[int, int], int] = {}
    for link in graph.links:
        if link.kind in kinds and link.src in number and link.dst in number:
            pair = number[link.src], number[link.dst]
            capacity[pair] = capacity.get(pair, 0) + link.total_rate
    arcs = tuple((src, dst, rate) for (src, dst), rate in sorted(capacity.items()))
    unit = graph.link_unit or reduce(gcd, (rate for _, _, rate in arcs), 0) or 1
    return Question(tuple(gpus), nodes, arcs, unit, links, any(link.kind not in kinds for link in graph.links))


def _nvlink_only(graph: Graph) -> bool:
    """Whether the graph is one machine with NVLinks."""
    hosts = {node.host for node in graph.nodes if node.kind == "npu"}
    return len(hosts) == 1 and any(link.kind in NVLINK_CLASSES for link in graph.links)


def _forwarding(graph: Graph, kinds: Collection[str]) -> list[int]:
    """What forwards and has a link of such a class."""
    used = {end for link in graph.links if link.kind in kinds for end in (link.src, link.dst)}
    return [index for index, node in enumerate(graph.nodes) if node.kind != "npu" and index in used]
