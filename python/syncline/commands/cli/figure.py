"""`syncline figure`: a published figure from simulations, drawn beside what was published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.base import progress_display
from syncline.commands.api import arguments, drawing
from syncline.commands.cli import complete, options, tables
from syncline.experiment import packaged as studies
from syncline.results import entries as results
from syncline.studies.figures.read import load
from syncline.studies.figures.values import Shown

if TYPE_CHECKING:
    from syncline.commands.api.drawing import Work
    from syncline.studies.figures.file import FigureFile
    from syncline.studies.figures.timeline import Track

Out = Annotated[Path, typer.Option(metavar="DIR", help="The directory for the figure, its numbers and its sweeps.")]


def figure(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE", help="A figure file, or the name of a packaged figure.", autocompletion=complete.figures
        ),
    ],
    out: Out = Path("figures"),
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="column|page",
            help="Make the figure as wide as a column of a paper (3.3 inches) or as its page (7 inches), without "
            "a title.",
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Simulate what a figure shows, and draw it beside the published values.

    \b
      syncline figure ace/fig11
      syncline figure ace/fig9a --out figures --threads 2
      syncline figure my.figure.yaml --json
      syncline figure ace/fig11 --paper column

    Writes NAME.svg, NAME.png, NAME.pdf, NAME.html and NAME.csv (the numbers that are shown) into the directory, and the
    table and the journal of each sweep. Simulations in the journal are not run again.
    """
    problems = [
        *options.common_problems(threads=threads, seed=seed),
        *drawing.paper_problems(paper, arguments.FLAGS),
    ]
    described = drawing.on_paper(options.load(problems, None, lambda _: _read(file)), paper)
    work = drawing.Work(described, out, arguments.Settings(seed=seed, threads=threads, problems=tuple(problems)))
    work.quiet, work.of_command = quiet, True
    finished = drawing.run(work, watch=progress_display.shown(quiet=quiet))
    if finished is None:
        print("interrupted; what is finished is kept, and the same command goes on there", file=sys.stderr)
        return 130
    if not quiet:
        for remark in finished.remarks:
            print(f"warning: {remark}", file=sys.stderr)
    _print(work, finished.panels, finished.document, json=json, quiet=quiet)
    return 1 if finished.document["failed"] else 0


def _read(file: str) -> FigureFile:
    return load(*studies.find_figure(file))


def _print(work: Work, panels: list[Shown | Track], document: dict[str, Any], *, json: bool, quiet: bool) -> None:
    if json:
        print(results.dumps(document))
    else:
        for shown in panels:
            if isinstance(shown, Shown):
                tables.show(*tables.panel(shown))
    for failure in document["failed"]:
        print(f"{failure['name']}, {failure['variant']}: {failure['status']}: {failure['error']}", file=sys.stderr)
    if not quiet:
        print(f"figure: {work.out / work.described.figure.name}.html (.svg, .png, .pdf, .csv)", file=sys.stderr)
