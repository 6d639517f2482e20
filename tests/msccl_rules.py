"""What runtimes of MSCCL ask of a schedule in XML, checked by rules and by carrying the schedule out.

This module shares nothing with the package: it knows the format and nothing else. `broken_rules` names the rules that a
text breaks. A schedule is carried out on numbers; thread blocks go on in any order, connections hold as many messages
as MSCCL's do, and some thread blocks stand still for long, as a seed decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final
from xml.etree import ElementTree

RULES: Final = {
    1: "the head has every attribute that any runtime asks for, with values of their kind",
    2: "there are ngpus GPUs, numbered from 0",
    3: "nchunksperloop is the size of the whole vector, which input and output hold, or divide",
    4: "thread blocks are numbered from 0, and send to and receive from one other GPU, or nobody",
    5: "a channel from a GPU to another one is of one thread block at either end",
    6: "256 steps in a thread block, 32 thread blocks on a channel, 216 in a GPU, 32 channels at most",
    7: "steps are numbered from 0, have every attribute, and are of a known type",
    8: "a step moves 1 to 71 chunks, which are inside of their buffers; a side that it has not is at -1",
    9: "a step waits for a step that exists, of another thread block, and that says that somebody waits for it",
    10: "after a nop that waits, there is a step that waits",
    11: "16 reductions in a row at most",
    12: "what is sent on a connection is received, in order and with the same size",
    13: "the schedule ends, with connections that hold 8 messages",
    14: "the results are right",
}
SLOTS: Final = 8
MODULUS: Final = (1 << 61) - 1
HEAD: Final = (
    "name",
    "proto",
    "nchannels",
    "nchunksperloop",
    "ngpus",
    "coll",
    "inplace",
    "outofplace",
    "minBytes",
    "maxBytes",
)
STEP: Final = ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep")
READS: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
WRITES: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
SENDS: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
WHOLE: Final = {
    **dict.fromkeys(("allreduce", "broadcast", "reduce", "alltoall"), (True, True)),
    **dict.fromkeys(("allgather", "gather"), (False, True)),
    **dict.fromkeys(("reduce_scatter", "scatter"), (True, False)),
}
"""Whether the input and the output hold the whole vector, or the share of a GPU."""

Element = ElementTree.Element
Step = dict[str, str]
Connection = tuple[int, int, int]
"""From, to, channel."""


@dataclass(slots=True)
class _Block:
    rank: int
    id: int
    send: int
    recv: int
    channel: int
    steps: list[Step]
    next: int = 0

    def out(self) -> Connection:
        """What it sends on."""
        return self.rank, self.send, self.channel

    def back(self) -> Connection:
        """What it receives on."""
        return self.recv, self.rank, self.channel


def broken_rules(text: str, root: int = 0, seeds: range = range(4)) -> dict[int, str]:
    """The rules that a schedule breaks, each with the first thing that breaks it."""
    algo = ElementTree.fromstring(text)
    found: dict[int, str] = {}
    for rule, what in _form(algo):
        found.setdefault(rule, what)
    if found:
        return found
    blocks = [block for gpu in algo for block in _blocks(gpu)]
    for rule, what in (*_dependencies(blocks), *_messages(blocks)):
        found.setdefault(rule, what)
    if found:
        return found
    for seed in seeds:
        broken = _Run(algo, blocks, root, Random(seed)).run()
        if broken is not None:
            found.setdefault(*broken)
    return found


def _blocks(gpu: Element) -> list[_Block]:
    found = []
    for tb in gpu:
        number, send, recv, channel = (int(tb.get(key, "")) for key in ("id", "send", "recv", "chan"))
        steps = [dict(step.attrib) for step in tb]
        found.append(_Block(int(gpu.get("id", "")), number, send, recv, channel, steps))
    return found


def _form(algo: Element) -> Iterator[tuple[int, str]]:
    head = {key: algo.get(key) for key in HEAD}
    if None in head.values() or head["coll"] not in WHOLE or not 1 <= len(head["name"] or "") <= 63:
        yield 1, str(head)
        return
    is_in_place, least, most = (int(head[key] or "") for key in ("inplace", "minBytes", "maxBytes"))
    if (
        head["outofplace"] != str(1 - is_in_place)
        or not 0 <= least <= most
        or head["proto"] not in ("Simple", "LL", "LL128")
    ):
        yield 1, str(head)
    if [gpu.get("id") for gpu in algo] != [str(n) for n in range(int(head["ngpus"] or ""))]:
        yield 2, f"{[gpu.get('id') for gpu in algo]}"
    for gpu in algo:
        sizes = [int(gpu.get(key, "")) for key in ("i_chunks", "o_chunks", "s_chunks")]
        parts = [1 if whole else len(algo) for whole in WHOLE[head["coll"] or ""]]
        if any(
            size > 0 and size * part != int(head["nchunksperloop"] or "")
            for size, part in zip(sizes[:2], parts, strict=True)
        ):
            yield 3, f"GPU {gpu.get('id')} has chunks {sizes}"
        blocks = _blocks(gpu)
        yield from _limits(blocks, int(head["nchannels"] or ""))
        for number, block in enumerate(blocks):
            where = f"GPU {block.rank}, thread block {block.id}"
            peers = {*range(-1, len(algo))} - {block.rank}
            if block.id != number or not {block.send, block.recv} <= peers or block.channel < 0:
                yield 4, where
            for nth, step in enumerate(block.steps):
                if not set(STEP) <= set(step) or step["s"] != str(nth) or step["type"] not in READS | WRITES | {"nop"}:
                    yield 7, f"{where}, step {nth}: {step}"
                else:
                    yield from _places(step, sizes, f"{where}, step {nth}")


def _limits(blocks: list[_Block], channels: int) -> Iterator[tuple[int, str]]:
    sends = [(block.channel, block.send, True) for block in blocks if block.send >= 0]
    ends = [*sends, *((block.channel, block.recv, False) for block in blocks if block.recv >= 0)]
    if len(set(ends)) < len(ends):
        yield 5, f"{[end for end in ends if ends.count(end) > 1]}"
    crowds = [[(end[0], end[2]) for end in ends].count(key) for key in {(end[0], end[2]) for end in ends}]
    if max(crowds, default=0) > 32 or len(blocks) > 216 or any(len(block.steps) > 256 for block in blocks):
        yield 6, f"{max(crowds, default=0)} on a channel, {len(blocks)} thread blocks"
    if not max((block.channel + 1 for block in blocks), default=0) <= channels <= 32:
        yield 6, f"{channels} channels"
    for block in blocks:
        row = 0
        for step in block.steps:
            row = 0 if step.get("type") != "re" else 1 if step.get("depid") != "-1" else row + 1
            if row > 16:
                yield 11, f"GPU {block.rank}, thread block {block.id}"


def _places(step: Step, sizes: list[int], where: str) -> Iterator[tuple[int, str]]:
    count = int(step["cnt"])
    if step["type"] != "nop" and not 0 < count < 72:
        yield 8, f"{where}: {count} chunks"
    for side, uses in (("src", READS), ("dst", WRITES)):
        buffer, first = step[f"{side}buf"], int(step[f"{side}off"])
        if buffer not in ("i", "o", "s"):
            yield 8, f"{where}: buffer {buffer}"
        elif step["type"] not in uses:
            if first != -1:
                yield 8, f"{where}: a {side} that it has not"
        elif first < 0 or first + count > sizes["ios".index(buffer)]:
            yield 8, f"{where}: chunk {first} and {count - 1} more"


def _dependencies(blocks: list[_Block]) -> Iterator[tuple[int, str]]:
    by_name = {(block.rank, block.id): block for block in blocks}
    for block in blocks:
        waits = False
        for nth, step in enumerate(block.steps):
            where = f"GPU {block.rank}, thread block {block.id}, step {nth}"
            depid, deps = int(step["depid"]), int(step["deps"])
            other = by_name.get((block.rank, depid))
            if (depid, deps) != (-1, -1) and (
                other is None
                or other is block
                or not 0 <= deps < len(other.steps)
                or other.steps[deps]["hasdep"] != "1"
                or other.steps[deps]["type"] == "nop"
            ):
                yield 9, where
            if step["type"] != "nop" and waits and depid == -1:
                yield 10, where
            waits = step["type"] == "nop" and (waits or depid != -1)


def _messages(blocks: list[_Block]) -> Iterator[tuple[int, str]]:
    sent: dict[Connection, list[str]] = {}
    received: dict[Connection, list[str]] = {}
    for block in blocks:
        for step in block.steps:
            if (step["type"] in SENDS and block.send < 0) or (step["type"] in RECEIVES and block.recv < 0):
                yield 12, f"GPU {block.rank}, thread block {block.id}: {step['type']} with nobody"
                return
            if step["type"] in SENDS:
                sent.setdefault(block.out(), []).append(step["cnt"])
            if step["type"] in RECEIVES:
                received.setdefault(block.back(), []).append(step["cnt"])
    if sent != received:
        yield 12, f"{[key for key in {**sent, **received} if sent.get(key) != received.get(key)]}"


@dataclass(slots=True)
class _Run:
    """One way to carry a schedule out."""

    algo: Element
    blocks: list[_Block]
    root: int
    chance: Random
    memory: dict[tuple[int, str, int], int] = field(default_factory=dict)
    mail: dict[Connection, list[list[int]]] = field(default_factory=dict)
    received: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """What a thread block has received for a step that has still to send."""
    by_place: dict[tuple[int, int], _Block] = field(init=False)
    """By GPU and thread block."""

    def __post_init__(self) -> None:
        self.by_place = {(block.rank, block.id): block for block in self.blocks}

    def run(self) -> tuple[int, str] | None:
        """The rule that is broken, and how."""
        inputs = self._fill()
        for block in self.blocks:
            block.next = 0
        favoured = self.blocks
        turn = 0
        while True:
            if turn % 32 == 0:
                share = self.chance.choice((0.1, 0.5, 1.0))
                favoured = [block for block in self.blocks if self.chance.random() < share]
            turn += 1
            next_one = self._one_of(favoured) or self._one_of(self.blocks)
            if next_one is None:
                break
            self._do(next_one)
        stuck = [block for block in self.blocks if block.next < len(block.steps)]
        if stuck:
            return 13, f"GPU {stuck[0].rank}, thread block {stuck[0].id}, step {stuck[0].next}"
        for rank in range(len(self.algo)):
            for chunk, wanted in enumerate(self._results(inputs, rank)):
                if self.memory.get(self._cell(rank, "o", chunk)) != wanted:
                    return 14, f"chunk {chunk} of GPU {rank}"
        return None

    def _one_of(self, blocks: list[_Block]) -> _Block | None:
        """A thread block that can go on, each of them as likely as the others."""
        left = [*blocks]
        while left:
            at = self.chance.randrange(len(left))
            if self._may(left[at]):
                return left[at]
            left[at] = left[-1]
            left.pop()
        return None

    def _size(self, rank: int, buffer: str) -> int:
        return int(self.algo[rank].get(f"{buffer}_chunks", ""))

    def _cell(self, rank: int, buffer: str, chunk: int) -> tuple[int, str, int]:
        if self.algo.get("inplace") != "1" or buffer == "s":
            return rank, buffer, chunk
        is_whole = WHOLE[self.algo.get("coll", "")]["io".index(buffer)]
        share = int(self.algo.get("nchunksperloop", "")) // len(self.algo)
        return rank, "io", chunk + (0 if is_whole else rank * share)

    def _fill(self) -> list[list[int]]:
        inputs = []
        for rank in range(len(self.algo)):
            for buffer in ("o", "s", "i"):
                values = [self.chance.randrange(MODULUS) for _ in range(self._size(rank, buffer))]
                self.memory.update({self._cell(rank, buffer, n): value for n, value in enumerate(values)})
            inputs.append(values)
        return inputs

    def _results(self, inputs: list[list[int]], rank: int) -> list[int]:
        kind, count = self.algo.get("coll", ""), self._size(rank, "o")
        if kind in ("reduce", "gather") and rank != self.root:
            return []
        sums = [sum(column) % MODULUS for column in zip(*inputs, strict=True)]
        if kind in ("allreduce", "reduce"):
            return sums
        if kind in ("allgather", "gather"):
            return [value for values in inputs for value in values]
        if kind == "broadcast":
            return inputs[self.root]
        if kind in ("reduce_scatter", "scatter"):
            return (sums if kind == "reduce_scatter" else inputs[self.root])[rank * count : (rank + 1) * count]
        share = count // len(inputs)
        return [value for values in inputs for value in values[rank * share : (rank + 1) * share]]

    def _may(self, block: _Block) -> bool:
        if block.next == len(block.steps):
            return False
        step = block.steps[block.next]
        key = (block.rank, block.id)
        depid, deps = int(step["depid"]), int(step["deps"])
        if depid >= 0 and self.by_place[block.rank, depid].next <= deps:
            return False
        if step["type"] in RECEIVES and key not in self.received:
            return bool(self.mail.get(block.back()))
        return step["type"] not in SENDS or len(self.mail.get(block.out(), [])) < SLOTS

    def _do(self, block: _Block) -> None:
        step = block.steps[block.next]
        key, kind = (block.rank, block.id), step["type"]
        if kind in RECEIVES and key not in self.received:
            self.received[key] = self.mail[block.back()].pop(0)
            if kind in SENDS:
                return  # the message is out of its connection; there need not be room on the other one
        count = 0 if kind == "nop" else int(step["cnt"])
        src, dst = (
            [self._cell(block.rank, step[f"{side}buf"], int(step[f"{side}off"]) + n) for n in range(count)]
            for side in ("src", "dst")
        )
        values = self.received.pop(key, [0] * count)
        if kind in READS:
            values = [(value + self.memory[cell]) % MODULUS for value, cell in zip(values, src, strict=True)]
        if kind == "re":
            values = [(value + self.memory[cell]) % MODULUS for value, cell in zip(values, dst, strict=True)]
        if kind in WRITES:
            self.memory.update(zip(dst, values, strict=True))
        if kind in SENDS:
            self.mail.setdefault(block.out(), []).append(values)
        block.next += 1
