"""The trace of one variant in Chrome's trace-event format, which Perfetto opens.

One process per NPU with one thread per track of the table `slices`; the tables `windows` and
`congestion` become counters of a process of its own, on top.

Viewers keep time in whole nanoseconds and round the start and the length of a slice separately.
With picoseconds in `ts` and `dur`, rounding could move the end of a slice past the start of the
next one or past the end of its parent, and Perfetto drops slices that overlap. So both ends of a
slice are rounded down to nanoseconds first (which keeps every order, hence nesting) and `dur` is
their difference; where that changed a time, `args` hold the exact one in picoseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .series import merge
from .study import Table, numbers
from .units import number, significant

PS_PER_NS = 1000
MIN_EVENT_BYTES = 60
"""No slice is shorter than this as JSON."""
COUNTER_SHARE = 0.25
"""Part of the limit that counters may use."""

_COUNTERS = {
    "compute": ("compute busy (%)", 100.0),
    "links": ("links busy (%)", 100.0),
    "ace_active": ("ACE active (%)", 100.0),
    "sram_bytes": ("SRAM held (bytes)", 1.0),
    "fsm_busy": ("FSMs busy", 1.0),
}
_CONGESTION = {
    "peak_queue_bytes": ("longest queue (bytes)", 1.0),
    "drops": ("frames dropped (per window)", 1.0),
    "timeouts": ("timeouts (per window)", 1.0),
    "pauses": ("pauses asked for (per window)", 1.0),
}
"""Counters of a network with a transport. Where windows are merged, a value is their mean."""
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_TRACK_ORDER = ("compute", "exposed", "background", "collective", "phase")


Track = tuple[int, str]
"""An NPU and the name of a track."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A span of time on a track."""

    npu: int
    track: str
    name: str
    start_ps: int
    end_ps: int

    @property
    def order(self) -> tuple[int, int, str, int, str]:
        """Order in a trace: by start, and a parent before its children."""
        return (self.start_ps, self.npu, self.track, -self.end_ps, self.name)


def build(tables: Mapping[str, Table], name: str, max_bytes: int = 50_000_000) -> bytes:
    """The trace of the variant `name` as JSON of at most `max_bytes`.

    Too long a trace first loses exact picoseconds, then its counters are averaged over more
    windows, then the shortest slices go. What was lost stands in `otherData`.
    """
    table = tables.get("slices")
    total = table.num_rows if table is not None else 0
    kept = _longest(table, max_bytes // MIN_EVENT_BYTES) if table is not None else []
    kept.sort(key=lambda s: s.order)
    tids = _tids(kept)
    other: dict[str, Any] = {"variant": name, "slices_total": total}
    if problems := check_nesting(kept):
        other |= {"nesting_problems": len(problems), "first_nesting_problem": problems[0]}
    counters = _Counters.read(tables, _counter_pid(tids))

    def encode(exact: bool) -> list[str]:
        return [_slice_line(s, tids[s.npu, s.track], exact) for s in kept]

    exact = len(kept) == total
    lines = encode(exact)
    merged, samples = 1, counters.lines(1)
    frame = 600 + len(_json(other))
    while True:
        metadata = _metadata(kept, tids, bool(samples))
        excess = frame + _size(metadata) + _size(samples) + _size(lines) - max_bytes
        if excess <= 0:
            break
        if exact and lines:
            exact, lines = False, encode(False)
        elif _size(samples) > COUNTER_SHARE * max_bytes or (samples and not kept):
            merged *= 2
            samples = counters.lines(merged) if merged <= counters.windows else []
        elif kept:
            kept, lines = _without_shortest(kept, lines, excess)
        else:
            raise ValueError(f"a trace needs {max_bytes + excess} bytes at least, not {max_bytes}")
    other |= {
        "slices_written": len(kept),
        "slices_dropped": total - len(kept),
        "shortest_slice_written_ps": min((s.end_ps - s.start_ps for s in kept), default=0),
        "exact_picoseconds": exact,
        "windows_total": counters.windows,
        "windows_per_counter_sample": merged if samples else 0,
        "time_unit": "ts and dur are microseconds of simulated time",
    }
    head = f'{{"displayTimeUnit":"ns","otherData":{_json(other)},"traceEvents":[\n'
    return (head + ",\n".join([*metadata, *samples, *lines]) + "\n]}\n").encode("ascii")


def check_nesting(slices: Iterable[Slice]) -> list[str]:
    """What is wrong with slices: those that end before they start or overlap partly on a track."""
    problems = []
    stacks: dict[Track, list[Slice]] = {}
    for s in sorted(slices, key=lambda s: s.order):
        where = f"npu {s.npu}, track {s.track!r}: {s.name!r} [{s.start_ps}, {s.end_ps}) ps"
        if s.end_ps < s.start_ps:
            problems.append(f"{where} ends before it starts")
            continue
        stack = stacks.setdefault((s.npu, s.track), [])
        while stack and stack[-1].end_ps <= s.start_ps:
            stack.pop()
        if stack and s.end_ps > stack[-1].end_ps:
            over = stack[-1]
            problems.append(f"{where} overlaps {over.name!r} [{over.start_ps}, {over.end_ps}) ps")
            continue
        stack.append(s)
    return problems


def read_slices(table: Table, rows: list[int] | None = None) -> list[Slice]:
    """Some or all rows of the table `slices`."""
    chosen = table if rows is None else table.take(rows)
    names = ("npu", "track", "name", "start_ps", "end_ps")
    columns = [chosen.column(n).to_pylist() for n in names]
    return [
        Slice(int(npu), str(track), str(name), int(start), int(end))
        for npu, track, name, start, end in zip(*columns, strict=True)
    ]


def _longest(table: Table, limit: int) -> list[Slice]:
    """At most `limit` slices, the longest ones; the first of equally long ones."""
    if table.num_rows <= limit:
        return read_slices(table)
    starts, ends = (table.column(n).to_pylist() for n in ("start_ps", "end_ps"))
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    rows = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)[:limit]
    return read_slices(table, sorted(rows))


def _without_shortest(slices: list[Slice], lines: list[str], excess: int) -> tuple[list[Slice], list[str]]:
    """Drops the shortest slices until `excess` bytes are saved."""
    by_length = sorted(range(len(slices)), key=lambda i: (slices[i].end_ps - slices[i].start_ps, -i))
    dropped = set()
    for i in by_length:
        if excess <= 0:
            break
        dropped.add(i)
        excess -= len(lines[i]) + 2
    keep = [i for i in range(len(slices)) if i not in dropped]
    return [slices[i] for i in keep], [lines[i] for i in keep]


def _size(lines: Iterable[str]) -> int:
    return sum(len(line) + 2 for line in lines)


def _json(value: Any) -> str:
    """ASCII, so that characters are bytes."""
    return _ENCODER.encode(value)


def _microseconds(time_ns: int) -> str:
    sign = "-" if time_ns < 0 else ""
    return f"{sign}{abs(time_ns) // 1000}.{abs(time_ns) % 1000:03d}"


def _pid(npu: int) -> int:
    """Process 0 has a meaning of its own to viewers."""
    return npu + 1


def _tids(slices: Iterable[Slice]) -> dict[Track, int]:
    """A thread per track; threads of a process count from 1 in the order of display."""
    tracks = sorted({(s.npu, s.track) for s in slices}, key=lambda t: (t[0], _track_key(t[1])))
    tids: dict[Track, int] = {}
    counts: dict[int, int] = {}
    for npu, track in tracks:
        counts[npu] = counts.get(npu, 0) + 1
        tids[npu, track] = counts[npu]
    return tids


def _track_key(track: str) -> tuple[int, list[tuple[int, int, str]], str]:
    """Compute first, then waits, collectives, phases; numbers in their order."""
    rank = next((i for i, t in enumerate(_TRACK_ORDER) if track.startswith(t)), len(_TRACK_ORDER))
    parts = re.findall(r"[0-9]+|[^0-9]+", track)
    return rank, [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts], track


def _slice_line(s: Slice, tid: int, exact: bool) -> str:
    """A complete event."""
    start, end = s.start_ps // PS_PER_NS, s.end_ps // PS_PER_NS
    text = (
        f'{{"ph":"X","pid":{_pid(s.npu)},"tid":{tid},"ts":{_microseconds(start)},'
        f'"dur":{_microseconds(max(0, end - start))},"name":{_json(s.name)}'
    )
    if exact and (s.start_ps % PS_PER_NS or s.end_ps % PS_PER_NS):
        text += f',"args":{{"start_ps":{s.start_ps},"end_ps":{s.end_ps}}}'
    return text + "}"


def _metadata(slices: Iterable[Slice], tids: Mapping[Track, int], counters: bool) -> list[str]:
    """Names and order of the processes and threads that have events."""
    lines = []
    if counters:
        pid = _counter_pid(tids)
        lines += [
            _meta(pid, 0, "process_name", "name", "utilisation"),
            _meta(pid, 0, "process_sort_index", "sort_index", -1),
        ]
    named = set()
    for npu, track in sorted({(s.npu, s.track) for s in slices}, key=lambda t: (t[0], tids[t])):
        pid, tid = _pid(npu), tids[npu, track]
        if npu not in named:
            named.add(npu)
            lines.append(_meta(pid, 0, "process_name", "name", f"NPU {npu}"))
            lines.append(_meta(pid, 0, "process_sort_index", "sort_index", npu))
        lines.append(_meta(pid, tid, "thread_name", "name", track))
        lines.append(_meta(pid, tid, "thread_sort_index", "sort_index", tid))
    return lines


def _meta(pid: int, tid: int, what: str, key: str, value: str | int) -> str:
    thread = f',"tid":{tid}' if tid else ""
    return f'{{"ph":"M","pid":{pid}{thread},"name":"{what}","args":{{"{key}":{_json(value)}}}}}'


def _counter_pid(tids: Mapping[Track, int]) -> int:
    """The process of the counters, after those of all NPUs."""
    return max((_pid(npu) for npu, _ in tids), default=0) + 1


@dataclass(frozen=True)
class _Counters:
    """Series over windows as counter events."""

    starts_ns: dict[str, list[int]]
    """When the windows of a series begin."""
    series: dict[str, list[float | None]]
    pid: int

    @classmethod
    def read(cls, tables: Mapping[str, Table], pid: int) -> _Counters:
        """The series of the tables `windows` and `congestion`; none without them."""
        found = cls({}, {}, pid)
        found._add(tables.get("windows"), _COUNTERS, always=("compute", "links"))
        found._add(tables.get("congestion"), _CONGESTION)
        return found

    def _add(
        self, table: Table | None, counters: Mapping[str, tuple[str, float]], always: tuple[str, ...] = ()
    ) -> None:
        if table is None or "start_ps" not in table.column_names:
            return
        starts = [int(s) // PS_PER_NS for s in table.column("start_ps").to_pylist()]
        for column, (title, factor) in counters.items():
            if column in table.column_names:
                values = numbers(table.column(column))
                if any(values) or column in always:
                    self.series[title] = [None if v is None else number(v * factor) for v in values]
                    self.starts_ns[title] = starts

    @property
    def windows(self) -> int:
        """The most windows that a series has."""
        return max(map(len, self.series.values()), default=0)

    def lines(self, merged: int) -> list[str]:
        """Events of all counters: means of `merged` windows, without repeated values."""
        return [line for title in self.series for line in self._lines_of(title, merged)]

    def _lines_of(self, title: str, merged: int) -> Iterator[str]:
        before: float | None = None
        starts = self.starts_ns[title][::merged]
        for start, value in zip(starts, merge(self.series[title], merged), strict=True):
            shown = 0.0 if value is None else significant(value, 5)
            if shown != before:
                yield (
                    f'{{"ph":"C","pid":{self.pid},"ts":{_microseconds(start)},'
                    f'"name":{_json(title)},"args":{{"value":{shown}}}}}'
                )
            before = shown
