"""`syncline measure`: times the kernels of models with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.base.errors import command_line
from syncline.commands.api import measuring
from syncline.commands.cli import complete, options
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.commands.api.measuring import Finished


def measure(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL|FILE...", help="Models by name, or model files.", autocompletion=complete.models),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda", help="The device; by default a GPU if PyTorch finds one.")
    ] = "auto",
    precision: Annotated[
        str, typer.Option(metavar="bf16|fp16|tf32|fp32|fp64", help="The data type of products and activations.")
    ] = "bf16",
    micro_batch: Annotated[int, typer.Option(metavar="N", help="Samples of a micro-batch.")] = 1,
    sequence: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a sample; by default those of the model.")
    ] = None,
    tensor: Annotated[int, typer.Option(metavar="N", help="NPUs among which tensor parallelism divides layers.")] = 1,
    layout: Annotated[
        str,
        typer.Option(metavar="nhwc|nchw", help="How images lie in memory: channels_last, or as PyTorch has them else."),
    ] = measuring.DEFAULT_LAYOUT,
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
    problems = options.common_problems(seed=seed)
    if shapes is None and out is None:
        problems += command_line("--out", None, "a table to write is missing", "--out FILE, or --shapes FILE").problems
    asked = measuring.Asked(
        models=tuple(models or ()),
        device=device,
        precision=precision,
        micro_batch=micro_batch,
        sequence=sequence,
        tensor=tensor,
        layout=layout,
        launch=launch,
        grid=grid,
        seconds=seconds,
        out=out,
        seed=seed,
        problems=tuple(problems),
    )
    found = measuring.wanted(asked)
    for warning in found.warnings:
        options.warn(warning, quiet=quiet)
    _print(measuring.carried_out(asked, found, shapes), json=json)
    return 0


def _print(finished: Finished, *, json: bool) -> None:
    document, rows = finished.document, finished.rows
    if json:
        print(results.dumps(document))
        return
    if finished.device is None:
        print(f"{document['kernels']} kernels to measure: {document['shapes']}")
        return
    on = finished.device
    print(f"{len(rows)} of {document['kernels']} kernels measured on {on.name}, PyTorch {on.torch}")
    for kind in dict.fromkeys(row.kernel.kind for row in rows):
        times = [row.time_s for row in rows if row.kernel.kind == kind]
        print(f"  {kind:<18}{len(times):>5}  {min(times) * 1e6:>12.2f} to {max(times) * 1e6:.2f} us")
    print(f"table: {document['table']}")
