"""The result of a run: an object with the systems, their tables and the document of `--json`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Spelling
from syncline.commands.api.systems import System, side_by_side
from syncline.commands.api.tables import Tables
from syncline.experiment import load
from syncline.report import run as report
from syncline.results import rundir
from syncline.results.entries import Document
from syncline.results.rundir import RESOLVED, RunDirectory
from syncline.studies.reasons import entries

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.commands.api.simulate import Finished
    from syncline.experiment.load import Variant

REQUIRED: Final = tuple(f.name for f in fields(System) if f.default is MISSING and f.default_factory is MISSING)
"""What every document says of a system."""


class Systems(Mapping[str, System]):
    """The systems that a run simulated, by name and in the order of the experiment."""

    __slots__ = ("_failed", "_systems")

    def __init__(self, systems: Mapping[str, System], failed: Mapping[str, str]) -> None:
        self._systems = dict(systems)
        self._failed = failed

    def __getitem__(self, name: str) -> System:
        if name in self._systems:
            return self._systems[name]
        if name in self._failed:
            raise KeyError(f"the simulation of {name!r} failed: {self._failed[name]}")
        hint = did_you_mean(str(name), self._systems)
        raise KeyError(f"there is no system {name!r}{hint} ({one_of(self._systems)})")

    def __iter__(self) -> Iterator[str]:
        return iter(self._systems)

    def __len__(self) -> int:
        return len(self._systems)

    def __repr__(self) -> str:
        return f"<Systems {one_of(self._systems)}>"

    def _repr_html_(self) -> str:
        return side_by_side("systems", self._systems.values(), self._failed.items(), ())


class Run:
    """What came of running an experiment.

    Times are seconds, sizes bytes, rates bytes per second. In a notebook a run shows itself as a table.
    """

    def __init__(
        self,
        document: Document,
        tables: Mapping[str, Mapping[str, pa.Table]],
        *,
        command: str,
        finished: Finished | None = None,
        directory: Path | None = None,
    ) -> None:
        self.document: Document = document
        """The document that `syncline run --json` prints; `syncline schema run` describes it."""
        self.directory: Path | None = directory
        """Where the run is written, if it is."""
        self._tables = {name: dict(of_system) for name, of_system in tables.items()}
        self._command = command
        self._finished = finished

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<Run {self.name}: {one_of(run['name'] for run in self.document['runs'])}{failed}>"

    def _repr_html_(self) -> str:
        counts = {"warning": self.warnings, "assumption": self.assumptions}
        notes = [display.counted(len(said), what) for what, said in counts.items() if said]
        told = [f"{' and '.join(notes)}: run.warnings and run.assumptions list them."] if notes else []
        return side_by_side(self.name, self.systems.values(), self.failed.items(), told)

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self.document.get("name") or "")

    @property
    def status(self) -> str:
        """`complete`; or `partial`, if a simulation failed or the run was interrupted."""
        return str(self.document["status"])

    @property
    def seed(self) -> int:
        """The seed of random numbers."""
        return int(self.document.get("seed") or 0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the numbers are relied on."""
        return tuple(self.document.get("warnings", ()))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What nobody stated, and was filled in."""
        return tuple(self.document.get("assumptions", ()))

    @property
    def failed(self) -> dict[str, str]:
        """The systems whose simulation failed, and why."""
        return {failure["name"]: failure["message"] for failure in self.document.get("failed", ())}

    @property
    def finished(self) -> list[str]:
        """The systems that were simulated and whose tables are known."""
        return list(self._tables)

    @cached_property
    def systems(self) -> Systems:
        """The systems that were simulated, by name.

        Raises [`InputError`] for a run that a version of Syncline wrote which did not say all that a system has.
        """
        found: dict[str, System] = {}
        for entry in self.document["runs"]:
            missing = [name for name in REQUIRED if entry.get(name) is None]
            if missing:
                message = f"{one_of(missing)}: this is missing, which every run has that this version writes"
                raise InputError([Problem(str(self.directory), None, f"runs.{entry['name']}", None, message)])
            found[entry["name"]] = System.of_run(entry, Tables(self._tables.get(entry["name"], {})))
        return Systems(found, self.failed)

    def report(self, *, baseline: str | None = None) -> str:
        """The report as the text of an HTML page, which needs no other file and no network.

        `baseline` is the system that speed-ups are against, if not that of the run. Raises [`InputError`] if there is
        no such system.
        """
        if problems := arguments.not_text(baseline=baseline):
            raise InputError(problems)
        return page(self, baseline, ARGUMENTS)

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Writes the run as `syncline run --out` does, and returns the directory.

        The directory is made, or it is empty or that of another run, whose files are replaced. Raises [`InputError`]
        if it is something else, or if this run was read from files, which can be copied as they are.
        """
        path = Path(files.path_of(directory, "directory", "a directory", "the path of a directory"))
        if self._finished is None:
            message = f"this run was read from {self.directory}, which is what would be written"
            raise InputError([ARGUMENTS.problem("directory", path, message, "a copy of that directory")])
        study, outcomes = self._finished.study, self._finished.outcomes
        with of_directory("directory"):
            to = RunDirectory(path, study, self._command, self.seed, report.page)
            to.check()
            for variant, result in outcomes.results:
                to.add(variant, result)
            to.close(self.document, self._tables)
        self.directory = path
        return path


def of_finished(finished: Finished, command: str) -> Run:
    """The result of what was run."""
    tables = {variant.name: result.tables for variant, result in finished.outcomes.results}
    directory = None if finished.directory is None else finished.directory.path
    return Run(finished.document, tables, command=command, finished=finished, directory=directory)


def command_of(seed: int) -> str:
    """The command that repeats a run from its directory, for a run that no command has started."""
    return f"syncline run {RESOLVED}" + (f" --seed {seed}" if seed else "")


def read(directory: str | os.PathLike[str]) -> Run:
    """The run that `syncline run --out` or [`Run.save`] has written into a directory.

    All numbers and tables are those of the run, except for captured frames, which are files of their own. Raises
    [`InputError`] with every file and field that is not what a run writes.
    """
    path = Path(files.path_of(directory, "directory", "a run", "the path of a directory"))
    with of_directory("directory"):
        return read_directory(path)


def read_directory(directory: Path) -> Run:
    """The same for the command line."""
    document, tables, command = rundir.read(directory)
    return Run(document, tables, command=command, directory=directory)


def page(run: Run, baseline: str | None, spelling: Spelling) -> str:
    """The report of a run as HTML. Raises [`InputError`] if `baseline` is no system of it."""
    document = run.document
    if baseline is not None:
        names = [str(entry.get("name")) for entry in document["runs"]]
        if baseline not in names:
            message = f"there is no such variant{did_you_mean(baseline, names)}"
            raise InputError([spelling.problem("baseline", baseline, message, one_of(names))])
        document = document | {"baseline": baseline}
    known = {} if run.directory is None else entries.kept(run.directory)
    return report.page(document, run._tables, _variants(run), run._command, known)


def _variants(run: Run) -> Sequence[Variant]:
    """What was run; of a run that was read it is read again, and nothing where that cannot be read."""
    if run._finished is not None:
        return run._finished.study.variants
    assert run.directory is not None
    path = run.directory / RESOLVED
    try:
        return load.load_file(path, str(path)).variants
    except InputError:
        return ()


@contextmanager
def of_directory(argument: str) -> Iterator[None]:
    """What is wrong with a directory of a command line is said of an argument."""
    try:
        yield
    except InputError as error:
        raise InputError(_of_argument(problem, argument) for problem in error.problems) from None


def _of_argument(problem: Problem, argument: str) -> Problem:
    if (problem.file, problem.field) != (FLAGS.place, "directory"):
        return problem
    return Problem(ARGUMENTS.place, None, ARGUMENTS.name(argument), problem.value, problem.message, problem.accepted)
