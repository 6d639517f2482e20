"""What experiments measure beside the metrics of claims: quantities of one simulation, and means of a source's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from syncline.engine.runs import PS_PER_S
from syncline.studies.reproduction.ace1 import ALLTOALL, TORI, Ace1, Shape
from syncline.studies.reproduction.ledger import Value
from syncline.studies.reproduction.runs import Run, Runs

Tasks = list[tuple[str, Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity, and what has to be simulated for it."""

    unit: str
    value: Callable[[Runs, Run], Value]
    prepare: Callable[[Runs, Run], Tasks]
    of_run: bool = False
    """Whether it is about one simulation rather than about those of a source."""


def _of_run(unit: str, value: Callable[[dict[str, Any]], float]) -> Measure:
    """A quantity of the summary of one simulation."""

    def task(runs: Runs, run: Run) -> Tasks:
        return [(f"{run.study} {run.variant}", partial(runs.result, run))]

    return Measure(unit, lambda runs, run: value(runs.result(run).summary), task, of_run=True)


def _per_iteration(name: str) -> Callable[[dict[str, Any]], float]:
    """Milliseconds of an iteration."""
    return lambda summary: float(1e3 * summary[name] / summary["iterations"] / PS_PER_S)


def _sent(summary: dict[str, Any]) -> float:
    """GB/s that an NPU sends."""
    sent: float = summary["network"]["injected_bytes"] / summary["npus"] / (summary["total_ps"] / PS_PER_S)
    return sent / 1e9


def _ratios(kind: str, shapes: tuple[Shape, ...]) -> Measure:
    """Baseline over ACE, ACE over ideal, baseline over ideal: means over machines and sizes."""
    return Measure(
        "x",
        lambda runs, _: Ace1(runs).ratios(kind, shapes),
        lambda runs, _: Ace1(runs).collectives([(kind, shapes)]),
    )


def _trained(unit: str, value: Callable[[Ace1], Value]) -> Measure:
    """Something about ResNet-50 on the tori of the first version."""
    return Measure(unit, lambda runs, _: value(Ace1(runs)), lambda runs, _: Ace1(runs).training(["ResNet-50"]))


MEASURES: Final[MappingProxyType[str, Measure]] = MappingProxyType(
    {
        "time": _of_run("us", lambda summary: float(1e6 * summary["total_ps"] / PS_PER_S)),
        "sent": _of_run("GB/s", _sent),
        "steps": _of_run("1", lambda summary: float(summary["steps"])),
        "iteration": _of_run("ms", _per_iteration("total_ps")),
        "compute": _of_run("ms", _per_iteration("compute_ps")),
        "exposed": _of_run("ms", _per_iteration("exposed_ps")),
        "background": _of_run("ms", _per_iteration("background_compute_ps")),
        "ace1-allreduce-tori": _ratios("all-reduce", TORI),
        "ace1-alltoall-tori": _ratios("all-to-all", TORI),
        "ace1-allreduce-switches": _ratios("all-reduce", ALLTOALL),
        "ace1-alltoall-switches": _ratios("all-to-all", ALLTOALL),
        "ace1-resnet50-ideal": _trained("x", lambda ace: ace.speedup("ResNet-50", "Ideal")[0]),
        "ace1-resnet50-utilisation": _trained(
            "%", lambda ace: [100 * ace.utilised("ResNet-50", system) for system in ("Baseline", "ACE")]
        ),
    }
)
"""The measures that columns of experiments may name."""
