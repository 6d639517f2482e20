"""`syncline.explain`: why a run takes as long as it does, and what would help."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from syncline.base import document
from syncline.base.errors import InputError, one_of
from syncline.base.text_units import duration, percent
from syncline.commands.api import arguments, display, explaining, sources
from syncline.commands.api.arguments import ARGUMENTS, Settings, Spelling
from syncline.commands.api.explaining import Subject, Written
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.runs import Run, of_directory
from syncline.results import rundir
from syncline.results.entries import Document
from syncline.studies.reasons import changes, said

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.commands.api.simulate import Warn
    from syncline.commands.api.sources import Source
    from syncline.core.cancelling import Cancellation

Explainable: TypeAlias = "Source | Run"
"""The directory of a run, the result of [`run`] that is in a directory, or an experiment."""

__all__ = ["Explainable", "Explanation", "PathPart", "SystemExplanation", "WhatIf", "explain", "subject_of", "watch_of"]


@dataclass(frozen=True, slots=True)
class PathPart:
    """A part of the critical path."""

    name: str
    time_s: float
    """Seconds of an iteration."""
    ps: int
    """Picoseconds of the whole run; those of all parts add up to its time exactly."""
    share: float
    """From 0 to 1."""
    links_busy_share: float | None
    """Of a phase, the share of it in which its links were busy."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A rerun with one thing changed."""

    change: str
    gain: float | None
    """The part of the time of an iteration that it saves; `None` if it could not be run."""
    iteration_time_s: float | None
    settings: tuple[str, ...]
    """`PATH=VALUE`, as `--set` takes them."""
    refused: str | None
    """Why it could not be run."""


@dataclass(frozen=True, slots=True)
class SystemExplanation:
    """Why a system takes as long as it does."""

    name: str
    iteration_time_s: float
    limit: str
    """What limits it: `compute`, `latency`, `chunks in flight`, `links of dim 1`, `SRAM` and so on."""
    limit_by: str
    """`reruns`, or `accounting` alone."""
    because: str
    """The evidence."""
    network_is_idle: str | None
    """A sentence, where the time does not react to the network."""
    critical_path: tuple[PathPart, ...]
    by_resource: dict[str, float]
    """The shares of the same path by what was in use: `compute`, `links of dim 1`, `memory of the endpoint`, say."""
    what_if: tuple[WhatIf, ...] | None
    """By gain; `None` without reruns."""


class Explanation:
    """Why the systems of a run take as long as they do."""

    def __init__(self, document: Document) -> None:
        self.document: Document = document
        """The document that `syncline explain --json` prints; `syncline schema explain` describes it."""

    def __repr__(self) -> str:
        return (
            f"<Explanation {self.document['name']}: {one_of(f'{s.name} by {s.limit}' for s in self.systems.values())}>"
        )

    def _repr_html_(self) -> str:
        text = ""
        for entry in self.document["systems"]:
            text += display.paragraphs([f"{entry['name']}: {said.limit(entry)}.", *said.remarks(entry)])
            path = [[said.part(p), duration(p["time_s"]), percent(p["share"])] for p in entry["critical_path"]]
            text += display.table(f"{entry['name']}: critical path", ["part", "time", "share"], path)
            helps = [[w["change"], duration(w["iteration_time_s"]), percent(w["gain"])] for w in said.helpful(entry)]
            if helps:
                text += display.table("what would help", ["change", "iteration", "saves"], helps)
        return text

    @property
    def systems(self) -> dict[str, SystemExplanation]:
        """By system, in the order of the experiment."""
        return {entry["name"]: _system(entry) for entry in self.document["systems"]}


def _system(entry: Mapping[str, object]) -> SystemExplanation:
    found: Document = dict(entry)
    limit, reruns = found["limit"], found["what_if"]
    return SystemExplanation(
        name=found["name"],
        iteration_time_s=found["iteration_time_s"],
        limit=limit["name"],
        limit_by=limit["by"],
        because=limit["because"],
        network_is_idle=found["network_is_idle"],
        critical_path=tuple(
            PathPart(said.part(p), p["time_s"], p["ps"], p["share"], p["links_busy_share"])
            for p in found["critical_path"]
        ),
        by_resource={resource["name"]: resource["share"] for resource in found["by_resource"]},
        what_if=None
        if reruns is None
        else tuple(
            WhatIf(r["change"], r["gain"], r["iteration_time_s"], tuple(r["set"]), r["refused"]) for r in reruns
        ),
    )


@arguments.plain_arguments
def explain(
    source: Explainable,
    *,
    set: Mapping[str, object] | None = None,
    system: str | Sequence[str] | None = None,
    what_if: bool = True,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Explanation:
    """Why a run takes as long as it does: its critical path, what limits it, and what would help.

    `source` is the directory of a run, a [`Run`] that was saved, or an experiment (as for [`run`]), which is simulated;
    `set` changes it by paths. `system` names the systems that are explained; by default all. With `what_if` each is
    simulated again with one thing changed at a time, some twenty times. The limit is then what gains most from being
    doubled; without, it is named from records of the run. `threads` simulations run at once.

    Raises [`InputError`] with everything that is wrong, [`SimulationFailedError`] if the simulation itself fails,
    [`CancelledError`] when `cancel` is called. An interrupt is raised again as `KeyboardInterrupt`.
    """
    settings = arguments.of_program(changes=set, seed=seed, threads=threads, memory_limit=memory_limit, cancel=cancel)
    problems = [*settings.problems, *arguments.not_flags(what_if=what_if)]
    names = arguments.names(problems, "system", () if system is None else system)
    settings = replace(settings, problems=tuple(problems))
    watch, warn = watch_of(progress), warn_of(progress)
    subject = subject_of(source, settings, names, ARGUMENTS, watch=watch, warn=warn)
    explained = explaining.explain(subject, what_if=what_if, watch=watch, warn=warn)
    if not explained.is_complete:
        raise KeyboardInterrupt
    return Explanation(explained.document)


def subject_of(
    source: Explainable,
    settings: Settings,
    systems: Sequence[str],
    spelling: Spelling,
    *,
    watch: Watch | None = None,
    warn: Warn | None = None,
    numbers_only: bool = False,
) -> Subject:
    """What is to be explained or, with `numbers_only`, compared. Raises as [`explain`]."""
    if isinstance(source, Run):
        if source.directory is None:
            message = "this run is in no directory, where its experiment is kept"
            raise InputError([spelling.problem("source", source.name, message, "run.save(DIRECTORY) first, or out=")])
        source = source.directory
    if isinstance(source, str | os.PathLike) and rundir.is_meant(source):
        with of_directory("source"):
            path = Path(source)
            return explaining.of_directory(path, systems, spelling, settings, watch=watch, numbers_only=numbers_only)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else sources.LABEL + ".yaml"
    return explaining.of_experiment(
        lambda overrides, forced: sources.read(source, overrides, forced),
        settings,
        Written(name, [f"{o.text}={changes.text(document.plain(o.value))}" for o in settings.overrides]),
        systems,
        spelling,
        watch=watch,
        warn=warn,
    )
