"""`syncline search`: the fastest division of a training that fits into memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.base import inputs
from syncline.base.errors import command_line
from syncline.commands.api import searching
from syncline.commands.cli import complete, layout, options
from syncline.results.entries import dumps
from syncline.results.units import byte_scale, time_scale
from syncline.strategies.training import in_gb
from syncline.studies.searches.file import load_file
from syncline.studies.searches.table import DIVISION
from syncline.studies.sweeps import remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.experiment.merge import Override
    from syncline.studies.searches.file import Search
    from syncline.studies.searches.run import Found

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
    problems = options.common_problems(threads=threads)
    if ray is not None and (missing := remote.missing(ray)) is not None:
        problems += missing.problems
    if top < 0:
        problems += command_line("--top", top, "this is out of range", "0 or more").problems
    settings = options.settings(set_, (), problems, seed=0, threads=threads)

    def ready(said: str) -> None:
        if not quiet:
            print(said, file=sys.stderr, flush=True)

    finished = searching.run(
        lambda overrides: _read(file, overrides),
        settings,
        searching.Output(out, resume),
        quiet=quiet,
        address=ray,
        ready=ready,
    )
    _print(finished.found, finished.document, finished.rows[:top], out, json=json, quiet=quiet)
    if finished.document["fitting"] == 0:
        print(_least(finished.document), file=sys.stderr)
    if finished.found.interrupted:
        return 130
    return 0 if finished.found.best is not None else 1


def _read(file: str, overrides: Sequence[Override]) -> Search:
    return load_file(inputs.given(file), file, overrides)


def _print(
    found: Found, document: dict[str, Any], rows: Sequence[Row], out: Path | None, *, json: bool, quiet: bool
) -> None:
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
    elif document["best"] is None and document["fitting"]:
        print("no candidate was simulated to its end", file=sys.stderr)
    elif document["open"]:
        print(f"the bounds leave open whether one of {document['open']} others is better", file=sys.stderr)
    elif document["fitting"]:
        print("the bounds prove that no other candidate is better", file=sys.stderr)
    if out is not None:
        print(f"table: {out}\npage: {out.with_suffix('.html')}", file=sys.stderr)


def _least(document: dict[str, Any]) -> str:
    """Where no candidate fits, what would have to."""
    least = min(document["rows"], key=lambda row: int(row["memory_bytes"]))
    division = ", ".join(f"{name} {least[name]}" for name in ("topology", *DIVISION) if name in document["axes"])
    needed = f"the least that one needs is {in_gb(least['memory_bytes'])}"
    return f"no candidate fits into memory; {needed}{f', with {division}' if division else ''}"


def _table(document: dict[str, Any], rows: Sequence[Row]) -> None:
    counts = f"{document['candidates']} candidates, {document['fitting']} fit, {document['simulated']} simulated"
    shown = layout.table(title=f"{document['name']}: {counts}")
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
