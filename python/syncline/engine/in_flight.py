"""The size of chunks and how many an NPU has in flight, where an experiment leaves them open.

Chunks pipeline a collective: while one is in its second phase, the next one uses the links of the first. Of n chunks in
flight that take a time T each from end to end, and the busiest link for a time t each, a link is busy all the time
only where n t is at least T (Little's law). C chunks, n of them in flight, so take at least T + (C - 1) max(t, T / n).
T and t grow linearly with the size of chunks, and are found by simulating small and large ones.

The law is a bound: chunks that go in step wait for each other at some links and leave others idle meanwhile. So chunks
are chosen by trial: the collective is simulated with the run's own endpoint uncut, and as the law suggests; from either
the search goes on to chunks of half and twice the size and number, as long as those are faster. That is measured for
the largest collective and for one of a size that is usual in the iteration, each by its time for a byte. A collective
of many chunks is simulated for its first eight waves, after which every further wave takes as long as those before it.
The search ends where the busiest link is busy nearly all the time, or when it has cost more than [`SEARCH`]. Of cuts
that are equally fast, a collective that has the links to itself takes the one with the fewest chunks. In an iteration
other collectives wait for the chunks in flight, which are not pre-empted: there it is the one with the fewest bytes in
flight.

A pipeline, from or to a root, has slices that follow one another through a phase. Along one dimension, between
endpoints that take no time, they are enough, and it is one chunk. Through several dimensions only chunks are in two
phases at once, and each of them is one slice.

A collective has 1,024 chunks at most, since more of them cost much to simulate and tell nothing: a chunk of a large one
is therefore larger, whatever the fabric.

What an experiment does say of chunks is left as it is, and held against the same trials: a warning says where a machine
looks slower than its links for that reason ([`few`]).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from syncline.base import description
from syncline.base.quantities import SIZE
from syncline.base.text_units import duration
from syncline.engine import demand
from syncline.sections.collective import DEFAULT_CHUNK, DEFAULT_IN_FLIGHT
from syncline.sections.endpoints.ideal import IdealEndpoint
from syncline.sections.networks.flow import FlowNetwork
from syncline.sections.workloads import ROOTED

if TYPE_CHECKING:
    from syncline.sections.collective import Collective

RULE: Final = 6
"""The version of what follows from a fabric: results that were kept are for one of them."""
SMALLEST: Final = 4 * 1024
"""Bytes of the smallest chunk that is tried."""
ALIGNED: Final = 16
"""Of how many bytes chunks of equal sizes are multiples: of what GPUs load and store at once."""
MOST_IN_FLIGHT: Final = 256
MOST_NPUS: Final = 8192
"""NPUs of a machine with more of which nothing is tried out: to set it up takes longer than many a run."""
MOST_RANKS: Final = 2048
"""Ranks of a communicator with more of which nothing is tried out."""
MOST_CHUNKS: Final = 1024
"""Chunks of a collective."""
BOTH: Final = "size and number"
CHUNK_ALONE: Final = "size"
MARK: Final = "usual"
"""Where a part of a description has a mark of what was left open, and which it is."""
SLOW: Final = 1.2
"""How much longer a collective takes with chunks that are told of than with those that follow the fabric."""
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
class Usual:
    """What was found for communicators of a run."""

    chunk: int
    """Bytes."""
    inflight: int
    busy: float | None
    """The share of the time for which the busiest link is busy in the largest collective, if it was tried out."""
    time_ps: float | None = None
    """What the largest collective takes alone, in all or by its first waves, if it was tried out."""
    slices: int | None = None
    """Those of its pipelines, if it was tried out and has any."""
    is_sliced: bool = False
    """Whether slices of the chunk make a pipeline, so that other chunks are not looked for."""

    def __str__(self) -> str:
        """As an assumption says it."""
        if self.is_sliced:
            why = "its slices follow one another along the one dimension"
        elif self.busy is None:
            why = f"the largest collective has up to {MOST_CHUNKS:,}; trying others would take too long"
        else:
            why = f"the fastest that were tried, with the busiest link busy for {100 * self.busy:.0f} % of the time"
        return f"{self.inflight} chunk{'' if self.inflight == 1 else 's'} of {SIZE.format(self.chunk)} in flight: {why}"


@dataclass(frozen=True, slots=True)
class Few:
    """Chunks of which so few, or so small or so large ones, are in flight that links cannot be busy."""

    kind: str
    """Of the largest collective."""
    chunk: int
    """Bytes."""
    inflight: int
    time_ps: float
    """What that collective takes, from two waves."""
    better: Usual
    """Other chunks."""
    better_ps: float
    """What it takes with them."""

    @property
    def times(self) -> float:
        """How much longer it takes."""
        return self.time_ps / self.better_ps

    def __str__(self) -> str:
        """As a warning says it."""
        chunks = f"{self.inflight} chunk{'' if self.inflight == 1 else 's'} of {SIZE.format(self.chunk)}"
        others = f"{self.better.inflight} of {SIZE.format(self.better.chunk)}"
        times = [duration(time_ps / 1e12) for time_ps in (self.time_ps, self.better_ps)]
        return (
            f"links look slower than they are: with {chunks} in flight its largest {self.kind} alone takes about "
            f"{times[0]}, and with {others}, {times[1]}"
        )


def left_open(collective: Collective) -> str | None:
    """What the fabric decides on: the size of chunks (`CHUNK_ALONE`), that and how many are in flight (`BOTH`), or
    nothing.
    """
    if collective.chunk is not None or collective.chunks is not None:
        return None
    return CHUNK_ALONE if "inflight" in collective.model_fields_set else BOTH


def marked(specified: dict[str, Any]) -> dict[int, str]:
    """The parts of a description of which something was left open, by identity, without their marks; and what it is."""
    marks = {id(section): section.pop(MARK, None) for section in demand.sections(specified)}
    return {key: mark for key, mark in marks.items() if mark is not None}


def completed(
    specified: dict[str, Any], wanted: Mapping[int, str], ask: demand.Ask, attempt: Try | None
) -> Iterator[tuple[str | None, Usual]]:
    """Completes parts of a description; says what was found, and for which family, if there are any. Of communicators
    that differ, those decide that need the largest chunks. Nothing is tried out where there is no `attempt`.
    """
    names = _families(specified)
    found: dict[int, tuple[dict[str, Any], Usual]] = {}
    known: dict[tuple[int, int, str, int, int, int], _Found | None] = {}
    parts = list(demand.parts(specified, ask))
    is_only = sum(sum(part.counts) for part, _ in parts) == 1
    for part, section in parts:
        if id(section) not in wanted or len(part.members[0]) == 1:
            continue
        kind, root, size = max(_cut(part, section), key=lambda one: one[2], default=("", 0, 0))
        fixed = int(section["inflight"]) if wanted[id(section)] == CHUNK_ALONE else None
        middle = _middle(part, kind, root)
        key = (id(section), part.shape, kind, root, size, middle)
        if key not in known:
            alone = None
            if attempt is not None and len(part.members[0]) <= MOST_RANKS:
                alone = _Alone(*_description(specified, section, part.members[0], kind, root), attempt)
            pipelined = _pipelined(alone, size) if is_only and alone is not None and fixed is None else None
            known[key] = pipelined or _found(alone, (size, middle), fixed, is_only)
        if (one := known[key]) is not None:
            _, before = found.get(id(section), (section, one.usual))
            found[id(section)] = section, max(before, one.usual, key=lambda usual: (usual.chunk, usual.inflight))
    for key_, (section, usual) in found.items():
        section["chunking"] = section["chunking"] | {"bytes": usual.chunk}
        section["inflight"] = usual.inflight
        if is_only and section["slices"] == 0 and usual.slices is not None:
            section["slices"] = usual.slices
        yield names.get(key_), usual


def _cut(part: demand.Asked, section: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Kind, root and bytes of the collectives of a communicator whose kinds have no number of chunks of their own."""
    own = dict(section.get("chunks_of", ()))
    return [each for each in part.collectives if each[0] not in own]


def _middle(part: demand.Asked, kind: str, root: int) -> int:
    """Bytes of a usual collective of that kind: half of all bytes are in collectives of that size or smaller ones."""
    numbers = zip(part.collectives, part.counts, strict=True)
    sizes = sorted((one[2], count) for one, count in numbers if one[:2] == (kind, root))
    left = sum(size * count for size, count in sizes) / 2
    for size, count in sizes:
        left -= size * count
        if left <= 0:
            return size
    return 0


def _families(specified: dict[str, Any]) -> dict[int, str]:
    """The names of families of communicators, by the identity of what is said of their collectives."""
    return {id(family["collectives"]): str(family["name"]) for family in specified.get("families", ())}


def few(specified: dict[str, Any], ask: demand.Ask, attempt: Try) -> Iterator[tuple[str | None, Few]]:
    """Where so little is in flight that links cannot be busy, and for which family, if there are any.

    The description is complete. A plan says itself how data is cut.
    """
    names = _families(specified)
    found: dict[str | None, Few] = {}
    known: set[tuple[int, int, str, int, int, int]] = set()
    for part, section in demand.parts(specified, ask):
        collectives = _cut(part, section)
        if not 1 < len(part.members[0]) <= MOST_RANKS or not collectives or section.get("plans"):
            continue
        kind, root, size = max(collectives, key=lambda one: one[2])
        middle = _middle(part, kind, root)
        if (key := (id(section), part.shape, kind, root, size, middle)) in known:
            continue
        known.add(key)
        alone = _Alone(*_description(specified, section, part.members[0], kind, root), attempt)
        one = _few(alone, section, kind, (size, middle))
        family = names.get(id(section))
        if one is not None and (family not in found or one.times > found[family].times):
            found[family] = one
    yield from found.items()


def _few(alone: _Alone, section: dict[str, Any], kind: str, sizes: tuple[int, int]) -> Few | None:
    """Whether chunks are too few, too small or too large for the largest collective, which has the first size."""
    size = sizes[0]
    if size == 0:
        return None
    chunking, inflight = section["chunking"], int(section["inflight"])
    count = demand.chunks(section, kind, size)
    chunk = chunking["bytes"] if chunking["by"] == "size" else -(-size // count)
    found = _found(alone, sizes, None, is_only=True)
    if found is None or found.waves is None:
        return None
    better = found.usual
    time_ps = alone.about(size, count, inflight)
    better_ps = alone.about(size, -(-size // better.chunk), better.inflight)
    if time_ps is None or better_ps is None or time_ps <= SLOW * better_ps:
        return None
    return Few(kind, chunk, min(count, inflight), time_ps, better, better_ps)


def _description(
    specified: dict[str, Any], section: dict[str, Any], members: tuple[int, ...], kind: str, root: int
) -> tuple[str, str]:
    """The largest collective of a communicator, alone: its fabric, and all else."""
    groups = specified["groups"]
    families = [family for family in specified.get("families", ()) if family["collectives"] is section]
    jobs = [job for job in specified["job"].get("jobs", ()) if job["collectives"] is section]
    if families:
        shape = families[0]["members"]
        groups = {"members": [list(members)], "grid": shape.get("grid") if "groups" in shape else None}
    elif jobs:
        groups = {"members": [list(members)], "grid": jobs[0]["grid"]}
    found = demand.alone(specified, section, groups, kind, root)
    if found["network"].get("backend") != "analytical":
        found["network"] = FlowNetwork().specification()
    return description.parted(found)


@dataclass(frozen=True, slots=True)
class _Wave:
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
class _Waves:
    """Waves of chunks of two sizes, between which times grow linearly."""

    sizes: tuple[int, int]
    """Bytes of a chunk."""
    waves: tuple[_Wave, _Wave]

    def of(self, chunk: int) -> _Wave:
        """The wave of chunks of so many bytes."""
        (small, large), (short, long) = self.sizes, self.waves
        part = (chunk - small) / (large - small) if large > small else 1.0
        one = max(0.0, short.one + part * (long.one - short.one))
        return _Wave(one, max(0.0, short.link + part * (long.link - short.link)))

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
class _Alone:
    """A collective that is simulated alone. What was tried out is kept for a while."""

    fabric: str
    description: str
    """All but the fabric."""
    attempt: Try

    def tried_out(self, chunk: int, size: int, inflight: int, most_work: int = COSTLY) -> Tried | None:
        """So many bytes in chunks of a size; nothing if they take too long to simulate."""
        return _tried_out(self, chunk, size, inflight, min(COSTLY, most_work))

    def wave(self, chunk: int, chunks: int) -> _Wave | None:
        """What so many chunks tell that are all in flight."""
        taken = self.tried_out(chunk, chunks * chunk, chunks)
        if taken is None:
            return None
        time, busy = taken.time_ps, taken.busy_ps  # T + (n - 1) t, and n t
        return _Wave(time - busy + busy / chunks, busy / chunks)

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

    def in_single_slices(self) -> _Alone:
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
def _tried_out(alone: _Alone, chunk: int, size: int, inflight: int, most_work: int) -> Tried | None:
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for a collective, and the waves that it follows from, if they were tried."""

    usual: Usual
    waves: _Waves | None


def _in_chunks(alone: _Alone) -> _Alone | None:
    """The only collective of a run as its chunks are looked for: each in one slice if they go through several phases;
    nothing if its slices do all that chunks do.
    """
    phases = alone.pipelined_phases
    if phases > 1:
        return alone.in_single_slices()
    return None if phases == 1 and alone.passes_on_at_once else alone


def _pipelined(alone: _Alone, size: int) -> _Found | None:
    """What is found for the only collective of a run if it goes in slices; nothing if it is as any other."""
    cut = _in_chunks(alone)
    if cut is None:
        return _Found(Usual(size, 1, None, is_sliced=True), None)
    return None if cut is alone else _found(cut, (size, size), None, is_only=True)


@lru_cache(128)
def _found(alone: _Alone | None, sizes: tuple[int, int], fixed: int | None, is_only: bool) -> _Found | None:
    """What is fastest for the largest collective and not slower for a usual one, of such sizes, with so many chunks in
    flight if that is `fixed`; nothing where there is nothing to find. `is_only`: the run has no other collective.
    """
    size, least = sizes[0], _least_chunk(sizes[0])
    if alone is None or size == 0:
        return _Found(Usual(least, fixed or DEFAULT_IN_FLIGHT, None), None) if least > DEFAULT_CHUNK else None
    smallest = least if least > DEFAULT_CHUNK else min(SMALLEST, _power(size))
    waves = _waves(alone, size, is_only)
    law = (least, fixed or DEFAULT_IN_FLIGHT)
    if waves is not None:
        law = waves.cut(size, smallest if is_only else min(least, _power(size)), fixed, is_only=is_only)[0]
    search = _Search(alone, sizes, None if alone.balances else waves, smallest, fixed)
    if (best := search.fastest(law, is_only=is_only)) is not None:
        chunk = equal(size, best[0]) if is_only else best[0]
        return _Found(Usual(chunk, best[1], search.busy(best), search.time(best), search.slices(best)), waves)
    # One chunk is too costly to simulate, and several of them are more so.
    most = DEFAULT_IN_FLIGHT if alone.has_unlike_chunks else 1
    return _Found(Usual(max(least, _power(-(-size // most))), fixed or most, None), waves)


def equal(size: int, chunk: int) -> int:
    """Bytes of chunks of which the last one is hardly shorter than the others, as many as of the given size."""
    chunks = -(-size // max(1, chunk))
    return chunk if chunks < 2 else min(chunk, -(-size // (chunks * ALIGNED)) * ALIGNED)


def _least_chunk(size: int) -> int:
    """Bytes of the smallest usual chunk of a collective of so many bytes."""
    least = DEFAULT_CHUNK
    while MOST_CHUNKS * least < size:
        least *= 2
    return least


def _power(size: int) -> int:
    """The least power of two that holds so many bytes."""
    return 1 << max(0, size - 1).bit_length()


@lru_cache(128)
def _waves(alone: _Alone, size: int, is_only: bool) -> _Waves | None:
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
        return _Waves((large, large), (long, long))
    short = None if long is None else alone.wave(small, chunks)
    return None if long is None or short is None else _Waves((small, large), (short, long))


def least_time(specified: dict[str, Any], ask: demand.Ask, attempt: Try) -> float | None:
    """The picoseconds that the only collective of a description takes at least by the law, whatever its chunks;
    nothing if that cannot be found out quickly.
    """
    ((part, section),) = demand.parts(specified, ask)
    ((kind, root, size),) = part.collectives
    if size == 0 or not 1 < len(part.members[0]) <= MOST_RANKS:
        return None
    alone = _in_chunks(_Alone(*_description(specified, section, part.members[0], kind, root), attempt))
    waves = None if alone is None or alone.balances else _waves(alone, size, is_only=True)
    return None if waves is None else waves.cut(size, min(SMALLEST, _power(size)), None, is_only=True)[1]


class _Search:
    """Looks for the fastest cut of a collective by trials."""

    def __init__(
        self, alone: _Alone, sizes: tuple[int, int], waves: _Waves | None, smallest: int, fixed: int | None
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
        return _power(self._sizes[0])

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
