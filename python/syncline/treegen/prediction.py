"""How long trees take, and the number of slices with which that is least.

Every tree has a part of the vector in proportion to its weight, cut into `k` slices. Of `S` bytes at a rate `W` of all
trees, a slice of all of them takes `C = S / (k W)` where links are full; the slice of a tree with weight `w` takes `C
w/c` on a link that carries `c`, and an overhead `a` for the commands that copy it. Three things hold slices up:

* A link that several trees fill takes `C` for a slice of each. Their overheads do not add up, since each tree has a
  stream of its own there, which issues commands while data of others is on the link.
* A stream takes `a + C w/c` for each slice, where `c` is one of parallel links. A quarter of `a` is the wait for
  what has come. Where that is added, there is a kernel in its place for each of the children that it comes from: `a/2`
  and the time of its bytes, in kernels that all streams of a GPU share.
* The first slice goes through all of a tree, up and down again in an all-reduce: that is the sum of what streams take
  on the longest way, and of the time of the other trees' slices on its links, for which it may have to wait, but no
  more than `C`, after which trees are in step; and at least `C`, in which all have had their turn.

The slices that follow the first one come as fast as the slowest link or stream allows: `T = first + (k - 1) slowest`.
Along a chain of `d` links that are full this is `(k + d - 1) (C + a)` (Blink, section 4.2.1 and Fig. 11), which is
least with `k = sqrt((d - 1) S / (W a))`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from syncline.treegen import alike
from syncline.treegen.costs import REDUCE_RATE
from syncline.treegen.packing import TOWARDS_ROOT, Packing, Tree, sums

MOST_SLICES: Final = 2048
"""More of them gain nothing, and have more blocks than a plan can number."""
OF_SUM: Final = 0.5
"""The overhead of a kernel that adds, in overheads of a copy and the wait for what it copies."""
OF_COPY: Final = 0.75
"""The same of the copy alone."""
SUM_RATE: Final = REDUCE_RATE
"""Bytes per second that kernels of a GPU add."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A time, and how it is reached."""

    seconds: float
    slices: int


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a slice takes: some overheads, and multiples of `C` for its data and for that of others."""

    overheads: float = 0.0
    data: float = 0.0
    waits: float = 0.0

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.overheads + other.overheads, self.data + other.data, self.waits + other.waits)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Trees of a collective, or of a part of it."""

    seconds: float
    """Of the bytes alone."""
    first: frozenset[_Cost]
    """Of each tree, the longest way of a slice, by either of its costs."""
    streams: frozenset[_Cost]

    def time(self, slices: int, overhead_s: float) -> float:
        each = self.seconds / slices

        def most(costs: Iterable[_Cost]) -> float:
            # All trees are in step once each has waited for all others.
            data = ((cost, cost.data + min(1.0, cost.waits)) for cost in costs)
            return max(cost.overheads * overhead_s + max(taken, 1.0) * each for cost, taken in data)

        slowest = max(each, *(cost.overheads * overhead_s + cost.data * each for cost in self.streams))
        return most(self.first) + (slices - 1) * slowest


def of(stages: Sequence[Packing], size: int, overhead_s: float) -> Predicted:
    """The least time of collectives one after the other, all with the same number of slices."""
    found = [_stage(packing, size) for packing in stages]
    if overhead_s <= 0:
        # Each further slice gains something, if little.
        return Predicted(sum(stage.time(MOST_SLICES, 0.0) for stage in found), MOST_SLICES)

    def time(slices: int) -> float:
        return sum(stage.time(slices, overhead_s) for stage in found)

    # The time falls and then rises with the number of slices; it is the largest of some such curves.
    low, high = 1, MOST_SLICES
    while high - low > 2:
        third = (high - low) // 3
        if time(low + third) <= time(high - third):
            high -= third
        else:
            low += third
    best = min((1, *range(low, high + 1)), key=time)
    return Predicted(time(best), best)


def _stage(packing: Packing, size: int) -> _Stage:
    """What streams and ways of a collective's trees take."""
    capacity: dict[tuple[int, int], Fraction] = {}
    for arc in packing.arcs:
        capacity[arc.src, arc.dst] = capacity.get((arc.src, arc.dst), Fraction(0)) + arc.capacity
    whole = dict(capacity)
    upwards = packing.collective in TOWARDS_ROOT or packing.collective == "all-reduce"
    downwards = packing.collective not in TOWARDS_ROOT
    first: set[_Cost] = set()
    streams: set[_Cost] = set()
    carries = ((pair, tree.weight) for tree in packing.trees for pair in _carries(packing, tree))
    load = alike.loads(packing, carries) if packing.generators else sums(packing.trees, carries)
    for pair, carried in load.items():
        # Messages take routes of their own, of which trees were given what these carry; so over switches, where trees
        # that are fewer have more of a way than those that it was found for, and those of one root stand for all.
        if not whole.get(pair) or packing.generators or (packing.own is not None and carried > whole[pair]):
            whole[pair] = capacity[pair] = carried
    # A stream uses one of parallel links.
    capacity |= {(arc.src, arc.dst): arc.link for arc in packing.arcs if arc.link is not None}
    links = _Links(capacity, {pair: float(carried / whole[pair]) for pair, carried in load.items()})
    kernels: dict[int, float] = {}
    for tree in packing.trees:
        if upwards and packing.collective != "gather":
            for number in tree.arcs if tree.back is None else tree.back:
                gpu = packing.arcs[number].src if tree.back is None else packing.arcs[number].dst
                kernels[gpu] = kernels.get(gpu, 0.0) + float(tree.weight) / SUM_RATE
        way = _Cost()
        if upwards:
            way += _up(packing, tree, links, streams)
        if downwards:
            way += _down(packing, tree, links, streams)
        first.add(way)
    if packing.generators and kernels:
        # Every GPU has each of the places that GPUs of its kind have, in the trees of some root.
        kinds = alike.kinds(packing)
        of_kind: dict[int, float] = {}
        for gpu, busy in kernels.items():
            of_kind[kinds[gpu]] = of_kind.get(kinds[gpu], 0.0) + busy
        kernels = of_kind
    streams |= {_Cost(0.0, busy) for busy in kernels.values()}
    return _Stage(size / float(packing.rate), frozenset(first), frozenset(streams))


def _carries(packing: Packing, tree: Tree) -> Iterable[tuple[int, int]]:
    """The arcs that a tree's data passes."""
    for arc in (packing.arcs[number] for number in tree.arcs):
        yield arc.src, arc.dst
        if packing.collective == "all-reduce" and tree.back is None:
            yield arc.dst, arc.src
    for arc in (packing.arcs[number] for number in tree.back or ()):
        yield arc.src, arc.dst


class _Links:
    """Between two GPUs: what a link carries, and how full all of them are."""

    def __init__(self, capacity: Mapping[tuple[int, int], Fraction], load: Mapping[tuple[int, int], float]) -> None:
        self.load = load
        kinds: dict[Fraction, int] = {}
        self.kind = {pair: kinds.setdefault(carries, len(kinds)) for pair, carries in capacity.items()}
        """Which links carry the same: fractions are slow to look up and to divide."""
        self._capacities = tuple(kinds)
        self._shares: dict[Fraction, list[float]] = {}

    def of(self, tree: Tree) -> _Taken:
        """What a tree takes of links. One of more weight than a link has takes several."""
        shares = self._shares.get(tree.weight)
        if shares is None:
            shares = [min(1.0, float(tree.weight / capacity)) if capacity else 1.0 for capacity in self._capacities]
            self._shares[tree.weight] = shares
        return _Taken(self, shares)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a tree takes."""

    links: _Links
    shares: list[float]
    """Of each kind of links, how much of one."""

    def stream(self, pair: tuple[int, int], overheads: float = 1.0) -> _Cost:
        """What a stream takes for a slice."""
        return _Cost(overheads, self.shares[self.links.kind[pair]])

    def waits(self, pair: tuple[int, int]) -> _Cost:
        """What the first slice may have to wait there."""
        return _Cost(waits=max(0.0, min(1.0, self.links.load[pair]) - self.shares[self.links.kind[pair]]))


def _longest(ways: Iterable[_Cost]) -> _Cost:
    """Where both costs are not largest on the same way, what they come to on full links decides."""
    return max(ways, key=lambda way: (way.overheads + way.data + way.waits, way.overheads), default=_Cost())


def _down(packing: Packing, tree: Tree, links: _Links, streams: set[_Cost]) -> _Cost:
    way = {tree.root: _Cost()}
    taken = links.of(tree)
    for number in tree.arcs:
        arc = packing.arcs[number]
        pair = arc.src, arc.dst
        cost = taken.stream(pair)
        streams.add(cost)
        way[arc.dst] = way[arc.src] + cost + taken.waits(pair)
    return _longest(way.values())


def _up(packing: Packing, tree: Tree, links: _Links, streams: set[_Cost]) -> _Cost:
    """The way to the root. Of trees whose data goes towards the root only, arcs lead the other way."""
    adds, turned = packing.collective != "gather", packing.collective == "all-reduce"
    arcs, taken = [], links.of(tree)
    for number in tree.arcs if tree.back is None else tree.back:
        arc = packing.arcs[number]
        above, below = (arc.src, arc.dst) if tree.back is None else (arc.dst, arc.src)
        carries = (below, above) if turned else (above, below)
        cost = taken.stream(carries, OF_COPY if adds else 1.0)
        arcs.append((above, below, cost, taken.waits(carries)))
    children: dict[int, list[int]] = {}
    for above, below, *_ in arcs:
        children.setdefault(above, []).append(below)

    def sums(gpu: int) -> _Cost:
        count = len(children.get(gpu, ())) if adds else 0
        return _Cost(OF_SUM * count, count * float(tree.weight) / SUM_RATE)

    way: dict[int, _Cost] = {}
    for above, below, cost, waits in reversed(arcs):
        # What comes from below has been added there before it is sent on.
        own = way.get(below, _Cost()) + sums(below) + cost + waits
        streams.add(sums(below) + cost)
        way[above] = _longest([way.get(above, _Cost()), own])
    streams.add(sums(tree.root))
    return way.get(tree.root, _Cost()) + sums(tree.root)
