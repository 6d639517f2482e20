"""`syncline schema` and `syncline report`: looking without simulating."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def schema() -> int:
    """Print the JSON Schema of experiment files, for editors.

    \b
      syncline schema > experiment.schema.json
    """
    from syncline.results import dumps
    from syncline.schema.export import json_schema

    print(dumps(json_schema()))
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
