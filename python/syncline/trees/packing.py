"""Rates and trees, as the engine finds them (`crates/packing`), in bytes per second."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from syncline import binding
from syncline.errors import InputError, Problem
from syncline.trees.question import MOST_GPUS, Question

Collective: TypeAlias = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "gather", "scatter"
]

TASKS: Final[dict[Collective, str]] = {
    "broadcast": "from-root",
    "scatter": "from-root",
    "reduce": "from-root",
    "gather": "from-root",
    "all-gather": "from-all",
    "reduce-scatter": "from-all",
    "all-reduce": "both-ways",
}
ROOTED: Final = frozenset(name for name, task in TASKS.items() if task == "from-root")
TOWARDS_ROOT: Final = frozenset({"reduce", "gather", "reduce-scatter"})
"""Collectives whose trees carry data towards their roots."""


@dataclass(frozen=True, slots=True)
class Arc:
    """A way between two GPUs for trees."""

    src: int
    dst: int
    capacity: Fraction
    """Bytes per second."""
    via: tuple[int, ...] = ()
    """The switches on the way, as nodes of the question."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Arcs that lead from a root to every GPU."""

    root: int
    weight: Fraction
    """Bytes per second."""
    arcs: tuple[int, ...]
    """Numbers of arcs, every one after the one that leads to where it begins."""

    def depth(self, arcs: tuple[Arc, ...]) -> int:
        """The most arcs between the root and a GPU."""
        depth = {self.root: 0}
        for number in self.arcs:
            depth[arcs[number].dst] = depth[arcs[number].src] + 1
        return max(depth.values())


@dataclass(frozen=True, slots=True)
class Bound:
    """What nothing can exceed."""

    rate: Fraction
    """Bytes per second; of collectives from all roots at once, of each root."""
    sets: tuple[tuple[int, ...], ...]
    """Nodes of the question whose borders limit the rate."""
    capacity: int
    """Bytes per second that enter these sets (leave them, where data goes towards a root)."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees for a collective."""

    collective: Collective
    components: tuple[tuple[int, ...], ...]
    """GPUs in groups that reach each other."""
    bound: Bound | None
    """None with a single GPU."""
    arcs: tuple[Arc, ...]
    """Of trees that carry data away from their roots; where data goes towards them, every arc leads the other way."""
    opposite: tuple[int | None, ...]
    """Of each arc the one that leads the other way, for an all-reduce."""
    trees: tuple[Tree, ...]
    own: int | None = None
    """So many arcs, the first ones, are a network without switches, which these trees are packed on; None: all."""
    few: tuple[Tree, ...] = ()
    """Trees over switches that pass on to one neighbour what another one sends: fewer and deeper than the others. Arcs
    that only they use come last, without a capacity of their own."""
    widest: Fraction | None = None
    """Bytes per second that one tree from the root can carry at most, whatever is done with switches."""
    generators: tuple[tuple[int, ...], ...] = ()
    """If the trees are those of one root: permutations of the GPUs, which change no capacity. Their products lead the
    root to every other GPU, and its trees to those of that GPU."""

    @property
    def roots(self) -> int:
        """The GPUs that each of the trees stands for."""
        return sum(map(len, self.components)) if self.generators else 1

    @property
    def rate(self) -> Fraction:
        """Bytes per second of all trees together."""
        return sum((tree.weight for tree in self.trees), Fraction(0)) * self.roots

    @property
    def best_rate(self) -> Fraction:
        """Bytes per second that all trees together could have at most."""
        if self.bound is None:
            return Fraction(0)
        roots = sum(map(len, self.components)) if TASKS[self.collective] == "from-all" else 1
        return self.bound.rate * roots


def ask(question: Question, task: dict[str, Any], *, backward: bool = False) -> Any:
    """The engine's answer."""
    from syncline import _core

    binding.require()
    arcs = [(dst, src, rate) if backward else (src, dst, rate) for src, dst, rate in question.arcs]
    request = {"nodes": len(question.nodes), "terminals": len(question.gpus), "arcs": arcs, "task": task}
    try:
        return json.loads(_core.packing(json.dumps(request)))
    except _core.SpecError as error:
        refusals = json.loads(str(error))
        raise InputError(
            [Problem("topology", None, "links", None, refusal["message"], refusal["accepted"]) for refusal in refusals]
        ) from None


def of(question: Question, collective: Collective, root: int = 0) -> Packing:
    """The optimal rate of a collective, and trees that reach it. The root is a place in the list of GPUs. Where more
    than [`MOST_GPUS`] send, the trees are those of one root.
    """
    kind, backward = TASKS[collective], collective in TOWARDS_ROOT
    if kind == "from-root":
        packed = _packing(collective, ask(question, {"kind": kind, "root": root}, backward=backward))
        if len(question.nodes) == len(question.gpus) or not packed.trees:
            return packed
        few = ask(question, {"kind": kind, "root": root, "few": True}, backward=backward)
        return _with_few(packed, _packing(collective, few))
    one_root = len(question.gpus) > MOST_GPUS
    return _packing(collective, ask(question, {"kind": kind, "one_root": one_root}, backward=backward))


def _packing(collective: Collective, answer: Any) -> Packing:
    """What the engine says, in bytes per second."""
    unit = Fraction(answer["unit"], answer["factor"])
    best, widest = answer["best"], answer["widest"]
    return Packing(
        collective,
        tuple(map(tuple, answer["components"])),
        None
        if best is None
        else Bound(
            Fraction(best["rate"]["num"], best["rate"]["den"]), tuple(map(tuple, best["sets"])), best["capacity"]
        ),
        tuple(Arc(src, dst, capacity * unit, tuple(via)) for src, dst, capacity, via in answer["arcs"]),
        tuple(answer["opposite"]),
        tuple(Tree(tree["root"], tree["weight"] * unit, tuple(tree["arcs"])) for tree in answer["trees"]),
        widest=None if widest is None else Fraction(widest),
        generators=tuple(map(tuple, answer["generators"])),
    )


def _with_few(packed: Packing, other: Packing) -> Packing:
    """A packing with the trees of another one, of as large a rate, beside its own."""
    arcs = list(packed.arcs)
    number = {(arc.src, arc.dst, arc.via): place for place, arc in enumerate(arcs)}
    places = []
    for arc in other.arcs:
        place = number.setdefault((arc.src, arc.dst, arc.via), len(arcs))
        if place == len(arcs):
            arcs.append(replace(arc, capacity=Fraction(0)))
        places.append(place)
    few = tuple(replace(tree, arcs=tuple(places[arc] for arc in tree.arcs)) for tree in other.trees)
    same = few if other.rate == packed.rate else ()
    return replace(packed, arcs=tuple(arcs), own=len(packed.arcs), few=same)
