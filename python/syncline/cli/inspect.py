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
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that run --out has written.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to; by default report.html in DIR.")] = None,
) -> int:
    """Write the HTML report of a run again.

    \b
      syncline report runs/resnet50
      syncline report runs/resnet50 -o resnet50.html
    """
    from syncline import rundir
    from syncline.errors import command_line
    from syncline.report import html

    document, variants, command = rundir.read(directory)
    target = directory / "report.html" if out is None else out
    try:
        rundir.write(target, html.build(document, variants, command))
    except OSError as error:
        raise command_line("--out", str(target), f"this cannot be written: {error.strerror}") from None
    print(f"report: {target}", file=sys.stderr)
    return 0
