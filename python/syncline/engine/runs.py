"""What the engine does: experiments go in, results come out, and what it refuses is said in words of the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, get_args

from syncline.base import description, memory
from syncline.base.errors import CancelledError, InputError, Problem, SimulationFailedError, one_of
from syncline.core import binding, cancelling, facts, recorded
from syncline.core.attempt import NO_LIMIT, Attempt
from syncline.core.preview import Preview
from syncline.core.refusals import read as read_refusals
from syncline.engine import completing, demand, in_flight, planned, plausibility, refusals, specification
from syncline.engine.comparison import DIFFERENT
from syncline.experiment.effect import effective
from syncline.sections.algorithms import Algorithm
from syncline.sections.workloads import CollectiveWorkload, DividedWorkload, GraphWorkload, JobsWorkload
from syncline.strategies import capacity
from syncline.strategies import training as divisions

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.core import _core
    from syncline.experiment.load import Variant

PS_PER_S: Final = 10**12
MOST_TEXT: Final = 2**31 - 1
"""Bytes of a column that Arrow's usual texts can hold."""
LOOK_BYTES: Final = 10**9
"""Memory of a look at an algorithm that may be suggested."""

FURTHER: Final = 3
"""Iterations of a divided model that tell what one more costs: the third is like the second."""
MOST_EVENTS: Final = 40_000_000
"""Events that may be spent on that, as the engine does with other trainings (`steady.rs`)."""

ALGORITHMS: Final = (("collective", "algorithm"), ("collective", "algorithms"))
"""The fields that name algorithms."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a simulation returned."""

    summary: dict[str, Any]
    """The headline numbers (`Summary` in `results.rs`)."""
    tables: dict[str, pa.Table]
    """The tables, by name; times are integer picoseconds."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A variant that the engine has set up, with `steady` of [`run`]: to be begun and then run without setting it up
    again, which on thousands of NPUs takes longer than a short run. Holds what a run has before its first event.
    """

    request: str
    simulation: _core.Prepared


def preview(variant: Variant, *, suggest: bool = False) -> Preview:
    """What simulating a variant will be. Raises [`InputError`] if the engine refuses it; with `suggest` that names
    the algorithms that fit in place of one that does not, which takes a look at each.
    """
    binding.require()
    from syncline.core import _core

    request = _request(variant, suggest=suggest)
    with _explained(variant, request, suggest=suggest):
        return Preview(**json.loads(_core.check(request)))


def prepare(variant: Variant, *, steady: bool = False) -> tuple[Preview, Prepared]:
    """What simulating a variant will be, and the variant as it has been set up for that. Raises as [`check`]."""
    binding.require()
    from syncline.core import _core

    request = _request(variant, steady=steady, suggest=True)
    with _explained(variant, request, suggest=True):
        simulation = _core.Prepared(request)
        return Preview(**json.loads(simulation.preview())), Prepared(request, simulation)


def check(variants: Sequence[Variant]) -> list[Preview]:
    """Has the engine look at variants without running them. Raises [`InputError`] with all that it refuses."""
    problems: list[Problem] = []
    previews: list[Preview] = []
    for variant in variants:
        try:
            previews.append(preview(variant, suggest=True))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return previews


def run(
    variant: Variant,
    *,
    steady: bool = False,
    prepared: Prepared | None = None,
    monitor: _core.Monitor | None = None,
) -> Result:
    """Runs a variant; with `steady` for longer, if only that tells what one more iteration costs: it changes nothing
    else. `monitor` sees how far it is and can end it, in place of one that nobody else knows of.

    Raises [`InputError`] if the engine refuses it, [`SimulationFailedError`] if it fails, [`CancelledError`] if it was
    ended.
    """
    binding.require()
    from syncline.core import _core

    request = _request(variant, steady=steady) if prepared is None else prepared.request
    monitor = cancelling.monitor(variant.cancel) if monitor is None else monitor
    with _explained(variant, request):
        result = _core.run(request, monitor) if prepared is None else prepared.simulation.run(monitor)
    summary = json.loads(result["summary"])
    if isinstance(variant.experiment.workload, JobsWorkload):
        summary |= {"jobs": _jobs(variant, summary, monitor), "steady": None}
        if len({job["iterations"] for job in summary["jobs"]}) > 1:
            summary["iterations"] = 1  # jobs have no iteration in common: the time is that until all are done
    elif steady and _leaves_open(variant, summary):
        summary["steady"] = _further(variant, monitor) or summary["steady"]
    if isinstance(variant.experiment.workload, GraphWorkload):
        _divide(summary, variant.experiment.workload.file.graph.steps)
    summary["peak_share"] = plausibility.peak_share(variant.experiment, summary)
    summary["warnings"] += plausibility.warnings(variant.experiment, summary["peak_share"])
    tables = {name: table(name, t) for name, t in result["tables"].items()}
    return Result(summary, recorded.cut(tables, variant.experiment.output.trace_limit))


def _divide(summary: dict[str, Any], steps: int) -> None:
    """Counts the iterations that the nodes of a graph are, each time that the graph is repeated."""
    summary["graph_steps"] = steps
    summary["iterations"] *= steps
    if summary["steady"] is not None:
        summary["steady"] |= {"iteration_ps": summary["steady"]["iteration_ps"] / steps}


def _leaves_open(variant: Variant, summary: Mapping[str, Any]) -> bool:
    """Whether a run of a divided model has too few iterations to tell what one more costs, and that may differ by so
    much that it is said: weights come beside the next one. Where none do, iterations are alike.
    """
    experiment, iterations = variant.experiment, summary["iterations"]
    if not isinstance(experiment.workload, DividedWorkload) or iterations >= FURTHER:
        return False
    waits = summary["drain_ps"] > DIFFERENT * summary["total_ps"] / iterations
    affordable = summary["events"] * FURTHER <= MOST_EVENTS * iterations
    later = divisions.of(experiment).setting().brings_weights_later
    return later and affordable and (waits or experiment.tail == "stop")


def _further(variant: Variant, monitor: _core.Monitor) -> dict[str, Any] | None:
    """What one more iteration costs, by a longer run; nothing if that fails, which what was asked for has not."""
    from syncline.core import _core

    experiment = variant.experiment
    longer = {
        "training": experiment.training.model_copy(update={"iterations": FURTHER, "tail": "stop"}),
        "output": experiment.output.model_copy(update={"trace_npus": []}),
    }
    try:
        request = _request(replace(variant, experiment=experiment.model_copy(update=longer)))
        with _explained(variant, request):
            summary = json.loads(_core.run(request, monitor)["summary"])
    except (InputError, SimulationFailedError):
        return None
    found: dict[str, Any] | None = summary["steady"]
    return found


def _jobs(variant: Variant, summary: dict[str, Any], monitor: _core.Monitor) -> list[dict[str, Any]]:
    """How long each of several jobs takes, beside the others and alone: the iterations of its main streams."""
    from syncline.core import _core

    workload = variant.experiment.workload
    assert isinstance(workload, JobsWorkload)
    beside = {entry["name"]: entry["total_ps"] - entry["drain_ps"] for entry in summary["classes"]}
    found = []
    for job in workload.jobs:
        only = variant.experiment.model_copy(update={"workload": workload.model_copy(update={"jobs": [job]})})
        request = _request(replace(variant, experiment=only))
        with _explained(variant, request):
            alone = json.loads(_core.run(request, monitor)["summary"])
        alone_ps = alone["total_ps"] - alone["drain_ps"]
        found.append(
            {
                "name": job.name,
                "time_ps": beside.get(job.name, alone_ps),
                "alone_ps": alone_ps,
                "iterations": job.iterations or variant.experiment.iterations,
            }
        )
    return found


def export(variant: Variant, *, instances: int | None = None) -> dict[str, Any]:
    """The plan of a variant that is a single collective, or with `instances` the same written out as a schedule, so
    many times side by side. Raises [`InputError`] if the engine refuses it, or cannot write it like that.
    """
    binding.require()
    from syncline.core import _core

    request = _request(variant)
    with _explained(variant, request):
        text = _core.export(request) if instances is None else _core.export_schedule(request, instances)
    form: dict[str, Any] = json.loads(text)
    return form


def listing(variant: Variant) -> dict[str, Any]:
    """The graph of a variant, written out: families with their communicators, and what every class of NPUs does
    (`Listing` in `listing.rs`). Raises [`InputError`] if the engine refuses it.
    """
    binding.require()
    from syncline.core import _core

    request = _request(variant)
    with _explained(variant, request):
        text = _core.listing(request)
    found: dict[str, Any] = json.loads(text)
    return found


def attempt(
    variant: Variant, most_ps: int = NO_LIMIT, most_work: int = NO_LIMIT, *, prepared: Prepared | None = None
) -> Attempt:
    """Runs a variant until it takes more simulated time, or more work, than it may. Raises as [`run`]."""
    binding.require()
    from syncline.core import _core

    request = _request(variant) if prepared is None else prepared.request
    monitor = cancelling.monitor(variant.cancel)
    with _explained(variant, request):
        if prepared is None:
            return Attempt(**json.loads(_core.attempt(request, most_ps, most_work, monitor)))
        return Attempt(**json.loads(prepared.simulation.attempt(most_ps, most_work, monitor)))


@contextmanager
def _explained(variant: Variant, request: str, *, suggest: bool = False) -> Iterator[None]:
    """Raises what the engine raises, in words of the file; with `suggest`, with the algorithms that fit in place of one
    that does not.
    """
    from syncline.core import _core

    try:
        yield
    except _core.SpecError as error:
        raise InputError(_problems(variant, error, suggest=suggest)) from None
    except _core.SimulationError as error:
        raise SimulationFailedError(str(error)) from None
    except _core.CancelledError:
        raise CancelledError from None
    except BaseException as error:
        raise binding.defect(error, request) from None


def _request(variant: Variant, *, steady: bool = False, suggest: bool = False) -> str:
    """What the engine is asked to simulate, and how much memory it may take. Raises what it takes the engine to find
    that out as [`_explained`] does.
    """
    too_large = [*capacity.violations(variant.experiment)]
    if too_large:
        raise InputError(variant.problem(each.path, each.message, each.accepted) for each in too_large)
    try:
        with _explained(variant, "", suggest=suggest):
            specified = completing.specification(variant.experiment, variant.astra_text)
    except demand.DemandError as error:
        raise InputError([variant.problem(error.path, error.message, error.accepted)]) from None
    if variant.choice is not None and variant.choice.slices is not None and specified["collectives"]["slices"] == 0:
        specified["collectives"]["slices"] = variant.choice.slices
    specified["output"]["steady"] = steady and not isinstance(variant.experiment.workload, JobsWorkload)
    return description.text(
        specified | {"seed": variant.seed, "memory_limit_bytes": memory.limit(variant.memory_limit)}
    )


def _problems(variant: Variant, error: ValueError, *, suggest: bool = False) -> Iterator[Problem]:
    """What the engine refuses, in words of the file; with `suggest`, with the algorithms that fit in place of one."""
    for refusal in read_refusals(error):
        planned = refusals.of_plan(refusal, variant)
        if planned is not None:
            yield planned
            continue
        of_graph = refusals.of_graph(refusal, variant)
        if of_graph is not None:
            yield of_graph
            continue
        path = refusals.path(refusal, variant.experiment)
        fit = _that_fit(variant, path) if suggest and path[:2] in ALGORITHMS else []
        yield refusals.problem(refusal, variant, one_of(fit) if fit else None)


def _that_fit(variant: Variant, path: tuple[str, ...]) -> list[str]:
    """The algorithms that the engine takes in the place of the one at `path`, and can look at without much memory."""
    from syncline.core import _core

    def is_taken(algorithm: str) -> bool:
        collective = variant.experiment.collective
        if path == ("collective", "algorithm"):
            update: dict[str, Any] = {"algorithm": algorithm}
        else:
            update = {"algorithms": collective.algorithms | {path[-1]: algorithm}}
        changed = variant.experiment.model_copy(update={"collective": collective.model_copy(update=update)})
        try:
            asked = completing.specification(changed, variant.astra_text)
            most = min(LOOK_BYTES, memory.limit(variant.memory_limit))
            _core.check(description.text(asked | {"memory_limit_bytes": most}))
        except (_core.SpecError, demand.DemandError):
            return False
        return True

    return [name for name in get_args(Algorithm) if name != "auto" and is_taken(name)]


def table(name: str, columns: Mapping[str, tuple[str, Any]]) -> pa.Table:
    """A table of the engine, its columns with units and meanings; numbers are not copied. What is not known is null."""
    import pyarrow as pa

    declared = facts.engine().tables[name].columns

    arrays: dict[str, pa.Array] = {}
    for column, (kind, values) in columns.items():
        if kind == "text":
            ends, characters = values
            buffers = [pa.py_buffer(ends), pa.py_buffer(characters)]
            texts = pa.LargeStringArray.from_buffers(len(ends) // 8 - 1, *buffers)
            arrays[column] = texts if len(characters) > MOST_TEXT else texts.cast(pa.string())
        elif kind == "data":
            ends, content = values
            arrays[column] = pa.LargeBinaryArray.from_buffers(
                pa.large_binary(), len(ends) // 8 - 1, [None, pa.py_buffer(ends), pa.py_buffer(content)]
            )
        elif kind == "optional int":
            numbers, known = values
            buffers = [pa.py_buffer(known), pa.py_buffer(numbers)]
            arrays[column] = pa.Array.from_buffers(pa.int64(), len(numbers) // 8, buffers)
        else:
            of = pa.int64() if kind == "int" else pa.float64()
            arrays[column] = pa.Array.from_buffers(of, len(values) // 8, [None, pa.py_buffer(values)])
    described = [pa.field(column, a.type, metadata=declared[column].metadata) for column, a in arrays.items()]
    return pa.table(list(arrays.values()), schema=pa.schema(described))


def trees(variant: Variant) -> list[planned.Shown]:
    """The trees of a run that packs some. Raises [`InputError`] where there are none."""
    experiment = effective(variant.experiment)
    specified = specification.incomplete(experiment, variant.astra_text)
    in_flight.marked(specified)
    if not planned.is_wanted(specified):
        return []
    from syncline.core import _core

    return list(planned.shown(experiment, specified, _core.asked))


def time_of_trees(variant: Variant) -> int:
    """The picoseconds that the bytes of a single collective take at least along its trees, without slicing or verifying
    them. Raises [`InputError`] where there are none.
    """
    workload, shown = variant.experiment.workload, trees(variant)
    assert isinstance(workload, CollectiveWorkload)
    chunks = workload.size / max(1, sum(each.goal.size for each in shown))
    # While a chunk is broadcast, another may be reduced.
    in_turn = chunks if chunks <= 1 else chunks / 2
    return int(in_turn * max((each.least_seconds for each in shown), default=0.0) * PS_PER_S)


def largest_sliced(variant: Variant) -> int:
    """Bytes of the largest chunk that packed trees cut into slices; 0 if there is none."""
    experiment = effective(variant.experiment)
    specified = specification.incomplete(experiment, variant.astra_text)
    in_flight.marked(specified)
    if not planned.is_wanted(specified):
        return 0
    from syncline.core import _core

    with _explained(variant, description.text(specified)):
        try:
            return planned.largest(experiment, specified, _core.asked)
        except planned.TreesError as error:
            raise InputError([variant.problem(error.path, error.message, error.accepted)]) from None
