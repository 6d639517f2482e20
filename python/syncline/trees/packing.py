"""Rates and trees, as the engine finds them (`crates/packing`), in bytes per second."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from syncline import binding
from syncline.errors import InputError, Problem
from syncline.trees.question import Question

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

    @property
    def rate(self) -> Fraction:
        """Bytes per second of all trees together."""
        return sum((tree.weight for tree in self.trees), Fraction(0))

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
    """The optimal rate of a collective, and trees that reach it. The root is a place in the list of GPUs."""
    kind = TASKS[collective]
    task: dict[str, Any] = {"kind": kind}
    if kind == "from-root":
        task["root"] = root
    answer = ask(question, task, backward=collective in TOWARDS_ROOT)
    unit = Fraction(answer["unit"], answer["factor"])
    best = answer["best"]
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
    )
