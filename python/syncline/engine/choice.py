"""Which algorithm `auto` stands for: every algorithm by name is tried, and the fastest is taken.

Candidates run the collective or the training of the experiment as it is, each in the chunks that suit it, on its
backend; a candidate that is too costly to run to its end is estimated (`trials.py`). Messages that share a link slow
each other, so where the backend of the experiment ignores that, candidates are compared on the flow backend, and so
they are where no candidate can run to its end in packets. What takes too long there as well is compared by what links
have to carry, and by the latency of steps. All of this takes a few seconds, however large the fabric is. The choice
depends on nothing but the experiment.

Trees are packed if they may gain more than 3 % over the best of the others, or 12 % where they take long to pack: by
the bound that no schedule beats, and then by the time that is predicted of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from syncline.base.errors import InputError
from syncline.core import facts
from syncline.engine import in_flight, planned, trials, tuning
from syncline.engine import runs as engine
from syncline.engine.runs import PS_PER_S
from syncline.engine.trials import Basis, Candidate
from syncline.experiment.load import Choice, Study, Variant
from syncline.experiment.programs import COMPOSITIONS
from syncline.fabric.topologies import Fabric
from syncline.sections.algorithms import Algorithm
from syncline.sections.experiment import Experiment
from syncline.sections.networks import NetworkSection
from syncline.sections.packed import PACKED, PLANNED
from syncline.sections.workloads import CollectiveWorkload, kinds_of
from syncline.treegen.plan import SPLIT_AMONG_RANKS

GAIN_OF_MANY: Final = 1.12
"""How much faster trees have to be that are found, verified and run in several seconds: those of every rank of a group
of more than [`FEW_RANKS`]."""
FEW_RANKS: Final = 16
SAME: Final = facts.Names(lambda engine: (a.name for a in engine.algorithms.values() if a.same_as))
"""Other names of algorithms that are candidates."""
_lock = threading.Lock()
_settled: dict[str, tuple[Variant, Choice]] = {}


def settled(study: Study) -> Study:
    """The study with every `auto` replaced by what it stands for, and sizes of slices found where that is asked for.

    Raises [`InputError`] where nothing is possible.
    """
    variants = tuple(tuning.settled(_settled_variant(variant)) for variant in study.variants)
    return replace(study, variants=variants)


def candidates(experiment: Experiment, kind: str | None = None) -> list[str]:
    """The algorithms that may be the fastest, or of one kind of collectives, the simplest first; the engine may refuse
    some. Each is named once: compositions differ in what they make of an all-reduce only, but for `themis`. Along one
    dimension they are what suits it, in one phase or in two.
    """
    kinds = [kind] if kind is not None else _unplanned(experiment)
    names = [name for name in get_args(Algorithm) if name != "auto" and name not in SAME]
    if kind is not None or experiment.collective.lanes == "one":
        names.remove("ring-unidirectional")
    if not experiment.endpoint.adds_in_switches:
        names.remove("in-switch")
    following = kinds if kind is not None else [k for k in kinds if k in experiment.followers]
    if not set(following) <= set(PLANNED) or not planned.is_quick(experiment, following):
        names.remove(PACKED)
    left_out: set[str] = set()
    if "all-reduce" not in kinds:
        left_out = set(COMPOSITIONS) - {"hierarchical", "themis"}
    suits = not experiment.endpoint.adds_in_switches and experiment.collective.per_dimension is None
    if suits and sum(size > 1 for size in experiment.grid) == 1:
        left_out |= set(COMPOSITIONS) - {"six-phase"}
    return [name for name in names if name not in left_out]


def _unplanned(experiment: Experiment) -> list[str]:
    """The kinds of collectives that have no plan."""
    return [kind for kind in kinds_of(experiment.workload) if experiment.plan_of(kind) is None]


def _settled_variant(variant: Variant) -> Variant:
    if not variant.experiment.has_open_algorithms:
        return variant
    described = variant.experiment.model_dump(mode="json", exclude={"name", "description", "calibration", "output"})
    is_open = in_flight.left_open(variant.experiment.collective)
    key = json.dumps(
        [described, is_open, variant.astra_text, variant.experiment.contents, variant.seed, variant.memory_limit]
    )
    with _lock:
        if key not in _settled:
            _settled[key] = _choose(variant)
        chosen, choice = _settled[key]
        collective = chosen.experiment.collective
        experiment = variant.experiment.model_copy(update={"collective": collective})
        return replace(variant, experiment=experiment, choice=choice)


@dataclass(frozen=True, slots=True)
class _Slot:
    """An algorithm that is to be chosen: of all kinds of collectives that have none of their own, or of one kind."""

    kind: str | None = None

    def filled(self, variant: Variant, algorithm: str | None) -> Variant:
        """The variant with an algorithm here; without one, a kind has that of all others."""
        experiment = variant.experiment
        update: dict[str, Any] = {"algorithm": algorithm}
        if self.kind is not None:
            own = {kind: name for kind, name in experiment.collective.algorithms.items() if kind != self.kind}
            update = {"algorithms": own if algorithm is None else own | {self.kind: algorithm}}
        collective = experiment.collective.model_copy(update=update)
        return replace(variant, experiment=experiment.model_copy(update={"collective": collective}))


def _choose(variant: Variant) -> tuple[Variant, Choice]:
    """The variant with every algorithm chosen, one after the other; the first of several is looked at again at the end,
    for it was chosen for all kinds.
    """
    experiment = variant.experiment
    own = [_Slot(kind) for kind in experiment.open_kinds]
    for slot in own:
        variant = slot.filled(variant, None)
    slots = [*([_Slot()] if experiment.has_open_algorithm else []), *own]
    if len(slots) > 1 and slots[0].kind is None:
        slots.append(slots[0])
    because: dict[str | None, str] = {}
    entries: dict[str | None, list[dict[str, Any]]] = {}
    slices: int | None = None
    for slot in slots:
        named = [(name, slot.filled(variant, name)) for name in candidates(variant.experiment, slot.kind)]
        found, how = _compared(named, trials.WORK // len(slots))
        ranked = _ranked(found)
        if not ranked:
            raise _nothing_possible(variant, slot, found)
        variant, slices = slot.filled(variant, ranked[0].name), _slices(ranked[0], experiment)
        because[slot.kind] = _because(ranked[0], ranked[1:], how)
        entries[slot.kind] = [_entry(candidate, slot.kind) for candidate in found]
    names: dict[str, str] = {str(kind): name for kind, name in variant.experiment.collective.algorithms.items()}
    said = [text if kind is None else f"{kind} by {names[kind]}, {text}" for kind, text in because.items()]
    whole = [entry for of_slot in entries.values() for entry in of_slot]
    return variant, Choice(variant.experiment.collective.algorithm, "; ".join(said), tuple(whole), slices)


def _slices(candidate: Candidate, asked: Experiment) -> int | None:
    """The slices of a single collective that was tried where it is to run, which are so not looked for again."""
    is_there = isinstance(asked.workload, CollectiveWorkload) and candidate.variant.experiment.network == asked.network
    return candidate.preview.slices if is_there and candidate.preview is not None else None


def _nothing_possible(variant: Variant, slot: _Slot, found: Sequence[Candidate]) -> InputError:
    """What all candidates are refused for, or what each is."""
    path = ("collective", "algorithm") if slot.kind is None else ("collective", "algorithms", slot.kind)
    asked = variant.problem(path, "no algorithm can carry this out", None)
    everywhere = [p for c in found if c.refused is not None for p in c.refused.problems if p.field != asked.field]
    reasons = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in found)
    return InputError(everywhere or [replace(asked, message=f"{asked.message}: {reasons}")])


def _compared(variants: Sequence[tuple[str, Variant]], work: int) -> tuple[list[Candidate], str]:
    """The candidates with their times, and where these are from. Trials on the backend of the experiment may cost so
    much work, those on a cheaper one a quarter of what those before it may.
    """
    asked = variants[0][1].experiment
    found: list[Candidate] = []
    where = ""
    for network in asked.network.comparable():
        # Once there is a best one, others are compared with it.
        best = next(iter(_ranked([candidate for candidate in found if candidate.is_complete])), None)
        wanted = {c.name for c in found if c is best or _is_open(c)}
        taken = [(name, variant) for name, variant in variants if best is None or name in wanted]
        raced = _raced([(name, _on(trials.unwatched(variant), network)) for name, variant in taken], work)
        work //= 4
        if best is not None:
            found = _supplemented(found, raced, best)
        else:
            variants = [(c.name, _as_looked_at(asked, c.variant)) for c in raced]
            found, where = raced, _where(asked, network)
        if _is_decided(found):
            return found, where
    if trials.best_time(found) is not None:
        return [_guessed(c, asked.fabric) if c.picoseconds is None else c for c in found], where
    if all(candidate.picoseconds is not None for candidate in found if candidate.preview is not None):
        return found, where
    guessed = [_guessed(candidate, asked.fabric) for candidate in found]
    return guessed, "from bytes and steps: trying any would take too long"


def _as_looked_at(asked: Experiment, variant: Variant) -> Variant:
    """The variant with what was found of its collectives, but free to be folded as was asked."""
    return replace(variant, experiment=variant.experiment.model_copy(update={"fold": asked.fold}))


def _raced(variants: Sequence[tuple[str, Variant]], work: int) -> list[Candidate]:
    """The candidates with what is known of their times; trees last, and only if they may gain enough: these may cost as
    much as all others.
    """
    others = [trials.glimpsed(name, variant) for name, variant in variants if name != PACKED]
    found = trials.race(others, work, complete=trials.completed)
    trees = [_trees(variant, found, work) for name, variant in variants if name == PACKED]
    return [*found, *trees]


def _trees(variant: Variant, others: Sequence[Candidate], work: int) -> Candidate:
    """Packed trees: tried only where bound and prediction leave room to be so many times as fast as others."""
    best = trials.best_time(others)
    candidate = Candidate(PACKED, variant)
    workload = variant.experiment.workload
    if best is not None and isinstance(workload, CollectiveWorkload):
        are_many = workload.collective in SPLIT_AMONG_RANKS and variant.experiment.ranks > FEW_RANKS
        gain = GAIN_OF_MANY if are_many else trials.GAIN
        try:
            bound = max(other.preview.lower_bound_ps for other in others if other.preview is not None)
            if bound * gain < best:
                bound = engine.time_of_trees(variant)
        except InputError as error:
            return trials.refused(candidate, error)
        if bound * gain >= best:
            return replace(candidate, picoseconds=bound, basis=Basis.LATE)
    return trials.attempted(PACKED, variant, best, work)


def _supplemented(found: Sequence[Candidate], cheaper: Sequence[Candidate], best: Candidate) -> list[Candidate]:
    """The candidates, those that were too costly with times that relate to the best one's as on a cheaper backend."""
    there = {candidate.name: candidate for candidate in cheaper}
    measure = there[best.name]
    result: list[Candidate] = []
    for candidate in found:
        other = there[candidate.name] if _is_open(candidate) else candidate
        known = other.basis in (Basis.COMPLETE, Basis.LATE, Basis.PART) and other is not candidate
        if known and measure.is_complete and other.picoseconds and measure.picoseconds:
            picoseconds = (best.picoseconds or 0) * other.picoseconds // measure.picoseconds
            result.append(replace(candidate, picoseconds=picoseconds, basis=Basis.CHEAPER))
        else:
            result.append(candidate)
    return result


def _is_decided(found: Sequence[Candidate]) -> bool:
    """Whether every candidate that can be carried out has a time, or an estimate that can be relied on."""
    return not any(_is_open(candidate) for candidate in found)


def _is_open(candidate: Candidate) -> bool:
    """Whether a candidate that can be carried out has neither a time nor an estimate that can be relied on."""
    return candidate.preview is not None and candidate.basis in (Basis.PROGRESS, Basis.NOTHING)


def _where(asked: Experiment, network: NetworkSection) -> str:
    tried = f"tried on the {network.backend} backend"
    if network.backend == asked.network.backend:
        return tried
    why = "would take too long" if asked.network.has_contention else "ignores contention"
    return f"{tried}, as {asked.network.backend} {why}"


def _on(variant: Variant, network: NetworkSection) -> Variant:
    return replace(variant, experiment=variant.experiment.model_copy(update={"network": network}))


def _guessed(candidate: Candidate, fabric: Fabric) -> Candidate:
    """A candidate with a time from its bytes and steps, and from the links that they cross."""
    preview = candidate.preview
    if preview is None:
        return candidate
    most = max(preview.bytes_sent_per_npu, preview.byte_hops // max(1, preview.simulated_npus))
    transfer = most * PS_PER_S // max(1, fabric.egress_rate)
    latency = preview.steps * fabric.shortest_latency * preview.message_hops // max(1, preview.messages)
    carried = max(transfer, preview.busy_ps, preview.lower_bound_ps)
    return replace(candidate, picoseconds=carried + latency, basis=Basis.NOTHING)


def _ranked(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that may be taken, the best first, the simplest first among equals. Beside a run an estimate
    counts for what it may be wrong by, twice that if it is from a beginning, and a guess for nothing.
    """
    run = any(candidate.is_complete for candidate in found)
    worthless = (Basis.LATE, Basis.NOTHING) if run else (Basis.LATE,)
    times = [(c.picoseconds, c) for c in found if c.picoseconds is not None and c.basis not in worthless]
    margins = {Basis.PROGRESS: 2 * trials.MARGIN}
    worst = [
        (time if not run or c.is_complete else round(margins.get(c.basis, trials.MARGIN) * time), c)
        for time, c in times
    ]
    return [candidate for _, candidate in sorted(worst, key=lambda entry: entry[0])]


def _because(best: Candidate, others: Sequence[Candidate], how: str) -> str:
    if best.picoseconds == 0:
        return "no candidate takes any time; it is the simplest"
    said = f"{_duration(best)}"
    if others:
        said += f" against {_duration(others[0])} of {others[0].name}"
    elif best.is_complete:
        said += f", and no other that can be carried out is {100 * (trials.GAIN - 1):.0f} % faster"
    guessed = [c.name for c in (best, *others[:1]) if c.basis in trials.ESTIMATES]
    basis = f" ({' and '.join(guessed)} estimated)" if guessed else ""
    return f"{said}{basis}, {how}"


def _duration(candidate: Candidate) -> str:
    return f"{(candidate.picoseconds or 0) / 1e6:.6g} us"


def _entry(candidate: Candidate, kind: str | None) -> dict[str, Any]:
    """The candidate as JSON: its time, or one that it takes longer than, or why there is none."""
    entry: dict[str, Any] = (
        {"algorithm": candidate.name} if kind is None else {"kind": kind, "algorithm": candidate.name}
    )
    if candidate.picoseconds is None:
        return entry | {"refused": candidate.reason}
    seconds = candidate.picoseconds / PS_PER_S
    if candidate.basis is Basis.LATE:
        return entry | {"longer_than_s": seconds}
    if candidate.is_complete:
        return entry | {"predicted_time_s": seconds}
    return entry | {"predicted_time_s": seconds, "estimated_from": candidate.basis.value}
