"""Packed trees beside what else carries out the collective on the same GPUs: `trees --compare`.

Every schedule is simulated as `syncline collective` simulates it, from the same flags, so that the numbers are those of
that command. What these GPUs cannot carry out is listed with the reason.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from syncline.base import inputs
from syncline.base.errors import CancelledError, InputError, command_line
from syncline.base.progress import Standing
from syncline.commands.api import single
from syncline.commands.api.arguments import Settings
from syncline.core import cancelling, facts
from syncline.engine import bounds, choice, estimate, planned, runner
from syncline.engine import runs as engine
from syncline.experiment.merge import parse_override
from syncline.fabric import notation
from syncline.fabric.graph import NVLINK, PCIE
from syncline.plans import plan_form
from syncline.results import entries as results
from syncline.sections import endpoints, networks
from syncline.sections.packed import PACKED
from syncline.studies.trees import theory
from syncline.treegen import choice as tree_choice
from syncline.treegen import hybrid, packing, plan

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.base.progress import Watch
    from syncline.commands.api.simulate import Warn
    from syncline.core.cancelling import Cancellation
    from syncline.engine.runs import Result
    from syncline.experiment.load import Variant
    from syncline.fabric.graph import Graph
    from syncline.fabric.machines import Cluster
    from syncline.results.entries import Document
    from syncline.treegen.choice import Goal, Objective
    from syncline.treegen.hybrid import Hybrid
    from syncline.treegen.packing import Packing
    from syncline.treegen.question import Links, Question

DEFAULT_BACKEND: Final = "flow"
"""It shares links among messages, which decides between schedules, and takes less time than backends with packets."""
ENDPOINTS: Final = ("ideal", "streams")
"""Endpoints that carry out any plan."""
ALONE: Final = "there is one GPU, which needs no other"
SCHEDULES: Final = (
    (PACKED, "packed trees"),
    ("ring", "NCCL-like rings"),
    ("double-binary-tree", "double binary trees"),
)
"""What is compared: the algorithm of `syncline collective`, and what it is called in a table."""
BOUND: Final = "bound of the certificate"
BOUND_OF_BOTH: Final = "bound of both certificates"
HYBRID: Final = "hybrid trees"
NVLINKS_ALONE: Final = "trees over NVLinks alone"


@dataclass(frozen=True, slots=True)
class Case:
    """A collective on some GPUs, in the terms of the command line: it may be sent to another process."""

    kind: str
    size: str
    machine: str | None
    topology_file: str | None
    gpus: str | None
    ranks: int
    root: int | None
    """A rank."""
    backend: str
    endpoint: str

    @property
    def cluster(self) -> Cluster | None:
        """The machine, where it has a name."""
        return None if self.machine is None else notation.parse(self.machine)

    def flags(self, algorithm: str | None, plan: str | None = None) -> single.Single:
        """The flags of `syncline collective`."""
        return single.Single(
            kind=self.kind,
            size=self.size,
            machine=self.machine,
            topology_file=self.topology_file,
            gpus=self.gpus,
            root=self.root,
            endpoint=self.endpoint,
            algorithm=algorithm,
            backend=self.backend,
            plan=plan,
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """Who hears of simulations, and what ends them."""

    watch: Watch | None = None
    warn: Warn | None = None
    cancel: Cancellation | None = None


UNOBSERVED: Final = Observed()


class Progress:
    """Makes one progress of simulations that are made one after the other."""

    def __init__(self, names: Sequence[str], observed: Observed) -> None:
        self.observed = observed
        self._names = list(names)
        self._began = time.monotonic()
        self._done = self._events_before = self._events = 0

    def of_next(self) -> Watch | None:
        """What hears of the next of the simulations."""
        watch = self.observed.watch
        if watch is None:
            return None

        def hear(standing: Standing) -> None:
            self._events = standing.events
            name = self._names[self._done]
            watch(
                replace(
                    standing,
                    done=self._done,
                    total=len(self._names),
                    waiting=tuple(self._names[self._done :]),
                    elapsed_s=time.monotonic() - self._began,
                    is_over=False,
                    underway=tuple(replace(each, name=name) for each in standing.underway),
                    events=self._events_before + self._events,
                    expected_events=None,
                )
            )

        return hear

    def finished(self) -> None:
        """The next of the simulations has ended, or there is none."""
        self._done += 1
        self._events_before += self._events
        self._events = 0
        self._say(is_over=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._say(is_over=True)

    def _say(self, *, is_over: bool) -> None:
        if self.observed.watch is not None:
            waiting, elapsed_s = tuple(self._names[self._done :]), time.monotonic() - self._began
            events = self._events_before + self._events
            self.observed.watch(Standing(self._done, len(self._names), waiting, elapsed_s, is_over, events=events))


@dataclass(frozen=True, slots=True)
class Goals:
    """Which trees are wanted."""

    objective: Objective
    threshold: float
    links: Links
    overhead_s: float | None = None
    """What a slice costs beside its bytes, if that is given."""
    root: int | Literal["auto"] | None = None
    """A place in the list of GPUs."""

    def own_plan(self, kind: str) -> bool:
        """Whether `--algorithm packed-trees` has no such wishes, so that trees run as a plan."""
        rooted = self.root is not None and kind not in packing.ROOTED
        return self.threshold > 0 or self.overhead_s is not None or rooted

    def wish(self, size: int, case: Case | None, graph: Graph, asked: Question) -> Goal:
        """What trees are chosen for; those of a case that is simulated by what its endpoint takes for a slice."""
        overhead_s = self.overhead_s
        if overhead_s is None:
            overhead_s = tree_choice.OVERHEAD_S if case is None else slice_overhead_s(case.endpoint, graph, asked)
        return tree_choice.Goal(self.objective, size, self.threshold, overhead_s)

    def settings(self, asked: Question) -> list[str]:
        """The same for `--algorithm packed-trees`, which gives up nothing of the rate. Links are those of the question,
        since trees of several servers are others if nothing is said of them (`treegen/servers.py`).
        """
        return [f"collective.trees.objective={self.objective}", f"collective.trees.links={asked.links}"]


def slice_overhead_s(endpoint: str, graph: Graph, asked: Question) -> float:
    """What a slice costs beside its bytes, as `--algorithm packed-trees` has it."""
    stated: int | None = endpoints.ENDPOINTS[endpoint](kind=endpoint).slice_overhead
    return (stated or planned.slowest(graph, asked)) / planned.PS_PER_S


def waits_for_peer_access(endpoint: str) -> bool:
    """Whether an endpoint waits where peer access is switched."""
    return "peer_access_latency" in endpoints.ENDPOINTS[endpoint].model_fields


def problems(backend: str | None, endpoint: str | None, topology_file: str | None, *, compare: bool) -> list[Problem]:
    """What is wrong with what is said of a comparison, whether there is one or not."""
    found: list[Problem] = []
    if not compare:
        for flag, value in (("--backend", backend), ("--endpoint", endpoint)):
            if value is not None:
                message = "this has no meaning without --compare"
                found += command_line(flag, value, message, "--compare beside it").problems
        return found
    if backend is not None and backend not in networks.NETWORKS:
        accepted = ", ".join(networks.NETWORKS)
        found += command_line("--backend", backend, "this is no known backend", accepted).problems
    if endpoint is not None and endpoint not in ENDPOINTS:
        message = "no trees are compared with this endpoint"
        found += command_line("--endpoint", endpoint, message, ", ".join(ENDPOINTS)).problems
    if topology_file is not None and inputs.given(topology_file) == inputs.STANDARD_INPUT:
        message = "a comparison reads the file once for every schedule, and standard input ends"
        found += command_line("--topology-file", topology_file, message, "the name of a file").problems
    return found


def add(document: Document, entries: list[Document], case: Case) -> None:
    """Adds a comparison to a document of trees."""
    document["fidelity"] = {"backend": case.backend, "endpoint": case.endpoint}
    document["comparison"] = entries
    document["warnings"] += warnings(entries, case.backend)


def of(
    case: Case,
    goals: Goals,
    graph: Graph,
    asked: Question,
    packing: Packing,
    size: int,
    observed: Observed = UNOBSERVED,
) -> list[Document]:
    """An entry for each schedule, and one for the bound. `packing` has the trees that were chosen."""
    plan = None
    if goals.own_plan(case.kind):
        plan = partial(_plan, case, graph, asked, packing, goals.wish(size, case, graph, asked))
    if goals.root == "auto" and packing.trees and case.root is not None:
        case = replace(case, root=packing.trees[0].root)
    best = packing.best_rate
    own = Simulation(PACKED, goals.settings(asked), plan)
    with Progress([name for _, name in SCHEDULES], observed) as progress:
        trees = _with_times(_entry(PACKED, SCHEDULES[0][1], packing.rate), case, own, best, progress)
        entries = [trees, *_others(case, asked.gpus, best, progress)]
    return [*entries, _bound(case, BOUND, best, size)]


def of_hybrid(case: Case, graph: Graph, found: Hybrid, observed: Observed = UNOBSERVED) -> list[Document]:
    """The same for trees over NVLinks and PCIe, beside trees over NVLinks alone. The bound is that of both kinds of
    links together, of which each tree has one.
    """
    switch_ps = round(found.switch_s / hybrid.PS / case.ranks)
    waits = [f"endpoint.peer_access_latency={switch_ps}ps"] if waits_for_peer_access(case.endpoint) else []

    def plan() -> str:
        return plan_form.dumps(hybrid.written(graph, found, PACKED))

    nvlinks = found.nvlink.packed.rate
    both = nvlinks + found.pcie.packed.rate
    of_trees = [
        (HYBRID, both, Simulation(PACKED, waits, plan)),
        (NVLINKS_ALONE, nvlinks, Simulation(PACKED, ("collective.trees.links=nvlink",))),
    ]
    entries = []
    with Progress([HYBRID, NVLINKS_ALONE, *(name for _, name in SCHEDULES[1:])], observed) as progress:
        for name, rate, simulation in of_trees:
            entries.append(_with_times(_entry(PACKED, name, rate), case, simulation, found.best_rate, progress))
        entries += _others(case, found.nvlink.asked.gpus, found.best_rate, progress)
    return [*entries, _bound(case, BOUND_OF_BOTH, found.best_rate, found.size)]


def _others(case: Case, gpus: tuple[int, ...], best: Fraction, progress: Progress) -> list[Document]:
    """Entries of the schedules beside packed trees; of rings on a known machine with what theory says."""
    ring = None if case.cluster is None else theory.ring_rate(case.cluster, gpus, case.kind)
    entries = []
    for algorithm, name in SCHEDULES[1:]:
        rate, over_nvlinks = ring if algorithm == "ring" and ring is not None else (None, None)
        entry = _entry(algorithm, name, rate)
        if over_nvlinks is not None:
            entry["theory_over"] = NVLINK if over_nvlinks else PCIE
        entries.append(_with_times(entry, case, Simulation(algorithm), best, progress))
    return entries


def _with_times(entry: Document, case: Case, simulation: Simulation, best: Fraction, progress: Progress) -> Document:
    """The entry of a schedule with what its simulation says; `best` is the bound."""
    ran, reason = _simulated(case, simulation, progress)
    progress.finished()
    if ran is not None:
        for key in ("over", "time_s", "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s", "steps"):
            entry[key] = ran[key]
        reached = ran["algorithm_bandwidth_bytes_per_s"]
        entry["share_of_bound"] = None if reached is None or not best else reached / float(best)
    entry["reason"] = reason
    return entry


def _bound(case: Case, name: str, best: Fraction, size: int) -> Document:
    """The entry of the bound."""
    bound = _entry(None, name, best if best else None)
    if best:
        rate = float(best)
        bound |= {
            "time_s": size / rate,
            "algorithm_bandwidth_bytes_per_s": rate,
            "bus_bandwidth_bytes_per_s": rate * float(bounds.bus_bandwidth_factor(case.kind, case.ranks)),
            "share_of_bound": 1.0,
        }
    else:
        bound["reason"] = ALONE if case.ranks == 1 else "the links that trees may use do not connect these GPUs"
    return bound


def warnings(entries: Sequence[Document], backend: str) -> list[str]:
    """What there is to know of a comparison: what beats the bound does so over links that trees do not use."""
    if not facts.engine().networks[backend].has_contention:
        return [f"on the {backend} backend messages that share a link do not slow each other down, so that any may win"]
    faster = [entry["name"] for entry in entries if (entry["share_of_bound"] or 0.0) > 1 + 1e-9]
    if not faster:
        return []
    return [f"the bound is that of the links that trees may use; {' and '.join(faster)} used others as well"]


def _entry(algorithm: str | None, name: str, rate: Fraction | None) -> Document:
    return {
        "name": name,
        "algorithm": algorithm,
        "theory_bytes_per_s": None if rate is None else float(rate),
        "theory_over": None,
        "over": None,
        "time_s": None,
        "algorithm_bandwidth_bytes_per_s": None,
        "bus_bandwidth_bytes_per_s": None,
        "steps": None,
        "share_of_bound": None,
        "reason": None,
    }


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is simulated for an entry."""

    algorithm: str
    settings: Sequence[str] = ()
    plan: Callable[[], str] | None = None
    """In place of the algorithm; settings of its trees are then of no use, and those of the endpoint count."""


def _simulated(case: Case, simulation: Simulation, progress: Progress) -> tuple[Document | None, str | None]:
    """What `syncline collective` says of an algorithm, or of a plan in its place; or why it says nothing."""
    watch, warn, cancel = progress.of_next(), progress.observed.warn, progress.observed.cancel
    cancelling.check(cancel)
    if case.ranks == 1:
        return None, ALONE
    try:
        with tempfile.TemporaryDirectory(prefix="syncline-") as folder:
            flags, settings = case.flags(simulation.algorithm), list(simulation.settings)
            if simulation.plan is not None:
                path = Path(folder) / "trees.json"
                path.write_text(simulation.plan(), encoding="utf-8")
                flags = case.flags(None, str(path))
                settings = [setting for setting in settings if setting.startswith("endpoint.")]
            overrides = tuple(parse_override(setting) for setting in settings)
            study, _ = single.load(flags, Settings(overrides, cancel=cancel))
        study = choice.settled(study)
        variant = study.variants[0]
        if warn is not None:
            expected = estimate.of_variant(variant, engine.preview(variant, suggest=True))
            warning = estimate.warning(simulation.algorithm, expected)
            if warning is not None:
                warn(warning)
        outcomes = runner.run_all(study.variants, 1, watch=watch)
        outcomes.raise_if_refused()
    except InputError as error:
        return None, "; ".join(problem.message for problem in error.problems)
    if outcomes.interrupted:
        raise KeyboardInterrupt
    if outcomes.cancelled:
        raise CancelledError
    for _, message in outcomes.failures:
        return None, f"the simulation failed: {message}"
    ran, result = outcomes.results[0]
    document = results.collective_fields(ran, result)
    return {**document, "over": _used(ran, result)}, None


def _used(variant: Variant, result: Result) -> list[str]:
    """The classes of the links that carried something."""
    carried = zip(result.tables["links"]["dim"].to_pylist(), result.tables["links"]["bytes"].to_pylist(), strict=True)
    used = {number for number, size in carried if size}
    return [name for number, name in enumerate(variant.experiment.topology.classes) if number in used]


def _plan(case: Case, graph: Graph, asked: Question, packing: Packing, wish: Goal) -> str:
    """The plan of trees that were chosen in another way than `--algorithm packed-trees` does."""
    if not packing.trees and not packing.stages:
        raise command_line("--gpus", case.gpus, "the links that trees use do not connect these GPUs")
    slices = tree_choice.slices(packing, packing.trees, wish.size, wish.overhead_s)
    return plan_form.dumps(plan.form(graph, asked, packing, slices, PACKED))
