"""Where the time of two runs differs: the parts of an iteration of both, and steps that add up to the difference.

The time of an iteration is divided as the engine accounts for it: compute by its passes, exposed communication by the
phases that were to blame for the waits (`path`), waits for other classes and streams, and what came after the last
kernel. A collective on its own is divided by its critical path. All numbers are whole picoseconds: sums are divided
by iterations so that the parts of a run add up to its time, hence steps to the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.results.entries import seconds
from syncline.studies.reasons import answer
from syncline.studies.reasons.answer import Part
from syncline.studies.reasons.path import Timeline
from syncline.studies.reasons.seen import TIMES, Seen

Key = tuple[str, str, str]
"""What a part is, its name, and the kind of its collective."""

GROUPS: Final = ("compute", "exposed", "communication", "bubble", "background", "drain", "start")
"""What parts are, in the order of the waterfall."""
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "bubble_s": ("bubble", "waits for messages of other classes"),
    "background_wait_s": ("background", "waits for compute of other streams"),
}


_WHOLE: Final = {"compute": "compute", "exposed": "communication", "drain": "communication"}
"""What is not divided, because nothing was traced."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an iteration in both runs, in picoseconds."""

    key: Key
    first: int
    second: int

    @property
    def delta(self) -> int:
        """How much longer it is in the second run."""
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Waterfall:
    """How an iteration of one system becomes one of another."""

    first: Seen
    second: Seen
    steps: tuple[Step, ...]
    """They lead from the time of the first to that of the second."""

    @property
    def first_ps(self) -> int:
        """An iteration of the first, rounded down."""
        return self.first.total_ps // self.first.iterations

    @property
    def second_ps(self) -> int:
        """An iteration of the second, rounded down."""
        return self.second.total_ps // self.second.iterations


def of(first: Seen, second: Seen) -> Waterfall:
    """The waterfall between two systems, both of which train or neither. Where nothing was recorded of one, neither is
    divided further than the accounts of both.
    """
    is_recorded = first.has_path and second.has_path
    mine, other = (parts(seen, recorded=is_recorded) for seen in (first, second))
    keys = sorted(mine.keys() | other.keys(), key=lambda key: (GROUPS.index(key[0]), -_larger(key, mine, other), key))
    steps = (Step(key, mine.get(key, 0), other.get(key, 0)) for key in keys)
    return Waterfall(first, second, tuple(step for step in steps if step.first or step.second))


def _larger(key: Key, mine: Mapping[Key, int], other: Mapping[Key, int]) -> int:
    return max(mine.get(key, 0), other.get(key, 0))


def parts(seen: Seen, *, recorded: bool = True) -> dict[Key, int]:
    """The parts of an iteration, in whole picoseconds; they add up to its time, rounded down. Unless `recorded`,
    compute and communication are not divided.
    """
    timeline = Timeline.of(seen) if recorded else Timeline(None, seen.total_ps)
    if not seen.is_training:
        spans = timeline.critical_path()
        whole = [(("communication", part.name, part.kind), part.length) for part in answer.grouped(spans, None)]
        return _divided(whole, seen.total_ps, 1)
    passes = [Part("compute", name, "", length, None) for name, length in _passes(timeline).items()]
    waits = answer.grouped(timeline.exposed(), None)
    compute, exposed, *others = (seen.picoseconds(name) for name in TIMES)
    whole = [*_scaled("compute", passes, compute), *_scaled("exposed", waits, exposed)]
    whole += _scaled("drain", answer.grouped(timeline.drained(), None), others.pop())
    whole += [((*_NAMES[name], ""), length) for name, length in zip(TIMES[2:4], others, strict=True)]
    rest = seen.total_ps - sum(length for _, length in whole)
    whole.append((("start", "before the NPU begins", ""), rest))
    return _divided(whole, seen.total_ps, seen.iterations)


def _passes(timeline: Timeline) -> dict[str, int]:
    found: dict[str, int] = {}
    for busy in timeline.main:
        if not busy.is_wait:
            name = busy.name.rpartition(" ")[2]
            found[name] = found.get(name, 0) + busy.end - busy.start
    return found


def _scaled(what: str, found: Sequence[Part], total: int) -> list[tuple[Key, int]]:
    """Parts that add up to a total which the run is known to have. What was traced may be another NPU than that of the
    totals, or only the beginning of a long run; then parts have the same shares of the total.
    """
    known = sum(part.length for part in found)
    if not known:
        return [((what, _WHOLE[what], ""), total)] if total else []
    sizes = _rounded([part.length for part in found], total, known)
    return [((what, part.name, part.kind), size) for part, size in zip(found, sizes, strict=True)]


def _divided(whole: Iterable[tuple[Key, int]], total: int, iterations: int) -> dict[Key, int]:
    """The parts of an iteration; they add up to `total // iterations`."""
    listed = list(whole)
    sizes = _rounded([length for _, length in listed], total // iterations, max(1, total))
    found: dict[Key, int] = {}
    for (key, _), size in zip(listed, sizes, strict=True):
        found[key] = found.get(key, 0) + size
    return found


def _rounded(lengths: Sequence[int], total: int, known: int) -> list[int]:
    """Lengths whose sum is `known`, scaled to whole numbers whose sum is `total`."""
    found: list[int] = []
    before = sofar = 0
    for length in lengths:
        sofar += length
        found.append(sofar * total // known - before)
        before += found[-1]
    return found


def entry(waterfall: Waterfall) -> dict[str, Any]:
    """Two systems in the document of `diff`. Steps in `_ps` are exact and add up to `delta_ps`."""
    first, second = waterfall.first_ps, waterfall.second_ps
    return {
        "system_a": waterfall.first.name,
        "system_b": waterfall.second.name,
        "iteration_time_a_s": waterfall.first.entry.get("iteration_time_s"),
        "iteration_time_b_s": waterfall.second.entry.get("iteration_time_s"),
        "a_ps": first,
        "b_ps": second,
        "delta_ps": second - first,
        "ratio": second / first if first else None,
        "steps": [
            {
                "what": step.key[0],
                "name": step.key[1],
                "collective": step.key[2] or None,
                "a_ps": step.first,
                "b_ps": step.second,
                "delta_ps": step.delta,
                "delta_s": seconds(step.delta),
            }
            for step in waterfall.steps
        ],
    }
