"""`syncline schema` and `syncline report`: looking without simulating."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from syncline.cli import complete, options

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
    from syncline.errors import command_line, did_you_mean, one_of
    from syncline.results import dumps, versions
    from syncline.schema import catalogue

    if listed:
        names = list(catalogue.SCHEMAS)
        print(dumps({**versions(), "schemas": names}) if json else "\n".join(names))
        return 0
    if of not in catalogue.SCHEMAS:
        message = f"there is no such schema{did_you_mean(of, catalogue.SCHEMAS)}"
        raise command_line("NAME", of, message, one_of(catalogue.SCHEMAS))
    print(dumps(catalogue.SCHEMAS[of]()))
    return 0


def report(
    results: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="What run --out or sweep --out has written.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="The file to write; by default report.html in DIR, or FILE with the suffix .html."
        ),
    ] = None,
    json: options.AsJson = False,
    quiet: options.Quiet = False,
    baseline: options.Baseline = None,
) -> int:
    """Write the HTML report of a run (again) or of a sweep.

    \b
      syncline report runs/resnet50
      syncline report runs/resnet50 --baseline ACE
      syncline report runs/resnet50 -o resnet50.html
      syncline report design-space.parquet
    """
    from syncline import rundir
    from syncline.errors import command_line
    from syncline.results import dumps
    from syncline.schema.documents import SCHEMA_VERSION

    of_run = _is_folder(results)
    if baseline is not None and not of_run:
        raise command_line("--baseline", baseline, "a sweep has no baseline", "the directory of a run")
    page, target, about = _of_run(results, baseline) if of_run else _of_sweep(results)
    target = target if out is None else out
    try:
        rundir.write(target, page)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("--out", str(target), f"this cannot be written: {reason}") from None
    if json:
        print(dumps({"schema_version": SCHEMA_VERSION, **about, "report": str(target)}))
    if not quiet:
        print(f"report: {target}", file=sys.stderr)
    return 0


def _is_folder(results: Path) -> bool:
    """Whether these are the results of a run. Raises [`InputError`] if there are none."""
    from syncline.errors import command_line

    try:
        if results.is_dir() or results.exists():
            return results.is_dir()
        message = "there is no such file or directory"
    except (OSError, ValueError) as error:
        message = f"this cannot be read: {error.strerror if isinstance(error, OSError) else error}"
    accepted = "a directory that run --out has written, or a table that sweep --out has written"
    raise command_line("DIR|FILE", str(results), message, accepted)


def _of_run(directory: Path, baseline: str | None) -> tuple[str, Path, dict[str, Any]]:
    """The page of a run, its place, and what it is about."""
    from syncline.api import runs
    from syncline.api.arguments import FLAGS

    run = runs.read_directory(directory)
    about = {key: run.document.get(key) for key in ("version", "status", "name")}
    page = runs.page(run, baseline, FLAGS)
    return page, directory / "report.html", {**about, "of": "run", "variants": run.finished}


def _of_sweep(file: Path) -> tuple[str, Path, dict[str, Any]]:
    """The page of a sweep, its place, and what it is about."""
    from syncline.report import sweep
    from syncline.sweeps import table

    rows, about = table.read(file)
    found = {key: about.get(key) for key in ("version", "status", "name")}
    return sweep.build(rows, about), file.with_suffix(".html"), {**found, "of": "sweep", "rows": len(rows)}
