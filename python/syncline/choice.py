"""Which algorithm `auto` stands for: those that make sense are tried, and the fastest is taken.

Every candidate runs the collective of the experiment, or two iterations of its training until the last collective has
ended. It is tried on the backend of the experiment if that knows contention and is cheap, else on the flow backend if
that is, else on the analytical one; folded where that is exact. The analytical backend lets messages share a link
without slowing each other; the time that is compared is therefore at least what the busiest link needs for all that it
carries. Candidates that would take too long are left out; where that leaves none, bytes over bandwidth plus latency
decide. The choice depends on nothing but the experiment.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from syncline import engine, estimate, runner
from syncline.engine import PS_PER_S, Preview
from syncline.errors import InputError, SimulationFailedError
from syncline.fabric.topologies import Fabric, Wired
from syncline.schema.experiment import AnalyticalNetwork, FlowNetwork, PacketNetwork, SwitchOffloadEndpoint
from syncline.schema.load import Choice, Study, Variant
from syncline.schema.rules import COMPOSITIONS
from syncline.schema.workloads import CollectiveWorkload

MOST_EVENTS: Final = {"analytical": 5_000_000}
"""A candidate of which more events are expected is not tried on this backend."""
MOST_EVENTS_ELSE: Final = 1_000_000
"""The same of the others."""
IN_SWITCH: Final = frozenset({"all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce"})
"""Collectives that have a sum or a copy for a switch to make."""
TOO_LONG: Final = "trying it would take too long"

_lock = threading.Lock()
_settled: dict[str, Choice] = {}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An algorithm, and what is known of it."""

    variant: Variant
    preview: Preview | None = None
    picoseconds: int | None = None
    refused: InputError | None = None
    reason: str = ""

    @property
    def algorithm(self) -> str:
        return self.variant.experiment.collective.algorithm

    @property
    def events(self) -> int:
        return 0 if self.preview is None else estimate.of(self.variant.experiment, self.preview).events

    @property
    def is_cheap(self) -> bool:
        most = MOST_EVENTS.get(self.variant.experiment.network.backend, MOST_EVENTS_ELSE)
        return self.preview is not None and self.events <= most


def settled(study: Study) -> Study:
    """The study with every `auto` replaced by what it stands for. Raises [`InputError`] where nothing is possible."""
    return replace(study, variants=tuple(_settled_variant(variant) for variant in study.variants))


def candidates(kind: str, dimensions: int) -> list[str]:
    """The algorithms that make sense for a collective of groups with so many dimensions, the simplest first."""
    names = ["ring", "direct"]
    if kind != "all-to-all":
        names.append("halving-doubling")
    if kind in ("all-reduce", "broadcast", "reduce"):
        names += ["double-binary-tree", "one-hop-trees"]
    if dimensions > 1:
        names.append("hierarchical")
        names += ["ace-4-phase", "six-phase"] if kind == "all-reduce" else []
        names += ["themis"] if kind in ("all-reduce", "reduce-scatter", "all-gather") else []
    return names


def through_switches(kind: str, names: Sequence[str]) -> list[str]:
    """Those of the candidates that leave something to switches, and those that only they make possible."""
    if kind not in IN_SWITCH:
        return [name for name in names if name == "direct"]
    compositions = [name for name in names if name in COMPOSITIONS and name != "hierarchical"]
    scattered = ["six-phase"] if kind == "all-reduce" else []
    return list(dict.fromkeys(["in-switch", "hierarchical", *compositions, *scattered]))


def _settled_variant(variant: Variant) -> Variant:
    if variant.experiment.collective.algorithm != "auto":
        return variant
    described = variant.experiment.model_dump(mode="json", exclude={"name", "description", "calibration", "output"})
    key = json.dumps([described, variant.astra_text, variant.experiment.topology.content.hex()])
    with _lock:
        if key not in _settled:
            _settled[key] = _choose(variant)
        return replace(_with(variant, algorithm=_settled[key].chosen), choice=_settled[key])


def _choose(variant: Variant) -> Choice:
    experiment = variant.experiment
    workload = experiment.workload
    kind = workload.collective if isinstance(workload, CollectiveWorkload) else "all-reduce"
    names = candidates(kind, sum(size > 1 for size in experiment.grid))
    if isinstance(experiment.endpoint, SwitchOffloadEndpoint):
        names = through_switches(kind, names)
    trials = _on_a_cheap_backend([_trial(variant, name) for name in names])
    tasks = [(t.algorithm, partial(_tried, t)) for t in trials if t.is_cheap]
    found = {trial.algorithm: trial for trial in runner.concurrently(tasks)}
    simulated = any(trial.picoseconds is not None for trial in found.values())
    trials = [found.get(t.algorithm, t if t.preview is None else _untried(t, guess=not simulated)) for t in trials]
    times = [(t.picoseconds, place, t) for place, t in enumerate(trials) if t.picoseconds is not None]
    if not times:
        raise _nothing_possible(variant, trials)
    best, *others = [trial for _, _, trial in sorted(times, key=lambda entry: entry[:2])]
    return Choice(best.algorithm, _because(best, others, simulated=simulated), tuple(_entry(t) for t in trials))


def _nothing_possible(variant: Variant, trials: Sequence[_Candidate]) -> InputError:
    """What all candidates are refused for, or what each is."""
    asked = variant.problem(("collective", "algorithm"), "no algorithm can carry this out", None)
    everywhere = [p for t in trials if t.refused is not None for p in t.refused.problems if p.field != asked.field]
    reasons = "; ".join(f"{trial.algorithm}: {trial.reason}" for trial in trials)
    return InputError(everywhere or [replace(asked, message=f"{asked.message}: {reasons}")])


def _trial(variant: Variant, algorithm: str) -> Variant:
    """The variant with an algorithm, as short as it can be for comparing."""
    experiment = variant.experiment
    training = experiment.training.model_copy(
        update={"iterations": min(2, experiment.training.iterations), "tail": "drain"}
    )
    update = {
        "training": training,
        "output": experiment.output.model_copy(update={"trace_npus": []}),
        "fold": "auto" if experiment.fold == "off" else experiment.fold,  # folding changes no result
    }
    return _with(replace(variant, experiment=experiment.model_copy(update=update)), algorithm=algorithm)


def _on_a_cheap_backend(trials: Sequence[Variant]) -> list[_Candidate]:
    """The candidates on the first backend that is cheap for two of them, or all that can be carried out."""
    given = trials[0].experiment.network
    networks = [network for network in (given, FlowNetwork()) if not isinstance(network, AnalyticalNetwork)]
    for network in networks:
        found = [_previewed(_on(trial, network)) for trial in trials]
        possible = [candidate for candidate in found if candidate.preview is not None]
        if sum(candidate.is_cheap for candidate in possible) >= min(2, len(possible)):
            return found
    return [_previewed(_on(trial, AnalyticalNetwork())) for trial in trials]


def _on(variant: Variant, network: PacketNetwork | FlowNetwork | AnalyticalNetwork) -> Variant:
    return replace(variant, experiment=variant.experiment.model_copy(update={"network": network}))


def _with(variant: Variant, algorithm: str) -> Variant:
    experiment = variant.experiment
    collective = experiment.collective.model_copy(update={"algorithm": algorithm})
    return replace(variant, experiment=experiment.model_copy(update={"collective": collective}))


def _previewed(variant: Variant) -> _Candidate:
    try:
        return _Candidate(variant, preview=engine.preview(variant))
    except InputError as error:
        return _Candidate(variant, refused=error, reason=_without_variant(error, variant.name))


def _tried(candidate: _Candidate) -> _Candidate:
    """The candidate with the time that it takes."""
    try:
        result = engine.run(candidate.variant)
    except InputError as error:
        return replace(candidate, refused=error, reason=_without_variant(error, candidate.variant.name))
    except SimulationFailedError as error:
        return replace(candidate, reason=str(error))
    took = int(result.summary["total_ps"])
    if isinstance(candidate.variant.experiment.network, AnalyticalNetwork):
        took = max([took, *result.tables["links"].column("busy_ps").to_pylist()])
    return replace(candidate, picoseconds=took)


def _untried(candidate: _Candidate, *, guess: bool) -> _Candidate:
    """A candidate that takes too long to try; with a time from its bytes and steps where nothing better is known."""
    preview, fabric = candidate.preview, candidate.variant.experiment.fabric
    if not guess or preview is None:
        return replace(candidate, reason=TOO_LONG)
    transfer = preview.bytes_sent_per_npu * PS_PER_S // max(1, fabric.egress_rate)
    return replace(candidate, picoseconds=transfer + preview.steps * _hop(fabric))


def _hop(fabric: Fabric) -> int:
    """Picoseconds of the shortest link."""
    parts = fabric.graph.links if isinstance(fabric, Wired) else fabric.dims
    return min((part.latency for part in parts), default=0)


def _because(best: _Candidate, others: Sequence[_Candidate], *, simulated: bool) -> str:
    if not others:
        return "it is the only one that can be carried out and tried here"
    if best.picoseconds == 0:
        return "nothing takes any time; it is the simplest"
    second = others[0]
    times = f"{_duration(best)} against {_duration(second)} of {second.algorithm}"
    if not simulated:
        return f"{times}, from bytes and steps: trying any would take too long"
    backend = best.variant.experiment.network.backend
    charged = ", with every link charged for all that it carries" if backend == "analytical" else ""
    return f"{times} when tried on the {backend} backend{charged}"


def _duration(candidate: _Candidate) -> str:
    return f"{(candidate.picoseconds or 0) / 1e6:.6g} us"


def _entry(candidate: _Candidate) -> dict[str, Any]:
    """The candidate as JSON."""
    if candidate.picoseconds is None:
        return {"algorithm": candidate.algorithm, "refused": candidate.reason}
    return {"algorithm": candidate.algorithm, "predicted_time_s": candidate.picoseconds / PS_PER_S}


def _without_variant(error: InputError, name: str) -> str:
    return "; ".join(problem.message.removesuffix(f" (variant {name})") for problem in error.problems)
