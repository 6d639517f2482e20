"""`syncline bench`: the table that nccl-tests would print on a machine, as the software model predicts it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from syncline.base import outputs, progress_display
from syncline.base.errors import InputError
from syncline.commands.api import benchmarks
from syncline.commands.api.bench_execute import DEFAULT_SIZES
from syncline.commands.cli import complete, layout, options, output, tables, trees_options, trees_page
from syncline.report import measured_page as page
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.results.entries import Document


def bench(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="The collective that nccl-tests measures: all-reduce, broadcast, ...",
            autocompletion=complete.collectives,
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="M", help='The machine, such as dgx-a100 or "dgx-h100(nodes=2)".', autocompletion=complete.machines
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="A:B:xF|A:B:+S|LIST",
            help="Sizes, as nccl-tests counts them: a range with a factor or a step, or a list; 1KiB:8GiB:x2, and "
            f"{DEFAULT_SIZES} with --execute.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[str | None, typer.Option(metavar="LIST", help="The GPUs that take part, such as 0-3,8-11.")] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="auto|ring|tree|nvls|packed-trees",
            help="The algorithm that NCCL has to use (NCCL_ALGO); or packed-trees, which is simulated.",
        ),
    ] = "auto",
    software: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS|FILE",
            help="The constants of the model: a class, or a file that calibrate --out wrote.",
            autocompletion=complete.software,
        ),
    ] = None,
    small_size_time: Annotated[
        str | None,
        typer.Option(metavar="T", help="How long 8 bytes take on your system, such as 25us, if you know it."),
    ] = None,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Carry the collective out between processes of this host, and measure it."),
    ] = False,
    ranks: Annotated[int | None, typer.Option(help="With --execute, how many processes; 2 if not given.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --execute, write a self-contained page of the results.")
    ] = None,
    out: output.Out = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Predict the table that nccl-tests would print.

    \b
      syncline bench all-reduce --machine dgx-h100 --sizes 1KiB:8GiB:x2
      syncline bench all-gather --machine "dgx-a100(nodes=4)" --sizes 64MiB,1GiB --json
      syncline bench all-reduce --machine dgx-h100 --software mine.yaml    (see syncline calibrate --out)
      syncline bench broadcast --machine dgx1v --gpus 1,4-6 --algorithm packed-trees
      syncline bench all-reduce --execute --ranks 2 --html measured.html

    The times come from a model of NCCL whose constants were fitted to published tables, not from a simulation;
    docs/validation.md says how well it predicts. For sizes below 1 MiB, a row also gives the interval in which nine of
    ten systems of the class lie. The time of a small size, or a table for calibrate, makes it narrower.

    With --execute, Syncline's collective library carries the collective out on float32 in the memory of this host. The
    simulator's constants are fitted on half of the sizes, and its predictions stand beside all measurements.
    """
    refused: list[Problem] = []
    output.check(out, "bench", refused)
    if refused:
        raise InputError(refused)
    outputs.check(html, outputs.PAGE, "--html")
    asked = benchmarks.Asked(
        kind=kind,
        machine=machine,
        sizes=sizes,
        gpus=gpus,
        algorithm=algorithm,
        software=software,
        small_size_time=small_size_time,
        execute=execute,
        ranks=ranks,
        html=html,
        seed=seed,
        watch=progress_display.shown(quiet=quiet),
    )
    document, text = benchmarks.run(asked)
    _print(document, text, json=json, quiet=quiet, verbose=verbose)
    output.write(out, "bench", document, quiet=quiet)
    if html is not None:
        _write(html, document)
    return 0


def _print(document: Document, text: str, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        print(results.dumps(document))
    else:
        _show(document, text)
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if verbose:
        for assumption in document["assumptions"]:
            print(f"assumed: {assumption}", file=sys.stderr)


def _show(document: Document, text: str) -> None:
    """The table as nccl-tests prints it; on a terminal that is too narrow for its lines, one that fits."""
    if not sys.stdout.isatty() or layout.fits(text):
        print(text, end="")
        return
    for line in _header(text):
        print(tables.wrapped(line))
    table = layout.table()
    columns = [column for column in NARROW if any(column.key in row for row in document["rows"])]
    for column in columns:
        table.add_column(column.heading, justify="right")
    for row in document["rows"]:
        table.add_row(*("-" if row.get(c.key) is None else c.text(row[c.key]) for c in columns))
    layout.show(table)


def _header(text: str) -> list[str]:
    """What the table says above its columns, and names that it lists there below one another in one line."""
    said, _, _ = text.partition("\n#\n")
    found: list[tuple[str, list[str]]] = []
    for line in said.removeprefix("# ").split("\n# "):
        if line.startswith(" "):
            found[-1][1].append(line.strip())
        else:
            found.append((line, []))
    return [f"{line} {', '.join(names)}".rstrip() for line, names in found]


class _Column(NamedTuple):
    """A column of the table on a narrow terminal."""

    heading: str
    key: str
    text: Callable[[Any], str]


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}"


def _gigabytes(rate: float) -> str:
    return f"{rate / 1e9:.2f}"


NARROW: Final = (
    _Column("size (B)", "size_bytes", str),
    _Column("time (us)", "time_s", _microseconds),
    _Column("algbw (GB/s)", "algorithm_bandwidth_bytes_per_s", _gigabytes),
    _Column("busbw (GB/s)", "bus_bandwidth_bytes_per_s", _gigabytes),
    _Column("from (us)", "time_low_s", _microseconds),
    _Column("to (us)", "time_high_s", _microseconds),
    _Column("wrong", "wrong", str),
    _Column("predicted (us)", "predicted_s", _microseconds),
    _Column("algorithm", "algorithm", str),
    _Column("protocol", "protocol", str),
)


def _write(path: Path, document: Document) -> None:
    """Writes the page. Raises [`InputError`] where it cannot be written."""
    trees_page.save(path, page.build(document, trees_options.typed()))
