"""`syncline schema` and `syncline report`: looking without simulating."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from syncline import _version
from syncline.base import document, outputs
from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.commands import catalogue
from syncline.commands.api import arguments, runs
from syncline.commands.api.arguments import FLAGS
from syncline.commands.cli import complete, options
from syncline.report import compared, sweep
from syncline.results import rundir
from syncline.results.entries import dumps
from syncline.studies.sweeps import table
from syncline.studies.sweeps.table import ACCEPTED

Json = Annotated[bool, typer.Option("--json", help="With --list, print one JSON document; a schema is always one.")]


def schema(
    of: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="What the schema is of; --list names all.", autocompletion=complete.schemas
        ),
    ] = "experiment",
    listed: Annotated[bool, typer.Option("--list", help="Print the names of all schemas instead.")] = False,
    json: Json = False,
) -> int:
    """Print a JSON Schema: of files that commands read, for editors, or of documents that they print with --json.

    \b
      syncline schema > experiment.schema.json       also sweep, search, figure, plan, graph, model: files
      syncline schema run > run.schema.json          what syncline run --json prints; so for every command,
      syncline schema sweep-results                  with -results behind it where a file has the name
      syncline schema errors                         what is wrong with an input, of any command with --json
      syncline schema --list
    """
    if listed:
        names = list(catalogue.SCHEMAS)
        print(dumps({**_version.versions(), "schemas": names}) if json else "\n".join(names))
        return 0
    if of not in catalogue.SCHEMAS:
        message = f"there is no such schema{did_you_mean(of, catalogue.SCHEMAS)}"
        raise command_line("NAME", of, message, one_of(catalogue.SCHEMAS))
    print(dumps(catalogue.SCHEMAS[of]()))
    return 0


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...|FILE",
            help="What run --out, or sweep --out FILE.parquet, has written; several runs are compared.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="The file to write; by default report.html in DIR, FILE with the suffix .html, or of several runs "
            "comparison.html here.",
        ),
    ] = None,
    json: options.AsJson = False,
    quiet: options.Quiet = False,
    baseline: options.Baseline = None,
) -> int:
    """Write the HTML report of a run (again), of several runs side by side, or of a sweep.

    \b
      syncline report runs/resnet50
      syncline report runs/resnet50 --baseline ACE
      syncline report runs/resnet50 -o resnet50.html
      syncline report runs/before runs/after runs/other -o comparison.html
      syncline report design-space.parquet
    """
    folders = [_is_folder(path) for path in results]
    if baseline is not None and (len(results) > 1 or not folders[0]):
        message = "speed-ups are against the first run" if len(results) > 1 else "a sweep has no baseline"
        raise command_line("--baseline", baseline, message, "the directory of a run")
    if len(results) > 1:
        page, target, about = _of_runs(results, folders)
    else:
        page, target, about = _of_run(results[0], baseline) if folders[0] else _of_sweep(results[0])
    target = target if out is None else out
    outputs.write(target, page, outputs.PAGE)
    if json:
        print(dumps({**_version.versions(), **about, "report": str(target)}))
    if not quiet:
        print(f"report: {target}", file=sys.stderr)
    return 0


def _is_folder(results: Path) -> bool:
    """Whether these are the results of a run. Raises [`InputError`] if there are none."""
    try:
        if results.is_dir() or results.exists():
            return results.is_dir()
        message = "there is no such file or directory"
    except (OSError, ValueError) as error:
        message = f"this cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    raise command_line("DIR|FILE", str(results), message, ACCEPTED)


def _of_run(directory: Path, baseline: str | None) -> tuple[str, Path, dict[str, Any]]:
    """The page of a run, its place, and what it is about."""
    run = runs.read_directory(directory)
    about = {key: run.document.get(key) for key in ("version", "status", "name")}
    page = runs.page(run, baseline, FLAGS)
    return page, directory / "report.html", {**about, "of": "run", "variants": run.finished}


def _of_runs(directories: Sequence[Path], folders: Sequence[bool]) -> tuple[str, Path, dict[str, Any]]:
    """The page of several runs, its place, and what it is about. Raises [`InputError`] with what is wrong with any."""
    problems = [
        problem
        for path, is_folder in zip(directories, folders, strict=True)
        if not is_folder
        for problem in command_line("DIR", str(path), "a sweep is not compared", "directories of runs").problems
    ]
    for place, path in enumerate(directories):
        if path.absolute() in (other.absolute() for other in directories[:place]):
            problems += command_line("DIR", str(path), "this run is given twice").problems
    labels = compared.labels(directories)
    found: list[compared.Compared] = []
    for path, label in zip(directories, labels, strict=True):
        run = arguments.collected(problems, partial(runs.read_directory, path)) if not problems else None
        if run is None:
            continue
        if not run.document["runs"]:
            problems += command_line("DIR", str(path), "no simulation of this run has finished").problems
        found.append(compared.Compared(label, run.document, run._tables, _settings(path)))
    kinds = {bool(entry.get("iterations")) for run in found for entry in run.document["runs"]}
    if not problems and len(kinds) > 1:
        message = "training runs and single collectives have no numbers in common"
        problems += command_line("DIR", str(directories[0]), message, "runs of one kind").problems
    if problems:
        raise InputError(problems)
    command = shlex.join(["syncline", "report", *map(str, directories)])
    document = compared.together(found)
    about = {key: document.get(key) for key in ("version", "status", "name")}
    names = [entry["name"] for entry in document["runs"]]
    return compared.build(found, command), Path("comparison.html"), {**about, "of": "runs", "variants": names}


def _settings(directory: Path) -> dict[str, Any]:
    """What the variants of a run were run with; nothing where that cannot be read."""
    path = directory / rundir.RESOLVED
    try:
        read = document.plain(document.read(document.read_text(path, str(path)), str(path)))
    except InputError:
        return {}
    variants = read.get("variants") if isinstance(read, dict) else None
    found: dict[str, Any] = {}
    for variant in variants if isinstance(variants, list) else []:
        if isinstance(variant, dict) and isinstance(name := variant.get("name"), str):
            found[name] = variant
    return found


def _of_sweep(file: Path) -> tuple[str, Path, dict[str, Any]]:
    """The page of a sweep, its place, and what it is about."""
    rows, about = table.read(file)
    found = {key: about.get(key) for key in ("version", "status", "name")}
    return sweep.build(rows, about), file.with_suffix(".html"), {**found, "of": "sweep", "rows": len(rows)}
