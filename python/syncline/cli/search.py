"""`syncline search`: the fastest division of a training that fits into memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.api import files
from syncline.api.arguments import FLAGS
from syncline.cli import complete, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.schema.merge import Override
    from syncline.searches.file import Search
    from syncline.searches.run import Found

Row = dict[str, Any]


def search(
    file: Annotated[
        str,
        typer.Argument(
            metavar="SEARCH",
            help="A search file: an experiment with the section search.",
            autocompletion=complete.searches,
        ),
    ],
    set_: options.Set = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a table (.parquet, .csv or .json), a page and a journal beside it."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the journal beside the output.")] = False,
    top: Annotated[int, typer.Option(metavar="N", help="How many candidates are printed.")] = 20,
    threads: options.Threads = None,
    ray: options.Ray = None,
    json: options.AsJson = False,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Find the fastest division of a model among NPUs that fits into their memory.

    \b
      syncline search gpt.yaml --out gpt.parquet
      syncline search gpt.yaml --out gpt.parquet --resume        after an interruption
      syncline search gpt.yaml --set search.simulate=all --top 5

    \b
    A search file is an experiment whose model has workload.global_batch, and what varies:
      search:
        tensor: [1, 2, 4, 8]          # or auto: all that divide
        pipeline: auto
        recompute: [none, full]
        simulate: 20                  # or all: until no other candidate can be better

    All candidates get a lower bound and an estimate. The best by estimate are simulated; one whose bound is no better
    than the best simulated time is not.
    """
    from syncline.errors import command_line
    from syncline.searches import run, space, table
    from syncline.sweeps import run as sweeps
    from syncline.sweeps.journal import Journal, beside

    problems = options.common_problems(threads=threads, ray=ray)
    if top < 0:
        problems += command_line("--top", top, "this is out of range", "0 or more").problems
    problems += files.output_problems(
        out,
        FLAGS,
        resume=resume,
        is_ours=table.is_search,
        what="the table of a search",
        formats=table.FORMATS,
    )
    began = time.monotonic()
    described = options.load(problems, set_, lambda overrides: _read(file, overrides))
    found = run.predicted(described, space.candidates(described))
    ready = time.monotonic()
    if not quiet:
        fitting = sum(finding.candidate.fits for finding in found.findings)
        said = f"{len(found.findings)} candidates, of which {fitting} fit into memory"
        print(f"{said}; bounded and estimated in {ready - began:.1f} s", file=sys.stderr, flush=True)
    journal = None if out is None else Journal.open(beside(out), resume=resume)
    with sweeps.keeping(journal, "the same command with --resume"):
        run.simulate(found, journal, threads, quiet=quiet, address=ray)
        rows = table.rows(found)
        document = _document(found, rows)
        if out is not None:
            table.write(out, rows, document, table.about(found))
            _page(out, rows, table.about(found))
    document["cost"] = {
        "wall_time_s": round(time.monotonic() - began, 6),
        "prediction_s": round(ready - began, 6),
        "rows": [{name: row[name] for name in table.COST} for row in rows if row["rank"] is not None],
    }
    _print(found, document, rows[:top], out, json=json, quiet=quiet)
    if found.interrupted:
        return 130
    return 0 if found.best is not None else 1


def _read(file: str, overrides: Sequence[Override]) -> Search:
    from syncline import inputs
    from syncline.searches.file import load_file

    return load_file(inputs.given(file), file, overrides)


def _page(out: Path, rows: Sequence[Row], about: Row) -> None:
    from syncline import rundir
    from syncline.report import search as page

    rundir.write(out.with_suffix(".html"), page.build(rows, about))


def _document(found: Found, rows: Sequence[Row]) -> dict[str, Any]:
    """The search as one JSON document."""
    from syncline import assumptions
    from syncline.results import versions
    from syncline.searches import table

    said = table.about(found)
    statuses = [finding.status for finding in found.findings]
    return {
        **versions(),
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


def _print(
    found: Found, document: dict[str, Any], rows: Sequence[Row], out: Path | None, *, json: bool, quiet: bool
) -> None:
    from syncline.results import dumps

    if json:
        print(dumps(document))
    else:
        _table(document, rows)
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if found.interrupted:
        print(f"interrupted; {document['simulated']} simulations are finished", file=sys.stderr)
    elif document["best"] is None:
        print("no candidate was simulated to its end", file=sys.stderr)
    elif document["open"]:
        print(f"the bounds leave open whether one of {document['open']} others is better", file=sys.stderr)
    else:
        print("the bounds prove that no other candidate is better", file=sys.stderr)
    if out is not None:
        print(f"table: {out}\npage: {out.with_suffix('.html')}", file=sys.stderr)


def _table(document: dict[str, Any], rows: Sequence[Row]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from syncline.cli import layout
    from syncline.report.units import byte_scale, time_scale

    counts = f"{document['candidates']} candidates, {document['fitting']} fit, {document['simulated']} simulated"
    shown = Table(title=f"{document['name']}: {counts}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    axes = [name for name in document["axes"] if len({row[name] for row in document["rows"]}) > 1]
    axes += ["data"] if "data" not in axes else []
    times = time_scale(row["estimate_s"] for row in rows)
    sizes = byte_scale(row["memory_bytes"] for row in rows)
    for name in axes:
        shown.add_column(
            name.replace("_", " "), justify="left" if isinstance(document["rows"][0][name], str) else "right"
        )
    for heading, unit in (("bound", times.unit), ("estimate", times.unit), ("simulated", times.unit)):
        shown.add_column(f"{heading} [{unit}]", justify="right")
    shown.add_column(f"memory [{sizes.unit}]", justify="right")
    shown.add_column("status")
    for row in rows:
        cells = [str(row[name]) for name in axes]
        cells += [times.text(row[name]) for name in ("bound_s", "estimate_s", "iteration_time_s")]
        shown.add_row(*cells, sizes.text(row["memory_bytes"]), row["status"])
    layout.show(shown, labels=len(axes))
