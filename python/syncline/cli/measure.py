"""`syncline measure`: times the kernels of models with PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.cli import complete, options
from syncline.errors import InputError, Problem, command_line, did_you_mean, one_of

if TYPE_CHECKING:
    from syncline.measurements.operators import Measurable
    from syncline.measurements.shapes import Kernel, Measured
    from syncline.models.model import Operator

DEVICES = ("auto", "cpu", "cuda")
MOST_SAMPLES = 2**20


def measure(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL|FILE...", help="Models by name, or model files.", autocompletion=complete.models),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda", help="The device; by default a GPU if PyTorch finds one.")
    ] = DEVICES[0],
    precision: Annotated[
        str, typer.Option(metavar="bf16|fp16|tf32|fp32|fp64", help="The data type of products and activations.")
    ] = "bf16",
    micro_batch: Annotated[int, typer.Option(metavar="N", help="Samples of a micro-batch.")] = 1,
    sequence: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a sample; by default those of the model.")
    ] = None,
    tensor: Annotated[int, typer.Option(metavar="N", help="NPUs among which tensor parallelism divides layers.")] = 1,
    launch: Annotated[bool, typer.Option("--launch", help="Measure what launches and copies cost as well.")] = False,
    grid: Annotated[
        str | None,
        typer.Option(metavar="sample|full", help="Measure a grid of matrix products as well, of this data type."),
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write down what would be measured, for python -m syncline.measurements.kernels."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The table to write: CSV.")] = None,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="Stop after so many seconds.")] = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> int:
    """Time the kernels of models with PyTorch, and write a table that npu.compute.table takes.

    \b
      syncline measure gpt2 --out gpt2.csv
      syncline measure llama2-7b --tensor 8 --precision bf16 --device cuda --out kernels.csv
      syncline measure resnet50 --micro-batch 8 --precision fp32 --device cpu --out resnet50.csv
      syncline measure gpt3-175b --tensor 8 --shapes shapes.json

    Measured are products and convolutions forward and backward, attention fused and plain, norms, elementwise kernels,
    pools, embeddings, losses and optimiser updates, each shape once. PyTorch is needed, which Syncline does not
    install. On a machine with PyTorch and without Syncline's engine, run python -m syncline.measurements.kernels on a
    file of --shapes.
    """
    problems = [
        *options.common_problems(seed=seed),
        *_wrong(models, device, precision, micro_batch, sequence, tensor, grid, launch),
    ]
    if shapes is None and out is None:
        problems += command_line("--out", None, "a table to write is missing", "--out FILE, or --shapes FILE").problems
    if out is not None and out.suffix != ".csv":
        problems += command_line("--out", str(out), "measurements are written as CSV", "FILE.csv").problems
    if seconds is not None and not seconds > 0:
        problems += command_line("--seconds", seconds, "this is out of range", "a number above zero").problems
    if problems:
        raise InputError(problems)
    found = _of_models(models or [], precision, micro_batch, sequence, tensor)
    kernels = [*_beside(launch, grid, precision), *found.kernels]
    if found.left_out and not quiet:
        listed = one_of(found.left_out)
        message = f"these operators are not measured, and a run takes their times from kernels like them: {listed}"
        print(f"warning: {message}", file=sys.stderr)
    if shapes is not None:
        from syncline.measurements.shapes import dumps

        source = f"{', '.join(models or [])}: micro-batch {micro_batch}, tensor {tensor}"
        _write(shapes, dumps(kernels, source))
        if out is None:
            _print(kernels, [], {"shapes": str(shapes)}, json=json)
            return 0
    assert out is not None
    rows, about = _measured(kernels, device, seed, seconds, out)
    _print(kernels, rows, {"table": str(out), **about}, json=json)
    return 0


def _wrong(
    models: Sequence[str] | None,
    device: str,
    precision: str,
    micro_batch: int,
    sequence: int | None,
    tensor: int,
    grid: str | None,
    launch: bool,
) -> list[Problem]:
    from syncline.measurements.shapes import WIDTHS

    problems: list[Problem] = []
    words = [("--device", device, DEVICES), ("--precision", precision, tuple(WIDTHS))]
    if grid is not None:
        words.append(("--grid", grid, ("sample", "full")))
    for flag, word, known in words:
        if word not in known:
            message = f"this is not known{did_you_mean(word, known)}"
            problems += command_line(flag, word, message, one_of(known)).problems
    numbers = [("--micro-batch", micro_batch), ("--tensor", tensor)]
    if sequence is not None:
        numbers.append(("--sequence", sequence))
    for flag, number in numbers:
        if not 1 <= number <= MOST_SAMPLES:
            problems += command_line(flag, number, "this is out of range", f"1 to {MOST_SAMPLES}").problems
    if not models and grid is None and not launch:
        problems += command_line(
            "MODEL", None, "there is nothing to measure", "models by name or file, --grid, --launch"
        ).problems
    return problems


def _of_models(names: Sequence[str], precision: str, micro_batch: int, sequence: int | None, tensor: int) -> Measurable:
    from syncline.measurements import operators
    from syncline.measurements.shapes import WIDTHS
    from syncline.models import demands, evaluate, file
    from syncline.models.evaluate import ParameterError
    from syncline.models.model import DivisionError

    def updated(operator: Operator) -> int:
        return demands.of([operator], WIDTHS[precision])[0].params

    models = []
    for name in names:
        try:
            models.append(evaluate.evaluate(file.load(name), micro_batch, sequence))
        except ParameterError as error:
            raise command_line(f"--{error.name}", sequence, f"{name}: {error.message}", error.accepted) from None
    try:
        return operators.of(models, tensor, precision, updated)
    except DivisionError as error:
        raise command_line("--tensor", tensor, str(error), "a number that divides it") from None


def _beside(launch: bool, grid: str | None, precision: str) -> list[Kernel]:
    from syncline.measurements import grid as grids

    found = grids.device() if launch else []
    return found if grid is None else [*found, *grids.products([precision], full=grid == "full")]


def _measured(
    kernels: Sequence[Kernel], device: str, seed: int, seconds: float | None, out: Path
) -> tuple[list[Measured], dict[str, str]]:
    from syncline.measurements.kernels import UnusableError, clock
    from syncline.measurements.kernels import measure as run
    from syncline.measurements.shapes import Table

    try:
        on = clock(device, seed)
    except UnusableError as error:
        raise command_line("--device", device, str(error)) from None
    version = str(on.torch.__version__)
    try:
        with out.open("w", encoding="utf-8", newline="") as file:
            rows = run(on, kernels, Table(file, on.name, version), seconds)
    except OSError as error:
        raise command_line("--out", str(out), f"this cannot be written: {error.strerror}") from None
    return rows, {"device": on.name, "torch": version}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise command_line("--shapes", str(path), f"this cannot be written: {error.strerror}") from None


def _print(kernels: Sequence[Kernel], rows: Sequence[Measured], about: dict[str, str], *, json: bool) -> None:
    if json:
        from syncline import results
        from syncline.measurements.shapes import described

        document = results.document([], seed=0, status="complete", warnings=[])
        document |= {"assumptions": [], **about, "kernels": len(kernels)}
        document["measured"] = [
            {**described(row.kernel), "bytes": row.kernel.bytes, "time_s": row.time_s, "spread_s": row.spread_s}
            for row in rows
        ]
        print(results.dumps(document))
        return
    if not rows:
        print(f"{len(kernels)} kernels to measure: {about['shapes']}")
        return
    print(f"{len(rows)} of {len(kernels)} kernels measured on {about['device']}, PyTorch {about['torch']}")
    for kind in dict.fromkeys(row.kernel.kind for row in rows):
        times = [row.time_s for row in rows if row.kernel.kind == kind]
        print(f"  {kind:<18}{len(times):>5}  {min(times) * 1e6:>12.2f} to {max(times) * 1e6:.2f} us")
    print(f"table: {about['table']}")
