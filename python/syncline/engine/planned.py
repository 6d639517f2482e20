"""`collective.algorithm: packed-trees`: the plans of trees for what an experiment asks for.

The engine says which collectives a run has, of whom and how large they are (`asked`). Collectives of nearly equal size
have the same plan, since trees and the number of slices hardly depend on it; every plan says up to which size it goes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from syncline.base.errors import InputError
from syncline.engine import demand
from syncline.engine.demand import Ask, Asked, DemandError
from syncline.fabric import allocation
from syncline.fabric.topologies import Wired
from syncline.sections.packed import MOST_SLICES, PACKED, PLANNED
from syncline.treegen import choice, hybrid, packing, plan, question, servers
from syncline.treegen.choice import Best, Goal
from syncline.treegen.hybrid import Hybrid
from syncline.treegen.servers import Servers

if TYPE_CHECKING:
    from syncline.fabric.graph import Graph
    from syncline.sections.collective import Collective
    from syncline.sections.experiment import Experiment

STEPS_OF_TWO: Final = 2
"""Sizes whose ratio is below the square root of two share a plan: so many classes for each doubling."""
KEPT: Final = 64
"""Networks whose trees are kept: runs are set up several times, and points of a sweep share their network."""
MOST_TRIED: Final = {"broadcast": 128, "reduce": 128}
"""Per kind of collectives, GPUs of a group of which plans of trees take about a second: with more they are not tried
beside other algorithms, since every run verifies its plans."""
MOST_WITH_SEVERAL_ROOTS: Final = 32
"""The same for other kinds."""
PS_PER_S: Final = 10**12

HYBRID: Final = "hybrid"

_Links: TypeAlias = question.Links | Literal["hybrid"]


class TreesError(DemandError):
    """There are no trees for a collective."""


def packs(collective: Collective, kind: str) -> bool:
    """Whether trees carry out a kind of collectives."""
    return collective.algorithm_of(kind) == PACKED and not any(given.kind == kind for given in collective.plan)


def is_quick(experiment: Experiment, kinds: Iterable[str]) -> bool:
    """Whether trees of these kinds of collectives are found in the time of a trial, if there are any."""
    most = min((MOST_TRIED.get(kind, MOST_WITH_SEVERAL_ROOTS) for kind in kinds), default=0)
    return isinstance(experiment.topology, Wired) and experiment.ranks <= most


def is_wanted(specified: dict[str, Any]) -> bool:
    """Whether any collective of the engine's description is to have trees."""
    return any(section.get("trees") for section in demand.sections(specified))


def completed(experiment: Experiment, specified: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """The engine's description with the plans of trees. Raises [`TreesError`] where there are no trees."""
    for part, section, wish in list(_wanted(experiment, specified, ask)):
        section.setdefault("plans", []).extend(_plans(_fabric(experiment), part, section, wish))
    return specified


@dataclass(frozen=True, slots=True)
class Shown:
    """Trees of a run."""

    graph: Graph
    asked: question.Question
    best: Best
    goal: Goal

    @property
    def least_seconds(self) -> float:
        """The predicted time of a chunk in any number of slices that take nothing beside their bytes."""
        packed = self.best.packing
        return choice.seconds(packed, packed.trees, self.goal.size, overhead_s=0.0)


def shown(experiment: Experiment, specified: dict[str, Any], ask: Ask) -> Iterator[Shown]:
    """The trees of the largest collective of each kind and root, of the first of communicators that are alike."""
    fabric = _fabric(experiment)
    for part, section, wish in list(_wanted(experiment, specified, ask)):
        largest = {(kind, root): size for kind, root, size in sorted(part.collectives) if kind in wish.kinds}
        if len(part.members[0]) > 1:
            solved = _solved(fabric, part.members[0], wish.links)
            for (kind, root), size in largest.items():
                for asked, best, goal in solved.chosen(kind, root, _chunk(size, kind, section), wish):
                    yield Shown(fabric.graph, asked, best, goal)


def largest(experiment: Experiment, specified: dict[str, Any], ask: Ask) -> int:
    """Bytes of the largest chunk that is cut into slices; 0 if nothing is sent."""
    return max(
        (
            _chunk(size, kind, section)
            for part, section, wish in list(_wanted(experiment, specified, ask))
            for kind, _, size in part.collectives
            if kind in wish.kinds and len(part.members[0]) > 1
        ),
        default=0,
    )


def _fabric(experiment: Experiment) -> Wired:
    topology = experiment.topology
    if not isinstance(topology, Wired):
        message = "trees are packed on links, of which this topology has none by name"
        raise TreesError(("collective", "algorithm"), message, "a machine, a cluster or a topology file")
    return topology


def _wanted(
    experiment: Experiment, specified: dict[str, Any], ask: Ask
) -> Iterator[tuple[Asked, dict[str, Any], _Wish]]:
    """What communicators are asked for, the engine's description of how it is carried out, and which trees are to do
    it. The description loses what is said of trees, which the engine knows nothing of.
    """
    _fabric(experiment)
    wanted = {id(section): section.pop("trees", None) for section in demand.sections(specified)}
    for part, section in demand.parts(specified, ask):
        trees = wanted[id(section)]
        if trees is not None:
            endpoint = experiment.endpoint
            peer_access = getattr(endpoint, "peer_access_latency", 0)
            yield part, section, _Wish(**trees, overhead=endpoint.slice_overhead, peer_access=peer_access)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is said of the trees of a section."""

    kinds: tuple[str, ...]
    links: _Links
    objective: choice.Objective
    slices: int | None
    slice: int | None
    """The most bytes of a slice, in place of their number."""
    overhead: int | None
    """Picoseconds that a slice costs beside its bytes, if the endpoint says so."""
    peer_access: int
    """Picoseconds that switching peer access costs for each GPU."""

    def slices_of(self, chunk: int) -> int | None:
        """The slices of a chunk of so many bytes, if anything is said of them."""
        if self.slice is None:
            return self.slices
        return min(MOST_SLICES, max(1, -(-chunk // self.slice)))


def section(collective: Collective, kinds: Sequence[str]) -> dict[str, Any]:
    """What the engine's description of how collectives are carried out holds until it is `completed`."""
    packed = tuple(kind for kind in kinds if packs(collective, kind))
    if not packed:
        return {}
    trees = collective.trees
    said = {"links": trees.links, "objective": trees.objective}
    number = collective.slices if isinstance(collective.slices, int) else None
    return {"trees": {"kinds": packed, **said, "slices": number, "slice": collective.slice}}


def _plans(topology: Wired, part: Asked, section: dict[str, Any], wish: _Wish) -> Iterator[dict[str, Any]]:
    """The plans of what communicators are asked for, those of a kind and root by size."""
    first, *others = part.members
    if len(first) == 1:
        return  # there is nobody to send to
    solved = _solved(topology, first, wish.links)
    for members in others:
        if not solved.is_like(_solved(topology, members, wish.links)):
            message = "groups whose GPUs are linked in different ways need trees of their own"
            raise TreesError(("groups",), message, "groups that are alike, such as the same GPUs of every server")
    by_use: dict[tuple[str, int], list[int]] = {}
    for kind, root, size in part.collectives:
        if kind in wish.kinds:
            by_use.setdefault((kind, root), []).append(size)
    for (kind, root), sizes in sorted(by_use.items()):
        if kind not in PLANNED:
            raise TreesError(("collective", "algorithm"), f"no trees carry out {kind}", ", ".join(PLANNED))
        classes: dict[int, int] = {}
        for size in sorted(sizes):
            classes[_size_class(size)] = size
        largest = max(classes.values())
        for size in classes.values():
            form = solved.form(kind, root, _chunk(size, kind, section), wish, shared=bool(others))
            yield {"plan": form} if size == largest else {"plan": form, "up_to_bytes": size}


def _size_class(size: int) -> int:
    return 0 if size == 0 else 1 + int(STEPS_OF_TWO * math.log2(size))


def _chunk(size: int, kind: str, section: dict[str, Any]) -> int:
    """Bytes of the chunks of a collective, before padding."""
    return -(-size // max(1, demand.chunks(section, kind, size)))


@dataclass(slots=True)
class _Solved:
    """The network of some GPUs, and the trees that have been looked for."""

    graph: Graph
    asked: question.Question
    auto: bool
    """Whether nothing is said of which links trees use."""
    forms: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """Plans by trees and number of slices, or by what parts are made for."""
    parts: dict[tuple[Any, ...], Hybrid | Servers] = field(default_factory=dict)
    """Trees over several kinds of links, or of several servers, by what they are for."""
    ways: dict[tuple[str, int], list[Servers]] = field(default_factory=dict)
    """Trees of several servers by kind and root, which do not depend on sizes."""

    def is_like(self, other: _Solved) -> bool:
        """Whether trees of the one are trees of the other."""
        one, two = self.asked, other.asked
        return (one.arcs, one.single, len(one.gpus)) == (two.arcs, two.single, len(two.gpus))

    def form(self, kind: str, root: int, chunk: int, wish: _Wish, *, shared: bool) -> dict[str, Any]:
        """The plan of a collective whose chunks have so many bytes. One that groups share names no nodes."""
        if self._has_parts(kind, wish):
            return self._of_parts(kind, root, chunk, wish)
        packed = self._packing(kind, root, chunk, wish)
        slices = wish.slices_of(chunk) or choice.slices(packed, packed.trees, chunk, self._overhead_s(wish))
        key = (packed, slices, shared)
        if key not in self.forms:
            form = plan.form(self.graph, self.asked, packed, slices, PACKED)
            form = hybrid.over_pcie(form) if self.asked.links == "pcie" else form
            self.forms[key] = plan.by_routes(form) if shared else form
        return self.forms[key]

    def chosen(self, kind: str, root: int, chunk: int, wish: _Wish) -> Iterator[tuple[question.Question, Best, Goal]]:
        """The trees of that plan: of one network, or of NVLinks and of PCIe."""
        goal = self._goal(chunk, wish)
        if not self._has_parts(kind, wish):
            yield self.asked, Best(self._packing(kind, root, chunk, wish), None), goal
            return
        found = self._parts(kind, root, chunk, wish)
        if isinstance(found, Servers):
            yield found.asked, Best(found.packed, None), goal
            return
        for part in (found.nvlink, found.pcie):
            if part.size:
                yield part.asked, Best(part.packed, None), replace(goal, size=part.size)

    def _overhead_s(self, wish: _Wish) -> float:
        return (wish.overhead or slowest(self.graph, self.asked)) / PS_PER_S

    def _goal(self, chunk: int, wish: _Wish) -> Goal:
        return Goal(wish.objective, chunk, overhead_s=self._overhead_s(wish))

    def _packing(self, kind: str, root: int, chunk: int, wish: _Wish) -> packing.Packing:
        where = root if kind in packing.ROOTED else None
        goal = self._goal(chunk, wish)
        packed = choice.best(self.asked, kind, where, goal).packing  # type: ignore[arg-type]  # by the rules
        if not packed.trees and not packed.stages:
            message = f"the links that trees use do not connect GPUs {_listed(self.asked.gpus)}"
            raise TreesError(("collective", "algorithm"), message, "another algorithm, or collective.trees.links all")
        return packed

    def _has_parts(self, kind: str, wish: _Wish) -> bool:
        """Whether there are trees over NVLinks and others over PCIe, or servers with trees of their own."""
        spans = self.auto and len(servers.groups(self.graph, self.asked.gpus)) > 1
        if spans and wish.objective != "time":
            message = "of several servers, trees are those that are predicted to be fastest"
            raise TreesError(("collective", "trees", "objective"), message, "time, or collective.trees.links all")
        return wish.links == HYBRID or (spans and kind in servers.ABLE)

    def _of_parts(self, kind: str, root: int, chunk: int, wish: _Wish) -> dict[str, Any]:
        """The plan of these."""
        slices = wish.slices_of(chunk)
        key = (*self._key(kind, root, chunk, wish), slices)
        if key in self.forms:
            return self.forms[key]
        found = self._parts(kind, root, chunk, wish)
        if isinstance(found, Servers):
            fastest = choice.slices(found.packed, found.packed.trees, max(chunk, 1), self._overhead_s(wish))
            form = servers.written(self.graph, found, slices or fastest, PACKED)
        else:
            try:
                form = hybrid.written(self.graph, found.sliced(slices), PACKED)
            except InputError as error:
                raise _as_trees_error(error) from None
        return self.forms.setdefault(key, form)

    def _key(self, kind: str, root: int, chunk: int, wish: _Wish) -> tuple[Any, ...]:
        """What parts are made for."""
        return kind, root, max(chunk, 1), wish.links, wish.peer_access, self._overhead_s(wish)

    def _parts(self, kind: str, root: int, chunk: int, wish: _Wish) -> Hybrid | Servers:
        """The trees over NVLinks and over PCIe, or those of servers, which are looked for once: for a run, and for its
        page. Raises [`TreesError`] where there are none.
        """
        key = self._key(kind, root, chunk, wish)
        if key not in self.parts:
            where = (self.graph, self.asked.gpus, kind, root, max(chunk, 1))
            overhead_s = self._overhead_s(wish)
            try:
                if wish.links == HYBRID:
                    both = hybrid.of(*where, switch_ps=wish.peer_access, overhead_s=overhead_s)  # type: ignore[arg-type]
                    self.parts[key] = both
                else:
                    if (kind, root) not in self.ways:
                        found = servers.ways(self.graph, self.asked.gpus, kind, root)  # type: ignore[arg-type]  # by the rules
                        self.ways[kind, root] = found
                    self.parts[key] = servers.fastest(self.ways[kind, root], max(chunk, 1), overhead_s)
            except InputError as error:
                raise _as_trees_error(error) from None
        return self.parts[key]


def _as_trees_error(error: InputError) -> TreesError:
    (problem,) = error.problems
    return TreesError(("collective", "algorithm"), problem.message, problem.accepted)


def slowest(graph: Graph, asked: question.Question) -> int:
    """Picoseconds on the slowest link between two GPUs: slices that take less on the wire gain nothing."""
    used = {asked.nodes[node] for arc in asked.arcs for node in arc[:2]}
    links = [link for link in graph.links if link.src in used and link.dst in used]
    return max(1, max((link.latency for link in links), default=0))


def _listed(gpus: Sequence[int]) -> str:
    return allocation.canonical(gpus)


def _solved(topology: Wired, members: tuple[int, ...], links: _Links) -> _Solved:
    return _of_network(_Network(topology), members, links)


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """A topology that is told from others by its name and file."""

    topology: Wired

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Network) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, bytes]:
        return self.topology.name, self.topology.content


@lru_cache(KEPT)
def _of_network(network: _Network, members: tuple[int, ...], links: _Links) -> _Solved:
    if len(members) > question.MOST_GPUS:
        message = f"trees of {len(members)} GPUs take too long in this version"
        raise TreesError(("collective", "algorithm"), message, f"groups of up to {question.MOST_GPUS} GPUs")
    graph = network.topology.graph
    asked = question.asked(graph, members, "all" if links == HYBRID else links)
    return _Solved(graph, asked, links == "auto")
