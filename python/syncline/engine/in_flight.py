"""The size of chunks and how many an NPU has in flight, where an experiment leaves them open.

They are those with which the largest collective of each communicator is fastest (`chunk_search`).

A pipeline, from or to a root, has slices that follow one another through a phase. Along one dimension, between
endpoints that take no time, they are enough, and it is one chunk. Through several dimensions only chunks are in two
phases at once, and each of them is one slice.

A collective has 1,024 chunks at most, since more of them cost much to simulate and tell nothing: a chunk of a large one
is therefore larger, whatever the fabric.

What an experiment does say of chunks is left as it is, and held against the same trials: a warning says where a machine
looks slower than its links for that reason ([`few`]).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from syncline.base import description
from syncline.base.quantities import SIZE
from syncline.base.text_units import duration
from syncline.engine import demand
from syncline.engine.chunk_search import SMALLEST, Alone, Search, Try, Waves, equal, power_of_two, waves_of
from syncline.sections.collective import DEFAULT_CHUNK, DEFAULT_IN_FLIGHT
from syncline.sections.networks.flow import FlowNetwork

if TYPE_CHECKING:
    from syncline.sections.collective import Collective

RULE: Final = 6
"""The version of what follows from a fabric: results that were kept are for one of them."""
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
        if id(section) not in wanted or len(part.members[0]) == 1 or (largest := _largest(part, section)) is None:
            continue
        kind, root, size, middle = largest
        fixed = int(section["inflight"]) if wanted[id(section)] == CHUNK_ALONE else None
        key = (id(section), part.shape, kind, root, size, middle)
        if key not in known:
            alone = None
            if attempt is not None and len(part.members[0]) <= MOST_RANKS:
                alone = Alone(*_description(specified, section, part.members[0], kind, root), attempt)
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


def _largest(part: demand.Asked, section: dict[str, Any]) -> tuple[str, int, int, int] | None:
    """Kind, root and bytes of the largest collective of a communicator that is cut, and bytes of a usual one of that
    kind. Kinds with a number of chunks of their own are not looked at; nothing if all have one.
    """
    own = dict(section.get("chunks_of", ()))
    cut = [each for each in part.collectives if each[0] not in own]
    if not cut:
        return None
    kind, root, size = max(cut, key=lambda one: one[2])
    return kind, root, size, _middle(part, kind, root)


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
        if not 1 < len(part.members[0]) <= MOST_RANKS or section.get("plans"):
            continue
        if (largest := _largest(part, section)) is None:
            continue
        kind, root, size, middle = largest
        if (key := (id(section), part.shape, kind, root, size, middle)) in known:
            continue
        known.add(key)
        alone = Alone(*_description(specified, section, part.members[0], kind, root), attempt)
        one = _few(alone, section, kind, (size, middle))
        family = names.get(id(section))
        if one is not None and (family not in found or one.times > found[family].times):
            found[family] = one
    yield from found.items()


def _few(alone: Alone, section: dict[str, Any], kind: str, sizes: tuple[int, int]) -> Few | None:
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
class _Found:
    """What was found for a collective, and the waves that it follows from, if they were tried."""

    usual: Usual
    waves: Waves | None


def _in_chunks(alone: Alone) -> Alone | None:
    """The only collective of a run as its chunks are looked for: each in one slice if they go through several phases;
    nothing if its slices do all that chunks do.
    """
    phases = alone.pipelined_phases
    if phases > 1:
        return alone.in_single_slices()
    return None if phases == 1 and alone.passes_on_at_once else alone


def _pipelined(alone: Alone, size: int) -> _Found | None:
    """What is found for the only collective of a run if it goes in slices; nothing if it is as any other."""
    cut = _in_chunks(alone)
    if cut is None:
        return _Found(Usual(size, 1, None, is_sliced=True), None)
    return None if cut is alone else _found(cut, (size, size), None, is_only=True)


@lru_cache(128)
def _found(alone: Alone | None, sizes: tuple[int, int], fixed: int | None, is_only: bool) -> _Found | None:
    """What is fastest for the largest collective and not slower for a usual one, of such sizes, with so many chunks in
    flight if that is `fixed`; nothing where there is nothing to find. `is_only`: the run has no other collective.
    """
    size, least = sizes[0], _least_chunk(sizes[0])
    if alone is None or size == 0:
        return _Found(Usual(least, fixed or DEFAULT_IN_FLIGHT, None), None) if least > DEFAULT_CHUNK else None
    smallest = least if least > DEFAULT_CHUNK else min(SMALLEST, power_of_two(size))
    waves = waves_of(alone, size, is_only)
    law = (least, fixed or DEFAULT_IN_FLIGHT)
    if waves is not None:
        law = waves.cut(size, smallest if is_only else min(least, power_of_two(size)), fixed, is_only=is_only)[0]
    search = Search(alone, sizes, None if alone.balances else waves, smallest, fixed)
    if (best := search.fastest(law, is_only=is_only)) is not None:
        chunk = equal(size, best[0]) if is_only else best[0]
        return _Found(Usual(chunk, best[1], search.busy(best), search.time(best), search.slices(best)), waves)
    # One chunk is too costly to simulate, and several of them are more so.
    most = DEFAULT_IN_FLIGHT if alone.has_unlike_chunks else 1
    return _Found(Usual(max(least, power_of_two(-(-size // most))), fixed or most, None), waves)


def _least_chunk(size: int) -> int:
    """Bytes of the smallest usual chunk of a collective of so many bytes."""
    least = DEFAULT_CHUNK
    while MOST_CHUNKS * least < size:
        least *= 2
    return least


def least_time(specified: dict[str, Any], ask: demand.Ask, attempt: Try) -> float | None:
    """The picoseconds that the only collective of a description takes at least by the law, whatever its chunks;
    nothing if that cannot be found out quickly.
    """
    ((part, section),) = demand.parts(specified, ask)
    ((kind, root, size),) = part.collectives
    if size == 0 or not 1 < len(part.members[0]) <= MOST_RANKS:
        return None
    alone = _in_chunks(Alone(*_description(specified, section, part.members[0], kind, root), attempt))
    waves = None if alone is None or alone.balances else waves_of(alone, size, is_only=True)
    return None if waves is None else waves.cut(size, min(SMALLEST, power_of_two(size)), None, is_only=True)[1]
