"""`syncline schema` and `syncline report`: looking without simulating."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from syncline.cli import options

Json = Annotated[bool, typer.Option("--json", help="Has no effect: a schema is always JSON.")]


def schema(
    of: Annotated[
        str,
        typer.Argument(
            metavar="experiment|sweep|search|figure|run|explain|diff|plan|graph|model",
            help="The format whose schema is printed.",
        ),
    ] = "experiment",
    json: Json = False,  # noqa: ARG001
) -> int:
    """Print the JSON Schema of experiment, sweep, search or figure files (for editors), of what run, explain and diff
    print with --json, or of plans (version 2 of syncline-plan).

    \b
      syncline schema > experiment.schema.json
      syncline schema sweep > sweep.schema.json
      syncline schema run > run.schema.json
      syncline schema plan > plan.schema.json
      syncline schema graph > graph.schema.json
      syncline schema model > model.schema.json
    """
    from syncline.errors import command_line, did_you_mean, one_of
    from syncline.figures import export as figure_export
    from syncline.models import export as model_export
    from syncline.results import dumps
    from syncline.schedules import plan_form
    from syncline.schema import answers, documents, export, graph_file
    from syncline.searches import file as search_file
    from syncline.sweeps import export as sweep_export

    schemas = {
        "experiment": export.json_schema,
        "sweep": sweep_export.json_schema,
        "search": search_file.json_schema,
        "figure": figure_export.json_schema,
        "run": documents.json_schema,
        "explain": answers.explain_schema,
        "diff": answers.diff_schema,
        "plan": plan_form.json_schema,
        "graph": graph_file.json_schema,
        "model": model_export.json_schema,
    }
    if of not in schemas:
        raise command_line("FILES", of, f"there are no such files{did_you_mean(of, schemas)}", one_of(schemas))
    print(dumps(schemas[of]()))
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
    from syncline.results import SCHEMA_VERSION, dumps

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
