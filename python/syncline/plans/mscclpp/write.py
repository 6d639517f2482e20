"""An execution plan of MSCCL++ of a schedule.

* *Messages.* A step that sends puts its data into memory of the receiver and signals; the step that receives waits for
  the signal. Every pair of thread blocks that exchange messages has a memory channel of its own for each connection of
  the schedule, so that signals are waited for in the order in which they are given.
* *Where messages go.* A `put` may come as soon as the sender is there, while the receiver takes a message in its turn.
  So a message goes into the chunks that the receiver keeps it in only if all that uses these chunks before the receiver
  takes it also comes before the sender sends it, by the order of the schedule. All other messages, and all that are
  added to something, have scratch of their own, which no other message uses: then there is nothing to be given back.
* *Launches.* The launch before may still run on the receiver. So each thread block begins with a signal to those that
  send to it, and waits for that of those to which it sends. It is marked as `start` under the key of Syncline's own.
* *The threads of a thread block* meet at a `nop`: before a signal that announces what they did, after a wait, and
  between operations of which one uses what the other one writes.
* *Dependencies* on other thread blocks are semaphores, one for each pair of thread blocks in each direction.
* *Long threads* are cut into several thread blocks, each of which waits for the one before. What still does not fit is
  refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import InputError, command_line
from syncline.plans import mscclpp
from syncline.plans.mscclpp import CHANNELS, CHANNELS_OF_OPERATION, OPERATIONS, OWN, SEMAPHORES
from syncline.plans.mscclpp.rows import RECEIVES, SENDS, Move, Row, Rows, Span, rows
from syncline.plans.plan import Plan

THREADS: Final = 1024
MAX_BYTES: Final = 2**32 - 1
"""Offsets within buffers have 32 bits."""
ALIGNMENT: Final = 16
RESERVED: Final = 2
"""Operations that the end of a thread block may take: a nop, and the release of semaphores."""
SPELLED: Final = {name: spelling for spelling, name in mscclpp.COLLECTIVES.items()}

Operation = dict[str, Any]
Unit = list[Move]
Direction = tuple[int, int, int]
"""Of a channel: the thread block that signals, the one that waits, and the channel of the schedule."""


def write(plan: Plan) -> str:
    """A schedule as a file. It must be one that the engine has accepted. Raises [`InputError`] if it does not fit."""
    return "\n".join([*_lines(_Plan(plan, rows(plan)).form())]) + "\n"


@dataclass(eq=False, slots=True)
class _Part:
    """A thread block: a row, or a part of one."""

    number: int
    """Among those of all GPUs."""
    row: Row
    units: list[Unit]
    id: int = 0
    """Among those of its GPU."""
    begins: list[Direction] = field(default_factory=list)
    """Where it signals that it has begun."""
    awaits: list[Direction] = field(default_factory=list)
    """Where it waits for the other end to have begun."""
    acquires: dict[int, list[int]] = field(default_factory=dict)
    """Semaphores by the unit before which they are waited for, and after which they are released."""
    releases: dict[int, list[int]] = field(default_factory=dict)


class _Plan:
    """Makes the plan, and cuts rows until all fits."""

    def __init__(self, plan: Plan, made: Rows) -> None:
        self.plan, self.rows = plan, made
        self.units = {row.number: row.units() for row in made.rows}
        self.cuts: dict[int, set[int]] = {row.number: set() for row in made.rows}
        ranks = {rank["id"]: rank for rank in plan["ranks"]}
        self.scratch = {rank: ranks[rank]["scratch_chunks"] for rank in ranks}
        self.sizes = {rank: (ranks[rank]["input_chunks"], ranks[rank]["output_chunks"]) for rank in ranks}
        self.lands: dict[Move, Span] = {}
        """Where the message of each step that receives is put."""
        self.land()

    def land(self) -> None:
        """Decides where messages go."""
        used: dict[int, list[tuple[Move, bool]]] = {}
        for move in self.rows.order:
            for span, writes in ((move.src, False), (move.dst, True)):
                for cell in self.cells(move.rank, span):
                    used.setdefault(cell, []).append((move, writes))
        for move in self.rows.order:
            if move.type not in RECEIVES:
                continue
            assert move.sender is not None
            dst, sender = move.dst, move.sender
            if move.type in ("r", "rcs") and dst is not None:
                before = (m for cell in self.cells(move.rank, dst) for m, _ in used[cell] if m is not move)
                if all(m.comes_before(sender) for m in before if m.comes_before(move)):
                    self.lands[move] = dst
                    continue
            count = move.step["count"]
            self.lands[move] = ("s", self.scratch[move.rank], count)
            self.scratch[move.rank] += count

    def cells(self, rank: int, span: Span | None) -> range:
        """Memory as numbers; in place, chunks of the input and the output are the same."""
        if span is None:
            return range(0)
        buffer, first, count = span
        inputs, outputs = self.sizes[rank]
        if self.plan["in_place"] and buffer != "s":
            is_part = inputs != outputs and (buffer == "i") == (inputs < outputs)
            first += rank * min(inputs, outputs) if is_part else 0
            buffer = "i"
        base = (rank * 3 + "ios".index(buffer)) << 32
        return range(base + first, base + first + count)

    def form(self) -> dict[str, Any]:
        """The plan, once every thread block fits."""
        while True:
            built = _Built(self)
            if not built.too_long:
                return built.form()
            for part, unit in built.too_long:
                self.cuts[part.row.number].add(unit)

    def parts(self) -> list[_Part]:
        """The thread blocks, rank by rank."""
        found: list[_Part] = []
        of_rank: dict[int, int] = {}
        for row in self.rows.rows:
            units = self.units[row.number]
            ends = [*sorted(self.cuts[row.number]), len(units)]
            for begin, end in zip([0, *ends[:-1]], ends, strict=True):
                if begin < end:
                    part = _Part(len(found), row, units[begin:end], id=of_rank.get(row.rank, 0))
                    of_rank[row.rank] = part.id + 1
                    found.append(part)
        return found


class _Built:
    """The plan for some cuts, and which thread blocks are too long, each with the unit that has to begin another."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.parts = plan.parts()
        self.part_of = {move: part for part in self.parts for unit in part.units for move in unit}
        self.place_of = {id(unit): nth for part in self.parts for nth, unit in enumerate(part.units)}
        self.unit_of = {move: unit for part in self.parts for unit in part.units for move in unit}
        self.too_long: list[tuple[_Part, int]] = []
        self.channels: dict[tuple[int, int, int], None] = {}
        """The channels: thread blocks, the smaller number first, and the channel of the schedule."""
        self.semaphores: dict[int, dict[tuple[int, int], int]] = {}
        """Of each GPU: which thread block releases and which acquires, and the number."""
        self.remote: dict[int, list[tuple[int, str]]] = {rank: [] for rank in plan.sizes}
        self._find_channels()
        self._find_semaphores()
        self.ends = self._ends()
        self.blocks = [_Writer(self, part).block() for part in self.parts]

    def direction(self, sender: Move) -> Direction:
        """The direction of the channel on which a message is announced."""
        assert sender.taker is not None
        return self.part_of[sender].number, self.part_of[sender.taker].number, sender.channel

    def _find_channels(self) -> None:
        directions = dict.fromkeys(self.direction(m) for m in self.plan.rows.order if m.type in SENDS)
        for direction in directions:
            one, other, channel = direction
            self.channels[min(one, other), max(one, other), channel] = None
            self.parts[other].begins.append(direction)
            self.parts[one].awaits.append(direction)

    def _find_semaphores(self) -> None:
        for part in self.parts:
            seen: dict[int, int] = {}
            before = self._before(part)
            for nth, unit in enumerate(part.units):
                waits = [move for own in unit for move in own.after]
                waits += [before] if nth == 0 and before is not None else []
                last: dict[int, int] = {}
                for on in waits:
                    there = self.part_of[on].number
                    last[there] = max(self.place_of[id(self.unit_of[on])], last.get(there, -1))
                for there, place in last.items():
                    other = self.parts[there]
                    if other is part or seen.get(other.number, -1) >= place:
                        continue
                    seen[other.number] = place
                    known = self.semaphores.setdefault(part.row.rank, {})
                    number = known.setdefault((other.number, part.number), len(known))
                    part.acquires.setdefault(nth, []).append(number)
                    other.releases.setdefault(place, []).append(number)
        for rank, known in self.semaphores.items():
            if len(known) > SEMAPHORES:
                message = (
                    f"the thread blocks of rank {rank} wait for one another in {len(known)} pairs, for each of which "
                )
                raise _does_not_fit(message + f"MSCCL++ takes a semaphore, of which it has {SEMAPHORES}")

    def _before(self, part: _Part) -> Move | None:
        """The last step of the thread block that is the part of the same row before."""
        previous = self.parts[part.number - 1] if part.number else None
        return previous.units[-1][-1] if previous is not None and previous.row is part.row else None

    def _ends(self) -> dict[tuple[int, tuple[int, int, int]], int]:
        """For each GPU and channel that ends there, its number there. The order is the same on both sides."""
        found: dict[tuple[int, tuple[int, int, int]], int] = {}
        self.peers: dict[int, list[int]] = {rank: [] for rank in self.plan.sizes}
        for key in sorted(self.channels):
            ranks = [self.parts[end].row.rank for end in key[:2]]
            for rank, peer in (ranks, ranks[::-1]):
                found[rank, key] = len(self.peers[rank])
                self.peers[rank].append(peer)
        return found

    def remote_buffer(self, rank: int, of: int, buffer: str) -> int:
        """The number of a remote buffer of a GPU."""
        if (of, buffer) not in self.remote[rank]:
            self.remote[rank].append((of, buffer))
        return self.remote[rank].index((of, buffer))

    def form(self) -> dict[str, Any]:
        """The plan as JSON."""
        plan = self.plan.plan
        own = {"pacing": pacing} if (pacing := plan.get("pacing")) is not None else {}
        return {
            "name": plan["name"],
            "collective": SPELLED[plan["collective"]],
            "protocol": "Simple",
            "inplace": plan["in_place"],
            "reuse_resources": False,
            "use_double_scratch_buffer": False,
            "buffer_alignment": ALIGNMENT,
            "num_threads_per_block": plan.get("threads") or THREADS,
            "min_message_size": plan.get("min_bytes") or 0,
            "max_message_size": min(plan.get("max_bytes") or MAX_BYTES, MAX_BYTES),
            **({OWN: own} if own else {}),
            "gpus": [self._gpu(rank) for rank in sorted(self.plan.sizes)],
        }

    def _gpu(self, rank: int) -> dict[str, Any]:
        inputs, outputs = self.plan.sizes[rank]
        peers = self.peers[rank]
        memory = ["memory"]
        return {
            "id": rank,
            "input_chunks": inputs,
            "output_chunks": outputs,
            "scratch_chunks": self.plan.scratch[rank],
            "channels": [{"channel_type": "memory", "connected_to": peers}] if peers else [],
            "remote_buffers": [
                {"rank": of, "type": buffer, "access_channel_types": memory} for of, buffer in self.remote[rank]
            ],
            "semaphores": [{"init_value": 0} for _ in self.semaphores.get(rank, {})],
            "threadblocks": [
                block for part, block in zip(self.parts, self.blocks, strict=True) if part.row.rank == rank
            ],
        }


class _Writer:
    """Writes the operations of a thread block."""

    def __init__(self, built: _Built, part: _Part) -> None:
        self.built, self.part = built, part
        self.ops: list[Operation] = []
        self.channels: dict[int, int] = {}
        """The number here of each channel of the GPU."""
        self.connections: list[int] = []
        """The channel of the schedule for each of them."""
        self.buffers: dict[int, int] = {}
        self.reads: set[int] = set()
        """What was read and written since the threads have met."""
        self.writes: set[int] = set()
        self.waited = False

    def block(self) -> dict[str, Any]:
        """The thread block."""
        self._start()
        used: set[int] = set()
        for nth, unit in enumerate(self.part.units):
            self._unit(nth, unit)
            used.update(self._channel(direction) for direction in self._directions(unit))
            fits = len(self.ops) + (RESERVED if nth + 1 < len(self.part.units) else 0) <= OPERATIONS
            if not (fits and len(used) <= CHANNELS and len(self.buffers) <= CHANNELS):
                self._cut(nth)
                break
        memory = "memory"
        return {
            "id": self.part.id,
            "ops": self.ops,
            "channels": [{"channel_type": memory, "channel_ids": [*self.channels]}] if self.channels else [],
            "remote_buffer_refs": (
                [{"access_channel_type": memory, "remote_buffer_ids": [*self.buffers]}] if self.buffers else []
            ),
            OWN: {"thread": self.part.row.thread, "connections": [*self.connections]},
        }

    def _directions(self, unit: Unit) -> list[Direction]:
        """Where a unit receives and sends."""
        senders = [*(move.sender for move in unit), *(move for move in unit if move.taker is not None)]
        return [self.built.direction(sender) for sender in senders if sender is not None]

    def _cut(self, nth: int) -> None:
        """Notes before which unit another thread block has to begin."""
        units, row = self.built.plan.units[self.part.row.number], self.part.row
        first = next(i for i, unit in enumerate(units) if unit is self.part.units[0])
        if nth == 0:
            what = f"{len(self.ops)} operations, {len(self.channels)} channels and {len(self.buffers)} remote buffers"
            message = (
                f"a step of thread {row.thread} of rank {row.rank} takes {what}; a thread block of MSCCL++ takes up to "
            )
            raise _does_not_fit(message + f"{OPERATIONS} operations, {CHANNELS} channels and {CHANNELS} remote buffers")
        self.built.too_long.append((self.part, first + nth))

    def _start(self) -> None:
        """Says that the launch has begun here, and waits for that of others."""
        for name, directions in (("signal", self.part.begins), ("wait", self.part.awaits)):
            self._on_channels(name, directions, {"start": True})
        self.waited = bool(self.part.awaits)

    def _unit(self, nth: int, unit: Unit) -> None:
        part, first = self.part, unit[0]
        if nth in part.acquires:
            self.ops.append({"name": "sem_acquire", "semaphore_ids": part.acquires[nth]})
            self.waited = True
        if first.sender is not None:
            self._on_all("wait", [move.sender for move in unit])
            self.waited = True
        for move in unit:
            self._move(move)
        if first.type in SENDS:
            self._meet()
            self._on_all("signal", [*unit])
        if nth in part.releases:
            self._meet()
            self.ops.append({"name": "sem_release", "semaphore_ids": sorted(part.releases[nth])})

    def _move(self, move: Move) -> None:
        """The operations of a step that move data."""
        lands, taker = self.built.plan.lands.get(move), move.taker
        src, dst, remote = move.src, move.dst, self.built.plan.lands[taker] if taker is not None else None
        to = None if taker is None or remote is None else (taker.rank, remote)
        if move.type in ("r", "rcs"):
            assert lands is not None
            if lands != dst:
                self._data("copy", [lands], [dst])
            if to is not None:
                self._data("put", [dst], [], to, move)
        elif move.type == "s":
            before = move.row.moves[move.place - 1] if move.place else None
            self._data("put", [src], [], to, move)
            if before is not None and before.type == "r" and before.dst == src:
                # A reader would take both for one step.
                self.ops[-1].setdefault(OWN, {})["alone"] = True
        elif move.type in ("cpy", "re"):
            self._data(*(("copy", [src], [dst]) if move.type == "cpy" else ("re", [dst, src], [dst])))
        else:
            # A sum that is only passed on stays where the message was.
            self._data("re" if to is None else "res", [src, lands], [dst or lands], to, move)

    def _data(
        self,
        name: str,
        src: list[Span | None],
        dst: list[Span | None],
        to: tuple[int, Span] | None = None,
        move: Move | None = None,
    ) -> None:
        """An operation that moves data, after the threads have met if it uses what others of them may still write."""
        plan, rank = self.built.plan, self.part.row.rank
        reads = {cell for span in src for cell in plan.cells(rank, span)}
        writes = {cell for span in dst for cell in plan.cells(rank, span)}
        if self.waited or reads & self.writes or writes & (self.reads | self.writes):
            self._nop()
        op: Operation = {
            "name": name,
            "src_buff": [_buffer({"type": span[0]}, span) for span in src if span is not None],
            "dst_buff": [_buffer({"type": span[0]}, span) for span in dst if span is not None],
        }
        if to is not None:
            rank_to, span = to
            number = self.built.remote_buffer(rank, rank_to, span[0])
            op["dst_buff"].append(_buffer({"buffer_id": self.buffers.setdefault(number, len(self.buffers))}, span))
            op["channel_type"] = "memory"
            assert move is not None
            op["channel_ids"] = [self._channel(self.built.direction(move))]
            own = {key: move.step[key] for key in ("way", "pace", "whole") if move.step.get(key) is not None}
            op |= {OWN: own} if own else {}
        if name in ("re", "res"):
            op["reduce_op"] = "sum"
        self.ops.append(op)
        self.reads |= reads
        self.writes |= writes

    def _meet(self) -> None:
        """Has the threads meet, if they have done anything or some of them have waited."""
        if self.waited or self.reads or self.writes:
            self._nop()

    def _nop(self) -> None:
        self.ops.append({"name": "nop"})
        self.waited, self.reads, self.writes = False, set(), set()

    def _on_all(self, name: str, senders: list[Move | None]) -> None:
        """Signals or waits on the channels of some messages; parts of one may go over several."""
        self._on_channels(name, [*dict.fromkeys(self.built.direction(sender) for sender in senders if sender)])

    def _on_channels(self, name: str, directions: list[Direction], own: dict[str, Any] | None = None) -> None:
        ids = [self._channel(direction) for direction in directions]
        for first in range(0, len(ids), CHANNELS_OF_OPERATION):
            op = {"name": name, "channel_ids": ids[first : first + CHANNELS_OF_OPERATION], "channel_type": "memory"}
            self.ops.append(op | {OWN: own} if own else op)

    def _channel(self, direction: Direction) -> int:
        """The number of a channel in the thread block."""
        one, other, channel = direction
        number = self.built.ends[self.part.row.rank, (min(one, other), max(one, other), channel)]
        if number not in self.channels:
            self.channels[number] = len(self.channels)
            self.connections.append(channel)
        return self.channels[number]


def _buffer(named: dict[str, Any], span: Span) -> dict[str, Any]:
    return {**named, "index": span[1], "size": span[2]}


def _does_not_fit(message: str) -> InputError:
    return command_line(
        "--format", mscclpp.FORMAT, message, "fewer ranks, slices, lanes or instances, or another format"
    )


def _lines(form: dict[str, Any]) -> Iterator[str]:
    """JSON in which every operation, and whatever else has no parts, has a line of its own."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in form.items() if key != "gpus"]
    yield "{"
    yield ",\n".join([*head, ' "gpus": ['])
    for rank, gpu in enumerate(form["gpus"]):
        rest = [f'   "{key}": {json.dumps(value)}' for key, value in gpu.items() if key not in ("id", "threadblocks")]
        yield f'  {{"id": {gpu["id"]},'
        yield ",\n".join([*rest, '   "threadblocks": ['])
        for nth, block in enumerate(gpu["threadblocks"]):
            rest = [f'     "{key}": {json.dumps(value)}' for key, value in block.items() if key not in ("id", "ops")]
            yield f'    {{"id": {block["id"]},'
            yield ",\n".join([*rest, '     "ops": ['])
            yield ",\n".join(f"      {json.dumps(op)}" for op in block["ops"])
            yield "    ]}" + ("," if nth + 1 < len(gpu["threadblocks"]) else "")
        yield "  ]}" + ("," if rank + 1 < len(form["gpus"]) else "")
    yield " ]"
    yield "}"
