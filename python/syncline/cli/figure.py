"""`syncline figure`: a published figure from simulations, drawn beside what was published."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.api import arguments
from syncline.cli import complete, options

if TYPE_CHECKING:
    from syncline.engine import Result
    from syncline.errors import Problem
    from syncline.figures.draw import Drawn
    from syncline.figures.file import FigureFile
    from syncline.figures.runs import Run
    from syncline.figures.timeline import Track
    from syncline.figures.values import Shown
    from syncline.schema.load import Variant
    from syncline.sweeps.points import Simulation
    from syncline.sweeps.table import Table

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
    from syncline.errors import InputError
    from syncline.figures.file import PAPER

    problems = options.common_problems(threads=threads, seed=seed)
    began = time.monotonic()
    if paper is not None and paper not in PAPER:
        from syncline.errors import command_line, one_of

        problems += command_line("--paper", paper, "there is no such width", one_of(PAPER)).problems
    described = options.load(problems, None, lambda _: _read(file))
    if paper is not None:
        described = replace(described, figure=described.figure.model_copy(update={"paper": paper}))
    work = _Work(described, out, threads, seed, quiet=quiet)
    try:
        work.prepare()
    except InputError as error:
        raise InputError([*problems, *error.problems]) from None
    if not work.simulate():
        print("interrupted; what is finished is kept, and the same command goes on there", file=sys.stderr)
        return 130
    panels = work.panels()
    document = _document(work, panels, seed)
    _write(work, panels, document)
    document["cost"] = {"wall_time_s": round(time.monotonic() - began, 6)}
    _print(work, panels, document, json=json, quiet=quiet)
    return 1 if document["failed"] else 0


def _read(file: str) -> FigureFile:
    from syncline import studies
    from syncline.figures.file import load

    return load(*studies.find_figure(file))


class _Work:
    """The simulations of a figure."""

    def __init__(self, described: FigureFile, out: Path, threads: int | None, seed: int, *, quiet: bool) -> None:
        self.described = described
        self.out = out
        self.threads = threads
        self.seed = seed
        self.quiet = quiet
        self.sweeps: list[tuple[str, list[Simulation]]] = []
        self.tables: list[Table] = []
        self.runs: dict[Run, Variant] = {}
        self.results: dict[Run, Result] = {}
        self.warnings: list[str] = []

    def prepare(self) -> None:
        """Reads all sweeps and experiments, and makes the directory. Raises [`InputError`]."""
        from syncline import studies
        from syncline.errors import InputError, command_line
        from syncline.figures import closed_form, runs
        from syncline.sweeps import points
        from syncline.sweeps.file import load
        from syncline.sweeps.progress import Checked

        problems: list[Problem] = []
        for i, name in enumerate(self.described.figure.sweeps):
            try:
                path, label = studies.find_sweep(name, self.described.folder)
            except InputError as error:
                problem = error.problems[0]
                problems.append(self.described.problem(("sweeps", i), problem.message, problem.accepted))
                continue
            try:
                sweep = load(path, label)
                simulations, warnings = points.simulations(sweep, Checked(sweep.points, quiet=self.quiet), self.seed)
                self.sweeps.append((sweep.name, simulations))
                self.warnings += warnings
            except InputError as error:
                problems += error.problems
        self.runs = arguments.collected(problems, lambda: runs.variants(self.described, self.seed)) or {}
        self.tables = arguments.collected(problems, lambda: closed_form.tables(self.described)) or []
        if wrong := self._directory():
            problems += command_line("--out", str(self.out), wrong, "a directory, or the name of a new one").problems
        if problems:
            raise InputError(problems)

    def _directory(self) -> str | None:
        """Makes the directory; says what is wrong with it."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            return "this is not a directory"
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"this directory cannot be made: {reason}"
        return None if os.access(self.out, os.W_OK | os.X_OK) else "this directory cannot be written to"

    def simulate(self) -> bool:
        """Runs what is not finished; false if interrupted."""
        from syncline import engine, estimate, progress_display, runner
        from syncline.sweeps import journal, table
        from syncline.sweeps import run as sweeps

        for name, simulations in self.sweeps:
            path = self.out / f"{name}.parquet"
            kept = journal.Journal.open(journal.beside(path), resume=True)
            with sweeps.keeping(kept, "the same command"):
                entries, interrupted = sweeps.simulate(simulations, kept, self.threads, quiet=self.quiet)
                found = table.of(simulations, entries)
                sweeps.write(path, found, name, found.status(len(simulations)))
            if interrupted:
                return False
            self.tables.append(found)
        each = [estimate.of(v.experiment, engine.preview(v)).time_s for v in self.runs.values()]
        options.warn(estimate.warning_of_many("the runs of the figure", each, self.threads), quiet=self.quiet)
        try:
            tasks = [(f"{run} {name}", partial(_one, (run, name), v)) for (run, name), v in self.runs.items()]
            self.results |= dict(runner.concurrently(tasks, self.threads, progress_display.shown(quiet=self.quiet)))
        except KeyboardInterrupt:
            return False
        return True

    def panels(self) -> list[Shown | Track]:
        """The numbers of every panel. Raises [`InputError`] with everything that cannot be shown."""
        from syncline.errors import InputError
        from syncline.figures import layers, timeline, values
        from syncline.figures.file import Layers, Timeline

        shown: list[Shown | Track] = []
        problems: list[Problem] = []
        for i, panel in enumerate(self.described.figure.panels):
            try:
                if isinstance(panel, Timeline):
                    shown.append(timeline.of(self.described, i, panel, self.results[panel.run, panel.variant]))
                elif isinstance(panel, Layers):
                    each = {name: self.results[panel.run, name] for name in panel.variants}
                    shown.append(layers.of(self.described, i, panel, each))
                else:
                    shown.append(values.of(self.described, i, panel, self.tables))
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)
        return shown


def _one(key: Run, variant: Variant) -> tuple[Run, Result]:
    from syncline import engine

    return key, engine.run(variant)


def _document(work: _Work, panels: list[Shown | Track], seed: int) -> dict[str, Any]:
    from syncline import comparison, results
    from syncline.figures.timeline import Track

    variants = [s.variant for _, simulations in work.sweeps for s in simulations]
    variants += list(work.runs.values())
    rows = [row for found in work.tables for row in found.rows]
    warnings = list(dict.fromkeys([*work.warnings, *(row["warnings"] for row in rows if row.get("warnings"))]))
    for found in work.tables:
        warnings += [warning for warning in comparison.beaten_in_sweep(found.rows) if warning not in warnings]
    failed = [{k: row[k] for k in ("name", "variant", "status", "error")} for row in rows if row["status"] != "done"]
    status = "partial" if failed else "complete"
    document = results.document(variants, seed=seed, status=status, warnings=warnings)
    results.state_folded(document, (row["folded"] for row in rows if "folded" in row))
    figure = work.described.figure
    document |= {"name": figure.name, "title": figure.title, "source": figure.source, "failed": failed}
    document["panels"] = [_numbers(panel) for panel in panels if not isinstance(panel, Track)]
    document["timelines"] = [_curves(panel) for panel in panels if isinstance(panel, Track)]
    return document


def _numbers(shown: Shown) -> dict[str, Any]:
    """A panel in the document; its measures are named with the unit that the values are in."""
    return {
        "title": shown.panel.title,
        "unit": shown.y_scale.unit,
        "x": shown.x_column,
        "values": [
            {
                "x": value.x,
                "series": value.series,
                "measure": shown.part_name(value.part),
                "value": value.value,
                "published": value.published,
            }
            for value in shown.values
        ],
    }


def _curves(track: Track) -> dict[str, Any]:
    """The points of a time line in the document."""
    return {
        "title": track.panel.title,
        "unit": "%",
        "x": "time_ms",
        "values": [
            {"x": time_ms, "series": name, "measure": "busy_percent", "value": 100 * share, "published": None}
            for name, shares in track.shares.items()
            for time_ms, share in zip(track.times_ms, shares, strict=True)
        ],
    }


def _write(work: _Work, panels: list[Shown | Track], document: dict[str, Any]) -> None:
    import csv
    import io

    from syncline import rundir
    from syncline.figures import page

    figure = work.described.figure
    (svg, png, pdf), remarks = _drawn(work, panels)
    if not work.quiet:
        for remark in remarks:
            print(f"warning: {remark}", file=sys.stderr)
    command = shlex.join(["syncline", "figure", work.described.label.removesuffix(".figure.yaml")])
    notes = [*document["assumptions"], *(f"warning: {w}" for w in document["warnings"])]
    numbers = io.StringIO()
    writer = csv.writer(numbers, lineterminator="\n")
    writer.writerow(("panel", "x", "series", "measure", "value", "unit", "published", "x_is"))
    for panel in (*document["panels"], *document["timelines"]):
        for value in panel["values"]:
            cells = (value[key] for key in ("x", "series", "measure", "value"))
            writer.writerow((panel["title"], *cells, panel["unit"], value["published"], panel["x"]))
    base = work.out / figure.name
    rundir.write(base.with_suffix(".svg"), svg)
    rundir.write(base.with_suffix(".png"), png)
    rundir.write(base.with_suffix(".pdf"), pdf)
    rundir.write(base.with_suffix(".csv"), numbers.getvalue())
    rundir.write(base.with_suffix(".html"), page.build(figure, panels, svg, notes, command))


def _drawn(work: _Work, panels: list[Shown | Track]) -> tuple[Drawn, list[str]]:
    """The drawing, and what there is to say about it. Raises [`InputError`] if it cannot be drawn."""
    import warnings

    from syncline.errors import InputError
    from syncline.figures import draw

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            drawn = draw.draw(work.described.figure, panels)
        except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
            # What a drawing library stops at, of all that a file can ask for, is not known here.
            message = f"this cannot be drawn: {' '.join(str(error).split()) or type(error).__name__}"
            accepted = "other columns, numbers or sizes"
            raise InputError([work.described.problem(("panels",), message, accepted)]) from None
    remarks = []
    if any("axes sizes collapsed" in str(warning.message) for warning in caught):
        remarks.append(
            f"{work.described.label}: names and legends leave no room for the panels; make them wider or higher"
        )
    if any("missing from" in str(warning.message) for warning in caught):
        remarks.append(f"{work.described.label}: the PNG lacks some characters, which its font does not have")
    return drawn, remarks


def _print(work: _Work, panels: list[Shown | Track], document: dict[str, Any], *, json: bool, quiet: bool) -> None:
    from syncline.figures.values import Shown

    if json:
        from syncline import results

        print(results.dumps(document))
    else:
        from syncline.cli import tables

        for shown in panels:
            if isinstance(shown, Shown):
                tables.show(*tables.panel(shown))
    for failure in document["failed"]:
        print(f"{failure['name']}, {failure['variant']}: {failure['status']}: {failure['error']}", file=sys.stderr)
    if not quiet:
        print(f"figure: {work.out / work.described.figure.name}.html (.svg, .png, .pdf, .csv)", file=sys.stderr)
