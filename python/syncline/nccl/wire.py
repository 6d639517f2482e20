"""Closed forms of what a collective puts on the wires: steps, and bytes on the busiest links.

One function per algorithm. N is the number of GPUs, M the number of nodes, g = N/M the GPUs of a node, S the
size as nccl-tests counts it. Nothing here is fitted, and nothing here is a time.

| algorithm | steps, all-reduce | bytes out of a GPU (NVLink) | bytes out of a node (NICs) |
|---|---|---|---|
| ring | 2 (N-1), of which 2 M cross nodes | 2 (N-1)/N S, (g-1)/g of it if M > 1 | 2 (N-1)/N S |
| tree | 2 (g-1) within, 2 log2 M between nodes | 2 (g-1)/g S | S, 3/2 S, 2 S for 2, 3, more nodes |
| NVLS | 2 (to the switch and back) | (g+1)/g S | - |
| NVLS, one pass | 1 (all-gather, reduce-scatter) | S, into or out of it | - |
| direct | g-1 within, 1 between nodes; all-to-all | (g-1)/N S | g (N-g)/N S |
| NVLS tree | 2 within, 2 log2 M between nodes | (g+1)/g S | S, 3/2 S, 2 S for 2, 3, more nodes |
| direct, gather | g-1 within, 1 between nodes | (g-1)/N S, into the root | (N-g)/N S, through one NIC |

* *Ring.* A ring enters and leaves every node once, so the rings together carry their whole traffic through the
  NICs, and of the g hops that begin in a node, g-1 stay inside: at the same rate on NVLinks, a ring over several nodes
  has g/(g-1) times the bus bandwidth of one in a node (tables `h100-16-ring` and `h100-8-reduce-scatter-ring`). Half
  of it, N-1 steps, for reduce-scatter and all-gather; broadcast and reduce are a chain of N-1 steps that carries S.
* *Tree.* NCCL's tree is a chain inside a node and two complementary binary trees between nodes, each with
  half of the data. A node is inside one of them and a leaf of the other: it sends S/2 upwards in both and S/2 to each
  of its two children; with two nodes the root of one tree is the leaf of the other, with three nobody has two children.
* *NVLS.* The switch reads the operands out of all GPUs, S from each, and sums them up; each GPU writes its
  share S/g of the result once and the switch copies it to all. An all-gather is only the second of these, a
  reduce-scatter only the first: what the switch copies comes into a GPU as S, and what it reads leaves it as S.
* *Direct.* All-to-all: every GPU sends S/N to each other one, within its node one after the other. What goes to other
  nodes is under way at the same time, since NCCL puts all sends and receives of a group into one kernel, whose channels
  serve several peers at once: one step of latency, however many there are. Only the proxy, the thread of the CPU that
  hands messages to the NIC, posts them one by one (N-g for each GPU). *Send and receive*: one step of S. *Gather and
  scatter*: S/N from, or to, each other GPU; what comes from other nodes passes the root's own NIC.

Steps are those on the longest path. On a hybrid cube mesh the rings use all NVLinks of a GPU (three undirected
rings on a DGX-1V, two on a DGX-1P), so its rate is that of its links together, as behind a switch. What goes directly
from GPU to GPU there may have to pass others (`mesh.py`): its bytes are then those that would take a GPU with all of
its links as long as the busiest link takes.

`tests/software/test_wire_engine.py` holds these forms against simulations; docs/validation.md says what differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

KINDS: Final = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "broadcast",
    "reduce",
    "all-to-all",
    "gather",
    "scatter",
    "sendrecv",
)
"""What nccl-tests measures and this model knows."""

RING: Final = "ring"
TREE: Final = "tree"
NVLS: Final = "nvls"
NVLS_TREE: Final = "nvls-tree"
DIRECT: Final = "direct"
ALGORITHMS: Final = (RING, TREE, NVLS, NVLS_TREE, DIRECT)


@dataclass(frozen=True, slots=True)
class Wire:
    """What one collective of one size asks of the wires."""

    steps_intra: int
    """Steps over NVLink on the longest path."""
    steps_inter: int
    """Steps over the network on the longest path."""
    nvlink_bytes: Fraction
    """Bytes that leave the busiest GPU over NVLink."""
    nic_bytes: Fraction
    """Bytes that leave the busiest node through its NICs together."""
    posted: int = 0
    """Messages that one GPU exchanges with others over the network at the same time, posted one after the other."""

    def seconds(self, nvlink_rate: float, nic_rate: float) -> float:
        """The time of the busier of both at these rates, in bytes per second; latency apart."""
        nvlink, nic = self.nvlink_bytes, self.nic_bytes
        return max(nvlink.numerator / (nvlink.denominator * nvlink_rate), nic.numerator / (nic.denominator * nic_rate))

    def bottleneck(self, nvlink_rate: float, nic_rate: float) -> tuple[str, Fraction]:
        """`nvlink` or `nic`, and its bytes."""
        if self.nic_bytes and float(self.nic_bytes) / nic_rate > float(self.nvlink_bytes) / nvlink_rate:
            return "nic", self.nic_bytes
        return "nvlink", self.nvlink_bytes


def ring(kind: str, gpus: int, nodes: int, size: int) -> Wire:
    """Rings through all GPUs: all-reduce, reduce-scatter, all-gather, and chains for broadcast and reduce."""
    local = gpus // nodes
    chain = gpus - 1
    # A path of N-1 edges of the ring crosses every one of its M edges between nodes, but one if all do.
    crossings = 0 if nodes == 1 else min(nodes, chain)
    passes = 2 if kind == "all-reduce" else 1
    share = Fraction(1) if kind in ("broadcast", "reduce") else Fraction(chain, gpus)
    data = passes * share * size
    stays = Fraction(1) if nodes == 1 else Fraction(local - 1, local)
    return Wire(
        steps_intra=passes * (chain - crossings),
        steps_inter=passes * crossings,
        nvlink_bytes=data * stays if gpus > 1 else Fraction(0),
        nic_bytes=data if nodes > 1 else Fraction(0),
    )


def tree(gpus: int, nodes: int, size: int) -> Wire:
    """All-reduce: a chain in each node, two complementary binary trees between them."""
    local = gpus // nodes
    return Wire(
        steps_intra=2 * (local - 1),
        steps_inter=2 * levels(nodes),
        nvlink_bytes=Fraction(2 * (local - 1), local) * size,
        nic_bytes=_between_nodes(nodes, size),
    )


def nvls(kind: str, gpus: int, size: int) -> Wire:
    """All-reduce, all-gather and reduce-scatter in the switch of one node."""
    share = Fraction(gpus + 1, gpus) if kind == "all-reduce" else Fraction(1)
    return Wire(2 if kind == "all-reduce" else 1, 0, share * size, Fraction(0))


def nvls_tree(gpus: int, nodes: int, size: int) -> Wire:
    """All-reduce: NVLS in each node, two complementary binary trees between them."""
    within = nvls("all-reduce", gpus // nodes, size)
    return Wire(within.steps_intra, 2 * levels(nodes), within.nvlink_bytes, _between_nodes(nodes, size))


def sendrecv(nodes: int, nics: int, size: int) -> Wire:
    """Every GPU sends to the next and receives from the one before: at the end of a node through one NIC.

    `nic_bytes` is what the node would send if all its NICs were as busy as that one.
    """
    crosses = nodes > 1
    return Wire(int(not crosses), int(crosses), Fraction(size), Fraction(size * nics if crosses else 0))


def direct(gpus: int, nodes: int, size: int) -> Wire:
    """All-to-all: a message to each other GPU."""
    local = gpus // nodes
    within = Fraction(local - 1, gpus) * size
    between = Fraction(gpus - local, gpus) * size
    return Wire(local - 1, int(nodes > 1), within, between * local, gpus - local)


def rooted(gpus: int, nodes: int, nics: int, size: int) -> Wire:
    """Gather and scatter: a message between the root and each other GPU. The bytes are those of the root.

    `nic_bytes` is what the node would send if all its NICs were as busy as the root's.
    """
    local = gpus // nodes
    within = Fraction(local - 1, gpus) * size
    between = Fraction(gpus - local, gpus) * size
    return Wire(local - 1, int(nodes > 1), within, between * nics, gpus - local)


def levels(nodes: int) -> int:
    """The depth of a binary tree over the nodes."""
    return math.ceil(math.log2(nodes)) if nodes > 1 else 0


def bus_factor(kind: str, gpus: int) -> Fraction:
    """The factor between algorithm and bus bandwidth, as nccl-tests defines it."""
    if kind in ("broadcast", "reduce", "sendrecv"):
        return Fraction(1)
    return (2 if kind == "all-reduce" else 1) * Fraction(gpus - 1, gpus)


def _between_nodes(nodes: int, size: int) -> Fraction:
    if nodes == 1:
        return Fraction(0)
    return {2: Fraction(1), 3: Fraction(3, 2)}.get(nodes, Fraction(2)) * size
