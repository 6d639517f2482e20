"""Runs experiments with one thing changed, several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncline.base import memory
from syncline.base.errors import CancelledError, InputError
from syncline.base.progress import Watch
from syncline.commands.api.arguments import Settings
from syncline.commands.api.simulate import Read
from syncline.core import cancelling
from syncline.engine import choice, completing, estimate, runner, trials
from syncline.engine import runs as engine
from syncline.engine.estimate import Estimate
from syncline.engine.runs import Result
from syncline.experiment.load import Variant
from syncline.experiment.merge import parse_override
from syncline.studies.reasons import changes
from syncline.studies.reasons.changes import Change
from syncline.studies.reasons.limits import Rerun

DEAR: Final = 8
"""An alternative that has so many times the events of the experiment is left out, if it also has many of them."""
MANY_EVENTS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Planned:
    """A change that can be run, or why it cannot."""

    change: Change
    settings: tuple[str, ...]
    variant: Variant | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """The system that changes are made to."""

    variant: Variant
    prefix: str
    """What leads to it in its file, as in `variants.ACE.`; nothing in a file without variants."""
    time_ps: float
    """Of an iteration."""
    timeouts: bool
    expected: Estimate


def prefix_of(read: Read, settings: Settings, name: str) -> str:
    """What leads to a system in the file that is read: nothing where the file has no variants."""
    try:
        read([*settings.overrides, parse_override(f"variants.{name}.name={name}")], settings.forced)
    except InputError as error:
        if any(problem.message == "the file has no variants" for problem in error.problems):
            return ""
        raise
    return f"variants.{name}."


def planned(read: Read, settings: Settings, base: Base) -> list[Planned]:
    """What may help a system, read and looked at by the engine. Raises [`CancelledError`] when what may cancel it is
    called.
    """
    found: list[Planned] = []
    experiments = [base.variant.experiment]
    usual = max((of for _, of in completing.usual_chunks(base.variant)), key=lambda of: of.chunk, default=None)
    for change in changes.of(base.variant.experiment, timeouts=base.timeouts, usual=usual):
        for more in ((), change.instead) if change.instead else ((),):
            cancelling.check(settings.cancel)
            each = _planned(read, settings, base, change, (*change.settings, *more))
            if each.variant is not None:
                break
        if each.variant is None:
            found.append(each)
        elif each.variant.experiment not in experiments:  # what changes nothing tells nothing
            experiments.append(each.variant.experiment)
            found.append(each)
    return found


def _planned(
    read: Read, settings: Settings, base: Base, change: Change, changed: Sequence[tuple[str, object]]
) -> Planned:
    texts = tuple(changes.settings_text(changed, base.prefix))  # type: ignore[arg-type]
    try:
        overrides = [*settings.overrides, *map(parse_override, texts)]
        study = replace(settings, overrides=tuple(overrides)).loaded(read)
        mine = next(variant for variant in study.variants if variant.name == base.variant.name)
        (variant,) = choice.settled(replace(study, variants=(mine,))).variants
        preview = engine.preview(variant)
    except InputError as error:
        return Planned(change, texts, None, "; ".join(dict.fromkeys(p.message for p in error.problems)))
    events = estimate.of(variant.experiment, preview).events
    if change.what == "alternative" and events > max(MANY_EVENTS, DEAR * base.expected.events):
        times = events / max(1, base.expected.events)
        return Planned(change, texts, None, f"it was left out, since it takes {times:.0f} times the events")
    return Planned(change, texts, variant)


def run(
    works: Sequence[tuple[Base, Sequence[Planned]]], threads: int | None, watch: Watch | None
) -> tuple[list[list[Rerun]], bool, list[Result]]:
    """What came of the changes of each system, whether all were run, and the results of those that were. Raises
    [`CancelledError`] when what may cancel them is called.
    """
    tasks = list(_tasks(works))
    needed = [base.expected.memory_bytes for base, _ in works]
    limit = works[0][0].variant.memory_limit if works else None
    at_once = memory.at_once(threads, needed, limit)
    outcomes = runner.run_all([task.variant for task in tasks], at_once, watch=watch)
    if outcomes.cancelled:
        raise CancelledError(f"explaining was cancelled; {len(outcomes.outcomes)} of {len(tasks)} reruns are finished")
    by_task = {outcome.index: outcome for outcome in outcomes.outcomes}
    found: list[list[Rerun]] = [[] for _ in works]
    for index, task in enumerate(tasks):
        outcome = by_task.get(index)
        if outcome is None:
            continue
        base, rerun = works[task.work][0], Rerun(task.planned.change, task.planned.settings)
        if outcome.result is not None:
            summary = outcome.result.summary
            time_ps = summary["total_ps"] / max(1, summary["iterations"])
            rerun = replace(rerun, time_ps=time_ps, gain=1 - time_ps / base.time_ps)
        else:
            refused = outcome.failure or "; ".join(p.message for p in (outcome.refused or InputError([])).problems)
            rerun = replace(rerun, refused=refused)
        found[task.work].append(rerun)
    for number, (_, each) in enumerate(works):
        found[number] += [Rerun(p.change, p.settings, refused=p.refused) for p in each if p.variant is None]
    return found, not outcomes.interrupted, [result for _, result in outcomes.results]


@dataclass(frozen=True, slots=True)
class _Task:
    work: int
    planned: Planned
    variant: Variant


def _tasks(works: Sequence[tuple[Base, Sequence[Planned]]]) -> Iterator[_Task]:
    for number, (base, each) in enumerate(works):
        for plan in each:
            if plan.variant is not None:
                name = f"{base.variant.name}: {plan.change.label}"
                yield _Task(number, plan, replace(trials.unwatched(plan.variant), name=name))
