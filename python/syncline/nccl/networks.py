"""The networks between servers, each with constants of its own, whatever GPUs the servers have.

NCCL's published latencies of steps between servers (`tuning.py`) are those of InfiniBand. A network takes
`network_latency_scale` times these, and `network_delay` seconds more per step: what its transport adds to a message.

Which algorithms and protocols NCCL may use is part of a network, where its vendor's guide sets them, and so is what its
plugin tells NCCL: the latency of a message, by which NCCL chooses among algorithms, and the size of chunks.

A network that no table was there to fit has assumed figures, and a range of them: predictions then have an interval
at all sizes. Its settings of NCCL and its NICs are those that its vendor's guide gives. Where a vendor states a rate,
the share follows from that; the others, and all delays, are what is usual of such a transport, not values of a single
publication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from syncline.nccl import constants, wire
from syncline.nccl.constants import PROTOCOLS, Constants, Software
from syncline.nccl.platform import Platform

US: Final = 1e-6
ALL: Final = (wire.RING, wire.TREE, wire.NVLS_TREE)


@dataclass(frozen=True, slots=True)
class Network:
    """A class of networks."""

    name: str
    constants: Mapping[str, float]
    """Of `constants.NETWORK`, by name."""
    fitted_on: tuple[str, ...] = ()
    """Tables of this package; none if the constants are assumed figures."""
    source: str = ""
    """Where these are from, or what vendors say of fitted ones."""
    fastest: Mapping[str, float] = field(default_factory=dict)
    """The ends of the range of assumed figures."""
    slowest: Mapping[str, float] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ALL
    """What NCCL may use between servers."""
    protocols: tuple[str, ...] = PROTOCOLS
    reported: Mapping[str, float] = field(default_factory=dict)
    """Seconds that its plugin tells NCCL a message takes, by machine, for which NCCL allows when it chooses among
    algorithms; NCCL's own transports (InfiniBand, RoCE, sockets) tell it none."""
    nvls_chunk: int | None = None
    """The largest chunk of NVLS trees that its plugin sets, if it does."""

    @property
    def is_fitted(self) -> bool:
        """Whether measured tables were there to fit."""
        return bool(self.fitted_on)


VERBS: Final = MappingProxyType(
    {
        "network_latency_scale": 1.0,
        "network_delay": constants.NO_DELAY,
        "efficiency_network": 0.985,
        "efficiency_single": 0.9,
        "efficiency_spread": 0.947,
    }
)
"""InfiniBand and RoCE, which carry the same verbs. Steps take what NCCL publishes, without any fit; the share of the
NICs' rate and what is left of it with more than two nodes are fitted, and `efficiency_single` is a round figure."""
VERBS_TABLES: Final = (
    *("h100-16-ring", "h100-16-tree", "h100-32-vm", "h100-64-tuned"),
    *("a100-32-deepops", "a100-16-oci"),
)

EFA_LATENCIES: Final = MappingProxyType(
    {
        **dict.fromkeys(("dgx1p", "dgx1v", "dgx2"), 150 * US),
        **dict.fromkeys(("dgx-a100", "dgx-h100"), 75 * US),
        **dict.fromkeys(("dgx-h200", "dgx-b200", "gb200-nvl72"), 35 * US),
    }
)
"""What the plugin for EFA (aws-ofi-nccl, `src/platform-aws.cpp`) tells NCCL on P3dn, on P4d and P5, and on P5en, P6 and
later. From P5 on it also sets the largest chunk of NVLS trees to 512 KiB (NCCL_NVLSTREE_MAX_CHUNKSIZE)."""


def _like_verbs(**changed: float) -> Mapping[str, float]:
    return MappingProxyType({**VERBS, **changed})


NETWORKS: Final = MappingProxyType(
    {
        network.name: network
        for network in (
            Network("infiniband", VERBS, VERBS_TABLES),
            Network("roce", VERBS, VERBS_TABLES),
            Network(
                "efa",
                _like_verbs(network_delay=21.47 * US, efficiency_single=0.5976),
                ("h100-16-efa", "v100-16-p3dn-ring"),
                source="the vendor's own model of NCCL counts 20us for a step between P5 servers and 18us for P5en "
                "(aws-ofi-nccl, src/tuner/nccl_ofi_model.cpp); the share of a single NIC is that of one table, of "
                "P3dn, which has no GPUDirect",
                reported=EFA_LATENCIES,
                nvls_chunk=512 * 2**10,
            ),
            Network(
                "gpudirect-tcpx",
                _like_verbs(network_delay=50 * US, efficiency_network=0.8, efficiency_single=0.8),
                source="settings of Google Cloud's guide to A3 High (NCCL_ALGO=Ring, NCCL_PROTO=Simple), whose "
                "servers have 4 NICs of 200 Gb/s for GPUs beside that of the host (1,000 Gb/s in all); no vendor "
                "states a delay or a rate: a TCP message between machines of a zone takes 20 to 40us one way, "
                "the process "
                "that receives for the GPU adds 10 to 20us, and headers and copies leave 60 to 90 % of the NIC",
                fastest={"network_delay": 20 * US, "efficiency_network": 0.9},
                slowest={"network_delay": 100 * US, "efficiency_network": 0.6},
                algorithms=(wire.RING,),
                protocols=("Simple",),
            ),
            Network(
                "gpudirect-tcpxo",
                _like_verbs(network_delay=45 * US, efficiency_network=0.91, efficiency_single=0.8),
                source="settings of Google Cloud's guide to A3 Mega (NCCL_ALGO=Ring,Tree, NCCL_PROTO=Simple,LL128, no "
                "NVLS), whose servers have 8 NICs of 200 Gb/s for GPUs beside that of the host (1,800 Gb/s in all); "
                "NVIDIA's guide to AI Cluster Runtime (GKE TCPXO Networking) states about 340 GB/s, which can only "
                "be the bus of a tree over two servers with 91 % of the NICs; no vendor states a delay: a "
                "message between "
                "machines of a zone takes 20 to 40us one way, and the process that receives for the GPU adds 10 "
                "to 20us",
                fastest={"network_delay": 15 * US, "efficiency_network": 0.97},
                slowest={"network_delay": 90 * US, "efficiency_network": 0.8},
                algorithms=(wire.RING, wire.TREE),
                protocols=("LL128", "Simple"),
            ),
            Network(
                "tcp",
                _like_verbs(network_delay=40 * US, efficiency_network=0.6, efficiency_single=0.6),
                source="a message through the kernels of two hosts takes 20 to 50us; NCCL's sockets copy what they "
                "send through the memory of the host, and a stream of TCP carries 20 to 40 Gb/s; NVIDIA's guide to AI "
                "Cluster Runtime (GKE TCPXO Networking) states about 4 GB/s where TCP takes the place of TCPXO: 16 % "
                "of a NIC of 200 Gb/s",
                fastest={"network_delay": 20 * US, "efficiency_network": 0.9},
                slowest={"network_delay": 100 * US, "efficiency_network": 0.16},
            ),
        )
    }
)
"""Every network of `fabric.machines.NETWORKS`."""


def of(platform: Platform) -> Network:
    """The network between the servers of a platform."""
    return NETWORKS[platform.network]


def reported_latency(platform: Platform) -> float:
    """Seconds that NCCL is told a message between servers takes."""
    return of(platform).reported.get(platform.cluster.machine.name, 0.0)


def applied(software: Software, platform: Platform) -> Software:
    """The constants of a class of GPUs with those of the network of a platform."""
    return replace(software, constants=software.constants.changed(dict(of(platform).constants)))


def software_of(platform: Platform, name: str | None = None) -> Software:
    """The constants of a platform: its class of GPUs, or another one by its name, with its network; or those of a file
    that `calibrate` has written, as they are. Raises [`InputError`] if that file is wrong.
    """
    found = constants.load(platform.software if name is None else name)
    return applied(found, platform) if name is None or name in constants.names() else found


def as_measured(platform: Platform, software: Software) -> Platform:
    """The platform with the NCCL of the system that constants were calibrated on."""
    table = software.measured
    return platform if table is None else replace(platform, nccl=table.nccl, ctas=table.channels)


def ends(platform: Platform, given: Constants) -> tuple[Constants, Constants] | None:
    """The constants with the fastest and with the slowest network of what is assumed; nothing if it is fitted."""
    network = of(platform)
    if platform.nodes == 1 or network.is_fitted:
        return None
    each = []
    for figures in (network.fastest, network.slowest):
        single = {"efficiency_single": figures["efficiency_network"]}
        each.append(given.changed({**figures, **single}))
    return each[0], each[1]


def assumptions(platform: Platform) -> list[str]:
    """What times between servers rest on."""
    network = of(platform)
    if platform.nodes == 1:
        return []
    if network.is_fitted:
        return [f"network = {network.name}: fitted on {', '.join(network.fitted_on)}"]
    return [
        f"network = {network.name}: not fitted, as no table was there; intervals are the range of assumed figures "
        f"({network.source})"
    ]


def warnings(platform: Platform) -> list[str]:
    """That no table of the network was there to fit."""
    return [] if of(platform).is_fitted else assumptions(platform)
