"""An execution plan, as classes: what has been read of its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import Problem
from syncline.base.positions import Positions
from syncline.plans import plan as schedule

MAX_CHUNKS: Final = 2**16
"""Of a buffer."""

Path = tuple[str | int, ...]
"""The way to a value of the text."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Some chunks of a buffer of a rank."""

    rank: int
    buffer: str
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class End:
    """A rank's end of a channel: the `nth` of those to this peer meets the `nth` of the peer's."""

    peer: int
    nth: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a thread block."""

    name: str
    src: tuple[Chunks, ...] = ()
    dst: tuple[Chunks, ...] = ()
    ends: tuple[End, ...] = ()
    barrier: int = 0
    members: int = 0
    """How many thread blocks a barrier waits for."""
    semaphores: tuple[int, ...] = ()
    own: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block."""

    rank: int
    id: int
    ops: tuple[Operation, ...]
    thread: int | None
    """The thread of which it is a part, if the plan says so."""
    connections: dict[End, int]
    """For channels, the number of the connection of the thread that each is, if the plan says so."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A rank: its buffers, and the thread blocks by their numbers."""

    id: int
    chunks: dict[str, int]
    blocks: list[Block]


@dataclass(slots=True)
class OneSided:
    """An execution plan."""

    file: str
    positions: Positions
    name: str
    collective: str
    in_place: bool
    threads: int | None
    min_bytes: int | None
    max_bytes: int | None
    pacing: schedule.Pacing | None
    gpus: list[Gpu]
    warnings: list[Problem]

    def cells(self, chunks: Chunks) -> range:
        """Memory as numbers: in place, a chunk of the input and one of the output are the same."""
        gpu = self.gpus[chunks.rank]
        size, share = max(gpu.chunks["i"], gpu.chunks["o"]), min(gpu.chunks["i"], gpu.chunks["o"])
        first = chunks.index + (0 if chunks.buffer == "i" else 2 * MAX_CHUNKS if chunks.buffer == "s" else MAX_CHUNKS)
        if self.in_place and chunks.buffer != "s":
            is_part = size != share and gpu.chunks[chunks.buffer] == share
            first = chunks.index + (chunks.rank * share if is_part else 0)
        base = chunks.rank * 3 * MAX_CHUNKS + first
        return range(base, base + chunks.size)

    def line(self, gpu: int, block: int | None = None, op: int | None = None) -> int:
        """Where a part of it stands."""
        path: Path = ("gpus", gpu)
        path += () if block is None else ("threadblocks", block)
        path += () if op is None else ("ops", op)
        return self.positions.line(path)


def place(gpu: int | None, block: int | None = None, op: int | None = None) -> str:
    """What people call a part of a plan."""
    named = (("GPU", gpu), ("thread block", block), ("operation", op))
    return ", ".join(f"{name} {number}" for name, number in named if number is not None)
