"""A simulated system as its results tell it: an entry of the document of `run`, and its tables.

Whether the run has just ended or was read from a directory makes no difference to whoever looks at it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncline.engine.runs import PS_PER_S

if TYPE_CHECKING:
    import pyarrow as pa

TIMES: Final = ("compute_time_s", "exposed_comm_s", "bubble_s", "background_wait_s", "drain_s")
"""What the time of a training run consists of, but for what is before its NPU began."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A system of a run."""

    entry: Mapping[str, Any]
    """What the document of `run` says of it."""
    tables: Mapping[str, pa.Table]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.entry["name"])

    @property
    def iterations(self) -> int:
        """Iterations that its time is divided by: of a collective on its own, one."""
        return max(1, int(self.entry.get("iterations") or 0))

    @property
    def is_training(self) -> bool:
        """Whether it is a training loop, and no collective on its own."""
        return bool(self.entry.get("iterations"))

    @property
    def npus(self) -> int:
        """NPUs of the machine."""
        return int(self.entry.get("npus") or 1)

    @property
    def slowest(self) -> int:
        """The NPU whose times the entry has."""
        return int(self.entry.get("npu") or 0)

    @property
    def traced(self) -> set[int]:
        """The NPUs of which it is recorded what they did."""
        return {npu for (npu,) in self.columns("slices", "npu")}

    @property
    def has_path(self) -> bool:
        """Whether it can be told what an iteration consists of. A collective on its own is communication all through,
        also where nothing was recorded.
        """
        return bool(self.traced) or not self.is_training

    @property
    def total_ps(self) -> int:
        """Picoseconds of the whole run."""
        return self.picoseconds("total_time_s")

    def picoseconds(self, name: str) -> int:
        """A time of the entry, in seconds there, as the engine had it."""
        return round(float(self.entry.get(name) or 0.0) * PS_PER_S)

    def columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of a table, row by row. There is nothing of a table that lacks one of them, and no row with a
        null: results of older versions need not have all.
        """
        found = self.tables.get(table)
        if found is None or not set(names) <= set(found.column_names):
            return
        for row in zip(*(found.column(name).to_pylist() for name in names), strict=True):
            if None not in row:
                yield row

    def values(self, table: str, name: str) -> list[Any]:
        """A column as it is, nulls included; nothing where there is none."""
        found = self.tables.get(table)
        return [] if found is None or name not in found.column_names else list(found.column(name).to_pylist())

    def named(self, table: str, prefix: str) -> list[str]:
        """The columns of a table whose names begin so."""
        found = self.tables.get(table)
        return [] if found is None else [name for name in found.column_names if name.startswith(prefix)]

    def link_class(self, number: int) -> str:
        """The name of a class of links."""
        names = self.entry.get("link_classes") or []
        return str(names[number]) if 0 <= number < len(names) else f"class {number}"
