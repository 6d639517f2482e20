"""`syncline run` and `syncline check`: an experiment file and its variants."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.base import progress_display
from syncline.base.errors import Problem, command_line, did_you_mean, one_of
from syncline.commands.api import simulate, sources
from syncline.commands.cli import choices, options, output, tables
from syncline.commands.cli.check import Experiment
from syncline.report import run as report
from syncline.results import entries as results
from syncline.results import parquet, traces
from syncline.results.rundir import RunDirectory
from syncline.studies import command_tables

if TYPE_CHECKING:
    from syncline.experiment.load import Study
    from syncline.results.entries import Document


def run(
    experiment: Experiment,
    set_: options.Set = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR|FILE",
            help="Write tables, traces and a report into this directory; or, into FILE.parquet, .csv or .json, a row "
            "for each system.",
        ),
    ] = None,
    trace: options.TraceFormat = None,
    json: options.AsJson = False,
    threads: options.Threads = None,
    pcap: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PORT",
            help="Capture what leaves by a port of an ethernet network into the directory of --out: npu N or switch N "
            'for all of its ports, or "npu N: PORT".',
        ),
    ] = None,
    seed: options.Seed = 0,
    fold: options.Fold = None,
    padding: options.Padding = None,
    chunk: options.Chunk = None,
    inflight: options.Inflight = None,
    endpoint: options.Endpoint = None,
    algorithm: options.Algorithm = None,
    backend: options.Backend = None,
    baseline: options.Baseline = None,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Run an experiment, and compare its variants.

    \b
      syncline run ace/resnet50 --out runs/resnet50
      syncline run ace/resnet50 --out runs/resnet50 --trace pftrace
      syncline run my.yaml --set training.iterations=4 --set variants.SMs.npu.sms=40
      syncline run my.yaml --backend analytical --json > result.json
      syncline run my.yaml --out systems.csv
      syncline run my.yaml --pcap "npu 0" --pcap "switch 0" --out runs/captured

    Flags such as --chunk apply to every variant. --set changes the file, so variants can override it.
    """
    problems = options.common_problems(threads=threads, seed=seed)
    problems += _no_table(out)
    table, folder = (out, None) if out is not None and _is_table(out) else (None, out)
    output.check(table, "run", problems)
    if pcap and folder is None:
        message = "captures need a directory to be written to"
        problems += command_line("--pcap", pcap[0], message, "--pcap PORT with --out DIR").problems
    trace_format = _trace_format(trace, folder, problems)
    forced = options.forced(
        chunk=chunk,
        inflight=inflight,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fold=fold,
        padding=padding,
        pcap=pcap,
    )
    settings = options.settings(set_, forced, problems, seed=seed, threads=threads, baseline=baseline)

    def to(study: Study) -> RunDirectory:
        assert folder is not None
        return RunDirectory(folder, study, _command(), seed, report.page, trace_format)

    finished = simulate.run(
        lambda *changes: sources.read_file(experiment, *changes),
        settings,
        None if folder is None else to,
        watch=progress_display.shown(quiet=quiet),
        warn=lambda warning: options.warn(warning, quiet=quiet),
    )
    outcomes = finished.outcomes
    if json or outcomes.results or not outcomes.interrupted:
        written = None if finished.unwritten is not None else finished.directory
        _print(finished.document, written, json=json, quiet=quiet, verbose=verbose)
        output.write(table, "run", finished.document, quiet=quiet)
    for name, message in outcomes.failures:
        print(f"{name}: the simulation failed: {message}", file=sys.stderr)
    if outcomes.interrupted and finished.unwritten is None:
        whole = len(finished.study.variants)
        print(f"interrupted; {len(outcomes.results)} of {whole} variants are finished", file=sys.stderr)
        return 130
    if finished.unwritten is not None:
        raise finished.unwritten
    return 1 if outcomes.failures else 0


def _no_table(out: Path | None) -> list[Problem]:
    """What is wrong with a name that is one of a file in a format that is not written."""
    if out is None or out.suffix not in command_tables.OTHERS or out.is_dir():
        return []
    files = one_of(f"FILE{suffix}" for suffix in parquet.FORMATS)
    message = f"the suffix {out.suffix} is not that of a format"
    return list(command_line("--out", str(out), message, f"{files}, or a directory").problems)


def _is_table(out: Path) -> bool:
    """Whether this is a file for a table: by its suffix, unless there is a directory of the name."""
    return out.suffix in parquet.FORMATS and not out.is_dir()


def _print(document: Document, directory: RunDirectory | None, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        print(results.dumps(document))
    else:
        for table in tables.runs(document):
            tables.show(table)
        for line in tables.npus(document):
            print(line)
        several = len(document["runs"]) > 1
        for sentence in (
            *choices.sentences(document["runs"], named=several),
            *choices.of_timeouts(document["runs"], named=several),
        ):
            print(sentence)
        costs = tables.costs(document)
        if costs is not None:
            tables.show(costs)
        for note in (*tables.steady(document), tables.drains(document)):
            if note is not None:
                print(tables.wrapped(note))
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if verbose:
        for assumption in document["assumptions"]:
            print(f"assumed: {assumption}", file=sys.stderr)
    elif not json:
        print(f"{len(document['assumptions'])} assumptions are in force (-v lists them)", file=sys.stderr)
    if directory is not None:
        print(f"report: {directory.path / 'report.html'}", file=sys.stderr)


def _command() -> str:
    return shlex.join(["syncline", *sys.argv[1:]])


def _trace_format(given: str | None, out: Path | None, problems: list[Problem]) -> str:
    """The suffix of traces that a flag asks for; what is wrong with it is added to `problems`."""
    suffix = f".{(given or traces.DEFAULT).removeprefix('.')}"
    if suffix not in traces.SUFFIXES:
        names = [name.removeprefix(".") for name in traces.SUFFIXES]
        message = f"this format of traces is not known{did_you_mean(suffix[1:], names)}"
        problems += command_line("--trace", given, message, one_of(names)).problems
    elif given is not None and out is None:
        message = "traces need a directory to be written to"
        problems += command_line("--trace", given, message, "--trace FORMAT with --out DIR").problems
    return suffix
