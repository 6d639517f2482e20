"""The fastest of several variants, without running each of them to its end.

All candidates are run on the same backend, each for some events first. Of those that are not complete by then it is
estimated what they take: a single collective from two smaller ones, since its time grows with its size as a straight
line wherever it is long; training from two runs with larger chunks, whose cost is a straight line, too; else, for their
order only, from the share of the bytes that have been delivered. Then candidates are run again, the most promising
first, each until it is complete, or later than the best that is known, or the events of all together are used up. What
is slower than the best is therefore known to be so; what was too costly has its estimate. Limits are in simulated time
and events, so that the outcome does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Final

from syncline import engine, runner
from syncline.engine import NO_LIMIT, Attempt, Preview
from syncline.errors import InputError, SimulationFailedError
from syncline.schema.experiment import DEFAULT_CHUNK
from syncline.schema.load import Variant
from syncline.schema.section import Section
from syncline.schema.workloads import CollectiveWorkload

EVENTS: Final = {"analytical": 20_000_000, "flow": 20_000_000, "packet": 80_000_000}
"""Events that all candidates together may cost, by backend: some ten seconds on two processors."""
GLANCES: Final = 8
"""The part of the events that is for a first look at all candidates is one over this."""
AT_ONCE: Final = 2
"""Candidates that are run side by side with the same best one to beat; a number of processors would be no constant."""
MARGIN: Final = 1.5
"""Estimates from smaller runs may be wrong by this factor: nothing is given up for what is better by less."""
LARGEST_PART: Final = 4
"""Estimates are made from one over this of the size at most."""
COARSE: Final = (64, 32)
"""How much larger the chunks of estimates of training are."""


class Basis(Enum):
    """What is known of the time of a candidate."""

    COMPLETE = "its run"
    LATE = "slower than the best"
    PART = "smaller runs"
    CHEAPER = "a cheaper backend"
    PROGRESS = "the beginning of its run"
    NOTHING = "nothing"
    REFUSED = "refused"


ESTIMATES: Final = (Basis.PART, Basis.CHEAPER)
"""What times can be relied on within the margin."""
OPEN: Final = (*ESTIMATES, Basis.PROGRESS, Basis.NOTHING)
"""Of what might still be the fastest."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that may be the fastest."""

    name: str
    variant: Variant
    preview: Preview | None = None
    picoseconds: int | None = None
    """What it takes; of what is late, a time that it takes longer than."""
    basis: Basis = Basis.NOTHING
    attempt: Attempt | None = None
    """Its last run."""
    refused: InputError | None = None
    reason: str = ""
    """Why it was refused."""

    @property
    def is_complete(self) -> bool:
        """Whether its time is that of a complete run."""
        return self.basis is Basis.COMPLETE


def previewed(name: str, variant: Variant) -> Candidate:
    """A candidate, with what running it would be."""
    try:
        return Candidate(name, variant, preview=engine.preview(variant))
    except InputError as error:
        return refused(Candidate(name, variant), error)


def refused(candidate: Candidate, error: InputError) -> Candidate:
    """The candidate, which the engine does not carry out."""
    said = "; ".join(p.message.removesuffix(f" (variant {candidate.variant.name})") for p in error.problems)
    return replace(candidate, preview=None, basis=Basis.REFUSED, refused=error, reason=said)


def race(candidates: Sequence[Candidate], *, charged: bool = False) -> list[Candidate]:
    """The candidates, with what is known of their times, in the order in which they came.

    `charged`: a time is at least what the busiest link needs, for a backend that lets links carry any number of
    messages at once.
    """
    runners = [candidate for candidate in candidates if candidate.preview is not None]
    if not runners:
        return list(candidates)
    left = EVENTS[runners[0].variant.experiment.network.backend]
    glance = max(1, left // (GLANCES * len(runners)))
    found: dict[str, Candidate] = {}
    for look in _concurrently([(c.name, partial(_glanced, c, glance, charged=charged)) for c in runners]):
        found[look.candidate.name] = look.candidate
        left -= look.events
    waiting = sorted((c for c in found.values() if c.basis in OPEN), key=_promise)
    for at in range(0, len(waiting), AT_ONCE):
        best = best_time(list(found.values()))
        together = [c for c in waiting[at : at + AT_ONCE] if _may_beat(c, best)]
        most_events = left // max(1, len(together))
        if most_events <= glance:
            break
        limits = (NO_LIMIT if best is None else best, most_events)
        for look in _concurrently([(c.name, partial(_tried, c, limits, charged=charged)) for c in together]):
            found[look.candidate.name] = look.candidate
            left -= look.events
    return [found.get(candidate.name, candidate) for candidate in candidates]


def best_time(candidates: Sequence[Candidate]) -> int | None:
    """The shortest time of a complete run."""
    return min((c.picoseconds for c in candidates if c.is_complete and c.picoseconds is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Look:
    """A candidate, and the events that it cost to know more of it."""

    candidate: Candidate
    events: int


def _promise(candidate: Candidate) -> tuple[bool, int]:
    """Candidates whose estimates are short come first; those without one, last."""
    return (candidate.picoseconds is None, candidate.picoseconds or 0)


def _may_beat(candidate: Candidate, best: int | None) -> bool:
    sure = candidate.picoseconds if candidate.basis in ESTIMATES else None
    return best is None or sure is None or sure < MARGIN * best


def _concurrently(tasks: Sequence[tuple[str, partial[_Look]]]) -> list[_Look]:
    """What the tasks about candidates return, in their order."""
    place = {name: index for index, (name, _) in enumerate(tasks)}
    return sorted(runner.concurrently(tasks), key=lambda look: place[look.candidate.name])


def _glanced(candidate: Candidate, most_events: int, *, charged: bool) -> _Look:
    """The candidate after a number of events, and of smaller runs if it is not complete by then."""
    look = _tried(candidate, (NO_LIMIT, most_events), charged=charged)
    if look.candidate.basis not in OPEN:
        return look
    attempt, events = look.candidate.attempt, look.events
    times: list[tuple[Fraction, int]] = []
    for share, part in _parts(candidate, attempt) if attempt is not None else ():
        small = _tried(replace(candidate, variant=part), (NO_LIMIT, most_events), charged=charged)
        events += small.events
        if not small.candidate.is_complete or small.candidate.picoseconds is None:
            return replace(look, events=events)
        times.append((share, small.candidate.picoseconds))
    estimate = _extended(times)
    return _Look(replace(look.candidate, picoseconds=estimate, basis=Basis.PART), events)


def _tried(candidate: Candidate, limits: tuple[int, int], *, charged: bool) -> _Look:
    """The candidate after its run, or what it came to within limits of picoseconds and events."""
    try:
        attempt = engine.attempt(candidate.variant, *limits)
    except InputError as error:
        return _Look(refused(candidate, error), 0)
    except SimulationFailedError as error:
        return _Look(replace(candidate, picoseconds=None, basis=Basis.REFUSED, reason=str(error)), 0)
    seen = replace(candidate, attempt=attempt)
    took = max(attempt.time_ps, attempt.busiest_link_ps) if charged else attempt.time_ps
    match attempt.ending:
        case "complete":
            seen = replace(seen, picoseconds=took, basis=Basis.COMPLETE)
        case "late":
            seen = replace(seen, picoseconds=limits[0], basis=Basis.LATE)
        case _ if candidate.basis is not Basis.PART and (done := _progress(candidate, attempt)):
            seen = replace(seen, picoseconds=int(took / done), basis=Basis.PROGRESS)
    return _Look(seen, attempt.events)


def _progress(candidate: Candidate, attempt: Attempt) -> Fraction:
    """The share of a run's bytes that an attempt delivered."""
    preview = candidate.preview
    whole = 0 if preview is None else preview.bytes_sent_per_npu * preview.simulated_npus
    return min(Fraction(1), Fraction(attempt.delivered_bytes, whole)) if whole else Fraction(0)


def _parts(candidate: Candidate, attempt: Attempt) -> Iterator[tuple[Fraction, Variant]]:
    """Two runs that cost less, the cheaper first, and where each is on the line on which the whole is at 1."""
    experiment = candidate.variant.experiment
    workload, collective = experiment.workload, experiment.collective
    if not isinstance(workload, CollectiveWorkload):
        for times in COARSE:
            cut = {"chunk": times * (collective.chunk or DEFAULT_CHUNK)}
            if collective.chunks is not None:
                cut = {"chunks": max(1, collective.chunks // times)}
            yield Fraction(times), _changed(candidate.variant, collective=collective.model_copy(update=cut))
        return
    progress = _progress(candidate, attempt)
    divisor = LARGEST_PART
    while progress and divisor * progress < 2:
        divisor *= 2
    for cut_into in (2 * divisor, divisor):
        size = max(1, workload.size // cut_into)
        fewer = None if collective.chunks is None else max(1, collective.chunks // cut_into)
        part = _changed(
            candidate.variant,
            workload=workload.model_copy(update={"size": size}),
            collective=collective.model_copy(update={"chunks": fewer}),
        )
        yield Fraction(size, workload.size), part


def _changed(variant: Variant, **sections: Section) -> Variant:
    return replace(variant, experiment=variant.experiment.model_copy(update=sections))


def _extended(times: Sequence[tuple[Fraction, int]]) -> int:
    """The time at 1 on the straight line through two others; not outside of what the margin makes of the nearer one."""
    (further, long), (near, short) = times
    slope = Fraction(long - short, 1) / (further - near) if further != near else Fraction(0)
    reached = round(short + slope * (1 - near))
    return max(reached, short if near < 1 else round(short / MARGIN))
