"""Which settings act, and where they do not.

[`RULES`] says of every field when it acts, and what it needs. A field that no rule names always acts; the fields of
[`RECORDED`] change no result. What a kind of workload, endpoint, contention or compute model does not know, and what
therefore has no effect in any variant for which it was written, is refused. Where it acts in some variants, the others
list it among their assumptions; so do all variants with facts about the hardware, and with limits and choices that
just do not matter to the sizes, shapes and algorithms of the run ([`Rule.is_refused`]), so that an experiment stays
legal when its size or its endpoint is changed. The engine is told of nothing that does not act ([`effective`]).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, Final

from pydantic import BaseModel

from syncline.base import document
from syncline.base.document import Mapping, Node, Origin
from syncline.base.errors import Problem, one_of
from syncline.experiment import programs
from syncline.fabric.topologies import Wired
from syncline.kernels import calibrated
from syncline.models.model import has_kind
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.experiment import Experiment
from syncline.sections.npu import Npu
from syncline.sections.workloads import (
    OF_ITSELF,
    OF_SEQUENCES,
    OF_TABLES,
    ROOTED,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    ModelWorkload,
    has_sequence,
    is_distributed,
    kinds_of,
    models_of,
)

RECORDED: Final = frozenset(
    {
        "name",  # what people call it
        "description",
        "calibration",  # says where a value is from
        "output",  # what is recorded of a run
        "fold",  # whether equal NPUs are simulated once, which is exact or refused
        "npu.memory",  # what needs more than there is is refused, and nothing is slower for it
        "npu.reserved",
        "network.mode",  # how packets are moved, which is exact
        "network.watch",  # what is recorded of connections
        "network.capture",  # and of ports
    }
)
"""Fields that change no result, whatever they are."""
LISTED: Final = frozenset(
    {
        *(f"npu.{name}" for name in ("gpu", "peak", "sms", "clock", "memory_bandwidth", "bus", "sm_read")),
        *(f"npu.{name}" for name in ("power", "host_kernel_time")),
        *(f"network.{name}" for name in ("deadlock_rule", "posting")),
        "parallel.zero",
        *(f"collective.{name}" for name in ("algorithm", "slices", "slice", "lanes", "scheduling", "priority")),
        *(f"collective.{name}" for name in ("inflight", "inflight_per_dimension")),
        *(f"endpoint.{name}" for name in ("transit", "fsm_split", "message", "comm_memory_bandwidth", "comm_sms")),
        *(f"endpoint.{name}" for name in ("switch_memory", "switch_latency", "switch_reduce_bandwidth")),
    }
)
"""Facts about the hardware, and limits and choices that matter to some sizes, shapes, ways and algorithms only."""
NEEDED: Final = frozenset({"comm_memory_bandwidth", "comm_sms"})
"""Fields that an endpoint cannot be described without; they are never refused for having no effect."""
BROUGHT: Final = frozenset({"--endpoint", "argument endpoint"})
"""Where values come from that an endpoint brings which a flag or an argument names: they are nobody's words."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a field acts."""

    path: str
    """The field, or the section with all its fields."""
    acts: Callable[[Experiment], bool]
    why: str
    """Why it does not, where it does not."""
    needed: str | Callable[[], str]
    """What would make it act, or what says it once the engine can be asked."""

    @property
    def needs(self) -> str:
        """What would make it act."""
        return self.needed if isinstance(self.needed, str) else self.needed()

    @property
    def is_refused(self) -> bool:
        """Whether the field is refused where it acts nowhere, rather than listed among the assumptions."""
        return self.path not in LISTED


@dataclass(frozen=True, slots=True)
class Idle:
    """A setting without effect."""

    path: tuple[str, ...]
    value: Any
    rule: Rule


def _trains(e: Experiment) -> bool:
    return e.is_training


def computes(e: Experiment) -> bool:
    """Whether the compute model of the NPU gives the time of anything."""
    if isinstance(e.workload, GraphWorkload):
        return e.workload.file.computes
    return isinstance(e.workload, ModelWorkload | DividedWorkload | JobsWorkload)


def _is_calibrated(e: Experiment) -> bool:
    """Whether kernels are those of a GPU's libraries."""
    return computes(e) and e.npu.compute.kind == "gpu"


def _trains_model(e: Experiment) -> bool:
    return bool(models_of(e.workload))


def _has_host(e: Experiment) -> bool:
    return _trains_model(e) and e.training.launch == "host"


def _has_operator(kind: str) -> Callable[[Experiment], bool]:
    """Whether a model that is trained has operators of a kind."""
    return lambda e: any(has_kind(model.evaluated, kind) for model in models_of(e.workload))


def has_gradients(e: Experiment) -> bool:
    """Whether copies of a model have gradients that are all-reduced."""
    if isinstance(e.workload, JobsWorkload | DividedWorkload):
        return True
    return isinstance(e.workload, ModelWorkload) and e.strategy == "data-parallel"


def _is_divided(e: Experiment) -> bool:
    """Whether a model is divided as `parallel` says."""
    return isinstance(e.workload, DividedWorkload)


def _has_order(e: Experiment) -> bool:
    """Whether it matters which axis is innermost."""
    ways = [e.parallel.tensor, e.parallel.context, e.parallel.pipeline]
    left = e.taking_part > prod(ways)
    return not e.parallel.on and sum(number > 1 for number in ways) + left > 1


def _has_copies(e: Experiment) -> bool:
    """Whether several NPUs have the same weights, as far as the ways are right."""
    if e.parallel.on:
        return not {"data", "context", "expert"}.isdisjoint(e.parallel.on)
    return e.taking_part > e.parallel.tensor * e.parallel.pipeline


def _is_on(axis: str, e: Experiment) -> bool:
    """Whether an axis has more than one NPU."""
    return axis in e.parallel.on or getattr(e.parallel, axis) > 1


def _exceeds(e: Experiment, most: int, *names: str) -> bool:
    """Whether what the endpoint takes is more than an NPU has by default, so that it is bounded by what is given."""
    taken = [getattr(e.endpoint, name, None) or 0 for name in names]
    return max(taken) > most


def _contends(e: Experiment) -> bool:
    """Whether communication shares the NPU with anything."""
    beside = isinstance(e.workload, CollectiveWorkload) and bool(e.workload.beside)
    return e.shares and (e.is_training or beside)


def _is_routed(e: Experiment) -> bool:
    """Whether packets for others pass routers, or an ACE's pools, so that they could wait for each other; or buffers
    are as small as they may be with no rule only.
    """
    if e.network.has_least_buffers:
        return True
    return programs.passes_npus(e) and (e.transit == "network" or e.endpoint.streams)


def _is_static(e: Experiment) -> bool:
    """Whether what communication takes of the NPU is set aside, and compute runs beside it."""
    return computes(e) and e.training.overlap and e.endpoint.set_aside is not None and not e.shares


def _gives_way(e: Experiment) -> bool:
    """Whether kernels have what collectives in flight leave of the NPU."""
    return e.endpoint.gives_way and not isinstance(e.workload, CollectiveWorkload)


def _states_channels(e: Experiment) -> bool:
    """Whether kernels would give way to collectives if it were not stated what they lack."""
    return e.endpoint.is_priced and not isinstance(e.workload, CollectiveWorkload)


def _sms_count(e: Experiment) -> bool:
    """Whether it matters how many SMs there are in all: the peak rate is that of all of them together."""
    taken = _is_static(e) and e.endpoint.set_aside is not None and e.endpoint.set_aside.sms > 0
    background = _has_background(e) and not e.shares
    of_kernels = _gives_way(e) or (computes(e) and e.npu.compute.kind in ("tiles", "gpu"))
    return of_kernels or _contends(e) or _exceeds(e, Npu().sms, "comm_sms") or (computes(e) and (taken or background))


def _memory_counts(e: Experiment) -> bool:
    if e.shares:
        given = getattr(e.endpoint, "memory_bandwidth", None)
        return given is None or given > Npu().memory_bandwidth
    buses = getattr(e.endpoint, "buses", None)
    through_buses = 0 if buses is None else buses.memory or 0
    taken = _exceeds(e, Npu().memory_bandwidth, "comm_memory_bandwidth")
    return computes(e) or _gives_way(e) or taken or through_buses > Npu().memory_bandwidth


def _clock_counts(e: Experiment) -> bool:
    compute = e.npu.compute
    of_array = computes(e) and compute.kind == "systolic" and compute.clock is None
    return of_array or e.endpoint.runs_at_npu_clock or _sms_drive(e)


def _sms_drive(e: Experiment) -> bool:
    """Whether SMs drive anything."""
    return e.endpoint.has_driving_sms(beside_switches=_leaves_something(e))


def _has_background(e: Experiment) -> bool:
    return is_distributed(e.workload) and e.training.background_embedding


def _uses_switches(e: Experiment) -> bool:
    return any(p.name == programs.IN_SWITCH for p in programs.of(e))


def _leaves_something(e: Experiment) -> bool:
    """Whether anything is done by NPUs beside switches that add."""
    return any(p.name != programs.IN_SWITCH for p in programs.of(e))


def _adds_in_switches(e: Experiment) -> bool:
    return any(p.name == programs.IN_SWITCH and p.kind in programs.SUMS for p in programs.of(e))


def _has_chunks(e: Experiment) -> bool:
    """Whether there may be more than one chunk at a time."""
    if not isinstance(e.workload, CollectiveWorkload):
        return True
    return programs.chunks(e) > 1


def _follows(e: Experiment) -> bool:
    """Whether some kind of collectives has neither a plan nor an algorithm of its own."""
    return bool(e.followers)


def _composes(e: Experiment) -> bool:
    return _follows(e) and e.collective.algorithm in (*programs.COMPOSITIONS, "auto")


def _loggp(e: Experiment) -> bool:
    return getattr(getattr(e.endpoint, "buses", None), "kind", "rate") == "loggp"


def _charges_memory(e: Experiment) -> bool:
    """Whether the bandwidth that is set aside for communication bounds it, or is taken from compute."""
    buses = getattr(e.endpoint, "buses", None)
    return not _loggp(e) or buses is None or buses.memory is None or _is_static(e)


MODEL: Final = "workload.model"
TRAINING: Final = "a workload with a training loop (a model, a text, a graph or jobs)"
_FILE: Final = "compute times come from the workload file, or the run has no compute"
_ALONE: Final = "a single collective has no training loop"
_NO_ARRAY: Final = "a roofline has no array"
_STATIC: Final = "this is for dynamic contention, and the contention here is static"
_DYNAMIC: Final = "endpoint {kind: baseline, contention: dynamic}"
_IN_SWITCHES: Final = "nothing is reduced or copied by switches"
_SWITCHED: Final = "a dimension with switches, and in-switch or a composition over the dimensions"


def _is_hybrid(e: Experiment) -> bool:
    return programs.has_packed_trees(e) and e.collective.trees.links == "hybrid"


def _dynamic(e: Experiment) -> bool:
    return e.shares


def _ethernet(acts: Callable[[Any], bool]) -> Callable[[Experiment], bool]:
    """Whether a field of the Ethernet backend acts; other backends may have one of its name."""
    return lambda e: e.network.backend != "ethernet" or acts(e.network)


def _figures_count(e: Experiment) -> bool:
    """Whether any figure of the NPU matters, or links of a topology file are those of the GPU."""
    figures = ("peak", "sms", "clock", "memory_bandwidth", "bus")
    known = e.topology.graph.hardware if isinstance(e.topology, Wired) else None
    of_links = known is not None and known.stated
    return of_links or any(broken(e, ("npu", name)) is None for name in figures)


RULES: Final[tuple[Rule, ...]] = (
    Rule("npu.gpu", _figures_count, "nothing in this run depends on the NPU",
         "a workload or an endpoint that uses the NPU"),
    Rule("npu.peak", lambda e: computes(e) and e.npu.compute.kind != "systolic",
         "no kernel's time comes from the peak rate", f"{MODEL}, without a systolic array"),
    Rule("npu.sms", _sms_count, "nothing is set aside or shared: the peak rate is that of all SMs together",
         f"{MODEL} with SMs set aside (endpoint.comm_sms), or {_DYNAMIC}"),
    Rule("npu.clock", _clock_counts, "nothing runs at this clock: all that runs has a clock or latency of its own",
         "SMs that drive collectives, or an endpoint without a clock or latency of its own"),
    Rule("npu.memory_bandwidth", _memory_counts, "no kernel's time depends on it",
         f"{MODEL}, or {_DYNAMIC} without endpoint.memory_bandwidth"),
    Rule("npu.bus", lambda e: e.endpoint.crosses_bus, "this endpoint crosses no bus",
         f"endpoint {one_of(name for name, section in ENDPOINTS.items() if section.crosses_bus)}"),
    Rule("npu.sm_read", _sms_drive, "no SM drives a collective", "endpoint baseline, or switch-offload with comm_sms"),
    Rule("npu.power", _is_calibrated, "no kernel's time depends on it", "npu.compute.kind gpu"),
    Rule("npu.host_kernel_time", _has_host, "no host launches anything", f"{MODEL}, with training.launch host"),
    Rule("training.kernels", lambda e: _is_calibrated(e) and _trains_model(e), "no kernels are those of a framework",
         f"{MODEL}, and npu.compute.kind gpu"),
    Rule("training.launch", lambda e: _trains_model(e) and e.npu.host_kernel_time > 0, "no host launches anything",
         f"{MODEL}, and npu.host_kernel_time"),
    Rule("training.attention", _has_operator("attention"), "there is no attention", "a model with attention"),
    Rule("training.loss", _is_calibrated, "no kernels are those of a framework", f"{MODEL}, and npu.compute.kind gpu"),
    Rule("training.loss", _has_operator("softmax-cross-entropy"), "there is no cross-entropy", "a model with one"),
    Rule("workload.layout", _is_calibrated, "no kernels are those of a GPU", f"{MODEL}, and npu.compute.kind gpu"),
    Rule("workload.layout", _has_operator("convolution"), "no kernel works on images", "a model with convolutions"),
    Rule("npu.compute", computes, _FILE, MODEL),
    *(Rule(f"npu.compute.{name}", lambda e: e.npu.compute.kind == "systolic", _NO_ARRAY, "npu.compute.kind systolic")
      for name in ("rows", "columns", "dataflow", "clock", "arrays", "sram_inputs", "sram_weights", "sram_outputs")),
    Rule("npu.compute.tile", lambda e: e.npu.compute.kind != "table", "measured times are those of all that was read",
         "another npu.compute.kind"),
    Rule("npu.compute.tiles", lambda e: e.npu.compute.kind == "tiles", "no product is in tiles and waves",
         "npu.compute.kind tiles"),
    Rule("npu.compute.table", lambda e: e.npu.compute.kind == "table", "no time comes from a table",
         "npu.compute.kind table"),
    Rule("network.deadlock_rule", _is_routed, "no packet is forwarded by a router, where it could block others",
         "messages for distant NPUs on rings, with endpoint.transit network or an ACE"),
    Rule("network.posting", programs.has_direct, "no rank sends to all others directly",
         "algorithm direct, or direct among what a composition does along dimensions"),
    *(Rule(f"network.{name}", _ethernet(lambda net: net.transport == "tcp"), "RoCE has nothing of the kind",
           "network.transport tcp")
      for name in ("profile", "initial_window", "delayed_ack_timeout", "sack", "recovery")),
    Rule("network.delayed_ack_timeout", _ethernet(lambda net: net.delayed_ack > 1), "no acknowledgement waits",
         "network.delayed_ack of 2 or more"),
    Rule("network.retransmission", _ethernet(lambda net: net.transport == "roce"), "TCP has rules of its own",
         "network.transport roce"),
    Rule("network.dcqcn", _ethernet(lambda net: net.control == "dcqcn"), "the congestion control is another one",
         "network.congestion_control dcqcn"),
    *(Rule(f"network.{name}", _ethernet(lambda net: net.control != "none"), "nothing reacts to marks",
           "a congestion control") for name in ("ecn_threshold", "ecn_above", "ecn_probability")),
    Rule("network.headroom", _ethernet(lambda net: net.pauses), "no switch asks for pauses",
         "network.flow_control pfc"),
    Rule("network.buffer_alpha", _ethernet(lambda net: net.buffer_sharing == "dynamic"),
         "each port has its part of the buffer", "network.buffer_sharing dynamic"),
    Rule("network.nic_queue", _ethernet(lambda net: not net.asks_connections),
         "connections wait until the port of a host asks them", "network.nic_queues fifo, with TCP"),
    Rule("workload.sequence", lambda e: has_sequence(e.workload), "the model has no sequences", OF_SEQUENCES),
    Rule("workload.root", lambda e: bool(ROOTED & set(kinds_of(e.workload))), "this collective has no root",
         lambda: f"workload.collective {one_of(sorted(ROOTED))}"),
    Rule("workload.beside", _dynamic, "with static contention, a collective shares nothing with kernels", _DYNAMIC),
    Rule("training", _trains, _ALONE, TRAINING),
    Rule("parallel", _is_divided, "nothing is divided among NPUs as this says", "workload.global_batch with a model"),
    Rule("parallel.zero", _has_copies, "there is one copy of the weights", "more NPUs, or fewer ways"),
    Rule("parallel.order", _has_order, "there is one axis, or `on` places all", "two axes of more than one NPU"),
    Rule("parallel.recompute_operators", lambda e: e.parallel.recompute == "operators", "no operators are listed",
         "parallel.recompute operators"),
    Rule("parallel.prefetch", lambda e: e.parallel.zero == 3, "no weights are gathered ahead", "parallel.zero 3"),
    Rule("parallel.context_exchange", lambda e: _is_on("context", e), "no tokens of a sample are divided",
         "parallel.context of 2 or more"),
    Rule("parallel.overlap.tensor", lambda e: _is_on("tensor", e), "no operators are divided",
         "parallel.tensor of 2 or more"),
    Rule("parallel.overlap.pipeline", lambda e: _is_on("pipeline", e), "there is one stage",
         "parallel.pipeline of 2 or more"),
    Rule("training.strategy", lambda e: not _is_divided(e), "`parallel` says how the model is divided",
         "workload.model with workload.batch"),
    Rule("training.barrier", lambda e: not _is_divided(e), "an update of all weights ends an iteration",
         "workload.model with workload.batch"),
    Rule("training.background_embedding", lambda e: not _is_divided(e), "no embeddings are in the background",
         "workload.model with workload.batch"),
    *(Rule(f"training.{name}", has_gradients, "no model is trained data-parallel here, with gradients of its own",
           OF_ITSELF)
      for name in ("bucket", "first_bucket", "barrier")),
    *(Rule(f"training.{name}", lambda e: e.training.overlap, "all gradients are reduced after back-propagation at once",
           "training.overlap true") for name in ("bucket", "first_bucket", "barrier")),
    Rule("training.first_bucket", lambda e: e.training.bucket is not None, "there are no buckets", "training.bucket"),
    *(Rule(f"training.{name}", _has_background, "no embeddings are in the background",
           f"training.background_embedding with {OF_TABLES}")
      for name in ("background_sms", "background_memory_bandwidth")),
    *(Rule(f"training.{name}", lambda e: not e.shares, "with dynamic contention, the background shares the whole NPU",
           "endpoint.contention static, or another endpoint")
      for name in ("background_sms", "background_memory_bandwidth")),
    Rule("collective.algorithm", lambda e: not e.collective.plan or _follows(e),
         "plans take the place of algorithms for all collectives of the run", "no plan for some kind of collectives"),
    Rule("collective.algorithm", _follows, "every kind of collectives has an algorithm of its own",
         "a kind without one in collective.algorithms"),
    Rule("collective.per_dimension", _composes, "no algorithm of the run works dimension by dimension",
         lambda: f"algorithm {one_of(programs.COMPOSITIONS)}"),
    Rule("collective.slices", programs.has_pipelines, "nothing is cut into slices",
         "double-binary-tree, one-hop-trees or packed-trees, or rings of a collective with a root"),
    Rule("collective.slice", programs.has_packed_trees, "no trees are packed", "algorithm packed-trees"),
    Rule("collective.trees", programs.has_packed_trees, "no trees are packed", "algorithm packed-trees"),
    Rule("collective.loops", programs.has_schedules, "no collective follows a schedule",
         "collective.plan with MSCCL XML, or JSON of version 1"),
    Rule("collective.lanes", programs.has_lanes, "no ring of this run has several lanes to choose from",
         "algorithm ring, or a composition, over rings or fully connected dimensions"),
    Rule("collective.scheduling", _trains, "there is only one collective", TRAINING),
    Rule("collective.priority", lambda e: len(kinds_of(e.workload)) > 1, "there is only one kind of collective",
         "a workload with several, such as dlrm"),
    Rule("collective.chunks_of", lambda e: bool(set(kinds_of(e.workload)) & set(e.collective.chunks_of)),
         "the run has no collective of these kinds", "a kind of collectives that the run has"),
    Rule("collective.least_chunk", lambda e: bool(programs.numbers_of_chunks(e)), "no number of chunks is stated",
         "collective.chunks or collective.chunks_of"),
    *(Rule(f"collective.{name}", lambda e: not e.endpoint.has_own_window, "an ACE has limits of its own",
           "another endpoint; for an ACE, endpoint.fsms and endpoint.sram")
      for name in ("inflight", "inflight_per_dimension")),
    *(Rule(f"collective.{name}", _has_chunks, "the collective is one chunk", "a smaller chunk, or more chunks")
      for name in ("inflight", "inflight_per_dimension")),
    Rule("endpoint.transit", programs.passes_npus, "no message passes an NPU on its way to another",
         "an algorithm that sends not only to neighbours, on rings or fully connected dimensions"),
    *(Rule(f"endpoint.{name}", _dynamic, _STATIC,
           "endpoint.contention dynamic") for name in ("comm_warps", "kernel_warps")),
    Rule("endpoint.comm_warps", _contends, "nothing runs beside communication", f"{TRAINING}, or workload.beside"),
    Rule("endpoint.kernel_warps", _trains, "there are no kernels; those of workload.beside have warps of their own",
         TRAINING),
    Rule("endpoint.delay", lambda e: getattr(e.endpoint, "sharing", "") == "delayed", "streams share links fairly",
         "endpoint.sharing delayed"),
    Rule("collective.trees.objective", lambda e: not _is_hybrid(e), "hybrid trees are those that are fastest",
         "collective.trees.links nvlink, pcie, all or auto"),
    Rule("endpoint.peer_access_latency", lambda e: bool(e.collective.plan) or _is_hybrid(e),
         "no plan names ways over PCIe", "collective.trees.links hybrid, or collective.plan with ways over PCIe"),
    Rule("endpoint.memory_bandwidth", _dynamic, _STATIC, "endpoint.contention dynamic"),
    Rule("endpoint.comm_memory_bandwidth", _charges_memory, "endpoint.buses.memory replaces it",
         "no endpoint.buses.memory, or workload.model with overlap, from whose compute it is taken"),
    Rule("endpoint.comm_sms", lambda e: _sms_drive(e) or _is_static(e) or _states_channels(e),
         "SMs drive no collective here, and no compute runs beside", f"{MODEL} with training.overlap"),
    *(Rule(f"endpoint.buses.{name}", _loggp, "buses of kind rate have no such cost", "endpoint.buses.kind loggp")
      for name in ("latency", "overhead", "gap", "message", "memory")),
    Rule("endpoint.fsm_split", programs.has_phases, "there is only one phase", "an algorithm with several phases"),
    *(Rule(f"endpoint.{name}", lambda e: not e.endpoint.adds_in_switches or _uses_switches(e),
           _IN_SWITCHES, _SWITCHED) for name in ("switch_memory", "switch_latency")),
    Rule("endpoint.switch_reduce_bandwidth", _adds_in_switches, "no switch reduces",
         f"{_SWITCHED}, of a collective that reduces"),
    Rule("endpoint.message", lambda e: not e.endpoint.adds_in_switches or _uses_switches(e),
         _IN_SWITCHES, _SWITCHED),
)  # fmt: skip
"""When fields act; of several rules for a field the first that fails is said."""


def leaves(section: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The fields below a section: path, value and default. Lists and mappings of names are one field; the kinds of
    collectives that have algorithms of their own are one each.
    """
    for name, default in _defaults(type(section)):
        value, here = getattr(section, name), (*path, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, here)
        elif here == ("collective", "algorithms"):
            yield from (((*here, kind), algorithm, None) for kind, algorithm in value.items())
        else:
            yield here, value, default


@cache
def _defaults(section: type[BaseModel]) -> tuple[tuple[str, Any], ...]:
    """The fields of a section and their defaults, which nobody changes; nothing for a field that has none."""
    return tuple(
        (name, None if info.is_required() else info.get_default(call_default_factory=True))
        for name, info in section.model_fields.items()
    )


def idle(experiment: Experiment) -> list[Idle]:
    """The settings of an experiment that differ from their defaults and change nothing."""
    found: list[Idle] = []
    for path, value, default in leaves(experiment):
        rule = None if value in (default, _worked_out(experiment, path)) else broken(experiment, path)
        if rule is not None:
            found.append(Idle(path, value, rule))
    return found


def _worked_out(experiment: Experiment, path: tuple[str, ...]) -> Any:
    """What a field without a value comes to, where that depends on the experiment."""
    if path == ("endpoint", "transit"):
        return _without(experiment, path).transit
    if path == ("npu", "compute", "kind") and calibrated.is_known(experiment.npu.gpu):
        return "gpu"
    return None


def broken(experiment: Experiment, path: tuple[str, ...]) -> Rule | None:
    """The rule by which a field does not act, whatever its value; nothing if it acts."""
    rules = (*_of_algorithm(experiment, path), *_of_path(path))
    return next((rule for rule in rules if not rule.acts(experiment)), None)


@cache
def _of_path(path: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules of a field, and of the sections that it is in."""
    above = {".".join(path[:length]) for length in range(1, len(path) + 1)}
    return tuple(rule for rule in RULES if rule.path in above)


def _of_algorithm(experiment: Experiment, path: tuple[str, ...]) -> Sequence[Rule]:
    """The rules of an algorithm of a kind of collectives."""
    if path[:2] != ("collective", "algorithms") or len(path) < 3:
        return ()
    kinds, text, plan = kinds_of(experiment.workload), ".".join(path), experiment.plan_of(path[2])
    displaced = f"the plan {'' if plan is None else plan.file} takes the place of algorithms for {path[2]}"
    return (
        Rule(text, lambda _: path[2] in kinds, "the run has no collective of this kind", one_of(kinds)),
        Rule(text, lambda _: plan is None, displaced, "no plan for this kind"),
    )


def effective(experiment: Experiment) -> Experiment:
    """The experiment without the settings that change nothing."""
    for entry in idle(experiment):
        if entry.path[-1] not in NEEDED:
            experiment = _without(experiment, entry.path)
    return experiment


def _without(section: Any, path: tuple[str, ...]) -> Any:
    """A section with one field at its default."""
    name, *rest = path
    if isinstance(section, dict):
        return {key: value for key, value in section.items() if key != name}
    if rest:
        return section.model_copy(update={name: _without(getattr(section, name), tuple(rest))})
    default = type(section).model_fields[name].get_default(call_default_factory=True)
    return section.model_copy(update={name: default})


@dataclass(slots=True)
class Uses:
    """What was written, and whether it acts anywhere."""

    acting: set[Origin] = field(default_factory=set)
    idle: dict[Origin, tuple[Idle, Any]] = field(default_factory=dict)

    def add(self, experiment: Experiment, tree: Mapping) -> None:
        """Takes an experiment into account, and the tree that it was written as."""
        without = {entry.path: entry for entry in idle(experiment) if entry.rule.is_refused}
        for path, _, _ in leaves(experiment):
            node = written(tree, path)
            if node is None or is_brought(node.origin):
                continue
            if path in without:
                self.idle.setdefault(node.origin, (without[path], node))
            else:
                self.acting.add(node.origin)

    def take(self, other: Uses) -> None:
        """Takes what else was read into account."""
        self.acting |= other.acting
        for origin, entry in other.idle.items():
            self.idle.setdefault(origin, entry)

    def problems(self, besides: Iterable[str] = ()) -> Iterator[Problem]:
        """A problem for everything that acts nowhere, but for what is written in the files `besides`."""
        for origin, (entry, node) in self.idle.items():
            if origin not in self.acting and origin.file not in besides:
                message = f"this has no effect: {entry.rule.why}"
                yield origin.problem(message, document.plain(node), f"no value, or {entry.rule.needs}")


def is_brought(origin: Origin) -> bool:
    """Whether a value came with an endpoint that was named on the command line."""
    by_argument = (origin.file, origin.path) == ("arguments", "endpoint")  # of a single collective
    return by_argument or not BROUGHT.isdisjoint((origin.file, origin.path))


def written(tree: Node, path: tuple[str, ...]) -> Node | None:
    """The value at a path, if it was written."""
    node: Node | None = tree
    for key in path:
        node = node.entries.get(key) if isinstance(node, Mapping) else None
    return node
