"""What there is to say about a fabric and an allocation of its NPUs, as a document and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from syncline.base import quantities
from syncline.fabric.allocation import NVLINK_CLASSES, canonical, nvlink_components
from syncline.fabric.gpus import Gpu
from syncline.fabric.graph import BUFFER, NODE_KINDS, NVLINK, NVSWITCH, PCIE, Graph, unreachable

MATRIX_NPUS: Final = 16
"""Up to so many NPUs, the matrix of their connections is worth printing."""
PS_PER_S: Final = 10**12


@dataclass(frozen=True, slots=True)
class Bundle:
    """Links of a class that are alike: their rate, latency and number of parallel ones."""

    kind: str
    count: int
    rate: int
    payload_rate: int
    latency: int
    pairs: int
    """Pairs of nodes with such links, both directions as one."""


def bundles(graph: Graph) -> list[Bundle]:
    """The links, those that are alike together."""
    parallel: Counter[tuple[int, int, str, int, int, int]] = Counter()
    for link in graph.links:
        parallel[link.src, link.dst, link.kind, link.rate, link.payload_rate, link.latency] += link.count
    found: dict[tuple[str, int, int, int, int], set[tuple[int, int]]] = defaultdict(set)
    for (src, dst, kind, rate, payload_rate, latency), count in parallel.items():
        # Links may have no equal the other way, so that pairs are not half of them.
        found[kind, count, rate, payload_rate, latency].add((min(src, dst), max(src, dst)))
    order = {kind: index for index, kind in enumerate(graph.classes)}
    alike = sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1:]))
    return [Bundle(*key, pairs=len(pairs)) for key, pairs in alike]


@dataclass(frozen=True, slots=True)
class SwitchBuffers:
    """Switches with as many ports and as much buffer as each other."""

    switches: int
    ports: int
    per_port: int
    """Bytes."""


def switch_buffers(graph: Graph) -> list[SwitchBuffers]:
    """The switches whose buffers are stated, those that are alike together."""
    ports = Counter(link.src for link in graph.links)
    stated = ((ports[i], node.buffer) for i, node in enumerate(graph.nodes) if node.buffer is not None)
    return [SwitchBuffers(switches, *alike) for alike, switches in Counter(stated).items()]


def document(graph: Graph, gpus: Sequence[int]) -> dict[str, Any]:
    """The fabric as JSON."""
    kinds = Counter(node.kind for node in graph.nodes)
    apart = unreachable(graph, gpus)
    return {
        "topology": graph.name,
        "npus": graph.npus,
        "gpus": list(gpus),
        "nodes": {kind: kinds[kind] for kind in NODE_KINDS},
        "links": [
            {
                "class": bundle.kind,
                "node_pairs": bundle.pairs,
                "parallel_links": bundle.count,
                "link_bandwidth_bytes_per_s": bundle.rate,
                "link_payload_bandwidth_bytes_per_s": bundle.payload_rate,
                "efficiency": bundle.payload_rate / bundle.rate,
                "latency_s": bundle.latency / PS_PER_S,
            }
            for bundle in bundles(graph)
        ],
        "link_unit_bytes_per_s": graph.link_unit,
        "egress_bytes_per_s": [sum(rates.values()) for rates in _egress(graph, gpus).values()],
        "connected": not apart,
        "nvlink_components": nvlink_components(graph, gpus) if _has_nvlinks(graph) else [],
        "switch_buffers": [
            {"switches": alike.switches, "ports": alike.ports, BUFFER: alike.per_port}
            for alike in switch_buffers(graph)
        ],
        "graph": graph.specification(),
        "assumptions": list(graph.assumptions),
        "warnings": list(graph.warnings),
    }


def gpu_document(gpu: Gpu) -> dict[str, Any]:
    """A GPU as JSON."""
    return {
        "gpu": gpu.name,
        "title": gpu.title,
        "sms": gpu.sms,
        "clock_hz": gpu.clock,
        "memory_bytes": gpu.memory,
        "memory_bandwidth_bytes_per_s": gpu.memory_bandwidth,
        "peak_flops_per_s": dict(gpu.peaks),
    }


def matrix(graph: Graph, gpus: Sequence[int]) -> list[list[str]]:
    """How the NPUs of an allocation are connected, as `nvidia-smi topo -m` says it.

    NV# is a number of direct NVLinks, or of NVLinks to a common NVSwitch; other direct links are their number and
    class. The rest is what the best path crosses: PIX one PCIe switch, PXB several, PHB a CPU, SYS several CPUs, NET
    the network, SW another switch, and - nothing at all.
    """
    return [["X" if a == b else _relation(graph, near, a, b) for b in gpus] for near in [_near(graph)] for a in gpus]


def egress_groups(graph: Graph, gpus: Sequence[int]) -> list[tuple[str, dict[str, int]]]:
    """NPUs that can send equally much: their numbers, and payload bytes per second by class.

    Links to NPUs that do not take part are of no use, and left out.
    """
    rates = _egress(graph, gpus)
    ordered = sorted(rates, key=lambda gpu: sorted(rates[gpu].items()))
    groups = [list(group) for _, group in groupby(ordered, key=lambda gpu: sorted(rates[gpu].items()))]
    return [(canonical(group), dict(rates[group[0]])) for group in sorted(groups)]


def summary(graph: Graph) -> str:
    """The nodes by kind, such as `8 GPUs, 4 switches, 2 CPUs`."""
    names = {"npu": "NPU", "switch": "switch", "nic": "NIC", "cpu": "CPU"}
    kinds = Counter(node.kind for node in graph.nodes)
    return ", ".join(counted(kinds[kind], names[kind]) for kind in NODE_KINDS if kinds[kind])


def counted(count: int, name: str) -> str:
    """`1 switch`, `2 switches`."""
    plural = name if count == 1 else f"{name}es" if name.endswith("ch") else f"{name}s"
    return f"{count:,} {plural}"


def rate(value: int) -> str:
    """Bytes per second in decimal units, with as many digits as say something."""
    for unit, factor in (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value} B/s"


def latency(value: int) -> str:
    """Picoseconds in the unit that is shortest."""
    return quantities.TIME.format(value)


def _egress(graph: Graph, gpus: Sequence[int]) -> dict[int, Counter[str]]:
    """Payload bytes per second out of every NPU of an allocation, by class."""
    rates: dict[int, Counter[str]] = {gpu: Counter() for gpu in gpus}
    for link in graph.links:
        if link.src in rates and (link.dst in rates or graph.nodes[link.dst].kind != "npu"):
            rates[link.src][link.kind] += link.total_rate
    return rates


def _has_nvlinks(graph: Graph) -> bool:
    return any(link.kind in NVLINK_CLASSES for link in graph.links)


Near = dict[int, dict[int, tuple[str, int]]]


def _near(graph: Graph) -> Near:
    """The class and number of links from a node to each neighbour; the fastest class, where there are several."""
    near: Near = {}
    best: dict[tuple[int, int], int] = {}
    for link in graph.links:
        ends = (link.src, link.dst)
        kind, count = near.setdefault(link.src, {}).get(link.dst, (link.kind, 0))
        if kind == link.kind:
            near[link.src][link.dst] = (kind, count + link.count)
            best[ends] = best.get(ends, 0) + link.total_rate
        elif link.total_rate > best[ends]:
            near[link.src][link.dst] = (link.kind, link.count)
            best[ends] = link.total_rate
    return near


def _relation(graph: Graph, near: Near, a: int, b: int) -> str:
    direct = near.get(a, {}).get(b)
    if direct is not None:
        kind, count = direct
        return f"NV{count}" if kind == NVLINK else f"{count}x {kind}"
    shared = [count for node, (kind, count) in near.get(a, {}).items() if kind == NVSWITCH and b in near.get(node, {})]
    if shared:
        return f"NV{sum(shared)}"
    path = _path(graph, near, a, b)
    if path is None:
        return "-"
    cpus = sum(graph.nodes[node].kind == "cpu" for node in path)
    if any(graph.nodes[node].kind == "nic" for node in path):
        return "NET"
    if cpus:
        return "PHB" if cpus == 1 else "SYS"
    if any(near[node][after][0] != PCIE for node, after in zip([a, *path], [*path, b], strict=True)):
        return "SW"
    return "PIX" if len(path) == 1 else "PXB"


def _path(graph: Graph, near: Near, a: int, b: int) -> list[int] | None:
    """The nodes between two NPUs on a path with the fewest links, over nodes that forward."""
    before: dict[int, int] = {a: a}
    waiting = [a]
    for node in waiting:
        for neighbour in near.get(node, {}):
            if neighbour in before or (graph.nodes[neighbour].kind == "npu" and neighbour != b):
                continue
            before[neighbour] = node
            if neighbour == b:
                path = [node]
                while path[-1] != a:
                    path.append(before[path[-1]])
                return path[-2::-1]
            waiting.append(neighbour)
    return None
