"""Trees as the steps of a plan (version 2 of `syncline-plan`, docs/schedules.md).

Every tree has a part of the vector, in proportion to its weight, and sends it in slices, one behind the other. As in
Blink (section 4.1), a rank has a stream, here a thread, for each tree and child: one that receives from the parent
and sends on to the first child, and one for each further child that waits for it. Where a tree is used both ways, a
rank adds what its children send, in their order, and sends the sum on.

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

from syncline.fabric.graph import BUNDLED, Graph
from syncline.schedules.plan import KINDS
from syncline.trees.packing import TOWARDS_ROOT, Collective, Packing, Tree
from syncline.trees.question import Question

NAMES: Final = {ours: name for name, ours in KINDS.items()}
"""What plans call collectives."""
SPLIT_AMONG_RANKS: Final = frozenset({"all-gather", "reduce-scatter"})

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a tree that takes one link of each arc."""

    root: int
    weight: Fraction
    parent: dict[int, int]
    children: dict[int, list[int]]
    down: dict[tuple[int, int], int]
    """Numbers of links from parents to children, of those that have one."""
    up: dict[tuple[int, int], int]
    """The same from children to parents."""


@dataclass(slots=True)
class _Ranks:
    """The threads of every rank."""

    threads: list[list[list[Step]]]
    first: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """The thread of a piece at a rank: (`up` or `down`, piece, rank)."""

    def reserve(self, way: str, piece: int, rank: int) -> None:
        """Gives a piece the next thread of a rank."""
        self.first[way, piece, rank] = len(self.threads[rank])
        self.threads[rank].append([])


def form(graph: Graph, question: Question, packing: Packing, slices: int, name: str) -> dict[str, Any]:
    """The plan of the trees of a collective other than gather and scatter."""
    collective, ranks = packing.collective, len(question.gpus)
    pieces = list(_pieces(graph, question, packing))
    unit = _common([piece.weight for piece in pieces])
    counts = [int(piece.weight / unit) for piece in pieces]
    offsets, blocks = _places(collective, ranks, pieces, [count * slices for count in counts])
    threads = _Ranks([[] for _ in range(ranks)])
    upwards = collective in TOWARDS_ROOT or collective == "all-reduce"
    downwards = collective not in TOWARDS_ROOT
    for number, _ in enumerate(pieces):
        for rank in range(ranks):
            if upwards:
                threads.reserve("up", number, rank)
            if downwards and not (upwards and rank == pieces[number].root):
                threads.reserve("down", number, rank)
    for number, piece in enumerate(pieces):
        part = _Part(number, piece, offsets[number], counts[number], threads)
        for rank in range(ranks):
            if upwards:
                part.send_up(rank, turn=downwards)
            if downwards:
                part.send_down(rank, turned=upwards)
    loops = [[[{"times": slices, "steps": steps}] for steps in rank if steps] for rank in threads.threads]
    program = {"collective": NAMES[collective], "blocks": blocks, "one_by_one": True, "queues": 1, "ranks": loops}
    return {
        "format": "syncline-plan",
        "version": 2,
        "name": name,
        "collective": NAMES[collective],
        "root": pieces[0].root if collective not in SPLIT_AMONG_RANKS and collective != "all-reduce" else 0,
        "grid": [ranks],
        "programs": [program],
    }


def _places(
    collective: Collective, ranks: int, pieces: Sequence[_Piece], lengths: Sequence[int]
) -> tuple[list[int], int]:
    """The first block of every piece, and the number of blocks."""
    if collective not in SPLIT_AMONG_RANKS:
        return [sum(lengths[:number]) for number in range(len(lengths))], sum(lengths)
    share = sum(lengths) // ranks
    used = [root * share for root in range(ranks)]
    offsets = []
    for piece, length in zip(pieces, lengths, strict=True):
        offsets.append(used[piece.root])
        used[piece.root] += length
    return offsets, sum(lengths)


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

    def _way(self, links: dict[tuple[int, int], int], src: int, dst: int) -> dict[str, Any]:
        return {"way": {"link": links[src, dst]}} if (src, dst) in links else {}

    def send_up(self, rank: int, *, turn: bool) -> None:
        """Adds what the children send, and sends the sum to the parent; the root turns it downwards, or keeps it."""
        piece = self.piece
        children = piece.children[rank]
        steps = self.threads.threads[rank][self._thread("up", rank)]
        on: dict[str, Any] = {}
        into_step = 0
        if rank != piece.root:
            parent = piece.parent[rank]
            siblings = piece.children[parent]
            on = {"to": parent, "into": [self._thread("up", parent), siblings.index(rank)]}
            on |= self._way(piece.up, rank, parent)
            into_step = len(siblings)
        elif turn:
            child = children[0]
            on = {"to": child, "into": [self._thread("down", child), 0], **self._way(piece.down, rank, child)}
            into_step = 1
        if not children:
            steps.append(self._step("s", into_step, **on))
            return
        steps += [self._step("rrc", **{"from": child}) for child in children[:-1]]
        last = "rrc" if not on else "rrs" if rank != piece.root else "rrcs"
        steps.append(self._step(last, into_step, **{"from": children[-1]}, **on))

    def send_down(self, rank: int, *, turned: bool) -> None:
        """Receives from the parent and sends to every child."""
        piece = self.piece
        children = piece.children[rank]
        at_root = rank == piece.root
        own = self._thread("up" if at_root and turned else "down", rank)
        after = [own, len(children) - 1 if at_root else 0]
        after_step = len(children) if at_root else 1
        for place, child in enumerate(children):
            on = {"to": child, "into": [self._thread("down", child), 0], **self._way(piece.down, rank, child)}
            if place > 0:
                waits = {} if at_root and not turned else {"after": after}
                self.threads.threads[rank].append([self._step("s", 1, after_step if waits else 0, **on, **waits)])
            elif not at_root:
                received = self._step("rcs", 1, **{"from": piece.parent[rank]}, **on)
                self.threads.threads[rank][own].append(received)
            elif not turned:
                self.threads.threads[rank][own].append(self._step("s", 1, **on))
        if not children and not at_root:
            self.threads.threads[rank][own].append(self._step("r", **{"from": piece.parent[rank]}))


def _common(weights: Sequence[Fraction]) -> Fraction:
    """The greatest unit of which all are multiples."""
    common = math.lcm(*(weight.denominator for weight in weights))
    return Fraction(math.gcd(*(int(weight * common) for weight in weights)), common)


def _pieces(graph: Graph, question: Question, packing: Packing) -> list[_Piece]:
    """The trees, cut where they go on over the next of parallel links."""
    rates = parallel_rates(graph, question)
    backward = packing.collective in TOWARDS_ROOT
    both = packing.collective == "all-reduce"
    filled: dict[tuple[int, int], Fraction] = {}
    starts: list[dict[tuple[str, int, int], Fraction]] = []
    cuts: list[set[Fraction]] = []
    for tree in packing.trees:
        start: dict[tuple[str, int, int], Fraction] = {}
        at = {Fraction(0), tree.weight}
        for number in tree.arcs:
            ends = packing.arcs[number].src, packing.arcs[number].dst
            uses = [("up", ends[1], ends[0])] if backward else [("down", *ends)]
            if both:
                uses.append(("up", ends[1], ends[0]))
            for way, src, dst in uses:
                rate = rates.get((src, dst))
                if rate is None or packing.arcs[number].via:
                    continue
                begins = filled.get((src, dst), Fraction(0))
                start[way, src, dst] = begins
                filled[src, dst] = begins + tree.weight
                boundary = (begins // rate + 1) * rate
                while boundary < begins + tree.weight:
                    at.add(boundary - begins)
                    boundary += rate
        starts.append(start)
        cuts.append(at)
    pieces = []
    for tree, start, at in zip(packing.trees, starts, cuts, strict=True):
        for low, high in pairwise(sorted(at)):
            links: dict[str, dict[tuple[int, int], int]] = {"up": {}, "down": {}}
            for (way, src, dst), begins in start.items():
                links[way][src, dst] = int((begins + low) // rates[src, dst])
            parent, children = _shape(packing, tree, len(question.gpus))
            pieces.append(_Piece(tree.root, high - low, parent, children, links["down"], links["up"]))
    return pieces


def _shape(packing: Packing, tree: Tree, ranks: int) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Parents and children of a tree."""
    parent: dict[int, int] = {}
    children: dict[int, list[int]] = {rank: [] for rank in range(ranks)}
    for number in tree.arcs:
        arc = packing.arcs[number]
        parent[arc.dst] = arc.src
        children[arc.src].append(arc.dst)
    return parent, children


def parallel_rates(graph: Graph, question: Question) -> dict[tuple[int, int], int]:
    """Of ranks with several links to each other, the payload rate of one."""
    rank = {gpu: place for place, gpu in enumerate(question.gpus)}
    return {
        (rank[link.src], rank[link.dst]): link.payload_rate
        for link in graph.links
        if link.count > 1 and link.kind not in BUNDLED and link.src in rank and link.dst in rank
    }
