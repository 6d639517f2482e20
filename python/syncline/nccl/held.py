"""What NCCL's kernels hold of a GPU while they run: SMs, and bandwidth of its main memory. Nothing here is fitted.

*SMs.* A kernel has a thread block for each channel it uses, and a block has an SM for itself. How many channels there
are follows from the links (NCCL 2.28):

    rings and trees   as many as carry most at one of the rates that NCCL tries (`ncclTopoCompute` in
                      `src/graph/search.cc`), each twice unless they are fast and many (`ncclTopoDupChannels`), twice
                      that (`ncclTopoPostset` in `src/graph/connect.cc`); fewer for small sizes, since each has
                      `threads x threshold` bytes at least (`topoGetAlgoInfo` in `src/enqueue.cc`)
    NVLS              16 on Hopper; 24 on Blackwell, 32 between two nodes (`ncclNvlsTuning` in `src/transport/nvls.cc`)
    messages          two for each NVLink, or one for each 14 GB/s of a NIC (`ncclTopoComputeP2pChannels` in
                      `src/graph/paths.cc`); fewer for small messages (`addP2pToPlan` in `src/enqueue.cc`)

For a DGX H100 these are 24 for rings and 16 for NVLS, and 16 and 16 on several of them, as NCCL logs it.

*Memory.* Per byte of S that a collective of N GPUs is called with, a GPU reads and writes (`src/device/*.h`, protocol
Simple, buffers that are not registered): a send reads once; what is passed on is read from the buffer that it came in,
once more from its own data if it is added, written to the buffer of the next GPU, and to the result if it belongs
there.

| | |
|---|---|
| ring, all-reduce | (6 N - 4) / N |
| ring, all-gather in place | (3 N - 2) / N |
| ring, reduce-scatter | (3 N - 1) / N |
| chain of a broadcast or a reduce, in its middle | 3 |
| tree, in the middle of the chain of a node | 6 |
| NVLS | 6: into the buffer of the switch, read and written there by the switch, out of it |
| all-to-all | (4 (N - 1) + 2) / N |
| gather, scatter, of the root | (3 (N - 1) + 2) / N, (N - 1 + 2) / N |
| send, receive | 1, 3 |

What leaves through a NIC is written to a buffer, from which the NIC reads it: 2 more for these bytes, of which each GPU
of a node has its share. Caches are left out, so these are upper bounds.
"""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from syncline.nccl import tuning, wire
from syncline.nccl.platform import Platform

GB: Final = 1e9
MOST: Final = 32
"""Channels of a communicator (`MAXCHANNELS`)."""
FASTER: Final = frozenset({"hopper", "blackwell"})
"""Generations whose rates are their own."""
WITHIN: Final = MappingProxyType(
    {
        "": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
        "hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
        "blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
    }
)
"""GB/s that NCCL tries for a channel within a node, by generation where it has rates of its own."""
BETWEEN: Final = MappingProxyType(
    {
        "": (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
        "hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
        "blackwell": (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    }
)
"""The same between nodes."""
WORSE: Final = 0.49
"""Rates below this share of the best one so far are not tried."""
FAST: Final = 50
MANY: Final = 4
"""From Hopper on, more channels than this are not doubled unless they have so many GB/s."""
THREADS: Final = MappingProxyType({"LL": 512, "LL128": 640, "Simple": 512})
THRESHOLDS: Final = MappingProxyType({"LL": 8, "LL128": 8, "Simple": 64})
"""Bytes of a thread below which a collective has fewer channels; of a ring with LL times the number of ranks."""
NVLS: Final = MappingProxyType({"hopper": 16, "blackwell": 24})
NVLS_OF_TWO: Final = MappingProxyType({"hopper": 16, "blackwell": 32})
"""Channels of NVLS, and of NVLS trees between two nodes."""
OF_NIC: Final = 14 * GB
"""Bytes per second of a NIC for each channel of a message."""
LEAST_PART: Final = 64 * 1024
"""Bytes of a message that a channel has at least."""


class Call(NamedTuple):
    """A collective, and how NCCL carries it out."""

    kind: str
    size: int
    """Bytes, as nccl-tests counts them."""
    algorithm: str
    protocol: str = "Simple"


class Held(NamedTuple):
    """What a kernel of NCCL holds of a GPU."""

    sms: int
    memory: int
    """Bytes per second."""

    def row(self) -> dict[str, Any]:
        """As the engine reads it."""
        return {"sms": self.sms, "memory_bytes_per_s": self.memory}


def of(platform: Platform, call: Call, seconds: float) -> Held:
    """What a collective holds that takes so long by itself."""
    moved = float(memory_bytes(platform, call))
    return Held(channels(platform, call), round(moved / seconds) if seconds > 0 else 0)


def channels(platform: Platform, call: Call) -> int:
    """The channels that a collective or a message uses."""
    kind, size, algorithm, protocol = call
    if algorithm in (wire.NVLS, wire.NVLS_TREE):
        return (NVLS_OF_TWO if platform.nodes == 2 else NVLS).get(platform.generation, NVLS["hopper"])
    if algorithm == wire.DIRECT:
        most = _power_of_two(of_rings(platform))
        if kind == "sendrecv":
            return _of_message(platform, size, 2, most)
        each = _of_message(platform, size // platform.gpus, platform.gpus, most)
        return min(most, platform.gpus * each)  # an all-to-all sends to itself, too
    least = THREADS[protocol] * THRESHOLDS[protocol]
    least *= platform.gpus if (algorithm, protocol) == (wire.RING, "LL") else 1
    return min(of_rings(platform), max(1, size // least))


def of_rings(platform: Platform) -> int:
    """The channels of rings and trees."""
    newer = platform.generation if platform.generation in FASTER else ""
    if platform.nodes > 1:
        of_nic = min(platform.node_nic_rate / platform.nic_groups, tuning.COUNTED_PCIE * platform.pcie_wire_rate)
        count, rate = _most(BETWEEN[newer], of_nic / GB, platform.nic_groups)
    elif platform.on_pcie:
        count, rate = _most(WITHIN[newer], tuning.COUNTED_PCIE * platform.pcie_wire_rate / GB, 1)
    else:
        links = max(1, round(platform.nvlink_rate / platform.nvlink_link_rate))
        of_link = tuning.GENERATIONS[platform.generation].nvlink / GB
        each, ways = (links * of_link, 1) if platform.switched else (of_link, links)
        count, rate = _most(WITHIN[newer], each, ways)
    if not (newer and rate < FAST and count > MANY):
        count = min(2 * count, MOST // 2)
    return min(2 * count, MOST)


def _most(rates: tuple[float, ...], each: float, ways: int) -> tuple[int, float]:
    """How many channels carry most over so many ways, and the GB/s of one; of several such, the fastest."""
    best = (0, 0.0)
    for rate in rates:
        if best[0] and rate < WORSE * best[1]:
            break
        count = min(ways * int(each / rate + 1e-6), MOST // 2)
        if count * rate > best[0] * best[1]:
            best = (count, rate)
    return best if best[0] else (1, each)


def _of_message(platform: Platform, size: int, ranks: int, most: int) -> int:
    """The channels of a message of so many bytes in a communicator."""
    if platform.nodes > 1:
        peer = max(1, -(-int(platform.nic_rate) // int(OF_NIC)))
    else:
        links = platform.nvlink_rate // platform.nvlink_link_rate if platform.switched else 1
        peer = 2 * max(1, links)
    peer = min(most, _power_of_two(peer))
    least = peer
    while least * ranks > most and least > 1:
        least //= 2
    used = min(least, max(1, -(-size // LEAST_PART)))
    largest = 2 * LEAST_PART if platform.nodes > 1 else 256 * LEAST_PART
    while size > used * largest and 2 * used <= peer:
        used *= 2
    return used


def _power_of_two(number: int) -> int:
    """The least power of two that is not below."""
    return 1 << max(0, number - 1).bit_length()


def memory_bytes(platform: Platform, call: Call) -> Fraction:
    """Bytes that the busiest GPU reads and writes in a collective."""
    through_nic = _on_wires(platform, call).nic_bytes / platform.gpus_per_node if platform.nodes > 1 else Fraction(0)
    return _per_byte(call.kind, call.algorithm, platform.gpus) * call.size + 2 * through_nic


def _on_wires(platform: Platform, call: Call) -> wire.Wire:
    kind, size, algorithm, _ = call
    gpus, nodes = platform.gpus, platform.nodes
    if algorithm in (wire.TREE, wire.NVLS_TREE):
        return wire.tree(gpus, nodes, size)
    if algorithm != wire.DIRECT:
        return wire.ring(kind, gpus, nodes, size)
    if kind == "sendrecv":
        return wire.Wire(0, 1, Fraction(0), Fraction(size * platform.gpus_per_node))
    return wire.direct(gpus, nodes, size)


def _per_byte(kind: str, algorithm: str, gpus: int) -> Fraction:
    """Reads and writes of a GPU for each byte that a collective is called with."""
    if algorithm in (wire.TREE, wire.NVLS, wire.NVLS_TREE):
        return Fraction(6)
    counts = {
        "all-reduce": Fraction(6 * gpus - 4, gpus),
        "all-gather": Fraction(3 * gpus - 2, gpus),
        "reduce-scatter": Fraction(3 * gpus - 1, gpus),
        "all-to-all": Fraction(4 * (gpus - 1) + 2, gpus),
        "gather": Fraction(3 * (gpus - 1) + 2, gpus),
        "scatter": Fraction(gpus + 1, gpus),
        "sendrecv": Fraction(1),
    }
    return counts.get(kind, Fraction(3))
