"""Rates and trees, as the engine finds them (`crates/packing`), in bytes per second."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, TypeVar

from syncline.base.errors import InputError, Problem
from syncline.core import binding
from syncline.treegen.question import Question

Collective: TypeAlias = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "gather", "scatter"
]

TASKS: Final[dict[Collective, str]] = {
    "broadcast": "from-root",
    "scatter": "to-each",
    "reduce": "from-root",
    "gather": "to-each",
    "all-gather": "from-all",
    "reduce-scatter": "from-all",
    "all-reduce": "both-ways",
}
ROOTED: Final = frozenset(name for name, task in TASKS.items() if task in ("from-root", "to-each"))
IN_PARTS: Final = frozenset(name for name, task in TASKS.items() if task == "to-each")
"""Collectives in which every GPU has a part of the vector of its own. Their trees are paths between the root and
another GPU, whose part they carry.
"""
TOWARDS_ROOT: Final = frozenset({"reduce", "gather", "reduce-scatter"})
"""Collectives whose trees carry data towards their roots."""


_Key = TypeVar("_Key")

MOST_UNEQUAL: Final = 32
"""So many GPUs have the best trees over switches that they have links of unequal rates to. Of more, trees are those
that the engine finds: exact solutions would take too long.
"""


@dataclass(frozen=True, slots=True)
class Arc:
    """A way between two GPUs for trees."""

    src: int
    dst: int
    capacity: Fraction
    """Bytes per second."""
    via: tuple[int, ...] = ()
    """The switches on the way, as nodes of the question."""
    link: Fraction | None = None
    """Of parallel links that messages take one by one, the rate of one."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Arcs that lead from a root to every GPU; to one GPU, if each has a part of its own."""

    root: int
    weight: Fraction
    """Bytes per second."""
    arcs: tuple[int, ...]
    """Numbers of arcs, every one after the one that leads to where it begins."""
    back: tuple[int, ...] | None = None
    """Of an all-reduce, numbers of the arcs that lead to the root, every one after the one that begins where it ends;
    None where these are the opposites of the others.
    """

    def depth(self, arcs: tuple[Arc, ...]) -> int:
        """The most arcs between the root and a GPU, either way."""
        depth = {self.root: 0}
        for number in self.arcs:
            depth[arcs[number].dst] = depth[arcs[number].src] + 1
        return max(*depth.values(), self.height(arcs))

    def height(self, arcs: tuple[Arc, ...]) -> int:
        """The most arcs between a GPU and the root, where other arcs lead to it."""
        height = {self.root: 0}
        for number in self.back or ():
            height[arcs[number].src] = height[arcs[number].dst] + 1
        return max(height.values())

    def hops(self, arcs: tuple[Arc, ...]) -> int:
        """The arcs that data passes at most on its way to the root and away from it."""
        away = Tree(self.root, self.weight, self.arcs).depth(arcs)
        return away + (away if self.back is None else self.height(arcs))


@dataclass(frozen=True, slots=True)
class Share:
    """A set of GPUs of which a proof makes use, and how often (docs/trees.md)."""

    nodes: tuple[int, ...]
    inward: bool
    """Whether what enters the set counts, or what leaves it."""
    times: Fraction


@dataclass(frozen=True, slots=True)
class Bound:
    """What nothing can exceed."""

    rate: Fraction
    """Bytes per second; of collectives from all roots at once, of each root."""
    sets: tuple[tuple[int, ...], ...]
    """Nodes of the question whose borders limit the rate."""
    capacity: int
    """Bytes per second that enter these sets (leave them, where data goes towards a root)."""
    shares: tuple[Share, ...] = ()
    """Where no other certificate says why an all-reduce is no faster: its proof by the duality of linear programs."""


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
    """If the trees are those of some roots: permutations of the GPUs, which change no capacity. Their products lead
    these roots to every other GPU, and their trees to those of that GPU. Of trees that are used both ways, whose roots
    do not matter, they may lead the root to some GPUs only."""
    stages: tuple[Packing, ...] = ()
    """A reduce and a broadcast, where an all-reduce is one after the other; it then has no trees of its own."""
    is_best: bool = False
    """Whether a linear program says that no trees over the switches are faster, reach these the bound or not."""

    @property
    def gpus(self) -> int:
        """How many GPUs take part."""
        return sum(map(len, self.components))

    @property
    def roots(self) -> int:
        """The roots of the trees that each of the trees stands for, its own included."""
        return images(self.generators)

    @property
    def rate(self) -> Fraction:
        """Bytes per second of the whole vector, by all trees together."""
        if self.stages:
            return 1 / sum((1 / stage.rate for stage in self.stages), Fraction(0))
        carried = sum((tree.weight for tree in self.trees), Fraction(0)) * self.roots
        # The root's own part stays where it is.
        return carried * self.gpus / (self.gpus - 1) if self.collective in IN_PARTS and self.trees else carried

    @property
    def best_rate(self) -> Fraction:
        """Bytes per second that all trees together could have at most."""
        if self.bound is None:
            return Fraction(0)
        roots = self.gpus if TASKS[self.collective] == "from-all" else 1
        return self.bound.rate * roots


def sums(trees: Sequence[Tree], carried: Iterable[tuple[_Key, Fraction]]) -> dict[_Key, Fraction]:
    """What is carried in all, where each part is the weight of one of these trees. Integers over a common denominator
    are added ten times as fast as fractions.
    """
    scale = math.lcm(*(tree.weight.denominator for tree in trees))
    found: dict[_Key, int] = {}
    for key, weight in carried:
        found[key] = found.get(key, 0) + weight.numerator * (scale // weight.denominator)
    return {key: Fraction(total, scale) for key, total in found.items()}


def ask(question: Question, task: dict[str, Any], *, backward: bool = False) -> Any:
    """The engine's answer about a machine."""
    arcs = [(dst, src, rate) if backward else (src, dst, rate) for src, dst, rate in question.arcs]
    return ask_network(len(question.nodes), len(question.gpus), arcs, task)


def ask_network(nodes: int, terminals: int, arcs: Sequence[tuple[int, int, int]], task: dict[str, Any]) -> Any:
    """The engine's answer about a network, whose first nodes are GPUs."""
    from syncline.core import _core

    binding.require()
    request = {"nodes": nodes, "terminals": terminals, "arcs": arcs, "task": task}
    try:
        return json.loads(_core.packing(json.dumps(request)))
    except _core.SpecError as error:
        refusals = json.loads(str(error))
        raise InputError(
            [Problem("topology", None, "links", None, refusal["message"], refusal["accepted"]) for refusal in refusals]
        ) from None


def lack(packed: Packing, gpus: str) -> str:
    """Why a packing of some GPUs has no trees."""
    if packed.best_rate == 0:
        return f"the links that trees use do not connect {gpus}"
    return (
        f"no trees of {gpus} were found: switches join more than {MOST_UNEQUAL} of them by links that are unequal "
        "either way"
    )


def rates(question: Question, collective: Collective) -> tuple[Fraction, ...]:
    """The optimal rate of a collective that has a root, for each GPU as the root."""
    task = {"kind": "rates", "each": collective in IN_PARTS}
    answer = ask(question, task, backward=collective in TOWARDS_ROOT)
    return tuple(Fraction(rate["num"], rate["den"]) for rate in answer)


def images(generators: Sequence[Sequence[int]]) -> int:
    """How many symmetries there are: as many as GPUs to which they lead the first one, each by one of them."""
    reached, waiting = {0}, [0]
    for gpu in waiting:
        for leads in generators:
            if leads[gpu] not in reached:
                reached.add(leads[gpu])
                waiting.append(leads[gpu])
    return len(reached)
