"""`syncline verify`: whether a collective schedule does what its name says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.commands.api import schedules
from syncline.commands.cli import options, tables
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.plans.load import Loaded
    from syncline.plans.verification import Buffering, Verdict

VERIFIED, WRONG = 0, 1


def verify(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN",
            help="A schedule as MSCCL XML, an execution plan of MSCCL++, or a plan as JSON of syncline-plan.",
        ),
    ],
    root: Annotated[
        int | None,
        typer.Option(metavar="R", help="The rank of the root; by default the one that the results fit best."),
    ] = None,
    buffering: Annotated[
        str | None,
        typer.Option(metavar="eager|rendezvous|K", help="How many messages a connection can hold; by default 1."),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Verify a collective schedule on symbolic data.

    \b
      syncline verify examples/plans/ring4.xml
      syncline verify broadcast.xml --root 2 --buffering rendezvous
      syncline verify plan.json --json
      syncline export all-reduce --algorithm ring --ranks 8 | syncline verify -

    A schedule is correct if every contribution arrives exactly once where it has to, whatever the timing: nothing is
    lost, added twice or misplaced, no chunk is read before it has been written, thread blocks never wait for each
    other in a cycle, and no two of them use a chunk in an undefined order while one writes it.

    Exit status: 0 if the schedule is correct, 1 if it is wrong, 2 if the file is not a schedule.
    """
    found = schedules.look(plan, root, buffering or None)
    if json:
        print(results.dumps(found.document))
    else:
        _print(found.loaded, found.verdict)
        if found.right_with_room:
            slots = schedules.MSCCL_SLOTS
            print(f"It is right where connections hold {slots} messages, as MSCCL's do: --buffering {slots}")
    return VERIFIED if found.verdict.verified else WRONG


def _print(loaded: Loaded, verdict: Verdict) -> None:
    for warning in verdict.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if omitted := verdict.report["warnings_omitted"]:
        print(f"warning: and {omitted} more warnings", file=sys.stderr)
    if verdict.verified:
        tables.show(tables.pairs(f"{loaded.file}: OK", _rows(verdict.report)))
        return
    wrong = (*verdict.errors, *verdict.flaws)
    for problem in wrong:
        print(problem)
    count = len(wrong) + verdict.report["errors_omitted"] + verdict.report["flaws_omitted"]
    more = "" if count == len(wrong) else f", of which {len(wrong)} are listed"
    print(f"{loaded.file}: WRONG ({count} {'finding' if count == 1 else 'findings'}{more})")


def _rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    counts = report["counts"]
    least, most = (f"{counts[key]:.4g}" for key in ("sent_per_byte_min", "sent_per_byte_max"))
    return [
        ("collective", report["collective"] + (", in place" if report["in_place"] else "")),
        *([("root", f"{report['root']}")] if report["root"] is not None else []),
        ("ranks", f"{counts['ranks']:,}"),
        ("channels", f"{counts['channels']:,}"),
        ("thread blocks", f"{counts['thread_blocks']:,}"),
        ("steps", f"{counts['steps']:,}" + (f" and {counts['nops']:,} nops" if counts["nops"] else "")),
        ("messages", f"{counts['messages']:,}"),
        ("sent by a rank", f"{most if least == most else f'{least} to {most}'} of the size"),
        ("longest path", f"{counts['longest_path_steps']:,} steps"),
        ("a connection holds", _holds(report["buffering"])),
    ]


def _holds(buffering: Buffering) -> str:
    if isinstance(buffering, dict):
        return "1 message" if buffering["slots"] == 1 else f"{buffering['slots']:,} messages"
    return "any number of messages" if buffering == "eager" else "nothing (rendezvous)"
