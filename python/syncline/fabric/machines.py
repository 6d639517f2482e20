"""Machines that are known by name, and clusters of them.

*DGX-1* (P100, V100): eight GPUs with direct NVLinks, the hybrid cube mesh of `_CUBE_MESH`. Each of the two sockets
has two PCIe switches with two GPUs and one InfiniBand adapter each, so that GPUs without an NVLink between them can
talk over PCIe. The pairs and their links are those that `nvidia-smi topo -m` and NCCL's topology dumps show on these
machines; the numbering is NVIDIA's, and other vendors number the same graph differently.

*DGX-2, DGX A100, H100, H200, B200*: every GPU has all its NVLinks to NVSwitches (NVIDIA's user guides), which together
are one switch here: any GPU can send all it has to any other. A single machine is nothing but this star; its PCIe
is left out, since no traffic between its GPUs needs it. The NVLinks of a B200 are of the fifth generation: 18 with
50 GB/s each way.

*GB200 NVL72*: a rack of 18 compute trays, each with two Grace CPUs and four GPUs, whose NVLinks all lead to the nine
switch trays of the rack: the same star with 72 GPUs (NVIDIA's tuning guide for multi-node NVLink systems). Each CPU
is linked to its two GPUs by NVLink-C2C and has a NIC for each of them on PCIe.

*Clusters*: each machine's NICs hang off the PCIe switches (the Grace CPUs) of its GPUs. `rail`: NIC i of every machine
is on leaf switch i (of an NVL72: of every tray), and the leaves are joined by a spine that is a single switch here,
each leaf with as much to the spine as to the machines, divided by the oversubscription. `single`: one NIC per machine,
on PCIe switch 0, and one switch for all. A number of NICs is as `rail`, shared by position: with fewer NICs than GPUs,
NIC i is that of the i-th of equal parts of the GPUs, which are on its PCIe switch; with more, every GPU has as many,
which carry each of its messages together. CPUs and the links between them are part of a cluster only where they are
needed: on the DGX-1, and with `single`. Where every GPU has NICs on its own PCIe switch, traffic between machines does
not cross a CPU. In an NVL72 no way leads from a GPU to a NIC of another CPU, so that every CPU has a NIC, and there is
no `single`.

GPUs are those of `fabric.gpus`. Where NVIDIA built a machine with two sizes of memory, it has the larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from syncline.base import quantities
from syncline.fabric import hardware
from syncline.fabric.gpu_products import Hardware
from syncline.fabric.gpus import GPUS, Gpu
from syncline.fabric.graph import (
    C2C,
    INFINIBAND,
    NVLINK,
    NVSWITCH,
    PCIE,
    Graph,
    Link,
    Node,
    NodeKind,
    both_ways,
    checked,
)
from syncline.fabric.hardware import GB, Socket

Nics: TypeAlias = Literal["rail", "single"]

NICS: Final[tuple[Nics, ...]] = ("rail", "single")
MAX_NICS_PER_GPU: Final = 16
NETWORKS: Final = ("infiniband", "roce", "efa", "gpudirect-tcpx", "gpudirect-tcpxo", "tcp")
"""Kinds of networks between machines; the first is that of a DGX."""
MAX_HOSTS: Final = 1024

_CUBE_MESH: Final = (
    *((0, 3, 2), (2, 3, 2), (1, 2, 2), (1, 5, 2), (5, 6, 2), (6, 7, 2), (4, 7, 2), (0, 4, 2)),
    *((0, 1, 1), (1, 3, 1), (3, 7, 1), (5, 7, 1), (4, 5, 1), (4, 6, 1), (2, 6, 1), (0, 2, 1)),
)
"""Pairs of GPUs and their NVLinks on the DGX-1 with V100: a ring of double links, and another one of single links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as its vendor builds it."""

    name: str
    title: str
    gpu: Gpu
    gpus: int
    nvlink_rate: int
    """Bytes per second of one NVLink and direction."""
    pairs: tuple[tuple[int, int, int], ...] = ()
    """GPUs with direct NVLinks, and how many."""
    switch_links: int = 0
    """NVLinks of each GPU to the NVSwitches."""
    pcie_switches: int
    """PCIe switches, the first half on socket 0, or Grace CPUs in their place; GPUs are spread over them in order."""
    pcie_gt: int
    """PCIe signalling, in GT/s per lane; all links have 16 lanes."""
    nics: int = 8
    """NICs for talking to other machines, spread over the PCIe switches in order."""
    rails: int = 8
    """Leaf switches of a cluster: NIC i is on leaf i, and so is every NIC that many further on."""
    nic_rate: int
    """Bytes per second of a NIC and direction."""
    socket: Socket | None
    """What connects the CPUs; none where PCIe hangs off CPUs that are not connected."""
    trays: int = 0
    """Compute trays of a rack; 0 for what is no rack."""

    def with_trays(self, trays: int) -> Machine:
        """The same rack with so many trays."""
        gpus, pcie, nics = (count // self.trays * trays for count in (self.gpus, self.pcie_switches, self.nics))
        return replace(self, gpus=gpus, pcie_switches=pcie, nics=nics, trays=trays)


def _dgx1(name: str, gpu: str, nvlink_rate: int, pairs: tuple[tuple[int, int, int], ...]) -> Machine:
    return Machine(
        name=name,
        title=f"DGX-1 with {gpu.partition('-')[0].upper()}",
        gpu=GPUS[gpu],
        gpus=8,
        nvlink_rate=nvlink_rate,
        pairs=pairs,
        pcie_switches=4,
        pcie_gt=8,
        nics=4,
        rails=4,
        nic_rate=12_500_000_000,
        socket=hardware.QPI,
    )


def _hopper(gpu: str) -> Machine:
    return Machine(
        name=f"dgx-{gpu}",
        title=f"DGX {gpu.upper()}",
        gpu=GPUS[gpu],
        gpus=8,
        nvlink_rate=25 * GB,
        switch_links=18,
        pcie_switches=8,
        pcie_gt=32,
        nic_rate=50 * GB,
        socket=hardware.UPI_2,
    )


MACHINES: Final = MappingProxyType(
    {
        machine.name: machine
        for machine in (
            _dgx1("dgx1p", "p100", 20 * GB, tuple((a, b, 1) for a, b, _ in _CUBE_MESH)),
            _dgx1("dgx1v", "v100-32gb", 25 * GB, _CUBE_MESH),
            Machine(
                name="dgx2",
                title="DGX-2",
                gpu=GPUS["v100-32gb"],
                gpus=16,
                nvlink_rate=25 * GB,
                switch_links=6,
                pcie_switches=8,
                pcie_gt=8,
                nic_rate=12_500_000_000,
                socket=hardware.UPI,
            ),
            Machine(
                name="dgx-a100",
                title="DGX A100",
                gpu=GPUS["a100-80gb"],
                gpus=8,
                nvlink_rate=25 * GB,
                switch_links=12,
                pcie_switches=4,
                pcie_gt=16,
                nic_rate=25 * GB,
                socket=hardware.XGMI,
            ),
            _hopper("h100"),
            _hopper("h200"),
            replace(_hopper("b200"), nvlink_rate=50 * GB),
            Machine(
                name="gb200-nvl72",
                title="GB200 NVL72",
                gpu=GPUS["gb200"],
                gpus=72,
                nvlink_rate=50 * GB,
                switch_links=18,
                pcie_switches=36,
                pcie_gt=32,
                nics=72,
                rails=4,
                nic_rate=50 * GB,
                socket=None,
                trays=18,
            ),
        )
    }
)
"""The machines, by name. NIC rates: EDR on DGX-1 and DGX-2, HDR on DGX A100, NDR on DGX H100 and later."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal machines and the network between them."""

    machine: Machine
    hosts: int = 1
    nics: Nics | int = "rail"
    """How NICs are arranged; a number of them per machine if it is neither that of the machine nor one."""
    nic_rate: int | None = None
    """Bytes per second of a NIC and direction; the machine's own if None."""
    network: str = NETWORKS[0]
    """The kind of network, by which NCCL's times differ; links are not changed by it."""
    latency: int = hardware.NETWORK_LATENCY
    """Picoseconds of one network link."""
    oversubscription: Fraction = Fraction(1)
    """What the machines can send into a leaf switch, over what the leaf can send to the spine."""
    efficiency: Fraction = Fraction(1)
    """The share of an NVLink that payload gets."""
    pcie_efficiency: Fraction | None = None
    """The share of a PCIe link that payload gets; what is assumed of its generation if None."""
    pcie_rate: int | None = None
    """Bytes per second of a PCIe link and direction on the wire; that of the machine's generation if None."""

    @property
    def nic_groups(self) -> int:
        """Nodes of a machine that are NICs: those that are shared by GPUs, or all of a GPU together."""
        if self.nics == "single":
            return 1
        return self.machine.nics if self.nics == "rail" else min(self.nics, self.machine.gpus)

    @property
    def nics_per_group(self) -> int:
        """NICs that carry every message together."""
        return max(1, self.nics // self.machine.gpus) if isinstance(self.nics, int) else 1

    @property
    def rails(self) -> int:
        """Switches that NICs are connected to."""
        if self.nics == "rail":
            return self.machine.rails
        return self.nic_groups // max(1, self.machine.trays)

    @property
    def has_cpus(self) -> bool:
        """Whether CPUs are part of it."""
        return self.has_pcie and (self.machine.switch_links == 0 or self.nics == "single")

    @property
    def pcie_switches(self) -> int:
        """PCIe switches of a machine: where no CPU joins them, no more than there are NICs."""
        switches = self.machine.pcie_switches
        return switches if self.has_cpus or self.hosts == 1 else min(switches, self.nic_groups)

    @property
    def pcie(self) -> tuple[int, Fraction]:
        """Bytes per second of a PCIe link on the wire, and the share of them that payload gets."""
        wire, share = hardware.pcie_rate(self.machine.pcie_gt)
        return (
            wire if self.pcie_rate is None else self.pcie_rate,
            share if self.pcie_efficiency is None else self.pcie_efficiency,
        )

    @property
    def pcie_payload(self) -> int:
        """Bytes per second of payload that a PCIe link carries in one direction."""
        wire, share = self.pcie
        return int(wire * share)

    @property
    def nic(self) -> int:
        """Bytes per second of a NIC and direction."""
        return self.machine.nic_rate if self.nic_rate is None else self.nic_rate

    @property
    def warnings(self) -> tuple[str, ...]:
        """That NICs are faster than the PCIe link to them: what they have to spare is of no use to anybody."""
        rate = self.nic * self.nics_per_group
        if self.hosts == 1 or rate <= self.pcie_payload:
            return ()
        nics, link = "a NIC has", "the PCIe link that it is on"
        if self.nics_per_group > 1:
            nics, link = f"the {self.nics_per_group} NICs of a GPU have", "the PCIe link of the GPU"
        pcie = quantities.RATE.format(self.pcie[0])
        return (
            f"{self}: {nics} {quantities.RATE.format(rate)} each way, but {link} carries "
            f"{hardware.gb(self.pcie_payload)} of payload (of {pcie} on the wire): "
            "traffic between machines gets no more",
        )

    @property
    def has_pcie(self) -> bool:
        """Whether PCIe links are part of it: a machine whose GPUs meet in NVSwitches needs them in clusters only."""
        return self.hosts > 1 or self.machine.switch_links == 0

    @property
    def npus(self) -> int:
        """GPUs of all machines."""
        return self.hosts * self.machine.gpus

    def graph(self) -> Graph:
        """The cluster, or the machine, link by link."""
        return _Builder(self).graph()

    def __str__(self) -> str:
        given = {
            "trays": "" if self.machine == MACHINES[self.machine.name] else str(self.machine.trays),
            "nodes": str(self.hosts) if self.hosts > 1 else "",
            "nics": str(self.nics) if self.hosts > 1 else "",
            "nic_rate": "" if self.nic_rate is None else quantities.RATE.format(self.nic_rate),
            "network": "" if self.network == NETWORKS[0] else self.network,
            "latency": quantities.TIME.format(self.latency) if self.latency != hardware.NETWORK_LATENCY else "",
            "oversubscription": str(self.oversubscription).replace("/", ":") if self.oversubscription != 1 else "",
            "efficiency": quantities.format_share(self.efficiency) if self.efficiency != 1 else "",
            "pcie_rate": "" if self.pcie_rate is None else quantities.RATE.format(self.pcie_rate),
            "pcie_efficiency": "" if self.pcie_efficiency is None else quantities.format_share(self.pcie_efficiency),
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
        self.with_pcie = cluster.has_pcie
        self.with_cpus = cluster.has_cpus
        self.pcie_rate, self.pcie_efficiency = cluster.pcie

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
                warnings=self.cluster.warnings,
                hardware=Hardware(self.machine.gpu, "that of the machine"),
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
        switches = [self._hub(host, i) for i in range(self.cluster.pcie_switches)]
        for gpu in range(machine.gpus):
            hub = switches[gpu * len(switches) // machine.gpus]
            if machine.socket is None:
                self.links.append(Link(first + gpu, hub, hardware.C2C_RATE, hardware.NVLINK_LATENCY, C2C))
            else:
                self._pcie(first + gpu, hub)
        if self.with_cpus and machine.socket is not None:
            near, far = (self._add(f"CPU {i}", "cpu", host) for i in range(2))
            for index, pcie in enumerate(switches):
                self._pcie(pcie, near if index < len(switches) // 2 else far)
            wire = machine.socket
            self.links.append(Link(near, far, wire.rate, hardware.SOCKET_LATENCY, wire.kind, 1, wire.efficiency))
        if not self.networked:
            return []
        count, each = self.cluster.nic_groups, self.cluster.nics_per_group
        names = [f"NIC {i}" if each == 1 else f"NICs {i * each}-{(i + 1) * each - 1}" for i in range(count)]
        nics = [self._add(name, "nic", host) for name in names]
        for index, nic in enumerate(nics):
            self._pcie(nic, switches[index * len(switches) // count], each)
        return nics

    def _hub(self, host: int, index: int) -> int:
        """Adds what NICs and GPUs meet in: a PCIe switch, or a CPU."""
        if self.machine.socket is None:
            return self._add(f"CPU {index}", "cpu", host)
        return self._add(f"PCIe switch {index}", "switch", host)

    def _network(self, nics: list[list[int]]) -> None:
        """Adds the switches between machines."""
        rate = self.cluster.nic
        if self.cluster.nics == "single":
            switch = self._add("network switch", "switch")
            self.links += [Link(host[0], switch, rate, self.cluster.latency, INFINIBAND) for host in nics]
            return
        rails, hosts, each = self.cluster.rails, self.cluster.hosts, self.cluster.nics_per_group
        leaves = [self._add(f"leaf {i}", "switch") for i in range(rails)]
        self.links += [
            Link(nic, leaves[index % rails], rate, self.cluster.latency, INFINIBAND, each)
            for host in nics
            for index, nic in enumerate(host)
        ]
        spine = self._add("spine", "switch")
        up = int(rate * each * hosts * (self.cluster.nic_groups // rails) / self.cluster.oversubscription)
        self.links += [Link(leaf, spine, up, self.cluster.latency, INFINIBAND) for leaf in leaves]

    def _nvlink(self, src: int, dst: int, kind: str, latency: int, count: int) -> None:
        rate = self.machine.nvlink_rate
        self.links.append(Link(src, dst, rate, latency, kind, count, self.cluster.efficiency))

    def _pcie(self, src: int, dst: int, count: int = 1) -> None:
        rate, share = self.pcie_rate, self.pcie_efficiency
        self.links.append(Link(src, dst, rate, hardware.PCIE_LATENCY, PCIE, count, share))

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
            if machine.socket is None:
                yield hardware.latency_assumption(C2C, hardware.NVLINK_LATENCY)
                rate = quantities.RATE.format(hardware.C2C_RATE)
                yield f"a GPU has {rate} each way to its CPU, half of what the NVLink-C2C of the CPU carries"
            if cluster.pcie_efficiency is None:
                yield from hardware.share_assumptions([(PCIE, self.pcie_rate, self.pcie_efficiency)])
        if self.with_cpus and machine.socket is not None:
            wire = machine.socket
            yield hardware.latency_assumption(wire.kind, hardware.SOCKET_LATENCY)
            yield from hardware.share_assumptions([(wire.kind, wire.rate, wire.efficiency)])
        if not self.networked:
            return
        if isinstance(cluster.nics, int) and cluster.nics < machine.gpus:
            yield f"{machine.gpus // cluster.nics} GPUs share a NIC by position, on its PCIe switch"
        if cluster.nics_per_group > 1:
            yield f"the {cluster.nics_per_group} NICs of a GPU carry each of its messages together"
        yield hardware.latency_assumption(INFINIBAND, cluster.latency)
        if cluster.nic_rate is None:
            yield f"a NIC has {quantities.RATE.format(machine.nic_rate)} each way (that of a {machine.title})"
        yield f"payload gets all of a link of class {INFINIBAND}"
        yield "the network between machines never blocks, other than by oversubscription of the leaves"
