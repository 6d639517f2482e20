"""What the software model needs to know of a machine or a cluster (`fabric.machines`), and which class it belongs to.

| machine | software | |
|---|---|---|
| dgx1p, dgx1v | v100-mesh | hybrid cube mesh |
| dgx2 | v100-nvswitch | |
| dgx-a100 | a100-nvswitch | |
| dgx-h100, dgx-h200 | h100-nvswitch | NVSwitches that sum up (NVLS) |
| dgx-b200 | b200-nvswitch | as above |
| gb200-nvl72 | gb200-nvl72 | as above, 72 GPUs of 18 hosts |

GPUs, NVLinks and NICs are those of the machine, written as everywhere: `dgx-h100(nodes=2, nics=single)`. What the
class has constants of its own for, or what the model does not look at, is refused.

A product of one or two switches is read as servers of GPUs (`ProductCluster`): of
`Switch(8, rate=450GB/s)_Switch(4, rate=50GB/s)` the first dimension is the NVSwitch of a server, whose link is all
NVLinks of a GPU together, and the second one the network between servers, whose link is a NIC that the GPU has for
itself. The GPU is the one that is stated. Of all other topologies, servers and rates follow from the links
(`derived.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from syncline.base.errors import InputError, command_line
from syncline.fabric import allocation, hardware, notation
from syncline.fabric.allocation import AllocationError
from syncline.fabric.machines import MACHINES, Cluster, Machine
from syncline.fabric.notation import MachineError
from syncline.fabric.topologies import Fabric
from syncline.fabric.topology import Topology
from syncline.nccl import mesh

MACHINE_FLAG: Final = "--machine"
GPUS_FLAG: Final = "--gpus"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the software model knows of a machine beside its links."""

    software: str
    """The class of software constants: the one that was fitted on such machines."""
    generation: str
    """That of the GPU, by which NCCL tells channels apart (`tuning.GENERATIONS`)."""
    nvls: bool = False
    """Whether the switches can sum up (NVLink SHARP)."""


KINDS: Final = MappingProxyType(
    {
        "dgx1p": Kind("v100-mesh", "pascal"),
        "dgx1v": Kind("v100-mesh", "volta"),
        "dgx2": Kind("v100-nvswitch", "volta"),
        "dgx-a100": Kind("a100-nvswitch", "ampere"),
        "dgx-h100": Kind("h100-nvswitch", "hopper", nvls=True),
        "dgx-h200": Kind("h100-nvswitch", "hopper", nvls=True),
        "dgx-b200": Kind("b200-nvswitch", "blackwell", nvls=True),
        "gb200-nvl72": Kind("gb200-nvl72", "blackwell", nvls=True),
    }
)
"""Every machine of `fabric.machines`."""
NAMES: Final = tuple(KINDS)


NCCL: Final = (2, 27)
"""The version of NCCL where none is named: that of most measured tables of GPUs with NVLS is 2.19 to 2.27, which choose
in the same way."""
_CTAS: Final = re.compile(r"\bNCCL_MIN_CTAS=([0-9]{1,3})\b")
_VERSION: Final = re.compile(r"\b([2-9])\.([0-9]{1,2})(?:\.[0-9]+)*\b")

_MODEL: Final = re.compile(r"\b(?:GB|GH|[A-Z])[0-9]{2,3}\b", re.ASCII | re.IGNORECASE)
_ON_PCIE: Final = re.compile(r"\b(?:pcie|nvl)\b", re.IGNORECASE)
"""H100 PCIe, H100 NVL: cards without NVSwitches."""


@dataclass(frozen=True, slots=True)
class Platform:
    """GPUs of a machine or of a cluster of equal machines, as far as the software model looks at them."""

    machine: str
    """As `--machine` has it."""
    gpus_per_node: int
    """Those that take part; as many on every node, or the most of a node (`total`)."""
    nodes: int
    """Nodes with GPUs that take part."""
    nvlink_rate: int
    """What the NVLinks of a GPU carry in one direction, in bytes per second: all of them, or on a mesh those of rings
    through the GPUs that take part (PCIe where there is no ring)."""
    nvlink_link_rate: int
    """What one NVLink carries."""
    nics: int
    """NICs of a node that its GPUs that take part use."""
    nic_rate: int
    """What a NIC carries in one direction, in bytes per second."""
    pcie_rate: int
    """Payload of the narrowest link that a NIC is reached over, in bytes per second: PCIe, or the one between sockets
    where the only NIC of a node is on the other one than its GPUs."""
    pcie_wire_rate: int
    """What that link carries with all headers."""
    network: str
    """The class of the network between nodes (`networks.py`)."""
    software: str
    """The class of software constants that was fitted on such machines."""
    generation: str
    """That of the GPUs."""
    on_pcie: bool
    """Whether the rings of a mesh go over PCIe, as no NVLinks lead through all that take part."""
    switched: bool
    """Whether the GPUs of a node meet in an NVSwitch."""
    nvls: bool
    """Whether the switch can sum up."""
    members: tuple[int, ...] = field(repr=False)
    """The GPUs that take part, by number."""
    cluster: Cluster = field(compare=False, repr=False)
    """The machine in full."""
    total: int = 0
    """All GPUs that take part, where nodes do not have equally many; else 0."""
    nccl: tuple[int, int] = NCCL
    """The version of NCCL."""
    ctas: int = 0
    """The least number of channels, where one is set (NCCL_MIN_CTAS)."""

    @property
    def gpus(self) -> int:
        """All GPUs that take part."""
        return self.total or self.gpus_per_node * self.nodes

    @property
    def node_nic_rate(self) -> int:
        """What the NICs of a node carry together in one direction, in bytes per second."""
        return self.nics * self.nic_rate

    @property
    def nic_groups(self) -> int:
        """Places where a node's traffic leaves the PCIe of its GPUs: NICs, or all of a GPU that has several."""
        return self.nics // self.cluster.nics_per_group

    @property
    def single_nic(self) -> bool:
        """Whether all GPUs of a node share the one NIC that it has."""
        return self.cluster.nics == "single"

    @property
    def hosts(self) -> int:
        """Operating systems with GPUs that take part, which a table counts as nodes."""
        machine = self.cluster.machine
        return self.nodes if machine.trays == 0 else self.nodes * -(-self.gpus_per_node * machine.trays // machine.gpus)

    @property
    def gpu(self) -> str:
        """The GPU as tables of measurements name it."""
        title = self.cluster.machine.gpu.title
        return gpu_of(title) or title

    @property
    def local_gpus(self) -> list[tuple[int, ...]]:
        """The GPUs that take part of every machine, by their numbers there."""
        each = self.cluster.machine.gpus
        found: dict[int, list[int]] = {}
        for gpu in self.members:
            found.setdefault(gpu // each, []).append(gpu % each)
        return [tuple(local) for local in found.values()]

    def __str__(self) -> str:
        whole = self.gpus == self.cluster.npus
        return self.machine if whole else f"{self.gpus} of the {self.cluster.npus} GPUs of {self.machine}"

    def with_gpus(self, gpus_per_node: int) -> Platform:
        """The first GPUs of every machine."""
        each = self.cluster.machine.gpus
        return of(self.cluster, [host * each + i for host in range(self.nodes) for i in range(gpus_per_node)])


def nccl_of(text: str) -> tuple[int, int]:
    """The version of NCCL that a text names, such as `2.26.2; default`, or [`NCCL`] if it names none."""
    found = _VERSION.search(text)
    return NCCL if found is None else (int(found[1]), int(found[2]))


def ctas_of(text: str) -> int:
    """The least number of channels that a text sets with NCCL_MIN_CTAS, or 0."""
    found = _CTAS.search(text)
    return 0 if found is None else int(found[1])


def gpu_of(text: str) -> str | None:
    """The GPU that a device's name stands for, such as A100 for `NVIDIA A100-SXM4-40GB`: the model where the name
    has one (`A100-PCIE` is another than `A100`), else the whole name; nothing for no name.
    """
    name = re.sub(r"\b(nvidia|tesla|geforce|graphics device)\b", "", text, flags=re.IGNORECASE).strip(" -")
    found = _MODEL.search(name)
    if found is None:
        return name or None
    model = found[0].upper()
    return f"{model}-PCIE" if _ON_PCIE.search(name) else model


def platform(text: str, gpus: str | None = None) -> Platform:
    """The platform that `--machine` and `--gpus` name. Raises [`InputError`]."""
    try:
        cluster = notation.parse(text)
    except MachineError as error:
        raise command_line(MACHINE_FLAG, text, error.message, error.accepted) from None
    for given, name, why in (
        (cluster.efficiency != 1, "efficiency", "the class has the share of an NVLink that data reaches"),
        (cluster.latency != hardware.NETWORK_LATENCY, "latency", "the class has the latency of the network"),
        (cluster.pcie_rate is not None, "pcie_rate", "the class has the PCIe of the machine"),
        (cluster.pcie_efficiency is not None, "pcie_efficiency", "the class has the share of a NIC that data reaches"),
        (cluster.oversubscription != 1, "oversubscription", "the software model has no switches between machines"),
    ):
        if given:
            raise command_line(
                MACHINE_FLAG, text, f"{name} has no meaning here: {why}", f"{cluster.machine.name} without {name}"
            )
    if gpus is None:
        return of(cluster, range(cluster.npus))
    try:
        return of(cluster, allocation.parse(gpus, cluster.npus))
    except AllocationError as error:
        raise command_line(GPUS_FLAG, gpus, error.message, error.accepted) from None


class NotPricedError(ValueError):
    """The software model does not know the GPUs of a topology; `path` leads to the field to blame."""

    def __init__(self, path: tuple[str, ...], message: str, accepted: str) -> None:
        super().__init__(message)
        self.path, self.message, self.accepted = path, message, accepted


@dataclass(frozen=True, slots=True)
class ProductCluster(Cluster):
    """A product of switches that is read as servers of GPUs."""

    product: Topology = field(kw_only=True)

    def __str__(self) -> str:
        return str(self.product)


def cluster_of(topology: Fabric, gpu: str | None) -> Cluster | None:
    """The machine or the cluster that a topology is, or is read as if its NPUs are such GPUs; nothing if it is none."""
    if isinstance(topology, Topology):
        return _of_product(topology, gpu)
    try:
        return notation.parse(topology.name) if topology.file is None else None
    except MachineError:
        return None


def _of_product(topology: Topology, gpu: str | None) -> ProductCluster | None:
    inner, *outer = topology.dims
    switched = {_model(machine.gpu.name): machine for machine in MACHINES.values() if machine.switch_links}
    if len(outer) > 1 or any(dim.block != "switch" for dim in topology.dims):
        return None
    if gpu is None or _model(gpu) not in switched:
        return None
    like = switched[_model(gpu)]
    rate = inner.rate * inner.links
    nvlinks = max(1, round(rate / like.nvlink_rate))
    machine: Machine = replace(
        like, gpus=inner.size, switch_links=nvlinks, nvlink_rate=rate // nvlinks, pcie_switches=inner.size,
        nics=inner.size, rails=inner.size, trays=0,
    )  # fmt: skip
    nic = next((dim.rate * dim.links for dim in outer), None)
    return ProductCluster(machine, topology.npus // inner.size, nic_rate=nic, product=topology)


def _model(gpu: str) -> str:
    """A GPU without the size of its memory."""
    return gpu.partition("-")[0]


def of(cluster: Cluster, gpus: Sequence[int], *, uneven: bool = False) -> Platform:
    """The platform of some GPUs of a cluster. Raises [`InputError`] if the nodes do not have equally many, unless these
    may be `uneven`: no table was measured on such GPUs, so they count as the rings through them do.
    """
    machine = cluster.machine
    hosts: dict[int, list[int]] = {}
    for gpu in gpus:
        hosts.setdefault(gpu // machine.gpus, []).append(gpu % machine.gpus)
    counts = {len(local) for local in hosts.values()}
    if len(counts) > 1 and not uneven:
        raise _uneven(gpus, hosts)
    kind = KINDS[machine.name]
    rates = [(machine.switch_links * machine.nvlink_rate, True)]
    if not machine.switch_links:
        several = [local for local in hosts.values() if len(local) > 1] or list(hosts.values())
        rates = [mesh.ring_rate(machine, local) for local in several]
    pcie_rate, pcie_wire_rate = cluster.pcie_payload, cluster.pcie[0]
    if isinstance(cluster, ProductCluster):  # which has no PCIe
        pcie_rate, pcie_wire_rate = max(pcie_rate, cluster.nic), max(pcie_wire_rate, 2 * cluster.nic)
    half = machine.gpus // 2
    if cluster.nics == "single" and any(min(local) >= half for local in hosts.values()):
        pcie_rate = min(pcie_rate, mesh.socket_rate(machine))
    return Platform(
        machine=str(cluster),
        gpus_per_node=max(counts),
        nodes=len(hosts),
        nvlink_rate=min(rate for rate, _ in rates),
        nvlink_link_rate=machine.nvlink_rate,
        nics=min(_nics(cluster, local) for local in hosts.values()),
        nic_rate=cluster.nic,
        pcie_rate=pcie_rate,
        pcie_wire_rate=pcie_wire_rate,
        network=cluster.network,
        software=kind.software,
        generation=kind.generation,
        on_pcie=not all(on_nvlink for _, on_nvlink in rates),
        switched=machine.switch_links > 0,
        nvls=kind.nvls,
        members=tuple(gpus),
        cluster=cluster,
        total=len(gpus) if len(counts) > 1 else 0,
    )


def _nics(cluster: Cluster, local: Sequence[int]) -> int:
    """The NICs that GPUs of a machine use: those that are theirs by position."""
    return len({gpu * cluster.nic_groups // cluster.machine.gpus for gpu in local}) * cluster.nics_per_group


def _uneven(gpus: Sequence[int], hosts: dict[int, list[int]]) -> InputError:
    fewest, most = min(hosts, key=lambda host: len(hosts[host])), max(hosts, key=lambda host: len(hosts[host]))
    counts = f"{len(hosts[fewest])} on node {fewest} and {len(hosts[most])} on node {most}"
    message = f"the software model needs equally many GPUs on every server, and here are {counts}"
    return command_line(GPUS_FLAG, allocation.canonical(gpus), message, "equally many GPUs on every server")
