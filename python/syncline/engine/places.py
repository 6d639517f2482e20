"""Where the GPUs of communicators stand: those that stand alike cost the same, and are simulated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from syncline.fabric import hardware, notation, topologies
from syncline.fabric.machines import Cluster
from syncline.fabric.topologies import Fabric
from syncline.fabric.topology import Topology
from syncline.nccl import platform, wire
from syncline.nccl.derived import Derived
from syncline.nccl.platform import Platform


class Place(NamedTuple):
    """GPUs that stand to each other, and to the links between them, as those of other communicators do."""

    cluster: str
    """A cluster with no more servers than they are on; nothing for a topology that is simulated as it is."""
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """The GPUs of a run."""

    topology: Fabric
    known: Cluster | Derived
    """The machine or cluster that the topology is, or what follows from its links."""

    @property
    def is_switched(self) -> bool:
        """Whether GPUs meet in switches only."""
        return self.known.is_switched if isinstance(self.known, Derived) else self.known.machine.switch_links > 0

    @property
    def efficiency(self) -> float:
        """The most that data gets of a link where rates follow from links."""
        return self.known.efficiency if isinstance(self.known, Derived) else 1.0

    def of(self, members: tuple[int, ...]) -> Place:
        """Where GPUs stand."""
        if isinstance(self.known, Derived):
            return Place("", self.known.place(members))
        return _of_cluster(self.known, members)

    def platform(self, members: tuple[int, ...]) -> Platform:
        """What the software model needs to know of some GPUs."""
        if isinstance(self.known, Derived):
            return self.known.platform(members)
        return platform.of(self.known, members, uneven=True)

    def follows_links(self, where: Platform, algorithm: str) -> bool:
        """Whether bytes on the busiest link are those that are simulated: of exchanges where no machine is like this or
        servers have unequal parts, but for GPUs that are wired one by one, and of rings where ways share links.
        """
        if algorithm == wire.DIRECT:
            return where.switched and (isinstance(self.known, Derived) or where.total > 0)
        return algorithm in (wire.RING, wire.TREE) and isinstance(self.known, Derived) and self.known.shares_links

    def undisturbed(self, place: Place) -> Mapping[str, Any]:
        """The engine's fabric, when nothing is slow or oversubscribed; as it is where it is no machine."""
        return _undisturbed(place.cluster) if place.cluster else self.topology.specification()


def _of_cluster(cluster: Cluster, members: tuple[int, ...]) -> Place:
    """Servers are alike. Behind NVSwitches the GPUs of one server are, too; and of several servers the PCIe switches,
    where each has rails of its own.
    """
    machine = cluster.machine
    servers: dict[int, int] = {}
    for gpu in members:
        servers.setdefault(gpu // machine.gpus, len(servers))
    if machine.switch_links == 0:
        block = machine.gpus  # all have places of their own
    elif len(servers) == 1:
        block = 1
    else:
        with_rails = cluster.nics == "rail" and machine.rails == machine.nics
        block = machine.gpus // machine.pcie_switches if with_rails else machine.gpus
    blocks: dict[int, int] = {}
    found = []
    for gpu in members:
        server, local = divmod(gpu, machine.gpus)
        place = blocks.setdefault(local // block, len(blocks)) if block < machine.gpus else 0
        found.append(servers[server] * machine.gpus + place * block + local % block)
    if not isinstance(cluster, platform.ProductCluster):
        alone = Cluster(machine, efficiency=cluster.efficiency)
        if alone.has_pcie:
            alone = replace(alone, pcie_efficiency=cluster.pcie_efficiency, pcie_rate=cluster.pcie_rate)
        cluster = alone if len(servers) == 1 else replace(cluster, hosts=len(servers))
    return Place(str(cluster), tuple(found))


@lru_cache(16)
def _undisturbed(cluster: str) -> Mapping[str, Any]:
    """The engine's fabric of a cluster as the model knows it, whose constants have latencies and shares of links: with
    shares that are stated, too, collectives take what they take without.
    """
    fabric = topologies.parse(cluster)
    if isinstance(fabric, Topology):
        return fabric.specification()
    plain = replace(notation.parse(cluster), latency=hardware.NETWORK_LATENCY, oversubscription=Fraction(1))
    return plain.graph().specification()
