"""`syncline import`: foreign traces and workloads as graph files, with an experiment that runs them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncline.cli import options

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.importers.output import Asked, Imported

FORMATS: Final = ("chakra", "astra", "fx", "kineto")
TIMES: Final = ("recorded", "computed")
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
    began = time.monotonic()
    asked = _asked(format_, topology, backend, like, groups, times, npus, (workload, system, network, memory))

    from syncline.importers import output

    imported = _imported(format_, files, asked)
    if asked.like is not None:
        from syncline.importers import similar

        similar.take(imported, asked.like)
    written = output.save(imported, out)
    if json:
        _print_document(imported, written, began)
    elif not quiet:
        _print(imported, written)
    return 0


def _asked(
    format_: str,
    topology: str | None,
    backend: str | None,
    like: Path | None,
    groups: Path | None,
    times: str | None,
    npus: int | None,
    parts: tuple[str | None, ...],
) -> Asked:
    from syncline.errors import InputError, command_line, did_you_mean, one_of
    from syncline.importers.output import Asked

    problems: list[Problem] = []

    def refuse(flag: str, value: str, message: str, accepted: str) -> None:
        problems.extend(command_line(flag, value, message, accepted).problems)

    if format_ not in FORMATS:
        hint = did_you_mean(format_, FORMATS)
        refuse("FORMAT", format_, f"this format is not known{hint}", one_of(FORMATS))
    if times not in (None, *TIMES):
        refuse("--times", str(times), "this is not known", one_of(TIMES))
    if times is not None and format_ != "chakra":
        refuse("--times", times, "this has no effect: only Chakra traces have both", "syncline import chakra")
    if groups is not None and format_ not in ("chakra", "astra"):
        refuse("--groups", str(groups), "this has no effect: these files say it themselves", "no --groups")
    if backend is not None and like is not None:
        refuse("--backend", backend, "--like says the network", "one of the two")
    if like is not None and format_ == "astra":
        refuse("--like", str(like), "the directory says how its workload is run", "no --like")
    if backend is not None:
        from syncline import networks

        if backend not in (names := list(networks.NETWORKS)):
            refuse("--backend", backend, "this backend is not known", one_of(names))
    if npus is not None and not 1 <= npus <= 2**20:
        refuse("--npus", str(npus), "this is out of range", "1 to 1048576")
    named = {name: value for name, value in zip(PARTS, parts, strict=True) if value is not None}
    for name, value in named.items() if format_ in FORMATS and format_ != "astra" else ():
        refuse(f"--{name}", value, "only a directory of ASTRA-sim has such a part", "syncline import astra")
    if npus is not None and format_ in ("chakra", "astra"):
        refuse("--npus", str(npus), "the files say how many NPUs there are", "no --npus")
    if topology is not None and (like is not None or format_ == "astra"):
        other = "--like" if like is not None else "the network configuration"
        refuse("--topology", topology, f"{other} says the topology", "one of the two")
    if problems:
        raise InputError(problems)
    from syncline.importers import similar

    return Asked(
        topology, groups, times or TIMES[0], backend, None if like is None else similar.read(like), named, npus
    )


PARTS: Final = ("workload", "system", "network", "memory")


def _imported(format_: str, files: list[str], asked: Asked) -> Imported:
    if format_ == "chakra":
        from syncline.importers import chakra

        return chakra.imported(files, asked)
    if format_ == "astra":
        from syncline.importers import astra

        return astra.imported(files, asked)
    if format_ == "fx":
        from syncline.importers import fx

        return fx.imported(files, asked)
    from syncline.importers import kineto

    return kineto.imported(files, asked)


def _print_document(imported: Imported, written: dict[str, str], began: float) -> None:
    from syncline import results

    document: dict[str, Any] = {
        **results.versions(),
        "status": "complete",
        "seed": 0,
        "assumptions": imported.assumptions,
        "warnings": [],
        "fidelity": {"backend": imported.sections.get("network")},
        "format": imported.format,
        "name": imported.name,
        "files": written,
        **imported.facts,
        "differences": [{"what": d.what, "there": d.there, "here": d.here} for d in imported.differences],
        "cost": results.cost(time.monotonic() - began, []),
    }
    print(results.dumps(document))


def _print(imported: Imported, written: dict[str, str]) -> None:
    from syncline.cli import tables

    facts = imported.facts
    classes, families = facts.get("classes", []), facts.get("families", [])
    rows = [("format", imported.format)]
    rows += [("NPUs", f"{facts['npus']:,}")] if "npus" in facts else []
    rows += [("nodes", f"{facts['nodes']:,}")] if "nodes" in facts else []
    rows += [("classes", _listed([f"{c['name']} ({c['nodes']:,} nodes)" for c in classes]))] if classes else []
    named = [f"{f['name']} ({f['communicators']:,} communicators)" for f in families]
    rows += [("families", _listed(named))] if named else []
    rows += list(written.items())
    tables.show(tables.pairs(imported.name, rows))
    for difference in imported.differences:
        said = f"in ASTRA-sim {difference.there}; here {difference.here}"
        print(f"differs: {difference.what}: {said}", file=sys.stderr)
    for assumption in imported.assumptions:
        print(f"assumed: {assumption}", file=sys.stderr)
    print(f"run it with: syncline run {written['experiment']}", file=sys.stderr)


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_CLASSES
    return ", ".join(names[:MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")
