"""What a trace shows of one variant, whatever its format: slices on tracks of processes, arrows, and counters.

A process is an NPU, or a measured rank beside it. Its tracks are those of the table `slices` (streams that compute,
waits, collectives, and phases of the engine), `sends by PORT, slot N` and `receives` of the table `messages`, and
`link PORT` of the table `link_spans`. A message that two traced NPUs sent and received is an arrow from the slice of
the sender to that of the receiver. The tables `windows` and `congestion` are counters of a process of their own.

Viewers keep time in whole nanoseconds. So both ends of a slice are rounded down to nanoseconds, which keeps every order
and hence nesting, and the exact times in picoseconds go with the slice where that changed one.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from syncline.core import recorded
from syncline.results.series import merge
from syncline.results.study import Table, numbers
from syncline.results.units import number, significant

PS_PER_NS: Final = 1000
UTILISATION: Final = "utilisation"
"""The process of the counters."""
FOLDED: Final = (
    "an NPU stands for all that are like it, so an arrow ends at the NPU that stands for the receiver of the message"
)

_COUNTERS: Final = {
    "compute": ("compute busy", "%", 100.0),
    "links": ("links busy", "%", 100.0),
    "ace_active": ("ACE active", "%", 100.0),
    "sram_bytes": ("SRAM held", "bytes", 1.0),
    "fsm_busy": ("FSMs busy", "", 1.0),
}
_CONGESTION: Final = {
    "peak_queue_bytes": ("longest queue", "bytes", 1.0),
    "drops": ("frames dropped", "per window", 1.0),
    "timeouts": ("timeouts", "per window", 1.0),
    "pauses": ("pauses asked for", "per window", 1.0),
}
"""Counters of a network with a transport. Where windows are merged, a value is their mean."""
_TRACK_ORDER: Final = (
    "compute",
    "exposed",
    "background",
    "collective",
    "phase",
    "sends",
    "receives",
    "link",
    "stream",
    "host",
)
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))

Track = tuple[int, str]
"""A process and the name of a track."""


class Slice(NamedTuple):
    """A span of time on a track. There are hundreds of thousands of them, so it is a tuple, which is made quickly."""

    process: int
    """The number of the NPU, or of a process beside NPUs."""
    track: str
    name: str
    start_ps: int
    end_ps: int
    leaves: int = 0
    """The arrow that begins here; 0 for none."""
    arrives: int = 0
    """The arrow that ends here; 0 for none."""

    @property
    def length_ps(self) -> int:
        """How long it takes."""
        return self.end_ps - self.start_ps


@dataclass(frozen=True, slots=True)
class Process:
    """What a process is called, and where it stands."""

    name: str
    place: int


@dataclass(frozen=True, slots=True)
class Counter:
    """A value over time."""

    name: str
    unit: str
    """`%`, `bytes`, `per window`, or nothing of a number of things."""
    starts_ns: Sequence[int]
    values: Sequence[float | None]

    @property
    def title(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def samples(self, merged: int) -> Iterator[tuple[int, float]]:
        """Times in nanoseconds and means of `merged` windows, without repeated values."""
        before: float | None = None
        for start, value in zip(self.starts_ns[::merged], merge(self.values, merged), strict=True):
            shown = 0.0 if value is None else significant(value, 5)
            if shown != before:
                yield start, shown
            before = shown


@dataclass(slots=True)
class Timeline:
    """What a trace shows."""

    slices: list[Slice] = field(default_factory=list)
    """In order."""
    counters: list[Counter] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    """What is to be known of it beside that."""
    beside: dict[int, Process] = field(default_factory=dict)
    """Processes that are no NPUs, by number."""

    @property
    def windows(self) -> int:
        """The most windows that a counter has."""
        return max((len(counter.values) for counter in self.counters), default=0)

    def process(self, number: int) -> Process:
        """A process."""
        return self.beside.get(number) or Process(f"NPU {number}", 2 * number)


def read(tables: Mapping[str, Table], most: int, limit: int | None = None) -> Timeline:
    """The timeline of a variant with at most `most` slices, the longest ones. `limit` is the most rows that the run
    kept of each table of a trace (`output.trace_limit`); a table that is full may lack what came later.
    """
    found = Timeline()
    table = tables.get("slices")
    total = table.num_rows if table is not None else 0
    slices = longest(table, most) if table is not None else []
    npus = {s.process for s in slices}
    links, messages = _links(tables.get("link_spans"), npus), _messages(tables, npus)
    slices += _longest([*links, *messages], most)
    slices.sort(key=order)
    found.slices = _longest(slices, most)
    found.notes["slices_total"] = total + len(links) + len(messages)
    if problems := check_nesting(found.slices):
        found.notes |= {"nesting_problems": len(problems), "first_nesting_problem": problems[0]}
    if messages and _is_folded(tables):
        found.notes["folded"] = FOLDED
    for name, column in (("slices", "start_ps"), ("link_spans", "start_ps"), ("messages", "sent_ps")):
        full = tables.get(name)
        rows = limit if limit is None or name == "slices" else recorded.most(limit)
        if rows is not None and full is not None and full.num_rows >= rows > 0:
            last = max(full.column(column).to_pylist())
            found.notes[f"{name}_cut_at_ps"] = last
    found.counters = [
        *_counters(tables.get("windows"), _COUNTERS, always=("compute", "links")),
        *_counters(tables.get("congestion"), _CONGESTION),
    ]
    return found


def order(s: Slice) -> tuple[int, int, str, int, str]:
    """What slices of a trace are sorted by: their starts, and a parent comes before its children."""
    process, track, name, start, end, _, _ = s
    return (start, process, track, -end, name)


def check_nesting(slices: Iterable[Slice]) -> list[str]:
    """What is wrong with slices in their order: those that end before they start or overlap partly on a track."""
    problems = []
    stacks: dict[Track, list[Slice]] = {}
    for s in slices:
        process, track, _, start, end, _, _ = s
        if end < start:
            problems.append(f"{_where(s)} ends before it starts")
            continue
        stack = stacks.get((process, track))
        if stack is None:
            stacks[process, track] = [s]
            continue
        while stack and stack[-1].end_ps <= start:
            stack.pop()
        if stack and end > stack[-1].end_ps:
            over = stack[-1]
            problems.append(f"{_where(s)} overlaps {over.name!r} [{over.start_ps}, {over.end_ps}) ps")
            continue
        stack.append(s)
    return problems


def _where(s: Slice) -> str:
    return f"npu {s.process}, track {s.track!r}: {s.name!r} [{s.start_ps}, {s.end_ps}) ps"


def read_slices(table: Table, rows: list[int] | None = None) -> list[Slice]:
    """Some or all rows of the table `slices`."""
    chosen = table if rows is None else table.take(rows)
    names = ("npu", "track", "name", "start_ps", "end_ps")
    columns = [chosen.column(n).to_pylist() for n in names]
    return [Slice(*row) for row in zip(*columns, strict=True)]


def longest(table: Table, limit: int) -> list[Slice]:
    """At most `limit` slices of the table `slices`, the longest ones; the first of equally long ones."""
    if table.num_rows <= limit:
        return read_slices(table)
    starts, ends = (table.column(n).to_pylist() for n in ("start_ps", "end_ps"))
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    rows = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)[:limit]
    return read_slices(table, sorted(rows))


def _longest(slices: list[Slice], limit: int) -> list[Slice]:
    if len(slices) <= limit:
        return slices
    rows = sorted(range(len(slices)), key=lambda i: slices[i].length_ps, reverse=True)[:limit]
    return [slices[i] for i in sorted(rows)]


def tracks(slices: Iterable[Slice]) -> list[Track]:
    """The tracks of slices in the order of display: process by process."""
    return sorted({(s.process, s.track) for s in slices}, key=lambda t: (t[0], _track_key(t[1])))


def arrows(slices: Iterable[Slice]) -> set[int]:
    """The arrows of which both ends are there."""
    kept = list(slices)
    return {s.leaves for s in kept if s.leaves} & {s.arrives for s in kept if s.arrives}


def _track_key(track: str) -> tuple[int, list[tuple[int, int, str]], str]:
    """Compute first, then waits, collectives, phases, messages, links; numbers in their order."""
    rank = next((i for i, t in enumerate(_TRACK_ORDER) if track.startswith(t)), len(_TRACK_ORDER))
    parts = re.findall(r"[0-9]+|[^0-9]+", track)
    return rank, [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts], track


def _is_folded(tables: Mapping[str, Table]) -> bool:
    links = tables.get("links")
    if links is None or "copies" not in links.column_names:
        return False
    return any(copies > 1 for copies in links.column("copies").to_pylist())


def _links(table: Table | None, npus: set[int]) -> list[Slice]:
    """When links were busy. A link of a switch is a track of the NPU that it leads to."""
    found: list[Slice] = []
    if table is None:
        return found
    columns = ("node", "port", "to", "start_ps", "end_ps", "busy_ps")
    for node, port, to, start, end, busy in zip(*(table.column(c).to_pylist() for c in columns), strict=True):
        if node not in npus and to not in npus:
            continue
        npu, track = (node, f"link {port}") if node in npus else (to, f"link of node {node}, {port}")
        share = busy / (end - start) if end > start else 1.0
        found.append(Slice(npu, track, "busy" if share == 1.0 else f"{100 * share:.3g} % busy", start, end))
    return found


def _messages(tables: Mapping[str, Table], npus: set[int]) -> list[Slice]:
    """Messages at both of their ends, with arrows between those."""
    table = tables.get("messages")
    found: list[Slice] = []
    if table is None:
        return found
    folded = _is_folded(tables)
    end = _end(tables)
    slots: dict[Track, _Slots] = {}
    columns = ("src", "src_port", "dst", "dst_port", "bytes", "sent_ps", "arrived_ps")
    rows = zip(*(table.column(c).to_pylist() for c in columns), strict=True)
    for number_, (src, out, dst, into, length, sent, arrived) in enumerate(rows, 1):
        size = _size(length)
        arrow = number_ if src in npus and dst in npus and arrived is not None else 0
        if src in npus:
            way = f"by {out}" if out else "to itself"
            until = arrived if arrived is not None else max(end, sent)
            slot = slots.setdefault((src, way), _Slots()).take(sent, until)
            name = f"{size} {way}" if folded else f"{size} to {_node(dst, npus)}"
            if arrived is None:
                name += ", under way at the end"
            found.append(Slice(src, f"sends {way}, slot {slot:02}", name, sent, until, leaves=arrow))
        if dst in npus and arrived is not None:
            name = f"{size} by {into}" if folded and into else f"{size} from {_node(src, npus)}"
            found.append(Slice(dst, "receives", name, arrived, arrived, arrives=arrow))
    return found


def _node(node: int, npus: set[int]) -> str:
    return f"NPU {node}" if node in npus else f"node {node}"


def _size(length: int) -> str:
    for unit, name in _SIZES:
        if length >= unit:
            return f"{length / unit:.4g} {name}"
    return f"{length} B"


def _end(tables: Mapping[str, Table]) -> int:
    """The end of what is known of a run."""
    columns = (("slices", "end_ps"), ("link_spans", "end_ps"), ("messages", "sent_ps"))
    times = (max(tables[t].column(c).to_pylist(), default=0) for t, c in columns if t in tables)
    return max(times, default=0)


class _Slots:
    """Slots of a track, on each of which spans are disjoint."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []

    def take(self, start: int, end: int) -> int:
        """The lowest slot that is free from `start` on, which never lies before that of an earlier call."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        slot = heapq.heappop(self._free) if self._free else len(self._busy)
        heapq.heappush(self._busy, (end, slot))
        return slot


def _counters(
    table: Table | None, columns: Mapping[str, tuple[str, str, float]], always: tuple[str, ...] = ()
) -> Iterator[Counter]:
    if table is None or "start_ps" not in table.column_names:
        return
    starts = [int(s) // PS_PER_NS for s in table.column("start_ps").to_pylist()]
    for column, (name, unit, factor) in columns.items():
        if column in table.column_names:
            values = numbers(table.column(column))
            if any(values) or column in always:
                yield Counter(name, unit, starts, [None if v is None else number(v * factor) for v in values])
