"""`syncline export-trace`: the graph of a run as Chakra execution traces, or the run itself as profiles of PyTorch or
as a timeline for viewers.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from syncline.commands.api import sources, timelines, trace_exports
from syncline.commands.cli import complete, options
from syncline.results import entries as results


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
    settings = options.settings(set_, (), options.common_problems(seed=seed), seed=seed)
    asked = trace_exports.Asked(format_, variant, npus, tuple(overlay or ()))
    exported = trace_exports.write(partial(sources.read_file, experiment), asked, settings, out)
    if json:
        print(results.dumps(exported.document))
    if json or quiet:
        return 0
    if exported.format in timelines.FORMATS:
        for of in exported.overlaid:
            print(of.sentence(), file=sys.stderr)
        path = exported.folder / exported.files[0]
        print(f"{exported.format}: {path}, {exported.size:,} bytes; open it at ui.perfetto.dev", file=sys.stderr)
        return 0
    for warning in exported.document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    said = f"{len(exported.files):,} files, {exported.size:,} bytes, in {exported.folder}"
    print(f"{exported.format}: {said}", file=sys.stderr)
    again = f"syncline import {exported.format} {exported.folder / exported.name} --like {experiment}"
    print(f"read them again with: {again}", file=sys.stderr)
    return 0
