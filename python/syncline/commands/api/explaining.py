"""Explaining a run, for programs and for the command line alike: raises and returns, and prints nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from syncline.base import atomic, memory
from syncline.base.clock import Clock
from syncline.base.errors import CancelledError, InputError, Problem, SimulationFailedError, did_you_mean, one_of
from syncline.base.progress import Watch
from syncline.base.text_units import duration
from syncline.commands.api import reruns, runs, simulate
from syncline.commands.api.arguments import FLAGS, Settings, Spelling
from syncline.commands.api.reruns import Base, Planned
from syncline.commands.api.simulate import Read, Warn
from syncline.core import cancelling
from syncline.engine import estimate, runner
from syncline.engine import runs as engine
from syncline.engine.estimate import NOTICED_S
from syncline.engine.runs import Result
from syncline.experiment import load
from syncline.experiment.load import Study, Variant
from syncline.results import entries as results
from syncline.results import rundir
from syncline.results.entries import Document
from syncline.studies.reasons import answer, entries, limits
from syncline.studies.reasons.answer import Reasons
from syncline.studies.reasons.seen import Seen

TRACED: Final = 2_000_000
"""Spans of the slowest NPU that are recorded where a run has no record of all that it did."""


@dataclass(frozen=True, slots=True)
class Written:
    """How an experiment is named on a command line."""

    source: str
    settings: Sequence[str] = ()
    """Values of `--set`."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is explained or compared: systems that were simulated, with their experiments."""

    name: str
    seen: Mapping[str, Seen]
    study: Study
    read: Read
    settings: Settings
    command: tuple[str, ...]
    """What runs it again."""
    document: Document
    """What every document begins with."""
    directory: Path | None = None
    results: tuple[Result, ...] = field(default=(), repr=False)

    def variant(self, name: str) -> Variant:
        """The experiment of a system."""
        return next(variant for variant in self.study.variants if variant.name == name)


@dataclass(frozen=True, slots=True)
class Explained:
    """What came of explaining."""

    subject: Subject
    reasons: Mapping[str, Reasons]
    document: Document
    """The document of `explain --json`."""
    is_complete: bool


def of_directory(
    directory: Path,
    systems: Sequence[str],
    spelling: Spelling,
    settings: Settings,
    *,
    watch: Watch | None = None,
    numbers_only: bool = False,
) -> Subject:
    """A run that was written into a directory; systems whose slowest NPU it has no record of are simulated again, which
    a warning says. With `numbers_only`, records and the experiment are not needed, which an older version may have
    written with fields that are gone, or which may be missing.

    Raises [`InputError`], and as [`of_experiment`] where something is simulated.
    """
    if settings.problems:
        raise InputError(settings.problems)
    if settings.overrides or settings.forced:
        message = "a run that is finished cannot be changed"
        accepted = f"no settings, or {directory / rundir.RESOLVED} in place of the directory"
        raise InputError([spelling.problem("set", None, message, accepted)])
    cancelling.check(settings.cancel)
    document, tables, _ = rundir.read(directory)
    path = directory / rundir.RESOLVED

    def read(overrides: Any, forced: Any) -> Study:
        return load.load_file(path, str(path), overrides, forced)

    entries = {str(entry["name"]): entry for entry in document["runs"] if entry["name"] in tables}
    chosen = _chosen(list(entries), systems, spelling)
    seed = int(document.get("seed") or 0)
    settings = replace(settings, seed=seed)
    if numbers_only:
        study = Study(str(document.get("name") or ""), "", ())
    elif path.is_file():
        study = settings.loaded(read)
    else:
        message = "the experiment of this run is missing, without which it cannot be explained"
        raise InputError([Problem(str(path), None, "", None, message, "the directory of a run with all its files")])
    known = list(entries) if numbers_only else [variant.name for variant in study.variants]
    if missing := [name for name in chosen if name not in known]:
        message = f"{path} has no variant of this name"
        raise InputError([spelling.problem("system", name, message, one_of(known)) for name in missing])
    seen = {name: Seen(entries[name], tables[name]) for name in chosen}
    heads = ("schema_version", "version", "status", "seed", "assumptions", "warnings", "fidelity")
    head = {key: document.get(key) for key in heads} | {"status": "complete"}
    again: dict[str, Result] = {}
    if not numbers_only:
        unrecorded = [_tracing(v, seen[v.name].slowest) for v in study.variants if _is_unrecorded(seen.get(v.name))]
        again = _recorded(unrecorded, seen, settings, directory, watch)
        seen |= {name: Seen(seen[name].entry, result.tables) for name, result in again.items()}
        head["warnings"] = [
            *(head["warnings"] or ()),
            *(f"{name}: the run has no record of what its slowest NPU did, and was repeated for one" for name in again),
            *_full(seen, [*study.variants, *unrecorded]),
        ]
    name = str(document.get("name") or study.name)
    command, results_again = _command(str(path), (), seed), tuple(again.values())
    return Subject(name, seen, study, read, settings, command, head, directory, results_again)


def _is_unrecorded(seen: Seen | None) -> bool:
    """Whether a system that is asked for has no record of what its slowest NPU did."""
    return seen is not None and seen.slowest not in seen.traced


def _recorded(
    variants: Sequence[Variant], seen: Mapping[str, Seen], settings: Settings, directory: Path, watch: Watch | None
) -> dict[str, Result]:
    """Systems of a directory, simulated again for a record. Raises [`InputError`] where this is not the run that was
    written, as of another version.
    """
    if not variants:
        return {}
    expected = [estimate.of(variant.experiment, engine.preview(variant)).memory_bytes for variant in variants]
    threads = memory.at_once(settings.threads, expected, settings.memory_limit)
    found = dict(_simulated(variants, threads, watch))
    for name, result in found.items():
        if int(result.summary["total_ps"]) != seen[name].total_ps:
            message = (
                f"there is no record of what the slowest NPU of {name} did, and this version simulates it otherwise "
                "than the one that has written it"
            )
            raise InputError([Problem(str(directory), None, "", None, message, f"{directory / rundir.RESOLVED}")])
    return found


def of_experiment(
    read: Read,
    settings: Settings,
    written: Written,
    systems: Sequence[str],
    spelling: Spelling,
    *,
    watch: Watch | None = None,
    warn: Warn | None = None,
) -> Subject:
    """Simulates an experiment, or some systems of it, with the slowest NPU of each traced.

    Raises [`InputError`] with everything that is wrong, [`SimulationFailedError`] if a simulation fails,
    [`CancelledError`] when what may cancel it is called, and `KeyboardInterrupt`.
    """
    looked = simulate.look(read, settings)
    chosen = _chosen([v.name for v in looked.study.variants], systems, spelling)
    variants = [variant for variant in looked.study.variants if variant.name in chosen]
    expected = {v.name: each for v, each in zip(looked.study.variants, looked.estimates(), strict=True)}
    for name in chosen:
        if warn is not None and (text := estimate.warning(name, expected[name])) is not None:
            warn(text)
    threads = memory.at_once(settings.threads, (expected[n].memory_bytes for n in chosen), settings.memory_limit)
    found = dict(_simulated(variants, threads, watch))
    again = [_traced(v, found[v.name]) for v in variants]
    try:
        found |= dict(_simulated([variant for variant in again if variant is not None], threads, watch))
    except InputError:  # a longer record takes more memory than there may be
        again = []
    entries = {v.name: results.run_entry(v, found[v.name]) for v in variants}
    seen = {name: Seen(entry, found[name].tables) for name, entry in entries.items()}
    warnings = [*looked.study.warnings, *(f"{n}: {w}" for n in chosen for w in found[n].summary["warnings"])]
    warnings += _full(seen, [*variants, *(variant for variant in again if variant is not None)])
    summaries = {name: result.summary for name, result in found.items()}
    head = results.document(variants, seed=settings.seed, status="complete", warnings=warnings, seen=summaries)
    command = _command(written.source, written.settings, settings.seed)
    return Subject(looked.study.name, seen, looked.study, read, settings, command, head, results=tuple(found.values()))


def explain(subject: Subject, *, what_if: bool, watch: Watch | None = None, warn: Warn | None = None) -> Explained:
    """Why the systems take as long as they do; with `what_if`, what would help, from reruns. On an interrupt what is
    known by then is returned.
    """
    began = Clock()
    if lacking := [name for name, seen in subject.seen.items() if not seen.has_path]:
        message = "there is no record of what any NPU did, without which shares of the time are not known"
        accepted = "a larger --memory-limit, or fewer iterations, so that a record has room"
        raise InputError([Problem(subject.command[2], None, name, None, message, accepted) for name in lacking])
    reasons = {name: answer.of(seen, subject.variant(name).experiment) for name, seen in subject.seen.items()}
    found: list[list[limits.Rerun]] = []
    is_complete, ran = True, list(subject.results)
    if what_if:
        try:
            works = [_work(subject, seen) for seen in subject.seen.values()]
            _announce(works, subject.settings.threads, warn)
            found, is_complete, more = reruns.run(works, subject.settings.threads, watch)
            ran += more
        except KeyboardInterrupt:  # while reruns are set up
            found, is_complete = [[] for _ in reasons], False
    systems = []
    for index, each in enumerate(reasons.values()):
        mine = found[index] if what_if else None
        entry = answer.entry(each, limits.decided(each.accounting, mine or ()), mine)
        for rerun in entry["what_if"] or ():
            flags = [flag for text in rerun["set"] for flag in ("--set", text)]
            rerun["command"] = shlex.join([*subject.command, *flags])
        systems.append(entry)
    document = {
        **subject.document,
        "status": "complete" if is_complete else "partial",
        "name": subject.name,
        "what_if": what_if,
        "systems": systems,
        "cost": results.cost(began, ran),
    }
    return Explained(subject, reasons, document, is_complete)


def keep(explained: Explained) -> Path | None:
    """Writes what reruns told into the directory of the run, beside what is known of its other systems, and the report
    with it; nothing where there were no reruns, or for what is no directory.
    """
    directory = explained.subject.directory
    if directory is None or not explained.document["what_if"]:
        return None
    known = entries.kept(directory) | {entry["name"]: entry for entry in explained.document["systems"]}
    whole = explained.document | {"systems": list(known.values())}
    atomic.write(directory / rundir.EXPLAINED, results.dumps(whole) + "\n")
    atomic.write(directory / "report.html", runs.page(runs.read_directory(directory), None, FLAGS))
    return directory / rundir.EXPLAINED


def _work(subject: Subject, seen: Seen) -> tuple[Base, list[Planned]]:
    variant = subject.variant(seen.name)
    preview = engine.preview(variant)
    base = Base(
        variant,
        reruns.prefix_of(subject.read, subject.settings, seen.name),
        seen.total_ps / seen.iterations,
        bool((seen.entry.get("network") or {}).get("rto_events")),
        estimate.of_variant(variant, preview),
    )
    return base, reruns.planned(subject.read, subject.settings, base)


def _announce(works: Sequence[tuple[Base, Sequence[Planned]]], threads: int | None, warn: Warn | None) -> None:
    """Says before long reruns how long they take."""
    counts = [sum(plan.variant is not None for plan in each) for _, each in works]
    work = sum(base.expected.time_s * count for (base, _), count in zip(works, counts, strict=True))
    at_once = memory.at_once(threads, (base.expected.memory_bytes for base, _ in works))
    if warn is not None and work / at_once > NOTICED_S:
        warn(f"{sum(counts)} reruns will take about {duration(work / at_once)}; --no-what-if leaves them out")


def _simulated(variants: Sequence[Variant], threads: int, watch: Watch | None) -> list[tuple[str, Result]]:
    outcomes = runner.run_all(variants, threads, watch=watch)
    if outcomes.interrupted:
        raise KeyboardInterrupt
    if outcomes.cancelled:
        raise CancelledError(f"the run was cancelled; {len(outcomes.results)} of {len(variants)} systems are finished")
    outcomes.raise_if_refused()
    if outcomes.failures:
        raise SimulationFailedError("; ".join(f"{name}: {message}" for name, message in outcomes.failures))
    return [(variant.name, result) for variant, result in outcomes.results]


def _full(seen: Mapping[str, Seen], variants: Sequence[Variant]) -> Iterator[str]:
    """A warning for every record of activity that has as many spans as it may have, so that others may be missing. Of
    variants that were run twice, the second counts.
    """
    most = {variant.name: variant.experiment.output.trace_limit for variant in variants}
    for name, each in seen.items():
        if (table := each.tables.get("slices")) is not None and table.num_rows >= most[name]:
            yield (
                f"{name}: the record of what its NPU did is full, so that the critical path lacks what came later; "
                f"output.trace_limit says how many spans it may have"
            )


def _traced(variant: Variant, result: Result) -> Variant | None:
    """The variant with its slowest NPU traced, if that was not, or not to the end."""
    slowest, limit = int(result.summary["npu"]), variant.experiment.output.trace_limit
    traced = result.tables["slices"].column("npu").to_pylist()
    return None if slowest in set(traced) and len(traced) < limit else _tracing(variant, slowest)


def _tracing(variant: Variant, npu: int) -> Variant:
    """The variant with a record of what an NPU does, from beginning to end."""
    output = variant.experiment.output
    traced = output.model_copy(update={"trace_npus": [npu], "trace_limit": max(output.trace_limit, TRACED)})
    return replace(variant, experiment=variant.experiment.model_copy(update={"output": traced}))


def _chosen(known: Sequence[str], systems: Sequence[str], spelling: Spelling) -> list[str]:
    """The systems that are asked for, in the order of the run; all if none is."""
    strangers = [name for name in systems if name not in known]
    if strangers:
        raise InputError(
            spelling.problem("system", name, f"there is no such system{did_you_mean(name, known)}", one_of(known))
            for name in strangers
        )
    return [name for name in known if not systems or name in systems]


def _command(source: str, given: Sequence[str], seed: int) -> tuple[str, ...]:
    flags = [flag for text in given for flag in ("--set", text)]
    return ("syncline", "run", source, *flags, *(("--seed", str(seed)) if seed else ()))
