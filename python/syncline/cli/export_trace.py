"""`syncline export-trace`: the graph of a run as Chakra execution traces, or the run itself as profiles of PyTorch or
as a timeline for viewers.
"""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncline.cli import complete, export_timeline, options

if TYPE_CHECKING:
    from syncline.schema.experiment import Experiment
    from syncline.schema.load import Variant

FORMATS: Final = ("chakra", "kineto", "chrome", "perfetto")
MOST_FILES: Final = 65_536
MOST_TRACED: Final = 64
GROUPS: Final = "groups.json"


def export_trace(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="An experiment file, or a study's name.", autocompletion=complete.experiments
        ),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="chakra|kineto|chrome|perfetto",
            help="Execution traces of what NPUs are to do; or of a simulation profiles, or a timeline for viewers. By "
            "default what the suffix of --out says: chrome of .json and .json.gz, perfetto of .pftrace and "
            ".perfetto-trace, chakra otherwise.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="PATH",
            help="The folder, or the file of chrome and perfetto; by default one named like the run.",
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="The variant; needed where the experiment has several.")
    ] = None,
    npus: Annotated[
        str | None,
        typer.Option(
            metavar="0-7",
            help="kineto: the NPUs whose profiles are written, by default the first 64. chrome, perfetto: those that "
            "are shown, by default those of output.trace_npus.",
        ),
    ] = None,
    overlay: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES",
            help="chrome, perfetto: measured profiles of PyTorch (a file, a folder, or a prefix of PREFIX.N.json), "
            "whose ranks are shown next to the NPUs of their numbers.",
        ),
    ] = None,
    set_: options.Set = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Write what NPUs do in an experiment as traces that other programs read.

    \b
      syncline export-trace my.yaml -o traces                   traces/NAME.N.et for each NPU N, traces/groups.json
      syncline export-trace my.yaml --format kineto -o profiles  profiles/NAME.N.json for the first 64 NPUs
      syncline export-trace my.yaml -o my.pftrace               a timeline for Perfetto
      syncline export-trace my.yaml -o both.pftrace --overlay measured/rank
      syncline import chakra traces/NAME --like my.yaml -o again

    chakra writes execution traces (Protocol Buffers) of all iterations and, where there are several, the communicators
    in the form of ASTRA-sim. Imported again they run to the same times. kineto simulates the experiment and writes its
    timeline as PyTorch's profiler would, for Holistic Trace Analysis. chrome and perfetto write it for viewers, with
    the messages and the links of NPUs.
    """
    began = time.monotonic()
    from syncline.errors import command_line, did_you_mean, one_of

    problems = options.common_problems(seed=seed)
    if format_ is None:
        format_ = _format_of(out, overlay)
    if format_ not in FORMATS:
        message = f"this format is not known{did_you_mean(format_, FORMATS)}"
        problems += command_line("--format", format_, message, one_of(FORMATS)).problems
    if npus is not None and format_ == "chakra":
        accepted = "--format kineto, chrome or perfetto"
        problems += command_line("--npus", npus, "traces are written for all NPUs", accepted).problems
    if overlay and format_ not in export_timeline.FORMATS:
        message = "profiles are shown beside a timeline"
        problems += command_line("--overlay", overlay[0], message, "--format chrome or perfetto").problems
    chosen = _variant(experiment, variant, set_, problems, seed)
    name = "".join(c if c.isalnum() or c in "_-+" else "-" for c in chosen.name)
    if format_ in export_timeline.FORMATS:
        suffix = export_timeline.suffix(format_, out)
        path = Path(f"{name}{suffix}") if out is None else out
        traced = None if npus is None else _traced(chosen, npus)
        written = export_timeline.write(chosen, traced, overlay or [], path, suffix)
        _say_timeline(chosen, format_, written, began, json=json, quiet=quiet)
        return 0

    warnings: list[str] = []
    files = _chakra(chosen, warnings) if format_ == "chakra" else _kineto(chosen, _traced(chosen, npus))
    folder = Path(name) if out is None else out
    contents = [(f"{name}.{suffix}" if suffix != GROUPS else suffix, content) for suffix, content in files]

    from syncline import rundir

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in contents:
            rundir.write(folder / file, content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("--out", str(folder), f"this cannot be written: {reason}") from None
    if json:
        _print_document(chosen, format_, folder, [file for file, _ in contents], warnings, began)
    elif not quiet:
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        total = sum(len(content) for _, content in contents)
        print(f"{format_}: {len(contents):,} files, {total:,} bytes, in {folder}", file=sys.stderr)
        prefix = folder / name
        again = f"syncline import {format_} {prefix} --like {experiment}"
        print(f"read them again with: {again}", file=sys.stderr)
    return 0


def _format_of(out: Path | None, overlay: Sequence[str] | None) -> str:
    """The format that the name of the file stands for."""
    from syncline.report import traces

    suffix = None if out is None or out.is_dir() else traces.suffix_of(out.name)
    if suffix is None:
        return "perfetto" if overlay and out is None else "chakra"
    return "perfetto" if suffix in traces.PERFETTO else "chrome"


def _say_timeline(
    variant: Variant, format_: str, written: export_timeline.Written, began: float, *, json: bool, quiet: bool
) -> None:
    """Says what was written, and what was matched with measured profiles."""
    if json:
        more = {"overlay": [of.document() for of in written.overlaid]} if written.overlaid else {}
        _print_document(variant, format_, written.path.parent, [written.path.name], [], began, more)
    elif not quiet:
        for of in written.overlaid:
            print(of.sentence(), file=sys.stderr)
        print(f"{format_}: {written.path}, {written.size:,} bytes; open it at ui.perfetto.dev", file=sys.stderr)


def _variant(
    experiment: str, name: str | None, settings: Sequence[str] | None, problems: Sequence[Any], seed: int
) -> Variant:
    """The variant that is exported, with its algorithm chosen."""
    from syncline import studies
    from syncline.errors import command_line, one_of
    from syncline.schema.load import load_file

    def read(overrides: Sequence[Any]) -> Any:
        path, label = studies.find(experiment)
        return load_file(path, label, overrides)

    study = options.load(problems, settings, read)
    names = [of.name for of in study.variants]
    if name is None and len(names) > 1:
        raise command_line("--variant", None, "the experiment has several variants", one_of(names))
    if name is not None and name not in names:
        raise command_line("--variant", name, "there is no such variant", one_of(names))
    found: Variant = next(of for of in options.settled(study.seeded(seed)).variants if name is None or of.name == name)
    return found


def _traced(variant: Variant, npus: str | None) -> list[int]:
    """The NPUs whose profiles are asked for."""
    from syncline.errors import command_line
    from syncline.fabric.allocation import AllocationError
    from syncline.schema.numbers import NUMBERS_ACCEPTED, numbers

    count = variant.experiment.topology.npus
    if npus is None:
        return list(range(min(count, MOST_TRACED)))
    try:
        found = list(numbers(npus, count))
    except AllocationError as error:
        raise command_line("--npus", npus, str(error), NUMBERS_ACCEPTED) from None
    if len(found) > MOST_TRACED:
        raise command_line("--npus", npus, f"these are {len(found)} NPUs", f"up to {MOST_TRACED}")
    return found


def _chakra(variant: Variant, warnings: list[str]) -> list[tuple[str, bytes]]:
    from syncline import engine
    from syncline.errors import command_line
    from syncline.importers import export_chakra

    experiment = variant.experiment
    npus = experiment.topology.npus
    if npus > MOST_FILES:
        raise command_line("EXPERIMENT", variant.name, f"traces of {npus} NPUs", f"up to {MOST_FILES}")
    listing, iterations = export_chakra.repeated(engine.listing(variant))
    families = _families(experiment, listing)
    if iterations < experiment.iterations and experiment.is_training:
        warnings.append("iterations are not alike: the traces hold all of them as one")
    if experiment.training.stragglers:
        warnings.append("traces say nothing of training.stragglers: times are those of an NPU that is none")
    if experiment.shares:
        warnings.append("times are those of NPUs that only compute; in the run, communication slows them down")
    if len(listing["families"]) == 1 and experiment.members is not None and len(experiment.grid) > 1:
        warnings.append("groups are written as lines: a graph file has no groups with a grid of their own")
    run = {
        "element": experiment.workload.element,
        "tail": experiment.tail if experiment.is_training else "drain",
        "iterations": iterations,
    }
    traces = export_chakra.traces(listing, npus, families, run)
    files = [(f"{npu}.et", traces.content(npu)) for npu in range(npus)]
    if traces.groups:
        files.append((GROUPS, (json_text.dumps(traces.groups) + "\n").encode()))
    return files


def _families(experiment: Experiment, listing: Mapping[str, Any]) -> dict[str, Any]:
    """The families of the run in the form of a graph file."""
    from syncline.importers.assemble import groups_of
    from syncline.schema.workloads import GraphWorkload, JobsWorkload
    from syncline.topology import Topology

    if isinstance(experiment.workload, GraphWorkload):
        graph = experiment.workload.file.graph
        return {
            name: family.model_dump(mode="json", exclude_defaults=True, by_alias=True)
            for name, family in graph.families.items()
        }
    found: dict[str, Any] = {}
    is_product = isinstance(experiment.topology, Topology) and experiment.members is None
    sizes = experiment.grid if is_product else []
    for family in listing["families"]:
        members: dict[str, Any] = {"groups": family["groups"]}
        if len(sizes) > 1:
            # Communicators along dimensions use their rings in both directions.
            wanted = sorted(tuple(group) for group in family["groups"])
            for mask in range(1, 2 ** min(len(sizes), 8)):
                grid = {"grid": list(sizes), "along": [dim for dim in range(len(sizes)) if mask >> dim & 1]}
                if sorted(groups_of({"members": grid})) == wanted:
                    members = grid
                    break
        found[family["name"]] = {"members": members}
    for name, settings in experiment.parallel.collectives.items():
        if name in found:
            found[name]["collective"] = dict(settings)
    if isinstance(experiment.workload, JobsWorkload):
        for job in experiment.workload.jobs:
            for part in ("all", "model", "data") if job.collective else ():
                if f"{job.name} {part}" in found:
                    found[f"{job.name} {part}"]["collective"] = job.collective
    return found


def _kineto(variant: Variant, traced: list[int]) -> list[tuple[str, bytes]]:
    from dataclasses import replace

    from syncline import engine
    from syncline.importers import export_kineto

    experiment = variant.experiment
    listing = engine.listing(variant)
    output = experiment.output.model_copy(update={"trace_npus": traced, "trace_limit": 10_000_000})
    result = engine.run(replace(variant, experiment=experiment.model_copy(update={"output": output})))
    rows = result.tables["slices"].to_pylist()
    npus, element = experiment.topology.npus, experiment.workload.element
    found = export_kineto.profiles(listing, rows, npus, element, variant.name)
    return [(f"{npu}.json", content) for npu, content in found.items()]


def _print_document(
    variant: Variant,
    format_: str,
    folder: Path,
    files: list[str],
    warnings: list[str],
    began: float,
    more: Mapping[str, Any] = {},
) -> None:
    from syncline import results

    document = {
        **results.versions(),
        "status": "complete",
        "seed": variant.seed,
        "assumptions": [],
        "warnings": warnings,
        "fidelity": {"backend": variant.experiment.network.backend},
        "format": format_,
        "name": variant.name,
        "npus": variant.experiment.topology.npus,
        "folder": str(folder),
        "files": files,
        **more,
        "cost": results.cost(time.monotonic() - began, []),
    }
    print(results.dumps(document))
