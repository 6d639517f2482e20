"""How large the chunks are in which NVLS passes a vector on, and so how long its pipeline takes to fill.

NCCL cuts the vector of an NVLS tree into rounds. In a round, every channel moves one chunk for each GPU of a node
(NCCL's *heads*) through all stages: into the switch that reduces, up the tree, down the tree, and out of the switch.
Sizes of chunks are fixed by rules (`calcCollChunking` in `src/enqueue.cc`, numbers of channels in
`src/transport/nvls.cc`; NCCL 2.19 to 2.30), so that the time until the last stage is busy follows without any fit:

    fill = 2 loop / (rate of NVLS) + 2 log2(M) loop / (rate of the NICs of a node) - loop / (rate of the slowest)

with *loop* for the bytes of a round and M nodes. The last term is the stage that the time on the wires counts already.
Messages smaller than a round are one round. Table `h100-16-tree` shows the rules: from 32 MiB to 64 MiB, where chunks
double, its time beyond that of the wires grows by 68 us, and the formula says 70 us.

Within one node an all-reduce has three stages (GPUs write into the switch, which reduces and copies, and read), so that
two rounds fill it; an all-gather or reduce-scatter has two, so that one does.

Trees without NVLS have no such part: NCCL's published factors of their rates (`tuning.TREE_FACTORS`), which depend on
the size, were measured with it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from syncline.nccl import networks
from syncline.nccl.platform import Platform

KIB: Final = 2**10
CHANNELS: Final = MappingProxyType({"hopper": 16, "blackwell": 32})
"""Channels of NVLS over several nodes."""
CHANNELS_WITHIN: Final = MappingProxyType({"hopper": 16, "blackwell": 24})
"""The same within one node."""
LARGEST: Final = 128 * KIB
LARGEST_OF_MANY: Final = 64 * KIB
"""The largest chunk with two or three nodes, and with more."""
MANY: Final = 4
SMALLER: Final = ((32, 256 * KIB), (16, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB))
"""With fewer than so many rounds of chunks, these are no larger than that."""
SMALLER_WITHIN: Final = ((64, 64 * KIB), (8, 32 * KIB), (2, 16 * KIB))
"""The same within one node."""
MOST_HEADS: Final = 32
"""GPUs that an NVLS tree spreads a chunk over at most (`NCCL_MAX_NVLS_ARITY`)."""


def chunk(platform: Platform, size: int) -> int:
    """Bytes of a chunk of a vector of `size` bytes."""
    within = platform.nodes == 1
    largest = LARGEST if within or platform.nodes < MANY else LARGEST_OF_MANY
    found = largest if within else networks.of(platform).nvls_chunk or largest
    for rounds, most in SMALLER_WITHIN if within else SMALLER:
        if size < rounds * _at_once(platform) * found:
            found = min(found, most)
    return found


def loop(platform: Platform, size: int) -> int:
    """Bytes of the vector that are under way in one round."""
    return min(size, _at_once(platform) * chunk(platform, size))


def _at_once(platform: Platform) -> int:
    channels = (CHANNELS_WITHIN if platform.nodes == 1 else CHANNELS)[platform.generation]
    return max(channels, platform.ctas) * min(platform.gpus_per_node, MOST_HEADS)
