"""What fields mean together: rules that no field can check on its own.

The rules look at whichever sections are legal by themselves, so that a contradiction is reported beside a
typing error elsewhere in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from syncline.base.errors import InputError, one_of
from syncline.base.quantities import LARGEST, RATE, SIZE, TIME
from syncline.base.section import Violation
from syncline.core import facts
from syncline.experiment import effect
from syncline.experiment.programs import COMPOSITIONS
from syncline.fabric import topologies
from syncline.fabric.allocation import AllocationError
from syncline.fabric.gpus import GPUS, NARROW, WIDTHS
from syncline.fabric.groups import GroupError, Members
from syncline.fabric.numbers import NUMBERS_ACCEPTED, numbers
from syncline.fabric.topologies import Fabric, Wired
from syncline.fabric.topology import Topology
from syncline.kernels import calibrated
from syncline.models import described as models
from syncline.models.evaluate import ParameterError
from syncline.nccl import derived
from syncline.nccl.platform import NotPricedError
from syncline.sections import wording
from syncline.sections.collective import DEFAULT_CHUNK, Collective, of_slices, sliced_once
from syncline.sections.compute import TABLE_ACCEPTED, type_of
from syncline.sections.data_types import DataTypes
from syncline.sections.endpoints import ENDPOINTS, USUAL, EndpointSection, Surroundings
from syncline.sections.experiment import Calibration, Experiment, Output, SlowLink
from syncline.sections.networks import NetworkSection
from syncline.sections.npu import Npu
from syncline.sections.packed import MIAD, PACKED, PLANNED
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import (
    DEFAULT_ELEMENT,
    OF_TABLES,
    ROOTED,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    ModelWorkload,
    Training,
    is_distributed,
    kinds_of,
    models_of,
)
from syncline.strategies import training as divisions

PS_PER_S: Final = 10**12
GRAPH: Final = "workload.graph, workload.global_batch or workload.jobs"
U32_MAX: Final = 2**32 - 1
NEEDED_FIGURES: Final = ("peak", "memory_bandwidth")
"""What a GPU that is not known by name has to be described by, where it trains."""
MAX_CHUNKS: Final = 2**24
MAX_SECONDS: Final = 100_000
MAX_WINDOWS: Final = 10_000_000
MIN_WINDOW: Final = 1_000
U32_FIELDS: Final = {
    "network": ("packet",),
    "workload": ("element",),
    "endpoint": ("port_width", "message"),
    "npu": ("sm_read",),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The sections of an experiment that are legal by themselves."""

    topology: Fabric | None
    gpus: str | None
    groups: str | None
    slow_links: list[SlowLink] | None
    npu: Npu | None
    network: NetworkSection | None
    workload: Any
    parallel: Parallel | None
    training: Training | None
    collective: Collective | None
    endpoint: EndpointSection | None
    calibration: dict[str, Calibration] | None
    output: Output | None


def violations(parts: Parts) -> Iterator[Violation]:
    """Every rule that the sections break."""
    yield from _who(parts)
    yield from _graph(parts)
    yield from _root(parts)
    yield from _per_dimension(parts)
    yield from _strategy(parts)
    yield from _divided(parts)
    yield from _tables(parts)
    yield from _background(parts)
    yield from _precision(parts)
    yield from _measured(parts)
    yield from _of_gpu(parts)
    yield from _attention(parts)
    yield from _kinds(parts)
    yield from _plans(parts)
    yield from _number_widths(parts)
    yield from _endpoint(parts)
    yield from _beside(parts)
    yield from _sm_rate(parts)
    yield from _network(parts)
    yield from _elements(parts)
    yield from _chunks(parts)
    yield from _simulated_time(parts)
    yield from _in_switch(parts)
    yield from _priced(parts)
    yield from _packed_trees(parts)
    yield from _slices(parts)
    yield from _trace(parts)
    yield from _slow(parts)
    yield from _calibration(parts)


def of_whole(experiment: Experiment) -> Iterator[Violation]:
    """Every rule that an experiment breaks whose sections are legal: the GPU of a machine that trains is known."""
    topology, npu = experiment.topology, experiment.npu
    known = topology.graph.hardware if isinstance(topology, Wired) else None
    if known is None or npu.gpu is not None or not effect.computes(experiment):
        return
    figures = [name for name in NEEDED_FIGURES if effect.broken(experiment, ("npu", name)) is None]
    if npu.model_fields_set.issuperset(figures):
        return
    message = f"which GPU trains does not follow from {topology}: {known.because}"
    instead = " and ".join(f"npu.{name}" for name in figures)
    if known.candidates:
        accepted = f"{one_of(known.candidates)}; or {instead} of another GPU"
    else:
        accepted = f"{instead} of the GPU; or the GPU that is nearest to it of {one_of(GPUS)}"
    yield Violation(("npu", "gpu"), message, accepted)


def _members(parts: Parts) -> tuple[bool, Members | None]:
    """Whether it is known who takes part, and the groups; None for all NPUs as one."""
    if parts.topology is None or next(_who(parts), None) is not None:
        return False, None
    return True, topologies.members(parts.topology, parts.gpus, parts.groups)


def _who(parts: Parts) -> Iterator[Violation]:
    """Which NPUs take part, and in which groups."""
    if parts.gpus is not None and parts.groups is not None:
        yield Violation(("groups",), "gpus and groups exclude each other", "groups only, with the GPUs that take part")
    elif parts.topology is not None and parts.gpus is not None and not isinstance(parts.topology, Wired):
        message = "NPUs of a topology string that do not take part still forward, so none can be left out"
        yield Violation(
            ("gpus",), message, "a machine, a network of switches or a topology file; or groups instead of gpus"
        )
    elif parts.topology is not None:
        try:
            topologies.members(parts.topology, parts.gpus, parts.groups)
        except AllocationError as error:
            yield Violation(("gpus",), error.message, error.accepted)
        except GroupError as error:
            yield Violation(("groups",), error.message, error.accepted)


def _of_all(workload: GraphWorkload | DividedWorkload | JobsWorkload, name: str) -> tuple[str, str]:
    """Why a workload whose parts have NPUs of their own takes no `gpus` and no `groups`, and what to do instead."""
    if isinstance(workload, DividedWorkload):
        message = "parallel says which GPUs of a divided training (workload.global_batch) work together"
        return message, f"leave {name} out; gpus says which of a machine's train"
    if isinstance(workload, JobsWorkload):
        return "each of workload.jobs says which NPUs it takes", f"leave {name} out, and write npus of each job"
    return (
        "a graph says itself who communicates with whom",
        f"leave {name} out: its classes and families say it",
    )


def _graph(parts: Parts) -> Iterator[Violation]:
    """What a graph says itself."""
    if isinstance(parts.workload, JobsWorkload):
        yield from _jobs(parts, parts.workload)
    if not isinstance(parts.workload, GraphWorkload | DividedWorkload | JobsWorkload):
        return
    for name, given in (("gpus", parts.gpus), ("groups", parts.groups)):
        if given is not None and not (name == "gpus" and isinstance(parts.workload, DividedWorkload)):
            yield Violation((name,), *_of_all(parts.workload, name))
    collective = parts.collective
    if collective is not None and collective.plan:
        yield Violation(("collective", "plan"), "families of communicators have no plans", f"none, with {GRAPH}")
    if collective is not None and "auto" in (collective.algorithm, *collective.algorithms.values()):
        yield Violation(
            ("collective", "algorithm"), "algorithms of families are not chosen", "the name of an algorithm"
        )


def _jobs(parts: Parts, workload: JobsWorkload) -> Iterator[Violation]:
    """Which NPUs jobs have, and how they train."""
    seen: set[int] = set()
    names: set[str] = set()
    for number, job in enumerate(workload.jobs):
        path = ("workload", "jobs", str(number))
        if job.name in names:
            yield Violation((*path, "name"), "another job has this name", "a name of its own")
        names.add(job.name)
        if is_distributed(job.workload):
            yield Violation((*path, "workload", "model"), "jobs are data-parallel", "a model without embedding tables")
        try:
            own = Collective.model_validate(job.collective)
        except ValidationError as error:
            yield from wording.violations(error, (*path, "collective"))
        else:
            yield from of_slices(own, path)
        first = workload.jobs[0].workload
        if parts.npu is not None and parts.npu.gpu is not None:
            for name in ("precision", "element"):
                if getattr(job.workload, name) != getattr(first, name):
                    message = "the peak rate of the NPUs is that for one data type, which the first job says"
                    yield Violation((*path, "workload", name), message, f"{getattr(first, name) or 'none'}, as there")
                    break
        if parts.topology is None:
            continue
        try:
            npus = numbers(job.npus, parts.topology.npus)
        except AllocationError as error:
            yield Violation((*path, "npus"), str(error), NUMBERS_ACCEPTED)
            continue
        if both := seen.intersection(npus):
            yield Violation((*path, "npus"), f"another job has NPU {min(both)}", "NPUs of no other job")
        seen.update(npus)
    if parts.training is not None and parts.training.background_embedding:
        yield Violation(("training", "background_embedding"), "jobs are data-parallel", "false")


def _root(parts: Parts) -> Iterator[Violation]:
    workload = parts.workload
    if not isinstance(workload, CollectiveWorkload) or workload.root is None:
        return
    known, members = _members(parts)
    for plan in parts.collective.plan if parts.collective is not None else ():
        if plan.kind == workload.collective and plan.root not in (None, workload.root):
            message = f"the root is rank {workload.root}, but that of the plan {plan.file} is rank {plan.root}"
            yield Violation(("workload", "root"), message, f"{plan.root}, or no value")
    if workload.collective in ROOTED and known and parts.topology is not None:
        ranks = parts.topology.npus if members is None else len(members[0])
        if workload.root >= ranks:
            message = f"there is no rank {workload.root}: {'a group' if members else 'the topology'} has {ranks} ranks"
            yield Violation(("workload", "root"), message, f"0 to {ranks - 1}")


def _per_dimension(parts: Parts) -> Iterator[Violation]:
    collective = parts.collective
    if collective is None or collective.per_dimension is None:
        return
    path, given = ("collective", "per_dimension"), len(collective.per_dimension)
    if collective.algorithm == "auto":
        message = "auto chooses the algorithm of each dimension itself"
        yield Violation(path, message, "no per_dimension, or an algorithm other than auto")
        return
    if collective.algorithm not in COMPOSITIONS:
        return
    known, members = _members(parts)
    dims = len(topologies.grid(parts.topology, members)) if known and parts.topology is not None else given
    if given != dims:
        what = "1 dimension" if dims == 1 else f"{dims} dimensions"
        named = "there is 1 algorithm" if given == 1 else f"there are {given} algorithms"
        yield Violation(path, f"{named} for {what}", "one algorithm for each dimension")


def _strategy(parts: Parts) -> Iterator[Violation]:
    """Models are distributed as they can be."""
    workload, training = parts.workload, parts.training
    model = workload.model if isinstance(workload, ModelWorkload) else None
    if training is None or workload is None or isinstance(workload, DividedWorkload):
        return
    needed = "hybrid" if is_distributed(workload) else "data-parallel"
    if training.strategy is not None and training.strategy != needed and not isinstance(workload, CollectiveWorkload):
        why = "no NPU holds all of its tables" if needed == "hybrid" else "it has no embedding tables to distribute"
        yield Violation(("training", "strategy"), f"{model or 'the model'} cannot be trained like this: {why}", needed)


def _divided(parts: Parts) -> Iterator[Violation]:
    """A model that is divided among all NPUs that take part can be."""
    workload, parallel, training = parts.workload, parts.parallel, parts.training
    if not isinstance(workload, DividedWorkload) or parallel is None:
        return
    yield from divisions.broken_collectives(parallel.collectives)
    known, members = _members(parts)
    if training is None or parts.topology is None or not known or parts.groups is not None:
        return
    yield from divisions.Request.of(workload, parallel, training, parts.topology, members).violations()


def _tables(parts: Parts) -> Iterator[Violation]:
    """Embedding tables are divided evenly."""
    known, members = _members(parts)
    workload = parts.workload
    if not known or parts.topology is None or not isinstance(workload, ModelWorkload) or not is_distributed(workload):
        return
    ranks = parts.topology.npus if members is None else len(members[0])
    try:
        tables = models.tables(workload.evaluated)
    except models.NotARecommenderError as error:
        yield Violation(("workload", "model"), str(error), OF_TABLES)
        return
    except (ParameterError, InputError):
        return  # which is said of the model
    if tables.divided(ranks) is None:
        message = f"the {tables.number} embedding tables cannot be divided evenly among {ranks} NPUs"
        path = ("topology",) if members is None else ("gpus",) if parts.gpus is not None else ("groups",)
        yield Violation(path, message, f"{one_of(str(npus) for npus in tables.accepted())} NPUs")


def _background(parts: Parts) -> Iterator[Violation]:
    """Embeddings in the background need a model with tables, overlap, and resources that compute can spare."""
    training, npu = parts.training, parts.npu
    if training is None or not training.background_embedding or parts.workload is None:
        return
    path = ("training", "background_embedding")
    if not is_distributed(parts.workload):
        yield Violation(path, "there are no embedding tables", f"false, or {OF_TABLES}")
    elif not training.overlap:
        yield Violation(
            path,
            "training.overlap is false, so nothing runs beside the training loop",
            "false, or training.overlap true",
        )
    elif npu is not None and not _shares(parts):
        sms, bandwidth = (parts.endpoint or USUAL).left(npu, overlaps=True)
        if training.background_sms >= sms:
            message = "nothing would be left for compute beside it"
            yield Violation(("training", "background_sms"), message, f"less than the {sms} SMs that there are")
        if training.background_memory_bandwidth >= bandwidth:
            message = "nothing would be left for compute beside it"
            most = f"less than the {RATE.format(max(bandwidth, 0))} that there are"
            yield Violation(("training", "background_memory_bandwidth"), message, most)


def _precision(parts: Parts) -> Iterator[Violation]:
    """A data type decides on the peak of a GPU that has units for it, or at least on the width of elements."""
    npu, workload = parts.npu, parts.workload
    given = isinstance(workload, ModelWorkload | DividedWorkload) and "precision" in workload.model_fields_set
    if npu is None or not given:
        return
    path, precision = ("workload", "precision"), workload.compute_type
    if isinstance(workload, DividedWorkload) and isinstance(workload.precision, DataTypes):
        yield from _types(npu, workload)
        return
    if precision is None:
        return
    if npu.is_peak_given:
        known = npu.gpu is not None and npu.peak == GPUS[npu.gpu].peaks.get(precision)
        known = known or precision in NARROW  # which decides on the factors of linear layers, too
        if not known and "element" in workload.model_fields_set and workload.element != WIDTHS[precision]:
            message = "npu and workload.element state all that the precision would decide"
            yield Violation(path, message, "none; or no npu.peak, no array, or no workload.element")
    elif npu.compute.kind == "table":
        return  # the table says which data types it has
    elif npu.gpu is None:
        if isinstance(parts.topology, Wired) and parts.topology.graph.hardware is not None:
            return  # the GPU is asked for
        message = f"the {npu.title} has one peak rate for all data types"
        yield Violation(path, message, "none; or a machine as topology, npu.gpu, or npu.peak with it")
    elif precision not in GPUS[npu.gpu].peaks:
        message = f"the {npu.title} has no units for this data type"
        yield Violation(path, message, one_of(GPUS[npu.gpu].peaks))


def _of_gpu(parts: Parts) -> Iterator[Violation]:
    """The compute model of a GPU needs one of which constants are known."""
    npu = parts.npu
    if npu is None or npu.compute.kind != "gpu" or (npu.gpu is not None and calibrated.is_known(npu.gpu)):
        return
    who = "this NPU is no GPU that is known by name" if npu.gpu is None else f"of the {npu.title} no kernels are known"
    accepted = f"another kind, or a machine or an npu.gpu among {one_of([*calibrated.CALIBRATED, *calibrated.SCALED])}"
    yield Violation(("npu", "compute", "kind"), who, accepted)


def _attention(parts: Parts) -> Iterator[Violation]:
    """The library that computes attention runs on the GPU, and does what the model's parameters say."""
    npu, training, workload = parts.npu, parts.training, parts.workload
    if training is None or training.attention is None:
        return
    path, library = ("training", "attention"), training.attention
    known = () if npu is None or npu.gpu is None else calibrated.LIBRARIES.get(npu.gpu, ())
    if npu is not None and known and library not in known:
        yield Violation(path, f"there is no {library} for the {npu.title}", one_of(known))
    for model in models_of(workload) if workload is not None else []:
        stated = model.parameters.get("fused")
        if stated is not None and bool(stated) == (library == "unfused"):
            message = f"workload.parameters.fused is {stated}"
            yield Violation(path, message, "one of the two, or both to the same effect")


def _types(npu: Npu, workload: DividedWorkload) -> Iterator[Violation]:
    """Data types of all that is kept decide on widths, too, so that they mean something on any NPU."""
    if workload.element != workload.widths.compute:
        message = "workload.precision says of weights, compute, gradients and states in which types they are"
        yield Violation(("workload", "element"), message, f"no value, or {SIZE.format(workload.widths.compute)}")
    precision, gpu = workload.compute_type, npu.gpu
    if gpu is not None and not npu.is_peak_given and npu.compute.kind != "table" and precision not in GPUS[gpu].peaks:
        message = f"the {npu.title} has no units for this data type"
        yield Violation(("workload", "precision", "compute"), message, one_of(GPUS[gpu].peaks))


def _measured(parts: Parts) -> Iterator[Violation]:
    """Times from a table need one, with products of the data type of the workload."""
    if parts.npu is None or parts.npu.compute.kind != "table":
        return
    path, table, workload = ("npu", "compute", "table"), parts.npu.compute.measured, parts.workload
    if table is None:
        yield Violation(path, "the compute model table needs this", TABLE_ACCEPTED)
    elif workload is not None:
        precision = type_of(getattr(workload, "compute_type", None), getattr(workload, "element", DEFAULT_ELEMENT))
        if table.type_for(precision) is None:
            message = f"the table has no products in {precision}"
            yield Violation(
                path, message, f"a table with some, or in workload.precision what this one has: {one_of(table.types())}"
            )


def _kinds(parts: Parts) -> Iterator[Violation]:
    """Kinds of collectives have algorithms that one kind can have, and priorities are of kinds that the run has."""
    collective, workload = parts.collective, parts.workload
    if collective is None or workload is None:
        return
    kinds = kinds_of(workload)
    for kind, algorithm in collective.algorithms.items():
        if kind in kinds and algorithm == "ring-unidirectional":
            message = "ring-unidirectional sets the lanes of all kinds, so one kind cannot have it alone"
            yield Violation(("collective", "algorithms", kind), message, "ring, with collective.lanes one")
    for index, kind in enumerate(collective.priority):
        if kind not in kinds or kind in collective.priority[:index]:
            message = "the run has no collective of this kind" if kind not in kinds else "this is listed twice"
            yield Violation(("collective", "priority", str(index)), message, one_of(kinds))


def _plans(parts: Parts) -> Iterator[Violation]:
    """Plans are for collectives that the run has, at most one for a kind, and have no switches that are not there."""
    collective, endpoint = parts.collective, parts.endpoint
    if collective is None:
        return
    several = len(collective.plan) > 1
    first: dict[str, str] = {}
    for index, plan in enumerate(collective.plan):
        path = ("collective", "plan", *([str(index)] if several else []))
        if parts.workload is not None and plan.kind not in (kinds := kinds_of(parts.workload)):
            message = f"{plan.file} is a plan for {plan.kind}, of which the run has none"
            yield Violation(path, message, f"plans for {one_of(kinds)}")
        elif plan.kind in first:
            message = f"{plan.file} and {first[plan.kind]} are both plans for {plan.kind}"
            yield Violation(path, message, "one plan for each kind of collectives")
        elif endpoint is not None and not endpoint.adds_in_switches and any(line.switch for line in plan.lines):
            adding = one_of(name for name, section in ENDPOINTS.items() if section.adds_in_switches)
            message = f"switches reduce in {plan.file}, and the endpoint {endpoint.kind} has none that do"
            yield Violation(path, message, f"another plan, or the endpoint {adding}")
        first.setdefault(plan.kind, plan.file)


def _number_widths(parts: Parts) -> Iterator[Violation]:
    for section, names in U32_FIELDS.items():
        for name in names:
            value = getattr(getattr(parts, section), name, None)
            if value is not None and value > U32_MAX:
                yield Violation((section, name), "this is too large", f"at most {U32_MAX}B")


def _endpoint(parts: Parts) -> Iterator[Violation]:
    """What an endpoint itself finds wrong with its fields, beside others."""
    if parts.endpoint is None:
        return
    training, workload = parts.training or Training(), parts.workload
    computes = workload is not None and not isinstance(workload, CollectiveWorkload)
    element = None if workload is None else workload.element
    yield from parts.endpoint.faults(Surroundings(parts.npu, parts.network, element, computes and training.overlap))


def _shares(parts: Parts) -> bool:
    """Whether compute and communication share the NPU while both run."""
    return parts.endpoint is not None and parts.endpoint.shares


def _beside(parts: Parts) -> Iterator[Violation]:
    """Loads run where there is something to share, and want no more of it than there is."""
    workload, endpoint, npu = parts.workload, parts.endpoint, parts.npu
    if not isinstance(workload, CollectiveWorkload) or not workload.beside or endpoint is None:
        return
    if npu is None or not _shares(parts):
        return
    memory = endpoint.left(npu, overlaps=False).memory_bandwidth
    for index, load in enumerate(workload.beside):
        if (load.memory_bandwidth or 0) > memory:
            path = ("workload", "beside", str(index), "memory_bandwidth")
            yield Violation(
                path, "this is more than the memory bandwidth that is shared", f"at most {RATE.format(memory)}"
            )


def _sm_rate(parts: Parts) -> Iterator[Violation]:
    npu = parts.npu
    if npu is not None and npu.sms * npu.sm_read * npu.clock > LARGEST:
        yield Violation(("npu", "clock"), "sms x sm_read x clock is too large", f"at most {LARGEST}B/s in all")


def _network(parts: Parts) -> Iterator[Violation]:
    if parts.network is not None:
        yield from parts.network.violations()


def _elements(parts: Parts) -> Iterator[Violation]:
    if isinstance(parts.workload, ModelWorkload) and parts.workload.element not in (
        widths := facts.constants("element_bytes")
    ):
        accepted = one_of(SIZE.format(width) for width in widths)
        yield Violation(("workload", "element"), "there is no number format of this size", accepted)


def _chunks(parts: Parts) -> Iterator[Violation]:
    collective, workload = parts.collective, parts.workload
    if collective is None or workload is None or collective.chunks is not None:
        return
    chunk = collective.chunk or DEFAULT_CHUNK
    if chunk < workload.element:
        yield Violation(
            ("collective", "chunk"),
            "a chunk is smaller than an element",
            f"at least {SIZE.format(workload.element)}, which is workload.element",
        )
    elif isinstance(workload, CollectiveWorkload) and workload.size > chunk * MAX_CHUNKS:
        yield Violation(("collective", "chunk"), "this makes too many chunks", f"at most {MAX_CHUNKS} chunks")


def _simulated_time(parts: Parts) -> Iterator[Violation]:
    """What the engine's 64-bit counters and its windows hold, with room to spare."""
    topology, workload = parts.topology, parts.workload
    known, members = _members(parts)
    if topology is None or workload is None or not known:
        return
    least = topology.diameter / PS_PER_S if members is None else 0.0
    field: tuple[str, ...] = ("topology",)
    if isinstance(workload, CollectiveWorkload):
        ranks, many = (len(members[0]), len(members)) if members else (topology.npus, 1)
        if 2 * workload.size * ranks * many > LARGEST:
            most = SIZE.format(LARGEST // (2 * ranks * many))
            yield Violation(("workload", "size"), "all NPUs together send more than the engine counts", f"up to {most}")
        least, field = _least_s(workload, topology, ranks), ("workload", "size")
    if least > MAX_SECONDS:
        message = f"this takes {least:.3g} s or more of simulated time"
        yield Violation(field, message, f"at most {MAX_SECONDS} s of simulated time")
    elif (window := _window(parts)) is not None and least * PS_PER_S > MAX_WINDOWS * window:
        message = f"the run takes {least:.3g} s or more: too many windows of this length"
        yield Violation(("output", "window"), message, f"up to {MAX_WINDOWS} windows")


def _window(parts: Parts) -> int | None:
    """Picoseconds of a window, if anything is said of them."""
    return None if parts.output is None else parts.output.window


def _least_s(workload: CollectiveWorkload, topology: Fabric, ranks: int) -> float:
    """Seconds that a collective takes at least: some NPU sends or receives all but its own part of the vector, of an
    all-reduce twice, over all its links. The engine knows better bounds; this one only tells how large numbers get.
    """
    passes = 2 if workload.collective == "all-reduce" else 1
    return passes * (ranks - 1) * workload.size / (ranks * topology.fastest) if ranks > 1 and topology.fastest else 0.0


def _packed_trees(parts: Parts) -> Iterator[Violation]:
    """Trees are packed on the links of machines, and carry out some kinds of collectives."""
    collective, workload = parts.collective, parts.workload
    if collective is None or workload is None:
        return
    kinds = kinds_of(workload)
    own = [str(kind) for kind in collective.algorithms]
    named: dict[str, tuple[str, ...]] = {}
    for kind in {*kinds, *own} - {plan.kind for plan in collective.plan}:
        if collective.algorithm_of(kind) == PACKED:
            named[kind] = ("algorithms", kind) if kind in own else ("algorithm",)
    for kind, path in sorted(named.items()):
        if kind in kinds and kind not in PLANNED:
            message = f"no trees carry out {kind}"
            beside = "" if kind in own or len(kinds) == 1 else f", with collective.algorithms.{kind} beside it"
            yield Violation(("collective", *path), message, f"packed-trees for {one_of(PLANNED)}{beside}")
    if named and parts.topology is not None and not isinstance(parts.topology, Wired):
        path = min(named.values())
        message = "trees are packed on a machine, and this topology has no links by name"
        yield Violation(("collective", *path), message, "a machine, a cluster or a topology file as topology")


def _slices(parts: Parts) -> Iterator[Violation]:
    """How packed trees are cut into slices."""
    collective, workload = parts.collective, parts.workload
    if collective is None or workload is None:
        return
    yield from sliced_once(collective, ("collective",))
    if collective.slices != MIAD:
        return
    if isinstance(workload, JobsWorkload):
        message = "the slices of several jobs are not found together, since one may be slower where another is faster"
        yield Violation(("collective", "slices"), message, "auto, a number, or slice in place of it")
    elif not any(collective.algorithm_of(kind) == PACKED for kind in kinds_of(workload)):
        message = "no trees are packed, whose slices could be found from iteration to iteration"
        yield Violation(("collective", "slices"), message, "algorithm packed-trees; or auto or a number")


def _in_switch(parts: Parts) -> Iterator[Violation]:
    """Switches add with some endpoints only."""
    endpoint, collective = parts.endpoint, parts.collective
    if endpoint is None or endpoint.adds_in_switches or collective is None:
        return
    algorithms: list[tuple[tuple[str, ...], str]] = [(("algorithm",), collective.algorithm)]
    algorithms += [(("algorithms", kind), name) for kind, name in collective.algorithms.items()]
    algorithms += [(("per_dimension", str(i)), name) for i, name in enumerate(collective.per_dimension or [])]
    adding = one_of(name for name, section in ENDPOINTS.items() if section.adds_in_switches)
    for path, name in algorithms:
        if name == "in-switch":
            message = f"the endpoint {endpoint.kind} has no switches that reduce"
            yield Violation(("collective", *path), message, f"another algorithm, or the endpoint {adding}")


def _priced(parts: Parts) -> Iterator[Violation]:
    """The model of software knows machines, the share of their links that is reached, and what NCCL chooses."""
    endpoint, topology, collective = parts.endpoint, parts.topology, parts.collective
    if endpoint is None or not endpoint.is_priced:
        return
    if topology is not None and parts.npu is not None:
        try:
            derived.check(topology, parts.npu.gpu)
        except NotPricedError as error:
            yield Violation(error.path, error.message, error.accepted)
    if collective is not None:
        named = [("algorithm", collective.algorithm)]
        named += [(f"algorithms.{kind}", name) for kind, name in collective.algorithms.items()]
        for path, name in named:
            if name == "auto":
                message = f"with the endpoint {endpoint.kind}, a collective takes as long whatever carries it out"
                yield Violation(("collective", *path.split(".")), message, "hierarchical-optimal, or another by name")


def _trace(parts: Parts) -> Iterator[Violation]:
    if (window := _window(parts)) is not None and window < MIN_WINDOW:
        message = "this makes more windows than can be shown"
        yield Violation(("output", "window"), message, f"at least {TIME.format(MIN_WINDOW)}")
    if parts.output is None or parts.topology is None:
        return
    npus = parts.topology.npus
    for index, npu in enumerate(parts.output.trace_npus):
        if npu >= npus:
            message = f"there is no NPU {npu}: the topology has {npus} NPUs"
            yield Violation(("output", "trace_npus", str(index)), message, f"0 to {npus - 1}")


def _slow(parts: Parts) -> Iterator[Violation]:
    """Slow links and stragglers are those of the fabric."""
    topology = parts.topology
    if topology is None:
        return
    named: dict[tuple[str, ...], list[int]] = {
        ("slow_links",): [link.npu for link in parts.slow_links or []],
        ("training", "stragglers"): [s.npu for s in (parts.training or Training()).stragglers],
    }
    for path, npus in named.items():
        for index, npu in enumerate(npus):
            if npu >= topology.npus:
                message = f"there is no NPU {npu}: the topology has {topology.npus} NPUs"
                yield Violation((*path, str(index), "npu"), message, f"0 to {topology.npus - 1}")
    for path, npu in parts.network.named_npus() if parts.network is not None else ():
        if npu >= topology.npus:
            message = f"there is no NPU {npu}: the topology has {topology.npus} NPUs"
            yield Violation(("network", *path), message, f"npu 0 to npu {topology.npus - 1}")
    if parts.slow_links and not isinstance(topology, Topology):
        message = "slow_links name dimensions, which only products have"
        yield Violation(("slow_links",), message, "no slow_links, or a topology string")
    elif isinstance(topology, Topology):
        dims = len(topology.dims)
        for index, link in enumerate(parts.slow_links or []):
            if link.dim >= dims:
                message = f"there is no dimension {link.dim}: the topology has {dims} dimensions"
                yield Violation(("slow_links", str(index), "dim"), message, f"0 to {dims - 1}")


def _calibration(parts: Parts) -> Iterator[Violation]:
    for path in parts.calibration or {}:
        if not is_field(path):
            yield Violation(
                ("calibration", path), "this is not the path of a field", "a path such as training.compute_scale"
            )


@cache
def _schema() -> dict[str, Any]:
    return Experiment.model_json_schema()


def is_field(path: str) -> bool:
    """Whether a dotted path names a field of an experiment, in one of its forms."""
    section, *names = path.split(".")
    schema = _schema()
    if section not in schema["properties"] or section in ("name", "calibration"):
        return False
    here = [schema["properties"][section]]
    for name in names:
        models = [body for model, body in schema["$defs"].items() if f"/{model}'" in str(here)]
        here = [body["properties"][name] for body in models if name in body["properties"]]
        if not here:
            return False
    return True
