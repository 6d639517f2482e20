"""The operations of thread blocks of an execution plan, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from syncline.base.errors import did_you_mean, one_of, shown
from syncline.plans import plan as schedule
from syncline.plans.mscclpp import CHANNELS_OF_OPERATION, OWN, SEMAPHORES
from syncline.plans.mscclpp.form import MAX_CHUNKS, Chunks, End, OneSided, Operation, Path
from syncline.plans.mscclpp.values import MAX_VALUE, TooManyError, Values

MAX_MOVED: Final = 2**21
"""Chunks that all operations of a plan together work on: each is followed on its way."""
MOVES: Final = {"put": "put", "get": "get", "copy": "copy"}
REDUCES: Final = frozenset({"re", "res", "rre", "rres"})
ON_CHANNELS: Final = frozenset({"signal", "wait"})
ON_SEMAPHORES: Final = frozenset({"sem_acquire", "sem_release"})
KNOWN: Final = (*MOVES, "re", "res", "rre", "rres", "signal", "wait", "nop", "barrier", "sem_acquire", "sem_release")
REFUSED: Final = {
    **dict.fromkeys(["ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt"], "packets (protocol LL)"),
    **dict.fromkeys(("glres", "gstore", "gstorepkt"), "switch channels"),
    **dict.fromkeys(("pws", "pwsf", "flush"), "port channels"),
    **dict.fromkeys(("rlxsignal", "rlxwait"), "signals that order no data"),
    "pipeline": "loops over parts of a message",
}
"""Operations that are known and not read, and what they are for."""


@dataclass(slots=True)
class Operations:
    """Reads the operations of a thread block."""

    values: Values
    plan: OneSided
    rank: int
    ends: list[End]
    remote: list[tuple[int, str]]
    semaphores: int

    def operation(self, path: Path, op: dict[str, Any]) -> Operation:
        """One operation."""
        values = self.values
        name = values.text(path, op, "name")
        if name in REFUSED:
            values.refuse((*path, "name"), name, f"'{name}' is not read: {REFUSED[name]}", one_of(KNOWN))
            return Operation("nop")
        if name not in KNOWN:
            message = f"the operation '{shown(name)}' is not known{did_you_mean(name, KNOWN)}"
            values.refuse((*path, "name"), name, message, one_of(KNOWN))
            return Operation("nop")
        if "tbg_info" in op:
            message = "operations that several thread blocks share (tbg_info) are not read"
            values.refuse((*path, "tbg_info"), None, message, "operations of one thread block")
        values.check_keys(path, {key: value for key, value in op.items() if key != "tbg_info"}, "operation")
        own = values.own(path, op)
        if name in ON_CHANNELS:
            return Operation(name, ends=self.channel_ids(path, op, required=True), own=own)
        if name in ON_SEMAPHORES:
            return Operation(name, semaphores=self.semaphore_ids(path, op), own=own)
        if name == "barrier":
            members = values.number(path, op, "num_threadblocks", MAX_VALUE, 1)
            number = values.number(path, op, "barrier_id", SEMAPHORES - 1)
            return Operation(name, barrier=number, members=members, own=own)
        if name == "nop":
            return Operation(name)
        if op.get("reduce_op", "sum") != "sum":
            values.refuse((*path, "reduce_op"), op["reduce_op"], "only sums are read", "sum")
        if "channel_type" in op:
            values.is_memory(path, op, "channel_type")
        src, dst = self.chunks(path, op, "src_buff"), self.chunks(path, op, "dst_buff")
        self.check_shape(path, name, src, dst)
        return Operation(name, src, dst, self.channel_ids(path, op, required=False), own=self.checked(path, own))

    def check_shape(self, path: Path, name: str, src: tuple[Chunks, ...], dst: tuple[Chunks, ...]) -> None:
        """Whether an operation has the operands that it takes."""
        here = [[c.rank == self.rank for c in side] for side in (src, dst)]
        is_far = {"put": (False, True), "get": (True, False), "copy": (False, False)}.get(name)
        sizes = [c.size for c in src], [c.size for c in dst]
        if is_far is not None:
            wanted = (not is_far[0], not is_far[1])
            fits = all(all(h is w for h in side) for side, w in zip(here, wanted, strict=True)) and sizes[0] == sizes[1]
            sides = ["of its own GPU", "of another GPU"]
            accepted = f"as many sources {sides[is_far[0]]} as destinations {sides[is_far[1]]}, of equal sizes"
        else:
            reads, sends = name in ("rre", "rres"), name in ("res", "rres")
            far = [here[0][1:], here[1][1:]]
            fits = bool(src and dst) and here[0][0] and here[1][0] and len({*sizes[0], *sizes[1]}) == 1
            fits = fits and len(src) > 1 and all(h is not reads for h in far[0])
            fits = fits and (bool(far[1]) is sends) and not any(far[1])
            accepted = (
                f"a source of its own GPU and {'one or more of others' if reads else 'others of it'}, a destination of "
                f"its own{' and one or more of other GPUs' if sends else ''}, all of one size"
            )
        if not fits and not self.values.problems:
            self.values.refuse(path, None, f"'{name}' has not the operands that it takes", accepted)

    def chunks(self, path: Path, op: dict[str, Any], key: str) -> tuple[Chunks, ...]:
        """The chunks that an operation reads, or writes."""
        values, found = self.values, list[Chunks]()
        entries = values.items(path, op, key)
        most = CHANNELS_OF_OPERATION + 2
        values.limit((*path, key), len(entries), most, "buffers of an operation")
        for nth, entry in enumerate(entries):
            at = (*path, key, nth)
            if "switch_channel_id" in entry:
                values.refuse(at, None, "switch channels are not read", "type or buffer_id")
                continue
            if "buffer_id" in entry:
                number = values.number(at, entry, "buffer_id", MAX_VALUE)
                if number >= len(self.remote):
                    accepted = f"one of {len(self.remote)}, from 0"
                    values.refuse((*at, "buffer_id"), number, "the thread block has no such remote buffer", accepted)
                    continue
                rank, buffer = self.remote[number]
            else:
                rank, buffer = self.rank, values.word(at, entry, "type", schedule.BUFFERS)
            index = values.number(at, entry, "index", MAX_CHUNKS)
            size = values.number(at, entry, "size", MAX_CHUNKS, 1)
            has = self.plan.gpus[rank].chunks.get(buffer, 0)
            if buffer and index + size > has:
                message = f"chunks {index} to {index + size - 1} are outside of a buffer of {has} chunks"
                values.refuse(at, None, message)
            values.moved += size
            if values.moved > MAX_MOVED:
                values.refuse(at, None, "the operations move too many chunks", f"up to {MAX_MOVED:,} together")
                raise TooManyError
            found.append(Chunks(rank, buffer or "i", index, size))
        return tuple(found)

    def channel_ids(self, path: Path, op: dict[str, Any], *, required: bool) -> tuple[End, ...]:
        """The channels of an operation."""
        values, found = self.values, list[End]()
        ids = values.items(path, op, "channel_ids", of=int, optional=not required)
        if required:
            values.is_memory(path, op, "channel_type")
        values.limit((*path, "channel_ids"), len(ids), CHANNELS_OF_OPERATION, "channels of an operation")
        for nth, index in enumerate(ids):
            if 0 <= index < len(self.ends):
                found.append(self.ends[index])
            else:
                accepted = f"one of {len(self.ends)}, from 0"
                values.refuse((*path, "channel_ids", nth), index, "the thread block has no such channel", accepted)
        if required and len(set(found)) != len(found):
            values.refuse((*path, "channel_ids"), None, "a channel stands twice in one operation", "each once")
        return tuple(found)

    def semaphore_ids(self, path: Path, op: dict[str, Any]) -> tuple[int, ...]:
        """The semaphores of an operation."""
        ids = self.values.items(path, op, "semaphore_ids", of=int)
        for nth, index in enumerate(ids):
            if not 0 <= index < self.semaphores:
                accepted = f"one of {self.semaphores}, from 0"
                self.values.refuse((*path, "semaphore_ids", nth), index, "there is no such semaphore", accepted)
        return tuple(ids)

    def checked(self, path: Path, own: dict[str, Any]) -> dict[str, Any]:
        """What only Syncline says of an operation that moves data."""
        values, at, found = self.values, (*path, OWN), dict[str, Any]()
        if "whole" in own:
            found["whole"] = values.number(at, own, "whole", MAX_VALUE)
        if own.get("alone") is True:
            found["alone"] = True
        if "pace" in own:
            found["pace"] = values.word(at, own, "pace", schedule.PACES)
        way = own.get("way")
        if isinstance(way, dict) and len(way) == 1:
            ((kind, value),) = way.items()
            is_number = kind in ("choice", "link") and type(value) is int and 0 <= value < 2**16
            is_list = kind == "through" and isinstance(value, list) and all(isinstance(name, str) for name in value)
            if is_number or is_list or (kind == "over" and isinstance(value, str) and value):
                return found | {"way": way}
        if way is not None:
            values.refuse((*at, "way"), way, "this is no way", "one of choice, over, link and through")
        return found
