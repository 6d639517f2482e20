"""`syncline import`: foreign traces and workloads as graph files, with an experiment that runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncline.commands.api import trace_imports, trace_replays
from syncline.commands.cli import options, tables
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.commands.api.trace_imports import Written

MOST_CLASSES: Final = 8
"""Classes that are listed."""


def import_trace(
    format_: Annotated[
        str,
        typer.Argument(metavar="chakra|astra|fx|kineto", help="What the files are."),
    ],
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, a folder, or the prefix of files with a number for each NPU."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR|FILE",
            help="Where graph and experiment go: a folder (by default one named like the files), or one of the two.",
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The topology of the experiment; by default one switch.")
    ] = None,
    backend: options.Backend = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="EXPERIMENT", help="Take everything but the workload from this experiment file."),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Communicators as JSON: lists of NPUs by name, as ASTRA-sim has them."),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            metavar="recorded|computed",
            help="chakra: whether compute takes as long as was recorded (the default), or as the NPU needs for its "
            "operations and bytes.",
        ),
    ] = None,
    workload: Annotated[str | None, typer.Option(metavar="FILE", help="astra: the workload of the directory.")] = None,
    system: Annotated[str | None, typer.Option(metavar="FILE", help="astra: the system configuration.")] = None,
    network: Annotated[str | None, typer.Option(metavar="FILE", help="astra: the network configuration.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="FILE", help="astra: the remote memory configuration.")] = None,
    npus: Annotated[
        int | None,
        typer.Option(metavar="N", help="fx: NPUs that train the module together; kineto: those of the whole job."),
    ] = None,
    json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> int:
    """Import a trace or a workload of another program as a graph, and write an experiment that runs it.

    \b
      syncline import chakra traces/all_reduce --topology "Ring(4, rate=50GB/s)" -o imported
      syncline import astra inputs --workload inputs/et/all_reduce -o imported
      syncline import kineto traces --topology dgx-h100 -o imported
      syncline import fx module.json --npus 8 -o imported
      syncline run imported/experiment.yaml

    chakra: execution traces, PREFIX.N.et for each NPU N. astra: a directory of ASTRA-sim 2.x, whose files are
    recognised by their content. fx: what syncline.importers.fx.from_module has written of a PyTorch module. kineto:
    profiles of PyTorch, one JSON file for each rank. docs/importing.md says what is taken of each, and what differs in
    meaning.
    """
    parts = {"workload": workload, "system": system, "network": network, "memory": memory}
    asked = trace_imports.Asked(
        format=format_,
        files=tuple(files),
        topology=topology,
        backend=backend,
        like=like,
        groups=groups,
        times=times,
        parts={name: value for name, value in parts.items() if value is not None},
        npus=npus,
    )
    written = trace_imports.write(asked, out)
    if json:
        print(results.dumps(written.document))
    elif not quiet:
        _print(written)
    if not json:
        for warning in written.imported.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    return 0


def _print(written: Written) -> None:
    imported, facts = written.imported, written.imported.facts
    classes, families = facts.get("classes", []), facts.get("families", [])
    rows = [("format", imported.format)]
    rows += [("NPUs", f"{facts['npus']:,}")] if "npus" in facts else []
    rows += [("nodes", f"{facts['nodes']:,}")] if "nodes" in facts else []
    rows += [("classes", _listed([f"{c['name']} ({c['nodes']:,} nodes)" for c in classes]))] if classes else []
    named = [f"{f['name']} ({f['communicators']:,} communicators)" for f in families]
    rows += [("families", _listed(named))] if named else []
    rows += trace_replays.facts(written.replays)
    rows += list(written.files.items())
    tables.show(tables.pairs(imported.name, rows))
    for difference in imported.differences:
        said = f"in ASTRA-sim {difference.there}; here {difference.here}"
        print(f"differs: {difference.what}: {said}", file=sys.stderr)
    for assumption in imported.assumptions:
        print(f"assumed: {assumption}", file=sys.stderr)
    print(f"run it with: syncline run {written.files['experiment']}", file=sys.stderr)


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_CLASSES
    return ", ".join(names[:MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")
