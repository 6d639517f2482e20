"""Blink's hybrid transfers (section 5.3, Fig. 21), and GPUs of two servers (section 5.4, Fig. 22b), simulated.

*Hybrid transfers.* Broadcasts of 500 MB, the size of section 5.2.1, from the first GPU. The figure has a bar for each
number of GPUs and does not say which GPUs these are; here a number stands for all allocations that NVLinks connect,
each once, and the gain is the mean of theirs. Whether GPUs are on one socket decides how fast PCIe is (13.1 or 6 GB/s,
the published constants of the machine), so no single allocation stands for others. Allocations of the same NVLinks and
the same rate of PCIe trees are alike, and one of them is simulated. Trees, slices and parts are those that are
predicted to be fastest with the commands of streams. One constant is fitted: what it takes to switch peer access, for
each GPU, on what seven and eight GPUs gain; what three and four gain is predicted.

*Two servers.* GPUs 0 to 2 of one DGX-1V and 0 to 4 of the other. The cross-machine bandwidth is that of one port of
each server, which PCIe does not limit: the paper says that NVLinks are the limit of its trees, and PCIe that of NCCL's
rings. So trees are simulated on NVLinks and that port, and rings on two machines with one NIC each, over PCIe. The
bandwidth at which NVLinks become the limit is that of the port which takes as long as trees do with a port that is no
limit: where the line of proportional throughput reaches the throughput of unlimited ports. Slices cost no time beside
that of their bytes and of the latency of links.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from syncline.engine.chunking import MB
from syncline.engine.runs import PS_PER_S
from syncline.fabric import notation
from syncline.fabric.graph import Graph
from syncline.fabric.machines import MACHINES
from syncline.studies.reproduction.ledger import Value
from syncline.studies.reproduction.runs import Run, Runs
from syncline.treegen import allocations, pack, question
from syncline.treegen.costs import PEER_ACCESS_PS

Computed = tuple[Value, str]

LINKS: Final = "blink/links"
SERVERS: Final = "blink/servers"
MACHINE: Final = "dgx1v(efficiency=94%)"
BROADCAST: Final = 500 * MB
ALL_REDUCE: Final = 100 * MB
FEW: Final = (3, 4)
MANY: Final = (7, 8)
FIRST: Final = (0, 1, 2)
SECOND: Final = (0, 1, 2, 3, 4)
"""GPUs of either server."""
GIGABITS: Final = tuple(range(40, 401, 40))
"""Cross-machine bandwidths of Fig. 22b."""
UNLIMITED: Final = 6400
"""Gb/s: far above what all NVLinks of the servers carry."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Allocations that are alike."""

    gpus: tuple[int, ...]
    """One of them."""
    count: int


@dataclass(slots=True)
class Links:
    """The simulations of both figures."""

    runs: Runs
    _trees: dict[int, float] = field(default_factory=dict)

    def broadcast(self, gpus: tuple[int, ...], *, both: bool) -> float:
        """GB/s of a broadcast over NVLinks, or over PCIe at the same time."""
        run = Run(LINKS, "Hybrid" if both else "NVLink", (f"gpus={','.join(map(str, gpus))}",))
        return self._throughput(run, BROADCAST)

    def gain(self, count: int) -> float:
        """GB/s that so many GPUs gain, in the mean over their allocations."""
        every = alike(count)
        whole = sum(each.count for each in every)
        gains = [
            each.count * (self.broadcast(each.gpus, both=True) - self.broadcast(each.gpus, both=False))
            for each in every
        ]
        return sum(gains) / whole

    def trees(self, gigabits: int) -> float:
        """GB/s of an all-reduce over both servers by trees, with so much cross-machine bandwidth."""
        if gigabits not in self._trees:
            with tempfile.TemporaryDirectory(prefix="syncline-") as folder:
                path = Path(folder) / "servers.yaml"
                path.write_text(two_servers(gigabits), encoding="utf-8")
                run = Run(SERVERS, "Trees", (f"topology={{file: {path}}}", "gpus=null"))
                self._trees[gigabits] = self._throughput(run, ALL_REDUCE)
        return self._trees[gigabits]

    def rings(self, gigabits: int) -> float:
        """The same by a ring, which goes over PCIe within the servers."""
        cluster = f"dgx1v(nodes=2, nics=single, nic_rate={gigabits}Gb/s, efficiency=94%)"
        return self._throughput(Run(SERVERS, "Ring", (f"topology={cluster}",)), ALL_REDUCE)

    def _throughput(self, run: Run, size: int) -> float:
        return float(size / self.runs.result(run).summary["total_ps"] * PS_PER_S / 1e9)


@cache
def _graph(machine: str) -> Graph:
    return notation.parse(machine).graph()


@cache
def alike(count: int) -> tuple[Alike, ...]:
    """The allocations of so many GPUs that NVLinks connect, in groups that are alike."""
    graph = _graph(MACHINE)
    whole = question.asked(graph, range(8), "nvlink")
    found: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for gpus in combinations(range(8), count):
        nvlinks = pack.of(question.asked(graph, gpus, "nvlink"), "broadcast")
        if len(nvlinks.components) > 1:
            continue
        over_pcie = pack.of(question.asked(graph, gpus, "pcie"), "broadcast").rate
        found.setdefault((allocations.shape(whole, gpus), nvlinks.rate, over_pcie), []).append(gpus)
    return tuple(Alike(group[0], len(group)) for group in found.values())


def two_servers(gigabits: int) -> str:
    """The GPUs of both servers with their NVLinks, as a file: each server has a port to the network."""
    machine = MACHINES["dgx1v"]
    nodes = [f"GPU {server}.{gpu}" for server, gpus in enumerate((FIRST, SECOND)) for gpu in gpus]
    lines = [f"name: {gigabits} Gb/s between servers", "nodes:", f"  [{', '.join(nodes)},"]
    lines += ["  {name: port 0, kind: nic}, {name: port 1, kind: nic}, {name: network, kind: switch}]", "links:"]
    for server, gpus in enumerate((FIRST, SECOND)):
        for a, b, count in machine.pairs:
            if a in gpus and b in gpus:
                ends = f"from: GPU {server}.{a}, to: GPU {server}.{b}"
                rate = f"rate: {machine.nvlink_rate}B/s, links: {count}, class: NVLink, latency: 500ns, efficiency: 94%"
                lines.append(f"  - {{{ends}, {rate}}}")
        for gpu in gpus:
            ends = f"from: GPU {server}.{gpu}, to: port {server}"
            lines.append(f"  - {{{ends}, rate: {2 * UNLIMITED}Gb/s, class: port, latency: 400ns}}")
        ends = f"from: port {server}, to: network"
        lines.append(f"  - {{{ends}, rate: {gigabits}Gb/s, class: InfiniBand, latency: 500ns}}")
    return "\n".join([*lines, ""])


def hybrid_gain(links: Links) -> Computed:
    """`blink-fig21-hybrid`."""
    gains = {count: links.gain(count) for count in (*FEW, 5, 6, *MANY)}
    listed = ", ".join(f"{count}: {gain:.3g}" for count, gain in gains.items())
    note = (
        f"means over all allocations that NVLinks connect, by GPUs {listed}; {PEER_ACCESS_PS / 1e6:g} us of peer "
        "access for each GPU are fitted on the second value"
    )
    return [_mean([gains[count] for count in FEW]), _mean([gains[count] for count in MANY])], note


def limit(links: Links) -> Computed:
    """The second value of `blink-fig22-multi-server`, in Gb/s."""
    reached = links.trees(UNLIMITED)
    slow, fast = links.trees(GIGABITS[0]), links.trees(GIGABITS[-1])
    note = (
        f"GPUs 0-2 and 0-4; trees reach {reached:.3g} GB/s with unlimited ports, {slow:.3g} and {fast:.3g} at "
        f"{GIGABITS[0]} and {GIGABITS[-1]} Gb/s, rings over PCIe {links.rings(GIGABITS[-1]):.3g} at {GIGABITS[-1]}"
    )
    return 8 * reached, note


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
