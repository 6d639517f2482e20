"""Trees as the steps of a plan (version 2 of `syncline-plan`, docs/schedules.md).

Every tree has a part of the vector, in proportion to its weight, and sends it in slices, one behind the other. As in
Blink (section 4.1), a rank has a stream, here a thread, for each tree and child. It waits for the one that receives
from the parent, which sends on itself if there is one child only. Where a tree is used both ways, a rank adds what
its children send, in their order, and sends the sum on; the trees to a root and from it may differ.
Where an all-reduce is a reduce and then a broadcast, the root begins to send when it has all sums. In a scatter or a
gather, each rank's own part goes along paths.

*Links that several trees share* carry a slice of each in turn, since all that a rank sends to another one is one
queue. With a queue for each tree, the network would give them equal shares, whatever their weights are, and the
lighter ones would leave gaps (section 4.2.2 makes the same of CUDA streams): 70.9 instead of 85.2 GB/s for an
all-reduce on all of a DGX-1V.

GPUs may have several links to each other, and a message takes one. So trees that take more than one link are cut into
pieces that each take one link of every arc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from syncline.fabric.allocation import NVLINK_CLASSES
from syncline.fabric.graph import PCIE, Graph
from syncline.plans.plan import KINDS
from syncline.treegen.packing import IN_PARTS, TOWARDS_ROOT, Collective, Packing
from syncline.treegen.passing import MOST, Passing
from syncline.treegen.question import Question

NAMES: Final = {ours: name for name, ours in KINDS.items()}
"""What plans call collectives."""
SPLIT_AMONG_RANKS: Final = frozenset({"all-gather", "reduce-scatter"})
MOST_BLOCKS: Final = 1 << 24
"""Of a plan."""
MOST_CELLS: Final = 3 << 23
"""Blocks of all ranks together; the verifier counts them twice, and has room for steps, too."""
MOST_STEPS: Final = 1 << 24
"""Steps of all ranks together, beside these."""
MOST_CLOCKS: Final = 1 << 26
"""The most steps of a rank times the most threads: what the verifier has room for."""
FINEST: Final = 1 << 13
"""Blocks of a slice, as far as weights leave a choice: of finer weights, trees get what is nearest."""
OF_RANKS: Final = frozenset(NAMES[name] for name in SPLIT_AMONG_RANKS)
"""What plans call these."""

BEHIND: Final[dict[str, Any]] = {"over": PCIE}
"""The way between GPUs that have an NVLink, which the fabric would take."""

Step = dict[str, Any]
Way = dict[str, Any]
"""As a step has it: over a link by its number, over PCIe, or through nodes that it names."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a tree that takes one link of each arc."""

    root: int
    weight: Fraction
    parent: dict[int, int]
    children: dict[int, list[int]]
    down: dict[tuple[int, int], Way]
    """The ways of messages from parents to children that do not take the fabric's route."""
    up: dict[tuple[int, int], Way]
    """The same from children to parents."""
    back: tuple[dict[int, int], dict[int, list[int]]] | None = None
    """Parents and children of the tree to the root, where that is another one."""

    @property
    def to_root(self) -> tuple[dict[int, int], dict[int, list[int]]]:
        """Parents and children along which data goes to the root."""
        return (self.parent, self.children) if self.back is None else self.back

    @property
    def path(self) -> list[int]:
        """The ranks from the root on, each the only child of the one before it."""
        ranks = [self.root]
        while self.children[ranks[-1]]:
            ranks.append(self.children[ranks[-1]][0])
        return ranks


@dataclass(slots=True)
class _Ranks:
    """The threads of every rank: the steps for a slice, which are done for every one of them."""

    threads: list[list[list[Step]]]
    slices: int
    pieces: int = 0
    """How many have threads."""
    begin: dict[tuple[int, int], list[Step]] = field(default_factory=dict)
    """Of (rank, thread) the steps that are done once, before all others."""
    first: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """The thread of a piece at a rank: (`up` or `down`, piece, rank)."""

    def reserve(self, way: str, piece: int, rank: int) -> None:
        """Gives a piece the next thread of a rank."""
        self.first[way, piece, rank] = len(self.threads[rank])
        self.threads[rank].append([])

    def wait(self, rank: int, thread: int, before: Sequence[int]) -> None:
        """Lets a thread begin after the last steps of others of its rank."""
        ends = [(other, len(self.threads[rank][other]) * self.slices - 1) for other in before]
        self.begin[rank, thread] = [{"op": "nop", "after": list(end)} for end in ends if end[1] >= 0]

    @property
    def most_slices(self) -> int:
        """With so many slices, the steps are as many as the verifier has room for; 1 at least."""
        steps = [sum(map(len, of_rank)) for of_rank in self.threads]
        begun = [0] * len(steps)
        for (rank, _), once in self.begin.items():
            begun[rank] += len(once)
        room = MOST_CLOCKS // max(1, *map(len, self.threads))
        most = [(room - once) // max(1, count) for once, count in zip(begun, steps, strict=True)]
        return max(1, min([(MOST_STEPS - sum(begun)) // max(1, sum(steps)), *most]))

    def loops(self) -> list[list[list[dict[str, Any]]]]:
        """The threads as a plan has them."""

        def thread(rank: int, number: int, steps: list[Step]) -> list[dict[str, Any]]:
            begin = self.begin.get((rank, number))
            return [*([{"steps": begin}] if begin else []), {"times": self.slices, "steps": steps}]

        return [
            [thread(rank, number, steps) for number, steps in enumerate(threads)]
            for rank, threads in enumerate(self.threads)
        ]


def form(graph: Graph, question: Question, packing: Packing, slices: int, name: str) -> dict[str, Any]:
    """The plan of the trees of a collective. Steps name what their messages pass where the fabric would choose another
    way, unless these are too many ways.
    """
    collective, ranks = packing.collective, len(question.gpus)
    passing = Passing(graph, question)
    stages = [_Stage.of(passing, stage) for stage in packing.stages or (packing,)]
    # Blocks are so small that those of every stage are some of them.
    each = math.lcm(*(stage.blocks for stage in stages))
    slices = max(1, min(slices, MOST_BLOCKS // each, MOST_CELLS // (each * ranks)))
    threads = _written(stages, ranks, each, slices)
    if (most := threads.most_slices) < slices:
        slices = most
        threads = _written(stages, ranks, each, slices)
    program = {
        **{"collective": NAMES[collective], "blocks": each * slices, "one_by_one": True, "queues": 1},
        "ranks": threads.loops(),
    }
    made = {
        "format": "syncline-plan",
        "version": 2,
        "name": name,
        "collective": NAMES[collective],
        "root": stages[0].pieces[0].root if collective not in SPLIT_AMONG_RANKS and collective != "all-reduce" else 0,
        "grid": [ranks],
        "programs": [program],
    }
    return made if len(passing.told) <= MOST else by_routes(made)


def by_routes(form: dict[str, Any]) -> dict[str, Any]:
    """The plan, whose messages now pass what the fabric chooses: it is one for other GPUs, too, that are linked in the
    same way.
    """
    loops = (loop for rank in form["programs"][0]["ranks"] for thread in rank for loop in thread)
    for step in (step for loop in loops for step in loop["steps"]):
        if "through" in step.get("way", ()):
            del step["way"]
    return form


def _written(stages: Sequence[_Stage], ranks: int, each: int, slices: int) -> _Ranks:
    """The threads of stages one after the other, with so many blocks of a slice."""
    threads = _Ranks([[] for _ in range(ranks)], slices)
    before: list[list[int]] = [[] for _ in range(ranks)]
    for stage in stages:
        first = [len(of_rank) for of_rank in threads.threads]
        stage.write(threads, each // stage.blocks, before)
        before = [list(range(begin, len(of_rank))) for begin, of_rank in zip(first, threads.threads, strict=True)]
    return threads


@dataclass(frozen=True, slots=True)
class _Stage:
    """The trees of a collective, or of a part of it, with their blocks."""

    collective: Collective
    pieces: list[_Piece]
    counts: list[int]
    """Of each piece, the blocks of a slice."""
    offsets: list[int]
    """Of each piece, its first block, if there is one slice."""
    blocks: int
    """Of a slice of everything, parts included that stay where they are."""

    @classmethod
    def of(cls, passing: Passing, packing: Packing) -> _Stage:
        """The stage of trees."""
        question = passing.asked
        pieces = list(_pieces(passing, packing))
        unit = _common([piece.weight for piece in pieces])
        counts = [int(piece.weight / unit) for piece in pieces]
        if sum(counts) > FINEST and packing.collective not in SPLIT_AMONG_RANKS | IN_PARTS:
            counts = [max(1, round(Fraction(count * FINEST, sum(counts)))) for count in counts]
        offsets, blocks = _places(packing.collective, len(question.gpus), pieces, counts)
        return cls(packing.collective, pieces, counts, offsets, blocks)

    def write(self, threads: _Ranks, finer: int, before: Sequence[Sequence[int]]) -> None:
        """Adds the steps, on blocks of which `finer` are one; the root begins when threads of it are done."""
        if self.collective in IN_PARTS:
            return self._write_paths(threads, finer)
        upwards = self.collective in TOWARDS_ROOT or self.collective == "all-reduce"
        downwards = self.collective not in TOWARDS_ROOT
        base = threads.pieces
        threads.pieces += len(self.pieces)
        for number, piece in enumerate(self.pieces, base):
            for rank in range(len(threads.threads)):
                if upwards:
                    threads.reserve("up", number, rank)
                if downwards and not (upwards and rank == piece.root):
                    threads.reserve("down", number, rank)
        for number, (piece, offset, count) in enumerate(zip(self.pieces, self.offsets, self.counts, strict=True), base):
            part = _Part(number, piece, offset * finer * threads.slices, count * finer, threads)
            for rank in range(len(threads.threads)):
                if upwards:
                    part.send_up(rank, turn=downwards)
                if downwards:
                    part.send_down(rank, turned=upwards, before=before[rank] if rank == piece.root else ())
        return None

    def _write_paths(self, threads: _Ranks, finer: int) -> None:
        base = threads.pieces
        threads.pieces += len(self.pieces)
        towards_root = self.collective in TOWARDS_ROOT
        for number, piece in enumerate(self.pieces, base):
            for rank in piece.path:
                threads.reserve("path", number, rank)
        for number, (piece, offset, count) in enumerate(zip(self.pieces, self.offsets, self.counts, strict=True), base):
            part = _Part(number, piece, offset * finer * threads.slices, count * finer, threads)
            part.pass_on(towards_root=towards_root)


def _places(
    collective: Collective, ranks: int, pieces: Sequence[_Piece], lengths: Sequence[int]
) -> tuple[list[int], int]:
    """The first block of every piece, and the number of blocks."""
    if collective in SPLIT_AMONG_RANKS:
        owners = [piece.root for piece in pieces]
        share = sum(lengths) // ranks
    elif collective in IN_PARTS:
        owners = [piece.path[-1] for piece in pieces]
        share = sum(lengths) // (ranks - 1)
    else:
        return [sum(lengths[:number]) for number in range(len(lengths))], sum(lengths)
    used = [rank * share for rank in range(ranks)]
    offsets = []
    for owner, length in zip(owners, lengths, strict=True):
        offsets.append(used[owner])
        used[owner] += length
    return offsets, share * ranks


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece with its blocks of the vector: `count` for each slice, from `offset` on."""

    number: int
    piece: _Piece
    offset: int
    count: int
    threads: _Ranks

    def _step(self, op: str, into_step: int = 0, after_step: int = 0, **more: Any) -> Step:
        """A step on the blocks of a slice; where it says so, what takes its message, or is waited for, comes once in
        so many steps.
        """
        following = {"block": self.count}
        if into_step:
            following["into"] = into_step
        if after_step:
            following["after"] = after_step
        return {"op": op, "block": self.offset, "count": self.count, **more, "next": following}

    def _thread(self, way: str, rank: int) -> int:
        return self.threads.first[way, self.number, rank]

    def _way(self, ways: dict[tuple[int, int], Way], src: int, dst: int) -> dict[str, Any]:
        return {"way": dict(ways[src, dst])} if (src, dst) in ways else {}

    def send_up(self, rank: int, *, turn: bool) -> None:
        """Adds what the children send, and sends the sum to the parent; the root turns it downwards, or keeps it."""
        piece = self.piece
        parents, all_children = piece.to_root
        children = all_children[rank]
        steps = self.threads.threads[rank][self._thread("up", rank)]
        on: dict[str, Any] = {}
        into_step = 0
        if rank != piece.root:
            parent = parents[rank]
            siblings = all_children[parent]
            on = {"to": parent, "into": [self._thread("up", parent), siblings.index(rank)]}
            on |= self._way(piece.up, rank, parent)
            into_step = len(siblings)
        elif turn and len(piece.children[rank]) == 1:
            child = piece.children[rank][0]
            on = {"to": child, "into": [self._thread("down", child), 0], **self._way(piece.down, rank, child)}
            into_step = 1
        if not children:
            steps.append(self._step("s", into_step, **on))
            return
        steps += [self._step("rrc", **{"from": child}) for child in children[:-1]]
        last = "rrc" if not on else "rrs" if rank != piece.root else "rrcs"
        steps.append(self._step(last, into_step, **{"from": children[-1]}, **on))

    def send_down(self, rank: int, *, turned: bool, before: Sequence[int]) -> None:
        """Receives from the parent and sends to every child; the root after other threads of it, where it says so.

        A single child has what comes sent on by the thread that receives it. Of several, each has a thread of its own:
        none waits until the data has left for another one.
        """
        piece, threads = self.piece, self.threads
        children = piece.children[rank]
        at_root = rank == piece.root
        own = self._thread("up" if at_root and turned else "down", rank)
        starts = at_root and not turned
        # The root has added all that it receives once it has done so for its last child upwards.
        adding = len(piece.to_root[1][rank]) if at_root else 1
        if not at_root and len(children) != 1:
            threads.threads[rank][own].append(self._step("r", **{"from": piece.parent[rank]}))
        for place, child in enumerate(children):
            on = {"to": child, "into": [self._thread("down", child), 0], **self._way(piece.down, rank, child)}
            if starts and place == 0:
                threads.threads[rank][own].append(self._step("s", 1, **on))
            elif starts:
                threads.threads[rank].append([self._step("s", 1, **on)])
            elif len(children) > 1:
                threads.threads[rank].append([self._step("s", 1, adding, **on, after=[own, adding - 1])])
            elif not at_root:
                received = self._step("rcs", 1, **{"from": piece.parent[rank]}, **on)
                threads.threads[rank][own].append(received)
            if before and starts:
                threads.wait(rank, len(threads.threads[rank]) - 1 if place > 0 else own, before)

    def pass_on(self, *, towards_root: bool) -> None:
        """Sends from one end of a path to the other.

        A rank sends on in a thread of its own: only messages of threads that do nothing else take turns. Those that a
        rank sends on as soon as they come would leave nothing to its own, and arrive earlier than their next link has
        room for them (72 instead of 90 GB/s for a gather on six GPUs of a DGX-1V).
        """
        ranks = self.piece.path
        links = self.piece.down
        if towards_root:
            ranks, links = ranks[::-1], self.piece.up
        for place, rank in enumerate(ranks):
            own = self._thread("path", rank)
            threads = self.threads.threads[rank]
            received = {"from": ranks[place - 1]} if place else {}
            if place + 1 == len(ranks):
                threads[own].append(self._step("r", **received))
                continue
            to = ranks[place + 1]
            on = {"to": to, "into": [self._thread("path", to), 0], **self._way(links, rank, to)}
            if not place:
                threads[own].append(self._step("s", 1, **on))
            elif self.threads.slices == 1:
                threads[own].append(self._step("rcs", 1, **received, **on))
            else:
                threads[own].append(self._step("r", **received))
                threads.append([self._step("s", 1, 1, after=[own, 0], **on)])


def _common(weights: Sequence[Fraction]) -> Fraction:
    """The greatest unit of which all are multiples."""
    common = math.lcm(*(weight.denominator for weight in weights))
    return Fraction(math.gcd(*(int(weight * common) for weight in weights)), common)


def _pieces(passing: Passing, packing: Packing) -> list[_Piece]:
    """The trees, cut where they go on over the next of parallel links."""
    graph, question = passing.graph, passing.asked
    rates, direct = {(src, dst): rate for src, dst, rate in question.single}, _direct(graph, question)
    backward = packing.collective in TOWARDS_ROOT
    both = packing.collective == "all-reduce"
    filled: dict[tuple[int, int], Fraction] = {}
    starts: list[dict[tuple[str, int, int], Fraction]] = []
    arounds: list[dict[tuple[str, int, int], Way]] = []
    cuts: list[set[Fraction]] = []
    for tree in packing.trees:
        start: dict[tuple[str, int, int], Fraction] = {}
        behind: dict[tuple[str, int, int], Way] = {}
        at = {Fraction(0), tree.weight}
        for number, forth in [*((arc, True) for arc in tree.arcs), *((arc, False) for arc in tree.back or ())]:
            arc = packing.arcs[number]
            ends = arc.src, arc.dst
            if forth:
                uses = [("up", ends[1], ends[0])] if backward else [("down", *ends)]
                if both and tree.back is None:
                    uses.append(("up", ends[1], ends[0]))
            else:
                uses = [("up", *ends)]
            for way, src, dst in uses:
                rate, around = rates.get((src, dst)), bool(arc.via)
                if around and (src, dst) in direct:
                    behind[way, src, dst] = BEHIND
                elif around:
                    named = passing.named(src, arc.via if (src, dst) == ends else arc.via[::-1], dst)
                    if named is not None:
                        behind[way, src, dst] = {"through": named}
                if rate is None or around:
                    continue
                begins = filled.get((src, dst), Fraction(0))
                start[way, src, dst] = begins
                filled[src, dst] = begins + tree.weight
                boundary = (begins // rate + 1) * rate
                while boundary < begins + tree.weight:
                    at.add(boundary - begins)
                    boundary += rate
        starts.append(start)
        arounds.append(behind)
        cuts.append(at)
    pieces = []
    for tree, start, behind, at in zip(packing.trees, starts, arounds, cuts, strict=True):
        for low, high in pairwise(sorted(at)):
            ways: dict[str, dict[tuple[int, int], Way]] = {"up": {}, "down": {}}
            for (way, src, dst), begins in start.items():
                ways[way][src, dst] = {"link": int((begins + low) // rates[src, dst])}
            for (way, src, dst), beside in behind.items():
                ways[way][src, dst] = beside
            parent, children = _shape(packing, tree.arcs, len(question.gpus))
            back = None if tree.back is None else _shape(packing, tree.back, len(question.gpus), back=True)
            pieces.append(_Piece(tree.root, high - low, parent, children, ways["down"], ways["up"], back))
    return pieces


def _shape(
    packing: Packing, arcs: Sequence[int], ranks: int, *, back: bool = False
) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Parents and children of a tree whose arcs lead from its root, or back to it."""
    parent: dict[int, int] = {}
    children: dict[int, list[int]] = {rank: [] for rank in range(ranks)}
    for number in arcs:
        arc = packing.arcs[number]
        above, below = (arc.dst, arc.src) if back else (arc.src, arc.dst)
        parent[below] = above
        children[above].append(below)
    return parent, children


def _direct(graph: Graph, question: Question) -> set[tuple[int, int]]:
    """Ranks with an NVLink to each other, where PCIe leads from one to the other, too."""
    rank = {gpu: place for place, gpu in enumerate(question.gpus)}
    if PCIE not in graph.classes:
        return set()
    links = (link for link in graph.links if link.kind in NVLINK_CLASSES)
    return {(rank[link.src], rank[link.dst]) for link in links if link.src in rank and link.dst in rank}
