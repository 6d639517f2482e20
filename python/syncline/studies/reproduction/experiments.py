"""One-factor experiments: what the claims, and other measures, come to when a field or two are changed.

`experiments.toml` says what is changed and what is measured; nothing in it is a result. The measure of choice is a
claim's own metric, computed with the row's settings in every simulation that the claim rests on.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from syncline.base.errors import InputError, Problem, did_you_mean, one_of, shown
from syncline.base.section import Section
from syncline.experiment.merge import parse_override
from syncline.studies.reproduction import ledger, measures, sources
from syncline.studies.reproduction.ledger import Claim, Value
from syncline.studies.reproduction.runs import Run, Runs

FILE: Final = Path(__file__).parent / "experiments.toml"
LISTED: Final = "experiment"

Text = Annotated[str, Field(min_length=1)]


class Column(Section):
    """What is measured: the metric of a claim, or a quantity of one simulation or of several."""

    heading: Text
    claim: str = ""
    note: bool = False
    """Show what the claim's note says rather than its values."""
    measure: str = ""
    variant: str = ""
    """The simulation that is measured, if not the row's."""
    unit: str = ""
    """By default that of the claim or of the measure."""
    digits: Annotated[int, Field(ge=0, le=6)] = 2
    """Digits behind the point."""


class Row(Section):
    """What is changed."""

    label: Text
    settings: list[Text] = Field(default=[], alias="set")
    """`PATH=VALUE` as for `--set`: for every variant, or for the one that the path names."""
    study: str = ""
    variant: str = ""
    """The simulation that is measured, if not the experiment's."""

    @property
    def changes_something(self) -> bool:
        """Whether it is anything but what was studied."""
        return bool(self.settings or self.study or self.variant)


class Experiment(Section):
    """A table of one-factor experiments, one a row."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    source: str
    shows: Text
    """What the table shows, in one sentence."""
    explains: list[str] = Field(default=[])
    """The claims outside their range that it explains: by rows whose settings bring the claim's own metric nearer to
    the range than the first row, which changes nothing (see `explanations`)."""
    study: str = ""
    variant: str = ""
    """The simulation that is measured, where a row or a column says no other."""
    columns: Annotated[list[Column], Field(min_length=1)]
    rows: Annotated[list[Row], Field(min_length=2)]

    def run(self, row: Row, column: Column) -> Run:
        """The simulation that a column measures in a row."""
        return Run(row.study or self.study, column.variant or row.variant or self.variant)

    def claims(self) -> list[Claim]:
        """The claims whose metrics are measured."""
        return ledger.select(names) if (names := [c.claim for c in self.columns if c.claim]) else []


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of a measure."""

    value: Value | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """An experiment and what came of it, row by row."""

    experiment: Experiment
    cells: tuple[tuple[Cell, ...], ...]

    def as_document(self) -> dict[str, Any]:
        """The table as JSON."""
        experiment = self.experiment
        return {
            "id": experiment.id,
            "source": experiment.source,
            "shows": experiment.shows,
            "explains": experiment.explains,
            "columns": [
                {
                    "heading": column.heading,
                    "unit": unit(column),
                    "claim": column.claim or None,
                    "measure": column.measure or None,
                }
                for column in experiment.columns
            ],
            "rows": [
                {
                    "label": row.label,
                    "settings": row.settings,
                    "values": [cell.note if column.note else cell.value for column, cell in self._columns(cells)],
                }
                for row, cells in zip(experiment.rows, self.cells, strict=True)
            ],
        }

    def as_text(self) -> list[list[str]]:
        """The rows of the table as text: labels and values, and at the end what was published of the claims."""
        rows = [
            [row.label, *(_shown(column, cell) for column, cell in self._columns(cells))]
            for row, cells in zip(self.experiment.rows, self.cells, strict=True)
        ]
        published = {claim.id: Cell(claim.published) for claim in self.experiment.claims()}
        if any(column.claim and not column.note for column in self.experiment.columns):
            last = [
                _shown(column, published[column.claim]) if column.claim and not column.note else ""
                for column in self.experiment.columns
            ]
            rows.append(["published", *last])
        return rows

    def _columns(self, cells: Sequence[Cell]) -> Iterator[tuple[Column, Cell]]:
        return zip(self.experiment.columns, cells, strict=True)


def unit(column: Column) -> str:
    """The unit of a column."""
    if column.unit:
        return column.unit
    return ledger.select([column.claim])[0].unit if column.claim else measures.MEASURES[column.measure].unit


def _shown(column: Column, cell: Cell) -> str:
    if column.note:
        return cell.note
    if cell.value is None:
        return "-"
    values = cell.value if isinstance(cell.value, list) else [cell.value]
    of = unit(column)
    return ", ".join(f"{v:.{column.digits}f}" for v in values) + ("" if of in ("x", "1") else f" {of}")


def load(path: Path = FILE) -> list[Experiment]:
    """The experiments, in the order of the file. Raises [`InputError`] with everything that is wrong with it."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise InputError([Problem(path.name, int(line[1]) if line else None, "", None, f"{error}")]) from None
    problems = [Problem(path.name, None, key, None, "this key is not known", LISTED) for key in values if key != LISTED]
    entries = values.get(LISTED)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        problems.append(Problem(path.name, None, LISTED, None, "a list of tables is needed", "[[experiment]]"))
        raise InputError(problems)
    found: list[Experiment] = []
    for index, entry in enumerate(entries):
        name = entry.get("id") if isinstance(entry.get("id"), str) else f"{LISTED}.{index}"
        try:
            found.append(Experiment.model_validate(entry))
        except ValidationError as error:
            problems += [_problem(path.name, f"{name}", dict(detail)) for detail in error.errors()]
            continue
        problems += [
            Problem(path.name, None, f"{name}.{where}", shown(value), message, accepted)
            for where, value, message, accepted in _wrong(found[-1], [e.id for e in found[:-1]])
        ]
    if problems:
        raise InputError(problems)
    return found


def _problem(file: str, name: str, detail: dict[str, Any]) -> Problem:
    field = ".".join([name, *(str(part) for part in detail["loc"])])
    plain = isinstance(detail["input"], str | int | float | bool)
    return Problem(file, None, field, shown(detail["input"]) if plain else None, detail["msg"])


def _wrong(experiment: Experiment, before: Sequence[str]) -> Iterator[tuple[str, str, str, str | None]]:
    """What the parts of an experiment have against each other: field, value, message, what is accepted."""
    known = [claim.id for claim in ledger.claims()]
    if experiment.id in before:
        yield "id", experiment.id, "another experiment is called this", None
    if experiment.source not in sources.SOURCES:
        yield "source", experiment.source, "there is no such source", one_of(sources.SOURCES)
    named = [(f"explains.{i}", claim) for i, claim in enumerate(experiment.explains)]
    measured = [column.claim for column in experiment.columns]
    for where, claim in named:
        if claim in known and claim not in measured:
            message = "no column has this claim's metric, so that no row can show what brings it nearer to its range"
            yield where, claim, message, f'a column with claim = "{claim}"'
    if named and experiment.rows[0].changes_something:
        message = "the first row of an experiment that explains claims is what they are as studied"
        yield "rows.0", experiment.rows[0].label, message, "a row without settings, study and variant"
    for index, column in enumerate(experiment.columns):
        at = f"columns.{index}"
        if bool(column.claim) == bool(column.measure):
            yield at, column.heading, "a column has either a claim or a measure", None
        if column.claim:
            named.append((f"{at}.claim", column.claim))
        elif column.measure and column.measure not in measures.MEASURES:
            hint = did_you_mean(column.measure, measures.MEASURES)
            yield f"{at}.measure", column.measure, f"there is no such measure{hint}", one_of(measures.MEASURES)
        elif column.measure and measures.MEASURES[column.measure].of_run:
            runs = [experiment.run(row, column) for row in experiment.rows]
            if not all(run.study and run.variant for run in runs):
                yield f"{at}.measure", column.measure, "this measures one simulation: say its study and variant", None
    for where, claim in named:
        if claim not in known:
            yield where, claim, f"no claim is called this{did_you_mean(claim, known)}", one_of(known)
    for index, row in enumerate(experiment.rows):
        for number, setting in enumerate(row.settings):
            try:
                parse_override(setting)
            except InputError as error:
                problem = error.problems[0]
                yield f"rows.{index}.set.{number}", setting, problem.message, problem.accepted


def select(experiments: Iterable[Experiment], names: Sequence[str], claims: Sequence[Claim]) -> list[Experiment]:
    """The experiments of the sources that are named, and those that explain or measure a claim; all without names."""
    ids = {claim.id for claim in claims}
    return [
        e
        for e in experiments
        if not names or e.source in names or ids & {*e.explains, *(column.claim for column in e.columns)}
    ]


def tasks(experiments: Iterable[Experiment], runs: Runs) -> list[tuple[str, Callable[[], Any]]]:
    """Independent pieces of work that fill the cache of simulations."""
    found: list[tuple[str, Callable[[], Any]]] = []
    for experiment in experiments:
        for row in experiment.rows:
            changed = runs.changed(row.settings)
            found += [(f"{experiment.id}: {name}", task) for name, task in sources.tasks(experiment.claims(), changed)]
            for column in experiment.columns:
                if column.measure:
                    measure = measures.MEASURES[column.measure]
                    prepare = partial(measure.prepare, changed, experiment.run(row, column))
                    found += [(f"{experiment.id}: {name}", task) for name, task in prepare()]
    return found


def table(experiment: Experiment, runs: Runs) -> Table:
    """What comes of an experiment. Raises [`InputError`] for settings that change nothing of what is simulated."""
    return Table(experiment, tuple(_cells(experiment, row, runs) for row in experiment.rows))


def _cells(experiment: Experiment, row: Row, runs: Runs) -> tuple[Cell, ...]:
    changed = runs.changed(row.settings)
    found = {finding.claim.id: finding for finding in sources.findings(experiment.claims(), changed)}
    cells = []
    for column in experiment.columns:
        if column.claim:
            finding = found[column.claim]
            cells.append(Cell(finding.simulated, finding.note))
        else:
            cells.append(Cell(measures.MEASURES[column.measure].value(changed, experiment.run(row, column))))
    if idle := changed.idle():
        message = "nothing that the columns measure has such a variant"
        field = f"{experiment.id}.rows.{experiment.rows.index(row)}.set"
        raise InputError(Problem(FILE.name, None, field, shown(setting), message) for setting in idle)
    return tuple(cells)
