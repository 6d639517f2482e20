"""The fastest of several variants, without running each of them to its end.

All candidates run on the same backend, first for a limited amount of work each. The time of a candidate that is not
complete by then is estimated. For a single collective, the estimate comes from two smaller sizes, since the time of a
long collective grows linearly with its size; for training, from two runs with larger chunks, whose cost is linear,
too; otherwise, only to order the candidates, from the share of the bytes that have been delivered.

Then candidates run again, the most promising first, each until it is complete, or later than the best one known, or
the work of all together is used up. A candidate that, judged by its first run, could reach neither of the first two
is not run again. So a candidate that is slower than the best is known to be slower, and one that was too costly has
an estimate. Limits are in simulated time and in work that the engine counts: its events, what shares of links cost
the flow backend beyond them, and the NPUs, links and chunks that are set up. So the outcome does not depend on the
computer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Final

from syncline import engine, estimate, memory, runner
from syncline.attempt import NO_LIMIT, Attempt
from syncline.errors import EngineDefectError, InputError, SimulationFailedError
from syncline.preview import Preview
from syncline.schema.experiment import DEFAULT_CHUNK
from syncline.schema.load import Variant
from syncline.schema.section import Section
from syncline.schema.workloads import CollectiveWorkload

WORK: Final = 24_000_000
"""What all candidates together may cost on a backend, in events: some five seconds on two processors."""
GLANCES: Final = 8
"""The part of the work that is for a first look at all candidates is one over this."""
HOPELESS: Final = 4
"""What seems to need so many times the work that is left is not run again."""
AT_ONCE: Final = 2
"""Candidates that are run side by side with the same best one to beat; a number of processors would be no constant."""
MARGIN: Final = 1.5
"""Estimates from smaller runs may be wrong by this factor: nothing is given up for what is better by less."""
LARGEST_PART: Final = 4
"""Estimates are made from one over this of the size at most."""
COARSE: Final = (64, 32)
"""How much larger the chunks of estimates of training are."""
WINDOW: Final = 10**12
"""Utilisation windows of trials, of which nobody reads any: one each second."""


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


def unwatched(variant: Variant) -> Variant:
    """The variant without what is only looked at."""
    experiment = variant.experiment
    update = {
        "output": experiment.output.model_copy(update={"trace_npus": [], "window": WINDOW}),
        "fold": "auto" if experiment.fold == "off" else experiment.fold,  # folding changes no result
    }
    return replace(variant, experiment=experiment.model_copy(update=update))


def previewed(name: str, variant: Variant) -> Candidate:
    """A candidate, with what running it would be."""
    try:
        preview = engine.preview(variant)
        return Candidate(name, _found_out(variant, preview), preview=preview)
    except InputError as error:
        return refused(Candidate(name, variant), error)


def refused(candidate: Candidate, error: InputError) -> Candidate:
    """The candidate, which the engine does not carry out."""
    said = "; ".join(p.message.removesuffix(f" (variant {candidate.variant.name})") for p in error.problems)
    return replace(candidate, preview=None, basis=Basis.REFUSED, refused=error, reason=said)


def race(
    candidates: Sequence[Candidate], work: int = WORK, *, charged: bool = False, watch: runner.Watch | None = None
) -> list[Candidate]:
    """The candidates, with what is known of their times, in the order in which they came.

    `work`: what all of them together may cost. `charged`: a time is at least what the busiest link needs, for a backend
    that lets links carry any number of messages at once. `watch` hears how far the trials are.
    """
    runners = [candidate for candidate in candidates if candidate.preview is not None]
    if not runners:
        return list(candidates)
    left = work
    glance = max(1, left // (GLANCES * len(runners)))
    found: dict[str, Candidate] = {}
    glances = [(c, partial(_glanced, c, glance, charged=charged)) for c in _affordable(runners, left)]
    for look in _concurrently(glances, watch):
        found[look.candidate.name] = look.candidate
        left -= look.work
    waiting = sorted((c for c in found.values() if c.basis in OPEN), key=_promise)
    for at in range(0, len(waiting), AT_ONCE):
        best = best_time(list(found.values()))
        most_work = left // AT_ONCE
        if most_work <= glance:
            break
        together = [c for c in waiting[at : at + AT_ONCE] if _may_beat(c, best) and not _hopeless(c, best, most_work)]
        limits = (NO_LIMIT if best is None else best, left // max(1, len(together)))
        for look in _concurrently([(c, partial(_tried, c, limits, charged=charged)) for c in together], watch):
            found[look.candidate.name] = look.candidate
            left -= look.work
    return [found.get(candidate.name, candidate) for candidate in candidates]


def best_time(candidates: Sequence[Candidate]) -> int | None:
    """The shortest time of a complete run."""
    return min((c.picoseconds for c in candidates if c.is_complete and c.picoseconds is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Look:
    """A candidate, and the work that it cost to know more of it."""

    candidate: Candidate
    work: int


def _promise(candidate: Candidate) -> tuple[bool, int]:
    """Candidates whose estimates are short come first; those without one, last."""
    return (candidate.picoseconds is None, candidate.picoseconds or 0)


def _may_beat(candidate: Candidate, best: int | None) -> bool:
    sure = candidate.picoseconds if candidate.basis in ESTIMATES else None
    return best is None or sure is None or sure < MARGIN * best


def _affordable(runners: Sequence[Candidate], work: int) -> list[Candidate]:
    """Those that can be set up and looked at: those with few messages where all take more than the work."""
    found: list[Candidate] = []
    for candidate in sorted(runners, key=lambda c: c.preview.messages if c.preview is not None else 0):
        work -= 2 * _setup(candidate)
        if work >= 0 or not found:
            found.append(candidate)
    return [candidate for candidate in runners if candidate in found]


def _setup(candidate: Candidate) -> int:
    """The work that is not of events: NPUs and links are set up, and chunks looked at, whether or not they are sent."""
    preview = candidate.preview
    return 0 if preview is None else preview.simulated_npus + preview.simulated_links + preview.chunks


def _hopeless(candidate: Candidate, best: int | None, work: int) -> bool:
    """Whether by how far it came not even HOPELESS times the work would complete it, or see it later than the best."""
    attempt, preview = candidate.attempt, candidate.preview
    if attempt is None or preview is None:
        return False
    done = _progress(candidate, attempt)
    whole = estimate.of(candidate.variant.experiment, preview).events * Fraction(attempt.work, max(1, attempt.events))
    needed = attempt.work / done if done else whole
    if best is not None and attempt.time_ps:
        needed = min(needed, attempt.work * Fraction(best, attempt.time_ps))
    return needed > HOPELESS * work


def _concurrently(tasks: Sequence[tuple[Candidate, partial[_Look]]], watch: runner.Watch | None) -> list[_Look]:
    """What the tasks about candidates return, in their order; as many at once as memory has room for."""
    place = {candidate.name: index for index, (candidate, _) in enumerate(tasks)}
    needed = (c.preview.memory_bytes for c, _ in tasks if c.preview is not None)
    threads = memory.at_once(None, needed, tasks[0][0].variant.memory_limit if tasks else None)
    cancel = tasks[0][0].variant.cancel if tasks else None
    looks = runner.concurrently([(candidate.name, task) for candidate, task in tasks], threads, watch, cancel=cancel)
    return sorted(looks, key=lambda look: place[look.candidate.name])


def _glanced(candidate: Candidate, most_work: int, *, charged: bool) -> _Look:
    """The candidate after some work, and of smaller runs if it is not complete by then."""
    look = _tried(candidate, (NO_LIMIT, most_work), charged=charged)
    if look.candidate.basis not in OPEN or _setup(candidate) > most_work:
        return look
    attempt, work = look.candidate.attempt, look.work
    times: list[tuple[Fraction, int]] = []
    for share, part in _parts(candidate, attempt) if attempt is not None else ():
        small = _tried(replace(candidate, variant=part), (NO_LIMIT, most_work), charged=charged)
        work += small.work
        if not small.candidate.is_complete or small.candidate.picoseconds is None:
            return replace(look, work=work)
        times.append((share, small.candidate.picoseconds))
    return _Look(replace(look.candidate, picoseconds=_extended(times), basis=Basis.PART), work)


def _tried(candidate: Candidate, limits: tuple[int, int], *, charged: bool) -> _Look:
    """The candidate after its run, or what it came to within limits of picoseconds and work."""
    try:
        attempt = engine.attempt(candidate.variant, *limits)
    except InputError as error:
        return _Look(refused(candidate, error), 0)
    except EngineDefectError:
        raise
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
    return _Look(seen, attempt.work + _setup(candidate))


def _progress(candidate: Candidate, attempt: Attempt) -> Fraction:
    """The share of a run's bytes that an attempt delivered."""
    preview = candidate.preview
    whole = 0 if preview is None else preview.bytes
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
            if isinstance(collective.slices, int):
                # Fewer slices have a longer way, more of them cost more: the best number grows with the root.
                cut["slices"] = round(collective.slices * times**0.5)
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


def _found_out(variant: Variant, preview: Preview) -> Variant:
    """The variant with what the engine has found of it, and need not look for again: that it cannot be folded, and the
    slices of its pipelines.
    """
    experiment = variant.experiment
    if preview.unfolded is not None:
        variant = replace(variant, experiment=experiment.model_copy(update={"fold": "off"}))
    if preview.slices is None:
        return variant
    return _changed(variant, collective=experiment.collective.model_copy(update={"slices": preview.slices}))


def _changed(variant: Variant, **sections: Section) -> Variant:
    return replace(variant, experiment=variant.experiment.model_copy(update=sections))


def _extended(times: Sequence[tuple[Fraction, int]]) -> int:
    """The time at 1 on the straight line through two others; not outside of what the margin makes of the nearer one."""
    (further, long), (near, short) = times
    slope = Fraction(long - short, 1) / (further - near) if further != near else Fraction(0)
    reached = round(short + slope * (1 - near))
    return max(reached, short if near < 1 else round(short / MARGIN))
