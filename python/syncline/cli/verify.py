"""`syncline verify`: whether a collective schedule does what its name says."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import options

if TYPE_CHECKING:
    from syncline.schedules.load import Loaded
    from syncline.schedules.verification import Buffering, Verdict

VERIFIED, WRONG = 0, 1
DEFAULT_BUFFERING = "1"
MSCCL_SLOTS = 8
"""Messages that a connection of NCCL and MSCCL holds (NCCL_STEPS)."""
MOST_SLOTS = 2**31 - 1
ACCEPTED = "eager, rendezvous, or how many messages a connection holds, 1 or more"


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
    holds = _buffering(buffering or DEFAULT_BUFFERING)
    _check_root(root)

    from syncline.schedules import load, verification

    began = time.monotonic()
    loaded = load.load(plan)
    if loaded.one_sided is not None and buffering not in (None, verification.ONE_SIDED):
        from syncline.errors import command_line

        message = "what a plan of MSCCL++ puts into the memory of others waits for no room"
        raise command_line("--buffering", buffering, message, verification.ONE_SIDED)
    verdict = verification.verify(loaded, root, holds)
    if json:
        from syncline import results

        document = _document(loaded, verdict, default=buffering is None and loaded.one_sided is None)
        document["cost"] = results.cost(time.monotonic() - began, []) | {"events": _steps(verdict)}
        print(results.dumps(document))
    else:
        _print(loaded, verdict)
        needs_room = buffering is None and loaded.one_sided is None and not verdict.verified and not verdict.errors
        if needs_room and verification.verify(loaded, root, {"slots": MSCCL_SLOTS}).verified:
            print(
                f"It is right where connections hold {MSCCL_SLOTS} messages, as MSCCL's do: --buffering {MSCCL_SLOTS}"
            )
    return VERIFIED if verdict.verified else WRONG


def _buffering(text: str) -> Buffering:
    from syncline.errors import command_line

    if text in ("eager", "rendezvous"):
        return text
    if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST_SLOTS:
        return {"slots": int(text)}
    raise command_line("--buffering", text, "this is not known", ACCEPTED)


def _check_root(root: int | None) -> None:
    from syncline.errors import command_line

    if root is not None and not 0 <= root < 2**31:
        raise command_line("--root", root, "this is out of range", "a rank")


def _steps(verdict: Verdict) -> int:
    counts = verdict.report["counts"]
    return 0 if counts is None else int(counts["steps"] + counts["nops"])


def _document(loaded: Loaded, verdict: Verdict, *, default: bool) -> dict[str, Any]:
    import syncline
    from syncline import results
    from syncline.schedules.verification import line

    report = verdict.report
    assumptions = ["buffering = 1 message per connection (default)"] if default else []
    if report["root_inferred"]:
        assumptions.append(f"root = {report['root']} (from the results)")

    def findings(kind: str) -> list[dict[str, Any]]:
        return [{**finding, "line": line(loaded, finding)} for finding in report[kind]]

    return {
        "schema_version": results.SCHEMA_VERSION,
        "version": syncline.__version__,
        "status": "complete",
        "seed": 0,
        "assumptions": assumptions,
        "warnings": [str(problem) for problem in verdict.warnings],
        "fidelity": {"backend": "symbolic"},
        "file": loaded.file,
        "format": loaded.format,
        "name": report["name"],
        "collective": report["collective"],
        "in_place": report["in_place"],
        "root": report["root"],
        "buffering": report["buffering"],
        "verified": verdict.verified,
        "errors": findings("errors"),
        "errors_omitted": report["errors_omitted"],
        "flaws": findings("flaws"),
        "flaws_omitted": report["flaws_omitted"],
        "counts": report["counts"],
    }


def _print(loaded: Loaded, verdict: Verdict) -> None:
    for warning in verdict.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if omitted := verdict.report["warnings_omitted"]:
        print(f"warning: and {omitted} more warnings", file=sys.stderr)
    if verdict.verified:
        from syncline.cli import tables

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
