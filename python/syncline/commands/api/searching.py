"""`syncline.search`: the fastest division of a training that fits into memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import inputs, outputs
from syncline.base.errors import CancelledError, InputError
from syncline.base.text_units import duration
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Settings, Spelling
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.tables import Table
from syncline.engine import assumptions
from syncline.report import search as page
from syncline.studies.searches import file, space, table
from syncline.studies.searches import run as searches
from syncline.studies.sweeps import run as sweeps
from syncline.studies.sweeps.journal import Journal, beside

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.simulate import Warn
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.merge import Override
    from syncline.results.entries import Document
    from syncline.sections.typed import Experiment
    from syncline.studies.searches.file import Search as Described
    from syncline.studies.searches.run import Found

Row = dict[str, Any]

LABEL: Final = "search"
"""What stands in problems in place of the file of a search that is given as values."""
ACCEPTED: Final = "a path, or a mapping such as a file has: an experiment with the section search"
SHOWN: Final = 20
"""Rows that a notebook shows."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the table of a search is written, and how it is said what is wrong with that."""

    path: Path | None = None
    resume: bool = False
    spelling: Spelling = FLAGS

    def settings(self, settings: Settings) -> Settings:
        """The settings, with what is wrong with the output among their problems."""
        problems = files.output_problems(
            self.path,
            self.spelling,
            resume=self.resume,
            is_ours=table.is_search,
            what="the table of a search",
            pages=(".html",),
        )
        return replace(settings, problems=(*settings.problems, *problems))


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a search."""

    found: Found
    rows: list[Row]
    document: Document
    """The document of `search --json`."""


def run(
    read: Callable[[Sequence[Override]], Described],
    settings: Settings,
    output: Output,
    *,
    quiet: bool = True,
    address: str | None = None,
    watch: Watch | None = None,
    warn: Warn | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> Finished:
    """Carries out the search that `read` makes of overrides.

    `address` is that of a Ray cluster. Unless this is `quiet`, progress is shown on standard error; `ready` hears how
    many candidates there are, and why others are none, before they are simulated. On an interrupt, and when what may
    cancel it is called, it returns what is known by then. Raises [`InputError`] with everything that is wrong.
    """
    began = time.monotonic()
    settings = output.settings(settings)
    problems = [*settings.problems, *settings.given_twice()]
    described = arguments.collected(problems, lambda: read(settings.overrides))
    if problems or described is None:
        raise InputError(problems)
    found = searches.predicted(described, space.candidates(described))
    prediction_s = time.monotonic() - began
    fitting = sum(finding.candidate.fits for finding in found.findings)
    said = f"{len(found.findings)} candidates, of which {fitting} fit into memory"
    ready(f"{said}; bounded and estimated in {prediction_s:.1f} s")
    if found.space.illegal:
        left_out = f"{found.space.illegal} of {found.space.combinations} combinations are no division of this training"
        ready(f"{left_out}; of most: {found.space.reason}")
    path = output.path
    journal = None if path is None else Journal.open(beside(path), resume=output.resume)
    with sweeps.keeping(journal, "the same command with --resume", quiet=output.spelling is not FLAGS):
        searches.simulate(
            found,
            journal,
            settings.threads,
            quiet=quiet,
            address=address,
            watch=watch,
            warn=warn or sweeps.on_stderr,
            memory_limit=settings.memory_limit,
            cancel=settings.cancel,
        )
        rows = table.rows(found)
        document = _document(found, rows)
        if path is not None:
            table.write(path, rows, document, table.about(found))
            _page(path, rows, table.about(found))
    document["cost"] = {
        "wall_time_s": round(time.monotonic() - began, 6),
        "prediction_s": round(prediction_s, 6),
        "rows": [{name: row[name] for name in table.COST} for row in rows if row["rank"] is not None],
    }
    return Finished(found, rows, document)


def _page(out: Path, rows: Sequence[Row], about: Row) -> None:
    outputs.write(out.with_suffix(".html"), page.build(rows, about), outputs.PAGE)


def _document(found: Found, rows: Sequence[Row]) -> dict[str, Any]:
    """The search as one JSON document."""
    said = table.about(found)
    statuses = [finding.status for finding in found.findings]
    return {
        **_version.versions(),
        "kind": table.METADATA,
        "status": said["status"],
        "seed": 0,
        "assumptions": assumptions.of(found.search.bases),
        "warnings": list(found.search.warnings),
        "fidelity": {},
        "name": found.search.name,
        "description": found.search.description,
        "objective": said["objective"],
        "axes": said["axes"],
        "combinations": found.space.combinations,
        "illegal": found.space.illegal,
        "candidates": len(rows),
        "fitting": len(rows) - statuses.count("too large"),
        "simulated": statuses.count("simulated"),
        "excluded": statuses.count("excluded"),
        "open": found.open,
        "best": next((row["candidate"] for row in rows if row["rank"] == 1), None),
        "rows": [{k: v for k, v in row.items() if v is not None and k not in table.COST} for row in rows],
    }


class Search(Documented):
    """What came of a search: a row for each division, those that were simulated first, the best ahead."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.document)
        self.table: Table = Table("search", table.as_arrow(finished.rows, table.about(finished.found)))
        """The table that `syncline search --out` writes. Times are seconds, sizes bytes."""
        best = next((row for row in finished.rows if row["rank"] == 1), None)
        self.best: dict[str, Any] | None = best
        """The row of the best division; `None` if none was simulated to its end."""

    def __repr__(self) -> str:
        took = "-" if self.best is None else duration(self.best["iteration_time_s"])
        return f"<Search {self.name}: {self.document['candidates']} candidates, the best takes {took}>"

    def __len__(self) -> int:
        return len(self.table)

    def _repr_html_(self) -> str:
        counts = f"{self.document['candidates']} candidates, {self.document['fitting']} fit"
        names = [
            *("rank", *self.document["axes"], "bound_s", "estimate_s", "iteration_time_s", "memory_bytes", "status")
        ]
        about = f"{self.name}: {counts}, {self.document['simulated']} simulated"
        text = display.rows(about, self.document["rows"], names, SHOWN, "search.table has all of them.")
        return text + display.paragraphs(self.warnings)

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self.document["name"])

    @property
    def open(self) -> int:
        """Divisions that were not simulated, and that nothing proves to be no better than the best."""
        return int(self.document["open"])


@arguments.plain_arguments
def search(
    source: AnyPath | Mapping[str, object] | Experiment,
    *,
    set: Mapping[str, object] | None = None,
    out: AnyPath | None = None,
    resume: bool = False,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Search:
    """Finds the fastest division of a model among NPUs that fits into their memory.

    `source` is the path of a search file, or what it would say as a mapping: an experiment whose model has
    `workload.global_batch`, with the section `search`, which says what varies
    (`{"tensor": [1, 2, 4], "pipeline": "auto", "simulate": 20}`). All candidates get a lower bound and an estimate; the
    best by estimate are simulated, unless their bound is no better than the best simulated time. Several simulations
    at once run in processes, as in [`sweep`], as do `out` (.parquet, .csv or .json) and `resume`.

    Raises [`InputError`] with everything that is wrong, [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, threads=threads, memory_limit=memory_limit, cancel=cancel)
    problems = [*settings.problems, *arguments.not_flags(resume=resume)]
    output = Output(files.place_of(problems, out, "out"), resume, ARGUMENTS)
    settings = replace(settings, problems=tuple(problems))

    def read(overrides: Sequence[Override]) -> Described:
        return _read(source, overrides)

    watch, warn = watch_of(progress), warn_of(progress) or (lambda _: None)
    with arguments.spelled(ARGUMENTS):
        finished = run(read, settings, output, watch=watch, warn=warn)
    if finished.found.interrupted:
        said = f"{finished.document['simulated']} simulations are finished"
        raise CancelledError(f"the search was cancelled; {said}") if cancel and cancel.cancelled else KeyboardInterrupt
    return Search(finished)


def _read(source: object, overrides: Sequence[Override]) -> Described:
    source = files.plain(source)
    if isinstance(source, Mapping):
        return file.of_tree(files.tree_of(source, LABEL), LABEL, Path(), overrides)
    given = files.path_of(source, "source", "a search", ACCEPTED)
    return file.load_file(inputs.given(given), given, overrides)
