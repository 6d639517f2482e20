"""A simulated system as its results tell it: an entry of the document of `run`, and its tables.

Whether the run has just ended or was read from a directory makes no difference to whoever looks at it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncline.engine import PS_PER_S

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
    def total_ps(self) -> int:
        """Picoseconds of the whole run."""
        return self.picoseconds("total_time_s")

    def picoseconds(self, name: str) -> int:
        """A time of the entry, in seconds there, as the engine had it."""
        return round(float(self.entry.get(name) or 0.0) * PS_PER_S)

    def rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a table; none where the run has no such table."""
        found = self.tables.get(table)
        return [] if found is None else found.to_pylist()

    def columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of a table, row by row; nothing where the run has no such table."""
        found = self.tables.get(table)
        return iter(()) if found is None else zip(*(found.column(name).to_pylist() for name in names), strict=True)

    def link_class(self, number: int) -> str:
        """The name of a class of links."""
        names = self.entry.get("link_classes") or []
        return str(names[number]) if number < len(names) else f"class {number}"
