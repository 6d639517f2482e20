"""What a trace says of the time that it took, and its nodes with communication that takes that time again.

*Exposed communication* of a record is the time in which some communication is under way and nothing computes.
*A replay* has the nodes of a trace, in which what communicates takes as long as was recorded, in place of what a
network would make of it. It takes as long as the record where the nodes and what they wait for are a model of what
happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from syncline.importers.traces import Barrier, Collective, Exchange, Item, Message, Record, Relative, Time, Trace

MOST_STREAMS: Final = 255
MOST_LANES: Final = 32
"""Streams of the communication of a replay, none of which is to wait for another."""
COMMUNICATION: Final = (Collective, Barrier, Exchange, Message, Relative)

Span = tuple[int, int]
"""Begin and end, in picoseconds."""


def of_spans(time: int, communicating: Iterable[Span], computing: Iterable[Span], steps: int | None = None) -> Record:
    """The record of a time in which an NPU communicates and computes in some spans, which may overlap."""
    both = [*communicating]
    communication = _covered(both)
    of_compute = [*computing]
    exposed = _covered([*both, *of_compute]) - _covered(of_compute)
    return Record(time, communication, exposed, steps)


def _covered(spans: Iterable[Span]) -> int:
    """The length of the union of spans."""
    covered, until = 0, 0
    for start, end in sorted(spans):
        if end > max(start, until):
            covered += end - max(start, until)
            until = end
    return covered


def as_recorded(trace: Trace) -> Trace | None:
    """The nodes of a trace as the work of the only NPU there is, which take the recorded time; nothing if the time of
    some communication is not recorded, or no streams are left for it.
    """
    first = max([len(trace.streams), *(item.stream + 1 for item in trace.items)])
    communicating = [item for item in trace.items if isinstance(item.work, COMMUNICATION)]
    if any(item.recorded is None for item in communicating) or (communicating and first >= MOST_STREAMS):
        return None
    lanes = _lanes(communicating, min(MOST_LANES, MOST_STREAMS - first))
    used = max(lanes.values(), default=-1) + 1
    items = [
        item
        if item.recorded is None
        else replace(
            item,
            work=Time(item.recorded[1] - item.recorded[0]),
            stream=first + lanes[item.number] if item.number in lanes else item.stream,
        )
        for item in trace.items
    ]
    order = "in-order" if trace.in_file_order else "by-readiness"
    streams = list(trace.streams) or [order] * first
    streams += [order] * (first - len(streams)) + ["by-readiness"] * used
    return replace(trace, npu=0, items=items, groups={}, streams=streams)


def _lanes(communicating: Sequence[Item], most: int) -> dict[int, int]:
    """Which of `most` streams each node of communication is on: a new one or, where all are used, the one that has been
    free for longest.
    """
    free_since: list[int] = []
    lanes: dict[int, int] = {}
    spans = sorted((item.recorded, item.number) for item in communicating if item.recorded is not None)
    for (_, end), number in spans:
        if len(free_since) < most:
            lane = len(free_since)
            free_since.append(end)
        else:
            lane = min(range(most), key=lambda place: free_since[place])
            free_since[lane] = max(free_since[lane], end)
        lanes[number] = lane
    return lanes
