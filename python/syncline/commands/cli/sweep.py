"""`syncline sweep`: an experiment for all combinations of values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.commands.api import sweeping
from syncline.commands.cli import complete, options, tables
from syncline.experiment import packaged as studies
from syncline.results import entries as results
from syncline.studies.sweeps import remote
from syncline.studies.sweeps.file import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.experiment.merge import Override
    from syncline.results.entries import Document
    from syncline.studies.sweeps.file import Sweep
    from syncline.studies.sweeps.table import Table

Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a table (.parquet, .csv or .json), and a journal beside it.")
]
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
    problems = options.common_problems(threads=threads, seed=seed)
    if ray is not None and (missing := remote.missing(ray)) is not None:
        problems += missing.problems
    forced = options.forced(
        chunk=chunk,
        inflight=inflight,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fold=fold,
        padding=padding,
    )
    settings = options.settings(set_, forced, problems, seed=seed, threads=threads)

    finished = sweeping.run(
        lambda overrides: _read(file, overrides),
        settings,
        sweeping.Output(out, resume),
        quiet=quiet,
        address=ray,
    )
    document, found = finished.document, finished.table
    _print(document, found, out, json=json, quiet=quiet)
    if finished.interrupted:
        print(f"interrupted; {len(found.rows)} of {finished.simulations} simulations are finished", file=sys.stderr)
        return 130
    return 1 if document["failed"] else 0


def _read(file: str, overrides: Sequence[Override]) -> Sweep:
    path, label = studies.find_sweep(file)
    return load(path, label, overrides)


def _print(document: Document, found: Table, out: Path | None, *, json: bool, quiet: bool) -> None:
    if json:
        print(results.dumps(document))
    elif found.rows:
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
