"""The fastest of several variants, without running each of them to its end.

Candidates are looked at one after the other, those with few messages first, each for a limited amount of work. One that
provably gains less than [`GAIN`] over the best so far is not simulated: no schedule of a single collective is faster
than its bound, and none of a candidate faster than its busiest links. The time of a candidate that is not complete
within its work is estimated. For a single collective, the estimate comes from two smaller sizes, since the time of a
long collective grows linearly with its size; for training, from two runs with larger chunks, whose cost is linear, too;
otherwise, only to order the candidates, from the share of the bytes that have been delivered.

Then candidates that are not complete run again, the most promising first, each until it is complete, or later than the
best one known, or the work of all together is used up. A candidate that, judged by its first run, could not be complete
by then is not run again. So a candidate that is slower than the best is known to be slower, and one that was
too costly has an estimate. Limits are in simulated time and in work that the engine counts: its events, what shares of
links cost the flow backend beyond them, and the NPUs, links and chunks that are set up. So the outcome does not depend
on the computer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Final

from syncline.base.errors import EngineDefectError, InputError, SimulationFailedError
from syncline.base.section import Section
from syncline.core.attempt import NO_LIMIT, Attempt
from syncline.core.preview import Preview
from syncline.engine import chunk_search, completing, estimate, in_flight
from syncline.engine import runs as engine
from syncline.experiment.load import Variant
from syncline.sections.collective import DEFAULT_CHUNK
from syncline.sections.networks.flow import FlowNetwork
from syncline.sections.workloads import ROOTED, CollectiveWorkload

OF_LAW: Final = 0.93
"""The part of the time by the law of chunks that a collective takes at least: where groups share links, some chunks are
faster than those that the law follows from."""
WORK: Final = 3_000_000
"""What all candidates together may cost on a backend, in events: a second or two of a processor."""
GAIN: Final = 1.03
"""How much faster a candidate has to be to be looked for at a cost."""
WHOLE: Final = 0.9
"""The part of the work that is left that a pipeline may cost until one is complete."""
WORK_OF_AN_EVENT: Final = 1.25
"""What an expected event of a pipeline costs, with what is not expected."""
MOST_OF_AN_EVENT: Final = 4
"""The same where many messages share links, at most."""
GLANCES: Final = 2
"""The part of the work that is for a first look at all candidates is one over this."""
OF_A_MESSAGE: Final = 4
"""What a message costs at least to simulate, in events."""
OF_A_PAIR: Final = 8
"""The same of one of more than [`MOST_PAIRS`] messages, which share links."""
MOST_PAIRS: Final = 1 << 17
"""Messages at a time of which it takes too long to see whether they fold."""
MARGIN: Final = 1.5
"""Estimates from smaller runs may be wrong by this factor: nothing is given up for what is better by less."""
LARGEST_PART: Final = 4
"""Estimates are made from one over this of the size at most."""
COARSE: Final = (64, 32)
"""How much larger the chunks of estimates of training are."""
SAMPLE: Final = 32
"""NPUs all of whose messages are counted (`preview.rs`)."""
SLICES: Final = 64
"""About how many a pipeline has."""
WINDOW: Final = 10**12
"""Utilisation windows of trials, of which nobody reads any: one each second."""


class Basis(Enum):
    """What is known of the time of a candidate."""

    COMPLETE = "its run"
    WAVES = "its first chunks"
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
        """Whether its time is that of a complete run, or of as many chunks as tell it."""
        return self.basis in (Basis.COMPLETE, Basis.WAVES)


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
        variant, time_ps = _in_chunks(variant)
        preview = engine.preview(variant)
        candidate = Candidate(name, _found_out(variant, preview), preview=preview)
        return candidate if time_ps is None else replace(candidate, picoseconds=round(time_ps), basis=Basis.WAVES)
    except InputError as error:
        return refused(Candidate(name, variant), error)


def attempted(name: str, variant: Variant, best: int | None, work: int) -> Candidate:
    """A candidate that is costly to set up, which is done once: simulated until it is later than the best one, or
    costs more than so much work.
    """
    try:
        preview, prepared = engine.prepare(variant)
    except InputError as error:
        return refused(Candidate(name, variant), error)
    candidate = Candidate(name, _found_out(variant, preview), preview=preview)
    return _tried(candidate, (NO_LIMIT if best is None else best, work), prepared).candidate


def refused(candidate: Candidate, error: InputError) -> Candidate:
    """The candidate, which the engine does not carry out."""
    said = "; ".join(p.message.removesuffix(f" (variant {candidate.variant.name})") for p in error.problems)
    return replace(candidate, preview=None, basis=Basis.REFUSED, refused=error, reason=said)


def glimpsed(name: str, variant: Variant) -> Candidate:
    """A candidate, with what running it would be as one chunk and one slice, before either is looked for by trial, and
    before it is known whether it folds. That is cheap to know, and tells what its links carry.
    """
    collective = variant.experiment.collective
    if not isinstance(variant.experiment.workload, CollectiveWorkload):
        return previewed(name, variant)
    whole: dict[str, int] = {} if collective.slices is not None else {"slices": 1}
    if variant.experiment.endpoint.has_usual_chunks and in_flight.left_open(collective):
        whole["chunks"] = 1
    lanes = {"lanes": "split"} if collective.lanes == "alternate" else {}  # as many chunks have them
    glimpse = _changed(variant, collective=collective.model_copy(update={**whole, **lanes}))
    unfolded = glimpse.experiment.model_copy(update={"fold": "off" if glimpse.experiment.fold == "auto" else "on"})
    seen = previewed(name, replace(glimpse, experiment=unfolded))
    # Unfolded, a run may only be too large.
    return replace(seen if seen.preview is not None else previewed(name, glimpse), variant=variant)


def completed(seen: Candidate) -> Candidate:
    """A candidate that was [`glimpsed`], with its chunks and slices: where a single one is too costly a trial, they are
    not looked for.
    """
    experiment = seen.variant.experiment
    collective, workload = experiment.collective, experiment.workload
    whole: dict[str, int] = {}
    if isinstance(workload, CollectiveWorkload) and _is_costly(seen):
        is_open = in_flight.left_open(collective)
        whole |= {"chunk": workload.size} if is_open else {}
        whole |= {"inflight": 1} if is_open == in_flight.BOTH else {}
        has_slices = seen.preview is not None and seen.preview.slices is not None
        whole |= {"slices": 1} if has_slices and collective.slices is None and collective.slice is None else {}
    return previewed(seen.name, _changed(seen.variant, collective=collective.model_copy(update=whole)))


def race(
    candidates: Sequence[Candidate], work: int = WORK, *, complete: Callable[[Candidate], Candidate] | None = None
) -> list[Candidate]:
    """The candidates, with what is known of their times, in the order in which they came.

    `work`: what all of them together may cost. `complete` ([`completed`]) makes a candidate that was only [`glimpsed`]
    one that can be run, where it has not been ruled out.
    """
    runners = [candidate for candidate in candidates if candidate.preview is not None]
    glance, left = max(1, work // (GLANCES * max(1, len(runners)))), work
    found: dict[str, Candidate] = {}
    for runner in sorted(runners, key=lambda each: (_bound(each), _way(each), _messages(each))):
        best = best_time(list(found.values()))
        is_too_costly = left < max(2 * _setup(runner), _sure_work(runner)) and found
        if best is not None:
            bound = _bound(runner) if is_too_costly else _least(runner, best)
            if bound * GAIN >= best:
                found[runner.name] = replace(runner, picoseconds=bound, basis=Basis.LATE)
                continue
        if is_too_costly:
            continue
        candidate = runner if complete is None else complete(runner)
        if candidate.preview is None:
            found[runner.name] = candidate
            continue
        is_first = not any(other.is_complete and _is_pipeline(other) for other in found.values())
        most = max(glance, _whole(candidate, left)) if is_first else glance
        look = _Look(candidate, _setup(candidate)) if candidate.is_complete else _glanced(candidate, most)
        found[runner.name] = look.candidate
        left -= look.work
    for candidate in sorted((c for c in found.values() if c.basis in OPEN), key=_promise):
        best = best_time(list(found.values()))
        if best is not None and (bound := _bound(candidate)) * GAIN >= best:
            found[candidate.name] = replace(candidate, picoseconds=bound, basis=Basis.LATE)
            continue
        if left <= glance:
            break
        if _may_beat(candidate, best) and not _is_hopeless(candidate, left):
            look = _tried(candidate, (NO_LIMIT if best is None else best, left))
            found[candidate.name] = look.candidate
            left -= look.work
    return [found.get(candidate.name, candidate) for candidate in candidates]


def _whole(candidate: Candidate, of: int) -> int:
    """What a whole pipeline without packets may cost, if it is expected to cost no more than [`WHOLE`] `of` so much:
    with a time it rules others out.
    """
    if not _is_pipeline(candidate) or not _moves_messages(candidate):
        return 0
    events, most = _events(candidate), int(WHOLE * of)
    return min(MOST_OF_AN_EVENT * events, most) if WORK_OF_AN_EVENT * events <= most else 0


def _is_pipeline(candidate: Candidate) -> bool:
    """Whether it goes to or from a root in slices."""
    return candidate.preview is not None and candidate.preview.slices is not None and _is_rooted(candidate)


def _moves_messages(candidate: Candidate) -> bool:
    """Whether messages are simulated whole, so that long ones cost no more than short ones."""
    return candidate.variant.experiment.network.transfer == "messages"


def _is_rooted(candidate: Candidate) -> bool:
    """Whether it is a single collective that goes to or from a root."""
    workload = candidate.variant.experiment.workload
    return isinstance(workload, CollectiveWorkload) and workload.collective in ROOTED


def _way(candidate: Candidate) -> int:
    """Bytes that follow one another on the longest way from or to a root, in a pipeline of some slices: about how long
    that takes to fill.
    """
    preview = candidate.preview
    if preview is None or not _is_rooted(candidate):
        return 0
    slices = 1 if preview.slices is None else SLICES
    return preview.steps * preview.bytes // (slices * max(1, preview.messages))


def _events(candidate: Candidate) -> int:
    """About how many events its run has."""
    preview = candidate.preview
    return 0 if preview is None else estimate.of(candidate.variant.experiment, preview).events


def _messages(candidate: Candidate) -> int:
    """Messages of a candidate's run, as one chunk and one slice: about what it costs to simulate."""
    return 0 if candidate.preview is None else candidate.preview.messages


def _sure_work(candidate: Candidate) -> int:
    """What its messages cost that are simulated one by one: a collective with a root does not fold, nor does one of
    many pairs.
    """
    preview = candidate.preview
    pairs = 0 if preview is None else preview.messages // max(1, preview.steps)
    if _is_rooted(candidate):
        return OF_A_MESSAGE * _messages(candidate)
    return OF_A_PAIR * _messages(candidate) if pairs > MOST_PAIRS else 0


def _is_costly(candidate: Candidate) -> bool:
    """Whether it is too costly a trial in one chunk and one slice."""
    return _sure_work(candidate) > chunk_search.COSTLY


def _bound(candidate: Candidate) -> int:
    """Picoseconds that a single collective takes at least, by what crosses its links, by the messages that follow one
    another, and by what no schedule can beat; 0 for a training, whose collectives may end after it.
    """
    preview, experiment = candidate.preview, candidate.variant.experiment
    workload = experiment.workload
    if preview is None or not isinstance(workload, CollectiveWorkload):
        return 0
    least = max(preview.lower_bound_ps, preview.steps * experiment.fabric.shortest_latency)
    if experiment.collective.algorithm_of(workload.collective) in chunk_search.BALANCED:
        return least  # other chunks have other links as their busiest ones
    # What links carry is counted on a sample of many NPUs, so that it may be a little less.
    return max(least, preview.busy_ps if preview.npus <= SAMPLE else preview.busy_ps * 9 // 10)


def _least(candidate: Candidate, best: int) -> int:
    """The bound, or what the law of chunks says where that alone does not rule a candidate out."""
    bound = _bound(candidate)
    if bound == 0 or bound * GAIN >= best or _is_costly(candidate):
        return bound
    return max(bound, int(OF_LAW * (completing.least_time(candidate.variant) or 0)))


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


def _setup(candidate: Candidate) -> int:
    """The work that is not of events: NPUs and links are set up, and chunks looked at, whether or not they are sent."""
    preview = candidate.preview
    return 0 if preview is None else preview.simulated_npus + preview.simulated_links + preview.chunks


def _is_hopeless(candidate: Candidate, work: int) -> bool:
    """Whether so much work would not complete it, if its other events cost as much as those of its last run."""
    attempt = candidate.attempt
    return attempt is not None and _events(candidate) * Fraction(attempt.work, max(1, attempt.events)) > work


def _glanced(candidate: Candidate, most_work: int) -> _Look:
    """The candidate after some work, and of smaller runs if it is not complete by then."""
    look = _tried(candidate, (NO_LIMIT, most_work))
    if look.candidate.basis not in OPEN or _setup(candidate) > most_work or _costs_as_much(candidate):
        return look
    attempt, work = look.candidate.attempt, look.work
    if attempt is not None and attempt.work > 2 * most_work:
        return look  # a single event costs more than it may, here as in a part
    times: list[tuple[Fraction, int]] = []
    for share, part in _parts(candidate, attempt) if attempt is not None else ():
        small = _tried(replace(candidate, variant=part), (NO_LIMIT, most_work))
        work += small.work
        if not small.candidate.is_complete or small.candidate.picoseconds is None:
            return replace(look, work=work)
        times.append((share, small.candidate.picoseconds))
    return _Look(replace(look.candidate, picoseconds=_extended(times), basis=Basis.PART), work)


def _costs_as_much(candidate: Candidate) -> bool:
    """Whether fewer bytes of a single collective cost as many events: those of one chunk do without packets."""
    experiment, preview = candidate.variant.experiment, candidate.preview
    workload, collective = experiment.workload, experiment.collective
    if preview is None or not isinstance(workload, CollectiveWorkload) or collective.chunks is not None:
        return False
    return (collective.chunk or workload.size) >= workload.size and _moves_messages(candidate)


def _tried(candidate: Candidate, limits: tuple[int, int], prepared: engine.Prepared | None = None) -> _Look:
    """The candidate after its run, or what it came to within limits of picoseconds and work."""
    try:
        attempt = engine.attempt(candidate.variant, *limits, prepared=prepared)
    except InputError as error:
        return _Look(refused(candidate, error), 0)
    except EngineDefectError:
        raise
    except SimulationFailedError as error:
        return _Look(replace(candidate, picoseconds=None, basis=Basis.REFUSED, reason=str(error)), 0)
    seen = replace(candidate, attempt=attempt)
    match attempt.ending:
        case "complete":
            seen = replace(seen, picoseconds=attempt.time_ps, basis=Basis.COMPLETE)
        case "late":
            seen = replace(seen, picoseconds=limits[0], basis=Basis.LATE)
        case _ if candidate.basis is not Basis.PART and (done := _progress(candidate, attempt)):
            least = max(int(attempt.time_ps / done), _bound(candidate))
            seen = replace(seen, picoseconds=least, basis=Basis.PROGRESS)
    return _Look(seen, attempt.work + _setup(candidate))


def _progress(candidate: Candidate, attempt: Attempt) -> Fraction:
    """The share of a run's bytes that an attempt delivered; of its events, where that is less, as a sample of NPUs may
    not have seen those that send most.
    """
    preview = candidate.preview
    if preview is None or preview.bytes == 0:
        return Fraction(0)
    events = Fraction(attempt.events, max(1, _events(candidate)))
    return min(Fraction(1), Fraction(attempt.delivered_bytes, preview.bytes), events)


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


def _in_chunks(variant: Variant) -> tuple[Variant, float | None]:
    """A single collective in the chunks that suit it, which are so not looked for again for a part of it; and its time,
    if they were found where it is to be simulated: on the flow backend.
    """
    experiment = variant.experiment
    if not isinstance(experiment.workload, CollectiveWorkload):
        return variant, None
    for _, usual in completing.usual_chunks(variant):
        cut = {"chunk": usual.chunk, "inflight": usual.inflight}
        if experiment.collective.slices is None and experiment.collective.slice is None and usual.slices is not None:
            cut["slices"] = usual.slices
        changed = _changed(variant, collective=experiment.collective.model_copy(update=cut))
        is_there = experiment.network.backend == FlowNetwork().backend and not experiment.network.is_random
        return changed, usual.time_ps if is_there else None
    return variant, None


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
