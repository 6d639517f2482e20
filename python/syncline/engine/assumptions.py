"""What was filled in: every field that was left to its default, and every constant that was fitted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Mapping as Mappable
from math import lcm
from typing import Any

from pydantic import BaseModel

from syncline.base.document import Mapping, Scalar
from syncline.base.quantities import SIZE
from syncline.core import facts
from syncline.engine import completing, pricing
from syncline.experiment import effect, programs
from syncline.experiment.load import Variant
from syncline.fabric.gpus import GPUS, NARROW
from syncline.fabric.topologies import Fabric, Wired
from syncline.kernels import calibrated
from syncline.sections.collective import DEFAULT_CHUNK, EXCHANGE, Collective
from syncline.sections.data_types import DataTypes
from syncline.sections.endpoints import Buses, EndpointSection
from syncline.sections.experiment import Experiment
from syncline.sections.networks.base import NetworkSection
from syncline.sections.npu import FIGURES
from syncline.sections.packed import PACKED, Trees
from syncline.sections.parallel import Optimiser, Overlap
from syncline.sections.workloads import (
    DEFAULT_ELEMENT,
    ROOTED,
    CollectiveWorkload,
    DividedWorkload,
    ModelWorkload,
    Training,
    models_of,
)

UNSAID = frozenset({"name", "description", "calibration", "output"})
"""Sections whose defaults change no result."""
UNNAMED = frozenset(
    {"beside", "root", "per_dimension", "priority", "compute", "strategy", "sequence", "transit"}
    | {"plan", "gpu", "memory", "precision", "software", "inflight_per_dimension", "loops", "posting", "jitter"}
    | {"injection_latency", "reserved"}
    | {"loss", "context", "expert", "expert_loads", "virtual", "data", "scatter_gather", "parameter_server", "updates"}
)
"""Fields whose default is nothing, or is listed with what it means. Empty mappings need not be named."""
AUTO_SHARES = {
    "comm_memory_bandwidth": "half of npu.memory_bandwidth",
    "comm_sms": "as many SMs as that bandwidth needs",
}
"""What `auto` means, by the field of an endpoint."""
TRANSIT = {
    "endpoint": "the endpoints between forward messages for distant NPUs",
    "network": "the routers between forward messages for distant NPUs, not the endpoints",
}
"""What the ways of forwarding mean."""


def of(variants: Iterable[Variant], offloaded: Mappable[str, str] | None = None) -> list[str]:
    """The assumptions of all variants, each once and with the variants it is about unless it is about all.

    `offloaded` says of variants with switch offload what is done in switches. Variants of one name are told apart by
    nobody: such are those of the points of a sweep.
    """
    about: dict[str, list[str]] = {}
    count = 0
    for variant in variants:
        count += 1
        for line in dict.fromkeys(_of_one(variant)):
            about.setdefault(line, []).append(variant.name)
        if offloaded is not None and variant.name in offloaded:
            about.setdefault(f"switch offload {offloaded[variant.name]}", []).append(variant.name)
    return [
        line if len(names) == count else f"{line} ({', '.join(dict.fromkeys(names))})" for line, names in about.items()
    ]


def _of_one(variant: Variant) -> Iterator[str]:
    experiment = variant.experiment
    for path, calibration in experiment.calibration.items():
        if calibration.variants and experiment.name not in calibration.variants:
            continue
        note = f"; {calibration.note}" if calibration.note else ""
        yield f"{path} = {_value_at(experiment, path)}: fitted on {calibration.fitted_on}{note}"
    yield from _of_topology(experiment.topology)
    yield from _of_buffers(experiment)
    yield from _meant(variant)
    yield from _of_shares(variant)
    if experiment.endpoint.is_priced:
        yield from pricing.assumptions(experiment)
    yield from _of_kernels(experiment)
    for idle in effect.idle(experiment):
        if _is_written(variant, idle):
            path = ".".join(idle.path)
            yield f"{path} = {_value_at(experiment, path)} has no effect: {idle.rule.why}"
    dumped = experiment.model_dump(mode="json")
    dumped["training"] |= {"iterations": experiment.iterations, "tail": experiment.tail}
    for section in type(experiment).model_fields:
        value = getattr(experiment, section)
        if section in UNSAID or not isinstance(value, BaseModel):
            continue
        if section == "npu" and experiment.npu.gpu is not None:
            yield from _of_npu(experiment)
            continue
        given = section in experiment.model_fields_set
        ignored = _without_effect(experiment, section)
        if section == "collective" and (found := list(_of_chunks(variant))):
            yield from found
            ignored |= {"chunk", "inflight"}
        if section == "collective":
            ignored |= {"algorithms"}
        yield from _defaults(section, value, dumped[section], given=given, ignored=ignored)


def _of_chunks(variant: Variant) -> Iterator[str]:
    """What chunks are where nothing is said of them."""
    for family, usual in completing.usual_chunks(variant):
        of = "" if family is None else f" of family {family}"
        yield f"collective{of}: {usual} (default)"


def _is_written(variant: Variant, idle: effect.Idle) -> bool:
    """Whether a setting without effect is anybody's words."""
    node = effect.written(variant.tree, idle.path)
    return node is not None and not effect.is_brought(node.origin)


def _of_topology(topology: Fabric) -> Iterator[str]:
    if isinstance(topology, Wired):
        yield from (f"topology: {assumption}" for assumption in topology.graph.assumptions)
        return
    alike: dict[str, list[int]] = {}
    for index, dim in enumerate(topology.dims):
        filled_in = ", ".join(text for name, text in dim.parameters.items() if name in dim.filled_in)
        if filled_in:
            alike.setdefault(filled_in, []).append(index)
    for filled_in, dims in alike.items():
        where = f"dimension {dims[0]}" if len(dims) == 1 else f"dimensions {', '.join(map(str, dims))}"
        yield f"topology: {filled_in} (default, {where})"


def _of_buffers(experiment: Experiment) -> Iterator[str]:
    """That the buffers of switches do not matter to a backend that does not know them."""
    backend = experiment.network.backend
    names = {attribute["name"] for attribute in experiment.topology.attributes()}
    if names - set(facts.engine().networks[backend].attributes if names else ()):
        yield f"topology: the buffers of switches have no effect: the backend {backend} does not know them"


def _of_npu(experiment: Experiment) -> Iterator[str]:
    """What the NPU has from its GPU, and what kernels are assumed to make of it."""
    npu, ignored = experiment.npu, _without_effect(experiment, "npu")
    given = npu.model_fields_set if "npu" in experiment.model_fields_set else frozenset()
    if "gpu" not in given:
        yield f"npu.gpu = {npu.gpu} ({npu.title}, {_source_of_gpu(experiment.topology)})"
    assert npu.gpu is not None
    if effect.computes(experiment):
        yield from _of_libraries(experiment, given)
    assumed = GPUS[npu.gpu].precision(DEFAULT_ELEMENT)
    shown = {**npu.model_dump(mode="json"), "peak": f"{npu.peak / 1e12:g}TFLOP/s"}
    for name in FIGURES:
        if name in given or name in ignored or (name == "reserved" and not experiment.is_training):
            continue
        why = {
            "peak": f"dense peak of the GPU for {experiment.precision or assumed}",
            "bus": "assumed to carry as much as the memory of the GPU",
            "reserved": "of npu.memory, assumed for CUDA's context and the buffers of NCCL",
            "sm_read": "default",
        }
        yield f"npu.{name} = {shown[name]} ({why.get(name, 'of the GPU')})"


def _of_libraries(experiment: Experiment, given: Collection[str]) -> Iterator[str]:
    """Where the times of the kernels of a GPU come from, and how far they may be off."""
    npu, training = experiment.npu, experiment.training
    assert npu.gpu is not None
    if npu.compute.kind != "gpu":
        return
    measured = GPUS[calibrated.measured_on(npu.gpu)].title
    if npu.gpu in calibrated.CALIBRATED:
        yield f"npu.compute.kind = gpu (kernels as fast as measured on an {measured})"
    else:
        yield (
            f"npu.compute.kind = gpu (scaled from kernels that were measured on an {measured}: their times may be off "
            f"by {calibrated.range_of(npu.gpu):.0%} either way)"
        )
    if "power" not in given and effect.broken(experiment, ("npu", "power")) is None:
        yield f"npu.power = {npu.model_dump(mode='json')['power']} (of the GPU)"
    if effect.broken(experiment, ("npu", "host_kernel_time")) is None and "host_kernel_time" not in given:
        yield f"npu.host_kernel_time = {npu.model_dump(mode='json')['host_kernel_time']} (assumed, for each kernel)"
    said = training.model_fields_set
    if effect.broken(experiment, ("training", "kernels")) is None and "kernels" not in said:
        yield f"training.kernels = {training.kernels} (default)"
    if effect.broken(experiment, ("training", "attention")) is None:
        library = training.attention_of(npu.gpu)
        if "attention" not in said:
            yield f"training.attention = {library} (what PyTorch takes on this GPU, where attention is fused)"
        if library in calibrated.STANDS_FOR:
            other = calibrated.STANDS_FOR[library]
            yield f"training.attention = {library} takes as long as {other}: it was not measured"


def _source_of_gpu(topology: Fabric) -> str:
    """What says which GPU it is, where that is not stated."""
    known = topology.graph.hardware if isinstance(topology, Wired) else None
    return "" if known is None else known.because


def _of_kernels(experiment: Experiment) -> Iterator[str]:
    """What the peak rate is for, and that it is one."""
    workload = experiment.workload
    yield from dict.fromkeys(_narrow(experiment, model) for model in models_of(workload) if model.linear_element)
    if not isinstance(workload, ModelWorkload) or not experiment.npu.compute.depends_on_type:
        return
    if workload.precision is not None and "precision" not in workload.model_fields_set:
        asked = "; tf32 has to be chosen explicitly" if workload.precision == "fp32" else ""
        yield f"workload.precision = {workload.precision} (elements have {SIZE.format(workload.element)}{asked})"
    if "compute_scale" not in experiment.training.model_fields_set and experiment.npu.compute.kind == "roofline":
        yield "kernels run at npu.peak or at full memory bandwidth, whichever takes longer; real kernels are slower"


def _narrow(experiment: Experiment, model: ModelWorkload | DividedWorkload) -> str:
    """What a narrow data type acts on, until operators and communicators have data types of their own."""
    narrow = model.compute_type
    assert narrow is not None
    assert model.linear_element is not None
    npu, wide = experiment.npu, NARROW[narrow]
    of_types = npu.compute.depends_on_type
    rates = [f" at {peak / 1e12:g}TFLOP/s" if of_types else "" for peak in (npu.peak, npu.wide_peak(narrow))]
    has_types = isinstance(model, DividedWorkload) and isinstance(model.precision, DataTypes)
    kept = "activations and messages" if has_types else "weights, gradients, activations and messages"
    return (
        f"workload.precision = {narrow} acts on products of linear layers only, whose factors have elements "
        f"of {SIZE.format(model.linear_element)}{rates[0]}: attention and other kernels are in {wide}{rates[1]}, and "
        f"{kept} have elements of {SIZE.format(model.element)}; casts between "
        "the types take no time"
    )


def _of_shares(variant: Variant) -> Iterator[str]:
    """What `auto` sets aside for communication."""
    endpoint = variant.tree.entries.get("endpoint")
    dumped = variant.experiment.endpoint.model_dump(mode="json")
    for name, why in AUTO_SHARES.items():
        node = endpoint.entries.get(name) if isinstance(endpoint, Mapping) else None
        if isinstance(node, Scalar) and node.value == "auto":
            yield f"endpoint.{name} = {dumped[name]} (auto: {why}, as CommOpt of the ACE paper)"


def _meant(variant: Variant) -> Iterator[str]:
    """What the algorithm stands for, where its name does not say it all; the root, where nobody named one."""
    experiment = variant.experiment
    collective, workload = experiment.collective, experiment.workload
    if variant.choice is not None:
        yield f"collective.algorithm = {variant.choice.chosen} (auto: {variant.choice.because})"
    if variant.tuning is not None:
        yield f"collective.slice = {variant.tuning.slice_bytes}B (miad: {variant.tuning.because})"
    if collective.has_direct_exchanges and EXCHANGE in programs.kinds(experiment):
        why = "through switches, NPUs that relay for others only load the same links more often"
        if experiment.endpoint.is_priced:
            why = "NCCL sends every part to its rank at once"
        yield f"collective.algorithms.{EXCHANGE} = direct (default: {why})"
    if experiment.lanes != collective.lanes:
        yield f"collective.lanes = {experiment.lanes} ({collective.algorithm})"
    if isinstance(workload, CollectiveWorkload) and workload.collective in ROOTED and workload.root is None:
        plan = experiment.plan_of(workload.collective)
        yield f"workload.root = {experiment.root} ({'default' if plan is None else f'that of the plan {plan.name}'})"
    if isinstance(workload, ModelWorkload) and workload.tokens is not None and workload.sequence is None:
        yield f"workload.sequence = {workload.tokens} (default)"
    if experiment.strategy != "data-parallel" and experiment.training.strategy is None:
        yield f"training.strategy = {experiment.strategy} (default)"
    if experiment.is_training:
        yield from _of_compute(experiment)
    if experiment.endpoint.chosen_transit is None and programs.passes_npus(experiment):
        yield f"endpoint.transit = {experiment.transit} (default: {TRANSIT[experiment.transit]})"


def _of_compute(experiment: Experiment) -> Iterator[str]:
    """Defaults of a compute model that is no roofline, and what a table leaves open."""
    compute = experiment.npu.compute
    given = compute.model_fields_set
    if compute.kind == "systolic":
        dumped = {**compute.model_dump(mode="json"), "clock": "npu.clock"}
        names = ("arrays", "clock", "columns", "dataflow", "rows", "sram_inputs", "sram_outputs", "sram_weights")
        has_memories = any(getattr(compute, name) is not None for name in names if name.startswith("sram_"))
        for name in names:
            if name in given or (name.startswith("sram_") and not has_memories):
                continue
            yield f"npu.compute.{name} = {'unlimited' if dumped[name] is None else dumped[name]} (default)"
    if compute.kind == "gpu" and experiment.precision is not None and experiment.taking_part > 1:
        gpus = experiment.taking_part
        more = f"{100 * (calibrated.of_slowest(gpus) - 1):.1f} %"
        yield f"the slowest of {gpus} GPUs sets the pace: its operations take {more} more energy than those of the mean"
    if compute.kind == "tiles":
        dumped = compute.tiles.model_dump(mode="json")
        for name in type(compute.tiles).model_fields:
            if name not in compute.tiles.model_fields_set:
                yield f"npu.compute.tiles.{name} = {dumped[name]} (default, of an NVIDIA H200)"
    table = compute.measured
    if compute.kind == "table" and table is not None:
        device = f", of {table.device}" if table.device else ""
        yield f"kernels take what {table.file} says{device}; between measured shapes, efficiency is interpolated"
    if compute.kind not in ("roofline", "gpu") and "launch" not in given:
        yield f"npu.compute.launch = {compute.model_dump(mode='json')['launch']} (default)"


def _padding_matters(experiment: Experiment) -> bool:
    """Whether blocks might be of unequal length, so that padding changes what is sent."""
    collective, workload = experiment.collective, experiment.workload
    if not isinstance(workload, CollectiveWorkload) or collective.chunks not in (None, 1) or collective.plan:
        return True
    ways = 1
    if experiment.lanes == "split":
        if isinstance(experiment.topology, Wired):
            return True
        ways = lcm(*(max(1, dim.links_per_npu) for dim in experiment.topology.dims))
    chunk = collective.chunk or (workload.size if collective.chunks == 1 else DEFAULT_CHUNK)
    return any(size % (ways * experiment.ranks * workload.element) for size in (workload.size, chunk))


def _without_effect(experiment: Experiment, section: str) -> frozenset[str]:
    """Fields of a section that the experiment does not use, or whose defaults are nothing to speak of."""
    names = type(getattr(experiment, section)).model_fields
    found = {name for name in names if effect.broken(experiment, (section, name)) is not None}
    if section == "npu" and experiment.npu.gpu is None:
        found |= {"power", "host_kernel_time"}
    if section == "collective" and not _padding_matters(experiment):
        found.add("padding")
    if section == "collective" and max(programs.numbers_of_chunks(experiment), default=1) == 1:
        found.add("least_chunk")
    if section == "parallel":
        nested = type(experiment.parallel.overlap).model_fields
        found |= {f"overlap.{n}" for n in nested if effect.broken(experiment, (section, "overlap", n)) is not None}
    if section == "training" and experiment.strategy != "hybrid":
        found.add("background_embedding")
    if section == "endpoint":
        found.add("comm_memory_bandwidth" if experiment.shares else "contention")
    return frozenset(found)


def _defaults(
    section: str, value: BaseModel, dumped: dict[str, Any], *, given: bool, ignored: frozenset[str]
) -> Iterator[str]:
    for name in type(value).model_fields:
        is_given = given and name in value.model_fields_set
        nested = getattr(value, name)
        if isinstance(nested, Buses):
            yield from _of_buses(f"{section}.{name}", nested, given=is_given)
            continue
        if name in ignored:
            continue
        if isinstance(nested, Trees | Optimiser | Overlap):
            yield from _defaults(
                f"{section}.{name}", nested, dumped[name], given=is_given, ignored=_within(name, ignored)
            )
        if is_given or isinstance(nested, Trees | Optimiser | Overlap):
            continue
        shown = dumped[name]
        if isinstance(value, Collective) and name in ("chunk", "chunks"):
            if name == "chunk" and value.algorithm == PACKED and value.chunk is None and value.chunks is None:
                yield "collective.chunk = whole (default: packed-trees cuts it into slices)"
            elif name == "chunk" and value.chunk is None and value.chunks is None:
                yield f"collective.chunk = {DEFAULT_CHUNK // 1024}KiB (default)"
            continue
        if isinstance(value, Collective) and (name == "slice" or (name == "slices" and value.slice is not None)):
            continue
        if name in UNNAMED or shown == {}:
            continue
        if shown is None:
            shown = "auto"
            if isinstance(value, EndpointSection | NetworkSection | Training):
                shown = value.meaning_of_nothing(name)
        if isinstance(shown, bool):
            shown = "true" if shown else "false"
        if name == "order":
            shown = ", ".join(shown)
        yield f"{section}.{name} = {shown} (default)"


def _within(name: str, fields: frozenset[str]) -> frozenset[str]:
    """Of fields as paths, those within a section."""
    return frozenset(field.removeprefix(f"{name}.") for field in fields if field.startswith(f"{name}."))


def _of_buses(path: str, buses: Buses, *, given: bool) -> Iterator[str]:
    if not (given and "kind" in buses.model_fields_set):
        yield f"{path}.kind = {buses.kind} (default)"
    if buses.kind == "loggp" and buses.message is None:
        yield f"{path}.message = none: a transfer is one message (default)"
    if buses.kind == "loggp" and buses.memory is None:
        yield f"{path}.memory = comm_memory_bandwidth (default)"


def _value_at(experiment: Experiment, path: str) -> Any:
    value: Any = experiment.model_dump(mode="json")
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
