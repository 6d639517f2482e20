"""An execution plan that ends, as a schedule that moves the same data in the same order.

* A `put` is a message. It is sent where the `put` stands and received at the `wait` that meets the first signal after
  it to the same GPU, into the chunks that the `put` writes. Since nothing may use these chunks between the two
  (`order` would find a race), it makes no difference that they are written later here.
* A signal that announces no put is a message without data.
* A `get` is a message without data to the GPU that has the data, where a thread of its own sends them back: memory
  answers without the GPU doing anything.
* `res`, `rre` and `rres` are reductions, with gets before them and puts behind them; what is read from others is put
  into scratch that the schedule has more of than the plan.
* What `sem_acquire` and `barrier` wait for are dependencies. A `nop` orders the threads of a thread block, which are
  one thread here.
* What is received only to be added, copied or sent on at once is one step, as in MSCCL, if nothing else uses the
  scratch where it was.

A thread block becomes a thread. Plans that Syncline has written say which thread blocks are parts of one thread, and
which connections their channels are; this is believed if the parts wait for one another, and messages keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.plans import plan as schedule
from syncline.plans.mscclpp import records
from syncline.plans.mscclpp.form import Chunks, End, OneSided, Operation, place
from syncline.plans.mscclpp.order import At, Carried, Signalled, channel
from syncline.plans.mscclpp.records import Connection, Record, Site, Thread

START: Final = "start"
"""Of a signal that Syncline's exports mark: it only says that a launch has begun."""


WHOLE: Final = "whole"
ALONE: Final = "alone"
"""Of a put that is a step of its own, although it passes on what has just arrived."""


@dataclass(slots=True)
class Lowered:
    """A schedule, and of which operation of the plan each of its steps is."""

    schedule: schedule.Plan
    sites: dict[Site, Site]


@dataclass(slots=True)
class _Put:
    """A message that a signal announces."""

    at: At
    dst: Chunks
    own: dict[str, Any]


@dataclass(slots=True)
class _Arrival:
    """A message that has been waited for, and that no step has received yet."""

    put: _Put
    at: At
    back: Connection
    to: Chunks
    """Where it is kept."""
    is_free: bool = True
    """Whether it may be received by the step that uses it."""


@dataclass(slots=True)
class _State:
    """A thread block of the plan, as far as it has been turned into steps."""

    thread: Thread
    arrived: list[_Arrival] = field(default_factory=list)


def lower(plan: OneSided, carried: Carried) -> Lowered:
    """The schedule of a plan that has been carried out to its end."""
    for believes in (True, False):
        lowering = _Lowering(plan, carried, believes=believes)
        lowering.run()
        if lowering.keeps_order():
            break
    return lowering.lowered()


class _Lowering:
    def __init__(self, plan: OneSided, carried: Carried, *, believes: bool) -> None:
        self.plan, self.carried, self.blocks = plan, carried, carried.blocks
        self.threads: list[Thread] = []
        self.states = [_State(thread) for thread in self._threads(believes=believes)]
        self.believes = believes
        self.scratch = {gpu.id: gpu.chunks["s"] for gpu in plan.gpus}
        self.announced: dict[tuple[At, int], list[_Put]] = {}
        """The puts of each signal, for each channel that it names by its place there."""
        self.next_signal = [self._signals(b) for b in range(len(self.blocks))]
        self.connections: dict[object, Connection] = {}
        self.of_signal = self._connections()
        self.sent: dict[Connection, list[At]] = {}
        self.taken: dict[Connection, list[At]] = {}
        """The puts, or signals without data, of each connection, as they are sent and as they are received."""
        self.released: dict[At, Record | None] = {}
        self.passed: dict[tuple[int, int, int], list[tuple[Thread, Record | None]]] = {}
        self.servers: dict[tuple[int, int], tuple[Thread, Connection, Connection]] = {}
        self.users = self._users()
        self.wholes: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Turns all operations into steps."""
        for at in self.carried.order:
            self._operation(at, self.blocks[at[0]].ops[at[1]])
        for b in range(len(self.blocks)):
            self._receive_all(b)

    def keeps_order(self) -> bool:
        """Whether messages of a connection are received as they are sent."""
        return self.sent == self.taken

    def lowered(self) -> Lowered:
        """The schedule."""
        buffers = [{**gpu.chunks, "s": self.scratch[gpu.id]} for gpu in self.plan.gpus]
        ranks, sites = records.ranks([*self.threads, *(server for server, _, _ in self.servers.values())], buffers)
        plan = schedule.Plan(
            format=schedule.FORMAT,
            version=schedule.VERSION,
            name=self.plan.name,
            collective=self.plan.collective,
            in_place=self.plan.in_place,
            protocol="Simple",
            min_bytes=self.plan.min_bytes,
            max_bytes=self.plan.max_bytes,
            threads=self.plan.threads,
            ranks=ranks,
        )
        if self.plan.pacing is not None:
            plan["pacing"] = self.plan.pacing
        return Lowered(plan, sites)

    # What the file says of threads and connections.

    def _threads(self, *, believes: bool) -> list[Thread]:
        """The thread of each thread block."""
        found: list[Thread] = []
        for gpu in self.plan.gpus:
            numbers = [block.thread for block in gpu.blocks]
            if not (believes and None not in numbers and self._follow(gpu.id)):
                numbers = [*range(len(gpu.blocks))]
            of_number = {number: Thread(gpu.id, number) for number in dict.fromkeys(numbers)}
            self.threads += of_number.values()
            found += [of_number[number] for number in numbers]
        return found

    def _follow(self, rank: int) -> bool:
        """Whether each thread block begins when the one before it that is a part of the same thread has ended."""
        last: dict[int | None, int] = {}
        for b, block in enumerate(self.blocks):
            if block.rank != rank:
                continue
            before = last.get(block.thread)
            last[block.thread] = b
            if before is None:
                continue
            first = next((k for k, op in enumerate(block.ops) if not self._only_begins(op)), None)
            if first is None or block.ops[first].name != "sem_acquire":
                return False
            ended = (before, len(self.blocks[before].ops) - 1)
            met = [self.carried.met[(b, first), nth] for nth in range(len(block.ops[first].semaphores))]
            if ended not in met:
                return False
        return True

    def _only_begins(self, op: Operation) -> bool:
        return op.name == "nop" or (op.name in ("signal", "wait") and op.own.get(START) is True)

    def _connections(self) -> dict[Signalled, Connection]:
        """The connection of each direction of a channel."""
        ends: dict[Signalled, list[tuple[int, int | None]]] = {}
        for b, block in enumerate(self.blocks):
            for op in block.ops:
                for nth, end in enumerate(op.ends if op.name in ("signal", "wait") else ()):
                    key = channel(block, op, nth)
                    claim = (b, block.connections.get(end))
                    if claim not in ends.setdefault(key, []):
                        ends[key].append(claim)
        found: dict[Signalled, Connection] = {}
        for key, claims in ends.items():
            name: object = key
            if self.believes and len(claims) == 2 and claims[0][1] == claims[1][1] is not None:
                giver = next(b for b, _ in claims if self.blocks[b].rank == key[0])
                taker = next(b for b, _ in claims if self.blocks[b].rank == key[1])
                name = (id(self.states[giver].thread), id(self.states[taker].thread), claims[0][1])
            found[key] = self.connections.setdefault(name, Connection(key[0], key[1]))
        return found

    def _signals(self, b: int) -> list[dict[End | int, tuple[At, int]]]:
        """For each operation of a thread block, the next signal on each channel, and to each GPU, with the place of the
        channel there.
        """
        after: dict[End | int, tuple[At, int]] = {}
        found: list[dict[End | int, tuple[At, int]]] = []
        for k, op in reversed([*enumerate(self.blocks[b].ops)]):
            if op.name == "signal":
                after = dict(after)
                for nth, end in reversed([*enumerate(op.ends)]):
                    after[end] = after[end.peer] = ((b, k), nth)
            found.append(after)
        return found[::-1]

    def _users(self) -> dict[int, set[At]]:
        """The operations that use each chunk of scratch."""
        found: dict[int, set[At]] = {}
        for b, block in enumerate(self.blocks):
            for k, op in enumerate(block.ops):
                for chunks in (*op.src, *op.dst):
                    for cell in self.plan.cells(chunks) if chunks.buffer == "s" else ():
                        found.setdefault(cell, set()).add((b, k))
        return found

    # Operations.

    def _operation(self, at: At, op: Operation) -> None:
        state = self.states[at[0]]
        if op.name == "nop":
            return
        if op.name == "signal":
            self._signal(at, op)
        elif op.name == "wait":
            self._wait(at, op)
        elif op.name == "put":
            for nth in range(len(op.dst)):
                self._pass_on(at, op, nth)
        elif op.name == "copy":
            for src, dst in zip(op.src, op.dst, strict=True):
                self._copy(at, src, dst)
        elif op.name in ("re", "res") and self._add_arrival(at, op):
            pass
        else:
            self._receive_all(at[0])
            if op.name == "get":
                for src, dst in zip(op.src, op.dst, strict=True):
                    self._get(at, src, dst)
            elif op.name == "sem_release":
                self.released[at] = state.thread.records[-1] if state.thread.records else None
            elif op.name == "sem_acquire":
                for nth in range(len(op.semaphores)):
                    self._after(at, self.released[self.carried.met[at, nth]])
            elif op.name == "barrier":
                self._barrier(at, op)
            else:
                self._reduce(at, op)

    def _pass_on(self, at: At, op: Operation, nth: int) -> None:
        """A put; together with the message that it passes on, if that has just arrived where the put reads."""
        out = self._announce(at, op, nth)
        arrival = self._arrival(at, op.src[nth]) if ALONE not in op.own else None
        if arrival is not None and arrival.is_free and self.states[at[0]].thread.may_join(arrival.back, out):
            self._take(at, arrival)
            self._step(at, "rcs", None, arrival.to, back=arrival.back, out=out, own=self._own(at, op.own))
            return
        self._receive_all(at[0])
        self._step(at, "s", op.src[nth], None, out=out, own=self._own(at, op.own))

    def _signal_of(self, at: At, op: Operation, nth: int) -> tuple[At, int]:
        """The signal that announces what an operation puts: the next one on the channel that it names for it, or else
        on any channel to that GPU.
        """
        peer = op.dst[nth].rank
        local = 0 if op.name == "put" else 1
        named = op.ends[nth - local] if len(op.ends) == len(op.dst) - local else None
        after = self.next_signal[at[0]][at[1]]
        found = after.get(named) if named is not None and named.peer == peer else None
        found = found or after.get(peer)
        if found is None:
            message = f"no signal to GPU {peer} follows in this thread block, so nobody can wait for what it puts there"
            raise self._problem(at, message, "a signal on a channel to that GPU")
        return found

    def _connection(self, at: At, op: Operation, nth: int) -> Connection:
        """What a put goes over."""
        block, (signal, place_) = self.blocks[at[0]], self._signal_of(at, op, nth)
        return self.of_signal[channel(block, block.ops[signal[1]], place_)]

    def _announce(self, at: At, op: Operation, nth: int) -> Connection:
        """The same, and notes the put with its signal."""
        self.announced.setdefault(self._signal_of(at, op, nth), []).append(_Put(at, op.dst[nth], op.own))
        out = self._connection(at, op, nth)
        self.sent.setdefault(out, []).append(at)
        return out

    def _copy(self, at: At, src: Chunks, dst: Chunks) -> None:
        """A copy; of a message that has just arrived, and is used for nothing else, it only says where to keep it."""
        arrival = self._arrival(at, src)
        if arrival is not None and self._is_used_once(arrival, at) and self._is_apart(at, dst, arrival):
            arrival.to = dst
            return
        self._receive_all(at[0])
        self._step(at, "cpy", src, dst)

    def _add_arrival(self, at: At, op: Operation) -> bool:
        """Adds a message that has just arrived to something, and sends the sum, as one step if that can be."""
        cells = [self.plan.cells(src) for src in op.src]
        if len(op.src) != 2 or len(op.dst) > 2 or cells[0] == cells[1]:
            return False
        arrivals = [self._arrival(at, src) for src in op.src]
        which = next((nth for nth, arrival in enumerate(arrivals) if arrival is not None and arrival.is_free), None)
        if which is None:
            return False
        arrival, other, to = arrivals[which], op.src[1 - which], op.dst[0]
        assert arrival is not None
        is_kept = self.plan.cells(to) != cells[which]
        sends = len(op.dst) == 2
        if not self._is_used_once(arrival, at) or not (is_kept or sends):
            return False
        if is_kept and (_overlap(self.plan.cells(to), cells[which]) or not self._is_apart(at, to, arrival)):
            return False
        if not self._is_apart(at, other, arrival) or (
            is_kept and _overlap_in_part(self.plan.cells(to), cells[1 - which])
        ):
            return False
        out = self._connection(at, op, 1) if sends else None
        if out is not None and not self.states[at[0]].thread.may_join(arrival.back, out):
            return False
        if sends:
            self._announce(at, op, 1)
        self._take(at, arrival)
        kind = f"rr{'c' if is_kept else ''}{'s' if sends else ''}"
        own = self._own(at, op.own) if sends else self._own(arrival.put.at, arrival.put.own, WHOLE)
        self._step(at, kind, other, to if is_kept else None, back=arrival.back, out=out, own=own)
        return True

    def _signal(self, at: At, op: Operation) -> None:
        self._receive_all(at[0])
        for nth in range(len(op.ends)):
            if (at, nth) not in self.announced and not self._is_start(at):
                out = self.of_signal[channel(self.blocks[at[0]], op, nth)]
                self.sent.setdefault(out, []).append(at)
                self._step(at, "s", None, None, out=out)

    def _wait(self, at: At, op: Operation) -> None:
        self._receive_all(at[0])
        arrived: list[_Arrival] = []
        for nth in range(len(op.ends)):
            signal, key = self.carried.met[at, nth], channel(self.blocks[at[0]], op, nth)
            back, puts = self.of_signal[key], self._puts(signal, key)
            arrived += [_Arrival(put, at, back, put.dst) for put in puts]
            if not puts and not self._is_start(signal):
                self.taken.setdefault(back, []).append(signal)
                self._step(at, "r", None, None, back=back)
        arrived.sort(key=lambda arrival: arrival.put.at)  # parts of one message may come over several channels
        for arrival in arrived:
            self.taken.setdefault(arrival.back, []).append(arrival.put.at)
        free = len(arrived) < 2 or self._are_used_in_order(at, arrived)
        for arrival in arrived:
            arrival.is_free = free
        self.states[at[0]].arrived = arrived

    def _puts(self, signal: At, key: Signalled) -> list[_Put]:
        """What a signal announces on a channel."""
        giver = self.blocks[signal[0]]
        ends = range(len(giver.ops[signal[1]].ends))
        which = next(nth for nth in ends if channel(giver, giver.ops[signal[1]], nth) == key)
        return self.announced.get((signal, which), [])

    def _is_start(self, signal: At) -> bool:
        """Whether a signal only says that a launch has begun: it is marked, and nothing is done before it."""
        ops = self.blocks[signal[0]].ops
        return ops[signal[1]].own.get(START) is True and all(map(self._only_begins, ops[: signal[1]]))

    def _get(self, at: At, src: Chunks, dst: Chunks) -> None:
        rank = self.blocks[at[0]].rank
        if (at[0], src.rank) not in self.servers:
            asks, answers = Connection(rank, src.rank), Connection(src.rank, rank)
            server = Thread(src.rank, None, pairs=[(asks, answers)])
            self.servers[at[0], src.rank] = server, asks, answers
        server, asks, answers = self.servers[at[0], src.rank]
        self._step(at, "s", None, None, out=asks)
        self._add(server, at, "r", (None, None), back=asks)
        self._add(server, at, "s", (src, None), out=answers)
        self._step(at, "r", None, dst, back=answers)

    def _reduce(self, at: At, op: Operation) -> None:
        here = [self._fetched(at, src) for src in op.src]
        to, cells = op.dst[0], self.plan.cells(op.dst[0])
        if any(_overlap_in_part(self.plan.cells(src), cells) for src in here):
            raise self._problem(at, f"'{op.name}' writes a part of what it reads", "all of it, or nothing")
        first = next((nth for nth, src in enumerate(here) if self.plan.cells(src) == cells), None)
        if first is None:
            self._step(at, "cpy", here[0], to)
        for nth, src in enumerate(here):
            if nth != (first or 0):
                self._step(at, "re", src, to)
        for nth in range(1, len(op.dst)):
            self._step(at, "s", to, None, out=self._announce(at, op, nth), own=self._own(at, op.own))

    def _fetched(self, at: At, src: Chunks) -> Chunks:
        """Where chunks lie on the own rank; those of another one are read into scratch."""
        rank = self.blocks[at[0]].rank
        if src.rank == rank:
            return src
        here = Chunks(rank, "s", self.scratch[rank], src.size)
        self.scratch[rank] += src.size
        self._get(at, src, here)
        return here

    def _barrier(self, at: At, op: Operation) -> None:
        key = (self.blocks[at[0]].rank, op.barrier, self.carried.rounds[at])
        if key not in self.passed:
            # This is the first one to pass: all others stand before the barrier.
            self.passed[key] = []
            for b, block in enumerate(self.blocks):
                if block.rank == key[0] and any(o.name == "barrier" and o.barrier == op.barrier for o in block.ops):
                    self._receive_all(b)
                    thread = self.states[b].thread
                    self.passed[key].append((thread, thread.records[-1] if thread.records else None))
        for _, last in self.passed[key]:
            self._after(at, last)

    def _after(self, at: At, on: Record | None) -> None:
        if on is not None:
            self.states[at[0]].thread.waits.append(on)

    # Messages that have arrived.

    def _arrival(self, at: At, src: Chunks) -> _Arrival | None:
        """The message that has arrived where an operation reads, and that no step has received yet."""
        arrived, cells = self.states[at[0]].arrived, self.plan.cells(src)
        nth = next((nth for nth, arrival in enumerate(arrived) if self.plan.cells(arrival.to) == cells), None)
        return None if nth is None else arrived[nth]

    def _are_used_in_order(self, at: At, arrived: list[_Arrival]) -> bool:
        """Whether the operations after a wait use each of the messages that it waits for, in order, as parts of a whole
        again if they are such parts.
        """
        lie, nth = [self.plan.cells(arrival.to) for arrival in arrived], 0
        for op in self.blocks[at[0]].ops[at[1] + 1 :]:
            if nth == len(arrived):
                break
            src = [self.plan.cells(chunks) for chunks in op.src]
            if op.name == "copy" and len(src) == 1 and src[0] in lie:
                lie[lie.index(src[0])] = self.plan.cells(op.dst[0])
            elif op.name in ("put", "re", "res"):
                stays_part = op.name == "re" or (WHOLE in op.own) == (WHOLE in arrived[nth].put.own)
                if lie[nth] not in src or not stays_part:
                    return False
                nth += 1
            elif op.name != "nop":
                return False
        return nth == len(arrived)

    def _take(self, at: At, arrival: _Arrival) -> None:
        """Receives what has arrived before a message; the message itself is left to the caller."""
        arrived = self.states[at[0]].arrived
        while arrived[0] is not arrival:
            self._receive(at[0])
        arrived.pop(0)

    def _receive_all(self, b: int) -> None:
        while self.states[b].arrived:
            self._receive(b)

    def _receive(self, b: int) -> None:
        arrival = self.states[b].arrived.pop(0)
        own = self._own(arrival.put.at, arrival.put.own, WHOLE)
        self._step(arrival.at, "r", None, arrival.to, back=arrival.back, own=own)

    def _is_apart(self, at: At, chunks: Chunks, arrival: _Arrival) -> bool:
        """Whether no other message that has arrived, and no step has received yet, is in some chunks."""
        others = (a for a in self.states[at[0]].arrived if a is not arrival)
        return not any(_overlap(self.plan.cells(chunks), self.plan.cells(other.to)) for other in others)

    def _is_used_once(self, arrival: _Arrival, at: At) -> bool:
        """Whether a message lies in scratch that nothing uses but its put and one operation."""
        if arrival.to.buffer != "s":
            return False
        return all(self.users[cell] <= {arrival.put.at, at} for cell in self.plan.cells(arrival.to))

    # Steps.

    def _own(self, at: At, own: dict[str, Any], *keys: str) -> dict[str, Any]:
        """What only Syncline says of a step; parts of one whole have the same number wherever they are sent."""
        found = {key: value for key, value in own.items() if not keys or key in keys}
        if WHOLE in found:
            found[WHOLE] = self.wholes.setdefault((at[0], found[WHOLE]), len(self.wholes))
        return found

    def _step(self, at: At, kind: str, src: Chunks | None, dst: Chunks | None, **more: Any) -> None:
        """Adds a step to the thread of a thread block; `more` is what else a [`Record`] has."""
        self._add(self.states[at[0]].thread, at, kind, (src, dst), **more)

    def _add(self, thread: Thread, at: At, kind: str, chunks: tuple[Chunks | None, Chunks | None], **more: Any) -> None:
        block = self.blocks[at[0]]
        thread.add(Record(thread, kind, *chunks, site=(block.rank, block.id, at[1]), **more))

    def _problem(self, at: At, message: str, accepted: str) -> InputError:
        block = self.blocks[at[0]]
        where = (block.rank, block.id, at[1])
        return InputError([Problem(self.plan.file, self.plan.line(*where), place(*where), None, message, accepted)])


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _overlap_in_part(one: range, other: range) -> bool:
    return one != other and _overlap(one, other)
