"""`syncline export`: an algorithm written down, as a plan, as MSCCL XML or as an execution plan of MSCCL++."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from syncline.commands.api import exporting
from syncline.commands.cli import options, single
from syncline.results import entries as results


def export(
    kind: single.Kind,
    algorithm: Annotated[
        str,
        typer.Option(metavar="NAME", help="The algorithm, as for syncline collective; auto needs --size."),
    ],
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="N|NxM",
            help="In place of a fabric: so many ranks on a Switch(N), for rings on a Ring(N); NxM is a grid on "
            "Ring(N)_Ring(M), for rings and compositions.",
        ),
    ] = None,
    topology: single.Topology = None,
    machine: single.Machine = None,
    topology_file: single.TopologyFile = None,
    gpus: single.Gpus = None,
    group: single.Group = None,
    root: single.Root = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The size for which auto, and the number of slices, are chosen."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="plan|msccl-xml|mscclpp-json",
            help="JSON of syncline-plan, MSCCL XML, or the JSON of an execution plan of MSCCL++.",
        ),
    ] = "plan",
    instances: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For MSCCL and MSCCL++: how many copies of the algorithm share the vector; 1 by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write; otherwise standard output.")
    ] = None,
    endpoint: options.Endpoint = None,
    backend: options.Backend = None,
    set_: options.Set = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Write an algorithm down, as a plan, as MSCCL XML or as an execution plan of MSCCL++; --plan takes all of them.

    \b
      syncline export all-reduce --algorithm ring --ranks 8 --format msccl-xml -o ring8.xml
      syncline export all-reduce --algorithm direct --ranks 8 --format mscclpp-json -o direct8.json
      syncline export all-reduce --algorithm six-phase --ranks 4x8 -o six-phase.json
      syncline export all-gather --algorithm direct --topology "Torus(4,4)" > direct.json
      syncline export broadcast --algorithm double-binary-tree --machine dgx1v --root 2 --size 64MB
      syncline export reduce --algorithm double-binary-tree --ranks 8 --set collective.slices=16

    With a fabric, the plan is exactly what runs there. Algorithms may depend on the fabric: direct ones order their
    messages by its distances, and compositions have an algorithm for each of its dimensions. With --ranks, the plan
    is that of a fabric that says nothing of itself.

    A plan holds the slices of trees and chains, so these need --size, for which the fastest number is chosen, or
    --set collective.slices=N. What goes through switches needs --size, too, and so does auto, which stands for the
    fastest algorithm. A plan says nothing of lanes: with --set collective.lanes=one, that of a ring goes one way.

    MSCCL XML has all steps of all ranks. Each lane of a ring has channels of its own and an equal part of the vector;
    with --set collective.lanes=one there is one lane. The format has limits: what does not fit is refused.

    An execution plan of MSCCL++ (protocol Simple, memory channels) does the same steps one-sided: it puts, signals and
    waits. Thread blocks have as many peers as their thread, and long threads become several thread blocks.
    """
    flags = single.Flags(
        kind=kind,
        size=size or exporting.NO_SIZE,
        topology=topology,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        groups=group or [],
        root=root,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fabrics=f"--ranks 8, {single.FABRICS}",
    )
    settings = options.settings(set_, (), options.common_problems(seed=seed), seed=seed)
    asked = exporting.Asked(algorithm, ranks, size, format_, instances)
    exported = exporting.write(flags, asked, settings, out)
    document, variant = exported.document, exported.variant
    if json:
        print(results.dumps(document))
    elif out is None:
        sys.stdout.write(exported.text)
    if quiet or json:
        return 0
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for assumption in document["assumptions"] if verbose else ():
        print(f"assumed: {assumption}", file=sys.stderr)
    if variant.choice is not None:
        print(f"auto chose {variant.choice.chosen}: {variant.choice.because}", file=sys.stderr)
    if out is not None:
        print(f"{format_}: {out}", file=sys.stderr)
    return 0
