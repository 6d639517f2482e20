"""What the engine refuses, in the fields of an experiment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from syncline.base.errors import Problem
from syncline.base.quantities import SIZE
from syncline.core.refusals import Path, Refusal
from syncline.sections.workloads import AstraWorkload, GraphWorkload

if TYPE_CHECKING:
    from syncline.experiment.load import Variant
    from syncline.sections.experiment import Experiment

PLANS: Final = ("collectives", "plans")
"""The plans of an experiment; their numbers follow, and then what is in their files."""
CLASSES: Final = ("job", "graph", "classes")
FAMILIES: Final = ("families",)
"""The classes and the families of a graph; their numbers follow, and then what is in the file."""
TEXT: Final = ("job", "workload", "text")
"""The file of an imported workload; the name within it follows."""
PARTS: Final[dict[Path, Path]] = {
    ("fabric",): ("topology",),
    ("attributes",): ("topology",),
    ("changes",): ("network", "faults"),
    ("fabric", "odd_links"): ("slow_links",),
    ("collectives", "chunking"): ("collective", "chunk"),
    ("job", "compute"): ("npu",),
    ("job", "stragglers"): ("training", "stragglers"),
    ("job", "workload", "layers"): ("workload", "batch"),
    ("job", "workload", "model"): ("workload", "batch"),
}
"""Fields that hold what an experiment says in one; what is within them has no field of its own."""
NAMES: Final[dict[Path, Path]] = {
    ("collectives",): ("collective",),
    ("job",): ("workload",),
    ("job", "background"): ("training", "background_embedding"),
    ("job", "strategy"): ("training", "strategy"),
    ("job", "workload"): ("workload",),
    ("job", "workload", "element_bytes"): ("workload", "element"),
    ("job", "workload", "name"): ("workload", "model"),
    ("output", "window_ps"): ("output", "window"),
    ("start", "jitter_ps"): ("network", "jitter"),
    ("collectives", "posting"): ("network", "posting"),
    ("collectives", "plans"): ("collective", "plan"),
}
"""Fields with other names in an experiment; what is within them keeps its name. Those of endpoints and backends stand
in their modules (`ENGINE_NAMES`)."""


def of_plan(refusal: Refusal, variant: Variant) -> Problem | None:
    """The problem at its place in the file of a plan, if it is one of a plan."""
    plans = variant.experiment.collective.plan
    number = refusal.field[len(PLANS)] if len(refusal.field) > len(PLANS) else ""
    if refusal.field[: len(PLANS)] != PLANS or not number.isdecimal() or int(number) >= len(plans):
        return None
    found = plans[int(number)].problem(refusal.field[len(PLANS) + 1 :], refusal)
    return replace(found, message=f"{found.message}{_which(variant)}")


def of_graph(refusal: Refusal, variant: Variant) -> Problem | None:
    """The problem at its place in the file of a graph, if it is one of a graph."""
    workload = variant.experiment.workload
    prefix = next(
        (p for p in (CLASSES, FAMILIES) if refusal.field[: len(p)] == p and len(refusal.field) > len(p)), None
    )
    if not isinstance(workload, GraphWorkload) or prefix is None:
        return None
    file, (number, *rest) = workload.file, refusal.field[len(prefix) :]
    names = list(file.graph.classes if prefix == CLASSES else file.graph.families)
    within = ["collective" if step == "collectives" else step for step in rest]
    path = (prefix[-1], names[int(number)], *within)
    found = file.problem(path, refusal.message, None, _accepted(refusal, variant))
    return replace(found, message=f"{found.message}{_which(variant)}")


def path(refusal: Refusal, experiment: Experiment) -> Path:
    """The field of an experiment; empty where no single one is to blame."""
    for section in (experiment.endpoint, experiment.network):
        if refusal.field[:1] == (section.PART,) and len(refusal.field) > 1:
            name = refusal.field[1]
            return (section.PART, section.ENGINE_NAMES.get(name, name), *refusal.field[2:])
    prefixes = [refusal.field[:n] for n in range(len(refusal.field), 0, -1)]
    part = next((PARTS[prefix] for prefix in prefixes if prefix in PARTS), None)
    if part is not None:
        return part
    named = next((prefix for prefix in prefixes if prefix in NAMES), ())
    return NAMES.get(named, ()) + refusal.field[len(named) :]


def problem(refusal: Refusal, variant: Variant, suggested: str | None = None) -> Problem:
    """The problem of a variant, with what is suggested in place of what the engine says it accepts."""
    workload = variant.experiment.workload
    accepted = suggested or _accepted(refusal, variant)
    if refusal.line is not None and isinstance(workload, AstraWorkload):
        name = ".".join(refusal.field[len(TEXT) :])
        return Problem(workload.astra_text, refusal.line, name, refusal.value, refusal.message, accepted)
    return variant.problem(path(refusal, variant.experiment), f"{refusal.message}{_which(variant)}", accepted)


def _accepted(refusal: Refusal, variant: Variant) -> str | None:
    least = None if refusal.least is None else _at_least(refusal.field[-1], variant, refusal.least)
    return ", or ".join(text for text in (least, refusal.accepted) if text) or None


def _at_least(name: str, variant: Variant, least: int) -> str:
    if name.endswith("_packets"):
        return f"at least {SIZE.format(least * (variant.experiment.network.packet_bytes or 1))}"
    return f"at least {SIZE.format(least)}" if name.endswith("_bytes") else f"{least} or more"


def _which(variant: Variant) -> str:
    """The variant that a message is about, if the file has several."""
    return f" (variant {variant.name})" if variant.tree.origin.path else ""
