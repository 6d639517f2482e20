"""What the software model needs to know of a machine or a cluster (`fabric.machines`), and which class it belongs to.

| machine | software | |
|---|---|---|
| dgx1p, dgx1v | v100-mesh | hybrid cube mesh |
| dgx2 | v100-nvswitch | |
| dgx-a100 | a100-nvswitch | |
| dgx-h100, dgx-h200 | h100-nvswitch | NVSwitches that sum up (NVLS) |

GPUs, NVLinks and NICs are those of the machine, written as everywhere: `dgx-h100(nodes=2, nics=single)`. What the
class has constants of its own for, or what the model does not look at, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from syncline.errors import InputError, command_line, one_of
from syncline.fabric import allocation, hardware, notation
from syncline.fabric.allocation import AllocationError
from syncline.fabric.machines import Cluster
from syncline.fabric.notation import MachineError

MACHINE_FLAG: Final = "--machine"
GPUS_FLAG: Final = "--gpus"

CLASSES: Final = MappingProxyType(
    {
        "dgx1p": "v100-mesh",
        "dgx1v": "v100-mesh",
        "dgx2": "v100-nvswitch",
        "dgx-a100": "a100-nvswitch",
        "dgx-h100": "h100-nvswitch",
        "dgx-h200": "h100-nvswitch",
    }
)
"""The class of software constants of each machine: the one that was fitted on such machines."""
NVLS: Final = frozenset({"dgx-h100", "dgx-h200"})
"""Machines whose switches can sum up (NVLink SHARP)."""
NAMES: Final = tuple(CLASSES)


@dataclass(frozen=True, slots=True)
class Platform:
    """GPUs of a machine or of a cluster of equal machines, as far as the software model looks at them."""

    machine: str
    """As `--machine` has it."""
    gpus_per_node: int
    """Those that take part; as many on every node."""
    nodes: int
    """Nodes with GPUs that take part."""
    nvlink_rate: int
    """What all NVLinks of a GPU carry in one direction, in bytes per second."""
    nics: int
    """NICs of a node that its GPUs that take part use."""
    nic_rate: int
    """What a NIC carries in one direction, in bytes per second."""
    software: str
    """The class of software constants that was fitted on such machines."""
    switched: bool
    """Whether the GPUs of a node meet in an NVSwitch."""
    nvls: bool
    """Whether the switch can sum up."""
    members: tuple[int, ...] = field(compare=False, repr=False)
    """The GPUs that take part, by number."""
    cluster: Cluster = field(compare=False, repr=False)
    """The machine in full."""

    @property
    def gpus(self) -> int:
        """All GPUs that take part."""
        return self.gpus_per_node * self.nodes

    @property
    def node_nic_rate(self) -> int:
        """What the NICs of a node carry together in one direction, in bytes per second."""
        return self.nics * self.nic_rate

    @property
    def partial(self) -> bool:
        """Whether some GPUs of the machines that take part do not."""
        return self.gpus_per_node < self.cluster.machine.gpus

    def __str__(self) -> str:
        whole = self.gpus == self.cluster.npus
        return self.machine if whole else f"{self.gpus} of the {self.cluster.npus} GPUs of {self.machine}"

    def with_gpus(self, gpus_per_node: int) -> Platform:
        """The first GPUs of every machine."""
        each = self.cluster.machine.gpus
        return of(self.cluster, [host * each + i for host in range(self.nodes) for i in range(gpus_per_node)])


def platform(text: str, gpus: str | None = None) -> Platform:
    """The platform that `--machine` and `--gpus` name. Raises [`InputError`]."""
    try:
        cluster = notation.parse(text)
    except MachineError as error:
        raise command_line(MACHINE_FLAG, text, error.message, error.accepted) from None
    for given, name, why in (
        (cluster.efficiency != 1, "efficiency", "the class has the share of an NVLink that data reaches"),
        (cluster.latency != hardware.NETWORK_LATENCY, "latency", "the class has the latency of the network"),
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


def of(cluster: Cluster, gpus: Sequence[int]) -> Platform:
    """The platform of some GPUs of a cluster. Raises [`InputError`] if the nodes do not have equally many, or if no
    class of constants was fitted on such machines.
    """
    machine = cluster.machine
    if machine.name not in CLASSES:
        message = f"no software constants were fitted on a {machine.title} yet; it can be simulated (collective, run)"
        raise command_line(MACHINE_FLAG, str(cluster), message, one_of(NAMES))
    hosts: dict[int, list[int]] = {}
    for gpu in gpus:
        hosts.setdefault(gpu // machine.gpus, []).append(gpu % machine.gpus)
    counts = {len(local) for local in hosts.values()}
    if len(counts) > 1:
        raise _uneven(gpus, hosts)
    links = machine.switch_links or sum(count for a, b, count in machine.pairs if 0 in (a, b))
    return Platform(
        machine=str(cluster),
        gpus_per_node=counts.pop(),
        nodes=len(hosts),
        nvlink_rate=links * machine.nvlink_rate,
        nics=min(_nics(cluster, local) for local in hosts.values()),
        nic_rate=machine.nic_rate if cluster.nic_rate is None else cluster.nic_rate,
        software=CLASSES[machine.name],
        switched=machine.switch_links > 0,
        nvls=machine.name in NVLS,
        members=tuple(gpus),
        cluster=cluster,
    )


def _nics(cluster: Cluster, local: Sequence[int]) -> int:
    """The NICs that GPUs of a machine use: those on their PCIe switches, and no more than there are GPUs."""
    machine = cluster.machine
    if cluster.nics == "single":
        return 1
    switches = {gpu * machine.pcie_switches // machine.gpus for gpu in local}
    near = sum(nic * machine.pcie_switches // machine.nics in switches for nic in range(machine.nics))
    return min(near, len(local))


def _uneven(gpus: Sequence[int], hosts: dict[int, list[int]]) -> InputError:
    fewest, most = min(hosts, key=lambda host: len(hosts[host])), max(hosts, key=lambda host: len(hosts[host]))
    counts = f"{len(hosts[fewest])} on node {fewest} and {len(hosts[most])} on node {most}"
    message = f"the software model knows nodes with equally many GPUs only, here are {counts}"
    return command_line(GPUS_FLAG, allocation.canonical(gpus), message, "as many GPUs on every node")
