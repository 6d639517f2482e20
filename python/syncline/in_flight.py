"""The size of chunks and how many an NPU has in flight, where an experiment does not say it: as the fabric needs them.

A link is busy all the time only if the chunks in flight bring it as much work as it does while one chunk goes all its
way (Little's law): n chunks that take it the time t each are enough where n t is at least the time T of a chunk. With
fewer or smaller ones, latencies and the steps of an algorithm make a machine look slower than its links. So the usual
number, 16, and the usual size, 64 KiB, are doubled until that holds. T is found by simulating one wave: as many
chunks as are in flight, and nothing after them, which takes T + (n - 1) t. The doubling of the size also ends where
all of the largest collective is in flight.

A collective has 1,024 chunks at most, since more of them cost much to simulate and tell nothing: a chunk of a large one
is therefore larger, whatever the fabric.

Endpoints have no part in it, so that those that are compared have equal chunks: what is found is a matter of the
fabric, the algorithm and the size of collectives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from syncline import demand
from syncline.networks.flow import FlowNetwork
from syncline.quantities import SIZE

if TYPE_CHECKING:
    from syncline.schema.experiment import Collective

RULE: Final = 1
"""The version of what follows from a fabric: results that were kept are for one of them."""
CHUNK: Final = 64 * 1024
"""Bytes of a chunk, unless the fabric needs more."""
IN_FLIGHT: Final = 16
"""Chunks in flight, unless the fabric needs more."""
MOST_IN_FLIGHT: Final = 256
LONG: Final = 2**30
"""Bytes of a chunk whose latencies do not matter."""
MOST_NPUS: Final = 2048
"""NPUs of a machine with more of which nothing is tried out: to set it up takes longer than many a run."""
MOST_CHUNKS: Final = 1024
"""Chunks of a collective."""
BOTH: Final = "size and number"
CHUNK_ALONE: Final = "size"
MARK: Final = "usual"
"""Where a part of a description has a mark of what was left open, and which it is."""
NEARLY: Final = 0.95
"""Where links cannot be busy all the time, of what the largest chunks would reach: more is not worth it."""

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

    def __str__(self) -> str:
        """As an assumption says it."""
        if self.busy is None:
            why = f"the largest collective has up to {MOST_CHUNKS:,}; whether links can be busy was not tried out"
        elif self.whole:
            why = "the largest collective is in flight as a whole"
        elif self.busy >= 1:
            why = "enough to keep the busiest link busy"
        else:
            why = f"they keep the busiest link busy for {100 * self.busy:.0f} % of the time at most"
        return f"{self.inflight} chunks of {SIZE.format(self.chunk)} in flight: {why}"


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
) -> Iterator[tuple[int | None, Usual]]:
    """Completes parts of a description; says what was found, and for which family by number. Nothing is tried out where
    there is no `attempt`.
    """
    names = {id(family["collectives"]): number for number, family in enumerate(specified.get("families", ()))}
    found: dict[int, Usual] = {}
    sections: dict[int, dict[str, Any]] = {}
    for part, section in list(demand.parts(specified, ask)):
        if id(section) not in wanted or len(part.members[0]) == 1:
            continue
        kind, root, size = max(part.collectives, key=lambda one: one[2], default=("", 0, 0))
        fixed = int(section["inflight"]) if wanted[id(section)] == CHUNK_ALONE else None
        usual = _found(_description(specified, section, part.members[0], kind, root), size, fixed, attempt)
        known = found.get(id(section))
        if usual is not None and (known is None or (usual.chunk, usual.inflight) > (known.chunk, known.inflight)):
            found[id(section)], sections[id(section)] = usual, section
    for key, usual in found.items():
        sections[key]["chunking"] = sections[key]["chunking"] | {"bytes": usual.chunk}
        sections[key]["inflight"] = usual.inflight
        yield names.get(key), usual


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


@lru_cache(128)
def _found(description: str, size: int, fixed: int | None, attempt: Try | None) -> Usual | None:
    """What is enough, with so many chunks in flight if that is `fixed`; nothing where there is nothing to find."""
    least = CHUNK
    while MOST_CHUNKS * least < size:
        least *= 2
    inflight = fixed or IN_FLIGHT
    tried = None if attempt is None or size <= CHUNK else _tried(description, inflight, fixed is None, attempt)
    if tried is None:
        return Usual(least, inflight, None, False) if least > CHUNK else None
    inflight, short, long = tried

    def busy(chunk: int) -> float:
        # Both times grow linearly with the size.
        part = (chunk - CHUNK) / (LONG - CHUNK)
        one, link = short.one + part * (long.one - short.one), short.link + part * (long.link - short.link)
        return min(1.0, inflight * link / one) if one > 0 else 1.0

    most, chunk = busy(LONG), least
    goal = 1.0 if most >= 1 else NEARLY * most
    while busy(chunk) < goal and inflight * chunk < size:
        chunk *= 2
    return Usual(chunk, inflight, busy(chunk), busy(chunk) < 1 and inflight * chunk >= size)


def _tried(description: str, inflight: int, may_grow: bool, attempt: Try) -> tuple[int, _Wave, _Wave] | None:
    """How many chunks in flight are enough if they are large, and what waves of small and of large ones tell; nothing
    if they cannot be simulated quickly.
    """
    long = _wave(description, LONG, inflight, attempt)
    if may_grow and long is not None and long.one > inflight * long.link:
        while inflight < MOST_IN_FLIGHT and long.one > inflight * long.link:
            inflight *= 2
        long = _wave(description, LONG, inflight, attempt)
    short = _wave(description, CHUNK, inflight, attempt)
    return None if long is None or short is None else (inflight, short, long)


@dataclass(frozen=True, slots=True)
class _Wave:
    """Picoseconds of a chunk."""

    one: float
    """From end to end, T."""
    link: float
    """On the busiest link, t."""


def _wave(description: str, chunk: int, inflight: int, attempt: Try) -> _Wave | None:
    """What a wave of chunks tells."""
    wave = json.loads(description)
    wave["collectives"] |= {"chunking": {"by": "count", "chunks": inflight}, "inflight": inflight}
    wave["collectives"].pop("chunks_of", None)
    wave["job"]["bytes"] = chunk * inflight
    taken = attempt(json.dumps(wave))
    if taken is None:
        return None
    time, busy = taken  # T + (n - 1) t, and n t
    return _Wave(time - busy + busy / inflight, busy / inflight)
