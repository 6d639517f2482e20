"""`syncline schema` and `syncline report`: looking without simulating."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def schema(
    of: Annotated[str, typer.Argument(metavar="experiment|sweep", help="Which files.")] = "experiment",
) -> int:
    """Print the JSON Schema of experiment files or of sweeps, for editors.

    \b
      syncline schema > experiment.schema.json
      syncline schema sweep > sweep.schema.json
    """
    from syncline.errors import command_line, did_you_mean, one_of
    from syncline.results import dumps
    from syncline.schema import export
    from syncline.sweep import export as sweep_export

    schemas = {"experiment": export.json_schema, "sweep": sweep_export.json_schema}
    if of not in schemas:
        raise command_line("FILES", of, f"there are no such files{did_you_mean(of, schemas)}", one_of(schemas))
    print(dumps(schemas[of]()))
    return 0


def report(
    results: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="What run --out or sweep --out has written.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to; by default report.html in DIR, or FILE as .html.")
    ] = None,
) -> int:
    """Write the HTML report of a run again, or that of a sweep.

    \b
      syncline report runs/resnet50
      syncline report runs/resnet50 -o resnet50.html
      syncline report design-space.parquet
    """
    from syncline import rundir
    from syncline.errors import command_line

    page, target = _of_sweep(results) if results.is_file() else _of_run(results)
    target = target if out is None else out
    try:
        rundir.write(target, page)
    except OSError as error:
        raise command_line("--out", str(target), f"this cannot be written: {error.strerror}") from None
    print(f"report: {target}", file=sys.stderr)
    return 0


def _of_run(directory: Path) -> tuple[str, Path]:
    """The page of a run, and its place."""
    from syncline import rundir
    from syncline.report import html

    return html.build(*rundir.read(directory)), directory / "report.html"


def _of_sweep(file: Path) -> tuple[str, Path]:
    """The page of a sweep, and its place."""
    from syncline.report import sweep
    from syncline.sweep import table

    rows, about = table.read(file)
    return sweep.build(rows, about), file.with_suffix(".html")
