"""What the software model needs to know of a topology that is no machine by name, taken from its links.

A *server* is what NVLinks join, everything else is the network between servers:

* Of a product, the first dimension, and those after it whose links carry at least half as much per GPU as the
  fastest of these. A switch behind the first dimension is always the network.
* Of a network of switches, a super-node where it has such, else a single GPU.
* Of a file, what links of a machine join (NVLink, PCIe and those between CPUs), by their classes. Where no class says
  so, what links join that carry at least half as much as the fastest link of a GPU; but if all of these of a GPU are
  nearer to the rate of its NICs than to that of its NVLinks, they are the network, and every GPU is a server.

The constants are those of machines with such GPUs, of which NCCL is assumed to reach the same share of any links. Rates
are those of the links that communicators can use at best; what rings and exchanges make of ways through other
GPUs and of shared links, simulated collectives say (`engine.pricing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import Final, overload

from syncline.fabric.graph import C2C, NVLINK, NVSWITCH, PCIE, Link, Node
from syncline.fabric.hardware import OTHER_SOCKET, POWER_SOCKET, QPI, UPI, UPI_2, XGMI
from syncline.fabric.machines import MACHINES, NETWORKS, Cluster, Machine
from syncline.fabric.topologies import Fabric, Wired
from syncline.fabric.topology import Dimension, Topology
from syncline.nccl import mesh, wire
from syncline.nccl.platform import KINDS, NotPricedError, Platform, cluster_of

NVLINKS: Final = frozenset({NVLINK, NVSWITCH})
WITHIN: Final = NVLINKS | {PCIE, C2C} | {cpus.kind for cpus in (QPI, UPI, UPI_2, XGMI, OTHER_SOCKET, POWER_SOCKET)}
"""Classes of links within a machine."""
MOST_IN_RINGS: Final = 8
"""GPUs among which rings of NVLinks are searched; with more, rings are assumed to use all links of a GPU."""
NEAR: Final = 0.5
"""The share of the fastest links' rate that others of a server have at least."""


@dataclass(frozen=True, slots=True)
class Derived:
    """GPUs of a topology, the servers that they are in and the rates of their links."""

    topology: Fabric
    machine: Machine
    """The machine with such GPUs whose constants are taken."""
    servers: Sequence[int]
    """By GPU, the number of its server."""
    inner: int = 0
    """Dimensions of a product that are within a server."""
    within: Sequence[int] = field(default=(), repr=False)
    """By GPU of a file or network, bytes per second of its links within the server."""
    between: Sequence[int] = field(default=(), repr=False)
    """The same of its share of the links to other servers."""
    pairs: tuple[tuple[int, int, int], ...] = field(default=(), repr=False)
    """GPUs of a file with NVLinks to each other, and how many."""
    is_pcie: bool = False
    """Whether links within a server are not NVLinks but PCIe."""

    @property
    def hosts(self) -> int:
        """Servers in all."""
        return self.servers[-1] + 1 if self._is_product else len(set(self.servers))

    @property
    def is_switched(self) -> bool:
        """Whether GPUs meet in switches only."""
        if isinstance(self.topology, Topology):
            return all(dim.block == "switch" for dim in self.topology.dims)
        return self.topology.is_joined_by_switches

    @property
    def software(self) -> str:
        """The class of software constants."""
        return KINDS[self.machine.name].software

    @property
    def efficiency(self) -> float:
        """The most that data gets of the wire of a link."""
        if isinstance(self.topology, Topology):
            return float(max(dim.efficiency for dim in self.topology.dims))
        return 1.0

    @property
    def _is_product(self) -> bool:
        return isinstance(self.topology, Topology)

    def place(self, members: Sequence[int]) -> tuple[int, ...]:
        """The NPUs that members of other communicators stand to each other as: places along rings count from the first
        member, those behind a switch and in a group that is fully connected as they are met.
        """
        if not isinstance(self.topology, Topology):
            return tuple(members)
        found = [0] * len(members)
        stride = 1
        for dim in self.topology.dims:
            places = [npu // stride % dim.size for npu in members]
            if dim.block == "ring":
                places = [(place - places[0]) % dim.size for place in places]
            else:
                met: dict[int, int] = {}
                places = [met.setdefault(place, len(met)) for place in places]
            found = [npu + place * stride for npu, place in zip(found, places, strict=True)]
            stride *= dim.size
        return tuple(found)

    def platform(self, members: Sequence[int]) -> Platform:
        """The platform of some GPUs."""
        local: dict[int, list[int]] = {}
        for gpu in members:
            local.setdefault(self.servers[gpu], []).append(gpu)
        most, fewest = max(map(len, local.values())), min(map(len, local.values()))
        inside, outside = self._rates(local)
        kind, gt = KINDS[self.machine.name], self.machine.pcie_gt * 10**9 * 2
        wired = bool(self.pairs) and len(local) == 1
        machine = replace(self.machine, gpus=most, nics=most, rails=most, pcie_switches=most, trays=0)
        if wired:
            machine = replace(self.machine, pairs=self.pairs, gpus=self.topology.npus, switch_links=0)
        return Platform(
            machine=str(self.topology),
            gpus_per_node=most,
            nodes=len(local),
            nvlink_rate=inside or self.machine.nvlink_rate,
            nvlink_link_rate=self.machine.nvlink_rate,
            nics=fewest,
            nic_rate=outside,
            pcie_rate=max(gt, outside),
            pcie_wire_rate=max(gt, 2 * outside),
            network=NETWORKS[0],
            software=kind.software,
            generation=kind.generation,
            on_pcie=self.is_pcie,
            switched=not wired,
            nvls=kind.nvls and self._adds(),
            members=tuple(members),
            cluster=Cluster(machine, len(local)),
            total=len(members),
        )

    def _inside(self, gpus: Sequence[int]) -> int:
        """Bytes per second of a GPU's links to others of its server: of the rings where they are wired one by one."""
        if not self.pairs:
            return min(self.within[gpu] for gpu in gpus)
        machine = replace(self.machine, pairs=self.pairs, gpus=self.topology.npus)
        if len(gpus) <= MOST_IN_RINGS:
            return mesh.ring_rate(machine, gpus)[0]
        links = Counter(dict.fromkeys(gpus, 0))
        for (gpu, _), count in mesh.links_between(machine, gpus).items():
            links[gpu] += count
        return max(1, min(links.values())) * machine.nvlink_rate

    @property
    def shares_links(self) -> bool:
        """Whether ways between GPUs share links that only simulation shows: those of networks of switches."""
        return not self._is_product and self.is_switched

    def _adds(self) -> bool:
        """Whether the switches of servers can sum up."""
        if isinstance(self.topology, Topology):
            return self.inner == 1 and self.topology.dims[0].block == "switch"
        kinds = {link.kind for link in self.topology.graph.links}
        return NVSWITCH in kinds and NVLINK not in kinds

    def _rates(self, local: Mapping[int, Sequence[int]]) -> tuple[int, int]:
        """Bytes per second of a GPU's links within its server and, at least, to other servers."""
        if not isinstance(self.topology, Topology):
            inside = [self._inside(gpus) for gpus in local.values() if len(gpus) > 1]
            return min(inside, default=0), max(1, min(self.between[gpu] for gpus in local.values() for gpu in gpus))
        dims = self.topology.dims
        strides: list[int] = [prod(dim.size for dim in dims[:index]) for index in range(len(dims))]

        def spanned(index: int, gpus: Iterable[int]) -> int:
            return _rate(dims[index], len({gpu // strides[index] % dims[index].size for gpu in gpus}))

        several = [gpus for gpus in local.values() if len(gpus) > 1]
        inside = [sum(spanned(index, gpus) for index in range(self.inner)) for gpus in several]
        everyone = [gpu for gpus in local.values() for gpu in gpus]
        outside = [spanned(index, everyone) for index in range(self.inner, len(dims))]
        return min(inside, default=0), max(1, min((rate for rate in outside if rate), default=1))


def derived(topology: Fabric, gpu: str | None) -> Derived:
    """What a topology of such GPUs is to NCCL. Raises [`NotPricedError`] if none of its machines has such GPUs."""
    if isinstance(topology, Topology):
        inner = _inner(topology.dims)
        machine = _machine(gpu, switched=topology.dims[0].block == "switch")
        each = prod(dim.size for dim in topology.dims[:inner])
        return Derived(topology, machine, _Blocks(each, topology.npus), inner)
    kinds = {link.kind for link in topology.graph.links}
    machine = _machine(gpu, switched=not kinds & WITHIN or NVSWITCH in kinds)
    return _of_links(topology, machine)


class _Blocks(Sequence[int]):
    """By GPU, the number of its server, where all have as many GPUs in a row."""

    def __init__(self, each: int, gpus: int) -> None:
        self.each, self.gpus = each, gpus

    def __len__(self) -> int:
        return self.gpus

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """The server of a GPU."""
        gpus = range(self.gpus)[index]
        return gpus // self.each if isinstance(gpus, int) else [gpu // self.each for gpu in gpus]


def where(topology: Fabric, gpu: str | None) -> Cluster | Derived | None:
    """The machine or cluster that a topology is to NCCL, or what follows from its links; nothing if nobody is there to
    talk to. Raises [`NotPricedError`] if the software model does not know its GPUs.
    """
    if topology.npus == 1:
        return None
    return cluster_of(topology, gpu) or derived(topology, gpu)


def check(topology: Fabric, gpu: str | None) -> None:
    """Raises [`NotPricedError`] if the software model does not know the GPUs of a topology."""
    if topology.npus > 1 and cluster_of(topology, gpu) is None:
        _machine(gpu, switched=True)


def assumption(found: Derived) -> str:
    """What is read out of a topology."""
    machine = found.machine
    constants = f"the share of links that NCCL reaches, and its latencies, are those of a {machine.title}"
    if isinstance(found.topology, Topology):
        dims, inner = len(found.topology.dims), found.inner
        server = "the first dimension is" if inner == 1 else f"the first {inner} dimensions are"
        between = "" if inner == dims else "; what follows is the network between servers"
        return f"topology: {server} a server of NVLinks{between}; {constants}"
    sizes = Counter(Counter(found.servers).values())
    servers = " and ".join(f"{count} of {size}" for size, count in sorted(sizes.items()))
    return f"topology: servers of GPUs, as links join them: {servers}; {constants}"


def wires(platform: Platform, kind: str, algorithm: str, size: int) -> float:
    """Seconds that an algorithm of NCCL takes on the wires at full rate."""
    gpus, nodes = platform.gpus, platform.nodes
    found = wire.ring(kind, gpus, nodes, size)
    if algorithm == wire.TREE:
        found = wire.tree(gpus, nodes, size)
    elif algorithm == wire.DIRECT:
        rooted = kind in ("gather", "scatter")
        found = wire.rooted(gpus, nodes, platform.nic_groups, size) if rooted else wire.direct(gpus, nodes, size)
    return found.seconds(platform.nvlink_rate, platform.node_nic_rate)


def _rate(dim: Dimension, places: int) -> int:
    """Bytes per second of an NPU's links of a dimension of which a communicator has so many places."""
    if places < 2:
        return 0
    whole = places == dim.size
    links = {"ring": 2 if whole else 1, "fully-connected": places - 1, "switch": 1}[dim.block]
    return links * dim.links * dim.rate


def _inner(dims: Sequence[Dimension]) -> int:
    """How many dimensions are within a server."""
    rates = [_rate(dim, dim.size) for dim in dims]
    inner = 1
    while inner < len(dims):
        fastest = max(rates[:inner])
        if fastest and (dims[inner].block == "switch" or rates[inner] < NEAR * fastest):
            break
        inner += 1
    return inner


def _machine(gpu: str | None, *, switched: bool) -> Machine:
    """The machine with such GPUs, the one with NVSwitches if there are two and these are switched."""
    model = None if gpu is None else gpu.partition("-")[0]
    like = [machine for machine in MACHINES.values() if machine.gpu.name.partition("-")[0] == model]
    if not like:
        message = "NCCL's times depend on the GPU, which is not stated (endpoint nccl)"
        raise NotPricedError(("npu", "gpu"), message, "a GPU, such as h100; or another endpoint, such as ideal")
    return next((machine for machine in like if bool(machine.switch_links) == switched), like[0])


def _of_links(topology: Wired, machine: Machine) -> Derived:
    """A file or a network of switches."""
    graph = topology.graph
    nodes, links, npus = graph.nodes, graph.links, graph.npus
    of_gpus = [link for link in links if nodes[link.src].kind == "npu" or nodes[link.dst].kind == "npu"]
    kinds = {link.kind for link in links}
    if topology.is_switched:
        joined: list[Link] = []
    elif kinds & WITHIN:
        joined = [link for link in links if link.kind in WITHIN]
    else:
        fastest = max((link.total_rate for link in of_gpus), default=0)
        joined = [link for link in links if link.total_rate >= NEAR * fastest]
        nvlinks = machine.nvlink_rate * (machine.switch_links or sum(n for a, _, n in machine.pairs if a == 0))
        egress = max(_sums(joined, nodes).values(), default=0)
        if egress < sqrt(nvlinks * machine.nic_rate):
            joined = []
    parts = _Parts(len(nodes))
    for link in joined:
        parts.join(link.src, link.dst)
    hosts: dict[int, int] = {}
    for number, node in enumerate(nodes):
        if node.host is not None:
            parts.join(number, hosts.setdefault(node.host, number))
    servers = [parts.first(npu) for npu in range(npus)]
    sizes = Counter(servers)
    fast = [link for link in links if link.kind in NVLINKS] or [
        link for link in links if parts.first(link.src) == parts.first(link.dst)
    ]
    leaving = Counter[int]()
    for link in links:
        if parts.first(link.src) != parts.first(link.dst):
            leaving[parts.first(link.src)] += link.total_rate
    inside = _sums(fast, nodes)
    between_gpus = [link for link in links if link.kind == NVLINK and link.src < link.dst < npus]
    pairs = Counter[tuple[int, int]]()
    for link in between_gpus:
        pairs[link.src, link.dst] += max(1, round(link.total_rate / machine.nvlink_rate))
    names = {server: number for number, server in enumerate(dict.fromkeys(servers))}
    return Derived(
        topology,
        machine,
        tuple(names[server] for server in servers),
        within=tuple(inside.get(npu, 0) for npu in range(npus)),
        between=tuple(leaving[server] // sizes[server] for server in servers),
        pairs=() if NVSWITCH in kinds else tuple((a, b, count) for (a, b), count in sorted(pairs.items())),
        is_pcie=PCIE in kinds and not kinds & NVLINKS,
    )


def _sums(links: Iterable[Link], nodes: Sequence[Node]) -> dict[int, int]:
    """Bytes per second of links out of each NPU."""
    found: dict[int, int] = {}
    for link in links:
        if nodes[link.src].kind == "npu":
            found[link.src] = found.get(link.src, 0) + link.total_rate
    return found


class _Parts:
    """What is joined, directly or by others."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def first(self, node: int) -> int:
        """The node that stands for all that this one is joined with."""
        while self._above[node] != node:
            self._above[node] = node = self._above[self._above[node]]
        return node

    def join(self, one: int, other: int) -> None:
        """Joins two nodes."""
        low, high = sorted((self.first(one), self.first(other)))
        self._above[high] = low
