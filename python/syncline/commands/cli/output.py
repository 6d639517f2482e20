"""`--out FILE` of commands that print one table: it is checked before anything is computed, and written at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.commands.api.arguments import FLAGS
from syncline.commands.api.files import output_problems
from syncline.studies import command_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.base.errors import Problem

Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the table, too: FILE.parquet, .csv or .json.")
]


def check(out: Path | None, command: str, problems: list[Problem]) -> None:
    """Adds what is wrong with the file for the table of a command."""
    if out is None:
        return
    form = command_tables.forms()[command]
    problems += output_problems(
        out,
        FLAGS,
        resume=False,
        is_ours=lambda path: command_tables.is_ours(form, path),
        what=f"a table of {command}",
        has_journal=False,
    )


def write(out: Path | None, command: str, document: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Writes the table of a command, if a file is given, and says so."""
    import sys

    if out is None:
        return
    command_tables.write(out, command_tables.forms()[command], document)
    if not quiet:
        print(f"table: {out}", file=sys.stderr)
