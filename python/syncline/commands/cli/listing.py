"""`syncline list`: what there is by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.commands import listing
from syncline.commands.cli import complete, layout, options, output
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.base.errors import Problem


def names(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="studies, sweeps, figures, searches, examples, machines, gpus, models, collectives, algorithms, "
            "endpoints, backends, software or claims; without one, the kinds.",
            autocompletion=complete.kinds,
        ),
    ] = None,
    out: output.Out = None,
    json: options.AsJson = False,
) -> int:
    """List what there is by name, with a line of what each is.

    \b
      syncline list
      syncline list machines
      syncline list studies --json
    """
    if kind is not None and kind not in listing.KINDS:
        message = f"there are no lists of these{did_you_mean(kind, listing.KINDS)}"
        raise command_line("KIND", kind, message, one_of(listing.KINDS))
    problems: list[Problem] = []
    output.check(out, "list", problems)
    if problems:
        raise InputError(problems)
    chosen = listing.KINDS.values() if kind is None else [listing.KINDS[kind]]
    if json:
        print(results.dumps(_document(chosen)))
    else:
        _print(chosen, one=kind is not None)
    if out is not None:
        output.write(out, "list", _document(chosen))
    return 0


def _document(chosen: Any) -> dict[str, Any]:
    document = results.document([], seed=0, status="complete", warnings=[])
    document["lists"] = [
        {
            "kind": kind.name,
            "given_as": kind.says,
            "entries": [{"name": entry.name, "says": entry.says} for entry in kind.entries()],
        }
        for kind in chosen
    ]
    return document


def _print(chosen: Any, *, one: bool) -> None:
    table = layout.table(title="")
    if one:
        (kind,) = chosen
        table.add_column(kind.name)
        table.add_column(f"what it is (given as {kind.says})", overflow="fold")
        for entry in kind.entries():
            table.add_row(entry.name, entry.says)
    else:
        for heading in ("kind", "how many", "given as", "such as"):
            table.add_column(heading, justify="right" if heading == "how many" else "left")
        for kind in chosen:
            listed = kind.names()
            table.add_row(kind.name, str(len(listed)), kind.says, listed[0] if listed else "-")
    layout.show(table)
    if not one:
        print("syncline list KIND says what each is")
