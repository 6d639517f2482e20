"""Collectives of Blink against those of NCCL (MLSys 2020, section 5.2): Figs. 15 to 17 and 19 to 20, simulated.

*Allocations* (`blink/allocations`): broadcasts and all-reduces of 500 MB on every distinct allocation of 3 to 8 GPUs
that NVLinks connect, 46 on a DGX-1V and 14 on a DGX-1P. Of allocations with the same NVLinks the first stands for all,
as in the paper; what is over PCIe may differ among them.

*DGX-2* (`blink/dgx2`): all-reduces of 1 KiB to 1 GiB. NCCL takes double binary trees below 16 KB, and rings from there
on; each library takes the faster of two protocols for a size. What passes before the first message is NCCL's published
base latency of the protocol, and is added to what is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from types import MappingProxyType
from typing import Final

from syncline.engine.runs import PS_PER_S
from syncline.fabric import notation
from syncline.nccl import tuning, wire
from syncline.studies.reproduction.ledger import Value
from syncline.studies.reproduction.runs import Run, Runs
from syncline.treegen import allocations, pack, question

ALLOCATIONS: Final = "blink/allocations"
DGX2: Final = "blink/dgx2"
SYSTEMS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"dgx1v": ("NCCL", "Blink"), "dgx1p": ("NCCL on a DGX-1P", "Blink on a DGX-1P")}
)
"""The variants of both libraries on a machine."""
COUNTS: Final = range(3, 9)
SIZES: Final = tuple(2**n for n in range(10, 31))
"""Bytes of the all-reduces of a DGX-2."""
SMALL: Final = 128 * 1024
"""Up to this size, Fig. 20 shows latencies; Fig. 19 shows throughput."""
TREES_BELOW: Final = 16 * 1000
"""Bytes below which NCCL takes double binary trees (section 3.5)."""
PROTOCOLS: Final = ("LL", "Simple")
BLINK: Final = "Blink"
RING: Final = "Ring"
TREES: Final = "Trees"
BASES: Final = MappingProxyType({BLINK: wire.RING, RING: wire.RING, TREES: wire.TREE})
"""The algorithm of which NCCL has a base latency; that of its rings for one-hop trees, which it does not have."""

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same collective with both libraries."""

    gpus: tuple[int, ...]
    nccl_s: float
    blink_s: float

    @property
    def speedup(self) -> float:
        """How much faster Blink is."""
        return self.nccl_s / self.blink_s


def distinct(machine: str) -> list[tuple[int, ...]]:
    """The distinct allocations of a DGX-1 that NVLinks connect."""
    asked = question.asked(notation.parse(machine).graph(), range(8), "nvlink")
    every = [each.gpus for each in allocations.of(asked, list(COUNTS))]
    return [gpus for gpus in every if _is_connected(machine, gpus)]


def _is_connected(machine: str, gpus: tuple[int, ...]) -> bool:
    asked = question.asked(notation.parse(machine).graph(), gpus, "nvlink")
    return len(pack.of(asked, "broadcast").components) == 1


def run(kind: str, gpus: tuple[int, ...], system: str) -> Run:
    """A simulation on an allocation."""
    listed = ",".join(map(str, gpus))
    return Run(ALLOCATIONS, system, (f'gpus="{listed}"', f"workload.collective={kind}"))


def on_allocations(machine: str, kind: str) -> Iterator[Run]:
    """All simulations of a figure."""
    return (run(kind, gpus, system) for gpus in distinct(machine) for system in SYSTEMS[machine])


def _seconds(runs: Runs, simulation: Run) -> float:
    return float(runs.result(simulation).summary["total_ps"] / PS_PER_S)


def pairs(runs: Runs, machine: str, kind: str) -> list[Pair]:
    """Both libraries on every allocation."""
    return [
        Pair(gpus, *(_seconds(runs, run(kind, gpus, system)) for system in SYSTEMS[machine]))
        for gpus in distinct(machine)
    ]


def speedups(runs: Runs, machine: str, kind: str) -> Computed:
    """`blink-fig15-broadcast-dgx1v`, `blink-fig16-broadcast-dgx1p` and `blink-fig17-allreduce-dgx1v`."""
    found = pairs(runs, machine, kind)
    most, least = max(found, key=lambda each: each.speedup), min(found, key=lambda each: each.speedup)
    mean = geometric_mean(each.speedup for each in found)
    slower = sum(each.speedup < 1 for each in found)
    note = (
        f"{len(found)} allocations; largest on GPUs {_listed(most)}, smallest {least.speedup:.2f} on {_listed(least)}; "
        f"{slower} below 1"
    )
    return [most.speedup, mean], note


def _listed(pair: Pair) -> str:
    return ", ".join(map(str, pair.gpus))


def half(runs: Runs) -> Computed:
    """`blink-allreduce-half`: on all GPUs of a DGX-1V."""
    whole = tuple(range(8))
    of = {
        (kind, system): _seconds(runs, run(kind, whole, system))
        for kind in ("broadcast", "all-reduce")
        for system in SYSTEMS["dgx1v"]
    }
    shares = {system: of["broadcast", system] / of["all-reduce", system] for system in SYSTEMS["dgx1v"]}
    return shares["Blink"], f"Blink; NCCL {shares['NCCL']:.3f}"


def halves() -> Iterator[Run]:
    """The simulations of that."""
    kinds = ("broadcast", "all-reduce")
    return (run(kind, tuple(range(8)), system) for kind in kinds for system in SYSTEMS["dgx1v"])


def on_switches(name: str, protocol: str, size: int) -> Run:
    """An all-reduce of a DGX-2."""
    return Run(DGX2, f"{name} {protocol}", (f"workload.size={size}B",))


def _library(size: int) -> str:
    """What NCCL takes."""
    return TREES if size < TREES_BELOW else RING


def dgx2_runs() -> Iterator[Run]:
    """All simulations of Figs. 19 and 20."""
    names = ((name, size) for size in SIZES for name in (BLINK, _library(size)))
    return (on_switches(name, protocol, size) for name, size in names for protocol in PROTOCOLS)


def fastest(runs: Runs, name: str, size: int) -> float:
    """Seconds with the protocol that is faster."""
    return min(
        tuning.BASES[BASES[name]][protocol] + _seconds(runs, on_switches(name, protocol, size))
        for protocol in PROTOCOLS
    )


def dgx2(runs: Runs) -> Computed:
    """`blink-fig19-dgx2-throughput`."""
    times = {size: (fastest(runs, _library(size), size), fastest(runs, BLINK, size)) for size in SIZES}
    ratios = {size: nccl / blink for size, (nccl, blink) in times.items()}
    large = max((size for size in SIZES if size > SMALL), key=lambda size: ratios[size])
    small = max((size for size in SIZES if size <= SMALL), key=lambda size: ratios[size])
    first, last = times[SIZES[0]], SIZES[-1]
    note = (
        f"at {large // 1024} and {small // 1024} KiB; 1 KiB takes {first[0] * 1e6:.1f} us with NCCL and "
        f"{first[1] * 1e6:.1f} us with Blink, 1 GiB has {last / times[last][0] / 1e9:.1f} and "
        f"{last / times[last][1] / 1e9:.1f} GB/s"
    )
    return [ratios[large], ratios[small]], note


METRICS: Final[Mapping[str, Callable[[Runs], Computed]]] = MappingProxyType(
    {
        "blink-fig15-broadcast-dgx1v": lambda runs: speedups(runs, "dgx1v", "broadcast"),
        "blink-fig16-broadcast-dgx1p": lambda runs: speedups(runs, "dgx1p", "broadcast"),
        "blink-fig17-allreduce-dgx1v": lambda runs: speedups(runs, "dgx1v", "all-reduce"),
        "blink-allreduce-half": half,
        "blink-fig19-dgx2-throughput": dgx2,
    }
)
RUNS: Final[Mapping[str, Callable[[], Iterator[Run]]]] = MappingProxyType(
    {
        "blink-fig15-broadcast-dgx1v": lambda: on_allocations("dgx1v", "broadcast"),
        "blink-fig16-broadcast-dgx1p": lambda: on_allocations("dgx1p", "broadcast"),
        "blink-fig17-allreduce-dgx1v": lambda: on_allocations("dgx1v", "all-reduce"),
        "blink-allreduce-half": halves,
        "blink-fig19-dgx2-throughput": dgx2_runs,
    }
)
"""The simulations that a claim needs."""
