"""Between an experiment and the engine: the specification that goes in, the results that come out.

The only place that knows the engine's JSON (`crates/system/src/spec.rs` and `results.rs`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from syncline import binding, cancelling, demand, facts, in_flight, memory, recorded, refusals
from syncline.errors import CancelledError, EngineDefectError, InputError, Problem, SimulationFailedError, one_of
from syncline.fabric import topologies
from syncline.models import described as models
from syncline.preview import Preview
from syncline.schema import compute, effect, programs
from syncline.schema.algorithms import Algorithm
from syncline.schema.effect import effective
from syncline.schema.experiment import (
    DEFAULT_CHUNK,
    Collective,
    Experiment,
)
from syncline.schema.numbers import numbers
from syncline.schema.packed import PACKED
from syncline.schema.workloads import (
    DEFAULT_ELEMENT,
    AstraWorkload,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    ModelWorkload,
    PlacedJob,
    Training,
    kinds_of,
)
from syncline.strategies import training as divisions
from syncline.topology import Topology
from syncline.treegen import planned

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline import _core
    from syncline.schema.load import Variant

PS_PER_S: Final = 10**12
NO_LIMIT: Final = 2**64 - 1
"""Picoseconds and work that no run reaches."""
MOST_TEXT: Final = 2**31 - 1
"""Bytes of a column that Arrow's usual texts can hold."""
GLIMPSE: Final = 500_000
"""Work of a simulation by which chunks are found, in events: about a tenth of a second."""
LOOK_BYTES: Final = 10**9
"""Memory of a look at an algorithm that may be suggested."""

ALGORITHMS: Final = (("collective", "algorithm"), ("collective", "algorithms"))
"""The fields that name algorithms."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a simulation returned."""

    summary: dict[str, Any]
    """The headline numbers (`Summary` in `results.rs`)."""
    tables: dict[str, pa.Table]
    """The tables, by name; times are integer picoseconds."""
    cpu_time_s: float = 0.0
    """What the engine took of a processor."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a run ended that was given up if it took too long (`attempt.rs`)."""

    ending: Literal["complete", "late", "costly"]
    time_ps: int
    events: int
    work: int
    """Those events, and what the network did beyond them, in events."""
    delivered_bytes: int
    busiest_link_ps: int
    """The longest that a link was busy, or was asked to be where backends ignore contention."""


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
    from syncline import _core

    request = _request(variant)
    with _looked_at(variant, request, suggest=suggest):
        return Preview(**json.loads(_core.check(request)))


def prepare(variant: Variant, *, steady: bool = False) -> tuple[Preview, Prepared]:
    """What simulating a variant will be, and the variant as it has been set up for that. Raises as [`check`]."""
    binding.require()
    from syncline import _core

    request = _request(variant, steady=steady)
    with _looked_at(variant, request, suggest=True):
        simulation = _core.Prepared(request)
        return Preview(**json.loads(simulation.preview())), Prepared(request, simulation)


@contextmanager
def _looked_at(variant: Variant, request: str, *, suggest: bool) -> Iterator[None]:
    """Raises what the engine raises when it looks at a variant, in words of the file."""
    from syncline import _core

    try:
        yield
    except _core.SpecError as error:
        raise InputError(_problems(variant, error, suggest=suggest)) from None
    except BaseException as error:
        raise _defect(error, request) from None


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
    from syncline import _core

    request = _request(variant, steady=steady) if prepared is None else prepared.request
    monitor = cancelling.monitor(variant.cancel) if monitor is None else monitor
    began = time.thread_time()
    with _explained(variant, request):
        result = _core.run(request, monitor) if prepared is None else prepared.simulation.run(monitor)
    cpu_time_s = time.thread_time() - began
    summary = json.loads(result["summary"])
    if isinstance(variant.experiment.workload, JobsWorkload):
        summary |= {"jobs": _jobs(variant, summary, monitor), "steady": None}
        if len({job["iterations"] for job in summary["jobs"]}) > 1:
            summary["iterations"] = 1  # jobs have no iteration in common: the time is that until all are done
    tables = {name: table(name, t) for name, t in result["tables"].items()}
    return Result(summary, recorded.cut(tables, variant.experiment.output.trace_limit), cpu_time_s)


def _jobs(variant: Variant, summary: dict[str, Any], monitor: _core.Monitor) -> list[dict[str, Any]]:
    """How long each of several jobs takes, beside the others and alone: the iterations of its main streams."""
    from syncline import _core

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
    from syncline import _core

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
    from syncline import _core

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
    from syncline import _core

    request = _request(variant) if prepared is None else prepared.request
    monitor = cancelling.monitor(variant.cancel)
    with _explained(variant, request):
        if prepared is None:
            return Attempt(**json.loads(_core.attempt(request, most_ps, most_work, monitor)))
        return Attempt(**json.loads(prepared.simulation.attempt(most_ps, most_work, monitor)))


@contextmanager
def _explained(variant: Variant, request: str) -> Iterator[None]:
    """Raises what the engine raises, in words of the file."""
    from syncline import _core

    try:
        yield
    except _core.SpecError as error:
        raise InputError(_problems(variant, error)) from None
    except _core.SimulationError as error:
        raise SimulationFailedError(str(error)) from None
    except _core.CancelledError:
        raise CancelledError from None
    except BaseException as error:
        raise _defect(error, request) from None


def _request(variant: Variant, *, steady: bool = False) -> str:
    """What the engine is asked to simulate, and how much memory it may take."""
    too_large = divisions.too_large(variant.experiment)
    if too_large is not None:
        raise InputError([variant.problem(too_large.path, too_large.message, too_large.accepted)])
    try:
        specified = specification(variant.experiment, variant.astra_text)
    except demand.DemandError as error:
        raise InputError([variant.problem(error.path, error.message, error.accepted)]) from None
    specified["output"]["steady"] = steady and not isinstance(variant.experiment.workload, JobsWorkload)
    return json.dumps(specified | {"seed": variant.seed, "memory_limit_bytes": memory.limit(variant.memory_limit)})


def _defect(error: BaseException, request: str) -> BaseException:
    """A failure with what is worth a report, if the engine has panicked; any other error as it is."""
    if type(error).__name__ not in binding.PANICS:
        return error
    import tempfile

    message = f"the engine stopped at an error of its own, which is worth a report: {error}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="syncline-", suffix=".json", delete=False) as file:
            file.write(request)
        message += f"; what it was to simulate is in {file.name}"
    except OSError:
        pass  # the message is what matters
    return EngineDefectError(message)


def _problems(variant: Variant, error: ValueError, *, suggest: bool = False) -> Iterator[Problem]:
    """What the engine refuses, in words of the file; with `suggest`, with the algorithms that fit in place of one."""
    for refusal in refusals.read(error):
        planned = refusal.of_plan(variant)
        if planned is not None:
            yield planned
            continue
        of_graph = refusal.of_graph(variant)
        if of_graph is not None:
            yield of_graph
            continue
        path = refusal.path(variant.experiment)
        fit = _that_fit(variant, path) if suggest and path[:2] in ALGORITHMS else []
        yield refusal.problem(variant, one_of(fit) if fit else None)


def _that_fit(variant: Variant, path: tuple[str, ...]) -> list[str]:
    """The algorithms that the engine takes in the place of the one at `path`, and can look at without much memory."""
    from syncline import _core

    def is_taken(algorithm: str) -> bool:
        collective = variant.experiment.collective
        if path == ("collective", "algorithm"):
            update: dict[str, Any] = {"algorithm": algorithm}
        else:
            update = {"algorithms": collective.algorithms | {path[-1]: algorithm}}
        changed = variant.experiment.model_copy(update={"collective": collective.model_copy(update=update)})
        try:
            asked = specification(changed, variant.astra_text)
            _core.check(json.dumps(asked | {"memory_limit_bytes": min(LOOK_BYTES, memory.limit(variant.memory_limit))}))
        except (_core.SpecError, planned.TreesError):
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


def specification(experiment: Experiment, astra_text: str | None = None) -> dict[str, Any]:
    """The engine's description of an experiment: of what acts in it."""
    return described(effective(experiment), astra_text)


def described(experiment: Experiment, astra_text: str | None = None) -> dict[str, Any]:
    """The engine's description of all that an experiment says."""
    return _completed(experiment, _incomplete(experiment, astra_text))[0]


def usual_chunks(variant: Variant) -> list[tuple[str | None, in_flight.Usual]]:
    """What chunks are where the experiment does not say it, with the family that it is for, if there are any. Nothing
    is found as long as algorithms are to be chosen.
    """
    experiment = effective(variant.experiment)
    if experiment.has_open_algorithms or experiment.has_open_slices:
        return []
    specified = _incomplete(experiment, variant.astra_text)
    if not any(in_flight.MARK in section for section in demand.sections(specified)):
        return []
    try:
        specified, found = _completed(experiment, specified)
    except demand.DemandError:
        return []
    families = specified.get("families", ())
    return [(None if number is None else str(families[number]["name"]), usual) for number, usual in found]


def slow_links(variant: Variant) -> list[str]:
    """A sentence for everything that an experiment says of chunks which makes links look slower than they are.

    There is none as long as algorithms are to be chosen, on large machines, and where what it says was fitted: then
    links are as slow as was measured.
    """
    experiment = effective(variant.experiment)
    if experiment.has_open_algorithms or experiment.has_open_slices or not experiment.endpoint.has_usual_chunks:
        return []
    if experiment.topology.npus > in_flight.MOST_NPUS or _has_fitted_chunks(experiment):
        return []
    from syncline import _core

    try:
        specified = described(experiment, variant.astra_text)
        found = list(in_flight.few(specified, _core.asked, _glimpse))
    except (demand.DemandError, _core.SpecError):
        return []
    names = [str(family["name"]) for family in specified.get("families", ())]
    said = [str(few) if number is None else f"family {names[number]}: {few}" for number, few in found]
    return list(dict.fromkeys(said))


def _has_fitted_chunks(experiment: Experiment) -> bool:
    fitted = {
        path for path, of in experiment.calibration.items() if experiment.name in (of.variants or [experiment.name])
    }
    return not fitted.isdisjoint(f"collective.{name}" for name in ("chunk", "chunks", "inflight"))


def _completed(
    experiment: Experiment, specified: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[int | None, in_flight.Usual]]]:
    """The engine's description with what it takes the engine to find out; and what chunks are where nothing is said."""
    usual, packs, prices = in_flight.marked(specified), planned.is_wanted(specified), experiment.endpoint.is_priced
    found: list[tuple[int | None, in_flight.Usual]] = []
    if not usual and not packs and not prices:
        return specified, found
    from syncline import _core

    try:
        if packs:
            specified = planned.completed(experiment, specified, _core.asked)
        if prices:
            from syncline.software import pricing

            specified = pricing.completed(experiment, specified, _core.asked, _time)
        glimpse = _glimpse if experiment.topology.npus <= in_flight.MOST_NPUS else None
        found = list(in_flight.completed(specified, usual, _core.asked, glimpse))
    except _core.SpecError:
        pass  # which the run will be refused for, whatever is missing
    return specified, found


def _glimpse(request: str) -> tuple[int, int] | None:
    """Picoseconds of a described run and of its busiest link; nothing if it is costly or cannot be carried out."""
    from syncline import _core

    try:
        seen = Attempt(**json.loads(_core.attempt(request, NO_LIMIT, GLIMPSE, cancelling.monitor(None))))
    except (_core.SpecError, _core.SimulationError):
        return None
    except BaseException as error:
        raise _defect(error, request) from None
    return (seen.time_ps, seen.busiest_link_ps) if seen.ending == "complete" else None


def _time(request: str) -> int:
    """Picoseconds that a described run takes."""
    from syncline import _core

    return Attempt(**json.loads(_core.attempt(request, NO_LIMIT, NO_LIMIT, cancelling.monitor(None)))).time_ps


def trees(variant: Variant) -> list[planned.Shown]:
    """The trees of a run that packs some. Raises [`InputError`] where there are none."""
    experiment = effective(variant.experiment)
    specified = _incomplete(experiment, variant.astra_text)
    in_flight.marked(specified)
    if not planned.is_wanted(specified):
        return []
    from syncline import _core

    return list(planned.shown(experiment, specified, _core.asked))


def largest_sliced(variant: Variant) -> int:
    """Bytes of the largest chunk that packed trees cut into slices; 0 if there is none."""
    experiment = effective(variant.experiment)
    specified = _incomplete(experiment, variant.astra_text)
    in_flight.marked(specified)
    if not planned.is_wanted(specified):
        return 0
    from syncline import _core

    with _explained(variant, json.dumps(specified)):
        try:
            return planned.largest(experiment, specified, _core.asked)
        except planned.TreesError as error:
            raise InputError([variant.problem(error.path, error.message, error.accepted)]) from None


def _incomplete(experiment: Experiment, astra_text: str | None) -> dict[str, Any]:
    """The engine's description, without what it takes the engine to find out: the plans of trees that it asks for, what
    collectives cost, and what chunks are where nothing is said."""
    return {
        "fabric": _fabric(experiment),
        "groups": _groups(experiment),
        "fold": experiment.fold,
        "network": experiment.network.specification(),
        "endpoint": experiment.endpoint.specification(experiment.npu, experiment.transit),
        "collectives": _collectives(experiment, experiment.collective, kinds_of(experiment.workload)),
        **({"families": _families(experiment)} if experiment.is_graph else {}),
        **({"start": {"jitter_ps": experiment.network.jitter}} if experiment.network.jitter else {}),
        **_attributes(experiment),
        **({"changes": changes} if (changes := experiment.network.changes(experiment.topology.npus)) else {}),
        "job": _job(experiment, astra_text),
        "output": {
            "window_ps": experiment.output.window,
            "trace_npus": experiment.output.trace_npus,
            "trace_limit": experiment.output.trace_limit,
        },
    }


def compute_share(experiment: Experiment) -> tuple[int, int]:
    """SMs and bytes/s that compute has: what communication and embeddings in the background take, it does not have.

    Without overlap nothing runs at the same time, so each has everything. With dynamic contention each has, too,
    whatever runs alone, and the engine works out what it has beside others.
    """
    training = experiment.training
    sms, bandwidth = experiment.endpoint.left(experiment.npu, overlaps=training.overlap)
    if training.background_embedding and not experiment.shares and not experiment.is_graph:
        sms -= training.background_sms
        bandwidth -= training.background_memory_bandwidth
    return sms, bandwidth


def compute_model(experiment: Experiment) -> dict[str, Any]:
    """What the NPUs of an experiment compute its model with, as `models.times` takes it."""
    return _compute(experiment, *compute_share(experiment))


def _compute(experiment: Experiment, sms: int, bandwidth: int) -> dict[str, Any]:
    """What some of the SMs and of the memory bandwidth compute with."""
    element = getattr(experiment.workload, "element", DEFAULT_ELEMENT)
    precision = compute.type_of(experiment.precision, element)
    return compute.specification(experiment.npu, sms, bandwidth, experiment.training.compute_scale, precision)


def _fabric(experiment: Experiment) -> dict[str, Any]:
    topology, specification = experiment.topology, experiment.topology.specification()
    if isinstance(topology, Topology) and experiment.slow_links:
        specification["odd_links"] = [
            {
                "npu": link.npu,
                "dim": link.dim,
                "way": link.way,
                "parallel": link.parallel,
                "rate_bytes_per_s": link.rate,
                "latency_ps": topology.dims[link.dim].latency if link.latency is None else link.latency,
            }
            for link in experiment.slow_links
        ]
    return specification


def _attributes(experiment: Experiment) -> dict[str, Any]:
    """What single nodes have, if the network backend knows it."""
    attributes = experiment.topology.attributes()
    known = facts.engine().networks[experiment.network.backend].attributes if attributes else []
    taken = [attribute for attribute in attributes if attribute["name"] in known]
    return {"attributes": taken} if taken else {}


def _groups(experiment: Experiment) -> dict[str, Any] | None:
    """Who works together, and in which shape where the engine does not know it from the fabric."""
    if experiment.is_graph or isinstance(experiment.workload, JobsWorkload):
        return None  # they have groups of their own
    members, grid = experiment.members, experiment.grid
    shaped = len(grid) > 1
    if members is None:
        if isinstance(experiment.topology, Topology) or not shaped:
            return None
        members = (tuple(range(experiment.topology.npus)),)
    return {"members": [list(group) for group in members], "grid": grid if shaped else None}


def _families(experiment: Experiment) -> list[dict[str, Any]]:
    """The families of communicators of a graph, in the order in which its nodes number them."""
    if isinstance(experiment.workload, DividedWorkload):
        return _families_of_axes(experiment)
    assert isinstance(experiment.workload, GraphWorkload)
    file, npus = experiment.workload.file, experiment.topology.npus
    return [
        {
            "name": name,
            "members": _shaped(experiment, file.engine_members(name, npus)),
            "collectives": _collectives(experiment, _of_family(experiment.collective, family.collective), file.kinds),
            "priority": family.priority,
            "traffic_class": family.traffic_class,
        }
        for name, family in file.graph.families.items()
    ]


def _families_of_axes(experiment: Experiment) -> list[dict[str, Any]]:
    """The families of communicators along the axes of a division."""
    divided, served = divisions.divided(experiment), experiment.parallel.parameter_server != "none"
    found = []
    for name, members in divided.families.items():
        own: dict[str, Any] = {"algorithm": "direct"} if served and name == "data" else {}
        own |= next((keys for axis, keys in experiment.parallel.collectives.items() if axis == name), {})
        collective = _of_family(experiment.collective, own)
        collectives = _collectives(experiment, collective, divided.kinds)
        found.append({"name": name, "members": _shaped(experiment, members), "collectives": collectives})
    return found


def _shaped(experiment: Experiment, members: dict[str, Any]) -> dict[str, Any]:
    """The communicators of a family, in their shape where all have the same: a box of a product, or so many servers."""
    groups = members.get("groups")
    if groups is None or len({len(group) for group in groups}) != 1:
        return members
    grid = topologies.grid(experiment.topology, groups)
    return members | {"grid": grid} if len(grid) > 1 else members


def _of_family(usual: Collective, own: dict[str, Any]) -> Collective:
    """How the collectives of a family are carried out: as those of the experiment, but for what is its own."""
    read = Collective.model_validate(own)
    changes = {name: getattr(read, name) for name in read.model_fields_set}
    if "chunks" in changes:
        changes.setdefault("chunk", None)
    if "chunk" in changes:
        changes.setdefault("chunks", None)
    if "slice" in changes:
        changes.setdefault("slices", None)
    if "slices" in changes:
        changes.setdefault("slice", None)
    return usual.model_copy(update=changes)


def _collectives(experiment: Experiment, collective: Collective, kinds: Sequence[str]) -> dict[str, Any]:
    assert not experiment.has_open_algorithms, "auto is settled before a run"
    # The engine never takes the ring in place of packed trees, which come to it as plans.
    others = {"ring-unidirectional": "ring", PACKED: "ring"}
    endpoint = experiment.endpoint
    chunking: dict[str, Any] = {"by": "size", "bytes": collective.chunk or DEFAULT_CHUNK}
    cut = any(not programs.is_one_chunk(collective, kind) for kind in kinds)
    is_open = cut and endpoint.has_usual_chunks and in_flight.left_open(collective)
    if collective.chunks is not None:
        chunking = {"by": "count", "chunks": collective.chunks}
    elif collective.chunk is None and (least := experiment.endpoint.least_block(experiment.network)) is not None:
        chunking["least_block_bytes"] = least
    limit, posting = collective.inflight_per_dimension, experiment.network.posting
    plans = [plan.specification for plan in collective.plan]
    chunks_of = {kind: 1 for kind in kinds if programs.is_one_chunk(collective, kind)} | collective.chunks_of
    return {
        **planned.section(collective, kinds),
        **({in_flight.MARK: is_open} if is_open else {}),
        **({"plans": plans} if plans else {}),
        **({} if limit is None else {"inflight_per_dimension": limit}),
        **({"chunks_of": list(chunks_of.items())} if chunks_of else {}),
        **({} if collective.loops == 1 else {"loops": collective.loops}),
        **({} if posting == "rotated" else {"posting": posting}),
        "algorithm": others.get(collective.algorithm, collective.algorithm),
        "algorithms": [(kind, others.get(name, name)) for kind, name in collective.algorithms.items()],
        "per_dimension": collective.per_dimension,
        "slices": collective.slices if isinstance(collective.slices, int) else 0,
        "padding": collective.padding == "equal",
        "chunking": chunking,
        "inflight": collective.inflight,
        "scheduling": collective.scheduling,
        "priority": collective.priority,
        "lanes": experiment.lanes_of(collective),
        "element_bytes": experiment.workload.element,
    }


def _job(experiment: Experiment, astra_text: str | None) -> dict[str, Any]:
    workload = experiment.workload
    if isinstance(workload, CollectiveWorkload):
        kind, root = workload.collective, experiment.root
        beside = [
            {"milliwarps": round(1000 * load.warps), "memory_bytes_per_s": load.memory_bandwidth or 0}
            for load in workload.beside
            for _ in range(load.count)
        ]
        job = {"kind": "collective", "collective": kind, "bytes": workload.size, "root": root}
        return {**job, "beside": beside} if beside else job
    training = experiment.training
    if isinstance(workload, JobsWorkload):
        return {
            "kind": "jobs",
            "jobs": [_placed(experiment, job) for job in workload.jobs],
            "drain": experiment.tail == "drain",
            "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
        }
    if isinstance(workload, GraphWorkload | DividedWorkload):
        return {
            "kind": "graph",
            "graph": _graph(experiment),
            "iterations": experiment.iterations,
            "drain": experiment.tail == "drain",
            "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
            "compute": _compute(experiment, *compute_share(experiment)),
        }
    background = None
    if training.background_embedding:
        given = (training.background_sms, training.background_memory_bandwidth)
        background = _compute(experiment, *(compute_share(experiment) if experiment.shares else given))
    return {
        "kind": "training",
        "workload": _workload(workload, astra_text, _ranks(experiment)),
        "strategy": experiment.strategy,
        "iterations": experiment.iterations,
        "overlap": training.overlap,
        **(_gradients(training) if effect.has_gradients(experiment) else {}),
        "drain": experiment.tail == "drain",
        "update": training.update,
        "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
        "compute": _compute(experiment, *compute_share(experiment)),
        "background": background,
    }


def _graph(experiment: Experiment) -> dict[str, Any]:
    """The graphs of classes, as a file or the division of a model has them."""
    workload = experiment.workload
    if isinstance(workload, GraphWorkload):
        file, npus = workload.file, experiment.topology.npus
        costs = file.engine_costs()
        return {"classes": file.engine_classes(npus), **({"costs": costs} if costs else {})}
    return divisions.divided(experiment).engine_graph()


def _gradients(training: Training) -> dict[str, Any]:
    """Which gradients are all-reduced together, and what waits for all of them."""
    found: dict[str, Any] = {"barrier": True} if training.barrier else {}
    if training.bucket is not None:
        found["buckets"] = {"first_bytes": training.first_bucket or training.bucket, "bytes": training.bucket}
    return found


def _placed(experiment: Experiment, job: PlacedJob) -> dict[str, Any]:
    """A job among several."""
    training = experiment.training
    trained = {
        "kind": "training",
        "workload": _workload(job.workload, None),
        "strategy": "data-parallel",
        "iterations": job.iterations or experiment.iterations,
        "overlap": training.overlap,
        **_gradients(training),
        "drain": experiment.tail == "drain",
        "update": training.update,
        "compute": _compute(experiment, *compute_share(experiment)),
    }
    own = _of_family(experiment.collective, job.collective)
    collectives = _collectives(experiment, own, kinds_of(job.workload))
    npus = numbers(job.npus, experiment.topology.npus)
    grid = topologies.grid(experiment.topology, (tuple(npus),))
    return {
        "name": job.name,
        "npus": npus,
        "grid": grid if len(grid) > 1 else None,
        "job": trained,
        "collectives": collectives | {"element_bytes": job.workload.element},
    }


def _ranks(experiment: Experiment) -> int:
    """NPUs that train together."""
    return experiment.topology.npus if experiment.members is None else len(experiment.members[0])


def _workload(workload: ModelWorkload | AstraWorkload, astra_text: str | None, npus: int = 1) -> dict[str, Any]:
    if isinstance(workload, ModelWorkload):
        model, element, kernels = workload.evaluated, workload.element, workload.kernels
        if workload.file.is_distributed:
            return models.recommender(model, npus, element, kernels)
        return models.chain(model, element, kernels)
    return {"source": "astra-text", "text": astra_text or ""}
