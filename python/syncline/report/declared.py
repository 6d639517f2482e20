"""Headings of columns that the engine declares: what they mean is what the engine says."""

from __future__ import annotations

from syncline.core import facts
from syncline.report.markup import Column

PER_ITERATION = "Mean per iteration."


def of_table(table: str, name: str, unit: str = "", how: str = "", *, title: str = "") -> Column:
    """The heading for a column of a run's table, shown in `unit`; `how` says what the page makes of its values."""
    column = facts.column(table, name)
    is_number = column.unit != facts.TEXT
    return Column(title or column.title, unit, numeric=is_number, hint=_hint(column.meaning, how))


def of_summary(path: str, title: str, unit: str = "", how: str = "") -> Column:
    """The heading for a field of the summary, by its path."""
    return Column(title, unit, hint=_hint(facts.field(path).meaning, how))


def tables() -> list[str]:
    """The tables of a run, by name."""
    return list(facts.engine().tables)


def columns(table: str) -> list[facts.Column]:
    """The columns of a table of a run."""
    return list(facts.engine().tables[table].columns.values())


def row(path: str) -> str:
    """The heading of a row for a field of the summary: what it means."""
    return facts.field(path).meaning.removesuffix(".")


def row_of_table(table: str, name: str) -> str:
    """The heading of a row for a column of a run's table: what it means."""
    return facts.column(table, name).meaning.removesuffix(".")


def _hint(meaning: str, how: str) -> str:
    return f"{meaning} {how}".rstrip()
