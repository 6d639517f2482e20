"""Trees of GPUs in several servers, by the three phases of Blink (section 3.5).

The vector is cut into partitions. Each has a *local root* on every server. In the first phase, every server reduces
over trees of its own to its local root; in the second, local roots exchange: each of `n` servers adds up one `n`-th of
the partition and sends the sum to the others, in one hop over the network; in the third, every server spreads the
result over its trees. A part of a partition so has one tree over all servers, which is used both ways: the local
trees, and the hops between their roots. Slices of it follow one another, so that the phases overlap.

*Local trees.* Where NVLinks connect the GPUs of a server, these are the trees of an all-reduce over NVLinks, which can
have any GPU as their root. Where they do not, there are trees over PCIe, or each group of GPUs that they connect counts
as a server, whichever is predicted to be faster. A server with a single GPU needs no trees.

*Partitions.* A linear program gives weights to the choices of a local root on each server, so that as much as possible
passes the links between them: NICs, PCIe to the NICs, the network. It prefers roots that are close to NICs. Servers
need not be alike: the trees of each carry the whole vector, and one with more than it needs uses fewer of its trees.
Of the program's choice and of simple ones, with one partition or with as many equal ones as servers have roots, that
is taken which is predicted to end first, with slices and depth counted. Messages take the routes of the fabric, so
that a NIC is of use to those GPUs whose routes lead over it.

Of a broadcast, there is one tree for each partition, from the root's server, and of a reduce the same backwards; an
all-gather and a reduce-scatter have such trees from and to every GPU.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, pairwise, product
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.fabric.allocation import NVLINK_CLASSES
from syncline.fabric.graph import Graph, components
from syncline.treegen import choice, loads, pack, plan, question, shared_links
from syncline.treegen.packing import TASKS, TOWARDS_ROOT, Arc, Collective, Packing, Tree
from syncline.treegen.question import Question

ABLE: Final = frozenset({"all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter"})
MOST_CHOICES: Final = 512
"""Of a local root on each server, that the linear program weighs."""
PARTS: Final = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 30, 36, 48, 60)
"""Into how many equal parts the vector may be cut, of which partitions and local trees get whole ones."""
NEAR: Final = Fraction(99, 100)
"""Of the rate with the most parts, what fewer ones have to reach."""
FINER: Final = 24
"""Into how many smaller parts at most, so that trees can be cut where a link is full."""
TO_SPARE: Final = Fraction(102, 100)
"""Of the rate that a server needs, what its trees carry at least if others are left out."""
EQUAL: Final = 1.01
"""Predicted times that are no further apart than this tell nothing: fewer trees are then better."""
PROBE: Final = 2**20
"""Bytes of a message by which ways of as many links are compared."""
FAR: Final = 1e-4
"""What a link more between local roots counts, beside a rate of 1."""


@dataclass(frozen=True, slots=True)
class Server:
    """The GPUs of a server, and its trees."""

    ranks: tuple[int, ...]
    """Places in the list of GPUs."""
    links: question.Links
    """Which links its trees use."""
    trees: tuple[Tree, ...]
    """Of an all-reduce; their arcs are those of `arcs`, which has all of them both ways."""
    arcs: tuple[Arc, ...]
    """Between places in the list of GPUs."""

    @property
    def rate(self) -> Fraction | None:
        """Bytes per second of all trees; None for a single GPU, which needs none."""
        return sum((tree.weight for tree in self.trees), Fraction(0)) if len(self.ranks) > 1 else None


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the vector."""

    roots: tuple[int, ...]
    """The local root on each server, as a place in the list of GPUs."""
    share: Fraction


@dataclass(frozen=True, slots=True)
class Servers:
    """Trees of a collective."""

    asked: Question
    servers: tuple[Server, ...]
    partitions: tuple[Partition, ...]
    packed: Packing
    """With the trees over all servers, and weights that all links can carry."""
    seconds: float = math.inf
    """The predicted time, once it is known for how many bytes."""


def groups(graph: Graph, gpus: Sequence[int]) -> list[tuple[int, ...]]:
    """The places of GPUs in their list, server by server. Where a file does not say which servers there are, GPUs that
    NVLinks connect are one; without NVLinks, all of them are.
    """
    hosts = {gpu: graph.nodes[gpu].host for gpu in gpus}
    if set(hosts.values()) == {None} and not NVLINK_CLASSES.isdisjoint(graph.classes):
        apart = components(graph, gpus, NVLINK_CLASSES)
        hosts = {gpu: number for number, group in enumerate(apart) for gpu in group}
    found: dict[int | None, list[int]] = {}
    for place, gpu in enumerate(gpus):
        found.setdefault(hosts[gpu], []).append(place)
    return [tuple(places) for places in found.values()]


def form(
    graph: Graph,
    gpus: Sequence[int],
    collective: Collective,
    root: int,
    size: int,
    *,
    overhead_s: float = choice.OVERHEAD_S,
    slices: int | None = None,
    name: str = "three-phases",
) -> dict[str, Any]:
    """The plan of these trees, with so many slices or as many as are fastest. Raises [`InputError`] where there are
    none.
    """
    found = of(graph, gpus, collective, root, size, overhead_s=overhead_s)
    return written(graph, found, slices or choice.slices(found.packed, found.packed.trees, size, overhead_s), name)


def written(graph: Graph, found: Servers, slices: int, name: str) -> dict[str, Any]:
    """The plan of trees that are known, with so many slices."""
    return plan.by_routes(plan.form(graph, found.asked, found.packed, slices, name))


def of(
    graph: Graph,
    gpus: Sequence[int],
    collective: Collective,
    root: int,
    size: int,
    *,
    overhead_s: float = choice.OVERHEAD_S,
) -> Servers:
    """The trees of a collective on GPUs of several servers that are fastest for so many bytes. Raises as [`ways`]."""
    return fastest(ways(graph, gpus, collective, root), size, overhead_s)


def fastest(found: Sequence[Servers], size: int, overhead_s: float) -> Servers:
    """The trees that are predicted to be fastest for so many bytes; of those that are as fast, the fewest."""
    timed = [replace(each, seconds=choice.seconds(each.packed, each.packed.trees, size, overhead_s)) for each in found]
    least = min(each.seconds for each in timed)
    nearly = [each for each in timed if each.seconds <= EQUAL * least]
    return min(nearly, key=lambda each: (len(each.packed.trees), each.seconds))


def ways(graph: Graph, gpus: Sequence[int], collective: Collective, root: int) -> list[Servers]:
    """The trees of a collective on GPUs of several servers, for each way to divide it among them. The root is a place
    in the list of GPUs. Raises [`InputError`] where they are all on one server, or do not reach each other.
    """
    places = groups(graph, gpus)
    if len(places) < 2:
        raise _refused("these GPUs are in one server", "GPUs of several servers")
    if collective not in ABLE:
        raise _refused(f"the three phases do not carry out {collective}", ", ".join(sorted(ABLE)))
    asked = question.asked(graph, gpus, "all")
    found: list[Servers] = []
    for grouped in dict.fromkeys((tuple(places), tuple(_linked(graph, gpus, places)))):
        servers = tuple(_server(graph, asked, ranks) for ranks in grouped)
        exchange = _Exchange(graph, asked, servers, _traffic(collective, servers, root), collective, root)
        for partitions in exchange.candidates():
            found.append(Servers(asked, servers, partitions, exchange.packed(partitions)))
    if not found:
        raise _refused("the GPUs do not all reach each other", "GPUs that reach each other")
    return found


def _linked(graph: Graph, gpus: Sequence[int], places: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """The same with the GPUs of a server apart that NVLinks do not connect, as if they were in servers of their own:
    then not all of the vector passes the PCIe between them, and each has NICs of its own.
    """
    for ranks in places:
        place = {gpus[rank]: rank for rank in ranks}
        for group in components(graph, list(place), NVLINK_CLASSES):
            yield tuple(sorted(place[gpu] for gpu in group))


def _refused(message: str, accepted: str) -> InputError:
    return InputError([Problem("trees", None, "gpus", None, message, accepted)])


def _server(graph: Graph, asked: Question, ranks: tuple[int, ...]) -> Server:
    """A server with the trees that it has."""
    gpus = [asked.gpus[rank] for rank in ranks]
    links: question.Links = "nvlink"
    local = question.asked(graph, gpus, links)
    packed = shared_links.both_ways(local, pack.of(local, "all-reduce"))
    if len(ranks) > 1 and not packed.trees:
        links = "pcie"
        local = question.asked(graph, gpus, links)
        packed = shared_links.both_ways(local, shared_links.on_shared_links(local, pack.of(local, "all-reduce"), 0))
        if not packed.trees:
            raise _refused("neither NVLinks nor PCIe connect the GPUs of a server", "GPUs that reach each other")
    number = {node: index for index, node in enumerate(asked.nodes)}
    arcs: list[Arc] = []
    trees = []
    for tree in packed.trees:
        edges = []
        for place in tree.arcs:
            arc = packed.arcs[place]
            via = tuple(number[local.nodes[node]] for node in arc.via)
            edges += [len(arcs), len(arcs) + 1]
            arcs += loads.both(Arc(ranks[arc.src], ranks[arc.dst], arc.capacity, via))
        trees.append(Tree(ranks[tree.root], tree.weight, tuple(edges)))
    heaviest = sorted(trees, key=lambda tree: -tree.weight)
    return Server(ranks, links, tuple(heaviest), tuple(arcs))


def _traffic(collective: Collective, servers: Sequence[Server], root: int) -> dict[tuple[int, int], Fraction]:
    """What a local root sends to that of another server, of each byte of its partition."""
    count, ranks = len(servers), sum(len(server.ranks) for server in servers)
    found = {}
    for one, two in product(range(count), repeat=2):
        if collective == "all-reduce":
            part = Fraction(2, count)
        elif TASKS[collective] == "from-all":
            part = Fraction(len(servers[two if collective in TOWARDS_ROOT else one].ranks), ranks)
        else:
            part = Fraction(root in servers[two if collective in TOWARDS_ROOT else one].ranks)
        if one != two and part:
            found[one, two] = part
    return found


@dataclass(slots=True)
class _Exchange:
    """The second phase, and what comes of it."""

    graph: Graph
    asked: Question
    servers: tuple[Server, ...]
    traffic: dict[tuple[int, int], Fraction]
    collective: Collective
    root: int
    _ways: dict[tuple[int, int], loads.Way | None] = field(default_factory=dict)
    _links: dict[int, list[tuple[int, float]]] = field(init=False)

    def __post_init__(self) -> None:
        self._links = _leaving(self.graph)

    def way(self, src: int, dst: int) -> loads.Way | None:
        """The nodes that a message passes between GPUs of different servers, if there is a way."""
        if (src, dst) not in self._ways:
            self._ways[src, dst] = _way(self.graph, self.asked, self._links, src, dst)
        return self._ways[src, dst]

    def candidates(self) -> Iterator[tuple[Partition, ...]]:
        """Partitions that may be good, each with shares that add up to 1."""
        choices = [roots for roots in self._choices() if self.ways_of(roots) is not None]
        if not choices:
            return
        weighed = _weighed(self, choices)
        if weighed:
            yield weighed
        orders = [self._by_switch(server) for server in self.servers]
        for count in range(1, max(map(len, orders)) + 1):
            aligned = [tuple(order[number % len(order)] for order in orders) for number in range(count)]
            if all(self.ways_of(roots) is not None for roots in aligned):
                yield tuple(Partition(roots, Fraction(1, count)) for roots in aligned)

    def _choices(self) -> list[tuple[int, ...]]:
        """Choices of a local root on each server: all or, of too many, some with GPUs on PCIe switches of their own."""
        if math.prod(len(server.ranks) for server in self.servers) <= MOST_CHOICES:
            return list(product(*(server.ranks for server in self.servers)))
        orders = [self._by_switch(server) for server in self.servers]
        most = max(map(len, orders))
        aligned = [tuple(order[number % len(order)] for order in orders) for number in range(most)]
        return list(dict.fromkeys([*aligned, *islice(product(*orders), MOST_CHOICES - most)]))

    def _by_switch(self, server: Server) -> list[int]:
        """The GPUs of a server so that those on PCIe switches of their own come first."""
        switch: dict[int, int] = {}
        number = {node: index for index, node in enumerate(self.asked.nodes)}
        for link in self.graph.links:
            if link.kind not in NVLINK_CLASSES and link.src in number and number[link.src] in server.ranks:
                switch.setdefault(number[link.src], link.dst)
        seen: dict[int, int] = {}
        order = []
        for rank in server.ranks:
            hub = switch.get(rank, -1)
            order.append((seen.get(hub, 0), rank))
            seen[hub] = seen.get(hub, 0) + 1
        return [rank for _, rank in sorted(order)]

    def ways_of(self, roots: tuple[int, ...]) -> list[tuple[loads.Way, Fraction]] | None:
        """The ways between local roots, with what passes them; None if there are none."""
        found = []
        for (one, two), part in self.traffic.items():
            way = self.way(roots[one], roots[two])
            if way is None:
                return None
            found.append((way, part))
        return found

    def packed(self, partitions: Sequence[Partition]) -> Packing:
        """Trees over all servers, with as few parts of the vector as have nearly the best rate."""
        best: Packing | None = None
        finest = self._composed(partitions, PARTS[-1])
        for parts in PARTS[:-1]:
            if parts < len(partitions):
                continue
            coarse = self._composed(partitions, parts)
            if coarse.rate >= NEAR * finest.rate:
                best = coarse
                break
        return finest if best is None else best

    def _composed(self, partitions: Sequence[Partition], parts: int) -> Packing:
        """The same with local trees and partitions that get whole ones of so many parts."""
        needed = self._rate(partitions)
        cuts = [_ends([partition.share for partition in partitions], parts)]
        used = [_enough(server.trees, needed) for server in self.servers]
        cuts += [_ends([tree.weight for tree in trees], parts) for trees in used]
        arcs = _Arcs()
        trees: list[Tree] = []
        for low, high in pairwise(sorted({0, *(end for ends in cuts for end in ends)})):
            at = [next(number for number, end in enumerate(ends) if low < end) if ends else None for ends in cuts]
            local = [None if place is None else each[place] for place, each in zip(at[1:], used, strict=True)]
            partition = partitions[at[0] or 0]
            trees += self._trees(arcs, partition.roots, local, Fraction(high - low, parts))
        packed = Packing(self.collective, (tuple(range(len(self.asked.gpus))),), None, *arcs.both(), tuple(trees))
        share = loads.together if TASKS[self.collective] == "from-all" else loads.factor
        rate = share(self.asked, loads.connections(packed, packed.trees))
        return _in_whole_links(self.graph, packed, rate)

    def _rate(self, partitions: Sequence[Partition]) -> Fraction:
        """What the links between local roots carry of partitions, by the bytes of the vector per second."""
        ways: dict[loads.Way, Fraction] = {}
        for partition in partitions:
            for way, part in self.ways_of(partition.roots) or []:
                ways[way] = ways.get(way, Fraction(0)) + part * partition.share
        return loads.factor(self.asked, ways)

    def _trees(
        self, arcs: _Arcs, roots: tuple[int, ...], local: Sequence[Tree | None], share: Fraction
    ) -> Iterator[Tree]:
        """The trees of a part of a partition: one for each server that adds up, or each root."""
        edges = []
        for server, tree in zip(self.servers, local, strict=True):
            edges += [arcs.number(server.arcs[edge]) for edge in (tree.arcs if tree else ())]
        from_roots = {"both-ways": roots, "from-all": range(len(self.asked.gpus)), "from-root": (self.root,)}
        every = from_roots[TASKS[self.collective]]
        for root in every:
            centre = next(number for number, server in enumerate(self.servers) if root in server.ranks)
            between = []
            for number, other in enumerate(roots):
                way = None if number == centre else self.way(roots[centre], other)
                if way is not None:
                    between += [arcs.number(arc) for arc in loads.both(Arc(way[0], way[-1], Fraction(0), way[1:-1]))]
            yield Tree(root, share / len(every), loads.rooted(arcs.arcs, (*edges, *between), root))


def _ends(weights: Sequence[Fraction], parts: int) -> list[int]:
    """Where each of these ends, if together they are so many parts and each is a whole number of them."""
    whole, ends = sum(weights, Fraction(0)), []
    passed = Fraction(0)
    for weight in weights:
        passed += weight
        ends.append(round(passed / whole * parts))
    return ends


def _enough(trees: Sequence[Tree], needed: Fraction) -> list[Tree]:
    """The heaviest trees, as many as carry what is needed, or all."""
    found: list[Tree] = []
    for tree in trees:
        if sum((tree.weight for tree in found), Fraction(0)) >= needed * TO_SPARE:
            break
        found.append(tree)
    return found


@dataclass(slots=True)
class _Arcs:
    """Arcs that have numbers, each once."""

    arcs: list[Arc] = field(default_factory=list)
    _numbers: dict[tuple[int, int, tuple[int, ...]], int] = field(default_factory=dict)

    def number(self, arc: Arc) -> int:
        key = arc.src, arc.dst, arc.via
        if key not in self._numbers:
            self._numbers[key] = len(self.arcs)
            self.arcs.append(arc)
        return self._numbers[key]

    def both(self) -> tuple[tuple[Arc, ...], tuple[int | None, ...]]:
        """The arcs, and for each the one that leads the other way."""
        opposite = tuple(self._numbers.get((arc.dst, arc.src, arc.via[::-1])) for arc in self.arcs)
        return tuple(self.arcs), opposite


def _in_whole_links(graph: Graph, packed: Packing, rate: Fraction) -> Packing:
    """Trees with shares for weights, which get so many bytes per second together, or a little less where some go on
    over the next of parallel links. Weights are then whole parts of what one of these carries, so that a tree is cut
    between them into whole parts, too.
    """
    unit = Fraction(1, math.lcm(*(tree.weight.denominator for tree in packed.trees)))
    step = rate * unit
    single = _overfull(graph, packed, rate)
    if single is not None:
        finer = (single / math.ceil(single * parts / step) for parts in range(1, FINER + 1))
        step = next(
            (each * parts for parts, each in enumerate(finer, start=1) if each * parts >= NEAR * step),
            single / math.ceil(single / step),
        )
    return replace(packed, trees=tuple(replace(tree, weight=tree.weight / unit * step) for tree in packed.trees))


def _overfull(graph: Graph, packed: Packing, rate: Fraction) -> Fraction | None:
    """What one of parallel NVLinks carries, if trees need several of some."""
    single = [link.payload_rate for link in graph.links if link.count > 1 and not link.is_bundle]
    if not single:
        return None
    least = Fraction(min(single))
    used = loads.connections(packed, packed.trees).items()
    return least if any(len(way) == 2 and share * rate > least for way, share in used) else None


def _weighed(exchange: _Exchange, choices: Sequence[tuple[int, ...]]) -> tuple[Partition, ...]:
    """The choices that a linear program takes, with their shares."""
    import highspy
    import numpy as np

    capacity = {(src, dst): rate for src, dst, rate in exchange.asked.arcs}
    rows: dict[tuple[int, int], int] = {}
    columns: list[dict[int, float]] = []
    common = _of_local_trees(exchange.servers)
    for link in common:
        rows.setdefault(link, len(rows))
    costs = []
    for roots in choices:
        column = {rows[link]: float(load) for link, load in common.items()}
        links = 0
        for way, part in exchange.ways_of(roots) or []:
            for link in pairwise(way):
                row = rows.setdefault(link, len(rows))
                column[row] = column.get(row, 0.0) + float(part)
                links += 1
        columns.append(column)
        costs.append(-1.0 + FAR * links)
    rates = [server.rate for server in exchange.servers if server.rate is not None]
    upper = [float(capacity[link]) / exchange.asked.link_unit for link in rows]
    if rates:
        upper.append(float(min(rates)) / exchange.asked.link_unit)
        for column in columns:
            column[len(rows)] = 1.0
    solver: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        solver.setOptionValue(option, value)
    count, infinity = len(upper), highspy.kHighsInf
    nothing = np.array([], dtype=np.int32)
    solver.addRows(
        count, np.full(count, -infinity), np.array(upper), 0, np.zeros(count, dtype=np.int32), nothing, np.array([])
    )
    starts = np.cumsum([0, *map(len, columns[:-1])]).astype(np.int32)
    indices = np.array([row for column in columns for row in column], dtype=np.int32)
    values = np.array([load for column in columns for load in column.values()])
    many = len(columns)
    solver.addCols(
        many, np.array(costs), np.zeros(many), np.full(many, infinity), len(indices), starts, indices, values
    )
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return ()
    weights = solver.getSolution().col_value
    most = max(weights)
    kept = [(roots, round(1000 * weight / most)) for roots, weight in zip(choices, weights, strict=True)]
    whole = sum(weight for _, weight in kept)
    return tuple(Partition(roots, Fraction(weight, whole)) for roots, weight in kept if weight)


def _of_local_trees(servers: Sequence[Server]) -> dict[tuple[int, int], Fraction]:
    """The load of local trees over PCIe for each byte of the vector, by link: messages between servers share these."""
    found: dict[tuple[int, int], Fraction] = {}
    for server in servers:
        if server.links != "pcie" or not server.rate:
            continue
        for tree in server.trees:
            for edge in tree.arcs:
                arc = server.arcs[edge]
                for link in pairwise((arc.src, *arc.via, arc.dst)):
                    found[link] = found.get(link, Fraction(0)) + tree.weight / server.rate
    return found


def _way(
    graph: Graph, asked: Question, leaving: dict[int, list[tuple[int, float]]], src: int, dst: int
) -> loads.Way | None:
    """The way of a message as fabrics route: over as few links as possible, and of these the fastest. GPUs do not
    forward.
    """
    number = {node: index for index, node in enumerate(asked.nodes)}
    queue: list[tuple[tuple[int, float], tuple[int, ...]]] = [((0, 0.0), (asked.gpus[src],))]
    seen: set[int] = set()
    while queue:
        (links, time), nodes = heapq.heappop(queue)
        at = nodes[-1]
        if at == asked.gpus[dst]:
            return tuple(number[node] for node in nodes)
        if at in seen or (links and graph.nodes[at].kind == "npu"):
            continue
        seen.add(at)
        for there, cost in leaving.get(at, ()):
            if there not in seen:
                heapq.heappush(queue, ((links + 1, time + cost), (*nodes, there)))
    return None


def _leaving(graph: Graph) -> dict[int, list[tuple[int, float]]]:
    """By node, those that its links lead to, and the time of a message on each."""
    found: dict[int, list[tuple[int, float]]] = {}
    for link in graph.links:
        found.setdefault(link.src, []).append((link.dst, PROBE / link.payload_rate + link.latency * 1e-12))
    return found
