"""`syncline calibrate`: fits the software model's constants to a measured table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.base import outputs
from syncline.commands.api import calibrations
from syncline.commands.cli import complete, layout, options, tables
from syncline.nccl.constants import shown
from syncline.results import entries as results

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from syncline.results.entries import Document


def calibrate(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A file with what nccl-tests printed, or a CSV of it.")
    ],
    machine: Annotated[
        str,
        typer.Option(
            metavar="M", help="The machine, such as dgx-a100 or dgx-h100(nodes=2).", autocompletion=complete.machines
        ),
    ],
    collective: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="The collective; by default the one that the table names, or all-reduce."),
    ] = None,
    column: Annotated[
        str, typer.Option(metavar="out-of-place|in-place", help="Which times of the table are used.")
    ] = "out-of-place",
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ring|tree|nvls",
            help="The algorithm that NCCL had to use (NCCL_ALGO); by default what the table says, or auto.",
        ),
    ] = None,
    software: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The constants from which the fit begins; by default those of the machine's class.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the constants into this file, which --software takes.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Accept a table of another GPU than the machine's.")] = False,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Fit the software model of a machine to a measured table, and print the residuals.

    \b
      syncline calibrate all_reduce.log --machine dgx-a100
      syncline calibrate all_reduce.log --machine "dgx-h100(nodes=2)" --out cluster.yaml
      syncline calibrate ring.csv --machine dgx-a100 --collective all-reduce --algorithm ring

    The fit begins at the constants of the machine's class, and changes those that the table determines. It is
    compared with a straight line (time = alpha + size / beta). One size in four is held out, four times: what
    predicts the held-out sizes best is used to describe the table, separately below 1 MiB and from there up. This
    may be the constants or the line, with or without a factor that depends on the size. A table with fewer than
    four sizes is described by the constants, which it hardly determines. A table of another GPU than the machine's
    is refused.
    """
    outputs.check(out, outputs.SOFTWARE)
    asked = calibrations.Asked(
        table=table,
        machine=machine,
        collective=collective,
        column=column,
        algorithm=algorithm,
        software=software,
        force=force,
        seed=seed,
    )
    document, constants = calibrations.run(asked)
    if out is not None:
        outputs.write(out, constants, outputs.SOFTWARE)
    _print(document, json=json, quiet=quiet, verbose=verbose)
    if out is not None and not quiet:
        print(f"constants: {out}", file=sys.stderr)
    return 0


def _print(document: Document, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        print(results.dumps(document))
    else:
        tables.show(_constants_table(document))
        tables.show(_residuals_table(document))
        tables.show(_summary(document))
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if verbose:
        for assumption in document["assumptions"]:
            print(f"assumed: {assumption}", file=sys.stderr)


def _new(title: str, *headings: str) -> RichTable:
    table = layout.table(title=title)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right")
    return table


def _constants_table(document: Document) -> RichTable:
    software = document["software"]
    title = f"{document['collective']} on {document['machine']}, {document['gpus']} GPUs"
    table = _new(title, "constant", software["start"], "fitted")
    for key, value in software["constants"].items():
        name = key.removesuffix("_s")
        table.add_row(name, shown(name, software["start_constants"][key]), shown(name, value))
    return table


def _residuals_table(document: Document) -> RichTable:
    table = _new("", "size (B)", "measured (us)", "fitted (us)", "error", "alpha-beta (us)", "error")
    for r in document["residuals"]:
        table.add_row(
            f"{r['size_bytes']:>12}",
            f"{r['measured_s'] * 1e6:.2f}",
            f"{r['fitted_s'] * 1e6:.2f}",
            f"{100 * r['error']:+.1f} %",
            f"{r['alpha_beta_s'] * 1e6:.2f}",
            f"{100 * r['alpha_beta_error']:+.1f} %",
        )
    return table


def _summary(document: Document) -> RichTable:
    table = _new("mean absolute error", "", "from 1 MiB", "below 1 MiB")
    names = {
        "fitted": "fitted",
        "alpha_beta": "alpha-beta",
        "held_out": "fitted, one size in four held out",
        "constants_held_out": "constants alone, held out",
        "alpha_beta_held_out": "alpha-beta, held out",
    }
    for key, name in names.items():
        errors = document["mean_absolute_error"][key]
        table.add_row(name, _percent(errors["from_1MiB"]), _percent(errors["below_1MiB"]))
    described = document["software"]["described_by"]
    table.add_row("described by", described["from_1MiB"], described["below_1MiB"])
    return table


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
