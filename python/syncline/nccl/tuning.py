"""What NCCL expects of its own algorithms between nodes, and so which one it takes.

NCCL estimates every algorithm and protocol as latency + size / bandwidth and runs the least (`src/graph/tuning.cc` of
NCCL 2.28, whose published tables are the numbers here; they were measured by NVIDIA on its own machines). Releases
differ in what they know of NVLS trees, and a table's release counts (`Platform.nccl`). Its estimate
is not the time that follows: it takes a tree for sizes at which a ring would be faster, and the reverse. So choice and
time are two models: this one chooses, `model.py` says what the chosen one takes.

| | latency | bandwidth, in terms of the size |
|---|---|---|
| ring | base + (steps within) h + 2 (M-1) H; of Simple 1.4 times that (1.9 before Ampere) | R N / 2 (N-1) |
| tree | base + 2 (g-1) h + 2 log2 M H | R / 2, times a factor that depends on the size |
| NVLS tree | h + 2 log2 M H | R N / 2 (N-1); until 2.27, 5/6 of R, or of R / 2 with more than two nodes |

h is a step over NVLink and H one over the network, with the latency that a plugin reports (twice with Simple, which
flushes what has arrived; `networks.py`), R what all channels carry together: the NICs' rate, but no more
than a channel does. N GPUs, M nodes, g GPUs of a node. One pass instead of two for all but all-reduce.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from syncline.nccl import networks, wire
from syncline.nccl.platform import Platform

GB: Final = 1e9
US: Final = 1e-6

BASES: Final = MappingProxyType(
    {
        wire.RING: MappingProxyType({"LL": 6.6 * US, "LL128": 14.0 * US, "Simple": 8.4 * US}),
        wire.TREE: MappingProxyType({"LL": 6.8 * US, "LL128": 14.0 * US, "Simple": 8.4 * US}),
        wire.NVLS_TREE: MappingProxyType({"Simple": 0.0}),
    }
)
"""Seconds before the first step."""
NVLINK_STEPS: Final = MappingProxyType(
    {
        wire.RING: MappingProxyType({"LL": 0.6 * US, "LL128": 1.9 * US, "Simple": 3.4 * US}),
        wire.TREE: MappingProxyType({"LL": 0.6 * US, "LL128": 1.25 * US, "Simple": 4.0 * US}),
        wire.NVLS: MappingProxyType({"Simple": 25.0 * US}),
        wire.NVLS_TREE: MappingProxyType({"Simple": 25.0 * US}),
    }
)
"""Seconds of a step over NVLink; through NVSwitches, all of them together."""
NETWORK_STEPS: Final = MappingProxyType(
    {
        wire.RING: MappingProxyType({"LL": 2.7 * US, "LL128": 4.0 * US, "Simple": 14.0 * US}),
        wire.TREE: MappingProxyType({"LL": 5.0 * US, "LL128": 8.5 * US, "Simple": 14.0 * US}),
        wire.NVLS: MappingProxyType({"Simple": 18.0 * US}),
        wire.NVLS_TREE: MappingProxyType({"Simple": 14.0 * US}),
    }
)
"""Seconds of a step between nodes, without that of the NIC itself."""
COUNTED_PCIE: Final = 0.75
"""What NCCL counts on of the signalling of a PCIe link: 12 GB/s for the third generation with 16 lanes."""
PROXY: Final = MappingProxyType({"LL": 1.0 * US, "LL128": 1.0 * US, "Simple": 3.0 * US})
"""Seconds that the CPU takes per step of a ring that leaves the node; no step is shorter."""
POSTING: Final = PROXY["LL"]
"""Seconds that the CPU takes to hand a message to a NIC: what NCCL counts for one; with Simple, for a step of a ring,
it counts three times that."""
TREE_FACTORS: Final = MappingProxyType(
    {
        "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
        "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, *(0.6,) * 6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
        "Simple": (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, *(0.5,) * 4, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
    }
)
"""The share of its bandwidth that a tree reaches with 64 bytes, 128 bytes and so on, up to 256 MiB."""
LL_RATES: Final = (39.0 * GB, 39.0 * GB, 20.4 * GB)
"""What LL carries on one, two, and more nodes at most: its flags go through the memory of the host."""
LL_RATES_WITHIN: Final = MappingProxyType(
    {"pascal": 39 * GB, "volta": 39 * GB, "ampere": 87.7 * GB, "hopper": 141 * GB, "blackwell": 282 * GB}
)
"""The same within one node, where it does not."""
NVLS_RATES: Final = MappingProxyType(
    {
        "hopper": tuple(rate * GB for rate in (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3)),
        "blackwell": tuple(rate * GB for rate in (90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18)),
    }
)
"""What a channel of NVLS may carry, of which NCCL takes the most that the NVLinks of all GPUs feed
(`src/graph/search.cc`)."""
TREE_SHARE: Final = 0.92
LL_TREE_SHARE: Final = 1 / 3.8
LL128_SHARE: Final = 0.92

LL128_SINCE: Final = (2, 5)
NVLS_SINCE: Final = (2, 18)
"""The releases that brought them: LL128, and NVLS with trees over several nodes."""
EARLY: Final = (2, 7)
EARLY_TREES: Final = MappingProxyType({"LL128": 105.0 * GB, "Simple": 80.0 * GB})
"""Up to NCCL 2.7: what a tree over more than two nodes carries up and down at most; the first on A100."""
MOST_NVLS_GPUS: Final = 32
"""GPUs that all-gathers and reduce-scatters use NVLS for at most (`NCCL_MAX_NVLS_ARITY`)."""
MEASURED_NVLS_TREES: Final = (2, 28)
"""The release from which on NCCL knows what channels of NVLS trees carry."""
LATER_NVLS_TREE_STEP: Final = 20.9 * US
"""What it counts for a step of an NVLS tree between nodes since then (2.28.9)."""
NVLS_TREE_SHARE: Final = 5 / 6
"""The share of the NICs' rate that it expected before."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What NCCL knows of GPUs of a generation: bytes per second of a channel on one, two, and more nodes."""

    nvlink: float
    """What a channel's worth of one NVLink carries."""
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    plateau: float
    """How much more a ring with Simple takes before its first byte is everywhere."""


GENERATIONS: Final = MappingProxyType(
    {
        "pascal": Generation(18 * GB, *((20 * GB,) * 3,) * 2, (26.5 * GB, 18.5 * GB, 10 * GB), (0.0,) * 3, 1.9),
        "volta": Generation(20 * GB, *((20 * GB,) * 3,) * 2, (26.5 * GB, 18.5 * GB, 10 * GB), (0.0,) * 3, 1.9),
        "ampere": Generation(20 * GB, *((20 * GB,) * 3,) * 2, (24 * GB, 23.6 * GB, 17.8 * GB), (0.0,) * 3, 1.4),
        "hopper": Generation(
            20.6 * GB,
            (36.7 * GB,) * 3,
            (36.7 * GB, 36.7 * GB, 29 * GB),
            (38.7 * GB, 41.4 * GB, 36 * GB),
            (0.0, 57.7 * GB, 45.5 * GB),
            1.4,
        ),
        "blackwell": Generation(
            40.1 * GB,
            (73.4 * GB,) * 3,
            (55.6 * GB, 31.67 * GB, 20 * GB),
            (70 * GB, 42.8 * GB, 24 * GB),
            (0.0, 96 * GB, 43.1 * GB),
            1.4,
        ),
    }
)


def estimate(platform: Platform, kind: str, algorithm: str, protocol: str, size: int) -> float:
    """Seconds that NCCL expects of a collective of `size` bytes: between nodes, or an all-gather or reduce-scatter."""
    if platform.nodes == 1:
        return _estimate_within(platform, algorithm, protocol, size)
    passes = 2 if kind == "all-reduce" else 1
    latency = BASES[algorithm][protocol]
    flushed = 2 if protocol == "Simple" else 1
    between = NETWORK_STEPS[algorithm][protocol] + networks.reported_latency(platform) * flushed
    within = NVLINK_STEPS[algorithm][protocol]
    if algorithm == wire.RING:
        crossings = passes * (platform.nodes - 1)
        latency += (passes * (platform.gpus - 1) - crossings) * max(within, PROXY[protocol]) + crossings * between
        if protocol == "Simple" and kind == "all-reduce":
            latency *= GENERATIONS[platform.generation].plateau
        on_bus = float(wire.bus_factor(kind, platform.gpus))
        return latency + size * on_bus / _ring_rate(platform, protocol)
    depth = math.log2(platform.nodes)
    if algorithm == wire.NVLS_TREE:
        if platform.nccl >= MEASURED_NVLS_TREES:
            between += LATER_NVLS_TREE_STEP - NETWORK_STEPS[wire.NVLS_TREE]["Simple"]
            rate = nvls_tree_rate(platform)
        else:
            rate = _nvls_tree_share(platform)
        return latency + within + 2 * depth * between + size / rate
    latency += 2 * ((platform.gpus_per_node - 1) * within + depth * between)
    return latency + 2 * size / (tree_rate(platform, protocol) * tree_factor(protocol, size))


def _estimate_within(platform: Platform, algorithm: str, protocol: str, size: int) -> float:
    """The same of an all-gather or reduce-scatter in one node."""
    bus = platform.nvlink_rate * GENERATIONS[platform.generation].nvlink / platform.nvlink_link_rate
    if algorithm == wire.NVLS:
        each = bus / platform.gpus
        heads = max((step for step in NVLS_RATES[platform.generation] if step <= each), default=each)
        return NVLINK_STEPS[wire.NVLS]["Simple"] + size / (platform.gpus * heads)
    rate = {"LL": min(bus / 2, LL_RATES_WITHIN[platform.generation]), "LL128": LL128_SHARE * bus, "Simple": bus}
    latency = BASES[wire.RING][protocol] + (platform.gpus - 1) * NVLINK_STEPS[wire.RING][protocol]
    return latency + size * float(wire.bus_factor("all-gather", platform.gpus)) / rate[protocol]


def nvls_tree_rate(platform: Platform) -> float:
    """Bytes of the vector per second that an NVLS tree carries at most: a channel for each GPU of a node; until NCCL
    2.27 no more than that counts on.
    """
    rates = GENERATIONS[platform.generation].nvls_tree[_column(platform)]
    doubled = 2 if platform.nodes == 2 else 1
    channel = min(rates, doubled * _network(platform) / platform.gpus_per_node)
    found = platform.gpus_per_node * channel / float(wire.bus_factor("all-reduce", platform.gpus))
    return found if platform.nccl >= MEASURED_NVLS_TREES else min(found, _nvls_tree_share(platform))


def _nvls_tree_share(platform: Platform) -> float:
    """What NCCL 2.19 to 2.27 counts on: 5/6 of what the NICs send, half of it with more than two nodes."""
    within = platform.nvlink_rate * platform.gpus_per_node
    between = _network(platform) / (1 if platform.nodes == 2 else 2)
    return NVLS_TREE_SHARE * min(within, between)


def tree_factor(protocol: str, size: int) -> float:
    """The share of its bandwidth that a tree reaches with a size, between those of the table in straight lines."""
    factors = TREE_FACTORS[protocol]
    place = math.log2(max(size, 64) / 64)
    low = int(place)
    if low + 1 >= len(factors):
        return 1.0
    return factors[low] + (place - low) * (factors[low + 1] - factors[low])


def _ring_rate(platform: Platform, protocol: str) -> float:
    """Bytes per second on the bus."""
    if protocol == "LL":
        return min(LL_RATES[_column(platform)], _network(platform) / 2)
    if protocol == "LL128":
        channels = platform.nic_groups * GENERATIONS[platform.generation].ring_ll128[_column(platform)]
        return min(LL128_SHARE * _network(platform), channels)
    return _network(platform)


def tree_rate(platform: Platform, protocol: str) -> float:
    """Bytes per second up and down. With two nodes every channel goes once through a NIC, and there are as many as
    the NVLinks feed; with more, as many as there are NICs.
    """
    generation, column = GENERATIONS[platform.generation], _column(platform)
    doubled = 2 if platform.nodes == 2 else 1
    nvlinks = platform.nvlink_rate * generation.nvlink / platform.nvlink_link_rate
    fed = int(nvlinks * platform.nic_groups / _network(platform)) if platform.nodes == 2 else 0
    channels = max(platform.nic_groups, fed)
    rate = min(TREE_SHARE * doubled * _network(platform), channels * generation.tree[column])
    if platform.nodes > 2 and platform.nccl <= EARLY:
        rate = min(rate, EARLY_TREES["LL128" if protocol == "LL128" and platform.generation == "ampere" else "Simple"])
    if protocol == "LL":
        return min(LL_TREE_SHARE * rate, LL_RATES[column])
    if protocol == "LL128":
        return min(120 / 128 * rate, channels * generation.tree_ll128[column])
    return rate


def _network(platform: Platform) -> float:
    """Bytes per second of a node's NICs, as NCCL counts them."""
    return min(platform.node_nic_rate, platform.nic_groups * COUNTED_PCIE * platform.pcie_wire_rate)


def _column(platform: Platform) -> int:
    return min(platform.nodes, 3) - 1
