"""Iterations of a profile, which `ProfilerStep#N` annotations mark, by the clock of the GPU.

The host runs ahead of the GPU, so the ends of annotations say little about the time of an iteration. The work of a step
is what the host launches from its annotation on until the next one begins. Steps follow each other without a gap: one
ends with the last of its kernels, and the next one lasts from there to the last of its own. The first begins when the
GPU ends what was launched before or, if it is idle by then, as long before its first kernel as the GPU usually waits
for that of a step, but not before its annotation.

A step without kernels is not complete, nor is the first or last one if it has clearly fewer kernels than the others,
since the profile then began or ended within it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from syncline.importers import kineto_format
from syncline.importers.kineto_format import ON_DEVICE, ON_GPU, ON_HOST, STEP, Event, Profile

COMPLETE: Final = 0.9
"""The least share of the kernels of other steps that the first and the last step have if they are complete."""
MOST_STEPS: Final = 10_000
"""Iterations that are taken at most: as many as a graph file may say that it has."""
_NUMBER: Final = re.compile(rf"{re.escape(STEP)}([0-9]{{1,18}})")


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a profile that is taken. Times are picoseconds of the profile's clock."""

    start: int
    end: int | None
    """Nothing if it ends with the profile."""
    device: Sequence[Event]
    """What runs on the GPU, clipped at the start."""
    steps: int | None = None
    """Iterations that it consists of, where they are marked."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a profile."""

    number: int
    annotated: int
    """When its annotation begins."""
    work: Sequence[Event]
    """What it does on the GPU."""
    before: int
    """When the GPU ends what was launched before it; 0 if there is nothing."""


def complete(profile: Profile) -> dict[int, Step]:
    """The complete steps of a profile, by number."""
    spans, clock = _annotated(profile.events)
    numbers = sorted(spans, key=lambda number: spans[number])
    starts = [spans[number][0] for number in numbers]
    ends = [spans[number][1] for number in numbers]
    for place, (number, following) in enumerate(pairwise(numbers)):
        if following == number + 1:
            ends[place] = max(ends[place], starts[place + 1])
    work: list[list[Event]] = [[] for _ in numbers]
    latest = [0] * (len(numbers) + 1)
    """By the number of steps that have begun when something is launched, when the last of that ends."""
    for event, launched in _launched(profile, clock):
        begun = bisect_right(starts, launched)
        latest[begun] = max(latest[begun], event.end)
        if begun and launched < ends[begun - 1]:
            work[begun - 1].append(event)
    before = [*accumulate(latest, max)]
    steps = [Step(*each) for each in zip(numbers, starts, work, before, strict=False) if each[2]]
    return {step.number: step for step in _without_cut_ends(steps)}


def _annotated(events: Sequence[Event]) -> tuple[dict[int, tuple[int, int]], str]:
    """By number of a step, when it begins and ends, and by whose clock: of annotations of the host or, without these,
    of the GPU.
    """
    found: dict[int, tuple[int, int]] = {}
    for category in (ON_HOST, ON_GPU):
        for event in events:
            match = _NUMBER.fullmatch(event.name)
            if event.category == category and match is not None:
                start, end = found.get(int(match[1]), (event.start, event.end))
                found[int(match[1])] = min(start, event.start), max(end, event.end)
        if found:
            return found, category
    return {}, ON_HOST


def _launched(profile: Profile, clock: str) -> Iterator[tuple[Event, int]]:
    """What runs on the GPU, with the time at which it was launched by the clock of the host, or began by that of the
    GPU.

    What no call of the profile launches was launched when the one before it on its stream was or, if that is the first,
    before the profile began. In profiles without any launches it was launched when it began.
    """
    device = [event for event in profile.events if event.category in ON_DEVICE]
    calls = kineto_format.launches(profile.events)
    by_call = clock == ON_HOST and any(event.correlation in calls for event in device)
    last: dict[str, int] = {}
    for event in device:
        call = calls.get(event.correlation) if event.correlation is not None else None
        stream = kineto_format.stream_of(event)
        if call is not None:
            last[stream] = call.start
        yield event, last.get(stream, -1) if by_call else event.start


def _without_cut_ends(steps: Sequence[Step]) -> Sequence[Step]:
    """Steps with kernels, but for a first or last one that has clearly fewer of them than the others."""
    if len(steps) < 2:
        return steps
    kernels = [len(step.work) for step in steps]
    first = int(kernels[0] < COMPLETE * median(kernels[1:]))
    last = len(steps) - int(kernels[-1] < COMPLETE * median(kernels[:-1]))
    return steps[first:last]


def in_common(of_ranks: Sequence[Mapping[int, Step]]) -> list[int]:
    """The longest row of steps that are complete on all ranks, by number."""
    numbers = sorted(set.intersection(*(set(steps) for steps in of_ranks)) if of_ranks else ())
    rows: list[list[int]] = []
    for number in numbers:
        if rows and rows[-1][-1] == number - 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return max(rows, key=len, default=[])[:MOST_STEPS]


def window_of(steps: Sequence[Step]) -> Window:
    """The part of a profile in which steps run that follow each other."""
    first = steps[0]
    begin, end = min(event.start for event in first.work), max(event.end for event in first.work)
    is_busy = first.annotated < first.before < end
    start = first.before if is_busy else begin - min(_usual_wait(steps), max(0, begin - first.annotated))
    work = sorted((e for step in steps for e in step.work), key=lambda e: (e.start, e.end, e.index))
    clipped = (_clipped(event, start) for event in work)
    until = max(event.end for event in work)
    return Window(start, until, [event for event in clipped if event is not None], len(steps))


def _usual_wait(steps: Sequence[Step]) -> int:
    """For how long the GPU usually waits for the first kernel of a step, after the last one of the step before."""
    starts = [min(event.start for event in step.work) for step in steps[1:]]
    ends = [max(event.end for event in step.work) for step in steps[:-1]]
    waits = [max(0, start - end) for end, start in zip(ends, starts, strict=True)]
    return int(median(waits)) if waits else 0


def _clipped(event: Event, start: int) -> Event | None:
    """What is left of an event from a time on. Of communication a beginning is always left, since other ranks have it,
    too.
    """
    if event.start >= start:
        return event
    if event.end <= start and not kineto_format.is_communication(event.name):
        return None
    return replace(event, start=start, end=max(start, event.end))


def whole(profile: Profile, calls: Iterable[Event]) -> Window:
    """All of a profile, from the first event on the GPU or call that matters to it."""
    device = [event for event in profile.events if event.category in ON_DEVICE]
    start = min(event.start for event in (*device, *calls))
    return Window(start, None, device)
