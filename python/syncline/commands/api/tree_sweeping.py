"""`syncline.trees_sweep`: rates and trees of every allocation of a machine, as a table."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import interrupts
from syncline.base.errors import FULL, CancelledError, InputError, SimulationFailedError, command_line
from syncline.commands.api import arguments, display, files, tree_comparison, tree_questions
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Listed, Spelling
from syncline.commands.api.documented import Documented
from syncline.commands.api.files import output_problems
from syncline.commands.api.hybrid_trees import NAME as HYBRID
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.tables import Table as ArrowTable
from syncline.commands.api.tree_comparison import Case, Goals, Observed
from syncline.core import binding, cancelling
from syncline.fabric import allocation
from syncline.fabric.allocation import AllocationError
from syncline.report.trees import sweep_figure
from syncline.results import entries as results
from syncline.studies.sweeps import journal as journals
from syncline.studies.sweeps import pool
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.progress import SweepProgress
from syncline.studies.sweeps.run import keep, keeping
from syncline.studies.trees import sweep_table, theory
from syncline.studies.trees.sweep_table import NAMES, Row, Table
from syncline.treegen import allocations, choice, question
from syncline.treegen.allocations import TooManyError

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.tree_questions import Read
    from syncline.core.cancelling import Cancellation
    from syncline.fabric.graph import Graph
    from syncline.results.entries import Document
    from syncline.studies.sweeps.journal import Journal
    from syncline.treegen.allocations import Allocation
    from syncline.treegen.question import Question

FORMAT: Final = 1
"""Of rows in a journal: another number, and they are found anew."""
FEW_GPUS: Final = 16
"""Rates of so many GPUs take less time than a process needs to begin."""
LEAST_GPUS: Final = 2
WHAT: Final = "a table of allocations"
"""What is written."""
SIZES: Final = replace(ARGUMENTS, called=(("sweep", "sizes"),))
"""How a program says what there are too many of."""
COUNTS: Final = Listed("these are no numbers of GPUs", '[3, 4], or "3-8"', alone=True)
SAVED: Final = replace(ARGUMENTS, called=(("out", "path"),))
SHOWN: Final = 20
"""Rows that a notebook shows."""
NAMED: Final = (
    *("gpus", "allocations", "trees_rate_links", "rings_rate_links", "theoretical_speedup"),
    *("trees_time_s", "rings_time_s", "speedup", "status"),
)
"""What it shows of them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of every allocation."""

    read: Read
    asked: Question
    """On all GPUs that may take part."""
    sizes: str | None
    every: bool

    @classmethod
    def of(cls, read: Read, sizes: str | None, *, every: bool) -> Wanted:
        """The same of what was read."""
        return cls(read, question.asked(read.graph, read.gpus, read.goals.links), sizes, every)

    def about(self) -> dict[str, Any]:
        """What the table is about."""
        case, goals = self.read.case, self.read.goals
        return {
            "machine": self.read.graph.name,
            "collective": case.kind,
            "links": self.asked.links,
            "objective": goals.objective,
            "threshold": goals.threshold,
            "overhead_s": goals.overhead_s,
            "size_bytes": self.read.size_bytes,
            "every": self.every,
            "backend": case.backend if self.read.compare else None,
            "endpoint": case.endpoint if self.read.compare else None,
        }

    def keys(self, found: Sequence[Allocation]) -> list[str]:
        """Names for what decides each row: what else a journal has, says nothing about it."""
        from syncline.core import _core

        binding.require()
        graph, case, wished = self.read.graph, self.read.case, self.read.goals
        fabric = [graph.name, graph.specification(), [node.host for node in graph.nodes]]
        goals: list[Any] = [wished.objective, wished.threshold, wished.overhead_s, self.asked.links]
        goals += [case.kind, self.read.size_bytes]
        simulated = [case.backend, case.endpoint] if self.read.compare else []
        whole = [FORMAT, _version.version(), _core.version(), fabric, goals, simulated]
        common = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        return [hashlib.sha256(f"{common} {each.gpus}".encode()).hexdigest() for each in found]


@dataclass(frozen=True, slots=True)
class Output:
    """Where the table is written, and how it is said what is wrong with that."""

    path: Path | None = None
    resume: bool = False
    spelling: Spelling = FLAGS


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of the allocations."""

    wanted: int
    """How many there are."""
    table: Table
    """Those of which something came."""
    document: Document
    """The document of `trees --sweep allocations --json`."""
    interrupted: bool


def run(wanted: Wanted, output: Output, threads: int | None, observed: Observed, *, quiet: bool = True) -> Finished:
    """Finds the rows, and writes the table if that is asked for. Unless this is `quiet`, progress is shown on standard
    error. On an interrupt, and when what may cancel it is called, it returns what is finished by then. Raises
    [`InputError`] with everything that is wrong.
    """
    found = _allocations(wanted, output)
    path = output.path
    journal = None if path is None else journals.Journal.open(journals.beside(path), resume=output.resume)
    with keeping(journal, "the same command with --resume", quiet=output.spelling is not FLAGS):
        keys = wanted.keys(found)
        entries, interrupted = _entries(
            wanted, dict(zip(keys, found, strict=True)), journal, threads, observed, quiet=quiet
        )
        rows = [_row(each, entries[key]) for key, each in zip(keys, found, strict=True) if key in entries]
        table = Table(rows, wanted.about(), len(found))
        document = _document(wanted, table)
        with interrupts.held_back():
            if path is not None:
                table.write(path, document)
    return Finished(len(found), table, document, interrupted)


def row_of(
    graph: Graph,
    gpus: tuple[int, ...],
    case: Case,
    goals: Goals,
    size: int,
    compare: bool,
    cancel: Cancellation | None = None,
) -> Entry:
    """What there is to say about an allocation, in whatever process; whatever comes of it is an entry of a journal."""
    began = time.monotonic()
    cancelling.check(cancel)
    try:
        measures = _measures(graph, gpus, case, goals, size, Observed(cancel=cancel) if compare else None)
    except InputError as error:
        message = "; ".join(problem.message for problem in error.problems)
        return Entry("refused", message, wall_time_s=_since(began))
    except SimulationFailedError as error:
        return Entry("failed", str(error), wall_time_s=_since(began))
    return Entry("done", None, measures, _since(began))


def _measures(
    graph: Graph, gpus: tuple[int, ...], case: Case, goals: Goals, size: int, compared: Observed | None
) -> dict[str, Any]:
    """The columns of an allocation; those of simulations with who hears of these, if there are any."""
    case = replace(case, gpus=allocation.canonical(gpus), ranks=len(gpus))
    asked = question.asked(graph, gpus, goals.links)
    wish = goals.wish(size, case if compared is not None else None, graph, asked)
    packed = choice.best(asked, case.kind, case.root, wish).packing  # type: ignore[arg-type]  # checked before
    stages = packed.stages or (packed,)
    depths = [tree.depth(stage.arcs) for stage in stages for tree in stage.trees]
    cluster = case.cluster
    ring = None if cluster is None else theory.ring_rate(cluster, gpus, case.kind)
    measures: dict[str, Any] = {
        "root": None if case.root is None else gpus[case.root],
        "components": len(packed.components),
        "link_unit_bytes_per_s": asked.link_unit,
        "trees_rate_links": float(packed.rate / asked.link_unit),
        "bound_rate_links": None if packed.bound is None else float(packed.best_rate / asked.link_unit),
        "trees": len(depths),
        "depth": max(depths, default=None),
        "rings_rate_links": None if ring is None else float(ring[0] / asked.link_unit),
        "rings_over_pcie": None if ring is None else not ring[1],
        "theoretical_speedup": None if ring is None or not depths else float(packed.rate / ring[0]),
    }
    if compared is None:
        return measures
    entries = tree_comparison.of(case, goals, graph, asked, packed, size, compared)
    times: dict[str, float | None] = {}
    for entry in entries:
        if entry["algorithm"] is not None:
            name = NAMES[entry["algorithm"]]
            times[name] = entry["time_s"]
            for key in ("time_s", "algorithm_bandwidth_bytes_per_s", "reason"):
                measures[f"{name}_{key}"] = entry[key]
            measures[f"{name}_over"] = None if entry["over"] is None else ", ".join(entry["over"])
    trees_s, rings_s = times["trees"], times["rings"]
    measures["speedup"] = None if not trees_s or not rings_s else rings_s / trees_s
    return measures


def _allocations(wanted: Wanted, output: Output) -> list[Allocation]:
    """What there is to look at. Raises [`InputError`] with all that is wrong."""
    gpus = len(wanted.asked.gpus)
    problems: list[Problem] = []
    sizes: tuple[int, ...] = tuple(range(LEAST_GPUS, gpus + 1))
    accepted = f"numbers of GPUs from {LEAST_GPUS} to {gpus}, such as {LEAST_GPUS}-{gpus}"
    if gpus < LEAST_GPUS:
        message = "a sweep needs GPUs to choose from"
        problems += command_line("--gpus", wanted.read.case.gpus, message, f"{LEAST_GPUS} GPUs or more").problems
    elif wanted.sizes is not None:
        try:
            sizes = allocation.parse(wanted.sizes, 2**20)
        except AllocationError as error:
            # The list is one of numbers of GPUs, and not of GPUs.
            beyond = error.message.startswith("there is no GPU")
            message = "this is beyond any machine" if beyond else error.message.replace("GPU", "size")
            problems += command_line("--sizes", wanted.sizes, message, accepted).problems
        if any(not LEAST_GPUS <= size <= gpus for size in sizes):
            message = f"there are {gpus} GPUs to choose from"
            problems += command_line("--sizes", wanted.sizes, message, accepted).problems
    problems += output_problems(
        output.path, output.spelling, resume=output.resume, is_ours=sweep_table.is_ours, what=WHAT
    )
    if problems:
        raise InputError(problems)
    try:
        return allocations.of(wanted.asked, sizes, every=wanted.every)
    except TooManyError as error:
        fewer = "fewer GPUs by --sizes or --gpus" + (", or no --every" if wanted.every else "")
        raise command_line("--sweep", "allocations", error.message, fewer) from None


def _entries(
    wanted: Wanted,
    found: Mapping[str, Allocation],
    journal: Journal | None,
    threads: int | None,
    observed: Observed,
    *,
    quiet: bool,
) -> tuple[dict[str, Entry], bool]:
    """What came of the allocations, by their keys, and whether it was interrupted or cancelled."""
    if journal is not None and journal.remark is not None and observed.warn is not None:
        observed.warn(journal.remark)
    entries = {} if journal is None else dict(journal.entries)
    pending = {key: each for key, each in found.items() if key not in entries}
    read, cancel = wanted.read, observed.cancel
    tasks = [
        (key, (read.graph, each.gpus, read.case, read.goals, read.size_bytes, read.compare, cancel))
        for key, each in pending.items()
    ]
    if threads is None and not read.compare and len(wanted.asked.gpus) <= FEW_GPUS:
        threads = 1
    already = len(found) - len(pending)
    names = {key: allocation.canonical(each.gpus) for key, each in pending.items()}
    weights = dict.fromkeys(pending, 1)
    try:
        with SweepProgress(
            weights, already, quiet=quiet, what="allocations", watch=observed.watch, names=names
        ) as seen:
            keep(pool.carry_out(row_of, tasks, threads, cancel=cancel), names, entries, journal, seen)
    except (KeyboardInterrupt, CancelledError):
        return entries, True
    return entries, False


def _row(found: Allocation, entry: Entry) -> Row:
    return {
        "gpus": allocation.canonical(found.gpus),
        "gpu_count": len(found.gpus),
        "allocations": found.alike,
        "status": entry.status,
        "error": entry.error,
        **entry.measures,
    }


def _document(wanted: Wanted, table: Table) -> dict[str, Any]:
    about = dict(table.about)
    fidelity = {"backend": about.pop("backend"), "endpoint": about.pop("endpoint")}
    return {
        **_version.versions(),
        "status": table.status,
        "seed": None,
        "fidelity": fidelity,
        **about,
        "allocations": sum(row["allocations"] for row in table.rows),
        "rows": [dict(row) for row in table.rows],
        "failed": [{key: row[key] for key in ("gpus", "status", "error")} for row in table.failed],
        "assumptions": list(wanted.read.graph.assumptions),
        "warnings": [
            *wanted.read.graph.warnings,
            *(tree_comparison.warnings([], fidelity["backend"]) if table.compared else []),
        ],
        "cost": results.cost(wanted.read.began, []),
    }


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    """An allocation of which nothing came."""

    gpus: str
    """The GPUs, such as `0,2-3`."""
    status: str
    """`failed` or `refused`."""
    error: str


class TreesSweep(Documented):
    """What packed trees reach on the allocations of a machine: a row for each, those whose links are alike as one."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.document)
        self.table: ArrowTable = ArrowTable("allocations", finished.table.as_arrow())
        """The table that `syncline trees --sweep allocations --out` writes: rates in links, times in seconds."""
        self._found = finished.table

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<TreesSweep of {self.collective} on {self.machine}: {len(self.table):,} rows{failed}>"

    def __len__(self) -> int:
        return len(self.table)

    def _repr_html_(self) -> str:
        caption = f"{self.collective} on allocations of {self.machine}"
        text = display.rows(caption, self.document["rows"], NAMED, SHOWN, "the table has all of them.")
        failed = (f"{each.gpus}: {each.status}: {each.error}" for each in self.failed)
        return text + display.paragraphs([*failed, *self.warnings])

    @property
    def machine(self) -> str:
        """The machine, or the file."""
        return str(self.document["machine"])

    @property
    def collective(self) -> str:
        """The collective."""
        return str(self.document["collective"])

    @property
    def allocations(self) -> int:
        """All allocations that the rows stand for."""
        return int(self.document["allocations"])

    @property
    def failed(self) -> tuple[FailedAllocation, ...]:
        """The allocations of which nothing came."""
        return tuple(FailedAllocation(**each) for each in self.document["failed"])

    @property
    def svg(self) -> str:
        """How speed-ups are distributed, and a bar for each row, as the command draws it with `--svg`."""
        return sweep_figure.svg(self._found).decode()

    def save(self, path: AnyPath) -> Path:
        """Writes the table (.parquet, .csv), or the document (.json), in place of another such file. Returns its path.
        Raises [`InputError`] where that is not possible.
        """
        found = Path(files.path_of(path, "path", "a file", "the path of a file"))
        problems = output_problems(
            found, SAVED, resume=False, is_ours=sweep_table.is_ours, what=WHAT, has_journal=False
        )
        if problems:
            raise InputError(problems)
        try:
            self._found.write(found, self.document)
        except OSError as error:
            if error.errno in FULL:
                raise
            message = f"this cannot be written: {error.strerror or error}"
            raise InputError([SAVED.problem("out", str(found), message)]) from None
        return found


@arguments.plain_arguments
def trees_sweep(
    machine: str | None = None,
    *,
    topology_file: AnyPath | None = None,
    gpus: str | Sequence[int] | None = None,
    sizes: str | int | Sequence[int] | None = None,
    every: bool = False,
    collective: str = "broadcast",
    objective: str = "time",
    size: str | int = "100MB",
    overhead: str | None = None,
    links: str = "auto",
    threshold: str | None = None,
    compare: bool = False,
    backend: str | None = None,
    endpoint: str | None = None,
    out: AnyPath | None = None,
    resume: bool = False,
    threads: int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> TreesSweep:
    """Finds the best rate and trees for every allocation of a machine's GPUs, and what rings have there.

    `sizes` are the numbers of GPUs (`"3-8"`, or a list), by default 2 and more of `gpus`. Allocations whose links are
    alike are one row, or with `every` one each. The other arguments are those of [`trees`]: with `compare`, all
    schedules of each row are simulated, which takes `threads` processes, one per processor if not given. Where data has
    a root, it is the first GPU of an allocation. `out` is a file for the table (.parquet, .csv or .json), beside which
    a journal keeps what is finished: with `resume`, the sweep goes on there.

    An allocation of which nothing comes is a row with its error. Raises [`InputError`] with everything that is wrong,
    [`CancelledError`] when `cancel` is called.
    """
    token, problems = arguments.cancellation(cancel)
    problems += arguments.common_problems(ARGUMENTS, threads=threads)
    problems += arguments.not_flags(every=every, resume=resume)
    listed = arguments.listed(problems, "sizes", sizes, COUNTS)
    if links == HYBRID:
        message = "a sweep is one of trees over one kind of links, or over all of them as one"
        problems.append(ARGUMENTS.problem("links", links, message, "nvlink, pcie, all, auto"))
    path = files.place_of(problems, out, "out")
    asked = tree_questions.of_program(
        problems,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        collective=collective,
        objective=objective,
        size=size,
        overhead=overhead,
        links=links,
        threshold=threshold,
        compare=compare,
        backend=backend,
        endpoint=endpoint,
        sweep=True,
    )
    output = Output(path, resume, ARGUMENTS)
    observed = Observed(watch_of(progress), warn_of(progress), token)
    cancelling.check(token)
    with arguments.spelled(SIZES):
        wanted = Wanted.of(tree_questions.read(asked), listed, every=every)
        finished = run(wanted, output, threads, observed)
    if finished.interrupted:
        said = f"{len(finished.table.rows)} of {finished.wanted} allocations are finished"
        raise CancelledError(f"the sweep was cancelled; {said}") if token and token.cancelled else KeyboardInterrupt
    return TreesSweep(finished)
