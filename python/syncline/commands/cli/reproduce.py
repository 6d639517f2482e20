"""`syncline reproduce`: published figures against simulated ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.base import outputs, progress_display
from syncline.base.errors import InputError, command_line
from syncline.commands.api import reproducing
from syncline.commands.cli import complete, layout, options, output, tables
from syncline.results import entries as results
from syncline.studies.reproduction import page
from syncline.studies.reproduction.ledger import numbers, ranges
from syncline.studies.reproduction.page import CONFIRMED, confirmed

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.studies.reproduction import experiments
    from syncline.studies.reproduction.confirm import Comparison
    from syncline.studies.reproduction.ledger import Finding


def reproduce(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIM|SOURCE]...",
            help="Names of claims, or the sources ace, ace1, tutorial, hoti and blink; by default all.",
            autocompletion=complete.claims,
        ),
    ] = None,
    with_experiments: Annotated[
        bool, typer.Option("--experiments", help="Run the one-factor experiments behind the claims, too.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page of all claims and experiments, as Markdown.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep simulations in this folder, and take from it what was simulated before."
        ),
    ] = None,
    out: output.Out = None,
    json: options.AsJson = False,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
) -> int:
    """Compare simulations with published figures.

    \b
      syncline reproduce
      syncline reproduce tutorial
      syncline reproduce ace-fig6-sms --json
      syncline reproduce ace-fig4b-dlrm --experiments
      syncline reproduce --write docs/reproduction.md --keep runs/reproduction

    For each claim, the table says whether the simulated value is inside the range that counts as reproduced.
    Claims outside their range are reported; they do not change the exit status, which is 0. With all claims, one
    point of every study is also simulated unfolded; a difference makes the exit status 1. All claims take hours;
    with --keep, what is finished stays when the command is ended, and the same command goes on from there.
    """
    problems = options.common_problems(threads=threads, seed=seed)
    output.check(out, "reproduce", problems)
    if write is not None:
        problems += [problem for error in _unwritable(write, claims or []) for problem in error.problems]
    if problems:
        raise InputError(problems)
    asked = reproducing.select(claims or [], experiments=with_experiments or write is not None)
    if write is not None:
        page.check(asked.experiments)
    reproduced = reproducing.run(
        asked,
        keep,
        seed=seed,
        threads=threads,
        watch=progress_display.shown(quiet=quiet),
        warn=lambda warning: options.warn(warning, quiet=quiet),
    )
    findings, tables_found, comparisons = reproduced.findings, reproduced.tables, reproduced.comparisons
    if json:
        print(results.dumps(reproduced.document))
    else:
        _print(findings, tables_found if with_experiments else [], comparisons)
    if write is not None:
        outputs.write(write, reproducing.page_of(reproduced), outputs.LEDGER, "--write")
    output.write(out, "reproduce", reproduced.document, quiet=quiet)
    for difference in reproduced.differences:
        print(difference, file=sys.stderr)
    return 1 if reproduced.differences else 0


def _unwritable(page: Path, claims: list[str]) -> list[InputError]:
    """What is wrong with the place of the page, known before anything is simulated."""
    found = []
    if claims:
        found.append(command_line("CLAIM", claims[0], "the page holds all claims", "--write without claims or sources"))
    if page.is_dir() or not page.parent.is_dir():
        message = "this is a folder" if page.is_dir() else "its folder does not exist"
        found.append(command_line("--write", str(page), message, "the path of a file in a folder that exists"))
    elif (wrong := outputs.refusal(page, outputs.LEDGER)) is not None:
        found.append(command_line("--write", str(page), *wrong))
    return found


def _print(
    findings: Sequence[Finding], experiments: Sequence[experiments.Table], comparisons: Sequence[Comparison]
) -> None:
    tables.show(_claims(findings))
    inside = sum(finding.inside for finding in findings)
    hint = "" if experiments or inside == len(findings) else "; --experiments shows what is behind the others"
    print(f"{inside} of {len(findings)} claims inside their range{hint}")
    for table in experiments:
        print()
        tables.show(_experiment(table))
    if comparisons:
        print()
        tables.show(_confirmed(comparisons))


def _claims(findings: Sequence[Finding]) -> Table:
    table = _table(("claim", "unit", "published", "simulated", "accepted", "", "note"), "")
    for finding in findings:
        claim = finding.claim
        table.add_row(
            claim.id,
            claim.unit,
            numbers(claim.published),
            numbers(finding.simulated),
            ranges(claim),
            "inside" if finding.inside else "OUTSIDE",
            finding.note,
        )
    return table


def _experiment(found: experiments.Table) -> Table:
    experiment = found.experiment
    headings = ["", *(column.heading for column in experiment.columns)]
    table = _table(headings, f"{experiment.id}: {experiment.shows}", wrapped=headings)
    for row in found.as_text():
        table.add_row(*row)
    return table


def _confirmed(comparisons: Sequence[Comparison]) -> Table:
    table = _table(CONFIRMED, "one point of each study, simulated unfolded as well")
    for row in confirmed(comparisons):
        table.add_row(*row)
    return table


def _table(headings: Sequence[str], title: str, wrapped: Sequence[str] = ("note",)) -> Table:
    table = layout.table(title=title or None)
    for heading in headings:
        table.add_column(heading, overflow="fold" if heading in wrapped else "ellipsis")
    return table
