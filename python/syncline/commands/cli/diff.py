"""`syncline diff`: where the time of two runs differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncline.base import outputs, progress_display
from syncline.base.clock import Clock
from syncline.commands.api import differences
from syncline.commands.api.arguments import FLAGS
from syncline.commands.api.differences import duration_of, title
from syncline.commands.cli import explain, layout, options, tables
from syncline.report import differences as page
from syncline.results import entries as results
from syncline.results import rundir
from syncline.studies.reasons import said

if TYPE_CHECKING:
    from rich.table import Table

BAR: Final = 16
"""Characters of the longest bar."""

HELP: Final = "The directory of a run, an experiment file, or a study's name."
A = Annotated[str, typer.Argument(metavar="A", help=HELP)]
B = Annotated[str, typer.Argument(metavar="B", help=HELP)]
System = Annotated[
    list[str] | None,
    typer.Option("--system", metavar="NAME[=NAME]", help="Compare this system of A with that of B of this name."),
]


def diff(
    a: A,
    b: B,
    set_: options.Set = None,
    system: System = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with the waterfall.")] = None,
    json: options.AsJson = False,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Say where the time of two runs differs: an iteration of A, step by step, becomes one of B.

    \b
      syncline diff runs/before runs/after
      syncline diff runs/resnet50 runs/resnet50 --system BaselineCommOpt=ACE
      syncline diff my.yaml other.yaml --html diff.html

    Systems of equal names are compared. Experiments are simulated, with the settings of --set, which change no
    finished run. Steps add up exactly.
    """
    began = Clock()
    watch = progress_display.shown(quiet=quiet)
    problems = options.common_problems(threads=threads, seed=seed)
    settings = options.settings(set_, (), problems, seed=seed, threads=threads)
    names = system or []
    outputs.check(html, outputs.PAGE, "--html")
    are_runs = [rundir.is_meant(source) for source in (a, b)]
    first, second = (
        explain.subject_of(
            "AB"[side],
            source,
            differences.of_side(settings, are_runs, side),
            set_,
            differences.wanted_of(names, side),
            watch,
            None,
            numbers_only=True,
        )
        for side, source in enumerate((a, b))
    )
    document = differences.compare(first, second, names, FLAGS, began)
    if html is not None:
        outputs.write(html, page.build(document), outputs.PAGE, "--html")
    if json:
        print(results.dumps(document))
    else:
        for pair in document["pairs"]:
            tables.show(_table(pair))
        for sentence in differences.unmatched(document):
            print(tables.wrapped(sentence))
    if not quiet:
        for warning in document["warnings"]:
            print(f"warning: {warning}", file=sys.stderr)
        if html is not None:
            print(f"page: {html}", file=sys.stderr)
    return 0


def _table(pair: dict[str, Any]) -> Table:
    """The steps with bars; the first and the last row are the times."""
    table = layout.table(title=title(pair))
    table.add_column("part of an iteration")
    for heading in ("A", "B", "difference"):
        table.add_column(heading, justify="right")
    table.add_column("")
    largest = max((abs(step["delta_ps"]) for step in pair["steps"]), default=0)
    for step in pair["steps"]:
        size = round(BAR * abs(step["delta_ps"]) / largest) if largest else 0
        bar = ("+" if step["delta_ps"] > 0 else "-") * size
        change = duration_of(step["delta_ps"], signed=True)
        table.add_row(said.part(step), duration_of(step["a_ps"]), duration_of(step["b_ps"]), change, bar)
    change = duration_of(pair["delta_ps"], signed=True)
    table.add_row("all", duration_of(pair["a_ps"]), duration_of(pair["b_ps"]), change, "")
    return table
