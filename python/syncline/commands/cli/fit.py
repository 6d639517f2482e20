"""`syncline fit`: which divisions of a model fit into the memory of its NPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.commands.api import fitting
from syncline.commands.cli import complete, layout, options, output
from syncline.experiment import packaged as studies
from syncline.experiment.load import load_file
from syncline.results.entries import dumps
from syncline.strategies.fit import VARIED
from syncline.strategies.training import in_gb

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.experiment.load import Study
    from syncline.experiment.merge import Override


def fit(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="An experiment file with a model.", autocompletion=complete.experiments
        ),
    ],
    set_: options.Set = None,
    every: Annotated[bool, typer.Option("--all", help="List those that do not fit as well.")] = False,
    out: output.Out = None,
    json: options.AsJson = False,
) -> int:
    """List which divisions of a model fit into the memory of the NPUs, and with what terms.

    \b
      syncline fit gpt.yaml
      syncline fit gpt.yaml --set parallel.micro_batch=2 --all --json

    Varied are parallel.tensor, pipeline, data, zero and recompute; all else is as the experiment says. The model has
    workload.global_batch, and the NPU a memory, as GPUs have.
    """

    def read(overrides: Sequence[Override]) -> Study:
        return load_file(*studies.find(experiment), overrides)

    problems: list[Problem] = []
    output.check(out, "fit", problems)
    document = fitting.run(options.load(problems, set_, read), every=every)
    if json:
        print(dumps(document))
    else:
        for variant in document["variants"]:
            _print(variant, every=every)
    output.write(out, "fit", document)
    return 0


def _print(document: dict[str, Any], *, every: bool) -> None:
    terms = ("weights", "gradients", "optimiser", "activations", "exchange", "libraries")
    have = f"{document['npus']:,} NPUs with {in_gb(document['available_bytes'])} for a model"
    title = f"{document['name']} on {have}: {document['fitting']} of {document['candidates']} divisions fit"
    table = layout.table(title=title)
    for name in (*VARIED, *(["fits"] if every else []), "memory", *terms, "stage"):
        table.add_column(name, justify="left" if name in ("recompute", "fits") else "right")
    for row in document["rows"]:
        fits = ["yes" if row["fits"] else "no"] if every else []
        sizes = [in_gb(row[f"{name}_bytes"]) for name in ("memory", *terms)]
        table.add_row(*(str(row[name]) for name in VARIED), *fits, *sizes, str(row["stage"]))
    if document["rows"]:
        layout.show(table, labels=len(VARIED))
        return
    print(title)
    least = document["least"]
    if least is not None:
        division = ", ".join(f"{name} {least[name]}" for name in VARIED)
        print(f"The least that a division needs is {in_gb(least['memory_bytes'])}, with {division}.")
