"""The ledger: docs/reproduction.md, by lines of its tables, and as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from syncline.studies.reproduction import confirm, experiments, explanations, page, sources
from syncline.studies.reproduction import ledger as claims
from syncline.studies.reproduction.experiments import Experiment
from syncline.studies.reproduction.kept import Kept
from syncline.studies.reproduction.ledger import Claim
from syncline.studies.reproduction.measures import Tasks
from syncline.studies.reproduction.runs import Run, Runs, estimated

from .record import Record

PAGE: Final = Path(__file__).parents[2] / "docs" / "reproduction.md"
CELL: Final = re.compile(r"(?<!\\)\|")
VERDICT: Final = 4
"""The cell of a claim that says how far it is explained."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The lines of the committed page."""

    lines: tuple[str, ...]

    def claim(self, claim: str) -> list[str]:
        """The cells of a claim."""
        (line,) = [line for line in self.lines if line.startswith(f"| `{claim}`, ")]
        return cells(line)

    def experiment(self, name: str) -> list[str]:
        """The lines of an experiment's table, without its headings."""
        start = next(i for i, line in enumerate(self.lines) if line.startswith(f'<a id="{name}"></a>')) + 4
        return list(self.lines[start : self.lines.index("", start)])

    def confirmed(self, study: str, variant: str) -> str:
        """The line of a point that was simulated unfolded."""
        (line,) = [line for line in self.lines if line.startswith(f"| {study} | {variant} | ")]
        return line


def committed(file: Path = PAGE) -> Committed:
    """The page as it is committed."""
    return Committed(tuple(file.read_text(encoding="utf-8").splitlines()))


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in CELL.split(line)[1:-1]]


def records(of: Committed, keep: Path | None = None) -> Iterator[Record]:
    """Claims, explanations of those outside their range, rows of experiments, and points simulated unfolded.

    They share simulations, which are kept in a folder, if one is given.
    """
    runs = Runs(kept=None if keep is None else Kept(keep))
    if runs.kept is not None:
        runs.kept.prepare()
    every = experiments.load()
    for claim in claims.claims():
        yield _record(f"claim {claim.id}", partial(sources.tasks, [claim]), partial(_claim, of, runs, claim))
        if of.claim(claim.id)[VERDICT] != "inside":
            explaining = [experiment for experiment in every if claim.id in experiment.explains]
            differences = partial(_explanation, of, runs, claim, explaining)
            yield _record(f"explanation of {claim.id}", partial(_tasks_of_explanation, claim, explaining), differences)
    for experiment in every:
        for number, row in enumerate(experiment.rows):
            of_row = experiment.model_copy(update={"rows": [row]})
            differences = partial(_row, of, runs, of_row, number)
            yield _record(
                f"{experiment.id}, row {number + 1}: {row.label}", partial(experiments.tasks, [of_row]), differences
            )
    for point in confirm.POINTS:
        differences = partial(_point, of, runs, point)
        yield _record(f"{point.study} {point.variant}, unfolded", partial(confirm.tasks, points=[point]), differences)


def _tasks_of_explanation(claim: Claim, explaining: list[Experiment], runs: Runs) -> Tasks:
    """Also those of the claim, since the explanation says by how much it is outside."""
    return [*sources.tasks([claim], runs), *experiments.tasks(explaining, runs)]


def _record(name: str, tasks: Callable[[Runs], Tasks], differences: Callable[[], list[str]]) -> Record:
    return Record(f"ledger: {name}", lambda: sum(estimated(tasks)), differences)


def _claim(of: Committed, runs: Runs, claim: Claim) -> list[str]:
    (finding,) = sources.findings([claim], runs)
    row, written = _row_of(page.claim_row(finding, None)), of.claim(claim.id)
    found = finding.inside
    differences = [] if found == (written[VERDICT] == "inside") else [f"it is {'inside' if found else 'outside'}"]
    return differences + _different(row[:VERDICT] + row[VERDICT + 1 :], written[:VERDICT] + written[VERDICT + 1 :])


def _explanation(of: Committed, runs: Runs, claim: Claim, explaining: list[Experiment]) -> list[str]:
    (finding,) = sources.findings([claim], runs)
    found = explanations.of_claim(claim.id, [experiments.table(each, runs) for each in explaining])
    return _different([explanations.verdict(finding, found)], [of.claim(claim.id)[VERDICT]])


def _row(of: Committed, runs: Runs, of_row: Experiment, number: int) -> list[str]:
    row = experiments.table(of_row, runs).as_text()[0]
    return _different(_row_of(row), cells(of.experiment(of_row.id)[number]))


def _point(of: Committed, runs: Runs, point: Run) -> list[str]:
    (row,) = page.confirmed([confirm.compared(runs, point)])
    return _different(_row_of(row), cells(of.confirmed(point.study, point.variant)))


def _row_of(row: list[str]) -> list[str]:
    """The cells of a line that the page would have."""
    return cells(page.markdown([], [row]).splitlines()[-1])


def _different(found: list[str], written: list[str]) -> list[str]:
    pairs = zip(found, written, strict=True)
    return [f"{now or 'nothing'}; the page has {then or 'nothing'}" for now, then in pairs if now != then]
