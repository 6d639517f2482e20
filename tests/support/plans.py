"""Schedules in MSCCL's XML, made by hand from what is known of the format: all collectives, in place and out of place,
with several channels, dependencies, scratch buffers and `nop`s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

Place = tuple[str, int]
NOWHERE: Final = ("i", -1)


@dataclass
class Block:
    """A thread block: its peers, its channel, and its steps as they are written."""

    send: int = -1
    recv: int = -1
    chan: int = 0
    steps: list[str] = field(default_factory=list)

    def step(
        self, kind: str, src: Place = NOWHERE, dst: Place = ("o", -1), count: int = 1, on: tuple[int, int] = (-1, -1)
    ) -> int:
        """Adds a step, and says its number."""
        number = len(self.steps)
        self.steps.append(
            f'<step s="{number}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1]}" dstbuf="{dst[0]}" dstoff="{dst[1]}" '
            f'cnt="{count}" depid="{on[0]}" deps="{on[1]}" hasdep="1"/>'
        )
        return number


@dataclass
class Rank:
    """A rank: its buffers, and its thread blocks."""

    sizes: tuple[int, int, int]
    blocks: list[Block] = field(default_factory=list)

    def block(self, send: int = -1, recv: int = -1, chan: int = 0) -> Block:
        """Adds a thread block."""
        self.blocks.append(Block(send, recv, chan))
        return self.blocks[-1]


def xml(coll: str, ranks: list[Rank], *, in_place: bool, name: str = "made by hand") -> str:
    """The file."""
    channels = 1 + max(block.chan for rank in ranks for block in rank.blocks)
    per_rank = {"allgather": (len(ranks), 1), "reduce_scatter": (1, len(ranks))}.get(coll, (1, 1))
    loop = max(max(rank.sizes[0] * per_rank[0], rank.sizes[1] * per_rank[1]) for rank in ranks)
    lines = [
        f'<algo name="{name}" proto="Simple" nchannels="{channels}" nchunksperloop="{loop}" ngpus="{len(ranks)}" '
        f'coll="{coll}" inplace="{int(in_place)}" outofplace="{int(not in_place)}" minBytes="0" maxBytes="1073741824">'
    ]
    for number, rank in enumerate(ranks):
        inputs, outputs, scratch = rank.sizes
        lines.append(f'  <gpu id="{number}" i_chunks="{inputs}" o_chunks="{outputs}" s_chunks="{scratch}">')
        for at, block in enumerate(rank.blocks):
            lines.append(f'    <tb id="{at}" send="{block.send}" recv="{block.recv}" chan="{block.chan}">')
            lines += [f"      {step}" for step in block.steps]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>", ""])


def all_reduce_in_rounds(ranks: int, channels: int = 2) -> str:
    """In place: everybody sends everything to everybody, into scratch buffers; `nop`s wait for all but one of them."""
    made = []
    for rank in range(ranks):
        own = Rank((ranks * channels, 0, channels * ranks * (ranks - 1)))
        peers = [peer for peer in range(ranks) if peer != rank]
        for channel in range(channels):
            for position, peer in enumerate(peers):
                block = own.block(send=peer, recv=peer, chan=channel)
                scratch = (channel * (ranks - 1) + position) * ranks
                block.step("s", ("i", channel * ranks), count=ranks)
                block.step("r", dst=("s", scratch), count=ranks)
        for channel in range(channels):
            block = own.block(chan=channel)
            received = [(channel * (ranks - 1) + position, 1) for position in range(ranks - 1)]
            sent = [(channel * (ranks - 1) + position, 0) for position in range(ranks - 1)]
            for on in (*sent, *received[1:]):
                block.step("nop", count=0, on=on)
            for position in range(ranks - 1):
                scratch = (channel * (ranks - 1) + position) * ranks
                on = received[0] if position == 0 else (-1, -1)
                block.step("re", ("s", scratch), ("i", channel * ranks), count=ranks, on=on)
        made.append(own)
    return xml("allreduce", made, in_place=True)


def all_gather(ranks: int, *, in_place: bool) -> str:
    """A ring in both directions, a channel for each: half of every share goes one way, half the other."""
    made = []
    for rank in range(ranks):
        # In place, a rank's input is its part of its output.
        own = Rank((2, 2 * ranks, 0))
        for way in (0, 1):
            step = 1 if way == 0 else ranks - 1
            block = own.block(send=(rank + step) % ranks, recv=(rank - step) % ranks, chan=way)
            block.step("s", ("i", way))
            if not in_place:
                block.step("cpy", ("i", way), ("o", 2 * rank + way))
            for back in range(1, ranks):
                origin = (rank - back * step) % ranks
                block.step("rcs" if back < ranks - 1 else "r", dst=("o", 2 * origin + way))
        made.append(own)
    return xml("allgather", made, in_place=in_place)


def reduce_scatter(ranks: int) -> str:
    """Out of place: shares go to their owners directly, into scratch buffers, and are added there in order."""
    made = []
    for rank in range(ranks):
        own = Rank((ranks, 1, ranks - 1))
        peers = [(rank + away) % ranks for away in range(1, ranks)]
        for position, peer in enumerate(peers):
            block = own.block(send=peer, chan=0)
            block.step("s", ("i", peer))
            block = own.block(recv=peer, chan=0)
            block.step("r", dst=("s", position))
        block = own.block()
        block.step("cpy", ("i", rank), ("o", 0))
        for position in range(ranks - 1):
            block.step("re", ("s", position), ("o", 0), on=(2 * position + 1, 0))
        made.append(own)
    return xml("reduce_scatter", made, in_place=False)


def all_to_all(ranks: int) -> str:
    """Out of place: directly, with two thread blocks to every peer, a channel for each half of the blocks."""
    made = []
    for rank in range(ranks):
        own = Rank((2 * ranks, 2 * ranks, 0))
        for half in (0, 1):
            for away in range(1, ranks):
                to, back = (rank + away) % ranks, (rank - away) % ranks
                block = own.block(send=to, recv=back, chan=half)
                block.step("s", ("i", 2 * to + half))
                block.step("r", dst=("o", 2 * back + half))
        block = own.block()
        block.step("cpy", ("i", 2 * rank), ("o", 2 * rank), count=2)
        made.append(own)
    return xml("alltoall", made, in_place=False)


def broadcast(ranks: int, root: int) -> str:
    """In place: a chain from the root, in which one thread block receives and another sends when it has arrived."""
    made = []
    for rank in range(ranks):
        own = Rank((4, 4, 0))
        place = (rank - root) % ranks
        if place > 0:
            receiver = own.block(recv=(rank - 1) % ranks)
            for chunk in range(4):
                receiver.step("r", dst=("o", chunk))
        if place < ranks - 1:
            sender = own.block(send=(rank + 1) % ranks)
            for chunk in range(4):
                buffer = "i" if place == 0 else "o"
                sender.step("s", (buffer, chunk), on=(0, chunk) if place > 0 else (-1, -1))
        made.append(own)
    return xml("broadcast", made, in_place=True)


def reduce(ranks: int, root: int) -> str:
    """Out of place: a chain to the root on two channels."""
    made = []
    for rank in range(ranks):
        own = Rank((2, 2, 0))
        place = (root - rank) % ranks
        for channel in (0, 1):
            after, before = (rank + 1) % ranks, (rank - 1) % ranks
            if place == ranks - 1:
                own.block(send=after, chan=channel).step("s", ("i", channel))
            elif place > 0:
                own.block(send=after, recv=before, chan=channel).step("rrs", ("i", channel))
            else:
                own.block(recv=before, chan=channel).step("rrc", ("i", channel), ("o", channel))
        made.append(own)
    return xml("reduce", made, in_place=False)


PLANS: Final[dict[str, tuple[str, int, Callable[[], str]]]] = {
    "all-reduce": ("all-reduce", 4, lambda: all_reduce_in_rounds(4)),
    "all-reduce of eight": ("all-reduce", 8, lambda: all_reduce_in_rounds(8, 1)),
    "all-gather": ("all-gather", 4, lambda: all_gather(4, in_place=False)),
    "all-gather in place": ("all-gather", 4, lambda: all_gather(4, in_place=True)),
    "reduce-scatter": ("reduce-scatter", 4, lambda: reduce_scatter(4)),
    "all-to-all": ("all-to-all", 4, lambda: all_to_all(4)),
    "broadcast": ("broadcast", 4, lambda: broadcast(4, 1)),
    "reduce": ("reduce", 4, lambda: reduce(4, 2)),
}
"""Schedules by name: the collective, the ranks, and what writes it."""
