"""The size of chunks and how many an NPU has in flight, where an experiment does not say it: as the fabric needs them.

A link is busy all the time only if the chunks in flight bring it as much work as it does while one chunk goes all its
way (Little's law): n chunks that take it the time t each are enough where n t is at least the time T of a chunk. With
fewer or smaller ones, latencies and the steps of an algorithm make a machine look slower than its links. So the usual
number, 16, and the usual size, 64 KiB, are doubled until that holds. T is found by simulating one wave: as many
chunks as are in flight, and nothing after them, which takes T + (n - 1) t. The doubling of the size also ends where
all of the largest collective is in flight.

The law is a bound: chunks that go in step wait for each other at some links and leave others idle meanwhile, and a
collective of few chunks takes long to begin and to end. So the first eight waves are simulated, and where the busiest
link is not busy nearly all the time, with chunks of other sizes and other numbers in flight as well. Another way is
taken if it is faster for the largest collective and not slower for one of a size that is usual in the iteration.

A collective has 1,024 chunks at most, since more of them cost much to simulate and tell nothing: a chunk of a large one
is therefore larger, whatever the fabric. So it is in an iteration of more than a million chunks, as far as that hardly
changes the time: by the same law, a collective of C chunks takes T + (C - 1) max(t, T / n).

Endpoints have no part in it, so that those that are compared have equal chunks: what is found is a matter of the
fabric, the algorithm and the size of collectives.

What an experiment does say of chunks is left as it is, and held against the same wave: a machine that looks slower than
its links for that reason is told of ([`few`]).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from syncline import demand
from syncline.networks.flow import FlowNetwork
from syncline.quantities import SIZE
from syncline.text_units import duration

if TYPE_CHECKING:
    from syncline.schema.experiment import Collective

RULE: Final = 3
"""The version of what follows from a fabric: results that were kept are for one of them."""
CHUNK: Final = 64 * 1024
"""Bytes of a chunk, unless the fabric needs more."""
SMALLEST: Final = 4 * 1024
"""Bytes of the smallest chunk that is tried."""
IN_FLIGHT: Final = 16
"""Chunks in flight, unless the fabric needs more."""
FEWEST_IN_FLIGHT: Final = 8
MOST_IN_FLIGHT: Final = 256
LONG: Final = 2**30
"""Bytes of a chunk whose latencies do not matter."""
MOST_NPUS: Final = 8192
"""NPUs of a machine with more of which nothing is tried out: to set it up takes longer than many a run."""
MOST_RANKS: Final = 2048
"""Ranks of a communicator with more of which nothing is tried out."""
MOST_CHUNKS: Final = 1024
"""Chunks of a collective."""
MANY: Final = 2**20
"""Chunks of an iteration that are made fewer."""
SLOWER: Final = 1.02
"""How much longer collectives may take for that, by the law."""
BOTH: Final = "size and number"
CHUNK_ALONE: Final = "size"
MARK: Final = "usual"
"""Where a part of a description has a mark of what was left open, and which it is."""
SLOW: Final = 1.1
"""How much longer a collective takes with chunks that are told of than with those that follow the fabric."""
NEARLY: Final = 0.95
"""Where links cannot be busy all the time, of what the largest chunks would reach: more is not worth it."""

FASTER: Final = 1.03
"""How much faster a collective is in other chunks that are worth it."""
ALIKE: Final = 1.01
"""Within what factor of the fastest time others are as fast."""
WAVES: Final = 8
"""How many waves tell the time of a collective."""
FEWER_WAVES: Final = 2
"""How many do where more of them take too long to simulate."""

_Cut = tuple[int, int]
"""Bytes of a chunk, and how many are in flight."""
Try = Callable[[str], tuple[int, int] | None]
"""The picoseconds of a described run, and those for which its busiest link is busy; nothing if it takes too long."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What was found for communicators of a run."""

    chunk: int
    """Bytes."""
    inflight: int
    busy: float | None
    """The share of the time for which the busiest link can be busy with so many chunks in flight, 1 at most; nothing
    where that was not tried out."""
    whole: bool
    """Whether the largest collective is in flight as a whole, so that more would change nothing."""
    sought: bool = False
    """Whether similar ones were simulated, none of which is much faster."""
    fewer: bool = False
    """Whether chunks are larger than links need, so that there are fewer of them."""

    def __str__(self) -> str:
        """As an assumption says it."""
        if self.busy is None:
            why = f"the largest collective has up to {MOST_CHUNKS:,}; whether links can be busy was not tried out"
        elif self.whole:
            why = "the largest collective is in flight as a whole"
        elif self.busy >= 1:
            why = "enough to keep the busiest link busy"
        elif self.sought:
            why = f"of similar ones that were tried, none is {100 * (FASTER - 1):.0f} % faster"
        else:
            why = f"they keep the busiest link busy for {100 * self.busy:.0f} % of the time at most"
        if self.fewer:
            why += ", and larger than links need, since an iteration has so many"
        return f"{self.inflight} chunks of {SIZE.format(self.chunk)} in flight: {why}"


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
    """Completes parts of a description; says what was found, and for which family, if there are any. Nothing is tried
    out where there is no `attempt`.
    """
    names = _families(specified)
    found: dict[int, _Open] = {}
    known: dict[tuple[int, int, str, int, int, int], _Found | None] = {}
    for part, section in list(demand.parts(specified, ask)):
        if id(section) not in wanted or len(part.members[0]) == 1:
            continue
        kind, root, size = max(part.collectives, key=lambda one: one[2], default=("", 0, 0))
        fixed = int(section["inflight"]) if wanted[id(section)] == CHUNK_ALONE else None
        middle = _middle(part, kind, root)
        key = (id(section), part.shape, kind, root, size, middle)
        if key not in known:
            alone = None
            if attempt is not None and len(part.members[0]) <= MOST_RANKS:
                alone = _Alone(_description(specified, section, part.members[0], kind, root), attempt)
            known[key] = _found(alone, (size, middle), fixed)
        if (one := known[key]) is not None:
            found.setdefault(id(section), _Open(section, one)).add(part, one)
    _make_fewer(list(found.values()))
    for key_, open_ in found.items():
        usual = open_.usual
        open_.section["chunking"] = open_.section["chunking"] | {"bytes": usual.chunk}
        open_.section["inflight"] = usual.inflight
        yield names.get(key_), usual


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


class _Open:
    """A part of a description that leaves chunks open, and what was found for it."""

    def __init__(self, section: dict[str, Any], found: _Found) -> None:
        self.section, self._found, self.fewer = section, found, 1
        self._sizes: dict[int, int] = {}
        """How many collectives an iteration has, by bytes."""

    def add(self, part: demand.Asked, found: _Found) -> None:
        """Takes into account what communicators are asked for."""
        if (found.usual.chunk, found.usual.inflight) > (self._found.usual.chunk, self._found.usual.inflight):
            self._found = found
        own_number = dict(self.section.get("chunks_of", ()))
        for (kind, _, size), count in zip(part.collectives, part.counts, strict=True):
            if kind not in own_number and size > 0:
                self._sizes[size] = self._sizes.get(size, 0) + count

    @property
    def usual(self) -> Usual:
        """What was found, in chunks that are `fewer` times as large."""
        usual = self._found.usual
        return replace(usual, chunk=usual.chunk * self.fewer, fewer=self.fewer > 1)

    @property
    def chunks(self) -> int:
        """Chunks of an iteration."""
        chunk = self.usual.chunk
        return sum(count * -(-size // chunk) for size, count in self._sizes.items())

    @property
    def may_be_fewer(self) -> bool:
        """Whether chunks of twice the size would hardly change the time."""
        waves, usual = self._found.waves, self._found.usual
        if waves is None or max(self._sizes, default=0) <= self.usual.chunk:
            return False
        taken = [self._time(waves, chunk) for chunk in (usual.chunk, 2 * self.usual.chunk)]
        return taken[1] <= SLOWER * taken[0]

    def _time(self, waves: _Waves, most: int) -> float:
        """Picoseconds of all collectives, one after the other, in chunks of so many bytes."""
        total = 0.0
        for size, count in self._sizes.items():
            wave = waves.of(min(size, most))
            total += count * wave.time(-(-size // most), self._found.usual.inflight)
        return total


def _make_fewer(parts: list[_Open]) -> None:
    """Makes chunks larger, the most numerous ones first, as long as an iteration has many and that hardly matters."""
    while sum(part.chunks for part in parts) > MANY:
        may = [part for part in parts if part.may_be_fewer]
        if not may:
            return
        max(may, key=lambda part: part.chunks).fewer *= 2


def few(specified: dict[str, Any], ask: demand.Ask, attempt: Try) -> Iterator[tuple[str | None, Few]]:
    """Where so little is in flight that links cannot be busy, and for which family, if there are any.

    The description is complete. A plan says itself how data is cut.
    """
    names = _families(specified)
    found: dict[str | None, Few] = {}
    known: set[tuple[int, int, str, int, int, int]] = set()
    for part, section in demand.parts(specified, ask):
        own_number = dict(section.get("chunks_of", ()))
        collectives = [each for each in part.collectives if each[0] not in own_number]
        if not 1 < len(part.members[0]) <= MOST_RANKS or not collectives or section.get("plans"):
            continue
        kind, root, size = max(collectives, key=lambda one: one[2])
        middle = _middle(part, kind, root)
        if (key := (id(section), part.shape, kind, root, size, middle)) in known:
            continue
        known.add(key)
        alone = _Alone(_description(specified, section, part.members[0], kind, root), attempt)
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
    found = _found(alone, sizes, None)
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
) -> str:
    """The largest collective of a communicator, without endpoints and alone."""
    groups = specified["groups"]
    families = [family for family in specified.get("families", ()) if family["collectives"] is section]
    if families or specified["job"].get("jobs"):
        shape = families[0]["members"] if families else {}
        groups = {"members": [list(members)], "grid": shape.get("grid") if "groups" in shape else None}
    endpoint = {"kind": "ideal", "step_latency_ps": 0, "forwarding": "messages"}
    if "transit" in specified["endpoint"]:
        endpoint["transit"] = specified["endpoint"]["transit"]
    found = demand.alone(specified, section, groups, kind, root) | {"endpoint": endpoint}
    if found["network"].get("backend") != "analytical":
        found["network"] = FlowNetwork().specification()
    return json.dumps(found)


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

    def enough(self, inflight: int) -> int:
        """How many chunks are enough by the law, as so many or twice as many and so on."""
        while inflight < MOST_IN_FLIGHT and inflight * self.link < self.one:
            inflight *= 2
        return inflight


@dataclass(frozen=True, slots=True)
class _Waves:
    """Waves of chunks of two sizes, between which times grow linearly."""

    short: _Wave
    """Of `CHUNK` bytes."""
    long: _Wave
    """Of `LONG` bytes."""

    def of(self, chunk: int) -> _Wave:
        """The wave of chunks of so many bytes."""
        part = (chunk - CHUNK) / (LONG - CHUNK)
        one = self.short.one + part * (self.long.one - self.short.one)
        return _Wave(one, self.short.link + part * (self.long.link - self.short.link))


@dataclass(frozen=True, slots=True)
class _Alone:
    """A collective that is simulated alone."""

    description: str
    attempt: Try

    def tried_out(self, chunk: int, chunks: int, inflight: int) -> tuple[int, int] | None:
        """Picoseconds of so many chunks, and those for which the busiest link is busy; nothing if it takes too long."""
        tried = json.loads(self.description)
        tried["collectives"] |= {"chunking": {"by": "count", "chunks": chunks}, "inflight": inflight}
        for stated in ("chunks_of", "least_chunk_bytes"):
            tried["collectives"].pop(stated, None)
        tried["job"]["bytes"] = chunk * chunks
        return self.attempt(json.dumps(tried))

    def wave(self, chunk: int, inflight: int) -> _Wave | None:
        """What a wave of chunks tells."""
        taken = self.tried_out(chunk, inflight, inflight)
        if taken is None:
            return None
        time, busy = taken  # T + (n - 1) t, and n t
        return _Wave(time - busy + busy / inflight, busy / inflight)

    def taken(self, size: int, chunks: int, inflight: int, waves: int = WAVES) -> tuple[float, float] | None:
        """Picoseconds of so many bytes that are cut into so many chunks, and those for which the busiest link is busy:
        as simulated with so many waves at most, after which every wave takes as long as those of their second half.
        Nothing if they take too long to simulate.
        """
        chunk, inflight = -(-size // chunks), min(chunks, inflight)
        half, whole = (min(chunks, part * inflight) for part in (waves // 2, waves))
        some = self.tried_out(chunk, half, inflight)
        more = some if whole == half or some is None else self.tried_out(chunk, whole, inflight)
        if some is None or more is None:
            return None
        time = some[0] + (chunks - half) / max(1, whole - half) * (more[0] - some[0])
        return time, chunks / whole * more[1]

    def about(self, size: int, chunks: int, inflight: int) -> float | None:
        """The time alone, from fewer waves where they take too long to simulate."""
        taken = self.taken(size, chunks, inflight) or self.taken(size, chunks, inflight, FEWER_WAVES)
        return taken and taken[0]


@dataclass(frozen=True, slots=True)
class _Times:
    """Picoseconds of collectives that are cut in one way."""

    largest: float
    usual: float
    link: float
    """Of the largest, those for which the busiest link is busy."""

    @property
    def is_busy(self) -> bool:
        """Whether that is nearly all the time."""
        return self.largest <= FASTER * self.link


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for a collective, and the waves that it follows from, if they were tried."""

    usual: Usual
    waves: _Waves | None


@lru_cache(128)
def _found(alone: _Alone | None, sizes: tuple[int, int], fixed: int | None) -> _Found | None:
    """What is enough for the largest collective and a usual one, of such sizes, with so many chunks in flight if that
    is `fixed`; nothing where there is nothing to find.
    """
    size, least = sizes[0], CHUNK
    while MOST_CHUNKS * least < size:
        least *= 2
    inflight = fixed or IN_FLIGHT
    tried = None if alone is None or size <= CHUNK else _tried(alone, inflight, fixed is None)
    if alone is None or tried is None:
        return _Found(Usual(least, inflight, None, False), None) if least > CHUNK else None
    inflight, waves = tried

    def busy(chunk: int) -> float:
        wave = waves.of(chunk)
        return min(1.0, inflight * wave.link / wave.one) if wave.one > 0 else 1.0

    most, chunk = busy(LONG), least
    goal = 1.0 if most >= 1 else NEARLY * most
    while busy(chunk) < goal and inflight * chunk < size:
        chunk *= 2
    smallest = least if least > CHUNK else SMALLEST
    sought = _fastest(alone, sizes, (chunk, inflight), smallest, (fixed or FEWEST_IN_FLIGHT, fixed or MOST_IN_FLIGHT))
    chunk, inflight = sought or (chunk, inflight)
    whole = busy(chunk) < 1 and inflight * chunk >= size
    return _Found(Usual(chunk, inflight, busy(chunk), whole, sought is not None), waves)


def _fastest(
    alone: _Alone, sizes: tuple[int, int], begin: _Cut, smallest: int, numbers: tuple[int, int]
) -> _Cut | None:
    """Where it begins, or what makes a collective of the first size faster and of the second not slower: all sizes of
    chunks from the smallest are tried in steps of four, with as many in flight and four times as many, and from the
    best of them in steps of two. Where the busiest link is busy nearly all the time, only larger chunks are, as many or
    half as many, which may load links more evenly. Numbers are the fewest and the most in flight. Nothing where that
    takes too long to simulate.
    """

    @lru_cache
    def times(chunk: int, number: int) -> _Times | None:
        # A single collective is its own usual one.
        taken = {size: alone.taken(size, max(1, -(-size // chunk)), number) for size in dict.fromkeys(sizes)}
        first, second = (taken[size] for size in sizes)
        return None if first is None or second is None else _Times(first[0], second[0], first[1])

    def faster(columns: dict[int, list[int]], than: _Times) -> dict[_Cut, float]:
        """The times of those that are, from the numbers in flight and the sizes, largest first."""
        better = {}
        for number, chunks in columns.items():
            fastest, slower = math.inf, 0
            for chunk in chunks if numbers[0] <= number <= numbers[1] else ():
                if chunk < smallest or slower == 2 or (found := times(chunk, number)) is None:
                    break  # smaller ones, of which there are more, take even longer to simulate
                fastest, slower = (found.largest, 0) if found.largest < fastest else (fastest, slower + 1)
                if FASTER * found.largest <= than.largest and found.usual <= than.usual:
                    better[chunk, number] = found.largest
        return better

    largest, (chunk, number) = begin[0], begin
    while largest < sizes[0]:
        largest *= 4
    every = [largest // 4**step for step in range(largest.bit_length() // 2)]
    best, here = begin, times(*begin)
    if here is None:
        return None
    larger = [each for each in every if each > chunk]
    columns = {number: larger, number // 2: larger} if here.is_busy else {number: every, 4 * number: every}
    while better := faster(columns, here):
        alike = [cut for cut, time in better.items() if time <= ALIKE * min(better.values())]
        best = min(alike, key=lambda cut: (cut[1], max(cut[0], chunk) // min(cut[0], chunk)))
        if (here := times(*best)) is None or here.is_busy:
            break
        chunk, number = best
        columns = {
            number: [2 * chunk, chunk // 2],
            2 * number: [chunk, chunk // 2],
            number // 2: [4 * chunk, 2 * chunk],
        }
    return best


def _tried(alone: _Alone, inflight: int, may_grow: bool) -> tuple[int, _Waves] | None:
    """How many chunks in flight are enough if they are large, and what waves of small and of large ones tell; nothing
    if they cannot be simulated quickly.
    """
    long = alone.wave(LONG, inflight)
    if may_grow and long is not None and long.one > inflight * long.link:
        inflight = long.enough(inflight)
        long = alone.wave(LONG, inflight)
    short = alone.wave(CHUNK, inflight)
    return None if long is None or short is None else (inflight, _Waves(short, long))
