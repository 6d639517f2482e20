"""`syncline bench`: the table that nccl-tests would print on a machine, as the software model predicts it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from syncline.cli import bench_execute, complete, options, output
from syncline.errors import InputError, command_line, did_you_mean, one_of

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.results import Document
    from syncline.software.model import Model

DEFAULT_SIZES = "1KiB:8GiB:x2"
ALGORITHMS = ("auto", "ring", "tree", "nvls", "packed-trees")


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
            f"{bench_execute.DEFAULT_SIZES} with --execute.",
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
    from syncline import results
    from syncline.schema.packed import PACKED
    from syncline.software import printing

    began = time.monotonic()
    refused: list[Problem] = []
    output.check(out, "bench", refused)
    if refused:
        raise InputError(refused)
    if execute:
        flags = {"--machine": machine, "--gpus": gpus, "--software": software, "--small-size-time": small_size_time}
        given = [flag for flag, value in flags.items() if value is not None]
        given += ["--algorithm"] if algorithm != ALGORITHMS[0] else []
        document, text = _executed(kind, sizes, ranks, given, seed)
        document["cost"] = results.cost(time.monotonic() - began, [])
        _print(document, text, json=json, quiet=quiet, verbose=verbose)
        output.write(out, "bench", document, quiet=quiet)
        if html is not None:
            bench_execute.write(html, document)
        return 0
    sizes = DEFAULT_SIZES if sizes is None else sizes
    machine = _named(machine, ranks, html)
    if algorithm == PACKED:
        document, text = _of_trees(kind, machine, sizes, gpus, software, small_size_time, seed)
        document["cost"] = results.cost(time.monotonic() - began, [])
        _print(document, text, json=json, quiet=quiet, verbose=verbose)
        output.write(out, "bench", document, quiet=quiet)
        return 0
    model, listed, small = _read(kind, machine, sizes, gpus, algorithm, software, small_size_time, seed)
    predictions = [model.predict(size) for size in listed]
    document = _document(model, small, seed)
    document["rows"] = printing.rows(model, predictions)
    document["cost"] = results.cost(time.monotonic() - began, [])
    _print(document, printing.table(model, predictions), json=json, quiet=quiet, verbose=verbose)
    output.write(out, "bench", document, quiet=quiet)
    return 0


def _print(document: Document, text: str, *, json: bool, quiet: bool, verbose: bool) -> None:
    from syncline import results

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
    from syncline.cli import layout

    if not sys.stdout.isatty() or layout.fits(text):
        print(text, end="")
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"{document['program']}: {document['ranks']} ranks"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    columns = [column for column in NARROW if any(column.key in row for row in document["rows"])]
    for column in columns:
        table.add_column(column.heading, justify="right")
    for row in document["rows"]:
        table.add_row(*("-" if row.get(c.key) is None else c.text(row[c.key]) for c in columns))
    layout.show(table)


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


def _named(machine: str | None, ranks: int | None, html: Path | None) -> str:
    """The machine. Raises [`InputError`] where there is none, or where something is said that goes with --execute."""
    problems: list[Problem] = []
    if machine is None:
        message = "no machine is given"
        problems += command_line("--machine", None, message, "a machine such as dgx-h100, or --execute").problems
    for flag, value in (("--ranks", ranks), ("--html", html)):
        if value is not None:
            problems += command_line(flag, str(value), "nothing is carried out", "it with --execute").problems
    if problems or machine is None:
        raise InputError(problems)
    return machine


def _kind(text: str, problems: list[Problem]) -> str | None:
    """The collective by its name. What is wrong goes to `problems`."""
    from syncline.software import measurements
    from syncline.software.wire import KINDS

    named = measurements.kind_of(text)
    if named is None:
        message = f"this collective is not known{did_you_mean(text, KINDS)}"
        problems += command_line("KIND", text, message, measurements.accepted_kinds()).problems
    return named


def _executed(kind: str, sizes: str | None, ranks: int | None, given: list[str], seed: int) -> tuple[Document, str]:
    """The document and the table of what is measured. Raises [`InputError`] with everything that is wrong."""
    from syncline.software import sizes as listing

    problems = options.common_problems(seed=seed)
    named = _kind(kind, problems)
    listed = options.collected(problems, lambda: listing.parse(sizes or bench_execute.DEFAULT_SIZES))
    problems += bench_execute.problems(named, ranks, listed, given)
    if problems or named is None or listed is None:
        raise InputError(problems)
    return bench_execute.table(named, listed, 2 if ranks is None else ranks)


def _of_trees(
    kind: str,
    machine: str,
    sizes: str,
    gpus: str | None,
    software: str | None,
    small_size_time: str | None,
    seed: int,
) -> tuple[Document, str]:
    """The document and the table of packed trees. Raises [`InputError`] with everything that is wrong."""
    from syncline.cli import bench_trees
    from syncline.software import sizes as listing

    problems = [*options.common_problems(seed=seed), *bench_trees.problems(software, small_size_time)]
    named = _kind(kind, problems)
    listed = options.collected(problems, lambda: listing.parse(sizes))
    if problems or named is None or listed is None:
        raise InputError(problems)
    return bench_trees.table(named, machine, gpus, listed, seed)


def _read(
    kind: str,
    machine: str,
    sizes: str,
    gpus: str | None,
    algorithm: str,
    software: str | None,
    small_size_time: str | None,
    seed: int,
) -> tuple[Model, tuple[int, ...], float | None]:
    """The model, the sizes and the small-size time. Raises [`InputError`] with everything that is wrong."""
    from syncline.software import constants, model
    from syncline.software import sizes as listing
    from syncline.software.platform import platform

    problems = options.common_problems(seed=seed)
    named = _kind(kind, problems)
    if algorithm not in ALGORITHMS:
        message = f"this is not known{did_you_mean(algorithm, ALGORITHMS)}"
        problems += command_line("--algorithm", algorithm, message, one_of(ALGORITHMS)).problems
    found = options.collected(problems, lambda: platform(machine, gpus))
    listed = options.collected(problems, lambda: listing.parse(sizes))
    if software is not None:
        options.collected(problems, lambda: constants.load(software))
    small = options.collected(problems, lambda: _seconds(small_size_time))
    if problems or named is None or found is None or listed is None:
        raise InputError(problems)
    opened = model.open_model(found, kind=named, algorithm=algorithm, software=software, small_size_time=small)
    return opened, listed, small


def _seconds(text: str | None) -> float | None:
    from syncline import quantities
    from syncline.engine import PS_PER_S

    if text is None:
        return None
    try:
        return quantities.time(text) / PS_PER_S
    except quantities.QuantityError as error:
        raise command_line("--small-size-time", text, error.message, error.accepted) from None


def _document(model: Model, small_size_time: float | None, seed: int) -> Document:
    from syncline import results
    from syncline.fabric import allocation
    from syncline.software import printing

    platform = model.platform
    document = results.document([], seed=seed, status="complete", warnings=_warnings(model))
    document["assumptions"] = model.software.assumptions()
    document["fidelity"] = {"backend": "software model", "folded": False, "transfer": "closed form"}
    document["collective"] = model.kind
    document["program"] = printing.PROGRAMS[model.kind]
    document["size_means"] = results.SIZE_MEANS.get(model.kind, "what each rank sends")
    document["machine"] = platform.machine
    document["gpus"] = allocation.canonical(platform.members)
    document["ranks"] = platform.gpus
    document["nodes"] = platform.nodes
    document["algorithm"] = model.algorithm
    document["software"] = {
        "name": model.software.name,
        "fitted_on": [{"table": f.table, "source": f.source} for f in model.software.fitted_on],
        "calibrated": model.calibrated,
        "small_size_time_s": small_size_time,
    }
    return document


def _warnings(model: Model) -> list[str]:
    from syncline.software import systems
    from syncline.software.constants import START
    from syncline.software.model import UNMEASURED, algorithms
    from syncline.software.wire import DIRECT

    platform, software = model.platform, model.software
    found: list[str] = []
    name, fitted = platform.cluster.machine.name, systems.fitted_machines(software)
    if name not in fitted:
        found.append(
            f"{software.name} was fitted on tables of {' and '.join(sorted(fitted)) or 'nothing'}, none of {name}"
        )
    constants = (software.constants, START)
    used = set(systems.NETWORK) - {"efficiency_network" if platform.single_nic else "efficiency_single"}
    used -= set() if platform.nodes > 2 else {"efficiency_spread"}
    unfitted = [key for key in systems.NETWORK if key in used and len({getattr(each, key) for each in constants}) == 1]
    if unfitted and platform.nodes > 1 and not model.is_measured:
        found.append(
            f"{software.name} was fitted on no table of several nodes: {' and '.join(unfitted)} are round figures"
        )
    if platform.on_pcie:
        found.append("no ring of NVLinks leads through these GPUs; no table was measured over PCIe")
    elif not platform.switched and DIRECT in algorithms(platform, model.kind):
        found.append("what goes directly between GPUs of a hybrid cube mesh was not compared with any measured table")
    if model.kind in UNMEASURED:
        found.append(f"{model.kind} was not compared with any measured table")
    return found
