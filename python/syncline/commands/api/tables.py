"""Tables of results, and what other libraries make of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.base.errors import did_you_mean, one_of
from syncline.commands.api import display

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


UNITS: Final = (("_bytes_per_s", "B/s"), ("_bytes", "B"), ("_ps", "ps"), ("_us", "us"), ("_s", "s"))
"""The units of columns whose names end so."""


SHOWN: Final = 10
"""Rows that a notebook shows."""


class Table:
    """A table of a simulated system: an Arrow table under its name.

    Times are integers in picoseconds (`..._ps`), sizes integers in bytes. Each column says what it means and in which
    unit: [`Table.columns`].
    """

    __slots__ = ("_arrow", "name")

    def __init__(self, name: str, arrow: pa.Table) -> None:
        self.name = name
        self._arrow = arrow

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self):,} rows, {len(self._arrow.column_names)} columns>"

    def _repr_html_(self) -> str:
        first = self._arrow.slice(0, SHOWN).to_pylist()
        text = display.rows(self.name, first, self._arrow.column_names, SHOWN, "")
        left = len(self) - len(first)
        return text + display.paragraphs([f"{left:,} further rows"] if left else [])

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        """By the name of each column, what its metadata says: `unit` and `meaning`, where they are known."""
        return {field.name: _decoded(field.metadata) for field in self._arrow.schema}

    def to_arrow(self) -> pa.Table:
        """The table as it is; nothing is copied."""
        return self._arrow

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame of pandas, a row of the table in each row. Its `attrs` have `units` and `meanings`
        by column, where they are known.

        Raises [`ImportError`] where pandas is not installed: Syncline does not need it.
        """
        _needed("pandas", "to_pandas")
        # On this thread alone: the engine's numbers are in memory of Python (see [`parquet.owned`]).
        frame: pandas.DataFrame = self.to_arrow().to_pandas(use_threads=False)
        about = self.columns
        for key, word in (("units", "unit"), ("meanings", "meaning")):
            frame.attrs[key] = {name: said[word] for name, said in about.items() if word in said}
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as a data frame of Polars, a row of the table in each row.

        Raises [`ImportError`] where Polars is not installed: Syncline does not need it.
        """
        frame: polars.DataFrame = _needed("polars", "to_polars").from_arrow(self.to_arrow())
        return frame


def of_entries(name: str, entries: Sequence[Mapping[str, Any]], meanings: Mapping[str, str] | None = None) -> Table:
    """A table of entries of a document, whose columns have the units that their names say, and meanings if given.
    What is a list or a mapping in them is left out.
    """
    import pyarrow as pa

    flat = [{key: value for key, value in entry.items() if not isinstance(value, list | dict)} for entry in entries]
    names = dict.fromkeys(key for entry in flat for key in entry)
    found = pa.Table.from_pylist([{key: entry.get(key) for key in names} for entry in flat])
    for at, column in enumerate(found.schema):
        unit = next((unit for ending, unit in UNITS if column.name.endswith(ending)), None)
        about = {"unit": unit, "meaning": (meanings or {}).get(column.name)}
        metadata = {key: value for key, value in about.items() if value is not None}
        if metadata:
            found = found.set_column(at, column.with_metadata(metadata), found.column(at))
    return Table(name, found)


class Tables(Mapping[str, Table]):
    """The tables of a system by their names: `layers`, `collectives`, `links` and others."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = {name: Table(name, arrow) for name, arrow in tables.items()}

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            raise KeyError(
                f"there is no table {name!r}{did_you_mean(str(name), self._tables)} ({one_of(self._tables)})"
            )
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return f"<Tables {', '.join(self._tables)}>"

    def _repr_html_(self) -> str:
        rows = [[name, f"{len(table):,}", ", ".join(table.columns)] for name, table in self._tables.items()]
        return display.table("tables", ["table", "rows", "columns"], rows)


def _decoded(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def _needed(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        message = f"{method} needs {package}, which cannot be imported ({error}); to_arrow needs nothing further"
        raise ImportError(message, name=package) from None
