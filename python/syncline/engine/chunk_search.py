"""The fastest chunks of a collective, and how many of them are in flight, found by trials.

Chunks pipeline a collective: while one is in its second phase, the next one uses the links of the first. Of n chunks in
flight that take a time T each from end to end, and the busiest link for a time t each, a link is busy all the time
only where n t is at least T (Little's law). C chunks, n of them in flight, so take at least T + (C - 1) max(t, T / n).
T and t grow linearly with the size of chunks, and are found by simulating small and large ones ([`Waves`]).

The law is a bound: chunks that go in step wait for each other at some links and leave others idle meanwhile. So chunks
are chosen by trial ([`Search`]): the collective is simulated with the run's own endpoint, uncut and as the law
suggests. From either the search goes on to chunks of half and twice the size and number, as long as those are faster.
That is measured for the largest collective and for one of a size that is usual in the iteration, each by its time for a
byte. A collective of many chunks is simulated for its first eight waves, after which every further wave takes as long
as those before it. The search ends where the busiest link is busy nearly all the time, or when it has cost more than
[`SEARCH`]. Of cuts that are equally fast, a collective that has the links to itself takes the one with the fewest
chunks. In an iteration other collectives wait for the chunks in flight, which are not pre-empted: there it is the one
with the fewest bytes in flight.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from syncline.base import description
from syncline.sections.collective import DEFAULT_CHUNK, DEFAULT_IN_FLIGHT
from syncline.sections.endpoints.ideal import IdealEndpoint
from syncline.sections.workloads import ROOTED

SMALLEST: Final = 4 * 1024
"""Bytes of the smallest chunk that is tried."""
ALIGNED: Final = 16
"""Of how many bytes chunks of equal sizes are multiples: of what GPUs load and store at once."""
MOST_IN_FLIGHT: Final = 256
SPARE: Final = 1.25
"""How many more chunks are in flight than the law asks for: they do not follow each other as closely."""
CLOSE: Final = 1.02
"""Within what factor of the least time by the law chunks are as good."""

BALANCED: Final = frozenset({"themis"})
"""Algorithms whose chunks go through dimensions in different orders, so that one chunk tells little of several."""
FASTER: Final = 1.005
"""How much faster a collective is in other chunks that the search goes on to."""
ALIKE: Final = 1.01
"""Within what factor of the fastest time others are as fast. Where links are busy for as much of it, none is faster."""
SEARCH: Final = 1_500_000
"""Work of all trials of a collective, in events: about half a second."""
COSTLY: Final = 900_000
"""The same of a single trial."""
WAVES: Final = 8
"""How many waves tell the time of a collective."""
FEWER_WAVES: Final = 2
"""How many do where more of them take too long to simulate."""

_Cut = tuple[int, int]
"""Bytes of a chunk, and how many are in flight."""


class Tried(NamedTuple):
    """A run that was tried out."""

    time_ps: int
    busy_ps: int
    """For how long its busiest link is busy."""
    events: int
    """What its events cost."""
    setup: int = 0
    """What setting it up cost, in events."""
    slices: int | None = None
    """Those of its pipelines, if it has any."""
    phases: int = 0
    """Those of a collective, at most."""

    @property
    def work(self) -> int:
        """What the trial cost, in events."""
        return self.events + self.setup


Try = Callable[[str, int], Tried | None]
"""Simulates a described run; nothing if it costs more than so much work, or cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Picoseconds of a chunk."""

    one: float
    """From end to end, T."""
    link: float
    """On the busiest link, t."""

    def time(self, chunks: float, inflight: int) -> float:
        """Picoseconds of so many chunks, at least one: another follows when the link is free and one is complete."""
        each = self.link if chunks <= inflight else max(self.link, self.one / inflight)
        return self.one + max(0.0, chunks - 1) * each

    @property
    def enough(self) -> int:
        """The power of two of chunks in flight that are enough by the law, with some to spare."""
        inflight = 1
        while inflight < MOST_IN_FLIGHT and inflight * self.link < SPARE * self.one:
            inflight *= 2
        return inflight


def _preference(*, is_only: bool) -> Callable[[_Cut], tuple[int, int, int]]:
    """What is least in the best of cuts that are equally fast: of the only collective of a run the number of chunks,
    and where others may wait for it, the bytes in flight. There, [`DEFAULT_IN_FLIGHT`] chunks are none too many: with
    fewer, links idle while an NPU is late.
    """

    def key(cut: _Cut) -> tuple[int, int, int]:
        chunk, inflight = cut
        return (-chunk, inflight, 0) if is_only else (chunk * max(inflight, DEFAULT_IN_FLIGHT), -chunk, -inflight)

    return key


@dataclass(frozen=True, slots=True)
class Waves:
    """Waves of chunks of two sizes, between which times grow linearly."""

    sizes: tuple[int, int]
    """Bytes of a chunk."""
    waves: tuple[Wave, Wave]

    def of(self, chunk: int) -> Wave:
        """The wave of chunks of so many bytes."""
        (small, large), (short, long) = self.sizes, self.waves
        part = (chunk - small) / (large - small) if large > small else 1.0
        one = max(0.0, short.one + part * (long.one - short.one))
        return Wave(one, max(0.0, short.link + part * (long.link - short.link)))

    def cut(self, size: int, smallest: int, fixed: int | None, *, is_only: bool) -> tuple[_Cut, float]:
        """The chunks, of at least the smallest size, with which so many bytes take about the least time by the law, how
        many are in flight, and that time. Of several, [`_preference`] decides.
        """
        cuts: list[tuple[_Cut, float]] = []
        chunk = smallest
        while True:
            wave, chunks = self.of(min(equal(size, chunk), size)), -(-size // chunk)
            enough = wave.enough if is_only else max(DEFAULT_IN_FLIGHT, wave.enough)
            inflight = fixed or min(enough, 1 << (chunks - 1).bit_length())
            cuts.append(((chunk, inflight), wave.time(chunks, inflight)))
            if chunks == 1:
                break
            chunk *= 2
        least = min(time for _, time in cuts)
        return min((cut for cut, time in cuts if time <= CLOSE * least), key=_preference(is_only=is_only)), least


@dataclass(frozen=True, slots=True)
class Alone:
    """A collective that is simulated alone. What was tried out is kept for a while."""

    fabric: str
    description: str
    """All but the fabric."""
    attempt: Try

    def tried_out(self, chunk: int, size: int, inflight: int, most_work: int = COSTLY) -> Tried | None:
        """So many bytes in chunks of a size; nothing if they take too long to simulate."""
        return _tried_out(self, chunk, size, inflight, min(COSTLY, most_work))

    def wave(self, chunk: int, chunks: int) -> Wave | None:
        """What so many chunks tell that are all in flight."""
        taken = self.tried_out(chunk, chunks * chunk, chunks)
        if taken is None:
            return None
        time, busy = taken.time_ps, taken.busy_ps  # T + (n - 1) t, and n t
        return Wave(time - busy + busy / chunks, busy / chunks)

    @property
    def pipelined_phases(self) -> int:
        """Phases of a collective from or to a root, if nobody has said how many slices go through them."""
        if json.loads(self.description)["collectives"]["slices"] != 0 or not self.is_rooted:
            return 0
        empty = self.tried_out(1, 0, 1)
        return 0 if empty is None or empty.slices is None else empty.phases

    @property
    def is_rooted(self) -> bool:
        """Whether the collective goes from or to a root."""
        return json.loads(self.description)["job"].get("collective") in ROOTED

    @property
    def passes_on_at_once(self) -> bool:
        """Whether endpoints take no time, so that slices of one chunk do all that chunks do."""
        return bool(json.loads(self.description)["endpoint"]["kind"] == IdealEndpoint().kind)

    def in_single_slices(self) -> Alone:
        """The same, each chunk in one slice."""
        described = json.loads(self.description)
        described["collectives"]["slices"] = 1
        return replace(self, description=json.dumps(described))

    @property
    def has_unlike_chunks(self) -> bool:
        """Whether other chunks go other ways than the first one, which leaves links to them: in turn along lanes, or
        through dimensions in orders of their own.
        """
        return self.balances or bool(json.loads(self.description)["collectives"]["lanes"] == "alternate")

    @property
    def balances(self) -> bool:
        """Whether the order of dimensions of each chunk follows from those before it."""
        described = json.loads(self.description)
        stated = described["collectives"]
        own = dict(stated.get("algorithms", ()))
        return own.get(described["job"].get("collective"), stated.get("algorithm")) in BALANCED

    def taken(
        self, size: int, chunks: int, inflight: int, waves: int = WAVES, most_work: int = COSTLY
    ) -> _Taken | None:
        """The time of so many bytes that are cut into so many chunks: as simulated with so many waves at most, after
        which every wave takes as long as those of their second half. Nothing if they take too long to simulate.
        """
        chunk, inflight = equal(size, -(-size // chunks)), min(chunks, inflight)
        half, whole = (min(chunks, part * inflight) for part in (waves // 2, waves))
        some = self.tried_out(chunk, min(size, half * chunk), inflight, most_work)
        more = some
        if whole > half and some is not None:
            more = self.tried_out(chunk, min(size, whole * chunk), inflight, most_work)
        if some is None or more is None:
            return None
        time = some.time_ps + (chunks - half) / max(1, whole - half) * (more.time_ps - some.time_ps)
        work = some.work + (0 if more is some else more.work)
        return _Taken(time, chunks / whole * more.busy_ps, work, more.events / whole, more.slices)

    def about(self, size: int, chunks: int, inflight: int) -> float | None:
        """The time alone, from fewer waves where they take too long to simulate."""
        taken = self.taken(size, chunks, inflight) or self.taken(size, chunks, inflight, FEWER_WAVES)
        return taken and taken.time


@lru_cache(1024)
def _tried_out(alone: Alone, chunk: int, size: int, inflight: int, most_work: int) -> Tried | None:
    tried = json.loads(alone.description)
    tried["collectives"] |= {"chunking": {"by": "size", "bytes": chunk}, "inflight": inflight}
    for stated in ("chunks_of", "least_chunk_bytes"):
        tried["collectives"].pop(stated, None)
    tried["job"]["bytes"] = size
    return alone.attempt(description.joined(alone.fabric, json.dumps(tried)), most_work)


class _Taken(NamedTuple):
    """What a collective takes."""

    time: float
    """Picoseconds."""
    link: float
    """Those for which its busiest link is busy."""
    work: int
    """What finding out cost, in events."""
    chunk: float
    """What one more chunk costs in such a trial."""
    slices: int | None
    """Those of its pipelines, if it has any."""


def equal(size: int, chunk: int) -> int:
    """Bytes of chunks of which the last one is hardly shorter than the others, as many as of the given size."""
    chunks = -(-size // max(1, chunk))
    return chunk if chunks < 2 else min(chunk, -(-size // (chunks * ALIGNED)) * ALIGNED)


def power_of_two(size: int) -> int:
    """The least power of two that holds so many bytes."""
    return 1 << max(0, size - 1).bit_length()


@lru_cache(128)
def waves_of(alone: Alone, size: int, is_only: bool) -> Waves | None:
    """What waves of small and of large chunks tell of a collective; nothing if they cannot be simulated quickly. Where
    the only collective keeps its busiest link busy uncut, no chunks are faster, and small ones are not looked at.
    """
    chunks = 1
    if alone.has_unlike_chunks:
        one = alone.tried_out(size, size, 1)
        while one is not None and chunks < DEFAULT_IN_FLIGHT and 2 * chunks * one.work <= COSTLY:
            chunks *= 2
    small, large = min(DEFAULT_CHUNK, max(1, size // 2)), size
    long = alone.wave(large, chunks)
    if is_only and chunks == 1 and long is not None and long.one <= ALIKE * long.link:
        return Waves((large, large), (long, long))
    short = None if long is None else alone.wave(small, chunks)
    return None if long is None or short is None else Waves((small, large), (short, long))


class Search:
    """Looks for the fastest cut of a collective by trials."""

    def __init__(
        self, alone: Alone, sizes: tuple[int, int], waves: Waves | None, smallest: int, fixed: int | None
    ) -> None:
        """`sizes`: bytes of the largest collective and of a usual one. `waves`: where the law that follows from them
        holds for all chunks. `fixed`: how many are in flight, if that is.
        """
        self._alone, self._sizes, self._waves = alone, sizes, waves
        self._smallest, self._fixed = smallest, fixed
        self._known: dict[_Cut, tuple[_Taken, _Taken] | None] = {}
        self._left = SEARCH

    def fastest(self, law: _Cut, *, is_only: bool) -> _Cut | None:
        """The best cut that was found, from an uncut collective and from what the law says; nothing if neither can be
        simulated quickly.
        """
        whole = self._legal((self._whole, 1))
        if is_only and (whole is None or self._times(whole) is None):
            return None  # several chunks cost more than one
        ends: list[_Cut] = []
        # The first chunk of a pipeline goes a long way, so that an uncut one is far from the best.
        starts = [whole, self._affordable(law)]
        if not is_only or (self._alone.is_rooted and whole is not None and not self._is_busy(whole)):
            starts.reverse()
        for cut in dict.fromkeys(starts):
            if cut is not None and not any(self._is_busy(end) for end in ends):
                ends += [end for end in [self._descended(cut)] if end is not None]
        if not ends:
            return None
        least = min(self._cost(end) for end in ends)
        alike = [cut for cut, taken in self._known.items() if taken is not None and self._cost(cut) <= ALIKE * least]
        return min(alike, key=_preference(is_only=is_only))

    def time(self, cut: _Cut) -> float:
        """Picoseconds of the largest collective."""
        return self._known_times(cut)[0].time

    def busy(self, cut: _Cut) -> float:
        """The share of the time for which the busiest link is busy in the largest collective."""
        taken = self._known_times(cut)[0]
        return min(1.0, taken.link / taken.time) if taken.time > 0 else 1.0

    def slices(self, cut: _Cut) -> int | None:
        """Those of the pipelines of the largest collective."""
        return self._known_times(cut)[0].slices

    def _descended(self, cut: _Cut) -> _Cut | None:
        """Where the descent from a cut ends; nothing if that cannot be simulated quickly."""
        if self._times(cut) is None:
            return None
        while not self._is_busy(cut):
            chunk, number = cut
            nearby = [
                (chunk // 2, number),
                (chunk // 2, 2 * number),
                (chunk, 2 * number),
                (2 * chunk, number),
                (2 * chunk, number // 2),
                (chunk, number // 2),
                (chunk // 4, number),
                (chunk // 8, 2 * number),
                (4 * chunk, number),
            ]
            legal = [near for each in nearby if (near := self._legal(each)) is not None]
            better = [n for n in dict.fromkeys(legal) if self._may_be_better(n, cut) and self._is_better(n, cut)]
            if not better:
                break
            cut = min(better, key=self._cost)
        return cut

    def _affordable(self, cut: _Cut) -> _Cut | None:
        """The cut, in chunks that are so many times larger that it is not too costly a trial."""
        legal = self._legal(cut)
        while legal is not None and self._expected(legal) >= COSTLY and legal[0] < self._whole:
            legal = self._legal((2 * legal[0], max(1, legal[1] // 2)))
        return legal

    def _legal(self, cut: _Cut) -> _Cut | None:
        """The cut, with no more in flight than there are chunks; nothing if it is not to be tried."""
        chunk, number = cut
        if not self._smallest <= chunk <= max(self._smallest, self._whole) or not 1 <= number <= MOST_IN_FLIGHT:
            return None
        chunks = -(-self._sizes[0] // chunk)
        return chunk, self._fixed or min(number, 1 << (chunks - 1).bit_length())

    @property
    def _whole(self) -> int:
        """The least power of two that holds the largest collective."""
        return power_of_two(self._sizes[0])

    def _may_be_better(self, cut: _Cut, than: _Cut) -> bool:
        """Whether the law allows a cut to be faster; a little more than that, as waves are interpolated."""
        if self._waves is None or cut in self._known:
            return True
        chunk, inflight = cut
        least = [
            self._waves.of(min(equal(size, chunk), size)).time(-(-size // chunk), inflight) / size
            for size in self._sizes
            if size
        ]
        return sum(least) < ALIKE * self._cost(than)

    def _is_busy(self, cut: _Cut) -> bool:
        """Whether the busiest link is busy nearly all the time, so that no cut is much faster."""
        return all(taken.time <= ALIKE * taken.link for taken in self._known_times(cut))

    def _is_better(self, cut: _Cut, than: _Cut) -> bool:
        """Whether a cut is faster."""
        return self._times(cut) is not None and FASTER * self._cost(cut) <= self._cost(than)

    def _cost(self, cut: _Cut) -> float:
        """Picoseconds for a byte of the largest collective, and of a usual one."""
        return sum(taken.time / size for taken, size in zip(self._known_times(cut), self._sizes, strict=True) if size)

    def _known_times(self, cut: _Cut) -> tuple[_Taken, _Taken]:
        known = self._known[cut]
        assert known is not None
        return known

    def _expected(self, cut: _Cut) -> float:
        """Work of the longest trial of a cut, judged by the chunks of others."""
        chunks = min(-(-self._sizes[0] // cut[0]), WAVES * cut[1])
        return chunks * max((known[0].chunk for known in self._known.values() if known is not None), default=0.0)

    def _times(self, cut: _Cut) -> tuple[_Taken, _Taken] | None:
        """What the largest collective and the usual one take; nothing if that is too costly."""
        if cut not in self._known:
            if self._expected(cut) >= (most := min(COSTLY, self._left)):
                self._left -= most
                self._known[cut] = None
                return None
            taken = {
                size: self._alone.taken(size, -(-size // cut[0]), cut[1], most_work=self._left)
                for size in dict.fromkeys(self._sizes)
            }
            first, second = (taken[size] for size in self._sizes)
            self._left -= sum(min(COSTLY, self._left) if one is None else one.work for one in taken.values())
            self._known[cut] = None if first is None or second is None else (first, second)
        return self._known[cut]
