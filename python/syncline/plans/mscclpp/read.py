"""An execution plan as a schedule, with what is wrong with the plan itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from syncline.base.errors import Problem
from syncline.plans.mscclpp import order, parse
from syncline.plans.mscclpp.form import OneSided
from syncline.plans.mscclpp.lower import lower
from syncline.plans.plan import Plan


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says."""

    plan: OneSided
    schedule: Plan | None
    """The schedule that does the same; none, if the plan does not end."""
    sites: dict[tuple[int, int, int], tuple[int, int, int]]
    """Of which operation (GPU, thread block, operation) each step of the schedule is."""
    flaws: tuple[dict[str, Any], ...]
    """What goes wrong when the plan is carried out, in the engine's words."""
    omitted: int
    warnings: tuple[Problem, ...]


def read(text: str, root: dict[str, Any], file: str) -> Document:
    """Reads a plan. Raises [`InputError`](syncline.base.errors.InputError) if it is none, or one that is not read."""
    plan = parse.read(text, root, file)
    carried = order.carry_out(plan)
    flaws, warnings = tuple(carried.flaws), (*plan.warnings, *carried.warnings)
    if not carried.ends:
        return Document(plan, None, {}, flaws, carried.omitted, warnings)
    lowered = lower(plan, carried)
    return Document(plan, lowered.schedule, lowered.sites, flaws, carried.omitted, warnings)
