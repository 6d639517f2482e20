"""`syncline sweep`: an experiment for all combinations of values."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import complete, options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.errors import Problem
    from syncline.results import Document
    from syncline.schema.merge import Override
    from syncline.sweeps.file import Sweep
    from syncline.sweeps.journal import Journal
    from syncline.sweeps.points import Simulation
    from syncline.sweeps.table import Table

Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a table (.parquet, .csv or .json), and a journal beside it.")
]
FORMATS = (".parquet", ".csv", ".json")
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the journal of an earlier sweep with this output.")
]


def sweep(
    file: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP", help="A sweep file, or the name of a packaged sweep.", autocompletion=complete.sweeps
        ),
    ],
    set_: options.Set = None,
    out: Out = None,
    resume: Resume = False,
    threads: options.Threads = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    fold: options.Fold = None,
    padding: options.Padding = None,
    chunk: options.Chunk = None,
    inflight: options.Inflight = None,
    endpoint: options.Endpoint = None,
    algorithm: options.Algorithm = None,
    backend: options.Backend = None,
    ray: options.Ray = None,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Run an experiment for every combination of values of some of its fields.

    \b
      syncline sweep ace/design-space --out design-space.parquet
      syncline sweep ace/design-space --out design-space.parquet --resume     after an interruption
      syncline sweep my.sweep.yaml --set training.iterations=1 --threads 4

    \b
    A sweep is a YAML file:
      name: sram
      base: ace/resnet50                      # or a file, or a list of them
      variants: [ACE]
      axes:                                   # every combination of these values
        endpoint.sram: [1MiB, 2MiB, 4MiB]
        endpoint.fsms: [8, 16]
      zip:                                    # fields that vary together
        - {topology.dims.1.size: [2, 8], topology.dims.2.size: [2, 4]}

    All points are validated before the first simulation. A simulation that fails, or that the engine refuses, is a row
    with its error; the others go on, and the exit status is 1. Rows are in the order of the points.
    """
    problems = options.common_problems(threads=threads, seed=seed, ray=ray)
    forced = options.forced(
        chunk=chunk,
        inflight=inflight,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fold=fold,
        padding=padding,
    )
    check_output(out, problems, resume=resume, is_ours=_is_sweep, what="the table of a sweep")
    began = time.monotonic()
    described = options.load(problems, set_, lambda overrides: _read(file, [*overrides, *forced]))

    from syncline.sweeps import points, run, table
    from syncline.sweeps.progress import Checked

    simulations, warnings = points.simulations(described, Checked(described.points, quiet=quiet), seed)
    journal = _journal(out, resume=resume)
    with run.keeping(journal, "the same command with --resume"):
        entries, interrupted = run.simulate(simulations, journal, threads, quiet=quiet, address=ray)
        found = table.of(simulations, entries)
        status = found.status(len(simulations))
        document = _document(described, simulations, found, warnings, seed, status)
        document["cost"] = _cost(found, time.monotonic() - began)
        if out is not None and out.suffix == ".json":
            run.write_document(out, document)
        elif out is not None:
            run.write(out, found, described.name, status)
    _print(document, found, out, json=json, quiet=quiet)
    if interrupted:
        print(f"interrupted; {len(found.rows)} of {len(simulations)} simulations are finished", file=sys.stderr)
        return 130
    return 1 if document["failed"] else 0


def _read(file: str, overrides: Sequence[Override]) -> Sweep:
    from syncline import studies
    from syncline.sweeps.file import load

    path, label = studies.find_sweep(file)
    return load(path, label, overrides)


def _is_sweep(path: Path) -> bool:
    from syncline.sweeps import run

    return run.is_sweep(path)


def check_output(
    out: Path | None,
    problems: list[Problem],
    *,
    resume: bool,
    is_ours: Callable[[Path], bool],
    what: str,
    formats: Sequence[str] = FORMATS,
    has_journal: bool = True,
) -> None:
    """What is wrong with the output, before anything is read; `is_ours` says of a file whether it is `what` is written,
    which alone is replaced.
    """
    from syncline.errors import InputError, command_line, one_of
    from syncline.sweeps import journal

    if out is None:
        if resume:
            problems += command_line("--resume", None, "there is nothing to go on with", "--out FILE as well").problems
        return
    try:
        if out.suffix not in formats:
            message = (
                f"the suffix {out.suffix} is not that of a format"
                if out.suffix
                else "the file name has no suffix, which chooses the format"
            )
            problems += command_line("--out", str(out), message, one_of(f"FILE{suffix}" for suffix in formats)).problems
        elif out.is_dir():
            problems += command_line("--out", str(out), "this is a directory", "the name of a file").problems
        elif not out.parent.is_dir():
            problems += command_line("--out", str(out), "the directory of this file does not exist").problems
        elif not os.access(out.parent, os.W_OK | os.X_OK):
            problems += command_line("--out", str(out), "the directory of this file cannot be written to").problems
        elif out.exists() and not is_ours(out):
            message = f"this file exists and is not {what}"
            problems += command_line("--out", str(out), message, f"a new file, or {what}").problems
        elif has_journal:
            journal.check(journal.beside(out), resume=resume)
    except InputError as error:
        problems += error.problems
    except (OSError, ValueError) as error:
        problems += command_line("--out", str(out), f"this file cannot be used: {error}").problems


def _journal(out: Path | None, *, resume: bool) -> Journal | None:
    from syncline.sweeps import journal

    return None if out is None else journal.Journal.open(journal.beside(out), resume=resume)


def _document(
    described: Sweep,
    simulations: Sequence[Simulation],
    found: Table,
    warnings: Sequence[str],
    seed: int,
    status: str,
) -> Document:
    from syncline import comparison, results
    from syncline.sweeps.table import COST

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


def _cost(found: Table, wall_time_s: float) -> dict[str, Any]:
    """What the sweep took on this machine, and each simulation when it was run."""
    import resource

    from syncline import memory

    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "wall_time_s": round(wall_time_s, 6),
        "peak_rss_bytes": max(memory.peak(), workers),
        "events": sum(row["events"] or 0 for row in found.rows),
        "rows": [{"wall_time_s": row["wall_time_s"], "events": row["events"]} for row in found.rows],
    }


def _print(document: Document, found: Table, out: Path | None, *, json: bool, quiet: bool) -> None:
    if json:
        from syncline import results

        print(results.dumps(document))
    elif found.rows:
        from syncline.cli import tables

        tables.show(*tables.sweep(document, found))
    for failure in document["failed"]:
        text = f"point {failure['point']} ({failure['name']}, {failure['variant']}): {failure['status']}: "
        print(f"{text}{failure['error']}", file=sys.stderr)
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if out is not None:
        print(f"table: {out}", file=sys.stderr)
