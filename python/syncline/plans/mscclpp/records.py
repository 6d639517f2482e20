"""Threads of steps as thread blocks of a schedule: which of them there are, on which channels, and what waits for what.

A thread block of a schedule has one connection either way. So a thread becomes a thread block for each connection, but
for connections of which one step receives on one and sends on the other: these are one thread block, and so have one
channel. A step that follows one of another thread block of its thread waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from syncline.plans import plan as schedule
from syncline.plans.mscclpp.form import Chunks

Site = tuple[int, int, int]
"""GPU, thread block and operation."""


@dataclass(eq=False, slots=True)
class Connection:
    """What messages of two threads go over, in order."""

    sender: int
    receiver: int
    channel: int = -1


@dataclass(eq=False, slots=True)
class Record:
    """A step."""

    thread: Thread
    kind: str
    src: Chunks | None
    dst: Chunks | None
    site: Site
    back: Connection | None = None
    """What it receives on."""
    out: Connection | None = None
    """What it sends on."""
    after: list[Record] = field(default_factory=list)
    """Steps of other threads of its rank that it waits for."""
    own: dict[str, Any] = field(default_factory=dict)
    block: int = 0
    number: int = 0
    is_awaited: bool = False


@dataclass(eq=False, slots=True)
class Thread:
    """Steps in order."""

    rank: int
    name: int | None
    records: list[Record] = field(default_factory=list)
    pairs: list[tuple[Connection | None, Connection | None]] = field(default_factory=list)
    """Connections of a thread block: what it receives on, and what it sends on."""
    waits: list[Record] = field(default_factory=list)
    """What the next step has to wait for."""

    def may_join(self, back: Connection, out: Connection) -> bool:
        """Whether a step may receive on one connection and send on the other; from then on they are together."""
        of_back = next((pair for pair in self.pairs if pair[0] is back), None)
        of_out = next((pair for pair in self.pairs if pair[1] is out), None)
        if of_back is None and of_out is None:
            self.pairs.append((back, out))
            return True
        return of_back is not None and of_back is of_out

    def add(self, record: Record) -> None:
        """Adds a step."""
        record.after = [on for on in dict.fromkeys(self.waits) if on.thread is not self]
        self.waits = []
        self.records.append(record)


def ranks(threads: Iterable[Thread], buffers: list[dict[str, int]]) -> tuple[list[schedule.Rank], dict[Site, Site]]:
    """The ranks of a schedule, and of which operation each step is."""
    made = [
        schedule.Rank(
            id=rank,
            input_chunks=chunks["i"],
            output_chunks=chunks["o"],
            scratch_chunks=chunks["s"],
            thread_blocks=[],
        )
        for rank, chunks in enumerate(buffers)
    ]
    threads = list(threads)
    for thread in threads:
        _divide(thread, made[thread.rank])
    _choose_channels(threads)
    for thread in threads:
        for record in thread.records:
            block = made[thread.rank]["thread_blocks"][record.block]
            block["channel"] = (
                max(c.channel for c in (record.back, record.out) if c)
                if record.back or record.out
                else block["channel"]
            )
    _number(threads)
    sites: dict[Site, Site] = {}
    for thread in threads:
        before: Record | None = None
        for record in thread.records:
            _write(record, _awaited(record, before), made[thread.rank]["thread_blocks"], sites)
            before = record
    return made, sites


def _divide(thread: Thread, rank: schedule.Rank) -> None:
    """Gives each step its thread block."""
    blocks: dict[Connection, int] = {}

    def new(back: Connection | None, out: Connection | None) -> int:
        number = len(rank["thread_blocks"])
        send, recv = (None if out is None else out.receiver), (None if back is None else back.sender)
        block = schedule.ThreadBlock(id=number, send=send, recv=recv, channel=0, steps=[])
        if thread.name is not None:
            block["thread"] = thread.name
        rank["thread_blocks"].append(block)
        blocks.update({end: number for end in (back, out) if end is not None})
        return number

    current: int | None = None
    first = next((record for record in thread.records if record.back or record.out), None)
    for record in thread.records:
        of = record if record.back or record.out else first if current is None else None
        if of is None and current is None:
            current = new(None, None)
        elif of is not None:
            end = of.back or of.out
            assert end is not None
            if end not in blocks:
                pair = next((pair for pair in thread.pairs if end in pair), (of.back, of.out))
                new(*pair)
            current = blocks[end]
        assert current is not None
        record.block = current


def _choose_channels(threads: list[Thread]) -> None:
    """Gives connections the lowest channels that are free; those of a thread block have one, and so have all that
    hang together in this way.
    """
    together: dict[Connection, list[Connection]] = {}
    for thread in threads:
        for record in thread.records:
            for end in (record.back, record.out):
                if end is not None:
                    together.setdefault(end, [end])
        for back, out in thread.pairs:
            if back in together and out in together and together[back] is not together[out]:
                joined = together[back] + together[out]
                together.update(dict.fromkeys(joined, joined))
    used: set[tuple[int, int, int]] = set()
    lowest: dict[tuple[int, int], int] = {}
    for string in dict.fromkeys(map(id, together.values())):
        ends = next(s for s in together.values() if id(s) == string)
        channel = max(lowest.get((end.sender, end.receiver), 0) for end in ends)
        while any((end.sender, end.receiver, channel) in used for end in ends):
            channel += 1
        for end in ends:
            end.channel = channel
            used.add((end.sender, end.receiver, channel))
            if len(ends) == 1:
                lowest[end.sender, end.receiver] = channel + 1


def _awaited(record: Record, before: Record | None) -> list[Record]:
    return [*record.after, *([before] if before is not None and before.block != record.block else [])]


def _number(threads: list[Thread]) -> None:
    """Numbers the steps of all thread blocks; each step but the last that one waits for takes a `nop`."""
    counts: dict[tuple[int, int], int] = {}
    for thread in threads:
        before: Record | None = None
        for record in thread.records:
            awaited = _awaited(record, before)
            key = (thread.rank, record.block)
            record.number = counts.get(key, 0) + max(len(awaited) - 1, 0)
            counts[key] = record.number + 1
            for on in awaited:
                on.is_awaited = True
            before = record


def _write(record: Record, awaited: list[Record], blocks: list[schedule.ThreadBlock], sites: dict[Site, Site]) -> None:
    steps = blocks[record.block]["steps"]
    rank = record.thread.rank
    on = [schedule.Dependency(thread_block=other.block, step=other.number) for other in awaited]
    for dependency in on[:-1]:
        sites[rank, record.block, len(steps)] = record.site
        steps.append(schedule.Step(id=len(steps), type="nop", count=0, depends_on=dependency))
    size = next((chunks.size for chunks in (record.src, record.dst) if chunks is not None), 0)
    step = schedule.Step(id=record.number, type=record.kind, count=size)
    if record.src is not None:
        step["src"] = _place(record.src)
    if record.dst is not None:
        step["dst"] = _place(record.dst)
    if on:
        step["depends_on"] = on[-1]
    for key in ("way", "pace", "whole"):
        if key in record.own:
            step[key] = record.own[key]
    if record.is_awaited:
        step["has_dependents"] = True
    sites[rank, record.block, record.number] = record.site
    steps.append(step)


def _place(chunks: Chunks) -> schedule.Place:
    return schedule.Place(buffer=chunks.buffer, offset=chunks.index)  # type: ignore[typeddict-item]
