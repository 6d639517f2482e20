"""`syncline.figure`: a published figure from simulations, drawn beside what was published."""

from __future__ import annotations

import base64
import shlex
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline.base import document, folders, outputs
from syncline.base.errors import CancelledError, InputError, command_line, one_of
from syncline.commands.api import arguments, display, files, tables
from syncline.commands.api.arguments import ARGUMENTS, Settings, Spelling
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.tables import Table
from syncline.engine import choice, comparison, estimate, runner
from syncline.engine import runs as engine
from syncline.experiment import packaged as studies
from syncline.experiment.load import Study
from syncline.report.escape import html_text
from syncline.report.figures import draw, page
from syncline.results import entries as results
from syncline.studies.figures import closed_form, layers, planned, read, runs, timeline, values
from syncline.studies.figures.file import PAPER, Layers, Timeline
from syncline.studies.figures.timeline import Track
from syncline.studies.sweeps import journal, points, table
from syncline.studies.sweeps import run as sweeps
from syncline.studies.sweeps.file import load, of_tree
from syncline.studies.sweeps.progress import Checked
from syncline.studies.sweeps.run import is_sweep, on_stderr

if TYPE_CHECKING:
    from syncline.base.document import Node
    from syncline.base.errors import Problem
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.simulate import Warn
    from syncline.core.cancelling import Cancellation
    from syncline.engine.runs import Result
    from syncline.experiment.load import Variant
    from syncline.report.figures.draw import Drawn
    from syncline.results.entries import Document
    from syncline.studies.figures.file import FigureFile
    from syncline.studies.figures.runs import Run
    from syncline.studies.figures.values import Shown
    from syncline.studies.sweeps.file import Sweep as Described
    from syncline.studies.sweeps.points import Simulation
    from syncline.studies.sweeps.table import Table as Swept

LABEL: Final = "figure"
"""What stands in problems in place of the file of a figure that is given as values."""
ACCEPTED: Final = "a path, the name of a packaged figure, or a mapping such as a file has"


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a figure."""

    panels: list[Shown | Track]
    document: Document
    """The document of `figure --json`."""
    files: dict[str, Any]
    """The content of the files that were written, by their suffixes."""
    remarks: list[str]
    """What there is to say about the drawing."""


def run(work: Work, *, watch: Watch | None = None, warn: Warn | None = None) -> Finished | None:
    """Simulates and draws a figure, and writes its files; nothing if it was interrupted or cancelled. Raises
    [`InputError`] with everything that is wrong.
    """
    began = time.monotonic()
    work.prepare()
    if not work.simulate(watch, warn or (on_stderr if work.of_command else lambda _: None)):
        return None
    panels = work.panels()
    document = _document(work, panels, work.settings.seed)
    written, remarks = _written(work, panels, document)
    outputs.write_into(work.out, {path.name: (written[path.suffix], kind) for path, kind in work.files()})
    document["cost"] = {"wall_time_s": round(time.monotonic() - began, 6)}
    return Finished(panels, document, written, remarks)


class Work:
    """The simulations of a figure."""

    def __init__(
        self, described: FigureFile, out: Path, settings: Settings, given: Mapping[int, Node] | None = None
    ) -> None:
        self.described = described
        self.given = given or {}
        """Sweeps that are given as values in place of a file, by their places among the sweeps."""
        self.out = out
        self.settings = settings
        self.quiet = True
        self.of_command = False
        """Whether the command line carries this out, which says on standard error what is worth knowing."""
        self.sweeps: list[tuple[str, list[Simulation]]] = []
        self.tables: list[Swept] = []
        self.runs: dict[Run, Variant] = {}
        self.results: dict[Run, Result] = {}
        self.warnings: list[str] = []

    def prepare(self) -> None:
        """Reads all sweeps and experiments, and looks at the directory. Raises [`InputError`]."""
        problems: list[Problem] = []
        for i, name in enumerate(self.described.figure.sweeps):
            try:
                sweep = self._sweep(i, name)
                simulations, warnings = points.simulations(
                    sweep,
                    Checked(sweep.points, quiet=self.quiet),
                    self.settings.seed,
                    memory_limit=self.settings.memory_limit,
                    cancel=self.settings.cancel,
                )
                self.sweeps.append((sweep.name, simulations))
                self.warnings += warnings
            except InputError as error:
                problems += error.problems
        self.tables = arguments.collected(problems, lambda: closed_form.tables(self.described)) or []
        if not problems:
            problems += planned.problems(self.described, [found for _, found in self.sweeps], self.tables)
        self.runs = arguments.collected(problems, lambda: runs.variants(self.described, self.settings.seed)) or {}
        problems += self.settings.problems
        if wrong := folders.refusal(self.out):
            problems += command_line("--out", str(self.out), wrong, "a directory, or the name of a new one").problems
        arguments.collected(problems, lambda: outputs.check_all([*self.files(), *self.sweep_files()]))
        if problems:
            raise InputError(problems)

    def files(self) -> list[tuple[Path, outputs.Kind]]:
        """The files of the figure, and of what kinds they are."""
        kinds = {
            ".svg": outputs.PICTURE,
            ".png": outputs.PNG,
            ".pdf": outputs.PDF,
            ".csv": outputs.FIGURE_NUMBERS,
            ".html": outputs.PAGE,
        }
        place = self.out / self.described.figure.name
        return [(place.with_suffix(suffix), kind) for suffix, kind in kinds.items()]

    def sweep_files(self) -> list[tuple[Path, outputs.Kind]]:
        """The tables of its sweeps."""
        kind = outputs.Kind("the table of a sweep", is_sweep)
        return [(self.out / f"{name}.parquet", kind) for name, _ in self.sweeps]

    def _sweep(self, place: int, name: str) -> Described:
        """One of the sweeps. Raises [`InputError`] with everything that is wrong with it."""
        if place in self.given:
            return of_tree(self.given[place], LABEL, Path())
        try:
            found = studies.find_sweep(name, self.described.folder)
        except InputError as error:
            problem = error.problems[0]
            raise InputError([self.described.problem(("sweeps", place), problem.message, problem.accepted)]) from None
        return load(*found)

    def simulate(self, watch: Watch | None, warn: Warn) -> bool:
        """Runs what is not finished; false if interrupted, or cancelled."""
        if self.sweeps:
            with folders.made(self.out):
                if not self._sweep_all(watch, warn):
                    return False
        chosen = choice.settled(Study(self.described.figure.name, "", tuple(self.runs.values())))
        self.runs = dict(zip(self.runs, chosen.variants, strict=True))
        each = [estimate.of(v.experiment, engine.preview(v)).time_s for v in self.runs.values()]
        long = estimate.warning_of_many("the runs of the figure", each, self.settings.threads)
        if long is not None and not (self.of_command and self.quiet):
            warn(long)
        cancel, threads = self.settings.cancel, self.settings.threads
        try:
            tasks = [
                (f"{run} {name}", partial(_one, (run, name), replace(v, cancel=cancel)))
                for (run, name), v in self.runs.items()
            ]
            self.results |= dict(runner.concurrently(tasks, threads, watch, cancel=cancel))
        except (KeyboardInterrupt, CancelledError):
            return False
        return True

    def _sweep_all(self, watch: Watch | None, warn: Warn) -> bool:
        """Runs what is not finished of the sweeps, and keeps it; false if interrupted, or cancelled."""
        for name, simulations in self.sweeps:
            path = self.out / f"{name}.parquet"
            kept = journal.Journal.open(journal.beside(path), resume=True)
            with sweeps.keeping(kept, "the same command", quiet=not self.of_command):
                entries, interrupted = sweeps.simulate(
                    simulations,
                    kept,
                    self.settings.threads,
                    quiet=self.quiet,
                    watch=None if watch is None or not self.quiet else watch,
                    warn=warn,
                    memory_limit=self.settings.memory_limit,
                    cancel=self.settings.cancel,
                )
                found = table.of(simulations, entries)
                if entries:
                    sweeps.write(path, found, name, found.status(len(simulations)))
                elif not kept.entries:
                    kept.remove()
            if interrupted:
                return False
            self.tables.append(found)
        return True

    def panels(self) -> list[Shown | Track]:
        """The numbers of every panel. Raises [`InputError`] with everything that cannot be shown."""
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
    return key, engine.run(variant)


def _document(work: Work, panels: list[Shown | Track], seed: int) -> dict[str, Any]:
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


def _written(work: Work, panels: list[Shown | Track], document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The files by their suffixes, and what there is to say about the drawing."""
    import csv
    import io

    figure = work.described.figure
    drawn, remarks = _drawn(work, panels)
    command = shlex.join(["syncline", "figure", work.described.label.removesuffix(".figure.yaml")])
    notes = [*document["assumptions"], *(f"warning: {w}" for w in document["warnings"])]
    numbers = io.StringIO()
    writer = csv.writer(numbers, lineterminator="\n")
    writer.writerow(("panel", "x", "series", "measure", "value", "unit", "published", "x_is"))
    for panel in (*document["panels"], *document["timelines"]):
        for value in panel["values"]:
            cells = (value[key] for key in ("x", "series", "measure", "value"))
            writer.writerow((panel["title"], *cells, panel["unit"], value["published"], panel["x"]))
    html = page.build(figure, panels, drawn.svg, notes, command)
    return {".svg": drawn.svg, ".png": drawn.png, ".pdf": drawn.pdf, ".csv": numbers.getvalue(), ".html": html}, remarks


def _drawn(work: Work, panels: list[Shown | Track]) -> tuple[Drawn, list[str]]:
    """The drawing, and what there is to say about it. Raises [`InputError`] if it cannot be drawn."""
    import warnings

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


class Figure(Documented):
    """A figure: its numbers beside what was published, and the drawing."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.document)
        self.svg: str = finished.files[".svg"].decode()
        """The drawing as the text of an SVG file."""
        self.png: bytes = finished.files[".png"]
        """The drawing as the content of a PNG file."""
        self.pdf: bytes = finished.files[".pdf"]
        """The drawing as the content of a PDF file."""
        self.page: str = finished.files[".html"]
        """The page that `syncline figure` writes, as HTML."""
        rows = [
            {"panel": panel["title"], **value, "unit": panel["unit"], "x_is": panel["x"]}
            for panel in (*self.document["panels"], *self.document["timelines"])
            for value in panel["values"]
        ]
        if len({type(row["series"]) for row in rows} - {type(None)}) > 1:  # a column has values of one type
            rows = [row | {"series": None if row["series"] is None else str(row["series"])} for row in rows]
        self.table: Table = tables.of_entries("figure", [{**row, "x": str(row["x"])} for row in rows])
        """A row for each value that is shown: its panel, place, series and unit, and what was published."""

    def __repr__(self) -> str:
        return f"<Figure {self.name}: {display.counted(len(self.table), 'value')}>"

    def _repr_html_(self) -> str:
        image = base64.b64encode(self.png).decode()
        title = html_text(str(self.document["title"]))
        text = (
            f'<figure><img src="data:image/png;base64,{image}" alt="{title}"><figcaption>{title}</figcaption></figure>'
        )
        return text + display.paragraphs(f"{each['name']}, {each['variant']}: {each['error']}" for each in self.failed)

    @property
    def name(self) -> str:
        """The name of the figure."""
        return str(self.document["name"])

    @property
    def failed(self) -> tuple[Mapping[str, Any], ...]:
        """The simulations that failed, with `name`, `variant`, `status` and `error`."""
        return tuple(self.document["failed"])


@arguments.plain_arguments
def figure(
    source: AnyPath | Mapping[str, object],
    *,
    out: AnyPath | None = None,
    paper: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Figure:
    """Simulates what a figure shows, and draws it beside the published values.

    `source` is the path of a figure file, the name of a packaged one (`"ace/fig11"`), or what a file would say as a
    mapping, whose `sweeps` may be mappings as well, as in [`sweep`]. `out` is a directory for the drawing (SVG and
    PNG), its page and numbers, and the tables and journals of its sweeps: simulations that are in a journal are not run
    again. `paper` makes the figure as wide as a `"column"` of a paper (3.3 inches) or its `"page"` (7 inches), without
    a title. Several simulations at once run in processes, as in [`sweep`].

    Raises [`InputError`] with everything that is wrong, [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(seed=seed, threads=threads, memory_limit=memory_limit, cancel=cancel)
    problems = [*settings.problems, *paper_problems(paper, ARGUMENTS)]
    given: dict[int, Node] = {}
    described = arguments.collected(problems, lambda: _read(source, given))
    place = files.place_of(problems, out, "out", "a directory")
    settings = replace(settings, problems=tuple(problems))
    if described is None:
        raise InputError(problems)
    watch, warn = watch_of(progress), warn_of(progress)
    with tempfile.TemporaryDirectory(prefix="syncline-") as folder, arguments.spelled(ARGUMENTS):
        work = Work(on_paper(described, paper), place or Path(folder), settings, given)
        finished = run(work, watch=watch, warn=warn)
    if finished is None:
        raise CancelledError("the figure was cancelled") if cancel and cancel.cancelled else KeyboardInterrupt
    return Figure(finished)


def paper_problems(paper: object, spelling: Spelling) -> list[Problem]:
    """What is wrong with the width of a figure that is asked for."""
    if paper is None or (isinstance(paper, str) and paper in PAPER):
        return []
    return [spelling.problem("paper", paper, "there is no such width", one_of(PAPER))]


def on_paper(described: FigureFile, paper: str | None) -> FigureFile:
    """A figure as wide as a column or a page of a paper; without either as its file says."""
    if paper is None:
        return described
    return replace(described, figure=described.figure.model_copy(update={"paper": paper}))


def _read(source: object, given: dict[int, Node]) -> FigureFile:
    """The figure, whose sweeps that are values are put into `given`."""
    if isinstance(source, Mapping):
        root = files.tree_of(source, LABEL)
        sweeps = root.entries.get("sweeps") if isinstance(root, document.Mapping) else None
        items = sweeps.items if isinstance(sweeps, document.Sequence) else []
        for at, sweep in enumerate(items):
            if isinstance(sweep, document.Mapping):
                given[at] = sweep
                items[at] = document.Scalar(f"sweep {at}", sweep.origin)  # where a file has a name
        return read.of_tree(root, LABEL, Path())
    path = files.path_of(source, "source", "a figure", ACCEPTED)
    return read.load(*files.found(studies.find_figure, path, "source"))
