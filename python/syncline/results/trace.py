"""The trace of one variant in Chrome's trace-event format, which Perfetto opens.

It shows a [`timeline`][syncline.results.timeline]. One process per NPU with one thread per track; counters are in a
process of their own, on top.

Viewers round the start and the length of a slice separately. With picoseconds in `ts` and `dur`, rounding could move
the end of a slice past the start of the next one or past the end of its parent, and Perfetto drops slices that overlap.
So both ends of a slice are rounded down to nanoseconds first and `dur` is their difference; where that changed a time,
`args` hold the exact one in picoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from syncline.results.timeline import PS_PER_NS, UTILISATION, Counter, Slice, Timeline, Track, arrows, tracks

MIN_EVENT_BYTES = 60
"""No slice is shorter than this as JSON."""
COUNTER_SHARE = 0.25
"""Part of the limit that counters may use."""
MAX_BYTES = 50_000_000
"""The longest trace that is written, unless another limit is given."""
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(timeline: Timeline, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """A timeline as JSON of at most `max_bytes`.

    Too long a trace first loses exact picoseconds, then its counters are averaged over more windows, then the shortest
    slices go, and arrows with either end. What was lost stands in `otherData`. Raises [`ValueError`] if the limit is
    too small for anything.
    """
    kept, total = timeline.slices, timeline.notes.get("slices_total", len(timeline.slices))
    tids = _tids(kept)
    pid = max((_pid(process) for process, _ in tids), default=0) + 1
    other: dict[str, Any] = {"variant": name, **timeline.notes}

    whole = arrows(kept)
    names = {name: _json(name) for name in {s.name for s in kept}}

    def encoded(exact: bool) -> list[str]:
        return [_slice_lines(s, tids[s.process, s.track], names[s.name], exact, whole) for s in kept]

    def sampled(merged: int) -> list[str]:
        return [line for counter in timeline.counters for line in _samples(counter, merged, pid)]

    exact = len(kept) == total
    lines = encoded(exact)
    merged, samples = 1, sampled(1)
    frame = 600 + len(_json(other))
    while True:
        metadata = _metadata(timeline, kept, tids, pid if samples else None)
        excess = frame + _size(metadata) + _size(samples) + _size(lines) - max_bytes
        if excess <= 0:
            break
        if exact and lines:
            exact, lines = False, encoded(False)
        elif _size(samples) > COUNTER_SHARE * max_bytes or (samples and not kept):
            merged *= 2
            samples = sampled(merged) if merged <= timeline.windows else []
        elif kept:
            kept = _without_shortest(kept, lines, excess)
            whole = arrows(kept)
            lines = encoded(False)
        else:
            raise ValueError(f"a trace needs {max_bytes + excess} bytes at least, not {max_bytes}")
    other |= {
        "slices_total": total,
        "slices_written": len(kept),
        "slices_dropped": total - len(kept),
        "shortest_slice_written_ps": min((s.length_ps for s in kept), default=0),
        "arrows_written": len(whole),
        "exact_picoseconds": exact,
        "windows_total": timeline.windows,
        "windows_per_counter_sample": merged if samples else 0,
        "time_unit": "ts and dur are microseconds of simulated time",
    }
    head = f'{{"displayTimeUnit":"ns","otherData":{_json(other)},"traceEvents":[\n'
    return (head + ",\n".join([*metadata, *samples, *lines]) + "\n]}\n").encode("ascii")


def _without_shortest(slices: list[Slice], lines: list[str], excess: int) -> list[Slice]:
    """Drops the shortest slices until `excess` bytes are saved."""
    by_length = sorted(range(len(slices)), key=lambda i: (slices[i].length_ps, -i))
    dropped = set()
    for i in by_length:
        if excess <= 0:
            break
        dropped.add(i)
        excess -= len(lines[i]) + 2
    return [s for i, s in enumerate(slices) if i not in dropped]


def _size(lines: Iterable[str]) -> int:
    return sum(len(line) + 2 for line in lines)


def _json(value: Any) -> str:
    """ASCII, so that characters are bytes."""
    return _ENCODER.encode(value)


def _microseconds(time_ns: int) -> str:
    if time_ns < 0:
        return "-" + _microseconds(-time_ns)
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _pid(process: int) -> int:
    """Process 0 has a meaning of its own to viewers."""
    return process + 1


def _tids(slices: Iterable[Slice]) -> dict[Track, int]:
    """A thread per track; threads of a process count from 1 in the order of display."""
    tids: dict[Track, int] = {}
    counts: dict[int, int] = {}
    for process, track in tracks(slices):
        counts[process] = counts.get(process, 0) + 1
        tids[process, track] = counts[process]
    return tids


def _slice_lines(s: Slice, tid: int, name: str, exact: bool, whole: set[int]) -> str:
    """A complete event with this `name` in JSON, and those of its arrows that are among the `whole` ones."""
    process, _, _, start_ps, end_ps, leaves, arrives = s
    start, end = start_ps // PS_PER_NS, end_ps // PS_PER_NS
    where = f'"pid":{_pid(process)},"tid":{tid},"ts":{_microseconds(start)}'
    text = f'{{"ph":"X",{where},"dur":{_microseconds(max(0, end - start))},"name":{name}'
    if exact and (start_ps % PS_PER_NS or end_ps % PS_PER_NS):
        text += f',"args":{{"start_ps":{start_ps},"end_ps":{end_ps}}}'
    text += "}"
    if leaves in whole:
        text += f',\n{{"ph":"s",{where},"id":{leaves},"cat":"arrow","name":"arrow"}}'
    if arrives in whole:
        text += f',\n{{"ph":"f","bp":"e",{where},"id":{arrives},"cat":"arrow","name":"arrow"}}'
    return text


def _metadata(
    timeline: Timeline, slices: Iterable[Slice], tids: Mapping[Track, int], counters: int | None
) -> list[str]:
    """Names and order of the processes and threads that have events; `counters` is the process of the counters."""
    lines = []
    if counters is not None:
        lines += [
            _meta(counters, 0, "process_name", "name", UTILISATION),
            _meta(counters, 0, "process_sort_index", "sort_index", -1),
        ]
    named = set()
    for process, track in tracks(slices):
        pid, tid = _pid(process), tids[process, track]
        if process not in named:
            named.add(process)
            of = timeline.process(process)
            lines.append(_meta(pid, 0, "process_name", "name", of.name))
            lines.append(_meta(pid, 0, "process_sort_index", "sort_index", of.place))
        lines.append(_meta(pid, tid, "thread_name", "name", track))
        lines.append(_meta(pid, tid, "thread_sort_index", "sort_index", tid))
    return lines


def _meta(pid: int, tid: int, what: str, key: str, value: str | int) -> str:
    thread = f',"tid":{tid}' if tid else ""
    return f'{{"ph":"M","pid":{pid}{thread},"name":"{what}","args":{{"{key}":{_json(value)}}}}}'


def _samples(counter: Counter, merged: int, pid: int) -> Iterable[str]:
    """The events of a counter: means of `merged` windows."""
    title = _json(counter.title)
    for start, value in counter.samples(merged):
        yield f'{{"ph":"C","pid":{pid},"ts":{_microseconds(start)},"name":{title},"args":{{"value":{value}}}}}'
