"""Machines that are known by name, and clusters of them.

*DGX-1* (P100, V100): eight GPUs with direct NVLinks, the hybrid cube mesh of `_CUBE_MESH`. Each of the two sockets
has two PCIe switches with two GPUs and one InfiniBand adapter each, so that GPUs without an NVLink between them can
talk over PCIe. The pairs and their links are those that `nvidia-smi topo -m` and NCCL's topology dumps show on these
machines; the numbering is NVIDIA's, and other vendors number the same graph differently.

*DGX-2, DGX A100, DGX H100*: every GPU has all its NVLinks to NVSwitches (NVIDIA's user guides), which together are
one switch here: any GPU can send all it has to any other. A single machine is nothing but this star; its PCIe
is left out, since no traffic between its GPUs needs it.

*Clusters*: each machine's NICs hang off the PCIe switches of its GPUs. `rail`: NIC i of every machine is on leaf
switch i, and the leaves are joined by a spine that is a single switch here, each leaf with as much to the spine as to
the machines, divided by the oversubscription. `single`: one NIC per machine, on PCIe switch 0, and one switch for all.
CPUs and the links between them are part of a cluster only where they are needed: on the DGX-1, and with `single`. Where
every GPU has NICs on its own PCIe switch, traffic between machines does not cross a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from syncline import quantities
from syncline.fabric import hardware
from syncline.fabric.graph import INFINIBAND, NVLINK, NVSWITCH, PCIE, Graph, Link, Node, NodeKind, both_ways, checked
from syncline.fabric.hardware import GB, Socket

Nics: TypeAlias = Literal["rail", "single"]

NICS: Final[tuple[Nics, ...]] = ("rail", "single")
MAX_HOSTS: Final = 1024

_CUBE_MESH: Final = (
    *((0, 3, 2), (2, 3, 2), (1, 2, 2), (1, 5, 2), (5, 6, 2), (6, 7, 2), (4, 7, 2), (0, 4, 2)),
    *((0, 1, 1), (1, 3, 1), (3, 7, 1), (5, 7, 1), (4, 5, 1), (4, 6, 1), (2, 6, 1), (0, 2, 1)),
)
"""Pairs of GPUs and their NVLinks on the DGX-1 with V100: a ring of double links, and another one of single links."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its vendor builds it."""

    name: str
    title: str
    gpus: int
    nvlink_rate: int
    """Bytes per second of one NVLink and direction."""
    pairs: tuple[tuple[int, int, int], ...]
    """GPUs with direct NVLinks, and how many."""
    switch_links: int
    """NVLinks of each GPU to the NVSwitches."""
    pcie_switches: int
    """PCIe switches, the first half on socket 0; GPUs are spread over them in order."""
    pcie_gt: int
    """PCIe signalling, in GT/s per lane; all links have 16 lanes."""
    nics: int
    """NICs for talking to other machines, spread over the PCIe switches in order."""
    nic_rate: int
    """Bytes per second of a NIC and direction."""
    socket: Socket


def _dgx1(name: str, gpu: str, nvlink_rate: int, pairs: tuple[tuple[int, int, int], ...]) -> Machine:
    return Machine(name, f"DGX-1 with {gpu}", 8, nvlink_rate, pairs, 0, 4, 8, 4, 12_500_000_000, hardware.QPI)


MACHINES: Final = MappingProxyType(
    {
        machine.name: machine
        for machine in (
            _dgx1("dgx1p", "P100", 20 * GB, tuple((a, b, 1) for a, b, _ in _CUBE_MESH)),
            _dgx1("dgx1v", "V100", 25 * GB, _CUBE_MESH),
            Machine("dgx2", "DGX-2", 16, 25 * GB, (), 6, 8, 8, 8, 12_500_000_000, hardware.UPI),
            Machine("dgx-a100", "DGX A100", 8, 25 * GB, (), 12, 4, 16, 8, 25 * GB, hardware.XGMI),
            Machine("dgx-h100", "DGX H100", 8, 25 * GB, (), 18, 8, 32, 8, 50 * GB, hardware.UPI_2),
        )
    }
)
"""The machines, by name. NIC rates: EDR on DGX-1 and DGX-2, HDR on DGX A100, NDR on DGX H100."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal machines and the network between them."""

    machine: Machine
    hosts: int = 1
    nics: Nics = "rail"
    nic_rate: int | None = None
    """Bytes per second of a NIC and direction; the machine's own if None."""
    latency: int = hardware.NETWORK_LATENCY
    """Picoseconds of one network link."""
    oversubscription: Fraction = Fraction(1)
    """What the machines can send into a leaf switch, over what the leaf can send to the spine."""
    efficiency: Fraction = Fraction(1)
    """The share of an NVLink that payload gets."""

    @property
    def npus(self) -> int:
        """GPUs of all machines."""
        return self.hosts * self.machine.gpus

    def graph(self) -> Graph:
        """The cluster, or the machine, link by link."""
        return _Builder(self).graph()

    def __str__(self) -> str:
        given = {
            "nodes": str(self.hosts) if self.hosts > 1 else "",
            "nics": self.nics if self.hosts > 1 else "",
            "nic_rate": "" if self.nic_rate is None else quantities.RATE.format(self.nic_rate),
            "latency": quantities.TIME.format(self.latency) if self.latency != hardware.NETWORK_LATENCY else "",
            "oversubscription": str(self.oversubscription).replace("/", ":") if self.oversubscription != 1 else "",
            "efficiency": quantities.format_share(self.efficiency) if self.efficiency != 1 else "",
        }
        arguments = ", ".join(f"{key}={value}" for key, value in given.items() if value)
        return f"{self.machine.name}({arguments})" if arguments else self.machine.name


class _Builder:
    """Nodes and links of a cluster. GPUs come first, machine by machine."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.machine = cluster, cluster.machine
        hosts, gpus = cluster.hosts, self.machine.gpus
        self.nodes = [Node(self._name(h, f"GPU {g}"), "npu", h) for h in range(hosts) for g in range(gpus)]
        self.links: list[Link] = []
        self.networked = hosts > 1
        self.with_pcie = self.networked or self.machine.switch_links == 0
        self.with_cpus = self.with_pcie and (self.machine.switch_links == 0 or cluster.nics == "single")

    def graph(self) -> Graph:
        nics = [self._host(host) for host in range(self.cluster.hosts)]
        if self.networked:
            self._network(nics)
        return checked(
            Graph(
                name=str(self.cluster),
                nodes=tuple(self.nodes),
                links=tuple(both_ways(self.links)),
                link_unit=int(self.machine.nvlink_rate * self.cluster.efficiency),
                assumptions=tuple(self._assumptions()),
            )
        )

    def _name(self, host: int, name: str) -> str:
        return f"node {host} {name}" if self.cluster.hosts > 1 else name

    def _add(self, name: str, kind: NodeKind, host: int | None = None) -> int:
        self.nodes.append(Node(name if host is None else self._name(host, name), kind, host))
        return len(self.nodes) - 1

    def _host(self, host: int) -> list[int]:
        """Adds what a machine has beside its GPUs. Returns its NICs."""
        machine, first = self.machine, host * self.machine.gpus
        for a, b, count in machine.pairs:
            self._nvlink(first + a, first + b, NVLINK, hardware.NVLINK_LATENCY, count)
        if machine.switch_links:
            switch = self._add("NVSwitch", "switch", host)
            for gpu in range(first, first + machine.gpus):
                self._nvlink(gpu, switch, NVSWITCH, hardware.NVSWITCH_LATENCY, machine.switch_links)
        if not self.with_pcie:
            return []
        switches = [self._add(f"PCIe switch {i}", "switch", host) for i in range(machine.pcie_switches)]
        for gpu in range(machine.gpus):
            self._pcie(first + gpu, switches[gpu * len(switches) // machine.gpus])
        if self.with_cpus:
            near, far = (self._add(f"CPU {i}", "cpu", host) for i in range(2))
            for index, pcie in enumerate(switches):
                self._pcie(pcie, near if index < len(switches) // 2 else far)
            wire = machine.socket
            self.links.append(Link(near, far, wire.rate, hardware.SOCKET_LATENCY, wire.kind, 1, wire.efficiency))
        if not self.networked:
            return []
        count = 1 if self.cluster.nics == "single" else machine.nics
        nics = [self._add(f"NIC {i}", "nic", host) for i in range(count)]
        for index, nic in enumerate(nics):
            self._pcie(nic, switches[index * len(switches) // machine.nics])
        return nics

    def _network(self, nics: list[list[int]]) -> None:
        """Adds the switches between machines."""
        rate = self._nic_rate
        if self.cluster.nics == "single":
            switch = self._add("network switch", "switch")
            self.links += [Link(host[0], switch, rate, self.cluster.latency, INFINIBAND) for host in nics]
            return
        leaves = [self._add(f"leaf {i}", "switch") for i in range(self.machine.nics)]
        self.links += [
            Link(nic, leaf, rate, self.cluster.latency, INFINIBAND)
            for host in nics
            for nic, leaf in zip(host, leaves, strict=True)
        ]
        spine = self._add("spine", "switch")
        up = int(rate * self.cluster.hosts / self.cluster.oversubscription)
        self.links += [Link(leaf, spine, up, self.cluster.latency, INFINIBAND) for leaf in leaves]

    def _nvlink(self, src: int, dst: int, kind: str, latency: int, count: int) -> None:
        rate = self.machine.nvlink_rate
        self.links.append(Link(src, dst, rate, latency, kind, count, self.cluster.efficiency))

    def _pcie(self, src: int, dst: int) -> None:
        rate, efficiency, _ = hardware.pcie_rate(f"{self.machine.pcie_gt} GT/s", hardware.DEFAULT_PCIE_WIDTH)
        self.links.append(Link(src, dst, rate, hardware.PCIE_LATENCY, PCIE, efficiency=efficiency))

    @property
    def _nic_rate(self) -> int:
        return self.machine.nic_rate if self.cluster.nic_rate is None else self.cluster.nic_rate

    def _assumptions(self) -> Iterator[str]:
        machine, cluster = self.machine, self.cluster
        if machine.pairs:
            yield hardware.latency_assumption(NVLINK, hardware.NVLINK_LATENCY)
        if machine.switch_links:
            yield hardware.latency_assumption(NVSWITCH, hardware.NVSWITCH_LATENCY)
            yield "all NVSwitches of a machine are one switch that never blocks"
        if cluster.efficiency == 1:
            yield "payload gets all of an NVLink (efficiency=100%)"
        if self.with_pcie:
            yield hardware.latency_assumption(PCIE, hardware.PCIE_LATENCY)
        if self.with_cpus:
            yield hardware.latency_assumption(machine.socket.kind, hardware.SOCKET_LATENCY)
        if not self.networked:
            return
        yield hardware.latency_assumption(INFINIBAND, cluster.latency)
        if cluster.nic_rate is None:
            yield f"a NIC has {quantities.RATE.format(machine.nic_rate)} each way (that of a {machine.title})"
        yield "the network between machines never blocks, other than by oversubscription of the leaves"
