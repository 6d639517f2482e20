"""Figures of the first version of the ACE paper (Rashidi et al., preprint of 2020), simulated.

Collectives on tori and on packages joined by switches ("alltoall"), and training on tori, with baseline, ACE and ideal
endpoints. The text names neither the sizes nor the machines of its figures; those below were chosen before anything
was compared, and means are over all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from syncline.engine.runs import PS_PER_S
from syncline.experiment.load import Variant
from syncline.fabric.topology import Topology
from syncline.studies.reproduction.ledger import Claim, Finding, Value
from syncline.studies.reproduction.runs import Run, Runs
from syncline.studies.reproduction.step_model import StepModel

STUDIES: Final = {"all-reduce": "ace1/allreduce", "all-to-all": "ace1/alltoall"}
TRAINED: Final = {"ResNet-50": "ace1/resnet50", "GNMT": "ace1/gnmt"}
SYSTEMS: Final = ("Baseline", "ACE", "Ideal")
TRAINERS: Final = ("Baseline", "Baseline++", "ACE", "Ideal")
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
Case = tuple[str, tuple[Shape, ...]]
"""A collective, and the machines that it is run on."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a collective took: seconds in all, of a chunk in the queue, and of a message on the buses."""

    total: float
    chunk_queue: float
    buses: float


@dataclass(frozen=True, slots=True)
class Trained:
    """Seconds of an iteration, and the mean utilisation of links."""

    iteration: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class Ace1:
    """Computes the simulated values of the claims."""

    runs: Runs

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""
        cases = dict.fromkeys(case for claim in claims for case in CASES.get(claim.id, ()))
        return [*self.training(_models(claims)), *self.collectives(list(cases))]

    def collectives(self, cases: Sequence[Case]) -> list[tuple[str, Callable[[], Any]]]:
        """The simulations of collectives on machines."""
        each = [(kind, shape) for kind, shapes in cases for shape in shapes]
        return [
            (f"{kind} {_name(shape)} {size} {system}", partial(self.spent, kind, shape, size, system))
            for (kind, shape), size, system in product(each, SIZES, SYSTEMS)
        ]

    def training(self, models: Sequence[str]) -> list[tuple[str, Callable[[], Any]]]:
        """The simulations of models on the tori."""
        return [
            (f"{model} {_name(shape)} {system}", partial(self.trained, model, shape, system))
            for model, shape, system in product(models, TORI, TRAINERS)
        ]

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        return Finding(claim, *METRICS[claim.id](self))

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        studies = dict.fromkeys(STUDIES[kind] for claim in claims for kind, _ in CASES.get(claim.id, ()))
        collectives = [self.runs.variant(Run(study, system)) for study in studies for system in SYSTEMS]
        training = [self.runs.variant(Run(TRAINED[model], system)) for model in _models(claims) for system in TRAINERS]
        return [*collectives, *training]

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

    def trained(self, model: str, shape: Shape, system: str) -> Trained:
        """Iterations of a model on a torus."""
        run = Run(TRAINED[model], system, (f"topology={self.topology(shape)}",))
        summary = self.runs.result(run).summary
        iteration = summary["total_ps"] / summary["iterations"] / PS_PER_S
        return Trained(iteration, summary["network"]["mean_link_utilisation"])

    def speedup(self, model: str, system: str) -> tuple[float, str]:
        """How much faster than the baseline a system is: the mean over the tori, and each."""
        each = {
            shape: self.trained(model, shape, "Baseline").iteration / self.trained(model, shape, system).iteration
            for shape in TORI
        }
        text = ", ".join(f"{_name(shape)} {value:.2f}" for shape, value in each.items())
        return sum(each.values()) / len(each), f"{system}: {text}"

    def utilised(self, model: str, system: str) -> float:
        """How much a system uses of the network, as a share of what the ideal one does: the mean over the tori."""
        each = [
            self.trained(model, shape, system).utilisation / self.trained(model, shape, "Ideal").utilisation
            for shape in TORI
        ]
        return sum(each) / len(each)

    def mean(self, kind: str, shapes: Sequence[Shape], of: Callable[[Spent, Spent, Spent], float | None]) -> float:
        """The mean over shapes and sizes of something about baseline, ACE and ideal, where there is such a thing."""
        each = [
            of(*(self.spent(kind, shape, size, system) for system in SYSTEMS)) for shape in shapes for size in SIZES
        ]
        known = [value for value in each if value is not None]
        return sum(known) / len(known)

    def ratios(self, kind: str, shapes: tuple[Shape, ...]) -> list[float]:
        """Times of baseline over ACE, ACE over ideal, baseline over ideal: means over shapes and sizes."""
        return [
            self.mean(kind, shapes, _speedup),
            self.mean(kind, shapes, lambda _, engine, ideal: engine.total / ideal.total),
            self.mean(kind, shapes, lambda baseline, _, ideal: baseline.total / ideal.total),
        ]


def _speedup(baseline: Spent, engine: Spent, _: Spent) -> float:
    return baseline.total / engine.total


def _torus(ace: Ace1) -> Computed:
    note = f"the fit of the baseline's chunking; baseline over ACE: {_each(ace, 'all-reduce', TORI)}"
    return ace.ratios("all-reduce", TORI), note


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


def _faster(ace: Ace1, model: str, systems: Sequence[str], fit: str) -> Computed:
    found = [ace.speedup(model, system) for system in systems]
    values = [value for value, _ in found]
    notes = "; ".join([fit, *(note for _, note in found)])
    return values if len(values) > 1 else values[0], notes


def _utilisation(ace: Ace1) -> tuple[float, float]:
    """Of baseline and ACE, as shares of the ideal system's: the mean over both models."""
    baseline, engine = (
        sum(ace.utilised(model, system) for model in TRAINED) / len(TRAINED) for system in ("Baseline", "ACE")
    )
    return baseline, engine


def _network(ace: Ace1) -> Computed:
    each = "; ".join(
        f"{model}: " + ", ".join(f"{system} {100 * ace.utilised(model, system):.1f} %" for system in TRAINERS[:-1])
        for model in TRAINED
    )
    return [100 * share for share in _utilisation(ace)], f"of the whole run; {each}"


def _utilisation_and_iteration(ace: Ace1) -> Computed:
    baseline, engine = _utilisation(ace)
    iteration = 1e3 * ace.trained("ResNet-50", (4, 4, 4), "Baseline").iteration
    return [engine / baseline, iteration], "the time is the fit of ResNet-50's compute scale"


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
    "ace1-resnet50": lambda ace: _faster(ace, "ResNet-50", ("ACE",), "compute scale fitted on an iteration of 9 ms"),
    "ace1-gnmt": lambda ace: _faster(
        ace, "GNMT", ("ACE", "Baseline++"), "the fit of GNMT's compute scale, between both values"
    ),
    "ace1-network-utilisation": _network,
    "ace1-utilisation-iteration": _utilisation_and_iteration,
    "ace1-fig5-analytical": _step_model,
}

CASES: Final[dict[str, tuple[Case, ...]]] = {
    "ace1-allreduce-torus": (("all-reduce", TORI),),
    "ace1-other-collectives": (("all-to-all", TORI), ("all-reduce", ALLTOALL), ("all-to-all", ALLTOALL)),
    "ace1-queuing": (("all-reduce", TORI),),
}
"""The collectives and the machines that claims need."""

MODELS: Final[dict[str, tuple[str, ...]]] = {
    "ace1-resnet50": ("ResNet-50",),
    "ace1-gnmt": ("GNMT",),
    "ace1-network-utilisation": tuple(TRAINED),
    "ace1-utilisation-iteration": tuple(TRAINED),
}
"""The models that claims need trained."""


def _models(claims: Sequence[Claim]) -> list[str]:
    return list(dict.fromkeys(model for claim in claims for model in MODELS.get(claim.id, ())))


def _each(ace: Ace1, kind: str, shapes: Sequence[Shape]) -> str:
    return ", ".join(f"{_name(shape)} {ace.mean(kind, (shape,), _speedup):.2f}" for shape in shapes)


def _name(shape: Shape) -> str:
    return "x".join(str(n) for n in shape)
