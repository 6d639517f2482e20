"""The text of an execution plan, read.

Everything is checked here that needs no carrying out: types, numbers that exist, chunks inside their buffers. What
MSCCL++ has and a schedule cannot say is refused by name, with its GPU, thread block and operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from syncline.base.errors import InputError
from syncline.base.positions import Positions
from syncline.plans import plan as schedule
from syncline.plans.mscclpp import CHANNELS, COLLECTIVES, OPERATIONS, OWN, SEMAPHORES
from syncline.plans.mscclpp.form import MAX_CHUNKS, Block, End, Gpu, OneSided, Path
from syncline.plans.mscclpp.operations import Operations
from syncline.plans.mscclpp.values import MAX_VALUE, TooManyError, Values

MAX_GPUS: Final = 1024
MAX_OPERATIONS: Final = 2**18
MAX_BYTES: Final = 2**64 - 1

CHANNEL_KEYS: Final = ("channels", "channel_type", "channel_ids")
BUFFER_KEYS: Final = ("remote_buffer_refs", "access_channel_type", "remote_buffer_ids")

T = TypeVar("T")


def read(text: str, root: dict[str, Any], file: str) -> OneSided:
    """Reads a plan, whose JSON has been parsed. Raises [`InputError`] with everything that is wrong with its form."""
    reader = Reader(file, Positions(text))
    try:
        plan = reader.plan(root)
    except TooManyError:
        raise InputError(reader.problems) from None
    if reader.problems:
        raise InputError(reader.problems)
    return plan


@dataclass(slots=True)
class Reader(Values):
    """Reads a plan."""

    def plan(self, root: dict[str, Any]) -> OneSided:
        """The whole plan."""
        self.check_keys((), root, "plan")
        collective = self.word((), root, "collective", (*COLLECTIVES, "reduce_scatter"))
        self.word((), root, "protocol", ("Simple",), "MSCCL++ plans with packets (LL) are not read")
        for key, what in (
            ("reuse_resources", "scratch that outlives"),
            ("use_double_scratch_buffer", "scratch in two halves for"),
        ):
            if self.flag((), root, key, default=False):
                self.warn((key,), "plan", f"{what} a launch is not simulated: this has no effect")
        own = self.own((), root)
        plan = OneSided(
            file=self.file,
            positions=self.positions,
            name=self.text((), root, "name"),
            collective=COLLECTIVES.get(collective, collective),
            in_place=self.flag((), root, "inplace"),
            threads=self.optional((), root, "num_threads_per_block", MAX_VALUE),
            min_bytes=self.optional((), root, "min_message_size", MAX_BYTES),
            max_bytes=self.optional((), root, "max_message_size", MAX_BYTES),
            pacing=self.pacing(own),
            gpus=[],
            warnings=self.warnings,
        )
        # What a schedule counts in 63 bits; without end is the same.
        plan.max_bytes = None if plan.max_bytes is not None and plan.max_bytes >= 2**63 else plan.max_bytes
        plan.min_bytes = plan.min_bytes if plan.min_bytes else None
        gpus = self.items((), root, "gpus")
        if not 1 <= len(gpus) <= MAX_GPUS:
            self.refuse(("gpus",), len(gpus), f"there are {len(gpus)} GPUs", f"1 to {MAX_GPUS}")
            return plan
        for rank, gpu in enumerate(gpus):
            plan.gpus.append(self.gpu_head(rank, gpu))
        if not self.problems:
            for rank, gpu in enumerate(gpus):
                self.blocks(plan, rank, gpu)
        return plan

    def gpu_head(self, rank: int, gpu: dict[str, Any]) -> Gpu:
        """Numbers of a rank."""
        path: Path = ("gpus", rank)
        self.check_keys(path, gpu, "gpu")
        number = self.number(path, gpu, "id", MAX_VALUE)
        if number != rank:
            self.refuse((*path, "id"), number, f"this GPU stands at place {rank}", str(rank))
        names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
        chunks = {buffer: self.number(path, gpu, name, MAX_CHUNKS) for buffer, name in names.items()}
        for buffer in "io":
            if chunks[buffer] == 0:
                self.refuse((*path, names[buffer]), 0, "MSCCL++ takes no buffer without chunks", f"1 to {MAX_CHUNKS}")
        return Gpu(rank, chunks, [])

    def blocks(self, plan: OneSided, rank: int, gpu: dict[str, Any]) -> None:
        """The thread blocks of a rank, with what they refer to."""
        path: Path = ("gpus", rank)
        channels = self.channels(path, gpu, rank, len(plan.gpus))
        buffers = self.remote_buffers(path, gpu, rank, len(plan.gpus))
        semaphores = self.items(path, gpu, "semaphores", optional=True)
        for number, semaphore in enumerate(semaphores):
            at = (*path, "semaphores", number)
            value = self.number(at, semaphore, "init_value", MAX_VALUE)
            if value != 0:
                message = f"semaphore {number} begins with {value}, so that nothing says what it waits for"
                self.refuse((*at, "init_value"), value, message, "0")
        self.limit((*path, "semaphores"), len(semaphores), SEMAPHORES, "semaphores")
        for number, block in enumerate(self.items(path, gpu, "threadblocks")):
            at = (*path, "threadblocks", number)
            self.check_keys(at, block, "thread block")
            given = self.number(at, block, "id", MAX_VALUE)
            if given != number:
                self.refuse((*at, "id"), given, f"this thread block stands at place {number}", str(number))
            ends = self.references(at, block, CHANNEL_KEYS, channels)
            remote = self.references(at, block, BUFFER_KEYS, buffers)
            ops = self.items(at, block, "ops")
            self.ops += len(ops)
            if self.ops > MAX_OPERATIONS:
                self.refuse((*at, "ops"), self.ops, "there are too many operations", f"up to {MAX_OPERATIONS:,}")
                raise TooManyError
            self.limit((*at, "ops"), len(ops), OPERATIONS, "operations in a thread block")
            parser = Operations(self, plan, rank, ends, remote, len(semaphores))
            read = tuple(parser.operation((*at, "ops", nth), op) for nth, op in enumerate(ops))
            own = self.own(at, block)
            thread = self.optional((*at, OWN), own, "thread", 2**16 - 1)
            connections = self.items((*at, OWN), own, "connections", of=int, optional=True)
            numbers = dict(zip(ends, connections, strict=False))
            plan.gpus[rank].blocks.append(Block(rank, number, read, thread, numbers))

    def channels(self, path: Path, gpu: dict[str, Any], rank: int, ranks: int) -> list[End]:
        """The memory channels of a rank, of all entries one after the other."""
        found: list[End] = []
        counts: dict[int, int] = {}
        for number, channel in enumerate(self.items(path, gpu, "channels", optional=True)):
            at = (*path, "channels", number)
            if not self.is_memory(at, channel, "channel_type"):
                continue
            for nth, peer in enumerate(self.items(at, channel, "connected_to", of=int)):
                if not 0 <= peer < ranks or peer == rank:
                    message = f"a channel of GPU {rank} leads to GPU {peer}"
                    self.refuse((*at, "connected_to", nth), peer, message, f"another GPU, 0 to {ranks - 1}")
                found.append(End(peer, counts.get(peer, 0)))
                counts[peer] = counts.get(peer, 0) + 1
        return found

    def remote_buffers(self, path: Path, gpu: dict[str, Any], rank: int, ranks: int) -> list[tuple[int, str]]:
        """The rank and type of each remote buffer."""
        found: list[tuple[int, str]] = []
        for number, buffer in enumerate(self.items(path, gpu, "remote_buffers", optional=True)):
            at = (*path, "remote_buffers", number)
            owner = self.number(at, buffer, "rank", MAX_VALUE)
            if owner >= ranks or owner == rank:
                message = f"a remote buffer of GPU {rank} is of GPU {owner}"
                self.refuse((*at, "rank"), owner, message, f"another GPU, 0 to {ranks - 1}")
            kind = self.word(at, buffer, "type", schedule.BUFFERS)
            types = self.items(at, buffer, "access_channel_types", of=str)
            if "memory" not in types:
                self.refuse((*at, "access_channel_types"), types, "only memory channels are read", "memory")
            found.append((owner, kind))
        return found

    def references(self, path: Path, block: dict[str, Any], keys: tuple[str, str, str], known: Sequence[T]) -> list[T]:
        """What a thread block refers to, of all entries one after the other."""
        key, type_, ids = keys
        found: list[T] = []
        for number, entry in enumerate(self.items(path, block, key, optional=True)):
            at = (*path, key, number)
            if not self.is_memory(at, entry, type_):
                continue
            for nth, index in enumerate(self.items(at, entry, ids, of=int)):
                if 0 <= index < len(known):
                    found.append(known[index])
                else:
                    self.refuse((*at, ids, nth), index, "this does not exist", f"one of {len(known)}, from 0")
        self.limit((*path, key), len(found), CHANNELS, "channels or remote buffers in a thread block")
        return found

    def pacing(self, own: dict[str, Any]) -> schedule.Pacing | None:
        """How messages of a thread follow one another, if the plan says so."""
        given = own.get("pacing")
        if given is None:
            return None
        path: Path = (OWN, "pacing")
        if not isinstance(given, dict):
            self.refuse(path, given, "this is no mapping", "one_by_one, spreads and queues")
            return None
        return schedule.Pacing(
            one_by_one=self.flag(path, given, "one_by_one"),
            spreads=self.flag(path, given, "spreads"),
            queues=self.number(path, given, "queues", 2**16 - 1),
        )
