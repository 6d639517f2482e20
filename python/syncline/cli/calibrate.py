"""`syncline calibrate`: fits the software model's constants to a measured table."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.cli import complete, options
from syncline.errors import InputError, command_line, did_you_mean, one_of

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from syncline.results import Document
    from syncline.software.calibration import Errors, Residual, Run
    from syncline.software.constants import Constants, Software
    from syncline.software.selection import Selected

COLUMNS = ("out-of-place", "in-place")
FAR_OFF = 0.5
"""A point that the fit misses by more is reported."""
FEW = 0.2
"""The part of all points that may be called outliers; where more are missed, it is the fit that is wrong."""


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
    ] = COLUMNS[0],
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

    The fit begins at the constants of the machine's class, and changes those that the table determines. It is
    compared with a straight line (time = alpha + size / beta). One size in four is held out, four times: what
    predicts the held-out sizes best is used to describe the table, separately below 1 MiB and from there up. This
    may be the constants or the line, with or without a factor that depends on the size. A table of another GPU
    than the machine's is refused.
    """
    from syncline.software import calibration, constants, measurements, selection
    from syncline.software.platform import platform
    from syncline.software.wire import KINDS

    problems = options.common_problems(seed=seed)
    kind = None if collective is None else measurements.kind_of(collective)
    if collective is not None and kind is None:
        message = f"this collective is not known{did_you_mean(collective, KINDS)}"
        problems += command_line("--collective", collective, message, measurements.accepted_kinds()).problems
    if column not in COLUMNS:
        message = f"this is not known{did_you_mean(column, COLUMNS)}"
        problems += command_line("--column", column, message, one_of(COLUMNS)).problems
    began = time.monotonic()
    found = options.collected(problems, lambda: platform(machine))
    measured = options.collected(problems, lambda: measurements.read_table(table))
    start = None
    if found is not None:
        start = options.collected(problems, lambda: constants.load(found.software if software is None else software))
    if problems or found is None or measured is None or start is None:
        raise InputError(problems)

    run = calibration.run_of(measured, found, kind, column, force=force)
    selected = selection.select(run, start.constants)
    result = constants.Software(
        f"{found.cluster.machine.name}-calibrated",
        f"{run.kind} of {run.platform}, fitted from {start.name}",
        (run.platform.machine,),
        selected.constants,
        (constants.Fitted(measured.name, measured.about.get("url", measured.about.get("source", ""))),),
        start.launch_spread,
        selected.measured,
    )
    document = _document(run, start, selected, seed, explicit=kind is not None or measured.kind is not None)
    if force:
        document["assumptions"].append(f"the GPUs of the table ({measured.about.get('gpu', 'not named')}) are as good")
    document["cost"] = _cost(time.monotonic() - began)
    if out is not None:
        _write(out, constants.render(result))
    _print(document, json=json, quiet=quiet, verbose=verbose)
    if out is not None and not quiet:
        print(f"constants: {out}", file=sys.stderr)
    return 0


def _document(run: Run, start: Software, selected: Selected, seed: int, *, explicit: bool) -> Document:
    from syncline import results
    from syncline.software import calibration

    residuals, plain = selected.residuals(run), selected.line
    plain_residuals = calibration.alpha_beta_residuals(run, plain)
    document = results.document([], seed=seed, status="complete", warnings=_warnings(run, residuals))
    document["assumptions"] = start.assumptions()
    if not explicit:
        document["assumptions"].append(f"collective = {run.kind}: the table does not say")
    document["fidelity"] = {"backend": "software model", "folded": False, "transfer": "closed form"}
    document["table"] = run.name
    document["machine"] = run.platform.machine
    document["collective"] = run.kind
    document["algorithm"] = run.algorithm
    document["gpus"] = run.platform.gpus
    document["nodes"] = run.platform.nodes
    document["software"] = {
        "start": start.name,
        "constants": _constants(selected.constants),
        "start_constants": _constants(start.constants),
        "described_by": {"below_1MiB": selected.below, "from_1MiB": selected.above},
    }
    document["alpha_beta"] = {"alpha_s": plain.alpha, "beta_bytes_per_s": _finite(plain.beta)}
    document["residuals"] = [
        {
            "size_bytes": r.size,
            "measured_s": r.measured,
            "fitted_s": r.predicted,
            "error": r.error,
            "alpha_beta_s": p.predicted,
            "alpha_beta_error": p.error,
        }
        for r, p in zip(residuals, plain_residuals, strict=True)
    ]
    document["mean_absolute_error"] = {
        "fitted": _errors(calibration.errors_of(residuals)),
        "alpha_beta": _errors(calibration.errors_of(plain_residuals)),
        "held_out": _errors(selected.held_out["chosen"]),
        "constants_held_out": _errors(selected.held_out["constants"]),
        "alpha_beta_held_out": _errors(selected.held_out["line"]),
    }
    return document


def _warnings(run: Run, residuals: Sequence[Residual]) -> list[str]:
    from syncline.software.calibration import SMALL

    found = []
    if run.times[0][0] >= SMALL:
        found.append("the table has no size below 64 KiB: launch and latency are those of the class")
    missed = [r for r in residuals if not 1 / (1 + FAR_OFF) < r.measured / r.predicted < 1 + FAR_OFF]
    if len(missed) > FEW * len(residuals):
        sizes = f"{len(missed)} of {len(residuals)} sizes"
        found.append(f"the fit misses {sizes} by more than {100 * FAR_OFF:.0f} %: the table is described badly")
        return found
    for r in missed:
        times = f"{r.measured * 1e6:.1f} us, where the rest suggests {r.predicted * 1e6:.1f} us"
        found.append(f"an outlier hardly counts: {r.size} bytes took {times}")
    return found


def _constants(constants: Constants) -> dict[str, float]:
    """With units in the names."""
    from syncline.software.constants import TIMES

    return {f"{name}_s" if name in TIMES else name: value for name, value in constants.as_mapping().items()}


def _errors(errors: Errors) -> dict[str, float | None]:
    return {"from_1MiB": errors.large, "below_1MiB": errors.small}


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def _cost(wall_time_s: float) -> Document:
    from syncline import results

    return results.cost(wall_time_s, [])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise command_line("--out", str(path), f"this cannot be written: {error.strerror}") from None


def _print(document: Document, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        from syncline import results

        print(results.dumps(document))
    else:
        from syncline.cli import tables

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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right")
    return table


def _constants_table(document: Document) -> RichTable:
    from syncline.software.constants import written

    software = document["software"]
    title = f"{document['collective']} on {document['machine']}, {document['gpus']} GPUs"
    table = _new(title, "constant", software["start"], "fitted")
    for key, value in software["constants"].items():
        name = key.removesuffix("_s")
        table.add_row(name, written(name, software["start_constants"][key]), written(name, value))
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
