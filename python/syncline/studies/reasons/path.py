"""The critical path: from the end of a run back to its beginning, through what held it up.

Looked at is one NPU that was traced. At every moment of its time one thing is to blame, found backwards:

*compute*     the main stream was computing until then; before that, whatever made it begin.
*a wait*      the main stream waited for a collective. The chunk that completed it went through its phases, one after
              the other; it began when the collective was issued (by compute, which is to blame from there on), or when
              the chunk before it had left room.

Every picosecond of the run is in exactly one span, so the shares add up to the whole. A phase counts from its beginning
to its end on this NPU, including what it waits for there of other NPUs; what only happened elsewhere is called so.
The same walk, ended where a wait began, divides the exposed communication among phases.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from syncline.studies.reasons.seen import Seen

What = Literal["compute", "phase", "queue", "start", "elsewhere", "collective", "bubble", "background", "idle"]

_PHASE: Final = re.compile(r"phase (\d+) (.*) slot \d+")
_COLLECTIVE: Final = re.compile(r"([a-z-]+) of iteration (\d+)")
_DIMENSION: Final = re.compile(r" dim (\d+)$")
_FAMILY: Final = re.compile(r"(.*) [a-z-]+ (?:dim \d+|of all)")
"""A phase of a run with several families of communicators, by the one that it is of."""
_WAITS: Final = "waits for "
_BACKGROUND: Final = "background compute"


def dimension_of(phase: str) -> int | None:
    """The dimension along which a phase of this name works."""
    found = _DIMENSION.search(phase)
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time, and what is to blame for it."""

    what: What
    start: int
    end: int
    kind: str = ""
    """The kind of the collective, or the pass of compute."""
    phase: str = ""
    """The phase of a chunk, as `reduce-scatter dim 0`."""
    layer: str = ""

    @property
    def length(self) -> int:
        """Picoseconds."""
        return self.end - self.start

    @property
    def dimension(self) -> int | None:
        """The dimension along which a phase works."""
        return dimension_of(self.phase)


@dataclass(frozen=True, slots=True)
class _Collective:
    layer: str
    kind: str
    start: int
    end: int


class _Part(NamedTuple):
    """A chunk in a phase."""

    chunk: tuple[str, str]
    """Its name, which is unique within a family of communicators, and that family."""
    layer: str
    number: int
    """Of the phase."""
    phase: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Busy:
    """A span of the main stream."""

    name: str
    start: int
    end: int
    is_wait: bool


@dataclass(slots=True)
class Timeline:
    """What a traced NPU did."""

    npu: int | None
    total: int
    main: list[_Busy] = field(default_factory=list)
    collectives: dict[str, list[_Collective]] = field(default_factory=dict)
    parts: list[_Part] = field(default_factory=list)
    """Chunks in phases, by their ends."""
    _ends: list[int] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _chunks: dict[tuple[str, str], list[_Part]] = field(default_factory=dict)
    _layers: dict[str, list[_Part]] = field(default_factory=dict)

    @classmethod
    def of(cls, seen: Seen) -> Timeline:
        """What the slowest NPU did, or the first by number that was traced; nothing where none was."""
        traced = seen.traced
        npu = seen.slowest if seen.slowest in traced else min(traced, default=None)
        found = cls(npu, seen.total_ps)
        phases: dict[str, tuple[str, int, str] | None] = {}
        for of, track, name, start, end in seen.columns("slices", "npu", "track", "name", "start_ps", "end_ps"):
            if of != npu or end <= start:
                continue
            if track not in phases:
                phases[track] = _phase(track)
            if (phase := phases[track]) is not None:
                family, number, title = phase
                layer = name.rpartition(" chunk ")[0]
                found.parts.append(_Part((name, family), layer, number, title, start, end))
            else:
                found._add(track, name, start, end)
        found.main.sort(key=lambda busy: busy.start)
        found.parts.sort(key=lambda part: (part.end, part.start, part.number))
        found._starts = [busy.start for busy in found.main]
        found._ends = [part.end for part in found.parts]
        for part in found.parts:
            found._chunks.setdefault(part.chunk, []).append(part)
            found._layers.setdefault(part.layer, []).append(part)
        return found

    def _add(self, track: str, name: str, start: int, end: int) -> None:
        if track in ("compute", "exposed"):
            self.main.append(_Busy(name, start, end, track == "exposed"))
        elif track.startswith("collective ") and (of := _COLLECTIVE.match(name)) is not None:
            layer = track.removeprefix("collective ")
            self.collectives.setdefault(layer, []).append(_Collective(layer, of[1], start, end))

    def critical_path(self) -> list[Span]:
        """The spans of the critical path, in the order of time; they are adjacent and cover the run."""
        found: list[Span] = []
        at = self.total
        last = self.main[-1].end if self.main else 0
        if at > last:  # it may go further back than that end: chunks were in flight before
            found += self._chain(at, 0, None)
            at = found[-1].start if found else at
        while at > 0:
            spans = self._before(at)
            found += spans
            at = spans[-1].start
        return found[::-1]

    def exposed(self) -> list[Span]:
        """What is to blame for the waits of the main stream, but for bubbles and other streams, in no order."""
        found: list[Span] = []
        for wait in self.main:
            collective = self._waited_for(wait)
            if not wait.is_wait or collective is None:
                continue
            spans = self._chain(wait.end, wait.start, collective)
            at = spans[-1].start if spans else wait.end
            if at > wait.start:
                spans.append(Span("collective", wait.start, at, collective.kind, layer=collective.layer))
            found += spans
        return found

    def drained(self) -> list[Span]:
        """What is to blame for the time after the end of the main stream, in no order."""
        last = self.main[-1].end if self.main else 0
        return self._chain(self.total, last, None)

    def in_flight(self) -> tuple[int, int, int]:
        """Picoseconds in which chunks were in flight, those of all chunks added up, and the most at once."""
        changes: dict[int, int] = {}
        for parts in self._chunks.values():
            for start, end in _united(sorted((p.start, p.end) for p in parts)):
                changes[start] = changes.get(start, 0) + 1
                changes[end] = changes.get(end, 0) - 1
        busy = chunks = most = now = before = 0
        for at in sorted(changes):
            busy += at - before if now else 0
            chunks += now * (at - before)
            now, before = now + changes[at], at
            most = max(most, now)
        return busy, chunks, most

    def waiting(self) -> int:
        """Picoseconds in which chunks that were issued were not yet in flight while others were: those of all
        collectives, each from its issue to the beginning of its last chunk, as one.
        """
        spans = []
        for layer, collectives in self.collectives.items():
            parts = self._layers.get(layer, [])
            for collective in collectives:
                begun: dict[tuple[str, str], int] = {}
                for part in parts:
                    if collective.start <= part.start < collective.end:
                        begun[part.chunk] = min(begun.get(part.chunk, part.start), part.start)
                if begun:
                    spans.append((collective.start, max(begun.values())))
        return sum(end - start for start, end in _united(sorted(spans)))

    def _before(self, at: int) -> list[Span]:
        """What the main stream did before a time, or what held it up: one span or more, from the end."""
        index = bisect_left(self._starts, at) - 1
        if index < 0:
            return [Span("idle", 0, at)]
        busy = self.main[index]
        if busy.end < at:
            return [Span("idle", busy.end, at)]
        if not busy.is_wait:
            layer, _, name = busy.name.rpartition(" ")
            return [Span("compute", busy.start, at, name, layer=layer)]
        collective = self._waited_for(busy)
        if collective is not None:
            return self._chain(at, 0, collective) or [
                Span("collective", busy.start, at, collective.kind, layer=collective.layer)
            ]
        of_stream = busy.name == _WAITS + _BACKGROUND
        return [Span("background" if of_stream else "bubble", busy.start, at, layer=busy.name.removeprefix(_WAITS))]

    def _waited_for(self, wait: _Busy) -> _Collective | None:
        """The collective whose end ended a wait."""
        layer = wait.name.removeprefix(_WAITS).rpartition(" ")[0]
        ended = [c for c in self.collectives.get(layer, ()) if c.end <= wait.end and c.end > wait.start]
        return max(ended, key=lambda c: c.end, default=None)

    def _chain(self, at: int, floor: int, collective: _Collective | None) -> list[Span]:
        """From a time back through chunks to the issue of a collective, but not further than `floor`."""
        found: list[Span] = []
        low = floor

        def blame(what: What, start: int, part: _Part | None = None) -> None:
            nonlocal at
            start = max(floor, min(start, at))
            if start < at:
                kind = collective.kind if collective is not None else ""
                layer = part.layer if part is not None else collective.layer if collective is not None else ""
                found.append(Span(what, start, at, kind, part.phase if part is not None else "", layer))
                at = start

        part = self._last_of(at, collective)
        if part is not None and collective is None:
            collective = self._collective_of(part)
        if part is not None:
            blame("elsewhere", part.end)
        while at > floor and part is not None:
            collective = self._collective_of(part) or collective
            earlier = self._earlier(part, collective)
            blame("phase", part.start, part)
            if earlier is not None:
                blame("queue", earlier.end, part)
                part = earlier
                continue
            low = max(floor, collective.start if collective is not None else floor)
            if at <= low:
                return found
            freed = self._freed(at)
            if freed is None or freed.end <= low:
                blame("start", low, part)
                return found
            blame("start", freed.end, part)
            part = freed
        if part is None and at > floor:
            blame("collective", collective.start if collective is not None else floor)
        return found

    def _last_of(self, at: int, collective: _Collective | None) -> _Part | None:
        """The chunk that completed a collective at a time, or what ended last before it."""
        if collective is None:
            index = bisect_right(self._ends, at) - 1
            return self.parts[index] if index >= 0 else None
        parts = self._layers.get(collective.layer, [])
        index = bisect_right(parts, at, key=lambda part: part.end) - 1
        return parts[index] if index >= 0 and parts[index].end > collective.start else None

    def _collective_of(self, part: _Part) -> _Collective | None:
        """The collective of a chunk: the latest of its layer that was issued by then."""
        issued = [c for c in self.collectives.get(part.layer, ()) if c.start <= part.start and part.end <= c.end]
        return max(issued, key=lambda c: c.start, default=None)

    def _earlier(self, part: _Part, collective: _Collective | None) -> _Part | None:
        """The phase that the chunk was in before. A chunk of another collective may have the same name: those of a
        layer in several micro-batches, say.
        """
        issued = 0 if collective is None else collective.start
        earlier = [
            p
            for p in self._chunks[part.chunk]
            if issued <= p.start < part.start and p.end < part.end and p.number != part.number
        ]
        return max(earlier, key=lambda p: (p.end, p.start), default=None)

    def _freed(self, at: int) -> _Part | None:
        """The chunk that left room for another one at a time: what ended then, or last before; one that was done, if
        several ended.
        """
        index = bisect_right(self._ends, at) - 1
        if index < 0:
            return None
        last = bisect_left(self._ends, self._ends[index])
        together = self.parts[last : index + 1]
        done = [part for part in together if self._chunks[part.chunk][-1] is part]
        return (done or together)[-1]


def _phase(track: str) -> tuple[str, int, str] | None:
    """The family, the number and the name of the phase that a track is of; nothing for other tracks."""
    found = _PHASE.fullmatch(track)
    if found is None:
        return None
    family = _FAMILY.fullmatch(found[2])
    return "" if family is None else family[1], int(found[1]), found[2]


def _united(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans that overlap or touch as one; they come sorted."""
    current: tuple[int, int] | None = None
    for start, end in spans:
        if current is None or start > current[1]:
            if current is not None:
                yield current
            current = (start, end)
        else:
            current = (current[0], max(current[1], end))
    if current is not None:
        yield current
