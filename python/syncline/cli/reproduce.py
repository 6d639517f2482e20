"""`syncline reproduce`: published figures against simulated ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.cli import options
from syncline.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.reproduce.ledger import Finding, Value


def reproduce(
    claims: Annotated[
        list[str] | None, typer.Argument(metavar="[CLAIM|SOURCE]...", help="Claims, or sources: ace, tutorial; or all.")
    ] = None,
    json: options.AsJson = False,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> int:
    """Hold simulations against published figures.

    \b
      syncline reproduce
      syncline reproduce tutorial
      syncline reproduce ace-fig6-sms --json

    Says for each claim whether the simulated value is inside the range that counts as reproduced. Claims
    outside their range are reported, and the exit status is 0 all the same.
    """
    problems = options.common_problems(threads=threads, seed=seed)
    if problems:
        raise InputError(problems)
    from syncline.reproduce import ledger

    selected = ledger.select(claims or [])

    from syncline import results, runner
    from syncline.reproduce import sources
    from syncline.reproduce.runs import Runs

    runner.quiet = quiet
    began = time.monotonic()
    runs = Runs()
    findings, variants = sources.findings(selected, runs, threads)
    document = results.document(variants, seed=seed, status="complete", warnings=[])
    results.state_folded(document, (result.summary["unfolded"] is None for result in runs.finished()))
    document["claims"] = ledger.document(findings)
    document["cost"] = results.cost(time.monotonic() - began, runs.finished())
    if json:
        print(results.dumps(document))
        return 0

    from syncline.cli import tables

    tables.show(_table(findings))
    inside = sum(finding.inside for finding in findings)
    print(f"{inside} of {len(findings)} claims inside their range")
    return 0


def _table(findings: list[Finding]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("claim", "unit", "published", "simulated", "accepted", "", "note"):
        table.add_column(heading, no_wrap=heading != "note")
    for finding in findings:
        claim = finding.claim
        ranges = claim.accept if isinstance(claim.published, list) else [claim.accept]
        table.add_row(
            claim.id,
            claim.unit,
            _numbers(claim.published),
            _numbers(finding.simulated),
            ", ".join(_range(low, high) for low, high in ranges),
            "inside" if finding.inside else "OUTSIDE",
            finding.note,
        )
    return table


def _numbers(value: Value | None) -> str:
    if value is None:
        return "-"
    values = value if isinstance(value, list) else [value]
    return ", ".join(_number(v) for v in values)


def _range(low: float, high: float) -> str:
    return "-".join(_number(v) if abs(v) >= 1e4 else f"{v:g}" for v in (low, high))


def _number(value: float) -> str:
    """Four digits; large numbers in full rather than with an exponent."""
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
