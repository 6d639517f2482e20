"""What a runtime of MSCCL++ asks of an execution plan, checked by rules and by carrying the plan out.

This module shares nothing with the package: it knows the format and nothing else. `broken_rules` names the rules that
a text breaks. `Launches` carries a plan out on numbers, several times in a row, in an interleaving that a seed decides
and that is as bad as hardware may be:

* Thread blocks of all GPUs go on in any order, and some stand still for long. A GPU begins its next launch as soon as
  it has ended the one before, whatever others do.
* The threads of a thread block are not together: what it has begun is done chunk by chunk at any later time, and what
  stands after it may be done before, until a `nop` or `barrier`, at which everything before has been done.
* When a launch begins, the output and the scratch of its GPU hold garbage, and the input holds numbers that nobody has
  seen before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

RULES: Final = {
    1: "the head has name, collective, protocol, inplace and gpus, and all fields have values of their kind",
    2: "the GPU at place r has the id r",
    3: "a chunk of the input is as large as one of the output",
    4: "channels and remote buffers lead to other GPUs that exist",
    5: "the nth channel to a GPU has an nth one back",
    6: "a GPU has 16 semaphores at most, and they begin with a number",
    7: "the thread block at place n has the id n",
    8: "a thread block has 16 channels of a type and 16 remote buffers at most, and they exist",
    9: "a thread block has 64 operations at most",
    10: "operations are known",
    11: "an operation names 8 channels at most, which its thread block has, each once",
    12: "buffers of an operation exist, are of the GPU that they must be of, and its chunks are inside of them",
    13: "sources and destinations of an operation are as many, and as large, as it takes",
    14: "signals and waits on a channel, and releases and acquires of a semaphore, are equally many",
    15: "a signal announces nothing that its thread block may not have done: a nop stands before",
    16: "operations of a thread block of which one uses what the other writes have a nop between them",
    17: "the plan ends",
    18: "the results are right",
}
OPERATIONS, CHANNELS, OF_OPERATION, SEMAPHORES = 64, 16, 8, 16
NAMES: Final = frozenset(
    {
        *("nop", "barrier", "signal", "wait", "sem_acquire", "sem_release"),
        *("put", "get", "copy", "re", "res", "rre", "rres"),
    }
)
MODULUS: Final = (1 << 61) - 1

Cell = tuple[int, str, int]
"""GPU, buffer, chunk; in place, of the larger one of input and output."""


def broken_rules(text: str, root: int = 0, seeds: range = range(4)) -> dict[int, str]:
    """The rules that a plan breaks, each with the first thing that breaks it."""
    found: dict[int, str] = {}
    try:
        plan = json.loads(text)
    except ValueError as error:
        return {1: str(error)}
    for rule, what in _form(plan):
        found.setdefault(rule, what)
    if found:
        return found
    for rule, what in (*_meetings(plan), *_nops(plan)):
        found.setdefault(rule, what)
    if 14 in found:
        return found
    for seed in seeds:
        broken = Launches(plan, root, seed).run()
        if broken is not None:
            found.setdefault(*broken)
    return found


# The form.


def _form(plan: Any) -> Iterator[tuple[int, str]]:
    kinds = {"name": str, "collective": str, "protocol": str, "inplace": bool, "gpus": list}
    for key, kind in kinds.items():
        if type(plan.get(key)) is not kind:
            yield 1, f"{key} is {plan.get(key)!r}"
            return
    if plan["protocol"] != "Simple" or plan["collective"] not in SIZES:
        yield 1, f"{plan['protocol']} {plan['collective']}"
        return
    if plan.get("reuse_resources", False) is not False or plan.get("use_double_scratch_buffer", False) is not False:
        yield 1, "scratch that is not its own"
    least, most = plan.get("min_message_size", 0), plan.get("max_message_size", 2**64 - 1)
    if not 0 <= least <= most < 2**64 or plan.get("num_threads_per_block", 1024) not in range(32, 1025, 32):
        yield 1, "sizes"
    for rank, gpu in enumerate(plan["gpus"]):
        if gpu["id"] != rank:
            yield 2, f"GPU {gpu['id']} at place {rank}"
        yield from _sizes(plan, rank, gpu)
        yield from _channels(plan, rank, gpu)
        for number, block in enumerate(gpu["threadblocks"]):
            if block["id"] != number:
                yield 7, f"thread block {block['id']} at place {number} of GPU {rank}"
            yield from _block(plan, rank, gpu, block)


SIZES: Final = {
    "allreduce": (1, 1),
    "broadcast": (1, 1),
    "reduce": (1, 1),
    "alltoall": (1, 1),
    "allgather": (0, 1),
    "gather": (0, 1),
    "reducescatter": (1, 0),
    "scatter": (1, 0),
}
"""Whether the input and the output hold the whole vector, or the share of a GPU."""


def _sizes(plan: Any, rank: int, gpu: Any) -> Iterator[tuple[int, str]]:
    given = [gpu[key] for key in ("input_chunks", "output_chunks", "scratch_chunks")]
    if any(type(number) is not int or number < 0 for number in given) or 0 in given[:2]:
        yield 3, f"GPU {rank} has chunks {given}"
        return
    parts = [1 if is_whole else len(plan["gpus"]) for is_whole in SIZES[plan["collective"]]]
    whole = [number * part for number, part in zip(given[:2], parts, strict=True)]
    if whole[0] != whole[1] or whole[0] != max(plan["gpus"][0]["input_chunks"], plan["gpus"][0]["output_chunks"]):
        yield 3, f"GPU {rank} has chunks {given}"
    semaphores = gpu.get("semaphores", [])
    if len(semaphores) > SEMAPHORES or any(type(s["init_value"]) is not int for s in semaphores):
        yield 6, f"GPU {rank} has {len(semaphores)} semaphores"


def _ends(gpu: Any) -> list[int]:
    """The GPU at the other end of each memory channel."""
    return [peer for entry in gpu["channels"] if entry["channel_type"] == "memory" for peer in entry["connected_to"]]


def _channels(plan: Any, rank: int, gpu: Any) -> Iterator[tuple[int, str]]:
    others = set(range(len(plan["gpus"]))) - {rank}
    for peer in _ends(gpu):
        if peer not in others:
            yield 4, f"a channel from GPU {rank} to {peer}"
        elif _ends(gpu).count(peer) != _ends(plan["gpus"][peer]).count(rank):
            yield 5, f"channels between GPU {rank} and {peer}"
    for buffer in gpu["remote_buffers"]:
        if buffer["rank"] not in others or buffer["type"] not in ("i", "o", "s"):
            yield 4, f"a remote buffer of GPU {rank}: {buffer}"
        if buffer["access_channel_types"] != ["memory"]:
            yield 4, f"a remote buffer of GPU {rank}: {buffer}"


def _references(block: Any, key: str, kind: str, ids: str) -> list[int]:
    entries = block.get(key, [])
    assert all(entry[kind] == "memory" for entry in entries)
    return [number for entry in entries for number in entry[ids]]


def _of_block(block: Any) -> tuple[list[int], list[int]]:
    """The channels and remote buffers of a thread block, by their numbers in the GPU."""
    channels = _references(block, "channels", "channel_type", "channel_ids")
    return channels, _references(block, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids")


def _block(plan: Any, rank: int, gpu: Any, block: Any) -> Iterator[tuple[int, str]]:
    where = f"GPU {rank}, thread block {block['id']}"
    channels, buffers = _of_block(block)
    if max(len(channels), len(buffers)) > CHANNELS:
        yield 8, f"{where}: {len(channels)} channels and {len(buffers)} remote buffers"
    if not all(0 <= n < len(_ends(gpu)) for n in channels):
        yield 8, f"{where}: channels {channels}"
    if not all(0 <= n < len(gpu["remote_buffers"]) for n in buffers):
        yield 8, f"{where}: remote buffers {buffers}"
        return
    if len(block["ops"]) > OPERATIONS:
        yield 9, f"{where}: {len(block['ops'])} operations"
    for number, op in enumerate(block["ops"]):
        for rule, what in _operation(plan, rank, block, op):
            yield rule, f"{where}, operation {number}: {what}"


def _operation(plan: Any, rank: int, block: Any, op: Any) -> Iterator[tuple[int, str]]:
    name = op["name"]
    if name not in NAMES:
        yield 10, name
        return
    channels, buffers = _of_block(block)
    ids = op.get("channel_ids", [])
    is_named = all(0 <= n < len(channels) for n in ids) and len(set(ids)) == len(ids) <= OF_OPERATION
    if not is_named or (name in ("signal", "wait") and (not ids or op["channel_type"] != "memory")):
        yield 11, f"{name} on channels {ids}"
    if name.startswith("sem_") and not set(op["semaphore_ids"]) <= set(range(len(plan["gpus"][rank]["semaphores"]))):
        yield 12, f"semaphores {op['semaphore_ids']}"
    sides: list[list[bool]] = []
    sizes: list[list[int]] = []
    for key in ("src_buff", "dst_buff"):
        entries = op.get(key, [])
        if any(not ("type" in entry) ^ ("buffer_id" in entry) for entry in entries):
            yield 12, f"{key}"
            return
        if any("buffer_id" in e and not 0 <= e["buffer_id"] < len(buffers) for e in entries):
            yield 12, f"{key}"
            return
        sides.append(["buffer_id" in entry for entry in entries])
        sizes.append([entry["size"] for entry in entries])
        for entry in entries:
            of = plan["gpus"][rank]["remote_buffers"][buffers[entry["buffer_id"]]] if "buffer_id" in entry else None
            gpu = plan["gpus"][of["rank"] if of else rank]
            has = gpu[{"i": "input", "o": "output", "s": "scratch"}[of["type"] if of else entry["type"]] + "_chunks"]
            if entry["size"] < 1 or entry["index"] < 0 or entry["index"] + entry["size"] > has:
                yield 12, f"{key}: chunks {entry['index']} and {entry['size'] - 1} more of {has}"
    if not _fits(name, sides, sizes):
        yield 13, f"{name} from {sides[0]} to {sides[1]}, sizes {sizes}"


def _fits(name: str, sides: list[list[bool]], sizes: list[list[int]]) -> bool:
    src, dst = sides
    if name in ("put", "get", "copy"):
        far = {"put": (False, True), "get": (True, False), "copy": (False, False)}[name]
        return bool(src) and set(src) == {far[0]} and set(dst) == {far[1]} and sizes[0] == sizes[1]
    if name in ("re", "res", "rre", "rres"):
        reads, sends = name in ("rre", "rres"), name in ("res", "rres")
        right = len(src) > 1 and src == [False, *[reads] * (len(src) - 1)]
        right = right and dst == [False, *[True] * (len(dst) - 1)] and (len(dst) > 1) is sends
        return right and len({*sizes[0], *sizes[1]}) == 1
    return not src and not dst


# What meets, and what has to be between operations.


def _directions(plan: Any, rank: int, block: Any, op: Any) -> list[tuple[Any, ...]]:
    """What an operation counts up or down: the direction of a channel, or a semaphore."""
    if op["name"].startswith("sem_"):
        return [("semaphore", rank, number) for number in op["semaphore_ids"]]
    if op["name"] not in ("signal", "wait"):
        return []
    channels, ends = _of_block(block)[0], _ends(plan["gpus"][rank])
    found: list[tuple[Any, ...]] = []
    for number in (channels[nth] for nth in op["channel_ids"]):
        peer, nth = ends[number], ends[:number].count(ends[number])
        found.append((rank, peer, nth) if op["name"] == "signal" else (peer, rank, nth))
    return found


def _meetings(plan: Any) -> Iterator[tuple[int, str]]:
    counts: dict[tuple[Any, ...], int] = {}
    for rank, gpu in enumerate(plan["gpus"]):
        for block in gpu["threadblocks"]:
            for op in block["ops"]:
                for key in _directions(plan, rank, block, op):
                    counts[key] = counts.get(key, 0) + (1 if op["name"] in ("signal", "sem_release") else -1)
    for key, count in counts.items():
        if count:
            yield 14, f"{key}: {count} too many"


def _cells(plan: Any, rank: int, block: Any, entries: Any) -> list[list[Cell]]:
    found = []
    for entry in entries:
        of, buffer = rank, entry.get("type")
        if "buffer_id" in entry:
            remote = plan["gpus"][rank]["remote_buffers"][_of_block(block)[1][entry["buffer_id"]]]
            of, buffer = remote["rank"], remote["type"]
        found.append([_cell(plan, of, buffer, entry["index"] + nth) for nth in range(entry["size"])])
    return found


def _cell(plan: Any, rank: int, buffer: str, chunk: int) -> Cell:
    whole = SIZES[plan["collective"]]
    if not plan["inplace"] or buffer == "s":
        return rank, buffer, chunk
    if buffer in ("i", "o") and not whole["io".index(buffer)]:
        gpu = plan["gpus"][rank]
        chunk += rank * min(gpu["input_chunks"], gpu["output_chunks"])
    return rank, "io", chunk


def _nops(plan: Any) -> Iterator[tuple[int, str]]:
    for rank, gpu in enumerate(plan["gpus"]):
        for block in gpu["threadblocks"]:
            reads, writes, waits = set[Cell](), set[Cell](), False
            for number, op in enumerate(block["ops"]):
                where = f"GPU {rank}, thread block {block['id']}, operation {number}"
                sources, targets = (
                    {cell for cells in _cells(plan, rank, block, op.get(key, [])) for cell in cells}
                    for key in ("src_buff", "dst_buff")
                )
                if op["name"] in ("nop", "barrier"):
                    reads, writes, waits = set(), set(), False
                elif op["name"] in ("signal", "sem_release"):
                    if reads or writes or waits:
                        yield 15, where
                elif op["name"] in ("wait", "sem_acquire"):
                    waits = True
                else:
                    if waits or sources & writes or targets & (reads | writes):
                        yield 16, where
                    reads |= sources
                    writes |= targets


# Carrying out.


@dataclass(slots=True)
class _Begun:
    """What a thread block has begun, and not yet done."""

    op: Any
    src: list[list[Cell]]
    dst: list[list[Cell]]
    left: list[tuple[int, int]]
    """Parts of it that are left: of a put, get or copy which of its pairs, else 0; and which of their chunks, or which
    of the channels and semaphores."""
    keys: list[tuple[Any, ...]]


@dataclass(slots=True)
class _Worker:
    """A thread block in a launch."""

    rank: int
    block: Any
    next: int = 0
    begun: list[_Begun] = field(default_factory=list)
    arrived: bool = False
    """Whether it stands at a barrier."""


class Launches:
    """Several launches in a row."""

    def __init__(self, plan: Any, root: int, seed: int, times: int = 3) -> None:
        self.plan, self.root, self.chance, self.times = plan, root, Random(seed), times
        self.ranks = range(len(plan["gpus"]))
        self.memory: dict[Cell, int] = {}
        self.counts: dict[tuple[Any, ...], int] = {}
        self.launch = [-1 for _ in self.ranks]
        self.inputs: dict[tuple[int, int], list[int]] = {}
        """By launch and GPU."""
        self.workers: list[_Worker] = []
        for rank in self.ranks:
            for number, semaphore in enumerate(plan["gpus"][rank].get("semaphores", [])):
                self.counts["semaphore", rank, number] = semaphore["init_value"]

    def run(self) -> tuple[int, str] | None:
        """The rule that is broken, and how."""
        for rank in self.ranks:
            self._begin(rank)
        favoured = self.workers
        for turn in range(10**7):
            if turn % 64 == 0:  # for a while, some thread blocks stand still
                share = self.chance.choice((0.1, 0.5, 1.0))
                favoured = [worker for worker in self.workers if self.chance.random() < share]
            worker = self._one_of(favoured) or self._one_of(self.workers)
            if worker is None:
                break
            self._turn(worker)
            if self._has_ended(worker.rank):
                broken = self._end(worker.rank)
                if broken is not None:
                    return broken
        stuck = [w for w in self.workers if w.next < len(w.block["ops"]) or w.begun]
        if stuck:
            said = ", ".join(f"GPU {w.rank} thread block {w.block['id']} at {w.next}" for w in stuck[:4])
            return 17, f"launch {self.launch}: {said}"
        return None

    def _one_of(self, workers: list[_Worker]) -> _Worker | None:
        """A thread block that can go on, each of them as likely as the others."""
        left = [*workers]
        while left:
            at = self.chance.randrange(len(left))
            if self._may(left[at]):
                return left[at]
            left[at] = left[-1]
            left.pop()
        return None

    def _begin(self, rank: int) -> None:
        self.launch[rank] += 1
        gpu = self.plan["gpus"][rank]
        for buffer, key in (("o", "output_chunks"), ("s", "scratch_chunks"), ("i", "input_chunks")):
            values = [self.chance.randrange(MODULUS) for _ in range(gpu[key])]
            for chunk, value in enumerate(values):
                self.memory[_cell(self.plan, rank, buffer, chunk)] = value
            if buffer == "i":
                self.inputs[self.launch[rank], rank] = values
        self.workers = [worker for worker in self.workers if worker.rank != rank]
        self.workers += [_Worker(rank, block) for block in gpu["threadblocks"]]

    def _has_ended(self, rank: int) -> bool:
        own = [worker for worker in self.workers if worker.rank == rank]
        return all(worker.next == len(worker.block["ops"]) and not worker.begun for worker in own)

    def _end(self, rank: int) -> tuple[int, str] | None:
        launch = self.launch[rank]
        for chunk, wanted in enumerate(self._results(rank, launch)):
            if wanted is not None and self.memory[_cell(self.plan, rank, "o", chunk)] != wanted:
                return 18, f"chunk {chunk} of GPU {rank} in launch {launch}"
        if launch + 1 < self.times:
            self._begin(rank)
        else:
            self.workers = [worker for worker in self.workers if worker.rank != rank]
        return None

    def _results(self, rank: int, launch: int) -> list[int | None]:
        """What the output has to hold."""
        kind, count = self.plan["collective"], self.plan["gpus"][rank]["output_chunks"]
        all_inputs = [self.inputs.get((launch, other)) for other in self.ranks]
        if kind in ("reduce", "gather") and rank != self.root:
            return [None] * count
        if kind in ("broadcast", "scatter"):
            all_inputs = [all_inputs[self.root]]
        if any(values is None for values in all_inputs):
            return [-1] * count  # it has ended before others have begun, whose data it needs
        inputs = [values for values in all_inputs if values is not None]
        if kind in ("allreduce", "reduce"):
            return [sum(column) % MODULUS for column in zip(*inputs, strict=True)]
        if kind == "reducescatter":
            return [sum(column) % MODULUS for column in zip(*inputs, strict=True)][rank * count : (rank + 1) * count]
        if kind in ("allgather", "gather"):
            return [value for values in inputs for value in values]
        if kind == "broadcast":
            return [*inputs[0]]
        if kind == "scatter":
            return [*inputs[0][rank * count : (rank + 1) * count]]
        share = count // len(self.ranks)
        return [value for values in inputs for value in values[rank * share : (rank + 1) * share]]

    def _may(self, worker: _Worker) -> bool:
        return self._may_begin(worker) or any(self._is_ready(begun) for begun in worker.begun)

    def _may_begin(self, worker: _Worker) -> bool:
        if worker.next == len(worker.block["ops"]):
            return False
        op = worker.block["ops"][worker.next]
        if op["name"] == "nop":
            return not worker.begun
        return not (op["name"] == "barrier" and (worker.begun or worker.arrived))

    def _is_ready(self, begun: _Begun) -> bool:
        if begun.op["name"] in ("wait", "sem_acquire"):
            return any(self.counts.get(begun.keys[nth], 0) > 0 for _, nth in begun.left)
        return bool(begun.left)

    def _ready(self, begun: _Begun) -> list[int]:
        """Which of the parts that are left can be done."""
        if begun.op["name"] in ("wait", "sem_acquire"):
            return [at for at, (_, nth) in enumerate(begun.left) if self.counts.get(begun.keys[nth], 0) > 0]
        return [*range(len(begun.left))]

    def _turn(self, worker: _Worker) -> None:
        ready = [(begun, self._ready(begun)) for begun in worker.begun]
        ready = [(begun, parts) for begun, parts in ready if parts]
        if self._may_begin(worker) and (not ready or self.chance.random() < 0.5):
            self._begin_next(worker)
            return
        begun, parts = self.chance.choice(ready)
        self._do(begun, begun.left.pop(self.chance.choice(parts)))
        worker.begun = [begun for begun in worker.begun if begun.left]

    def _begin_next(self, worker: _Worker) -> None:
        op = worker.block["ops"][worker.next]
        if op["name"] == "barrier":
            worker.arrived = True
            others = [w for w in self.workers if w.rank == worker.rank and w.arrived]
            at = [w for w in others if w.block["ops"][w.next]["barrier_id"] == op["barrier_id"]]
            if len(at) == op["num_threadblocks"]:
                for other in at:
                    other.arrived = False
                    other.next += 1
            return
        worker.next += 1
        if op["name"] == "nop":
            return
        src, dst = (_cells(self.plan, worker.rank, worker.block, op.get(key, [])) for key in ("src_buff", "dst_buff"))
        keys = _directions(self.plan, worker.rank, worker.block, op)
        if keys:
            left = [(0, nth) for nth in range(len(keys))]
        elif op["name"] in ("put", "get", "copy"):
            left = [(pair, chunk) for pair, cells in enumerate(src) for chunk in range(len(cells))]
        else:
            left = [(0, chunk) for chunk in range(len(dst[0]))]
        worker.begun.append(_Begun(op, src, dst, left, keys))

    def _do(self, begun: _Begun, part: tuple[int, int]) -> None:
        pair, nth = part
        name = begun.op["name"]
        if name in ("signal", "sem_release"):
            self.counts[begun.keys[nth]] = self.counts.get(begun.keys[nth], 0) + 1
        elif name in ("wait", "sem_acquire"):
            self.counts[begun.keys[nth]] -= 1
        elif name in ("put", "get", "copy"):
            self.memory[begun.dst[pair][nth]] = self.memory[begun.src[pair][nth]]
        else:
            total = sum(self.memory[cells[nth]] for cells in begun.src) % MODULUS
            for cells in begun.dst:
                self.memory[cells[nth]] = total
