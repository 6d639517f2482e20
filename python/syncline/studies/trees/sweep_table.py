"""The table of all allocations of a machine: a row each, under columns that say what they hold and in which unit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import atomic
from syncline.results import entries as results
from syncline.results import parquet
from syncline.studies import command_tables

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "syncline.trees"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    kind: type
    unit: str
    meaning: str


LINKS: Final = "links"
COLUMNS: Final[tuple[Column, ...]] = (
    Column("gpus", str, "text", "The GPUs that take part, by their numbers in the machine."),
    Column("gpu_count", int, "count", "How many these are."),
    Column("allocations", int, "count", "How many allocations the row stands for: their links are alike."),
    Column("status", str, "text", "What came of it: done, refused or failed."),
    Column("error", str, "text", "Why nothing came of it."),
    Column("root", int, "index", "The GPU that data comes from or goes to; none where all are equal."),
    Column("components", int, "count", "Groups of GPUs that reach each other over the links that trees may use."),
    Column("link_unit_bytes_per_s", int, "B/s", "Payload of one link and direction, in which rates are measured."),
    Column("trees_rate_links", float, LINKS, "Rate of the whole vector over all trees; 0 where GPUs are apart."),
    Column("bound_rate_links", float, LINKS, "What no trees can exceed, by the certificate; none for one GPU."),
    Column("trees", int, "count", "How many trees these are, of the first of the allocations that are alike."),
    Column("depth", int, "count", "The most links between a root and a GPU in these trees."),
    Column("rings_rate_links", float, LINKS, "Rate of the whole vector over all rings, in theory."),
    Column(
        "rings_over_pcie",
        bool,
        "truth value",
        "Whether these are rings over PCIe, as no cycle of NVLinks has all GPUs.",
    ),
    Column("theoretical_speedup", float, "ratio", "Rate of trees over that of rings; none where one has no rate."),
)
NAMES: Final = {"packed-trees": "trees", "ring": "rings", "double-binary-tree": "double_binary_trees"}
"""What columns call the algorithms that are simulated."""
_WORDS: Final = {"trees": "packed trees", "rings": "NCCL-like rings", "double_binary_trees": "double binary trees"}
COMPARED: Final[tuple[Column, ...]] = (
    *(
        column
        for name, words in _WORDS.items()
        for column in (
            Column(f"{name}_time_s", float, "s", f"Simulated time of {words}."),
            Column(
                f"{name}_algorithm_bandwidth_bytes_per_s",
                float,
                "B/s",
                f"Size divided by the time of {words}, as in nccl-tests.",
            ),
            Column(f"{name}_over", str, "text", f"The classes of the links that {words} sent something over."),
            Column(f"{name}_reason", str, "text", f"Why there is no time of {words}."),
        )
    ),
    Column("speedup", float, "ratio", "Time of rings over that of packed trees; none where one has no time."),
)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and what they are about."""

    rows: Sequence[Row]
    about: Mapping[str, Any]
    """`machine`, `collective`, `links`, `objective`, `size_bytes`, and what simulations were made with, if there were
    any: `backend` and `endpoint`."""
    wanted: int
    """So many rows there are to be."""

    @property
    def compared(self) -> bool:
        """Whether rows have simulated times."""
        return self.about["backend"] is not None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the rows have."""
        return COLUMNS + (COMPARED if self.compared else ())

    @property
    def failed(self) -> list[Row]:
        """Rows of which nothing came."""
        return [row for row in self.rows if row["status"] != "done"]

    @property
    def status(self) -> str:
        """`complete` where every row is there and says something, else `partial`."""
        return "complete" if len(self.rows) == self.wanted and not self.failed else "partial"

    def as_arrow(self) -> pa.Table:
        """The table with units and meanings, and with what it is about, as metadata."""
        import pyarrow as pa

        types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
        schema = pa.schema(
            pa.field(column.name, types[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
            for column in self.columns
        )
        about = {**self.about, "version": _version.version(), "status": self.status}
        rows = [{column.name: row.get(column.name) for column in self.columns} for row in self.rows]
        return pa.Table.from_pylist(rows, schema.with_metadata({METADATA: json.dumps(about)}))

    def write(self, path: Path, document: Mapping[str, Any]) -> None:
        """Writes the table in the format of the suffix, as a whole or not at all; JSON is the document."""
        if path.suffix == ".json":
            atomic.write(path, results.dumps(dict(document)) + "\n")
        else:
            atomic.write(path, parquet.content(self.as_arrow(), path.suffix))


def is_ours(path: Path) -> bool:
    """Whether a file looks like such a table, which may be written anew."""
    if path.suffix == ".json":
        return command_tables.is_document(path, "allocations", "rows", "failed")
    return parquet.looks_like(path, METADATA, [column.name for column in COLUMNS[:3]])


@dataclass(frozen=True, slots=True)
class Spread:
    """How a speed-up is distributed over the allocations of so many GPUs, each counted."""

    gpu_count: int
    allocations: int
    least: float
    lower: float
    """A quarter of the allocations have less, or as much."""
    median: float
    upper: float
    most: float


def spreads(rows: Sequence[Row], column: str) -> list[Spread]:
    """The distribution of a speed-up for every number of GPUs that has some."""
    found = []
    for count in sorted({row["gpu_count"] for row in rows}):
        values = sorted(
            (row[column], row["allocations"])
            for row in rows
            if row["gpu_count"] == count and row.get(column) is not None
        )
        if values:
            total = sum(many for _, many in values)
            lower, median, upper = (_at(values, quarter * total) for quarter in (1, 2, 3))
            found.append(Spread(count, total, values[0][0], lower, median, upper, values[-1][0]))
    return found


def _at(values: Sequence[tuple[float, int]], quarters: int) -> float:
    """The first value that, with those below it, makes up so many quarters of an allocation."""
    seen = 0
    for value, many in values:
        seen += many
        if 4 * seen >= quarters:
            return value
    return values[-1][0]
