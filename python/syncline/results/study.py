"""The results of a study as the report reads them.

The JSON document and the tables are the only sources. Every reader here is tolerant: a key that is
absent is a number that is absent, so that documents of older and newer versions, collectives
without layers and runs that ended early all make a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from syncline.engine import comparison
from syncline.results.units import LARGEST, PS_PER_S, number, ratio


class ColumnLike(Protocol):
    """What is used of a `pyarrow.ChunkedArray`."""

    @property
    def type(self) -> Any:
        """What the values are."""

    def to_pylist(self) -> list[Any]:
        """The values as Python objects."""


class Table(Protocol):
    """What is used of a `pyarrow.Table`, so that pyarrow is imported only where it computes."""

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""

    @property
    def num_rows(self) -> int:
        """Rows."""

    def column(self, i: str) -> ColumnLike:
        """One column."""

    def take(self, indices: list[int]) -> Table:
        """Some rows."""

    def append_column(self, field_: str, column: Any) -> Table:
        """The table with another column."""

    def group_by(self, keys: list[str], *, use_threads: bool) -> Groups:
        """Its rows by the values of some columns; with threads, in no order of groups that could be relied on."""


class Groups(Protocol):
    """What is used of a `pyarrow.TableGroupBy`."""

    def aggregate(self, aggregations: list[tuple[str | list[str], str]]) -> Table:
        """A row for every group."""


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; an absent list is empty."""
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The entries of a list as text; an absent list is empty."""
    return [str(v) for v in value] if isinstance(value, list) else []


@dataclass(frozen=True)
class Exposure:
    """Time that one collective kept the compute engine waiting, over all iterations."""

    layer: str
    what: str
    exposed_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """What a link carried, and how many links carried the same."""

    size: float
    busy: float | None
    """The share of the run."""
    copies: int


@dataclass(frozen=True)
class Variant:
    """One simulated system: its entry in the document and its tables."""

    name: str
    run: Mapping[str, Any]
    tables: Mapping[str, Table]

    def _number(self, *keys: str) -> float | None:
        value: Any = self.run
        for key in keys:
            value = mapping(value).get(key)
        return number(value)

    @cached_property
    def npus(self) -> str:
        """What its NPUs are, in a line; documents of old do not say."""
        return str(mapping(self.run.get("hardware")).get("description", ""))

    @cached_property
    def iterations(self) -> int:
        """Iterations of the training loop, of which a collective on its own has none."""
        return int(self._number("iterations") or 0)

    @cached_property
    def total_s(self) -> float | None:
        """Length of the run."""
        total = self._number("total_time_s")
        total = self._number("time_s") if total is None else total
        if total is None and self.iteration_reported_s is not None:
            total = self.iteration_reported_s * max(1, self.iterations)
        return total

    @cached_property
    def iteration_reported_s(self) -> float | None:
        """The iteration time as the document states it."""
        return self._number("iteration_time_s")

    @cached_property
    def time_s(self) -> float | None:
        """What variants are compared by: the mean iteration, or the run where there is none."""
        return self.iteration_reported_s or self.total_s

    @cached_property
    def steady_s(self) -> float | None:
        """What one more iteration costs; documents of old do not say."""
        return self._number("steady_iteration_time_s")

    @cached_property
    def steady_because(self) -> str:
        """Why that is not the headline; nothing if they hardly differ."""
        return str(self.run.get("steady_iteration_because") or "")

    @cached_property
    def is_collective(self) -> bool:
        """Whether it is a collective on its own."""
        return not self.iterations and self.run.get("collective") is not None

    @cached_property
    def size_bytes(self) -> float | None:
        """The size of a collective on its own, as nccl-tests counts it."""
        return self._number("size_bytes")

    @cached_property
    def algorithm_bytes_per_s(self) -> float | None:
        """Algorithm bandwidth of a collective on its own."""
        return self._number("algorithm_bandwidth_bytes_per_s")

    @cached_property
    def bus_bytes_per_s(self) -> float | None:
        """Bus bandwidth of a collective on its own."""
        return self._number("bus_bandwidth_bytes_per_s")

    @cached_property
    def lower_bound_s(self) -> float | None:
        """What no schedule of a collective on its own can beat."""
        return self._number("lower_bound_s")

    @cached_property
    def compute_s(self) -> float | None:
        """Compute time over all iterations."""
        return self._number("compute_time_s")

    @cached_property
    def compute_alone_s(self) -> float | None:
        """What compute would have taken beside nothing, over all iterations; documents of old do not say."""
        return self._number("compute_time_alone_s")

    @cached_property
    def exposed_s(self) -> float | None:
        """Exposed communication over all iterations."""
        return self._number("exposed_comm_s")

    @cached_property
    def drain_s(self) -> float | None:
        """What the run waited for after its last kernel; documents of old do not say."""
        return self._number("drain_s")

    @cached_property
    def bubble_s(self) -> float | None:
        """Waits for messages of other classes over all iterations; documents of old do not say."""
        return self._number("bubble_s")

    @cached_property
    def background_wait_s(self) -> float | None:
        """Waits for background compute over all iterations."""
        return self._number("background_wait_s")

    def per_iteration(self, value: float | None) -> float | None:
        """A sum over the run as a mean over its iterations."""
        return ratio(value, max(1, self.iterations))

    @cached_property
    def is_ideal(self) -> bool:
        """Whether it is the bound that others are measured against."""
        return comparison.is_ideal(self.name)

    @cached_property
    def achieved_bytes_per_s(self) -> float | None:
        """Bytes that an NPU sent per second."""
        return self._number("network", "achieved_bandwidth_bytes_per_s")

    @cached_property
    def link_share(self) -> float | None:
        """Mean busy share of the links; nothing where the backend ignores contention."""
        return self._number("network", "mean_link_utilisation")

    @cached_property
    def link_demand(self) -> float | None:
        """What the links would have to carry, over what they can, where the backend ignores contention."""
        return self._number("network", "link_demand")

    def link_class(self, number: int) -> str:
        """The name of a class of links: a dimension of a product, or what the links of a machine are."""
        names = self.run.get("link_classes")
        return str(names[number]) if isinstance(names, list) and number < len(names) else f"dim {number}"

    @cached_property
    def copies(self) -> bool:
        """Whether rows of the link table stand for several links each."""
        return any((number(row.get("copies")) or 1) > 1 for row in self._different_links)

    @cached_property
    def link_loads(self) -> dict[int, list[Load]]:
        """Per class of links: the loads that differ."""
        loads: dict[int, list[Load]] = {}
        total_ps = (self.total_s or 0.0) * PS_PER_S
        for row in self._different_links:
            size, busy = number(row.get("bytes")) or 0.0, ratio(number(row.get("busy_ps")), total_ps)
            copies = int(number(row.get("copies")) or 1) * int(row["count_all"])
            loads.setdefault(int(number(row.get("dim")) or 0), []).append(Load(size, busy, copies))
        return dict(sorted(loads.items()))

    @cached_property
    def _different_links(self) -> list[dict[str, Any]]:
        """A row for all links that are alike in what charts show of them, of which there are `count_all`."""
        keys: list[str] = [name for name in ("dim", "bytes", "busy_ps", "copies") if name in self.columns("links")]
        if not keys:
            return []
        return _rows(self.tables["links"].group_by(keys, use_threads=False).aggregate([([], "count_all")]))

    @cached_property
    def endpoint(self) -> Mapping[str, Any]:
        """Totals of the endpoints."""
        return mapping(self.run.get("endpoint"))

    @cached_property
    def partitions(self) -> list[Mapping[str, Any]]:
        """Partitions of the SRAM of an ACE; empty for other endpoints."""
        return items(self.endpoint.get("partitions"))

    @cached_property
    def phases(self) -> list[Mapping[str, Any]]:
        """FSMs of an ACE by phase; empty for other endpoints, and in documents of old."""
        return items(self.endpoint.get("phases"))

    @cached_property
    def exposures(self) -> list[Exposure]:
        """Exposed time by the collective that ended the wait, largest first."""
        found = [
            Exposure(str(e.get("layer", "")), str(e.get("pass", "")), number(e.get("exposed_s")) or 0.0)
            for e in items(self.run.get("exposed_by_collective"))
        ]
        return sorted(
            (e for e in found if e.exposed_s > 0),
            key=lambda e: (-e.exposed_s, e.layer, e.what),
        )

    @cached_property
    def resources(self) -> list[tuple[str, dict[str, float | None]]]:
        """Per resource: servers, busy_s, wait_s and served."""
        reported = items(self.endpoint.get("resources"))
        if not reported:
            reported = [
                {
                    **row,
                    "busy_s": seconds(row.get("busy_ps")),
                    "wait_s": seconds(row.get("wait_ps")),
                }
                for row in self.rows("resources")
            ]
        keys = ("servers", "busy_s", "wait_s", "served")
        return [(str(r.get("resource", "")), {k: number(r.get(k)) for k in keys}) for r in reported]

    def length(self, table: str) -> int:
        """Rows of a table; 0 where it is absent."""
        return self.tables[table].num_rows if table in self.tables else 0

    def columns(self, table: str) -> list[str]:
        """Columns of a table; none where it is absent."""
        return list(self.tables[table].column_names) if table in self.tables else []

    def column(self, table: str, name: str) -> list[Any]:
        """A column; nulls where it is absent."""
        if name not in self.columns(table):
            return [None] * self.length(table)
        return self.tables[table].column(name).to_pylist()

    def numbers(self, table: str, name: str) -> list[float | None]:
        """A column as finite numbers or nothing."""
        if name not in self.columns(table):
            return [None] * self.length(table)
        return numbers(self.tables[table].column(name))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table as one mapping per row; empty where it is absent."""
        return _rows(self.tables[table]) if table in self.tables else []

    @cached_property
    def overlapped_s(self) -> float | None:
        """Compute time during which a collective was in flight, over all iterations.

        A collective is in flight from issue to completion, and exposed time lies within: so it is
        the union of those intervals less the exposed time. Nothing is known without the table.
        """
        total_ps = (self.total_s or 0.0) * PS_PER_S
        spans = []
        for row in self.rows("collectives"):
            issued, completed = number(row.get("issued_ps")), number(row.get("completed_ps"))
            if issued is not None:
                spans.append((issued, completed or total_ps))
        if not spans or self.compute_s is None:
            return None
        covered, end = 0.0, 0.0
        for start, stop in sorted(spans):
            covered += max(0.0, stop - max(start, end))
            end = max(end, stop)
        return min(self.compute_s, max(0.0, covered / PS_PER_S - (self.exposed_s or 0.0)))


def numbers(column: ColumnLike) -> list[float | None]:
    """The values of a column as finite numbers or nothing: [`number`] of each, at once where all are numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return [number(value) for value in column.to_pylist()]
    values = pc.cast(column, pa.float64(), safe=False)
    found: list[float | None] = pc.if_else(pc.less_equal(pc.abs(values), LARGEST), values, None).to_pylist()
    return found


def _rows(table: Table) -> list[dict[str, Any]]:
    names = list(table.column_names)
    columns = [table.column(name).to_pylist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def seconds(value_ps: Any) -> float | None:
    """Picoseconds of a table as seconds."""
    value = number(value_ps)
    return None if value is None else value / PS_PER_S


@dataclass(frozen=True)
class Study:
    """A whole document with its tables."""

    document: Mapping[str, Any]
    variants: Sequence[Variant]

    @property
    def is_training(self) -> bool:
        """Whether there are iterations to speak of."""
        return any(v.iterations for v in self.variants)

    @property
    def ideal(self) -> Variant | None:
        """The bound, where the study has one beside other variants."""
        ideals = [v for v in self.variants if v.is_ideal and v.time_s]
        return ideals[0] if ideals and len(self.variants) > 1 else None

    @property
    def ideal_is_beaten(self) -> bool:
        """Whether a variant is faster than the bound, which then is none."""
        bound = self.ideal
        return bound is not None and any((v.time_s or 0.0) < (bound.time_s or 0.0) for v in self.ranked)

    @property
    def baseline(self) -> Variant | None:
        """What speed-ups are against: the variant that the document names; of documents of old the first."""
        named = self.document.get("baseline")
        return next((v for v in self.variants if v.time_s and (named is None or v.name == named)), None)

    @property
    def ranked(self) -> list[Variant]:
        """Variants with a time, fastest first, without the bound."""
        real = [v for v in self.variants if v.time_s and v is not self.ideal]
        return sorted(real, key=lambda v: v.time_s or 0.0)


def read(document: Mapping[str, Any], variants: Mapping[str, Mapping[str, Table]]) -> Study:
    """Pairs the entries of the document with the tables, in the order of the document."""
    runs = items(document.get("runs"))
    if not runs and "time_s" in document:
        runs = [document]
    found = []
    for i, run in enumerate(runs):
        name = str(run.get("name") or f"variant {i + 1}")
        found.append(Variant(name, run, variants.get(name, {})))
    if len(found) == 1 and not found[0].tables and len(variants) == 1:
        found = [Variant(found[0].name, found[0].run, next(iter(variants.values())))]
    else:
        known = {v.name for v in found}
        found += [Variant(name, {}, t) for name, t in variants.items() if name not in known]
    return Study(document, found)
