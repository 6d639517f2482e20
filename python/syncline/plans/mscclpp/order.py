"""Carries an execution plan out without data: which operations come before which, and what nothing orders.

What orders operations: `signal` and the `wait` that meets it, `sem_release` and `sem_acquire`, `barrier`, and within a
thread block `nop` and `barrier`, at which its threads wait for one another. Two operations of a thread block with
neither between them are in no order: some threads may be at the second one while others are at the first. For the same
reason a signal announces what was done before the last `nop`, and what follows a `wait` knows of it from the next
`nop` on.

Where a GPU ends, its results are read and its memory is used for something else: what others do with it has to come
before. Likewise nobody may read from a GPU of which no signal says that it has begun, since its input need not be there
yet; who writes into its memory may disturb what it did before, which is no fault of this launch, and is warned of.

The `n`th wait on a channel meets the `n`th signal, as long as one thread block gives all signals and one waits for all
of them; what several thread blocks would share is refused, since timing would say who gets which. With that, if one
order of execution ends, every order does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.plans.mscclpp.form import Block, Chunks, Gpu, OneSided, Operation, place

MAX_CLOCKS: Final = 2**25
"""Operations that synchronise, times thread blocks: what following the order takes time for."""
MAX_FLAWS: Final = 100
NAMED: Final = 8
"""Thread blocks that wait for ever, of those that are named."""

Signalled = tuple[int, int, int]
"""One direction of a channel: the rank that signals, the one that waits, and which of their channels."""
At = tuple[int, int]
"""A thread block, by its place among all, and one of its operations."""
Round = tuple[int, int, int]
"""A rank, one of its barriers, and how often it was passed before."""


@dataclass(slots=True)
class Carried:
    """What comes of carrying a plan out."""

    blocks: list[Block]
    """The thread blocks of all ranks."""
    order: list[At] = field(default_factory=list)
    """An order in which the operations can be done; those of a wait come after those of its signal."""
    met: dict[tuple[At, int], At] = field(default_factory=dict)
    """For each operation that waits, and each channel or semaphore that it names by its place there, what it meets."""
    rounds: dict[At, int] = field(default_factory=dict)
    """Of each barrier, how often its thread block was at it before."""
    flaws: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    omitted: int = 0
    ends: bool = False
    """Whether all operations were done."""

    def flaw(self, kind: str, at: At, message: str) -> None:
        """Notes something that goes wrong, as the engine would."""
        if len(self.flaws) == MAX_FLAWS:
            self.omitted += 1
            return
        block = self.blocks[at[0]]
        site = {"rank": block.rank, "thread_block": block.id, "step": at[1]}
        self.flaws.append({"kind": kind, **site, "message": message, "accepted": None})

    def name(self, at: At, of: int | None = None) -> str:
        """An operation for a person; without the GPU if that is `of`."""
        block = self.blocks[at[0]]
        return f"operation {at[1]} of thread block {block.id}" + ("" if block.rank == of else f" of GPU {block.rank}")


def carry_out(plan: OneSided) -> Carried:
    """Finds an order, and what it leaves open. Raises [`InputError`] if the plan is none that can be followed."""
    carried = Carried([block for gpu in plan.gpus for block in gpu.blocks])
    meetings = _Meetings(plan, carried)
    meetings.check()
    if not carried.flaws:
        _Execution(plan, carried, meetings).run()
    return carried


def channel(block: Block, op: Operation, nth: int) -> Signalled:
    """The direction of a channel that an operation signals on or waits for."""
    end = op.ends[nth]
    return (block.rank, end.peer, end.nth) if op.name == "signal" else (end.peer, block.rank, end.nth)


@dataclass(slots=True)
class _Meetings:
    """What meets on channels and semaphores: all that give, and all that take, in the order of their thread block."""

    plan: OneSided
    carried: Carried
    given: dict[tuple[int, ...], list[At]] = field(default_factory=dict)
    taken: dict[tuple[int, ...], list[tuple[At, int]]] = field(default_factory=dict)
    barriers: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """Of each barrier of a rank, the thread blocks that come to it, and how often."""

    def check(self) -> None:
        """Gathers all of them; what does not meet is refused, or a flaw."""
        problems = [*self._gather()]
        for key in {**self.given, **self.taken}:
            given, taken = self.given.get(key, []), self.taken.get(key, [])
            owners = (("give", {b for b, _ in given}), ("wait for", {at[0] for at, _ in taken}))
            for verb, blocks in owners:
                if len(blocks) > 1:
                    first, second = sorted(blocks)[:2]
                    message = f"thread blocks {self.carried.blocks[first].id} and {self.carried.blocks[second].id} of "
                    message += f"GPU {self.carried.blocks[first].rank} both {verb} signals on {_name(key)}"
                    problems.append(self._problem((second, 0), message, "one thread block at either end"))
            if len(given) > len(taken):
                message = (
                    f"this signal on {_name(key)} is not waited for; the next launch would take it for one of its own"
                )
                self.carried.flaw("unreceived", given[len(taken)], message)
            elif len(taken) > len(given):
                at, _ = taken[len(given)]
                self.carried.flaw("unsent", at, f"waits for a signal on {_name(key)} that nobody gives")
        if problems:
            raise InputError(problems)

    def _gather(self) -> Iterator[Problem]:
        for b, block in enumerate(self.carried.blocks):
            comes: dict[int, int] = {}
            for k, op in enumerate(block.ops):
                for nth in range(len(op.ends) if op.name in ("signal", "wait") else 0):
                    self._add(op.name == "signal", channel(block, op, nth), (b, k), nth)
                for nth, semaphore in enumerate(op.semaphores):
                    self._add(op.name == "sem_release", (block.rank, semaphore), (b, k), nth)
                if op.name == "barrier":
                    self.carried.rounds[b, k] = comes.get(op.barrier, 0)
                    comes[op.barrier] = comes.get(op.barrier, 0) + 1
            for barrier, times in comes.items():
                self.barriers.setdefault((block.rank, barrier), []).append((b, times))
        for (rank, barrier), comers in self.barriers.items():
            ops = (op for b, _ in comers for op in self.carried.blocks[b].ops)
            wanted = next(
                (o.members for o in ops if (o.name, o.barrier) == ("barrier", barrier) and o.members != len(comers)), 0
            )
            if wanted:
                message = (
                    f"barrier {barrier} of GPU {rank} waits for {wanted} thread blocks, and {len(comers)} come to it"
                )
                yield self._problem((comers[0][0], 0), message, str(len(comers)))
            if len({times for _, times in comers}) > 1:
                message = f"thread blocks come to barrier {barrier} of GPU {rank} unequally often"
                yield self._problem((comers[0][0], 0), message, "all of them equally often")

    def _add(self, gives: bool, key: tuple[int, ...], at: At, nth: int) -> None:
        if gives:
            self.given.setdefault(key, []).append(at)
            return
        self.taken.setdefault(key, []).append((at, nth))

    def _problem(self, at: At, message: str, accepted: str) -> Problem:
        block = self.carried.blocks[at[0]]
        line = self.plan.line(block.rank, block.id)
        return Problem(self.plan.file, line, place(block.rank, block.id), None, message, accepted)


def _name(key: tuple[int, ...]) -> str:
    if len(key) == 2:
        return f"semaphore {key[1]}"
    return f"channel {key[2]} from GPU {key[0]} to GPU {key[1]}"


class _Access:
    """A use of a chunk."""

    __slots__ = ("at", "writes")

    def __init__(self, at: At, *, writes: bool) -> None:
        self.at = at
        self.writes = writes


class _Execution:
    """Lets thread blocks go on, each as far as it can."""

    def __init__(self, plan: OneSided, carried: Carried, meetings: _Meetings) -> None:
        self.plan, self.carried = plan, carried
        blocks = carried.blocks
        syncs = sum(op.name in ("nop", "barrier", "wait", "sem_acquire") for block in blocks for op in block.ops)
        if syncs * len(blocks) > MAX_CLOCKS:
            message = f"{syncs:,} operations that synchronise {len(blocks):,} thread blocks are too many to be followed"
            raise InputError([Problem(plan.file, None, "", None, message, f"a product up to {MAX_CLOCKS:,}")])
        self.next = [0] * len(blocks)
        ranks = range(len(plan.gpus))
        self.known = [[0] * len(blocks) + [int(rank == block.rank) for rank in ranks] for block in blocks]
        """For each thread block, how many operations of every other one its threads know to be done, and after that
        whether each GPU has begun; replaced as a whole, never changed, since signals carry it."""
        self.pending: list[list[list[int]]] = [[] for _ in blocks]
        """What the thread that waited knows, and the others learn at the next `nop`."""
        self.signals: dict[At, list[int]] = {}
        self.at_barrier: dict[Round, dict[int, list[int]]] = {}
        self.barriers = {key: len(comers) for key, comers in meetings.barriers.items()}
        self.waiting: dict[At | Round, list[int]] = {}
        """Thread blocks by what they wait for: an operation, or a round of a barrier."""
        self.used: dict[int, list[_Access]] = {}
        for key, takers in meetings.taken.items():
            for (at, nth), giver in zip(takers, meetings.given[key], strict=True):
                carried.met[at, nth] = giver
        self.raced: set[tuple[At, At]] = set()
        self.early: set[tuple[int, int, bool]] = set()

    def run(self) -> None:
        """Carries everything out, as far as it goes."""
        ready = list(range(len(self.next)))[::-1]
        while ready:
            b = ready.pop()
            while self.next[b] < len(self.carried.blocks[b].ops):
                at = (b, self.next[b])
                awaited = self._awaited(at)
                if awaited is not None:
                    self.waiting.setdefault(awaited, []).append(b)
                    break
                self._do(at)
                self.carried.order.append(at)
                self.next[b] += 1
                ready += self.waiting.pop(at, [])
        stuck = [b for b, block in enumerate(self.carried.blocks) if self.next[b] < len(block.ops)]
        self.carried.ends = not stuck
        if stuck:
            self._explain(stuck)
            return
        for gpu in self.plan.gpus:
            self._end(gpu)

    def _end(self, gpu: Gpu) -> None:
        """Finds what others do with the memory of a GPU when it may have ended."""
        own = [b for b, block in enumerate(self.carried.blocks) if block.rank == gpu.id]
        if not own:
            return
        known = _joined([self._synced(b, self.next[b]) for b in own])
        late: dict[At, tuple[_Access, Chunks, int]] = {}
        for buffer in ("o", "i", "s"):
            chunks = Chunks(gpu.id, buffer, 0, gpu.chunks[buffer])
            for nth, cell in enumerate(self.plan.cells(chunks)):
                for access in self.used.get(cell, []):
                    if known[access.at[0]] <= access.at[1]:
                        late.setdefault(access.at, (access, chunks, nth))
        for at, (access, chunks, nth) in sorted(late.items()):
            verb = "writes" if access.writes else "reads"
            where = _where(Chunks(gpu.id, chunks.buffer, nth, 1), self.carried.blocks[at[0]].rank)
            what = "no wait of that GPU comes after this" if access.writes else "that GPU may have ended before"
            self.carried.flaw("race", at, f"{verb} {where}, and {what}")

    def _awaited(self, at: At) -> At | Round | None:
        """What an operation waits for, and has not happened."""
        b, k = at
        block = self.carried.blocks[b]
        op = block.ops[k]
        if op.name in ("wait", "sem_acquire"):
            for nth in range(len(op.ends) or len(op.semaphores)):
                giver = self.carried.met[at, nth]
                if self.next[giver[0]] <= giver[1]:
                    return giver
        if op.name == "barrier":
            key = (block.rank, op.barrier, self.carried.rounds[at])
            there = self.at_barrier.setdefault(key, {})
            there.setdefault(b, self._synced(b, k))
            if len(there) < self.barriers[block.rank, op.barrier]:
                return key
        return None

    def _do(self, at: At) -> None:
        b, k = at
        block = self.carried.blocks[b]
        op = block.ops[k]
        if op.name == "nop":
            self.known[b] = self._synced(b, k)
            self.pending[b] = []
        elif op.name == "barrier":
            key = (block.rank, op.barrier, self.carried.rounds[at])
            self.known[b] = _joined(self.at_barrier[key].values())
            self.pending[b] = []
            for other in self.waiting.pop(key, []):  # the last one lets the others go
                self.waiting.setdefault(at, []).append(other)
        elif op.name in ("signal", "sem_release"):
            self.signals[at] = self.known[b]
        elif op.name in ("wait", "sem_acquire"):
            ends = range(len(op.ends) or len(op.semaphores))
            self.pending[b] += [self.signals[self.carried.met[at, nth]] for nth in ends]
        else:
            for used, writes in (*((c, False) for c in op.src), *((c, True) for c in op.dst)):
                if not self.known[b][len(self.next) + used.rank]:
                    self._too_early(at, used.rank, writes=writes)
                self._use(at, used, writes=writes)

    def _too_early(self, at: At, rank: int, *, writes: bool) -> None:
        block = self.carried.blocks[at[0]]
        if (at[0], rank, writes) in self.early:
            return
        self.early.add((at[0], rank, writes))
        if not writes:
            message = (
                f"reads from GPU {rank}, of which no signal says that it has begun, so that its data need not be there"
            )
            self.carried.flaw("race", at, message)
            return
        where = (block.rank, block.id, at[1])
        message = (
            f"writes into GPU {rank}, of which no signal says that it has begun: it may still use what it did before"
        )
        if len(self.carried.warnings) < MAX_FLAWS:
            self.carried.warnings.append(Problem(self.plan.file, self.plan.line(*where), place(*where), None, message))

    def _synced(self, b: int, k: int) -> list[int]:
        """What all threads of a block know after they have met before operation `k`."""
        known = _joined([self.known[b], *self.pending[b]])
        known[b] = k
        return known

    def _use(self, at: At, chunks: Chunks, *, writes: bool) -> None:
        known = self.known[at[0]]
        for nth, cell in enumerate(self.plan.cells(chunks)):
            before = self.used.setdefault(cell, [])
            kept = []
            for access in before:
                is_ordered = known[access.at[0]] > access.at[1]
                if access.at != at and not is_ordered and (writes or access.writes):
                    self._race(at, access, chunks, nth, writes=writes)
                # What comes after this one comes after what is before it; only reads leave earlier writes standing.
                if not (is_ordered and writes) and not (access.at == at and access.writes == writes):
                    kept.append(access)
            kept.append(_Access(at, writes=writes))
            self.used[cell] = kept

    def _race(self, at: At, other: _Access, chunks: Chunks, nth: int, *, writes: bool) -> None:
        pair = (other.at, at)
        if pair in self.raced:
            return
        self.raced.add(pair)
        verbs = {True: "writes", False: "reads"}
        rank = self.carried.blocks[at[0]].rank
        where = _where(Chunks(chunks.rank, chunks.buffer, chunks.index + nth, 1), rank)
        why = "no nop stands between them" if at[0] == other.at[0] else "nothing says which comes first"
        name = self.carried.name(other.at, of=rank)
        self.carried.flaw("race", at, f"{verbs[writes]} {where}, which {name} {verbs[other.writes]}; {why}")

    def _explain(self, stuck: list[int]) -> None:
        said = []
        for b in stuck[:NAMED]:
            at = (b, self.next[b])
            awaited = self._awaited(at)
            assert awaited is not None
            what = self.carried.name(awaited) if len(awaited) == 2 else f"barrier {awaited[1]}"
            said.append(f"{self.carried.name(at)} waits for {what}")
        more = "" if len(stuck) <= NAMED else f"; and {len(stuck) - NAMED} more"
        message = f"{len(stuck)} thread blocks wait for ever: {'; '.join(said)}{more}"
        self.carried.flaw("deadlock", (stuck[0], self.next[stuck[0]]), message)


def _where(chunk: Chunks, of: int) -> str:
    """A chunk for a person; without the GPU if that is `of`."""
    names = {"i": "input", "o": "output", "s": "scratch"}
    where = f"chunk {chunk.index} of the {names[chunk.buffer]} buffer"
    return where if chunk.rank == of else f"{where} of GPU {chunk.rank}"


def _joined(clocks: Any) -> list[int]:
    first, *others = clocks
    return list(map(max, first, *others)) if others else list(first)
