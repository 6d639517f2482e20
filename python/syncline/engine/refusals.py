"""What the engine refuses, in the fields of an experiment.

The engine names a field of its own description (`crates/system/src/spec.rs`), says what is wrong with it and what would
do, and where there is one, the least number that would (`crates/core/src/refusal.rs`). Nothing here reads its words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from syncline.base.errors import Problem
from syncline.base.quantities import SIZE
from syncline.sections.workloads import AstraWorkload, GraphWorkload

if TYPE_CHECKING:
    from syncline.experiment.load import Variant
    from syncline.sections.experiment import Experiment

Path = tuple[str, ...]

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


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the engine refuses."""

    field: Path
    message: str
    accepted: str | None
    least: int | None
    """The least number that would do, in the unit of the field."""
    value: str | None
    line: int | None

    def of_plan(self, variant: Variant) -> Problem | None:
        """The problem at its place in the file of a plan, if it is one of a plan."""
        plans = variant.experiment.collective.plan
        number = self.field[len(PLANS)] if len(self.field) > len(PLANS) else ""
        if self.field[: len(PLANS)] != PLANS or not number.isdecimal() or int(number) >= len(plans):
            return None
        found = plans[int(number)].problem(self.field[len(PLANS) + 1 :], self)
        return replace(found, message=f"{found.message}{_which(variant)}")

    def of_graph(self, variant: Variant) -> Problem | None:
        """The problem at its place in the file of a graph, if it is one of a graph."""
        workload = variant.experiment.workload
        prefix = next((p for p in (CLASSES, FAMILIES) if self.field[: len(p)] == p and len(self.field) > len(p)), None)
        if not isinstance(workload, GraphWorkload) or prefix is None:
            return None
        file, (number, *rest) = workload.file, self.field[len(prefix) :]
        names = list(file.graph.classes if prefix == CLASSES else file.graph.families)
        within = ["collective" if step == "collectives" else step for step in rest]
        path = (prefix[-1], names[int(number)], *within)
        found = file.problem(path, self.message, None, self._accepted(variant))
        return replace(found, message=f"{found.message}{_which(variant)}")

    def path(self, experiment: Experiment) -> Path:
        """The field of an experiment; empty where no single one is to blame."""
        for section in (experiment.endpoint, experiment.network):
            if self.field[:1] == (section.PART,) and len(self.field) > 1:
                name = self.field[1]
                return (section.PART, section.ENGINE_NAMES.get(name, name), *self.field[2:])
        prefixes = [self.field[:n] for n in range(len(self.field), 0, -1)]
        part = next((PARTS[prefix] for prefix in prefixes if prefix in PARTS), None)
        if part is not None:
            return part
        named = next((prefix for prefix in prefixes if prefix in NAMES), ())
        return NAMES.get(named, ()) + self.field[len(named) :]

    def problem(self, variant: Variant, suggested: str | None = None) -> Problem:
        """The problem of a variant, with what is suggested in place of what the engine says it accepts."""
        workload = variant.experiment.workload
        accepted = suggested or self._accepted(variant)
        if self.line is not None and isinstance(workload, AstraWorkload):
            name = ".".join(self.field[len(TEXT) :])
            return Problem(workload.astra_text, self.line, name, self.value, self.message, accepted)
        return variant.problem(self.path(variant.experiment), f"{self.message}{_which(variant)}", accepted)

    def _accepted(self, variant: Variant) -> str | None:
        least = None if self.least is None else self._at_least(variant, self.least)
        return ", or ".join(text for text in (least, self.accepted) if text) or None

    def _at_least(self, variant: Variant, least: int) -> str:
        if self.field[-1].endswith("_packets"):
            return f"at least {SIZE.format(least * (variant.experiment.network.packet_bytes or 1))}"
        return f"at least {SIZE.format(least)}" if self.field[-1].endswith("_bytes") else f"{least} or more"


def _which(variant: Variant) -> str:
    """The variant that a message is about, if the file has several."""
    return f" (variant {variant.name})" if variant.tree.origin.path else ""


def read(error: ValueError) -> list[Refusal]:
    """What a `SpecError` of the engine says."""
    entries: list[dict[str, Any]] = json.loads(str(error))
    return [Refusal(**entry | {"field": tuple(entry["field"])}) for entry in entries]
