"""`syncline trees --sweep allocations`: rates and trees of every allocation of a machine, as a table and a figure."""

from __future__ import annotations

import hashlib
import json as json_
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline.cli import trees_compare, trees_options
from syncline.cli.trees_compare import Case, Goals
from syncline.errors import InputError, SimulationFailedError, command_line
from syncline.fabric import allocation, notation
from syncline.fabric.allocation import AllocationError
from syncline.sweeps.journal import Entry
from syncline.treegen import allocations, choice, question, sweep_table, theory
from syncline.treegen.sweep_table import NAMES, Row, Table

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.fabric.graph import Graph
    from syncline.sweeps.journal import Journal
    from syncline.treegen.allocations import Allocation
    from syncline.treegen.question import Question

FORMAT: Final = 1
"""Of rows in a journal: another number, and they are found anew."""
FEW_GPUS: Final = 16
"""Rates of so many GPUs take less time than a process needs to begin."""
SHOWN_ROWS: Final = 200
"""Rows on a terminal; the file and the document have all."""
LEAST_GPUS: Final = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of every allocation."""

    graph: Graph
    asked: Question
    """On all GPUs that may take part."""
    case: Case
    goals: Goals
    size_bytes: int
    compare: bool
    sizes: str | None
    every: bool

    def about(self) -> dict[str, Any]:
        """What the table is about."""
        return {
            "machine": self.graph.name,
            "collective": self.case.kind,
            "links": self.asked.links,
            "objective": self.goals.objective,
            "threshold": self.goals.threshold,
            "overhead_s": self.goals.overhead_s,
            "size_bytes": self.size_bytes,
            "every": self.every,
            "backend": self.case.backend if self.compare else None,
            "endpoint": self.case.endpoint if self.compare else None,
        }

    def keys(self, found: Sequence[Allocation]) -> list[str]:
        """Names for what decides each row: what else a journal has, says nothing about it."""
        from syncline import __version__, _core, binding

        binding.require()
        fabric = [self.graph.name, self.graph.specification(), [node.host for node in self.graph.nodes]]
        goals: list[Any] = [self.goals.objective, self.goals.threshold, self.goals.overhead_s, self.asked.links]
        goals += [self.case.kind, self.size_bytes]
        simulated = [self.case.backend, self.case.endpoint] if self.compare else []
        whole = [FORMAT, __version__, _core.version(), fabric, goals, simulated]
        common = hashlib.sha256(json_.dumps(whole, sort_keys=True).encode()).hexdigest()
        return [hashlib.sha256(f"{common} {each.gpus}".encode()).hexdigest() for each in found]


@dataclass(frozen=True, slots=True)
class Files:
    """What is written."""

    table: Path | None
    svg: Path | None
    html: Path | None
    resume: bool


def run(wanted: Wanted, files: Files, threads: int | None, began: float, *, json: bool) -> int:
    """Finds and prints the rows, and writes what is asked for. Raises [`InputError`]."""
    from syncline import interrupts
    from syncline.sweeps import journal as journals
    from syncline.sweeps.run import keeping

    found = _allocations(wanted, files)
    journal = None if files.table is None else journals.Journal.open(journals.beside(files.table), resume=files.resume)
    with keeping(journal, "the same command with --resume"):
        keys = wanted.keys(found)
        entries, interrupted = _entries(wanted, dict(zip(keys, found, strict=True)), journal, threads)
        rows = [_row(each, entries[key]) for key, each in zip(keys, found, strict=True) if key in entries]
        table = Table(rows, wanted.about(), len(found))
        document = _document(wanted, table, began)
        with interrupts.held_back():
            if files.table is not None:
                table.write(files.table, document)
    if table.rows:
        _draw(table, document, files)
    _print(table, document, files, json=json)
    if interrupted:
        print(f"interrupted; {len(rows)} of {len(found)} allocations are finished", file=sys.stderr)
        return 130
    return 1 if table.failed else 0


def row_of(graph: Graph, gpus: tuple[int, ...], case: Case, goals: Goals, size: int, compare: bool) -> Entry:
    """What there is to say about an allocation, in whatever process; whatever comes of it is an entry of a journal."""
    began = time.monotonic()
    try:
        measures = _measures(graph, gpus, case, goals, size, compare=compare)
    except InputError as error:
        message = "; ".join(problem.message for problem in error.problems)
        return Entry("refused", message, wall_time_s=_since(began))
    except SimulationFailedError as error:
        return Entry("failed", str(error), wall_time_s=_since(began))
    return Entry("done", None, measures, _since(began))


def _measures(
    graph: Graph, gpus: tuple[int, ...], case: Case, goals: Goals, size: int, *, compare: bool
) -> dict[str, Any]:
    case = replace(case, gpus=allocation.canonical(gpus), ranks=len(gpus))
    asked = question.asked(graph, gpus, goals.links)
    wish = goals.wish(size, case if compare else None, graph, asked)
    packed = choice.best(asked, case.kind, case.root, wish).packing  # type: ignore[arg-type]  # checked before
    stages = packed.stages or (packed,)
    depths = [tree.depth(stage.arcs) for stage in stages for tree in stage.trees]
    cluster = None if case.machine is None else notation.parse(case.machine)
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
    if not compare:
        return measures
    entries = trees_compare.of(case, goals, graph, asked, packed, size, cluster)
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


def _allocations(wanted: Wanted, files: Files) -> list[Allocation]:
    """What there is to look at. Raises [`InputError`] with all that is wrong."""
    from syncline.api.arguments import FLAGS
    from syncline.api.files import output_problems
    from syncline.treegen.allocations import TooManyError

    gpus = len(wanted.asked.gpus)
    problems: list[Problem] = []
    sizes: tuple[int, ...] = tuple(range(LEAST_GPUS, gpus + 1))
    accepted = f"numbers of GPUs from {LEAST_GPUS} to {gpus}, such as {LEAST_GPUS}-{gpus}"
    if gpus < LEAST_GPUS:
        message = "a sweep needs GPUs to choose from"
        problems += command_line("--gpus", wanted.case.gpus, message, f"{LEAST_GPUS} GPUs or more").problems
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
    what = "a table of allocations"
    problems += output_problems(files.table, FLAGS, resume=files.resume, is_ours=sweep_table.is_ours, what=what)
    if problems:
        raise InputError(problems)
    try:
        return allocations.of(wanted.asked, sizes, every=wanted.every)
    except TooManyError as error:
        fewer = "fewer GPUs by --sizes or --gpus" + (", or no --every" if wanted.every else "")
        raise command_line("--sweep", "allocations", error.message, fewer) from None


def _entries(
    wanted: Wanted, found: Mapping[str, Allocation], journal: Journal | None, threads: int | None
) -> tuple[dict[str, Entry], bool]:
    """What came of the allocations, by their keys, and whether it was interrupted."""
    from syncline import interrupts
    from syncline.sweeps import pool
    from syncline.sweeps.progress import SweepProgress
    from syncline.sweeps.work import WorkerDiedError

    if journal is not None and journal.remark is not None:
        print(f"warning: {journal.remark}", file=sys.stderr)
    entries = {} if journal is None else dict(journal.entries)
    pending = {key: each for key, each in found.items() if key not in entries}
    tasks = [
        (key, (wanted.graph, each.gpus, wanted.case, wanted.goals, wanted.size_bytes, wanted.compare))
        for key, each in pending.items()
    ]
    if threads is None and not wanted.compare and len(wanted.asked.gpus) <= FEW_GPUS:
        threads = 1
    try:
        with (
            SweepProgress(
                dict.fromkeys(pending, 1), len(found) - len(pending), quiet=False, what="allocations"
            ) as seen,
            closing(pool.carry_out(row_of, tasks, threads)) as outcomes,
        ):
            for key, outcome in outcomes:
                with interrupts.held_back():  # the table has what the journal has
                    if isinstance(outcome, WorkerDiedError):
                        entries[key] = Entry("failed", str(outcome))  # not kept: another time it may succeed
                    else:
                        if journal is not None:
                            journal.add(key, allocation.canonical(pending[key].gpus), outcome)
                        entries[key] = outcome
                seen.finished(key, failed=entries[key].status != "done")
    except KeyboardInterrupt:
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


def _document(wanted: Wanted, table: Table, began: float) -> dict[str, Any]:
    from syncline import results

    about = dict(table.about)
    fidelity = {"backend": about.pop("backend"), "endpoint": about.pop("endpoint")}
    return {
        **results.versions(),
        "status": table.status,
        "seed": None,
        "fidelity": fidelity,
        **about,
        "allocations": sum(row["allocations"] for row in table.rows),
        "rows": [dict(row) for row in table.rows],
        "failed": [{key: row[key] for key in ("gpus", "status", "error")} for row in table.failed],
        "assumptions": list(wanted.graph.assumptions),
        "warnings": [
            *wanted.graph.warnings,
            *(trees_compare.warnings([], fidelity["backend"]) if table.compared else []),
        ],
        "cost": results.cost(time.monotonic() - began, []),
    }


def _draw(table: Table, document: dict[str, Any], files: Files) -> None:
    from syncline import rundir
    from syncline.treegen import sweep_figure, sweep_page

    if files.svg is None and files.html is None:
        return
    drawn = sweep_figure.svg(table)
    for flag, path in (("--svg", files.svg), ("--html", files.html)):
        if path is None:
            continue
        content = drawn if flag == "--svg" else sweep_page.build(table, document, drawn, trees_options.typed())
        try:
            rundir.write(path, content)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise command_line(flag, str(path), f"this cannot be written: {reason}") from None


def _print(table: Table, document: dict[str, Any], files: Files, *, json: bool) -> None:
    if json:
        from syncline import results

        print(results.dumps(document))
    elif table.rows:
        _show(table)
    for failure in document["failed"]:
        print(f"GPUs {failure['gpus']}: {failure['status']}: {failure['error']}", file=sys.stderr)
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for what, path in (("table", files.table), ("figure", files.svg), ("page", files.html)):
        if path is not None and (table.rows or what == "table"):
            print(f"{what}: {path}", file=sys.stderr)


def _show(table: Table) -> None:
    """The rows, and how speed-ups are distributed."""
    from syncline.cli import tables

    tables.show(_rows(table), 1)
    for column, what in (("theoretical_speedup", "in theory"), ("speedup", "simulated")):
        for spread in sweep_table.spreads(table.rows, column):
            counted = f"{spread.allocations:,} allocation{'' if spread.allocations == 1 else 's'}"
            print(
                f"{spread.gpu_count} GPUs, trees over rings {what}: {spread.least:.2f}x to {spread.most:.2f}x, "
                f"median {spread.median:.2f}x ({counted})"
            )


def _rows(table: Table) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Printed

    from syncline import text_units

    about = table.about
    title = f"{about['collective']} of {text_units.size(about['size_bytes'])} on allocations of {about['machine']}"
    printed = Printed(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    printed.add_column("GPUs")
    compared = ["trees, algbw", "rings, algbw", "speed-up"] if table.compared else []
    for heading in ("alike", "trees", "bound", "number", "depth", "rings", "in theory", *compared):
        printed.add_column(heading, justify="right")

    def links(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    def times(value: float | None) -> str:
        return "-" if value is None else text_units.times(value)

    for row in table.rows[:SHOWN_ROWS]:
        if row["status"] != "done":
            printed.add_row(row["gpus"], f"{row['allocations']:,}", row["status"])
            continue
        rings = links(row["rings_rate_links"])
        cells = [
            row["gpus"],
            f"{row['allocations']:,}",
            links(row["trees_rate_links"]),
            links(row["bound_rate_links"]),
            str(row["trees"]),
            "-" if row["depth"] is None else str(row["depth"]),
            f"{rings} (PCIe)" if row["rings_over_pcie"] else rings,
            times(row["theoretical_speedup"]),
        ]
        if table.compared:
            cells += [
                text_units.bandwidth(row[f"{name}_algorithm_bandwidth_bytes_per_s"]) for name in ("trees", "rings")
            ]
            cells.append(times(row["speedup"]))
        printed.add_row(*cells)
    if len(table.rows) > SHOWN_ROWS:
        printed.add_row(f"and {len(table.rows) - SHOWN_ROWS} more")
    return printed


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)
