"""`syncline explain`: why a run takes as long as it does, and what would help."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncline.base import progress_display
from syncline.base.errors import InputError
from syncline.base.text_units import duration, percent
from syncline.commands.api import explaining
from syncline.commands.api.arguments import FLAGS
from syncline.commands.cli import layout, options, tables
from syncline.experiment import packaged as studies
from syncline.experiment.load import load_file
from syncline.results import entries as results
from syncline.results import rundir
from syncline.studies.reasons import said

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.base.progress import Watch
    from syncline.commands.api.explaining import Subject
    from syncline.commands.api.simulate import Warn

SHOWN: Final = 10
"""Parts of a path and reruns that the terminal shows; the document has all."""
LEAST_SHARE: Final = 0.0005

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="The directory of a run, an experiment file, or a study's name."),
]
System = Annotated[
    list[str] | None, typer.Option("--system", metavar="NAME", help="Explain this system; all of them by default.")
]


def explain(
    source: Source,
    set_: options.Set = None,
    system: System = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="Whether to run it again with one thing changed at a time.")
    ] = True,
    json: options.AsJson = False,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Say why a run takes as long as it does, what limits it, and what would help.

    \b
      syncline explain examples/compare-endpoints.yaml
      syncline explain runs/resnet50 --system ACE
      syncline explain ace/resnet50 --no-what-if --json

    Runs the experiment, and again with twice the link rate, half the latency, twice the chunks in flight, other
    algorithms and so on; each with the settings that repeat it. Of a run's directory, the answer is kept there as
    explain.json, and is in its report.
    """
    watch = progress_display.shown(quiet=quiet)

    def warn(text: str | None) -> None:
        options.warn(text, quiet=quiet)

    problems = options.common_problems(threads=threads, seed=seed)
    settings = options.settings(set_, (), problems, seed=seed, threads=threads)
    subject = subject_of("SOURCE", source, settings, set_, system or (), watch, warn)
    explained = explaining.explain(subject, what_if=what_if, watch=watch, warn=warn)
    if json:
        print(results.dumps(explained.document))
    else:
        for entry in explained.document["systems"]:
            _print(entry)
    kept = explaining.keep(explained)
    if not quiet:
        for warning in explained.document["warnings"]:
            print(f"warning: {warning}", file=sys.stderr)
        if kept is not None:
            print(f"kept: {kept}", file=sys.stderr)
    if not explained.is_complete:
        print("interrupted; what was run until then counts", file=sys.stderr)
        return 130
    return 0


def subject_of(
    argument: str,
    source: str,
    settings: Any,
    given: list[str] | None,
    systems: Any,
    watch: Watch | None,
    warn: Warn | None,
    *,
    numbers_only: bool = False,
) -> Subject:
    """The run of a directory, or of an experiment that is simulated for this; `argument` is what gives it. With
    `numbers_only`, a directory need not have its experiment. Raises [`InputError`] with everything that is wrong.
    """
    from dataclasses import replace
    from pathlib import Path

    if rundir.is_meant(source):
        return explaining.of_directory(Path(source), systems, FLAGS, settings, watch=watch, numbers_only=numbers_only)
    try:
        path, label = studies.find(source)
    except InputError as error:
        raise InputError(
            replace(problem, field=argument, accepted=f"the directory of a run, {problem.accepted}")
            for problem in error.problems
        ) from None
    return explaining.of_experiment(
        lambda *changes: load_file(path, label, *changes),
        settings,
        explaining.Written(source, given or ()),
        systems,
        FLAGS,
        watch=watch,
        warn=warn,
    )


def _print(entry: dict[str, Any]) -> None:
    tables.show(_path(entry))
    print(tables.wrapped(said.resources(entry)))
    print(tables.wrapped(f"{entry['name']}: {said.limit(entry)}."))
    for remark in said.remarks(entry):
        print(tables.wrapped(remark))
    if entry["what_if"] is None:
        return
    helpful = said.helpful(entry)
    if helpful:
        tables.show(_reruns(entry, helpful[:SHOWN]))
        print("To repeat one, add its settings:")
        for number, rerun in enumerate(helpful[:SHOWN], start=1):
            flags = " ".join(f"--set {shlex.quote(text)}" for text in rerun["set"])
            print(f"  {number}. {flags}")
    for sentence in said.others(entry):
        print(tables.wrapped(sentence))


def _path(entry: dict[str, Any]) -> Table:
    time = duration(entry["iteration_time_s"])
    title = f"{entry['name']}: {time}{' an iteration' if entry['iterations'] else ''}, by its critical path"
    table = layout.table(title=title)
    table.add_column("part")
    for heading in ("time", "share", "links busy"):
        table.add_column(heading, justify="right")
    parts = entry["critical_path"]
    shown = [part for part in parts[:SHOWN] if (part["share"] or 0) >= LEAST_SHARE]
    for part in shown:
        busy = part["links_busy_share"]
        table.add_row(
            said.part(part), duration(part["time_s"]), percent(part["share"]), "" if busy is None else percent(busy)
        )
    rest = [part for part in parts if part not in shown]
    if rest:
        time_s, share = (sum(part[key] or 0 for part in rest) for key in ("time_s", "share"))
        table.add_row(f"{len(rest)} more", duration(time_s), percent(share), "")
    return table


def _reruns(entry: dict[str, Any], reruns: list[Any]) -> Table:
    table = layout.table(title="what would help")
    for heading, justify in (("", "right"), ("change", "left"), ("iteration", "right"), ("saves", "right")):
        is_single = heading == "iteration" and not entry["iterations"]
        table.add_column("time" if is_single else heading, justify=justify)  # type: ignore[arg-type]
    for number, rerun in enumerate(reruns, start=1):
        table.add_row(f"{number}.", rerun["change"], duration(rerun["iteration_time_s"]), percent(rerun["gain"]))
    return table
