"""`syncline run` and `syncline check`: an experiment file and its variants."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.cli import options

if TYPE_CHECKING:
    from syncline.engine import Prepared
    from syncline.errors import Problem
    from syncline.preview import Preview
    from syncline.results import Document
    from syncline.rundir import RunDirectory
    from syncline.runner import Outcome, Outcomes
    from syncline.schema.load import Study
    from syncline.schema.merge import Override

Experiment = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="An experiment file, or a study's name.")]


def run(
    experiment: Experiment,
    set_: options.Set = None,
    out: Annotated[Path | None, typer.Option(help="Write tables, traces and a report into this directory.")] = None,
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
      syncline run my.yaml --set training.iterations=4 --set variants.SMs.npu.sms=40
      syncline run my.yaml --backend analytical --json > result.json
      syncline run my.yaml --pcap "npu 0" --pcap "switch 0" --out runs/captured

    Flags such as --chunk apply to every variant. --set changes the file, so variants can override it.
    """
    problems = options.common_problems(threads=threads, seed=seed)
    if pcap and out is None:
        from syncline.errors import command_line

        message = "captures need a directory to be written to"
        problems += command_line("--pcap", pcap[0], message, "--pcap PORT with --out DIR").problems
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
    study, looks = _load(experiment, set_, forced, problems, seed=seed, baseline=baseline, quiet=quiet)

    from syncline import estimate, memory, runner
    from syncline.rundir import RunDirectory

    directory = None if out is None else RunDirectory(out, study, _command(), seed)
    if directory is not None:
        directory.check()
    expected = [estimate.of_variant(variant, *look) for variant, look in zip(study.variants, looks, strict=True)]
    for variant, each in zip(study.variants, expected, strict=True):
        options.warn(estimate.warning(variant.name, each), quiet=quiet)
    threads = memory.at_once(threads, (each.memory_bytes for each in expected))
    began = time.monotonic()
    prepared = [kept for _, kept in looks]
    outcomes = runner.run_all(study.variants, threads, _saver(directory), steady=True, prepared=prepared)
    document = _document(study, outcomes, seed, time.monotonic() - began)
    if directory is not None and outcomes.refused and not outcomes.results:
        directory.leave()
    elif directory is not None:
        directory.close(document, {variant.name: result.tables for variant, result in outcomes.results})
    outcomes.raise_if_refused()
    if json or outcomes.results or not outcomes.interrupted:
        _print(document, directory, json=json, quiet=quiet, verbose=verbose)
    for name, message in outcomes.failures:
        print(f"{name}: the simulation failed: {message}", file=sys.stderr)
    if outcomes.interrupted:
        print(f"interrupted; {len(outcomes.results)} of {len(study.variants)} variants are finished", file=sys.stderr)
        return 130
    return 1 if outcomes.failures else 0


def check(
    experiment: Experiment,
    set_: options.Set = None,
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
    forced = options.forced(
        chunk=chunk,
        inflight=inflight,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fold=fold,
        padding=padding,
    )
    study, looks = _load(experiment, set_, forced, problems, seed=seed)

    from dataclasses import asdict

    from syncline import estimate, results

    named = [(variant, preview) for variant, (preview, _) in zip(study.variants, looks, strict=True)]
    looked_at = zip(study.variants, looks, strict=True)
    estimates = [(variant.name, estimate.of_variant(variant, *look)) for variant, look in looked_at]
    warnings = [*study.warnings, *(f"{v.name}: {warning}" for v, preview in named for warning in preview.warnings)]
    warnings += filter(None, (estimate.warning(name, expected) for name, expected in estimates))
    seen = {variant.name: asdict(preview) for variant, preview in named}
    document = results.document(study.variants, seed=seed, status="complete", warnings=warnings, seen=seen)
    document["estimates"] = [{"name": name, **e.as_document()} for name, e in estimates]
    if json:
        print(results.dumps(document))
        return 0

    from syncline.cli import choices, tables

    tables.show(tables.estimates(estimates))
    chosen = [{"name": variant.name, **results.algorithm(variant)} for variant in study.variants]
    for sentence in choices.sentences(chosen, named=len(chosen) > 1):
        print(sentence)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _load(
    experiment: str,
    settings: Sequence[str] | None,
    forced: Sequence[Override],
    problems: Sequence[Problem],
    *,
    seed: int,
    baseline: str | None = None,
    quiet: bool = False,
) -> tuple[Study, list[tuple[Preview, Prepared | None]]]:
    """The study, with algorithms chosen where that was left open, and what simulating its variants will be. One that is
    alone has been set up to be run; several would take the memory of all of their runs.
    """
    from syncline import studies
    from syncline.schema.load import load_file

    def read(overrides: Sequence[Override]) -> Study:
        path, label = studies.find(experiment)
        named = [] if baseline is None else [options.baseline_override(baseline)]
        return load_file(path, label, [*overrides, *named], forced)

    study = options.load(problems, settings, read)

    from dataclasses import replace

    from syncline import engine, estimate, runner

    runner.quiet = quiet
    study = options.settled(study.seeded(seed))
    looks: list[tuple[Preview, Prepared | None]]
    if len(study.variants) == 1:
        looks = [engine.prepare(study.variants[0], steady=True)]
    else:
        looks = [(preview, None) for preview in engine.check(study.variants)]
    looked_at = zip(study.variants, looks, strict=True)
    too_large = filter(None, (estimate.memory_warning(v.name, v.experiment, preview) for v, (preview, _) in looked_at))
    return replace(study, warnings=(*study.warnings, *too_large)), looks


def _saver(directory: RunDirectory | None) -> Callable[[Outcome], None]:
    def save(outcome: Outcome) -> None:
        if directory is not None and outcome.result is not None:
            directory.add(outcome.variant, outcome.result)

    return save


def _document(study: Study, outcomes: Outcomes, seed: int, wall_time_s: float) -> Document:
    from syncline import comparison, ideal_bound, results
    from syncline.networks import background, captures

    complete = len(outcomes.results) == len(study.variants)
    warnings = list(study.warnings)
    for variant, result in outcomes.results:
        found = [*result.summary["warnings"], *captures.notes_of(result.tables), *background.notes_of(result.tables)]
        warnings += [f"{variant.name}: {warning}" for warning in found]
    status = "complete" if complete else "partial"
    seen = {variant.name: result.summary for variant, result in outcomes.results}
    document = results.document(study.variants, seed=seed, status=status, warnings=warnings, seen=seen)
    document["name"] = study.name
    document["description"] = study.description
    document["runs"] = [results.run_entry(variant, result) for variant, result in outcomes.results]
    comparison.compare(document, [variant.name for variant in study.variants], study.baseline)
    document["warnings"] += ideal_bound.warnings(document, study.variants)
    document["failed"] = [{"name": name, "message": message} for name, message in outcomes.failures]
    document["cost"] = results.cost(wall_time_s, [result for _, result in outcomes.results])
    return document


def _print(document: Document, directory: RunDirectory | None, *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        from syncline import results

        print(results.dumps(document))
    else:
        from syncline.cli import choices, tables

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
