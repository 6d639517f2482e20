"""`syncline.sweep`: an experiment for all combinations of values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline.base import memory
from syncline.base.errors import CancelledError, InputError, Problem
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Settings, Spelling
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.study import Study
from syncline.commands.api.tables import Table
from syncline.engine import comparison
from syncline.experiment import packaged as studies
from syncline.results import entries as results
from syncline.results.entries import Document
from syncline.studies.sweeps import file, journal, points, table
from syncline.studies.sweeps import run as sweep_run
from syncline.studies.sweeps import run as sweeps
from syncline.studies.sweeps.progress import Checked
from syncline.studies.sweeps.table import COST

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.simulate import Warn
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.merge import Override
    from syncline.studies.sweeps.file import Sweep as Described
    from syncline.studies.sweeps.points import Simulation
    from syncline.studies.sweeps.table import Table as Found

LABEL: Final = "sweep"
"""What stands in problems in place of the file of a sweep that is given as values."""
ACCEPTED: Final = "a path, the name of a packaged sweep, or a mapping such as a file has"
SHOWN: Final = 20
"""Rows that a notebook shows."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the table of a sweep is written, and how it is said what is wrong with that."""

    path: Path | None = None
    resume: bool = False
    spelling: Spelling = FLAGS

    def settings(self, settings: Settings) -> Settings:
        """The settings, with what is wrong with the output among their problems."""
        problems = files.output_problems(
            self.path, self.spelling, resume=self.resume, is_ours=_is_sweep, what="the table of a sweep"
        )
        return replace(settings, problems=(*settings.problems, *problems))


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a sweep."""

    described: Described
    simulations: int
    """How many there are."""
    table: Found
    """Those of which something came."""
    document: Document
    """The document of `sweep --json`."""
    interrupted: bool


def run(
    read: Any,
    settings: Settings,
    output: Output,
    *,
    quiet: bool = True,
    address: str | None = None,
    watch: Watch | None = None,
    warn: Warn | None = None,
) -> Finished:
    """Simulates everything that a sweep describes, which `read` makes of overrides.

    `address` is that of a Ray cluster. Unless this is `quiet`, progress is shown on standard error. On an interrupt,
    and when what may cancel it is called, it returns what is finished by then. Raises [`InputError`] with everything
    that is wrong.
    """
    began = time.monotonic()
    settings = output.settings(settings)
    found = [*settings.problems, *settings.given_twice()]
    described = arguments.collected(found, lambda: read([*settings.overrides, *settings.forced]))
    if found or described is None:
        raise InputError(found)
    simulations, warnings = points.simulations(
        described,
        Checked(described.points, quiet=quiet),
        settings.seed,
        memory_limit=settings.memory_limit,
        cancel=settings.cancel,
    )
    path = output.path
    kept = None if path is None else journal.Journal.open(journal.beside(path), resume=output.resume)
    with sweeps.keeping(kept, "the same command with --resume", quiet=output.spelling is not FLAGS):
        entries, interrupted = sweeps.simulate(
            simulations,
            kept,
            settings.threads,
            quiet=quiet,
            address=address,
            watch=watch,
            warn=warn or sweeps.on_stderr,
            memory_limit=settings.memory_limit,
            cancel=settings.cancel,
        )
        rows = table.of(simulations, entries)
        status = rows.status(len(simulations))
        document = _document(described, simulations, rows, warnings, settings.seed, status)
        document["cost"] = _cost(rows, time.monotonic() - began)
        if path is not None and path.suffix == ".json":
            sweeps.write_document(path, document)
        elif path is not None:
            sweeps.write(path, rows, described.name, status)
    return Finished(described, len(simulations), rows, document, interrupted)


def _is_sweep(path: Path) -> bool:
    return sweep_run.is_sweep(path)


def _document(
    described: Described,
    simulations: Sequence[Simulation],
    found: Found,
    warnings: Sequence[str],
    seed: int,
    status: str,
) -> Document:
    all_warnings = [*warnings, *(f"{row['name']}: {row['warnings']}" for row in found.rows if row.get("warnings"))]
    all_warnings += comparison.beaten_in_sweep(found.rows)
    document = results.document([s.variant for s in simulations], seed=seed, status=status, warnings=all_warnings)
    results.state_folded(document, (row["folded"] for row in found.rows if "folded" in row))
    document["name"] = described.name
    document["description"] = described.description
    document["axes"] = list(found.axes)
    document["points"] = described.points
    document["simulations"] = len(simulations)
    document["rows"] = [
        {name: row.get(name) for name in found.columns if name not in COST and row.get(name) is not None}
        for row in found.rows
    ]
    document["failed"] = [
        {key: row[key] for key in ("point", "name", "variant", "status", "error")}
        for row in found.rows
        if row["status"] != "done"
    ]
    return document


def _cost(found: Found, wall_time_s: float) -> dict[str, Any]:
    """What the sweep took on this machine, and each simulation when it was run."""
    import resource

    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "wall_time_s": round(wall_time_s, 6),
        "peak_rss_bytes": max(memory.peak(), workers),
        "events": sum(row["events"] or 0 for row in found.rows),
        "rows": [{"wall_time_s": row["wall_time_s"], "events": row["events"]} for row in found.rows],
    }


@dataclass(frozen=True, slots=True)
class FailedPoint:
    """A simulation of a sweep that failed, or that the engine refused."""

    point: int
    """The number of the combination of values, from 0."""
    name: str
    variant: str
    status: str
    """`failed` or `refused`."""
    error: str


class Sweep(Documented):
    """What came of a sweep: a row for each combination of values and each variant, in the order of the combinations."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.document)
        self.table: Table = Table("sweep", finished.table.as_arrow(finished.described.name, self.status))
        """The table that `syncline sweep --out` writes. Times are seconds, sizes bytes; `table.columns` says of each
        column what it means.
        """

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Sweep {self.name}: {len(self.table):,} rows over {', '.join(self.axes)}{failed}>"

    def __len__(self) -> int:
        return len(self.table)

    def _repr_html_(self) -> str:
        names = [*self.axes, "variant", *(name for _, name, _ in display.MEASURES), "status"]
        more = "sweep.table has all of them."
        text = display.rows(self.name, self.document["rows"], names, SHOWN, more, display.MEASURES)
        failed = (f"{each.name}, {each.variant}: {each.status}: {each.error}" for each in self.failed)
        return text + display.paragraphs(failed)

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return str(self.document["name"])

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns of the fields that vary."""
        return tuple(self.document["axes"])

    @property
    def points(self) -> int:
        """How many combinations of values there are."""
        return int(self.document["points"])

    @property
    def failed(self) -> tuple[FailedPoint, ...]:
        """The simulations that failed, or that the engine refused."""
        return tuple(FailedPoint(**each) for each in self.document["failed"])


@arguments.plain_arguments
def sweep(
    source: AnyPath | Mapping[str, object],
    *,
    set: Mapping[str, object] | None = None,
    out: AnyPath | None = None,
    resume: bool = False,
    seed: int = 0,
    threads: int | None = None,
    endpoint: str | None = None,
    backend: str | None = None,
    algorithm: str | None = None,
    chunk: str | int | None = None,
    inflight: int | None = None,
    padding: str | None = None,
    fold: str | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Sweep:
    """Simulates an experiment for every combination of values of some of its fields.

    `source` is the path of a sweep file, the name of a packaged sweep, or what a file would say as a mapping; there,
    `base` may be an experiment as a mapping or an [`Experiment`]:

        syncline.sweep({"name": "sram", "base": "ace/resnet50", "variants": ["ACE"],
                        "axes": {"endpoint.sram": ["1MiB", "2MiB", "4MiB"], "endpoint.fsms": [8, 16]}})

    `set` changes fields of every point by their paths; the arguments from `endpoint` to `fold` hold for every point,
    too. All points are validated before the first simulation. Several simulations at once run in processes of their
    own, `threads` of them, which import nothing of the program that calls this. `out` is a file for the table (.parquet
    or .csv), beside which a journal keeps what is finished: with `resume`, the sweep goes on there.

    A simulation that fails, or that the engine refuses, is a row with its error. Raises [`InputError`] with everything
    that is wrong, [`CancelledError`] when `cancel` is called.
    """
    forced = {
        "endpoint": endpoint,
        "backend": backend,
        "algorithm": algorithm,
        "chunk": chunk,
        "inflight": inflight,
        "padding": padding,
        "fold": fold,
    }
    settings = arguments.of_program(
        changes=set, seed=seed, threads=threads, memory_limit=memory_limit, forced=forced, cancel=cancel
    )
    problems = [*settings.problems, *arguments.not_flags(resume=resume)]
    output = Output(files.place_of(problems, out, "out"), resume, ARGUMENTS)
    settings = replace(settings, problems=tuple(problems))

    def read(overrides: Sequence[Override]) -> Described:
        return _read(source, overrides)

    watch, warn = watch_of(progress), warn_of(progress) or (lambda _: None)
    with arguments.spelled(ARGUMENTS):
        finished = run(read, settings, output, watch=watch, warn=warn)
    if finished.interrupted:
        said = f"{len(finished.table.rows)} of {finished.simulations} simulations are finished"
        raise CancelledError(f"the sweep was cancelled; {said}") if cancel and cancel.cancelled else KeyboardInterrupt
    return Sweep(finished)


def _refuse_studies(base: object) -> None:
    """Raises [`InputError`] for a study as the base of a sweep, whose fields are all filled in."""
    for each in base if isinstance(base, list | tuple) else [base]:
        if isinstance(each, Study):
            message = "a study that has been loaded cannot be varied"
            accepted = "what it was loaded from: a path, the name of a study, a mapping or an Experiment"
            raise InputError([Problem(LABEL, None, "base", each.name, message, accepted)])


def _read(source: object, overrides: Sequence[Override]) -> Described:
    if isinstance(source, Mapping):
        _refuse_studies(source.get("base"))
        return file.of_tree(files.tree_of(source, LABEL), LABEL, Path(), overrides)
    given = files.path_of(source, "source", "a sweep", ACCEPTED)
    return file.load(*files.found(studies.find_sweep, given, "source"), overrides)
