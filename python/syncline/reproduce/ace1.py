"""Figures of the first version of the ACE paper (Rashidi et al., preprint of 2020), simulated.

Collectives on tori and on packages joined by switches ("alltoall"), with baseline, ACE and ideal endpoints. The text
names neither the sizes nor the machines of its figures; those below were chosen before anything was compared, and
means are over all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from syncline.engine import PS_PER_S
from syncline.reproduce.ledger import Claim, Finding, Value
from syncline.reproduce.runs import Run, Runs
from syncline.reproduce.step_model import StepModel
from syncline.schema.load import Variant
from syncline.topology import Topology

STUDIES: Final = {"all-reduce": "ace1/allreduce", "all-to-all": "ace1/alltoall"}
SYSTEMS: Final = ("Baseline", "ACE", "Ideal")
SIZES: Final = ("1MB", "4MB", "16MB", "64MB")
TORI: Final = ((4, 2, 1), (4, 4, 1), (4, 2, 2), (4, 4, 2), (4, 4, 4))
"""NPUs of a package, rows and columns of packages: 8 to 64 NPUs, in two and three dimensions."""
ALLTOALL: Final = ((4, 2), (4, 4), (4, 8), (4, 16))
"""NPUs of a package, and packages: 8 to 64 NPUs."""
UPLINKS: Final = 4
"""Switches that join the packages, each with one link to every NPU."""
CORES: Final = range(1, 13)
AS_GIVEN: Final = StepModel(link_rate=25e9, links=4, efficiency=0.95, core_read=64e9, step_latency=2e-6)
CONTENDED: Final = dataclasses.replace(AS_GIVEN, link_rate=75e9, core_read=12.8e9)

Computed = tuple[Value, str]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What a collective took: seconds in all, of a chunk in the queue, and of a message on the buses."""

    total: float
    chunk_queue: float
    buses: float


@dataclass(frozen=True, slots=True)
class Ace1:
    """Computes the simulated values of the claims."""

    runs: Runs

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""
        cases = dict.fromkeys((kind, shapes) for claim in claims for kind, shapes in CASES[claim.id])
        each = [(kind, shape) for kind, shapes in cases for shape in shapes]
        return [
            (f"{kind} {_name(shape)} {size} {system}", partial(self.spent, kind, shape, size, system))
            for (kind, shape), size, system in product(each, SIZES, SYSTEMS)
        ]

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        return Finding(claim, *METRICS[claim.id](self))

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        studies = dict.fromkeys(STUDIES[kind] for claim in claims for kind, _ in CASES[claim.id])
        return [self.runs.variant(Run(study, system)) for study in studies for system in SYSTEMS]

    def topology(self, shape: Shape) -> Topology:
        """The links of the study between other numbers of NPUs (Table 5).

        Where there is one row or one column of packages, the other dimension has both pairs of inter-package links
        (two bidirectional rings). Packages of two numbers are joined by switches.
        """
        base = self.runs.variant(Run(STUDIES["all-reduce"], "Ideal")).experiment.topology
        assert isinstance(base, Topology)
        local, rows, columns = base.dims
        if len(shape) == 2:
            switches = dataclasses.replace(rows, block="switch", size=shape[1], links=UPLINKS)
            return Topology((dataclasses.replace(local, size=shape[0]), switches))
        rings = 2 if 1 in shape[1:] else 1
        sized = zip((local, rows, columns), shape, (1, rings, rings), strict=True)
        return Topology(tuple(dataclasses.replace(dim, size=size, links=links) for dim, size, links in sized))

    def spent(self, kind: str, shape: Shape, size: str, system: str) -> Spent:
        """A collective of a size on a shape."""
        settings = (f"topology={self.topology(shape)}", f"workload.size={size}")
        summary = self.runs.result(Run(STUDIES[kind], system, settings)).summary
        parts = summary["endpoint"]["breakdown"]
        buses = parts["bus_queue_ps"] + parts["bus_transfer_ps"]
        return Spent(
            summary["total_ps"] / PS_PER_S,
            parts["chunk_queue_ps"] / parts["chunks"] / PS_PER_S,
            buses / parts["messages"] / PS_PER_S,
        )

    def mean(self, kind: str, shapes: Sequence[Shape], of: Callable[[Spent, Spent, Spent], float | None]) -> float:
        """The mean over shapes and sizes of something about baseline, ACE and ideal, where there is such a thing."""
        each = [
            of(*(self.spent(kind, shape, size, system) for system in SYSTEMS)) for shape in shapes for size in SIZES
        ]
        known = [value for value in each if value is not None]
        return sum(known) / len(known)


def _speedup(baseline: Spent, engine: Spent, _: Spent) -> float:
    return baseline.total / engine.total


def _torus(ace: Ace1) -> Computed:
    case: tuple[str, tuple[Shape, ...]] = ("all-reduce", TORI)
    ratios = [
        ace.mean(*case, _speedup),
        ace.mean(*case, lambda _, engine, ideal: engine.total / ideal.total),
        ace.mean(*case, lambda baseline, _, ideal: baseline.total / ideal.total),
    ]
    return ratios, f"the fit of the baseline's chunking; baseline over ACE: {_each(ace, *case)}"


def _others(ace: Ace1) -> Computed:
    cases = CASES["ace1-other-collectives"]
    notes = [f"{kind} {_each(ace, kind, shapes)}" for kind, shapes in cases]
    return [ace.mean(kind, shapes, _speedup) for kind, shapes in cases], "; ".join(notes)


def _queuing(ace: Ace1) -> Computed:
    def reduction(of: Callable[[Spent], float]) -> float:
        def one(baseline: Spent, engine: Spent, _: Spent) -> float | None:
            return 100 * (1 - of(engine) / of(baseline)) if of(baseline) else None

        return ace.mean("all-reduce", TORI, one)

    note = (
        "queueing: from issue to start of a chunk, where the baseline has more chunks than it has in flight; buses: "
        "waiting and crossing, per message that is sent"
    )
    return [reduction(lambda spent: spent.chunk_queue), reduction(lambda spent: spent.buses)], note


def _step_model(_: Ace1) -> Computed:
    def percent(model: StepModel, cores: int) -> float:
        return 100 * model.utilisation(16e6, (4, 4), cores)

    models = (AS_GIVEN, CONTENDED)
    means = [sum(percent(model, cores) for cores in CORES) / len(CORES) for model in models]
    ends = (
        f"{cores} cores {percent(AS_GIVEN, cores):.0f} and {percent(CONTENDED, cores):.0f} %" for cores in (1, 4, 12)
    )
    return means, f"mean of 1 to 12 cores, reduce-scatter and all-gather per dimension; {', '.join(ends)}"


METRICS: Final[dict[str, Callable[[Ace1], Computed]]] = {
    "ace1-allreduce-torus": _torus,
    "ace1-other-collectives": _others,
    "ace1-queuing": _queuing,
    "ace1-fig5-analytical": _step_model,
}

CASES: Final[dict[str, tuple[tuple[str, tuple[Shape, ...]], ...]]] = {
    "ace1-allreduce-torus": (("all-reduce", TORI),),
    "ace1-other-collectives": (("all-to-all", TORI), ("all-reduce", ALLTOALL), ("all-to-all", ALLTOALL)),
    "ace1-queuing": (("all-reduce", TORI),),
    "ace1-fig5-analytical": (),
}
"""The collectives and the machines that each claim needs."""


def _each(ace: Ace1, kind: str, shapes: Sequence[Shape]) -> str:
    return ", ".join(f"{_name(shape)} {ace.mean(kind, (shape,), _speedup):.2f}" for shape in shapes)


def _name(shape: Shape) -> str:
    return "x".join(str(n) for n in shape)
