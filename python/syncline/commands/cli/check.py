"""`syncline check`: whether an experiment can be run, and what that takes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from syncline.commands.api import simulate, sources
from syncline.commands.cli import choices, complete, options, output, tables
from syncline.results import entries as results

Experiment = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT", help="An experiment file, or a study's name.", autocompletion=complete.experiments
    ),
]


def check(
    experiment: Experiment,
    set_: options.Set = None,
    out: output.Out = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    fold: options.Fold = None,
    padding: options.Padding = None,
    chunk: options.Chunk = None,
    inflight: options.Inflight = None,
    endpoint: options.Endpoint = None,
    algorithm: options.Algorithm = None,
    backend: options.Backend = None,
    _memory_limit: options.MemoryLimit = None,
) -> int:
    """Validate an experiment and estimate what running it takes.

    \b
      syncline check my.yaml
      syncline check ace/resnet50 --set training.iterations=100
    """
    problems = options.common_problems(seed=seed)
    output.check(out, "check", problems)
    forced = options.forced(
        chunk=chunk,
        inflight=inflight,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fold=fold,
        padding=padding,
    )
    settings = options.settings(set_, forced, problems, seed=seed)

    checked = simulate.check(lambda *changes: sources.read_file(experiment, *changes), settings)
    output.write(out, "check", checked.document)
    if json:
        print(results.dumps(checked.document))
        return 0

    tables.show(tables.estimates(checked.estimates))
    chosen = [{"name": variant.name, **results.algorithm(variant)} for variant in checked.study.variants]
    for sentence in choices.sentences(chosen, named=len(chosen) > 1):
        print(sentence)
    for warning in checked.document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0
