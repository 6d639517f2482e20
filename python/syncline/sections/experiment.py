"""The fields of an experiment, with their defaults. Nothing else in the package knows a default.

Quantities carry units (`64KiB`, `25GB/s`, `90cycles@1245MHz`) and arrive here as integers in the engine's
units: bytes, bytes per second, picoseconds, hertz, FLOP/s.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from syncline.base import described, quantities
from syncline.base.section import Section
from syncline.fabric import topologies, topology
from syncline.fabric.fields import (
    GpusText,
    GroupsText,
    Rate,
    Share,
    Time,
    TimeOrZero,
    Unread,
    refused,
    said_elsewhere,
)
from syncline.fabric.gpus import Precision
from syncline.fabric.groups import Members
from syncline.fabric.topologies import Fabric, Wired
from syncline.plans.planned import PlanFile
from syncline.sections import endpoints, networks
from syncline.sections.collective import EXCHANGE, Collective
from syncline.sections.endpoints import Endpoint, Transit
from syncline.sections.networks import Network
from syncline.sections.npu import Npu, completed
from syncline.sections.packed import MIAD, PACKED
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import (
    AstraWorkload,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    ModelWorkload,
    TextFile,
    Training,
    is_distributed,
    kinds_of,
    models_of,
)

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9 _+-]{0,63}$"
NAME_ACCEPTED: Final = "up to 64 letters, digits, spaces and _ + -, starting with a letter or digit"


class SlowLink(Section):
    """A link of a product topology, in one direction, that differs from the others of its dimension."""

    npu: Annotated[int, Field(ge=0)]
    """The NPU that sends through it."""
    dim: Annotated[int, Field(ge=0, le=31)]
    """Its dimension."""
    way: Annotated[str, Field(pattern=r"^(up|down|switch|\+[1-9][0-9]{0,5})$")]
    """Where it leads: `up` or `down` a ring, to the `switch`, or `+k` coordinates across a fully connected group."""
    parallel: Annotated[int, Field(ge=0, le=4095)] = 0
    """Which of the parallel links."""
    rate: Rate
    """Payload rate."""
    latency: TimeOrZero | None = None
    """Latency; that of the dimension if not given."""


class Calibration(Section):
    """A declared fitted constant."""

    fitted_on: Annotated[str, Field(min_length=1, max_length=200)]
    """The one claim or measurement that the constant was fitted on."""
    variants: Annotated[list[str], Field(max_length=1000)] = Field(default=[])
    """The variants that the constant is for; all of them if none is named."""
    note: Annotated[str, Field(max_length=1000)] = ""
    """Anything else a reader should know."""


class Output(Section):
    """What is recorded."""

    window: Time | None = None
    """Length of the windows for which utilisation is recorded, doubled in long runs. If it is not given, a run has 200
    to 400 windows, and a long one windows of 0.8 us."""
    trace_npus: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=64)] = Field(default=[0])
    """NPUs whose activity is traced; of those that take part the first, if nothing is stated."""
    trace_limit: Annotated[int, Field(ge=0, le=10_000_000)] = 200_000
    """The most spans of activity that are traced; of messages and of busy spans of links, a twentieth of it each."""


def _workload_tag(value: Any) -> str | None:
    known = ("global_batch", "model", "astra_text", "collective", "graph", "jobs")
    return next((k for k in known if (k in value if isinstance(value, dict) else hasattr(value, k))), None)


class Dimension(Section):
    """A dimension of a topology that is written as a mapping."""

    block: Literal["Ring", "FullyConnected", "Switch"] = "Ring"
    """What connects the NPUs along the dimension."""
    size: Annotated[int, Field(ge=1, le=topology.MAX_NPUS)]
    """NPUs along the dimension."""
    rate: Rate = topology.DEFAULT_RATE
    """Rate of one link and direction, on the wire."""
    latency: TimeOrZero = topology.DEFAULT_LATENCY
    """Latency of one link."""
    links: Annotated[int, Field(ge=1, le=topology.MAX_LINKS)] = topology.DEFAULT_LINKS
    """Parallel links per direction and neighbour, or to the switch."""
    efficiency: Share = topology.DEFAULT_EFFICIENCY
    """The share of the rate that payload gets."""


class Dimensions(Section):
    """A topology as a mapping: its dimensions, the first one innermost."""

    dims: Annotated[list[Dimension], Field(min_length=1, max_length=32)]
    """The dimensions."""

    def as_topology(self) -> topology.Topology:
        """The topology."""
        return topology.checked(
            [
                topology.Dimension(
                    topology.BLOCKS[dim.block],
                    dim.size,
                    dim.rate,
                    dim.latency,
                    dim.links,
                    dim.efficiency,
                    frozenset(topology.PARAMETERS) - dim.model_fields_set,
                )
                for dim in self.dims
            ]
        )


class TopologyFile(Section):
    """A topology in a file: NCCL's XML, what `nvidia-smi topo -m` prints, or nodes and links in YAML or JSON."""

    file: Annotated[str, Field(min_length=1, max_length=4096)]
    """The file, relative to the experiment file."""
    pcie_rate: Rate | None = None
    """What a PCIe link has on the wire, each direction, where a file of GPUs does not say it; by default as much as the
    PCIe of the GPU, if it is known, or else of the third generation."""


def _topology(value: object) -> Fabric:
    if isinstance(value, topology.Topology | Wired):
        return value
    if isinstance(value, Unread):
        raise said_elsewhere()
    try:
        if isinstance(value, dict):
            if "file" in value:
                TopologyFile.model_validate(value)
            return Dimensions.model_validate(value).as_topology()
        if isinstance(value, str):
            return topologies.parse(value)
    except topology.TopologyError as error:
        raise refused(error.message, error.accepted) from None
    raise refused("this is not a topology", topologies.ACCEPTED)


def _topology_text(value: Fabric) -> Any:
    if not isinstance(value, Wired) or value.file is None:
        return str(value)
    stated = {} if value.pcie_rate is None else {"pcie_rate": quantities.RATE.format(value.pcie_rate)}
    return {"file": value.file, **stated}


_DIMENSIONS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The dimensions as a list of mappings with block, size, rate, latency, links and efficiency.",
    "properties": {"dims": {"type": "array", "items": described.json_schema(Dimension), "minItems": 1}},
    "required": ["dims"],
    "additionalProperties": False,
}

_FILE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": TopologyFile.__doc__,
    "properties": described.json_schema(TopologyFile)["properties"],
    "required": ["file"],
    "additionalProperties": False,
}

TopologyField = Annotated[
    Fabric,
    PlainValidator(_topology),
    PlainSerializer(_topology_text),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "description": topologies.ACCEPTED}, _DIMENSIONS_SCHEMA, _FILE_SCHEMA]}
    ),
]

Workload = Annotated[
    Annotated[ModelWorkload, Tag("model")]
    | Annotated[DividedWorkload, Tag("global_batch")]
    | Annotated[AstraWorkload, Tag("astra_text")]
    | Annotated[CollectiveWorkload, Tag("collective")]
    | Annotated[GraphWorkload, Tag("graph")]
    | Annotated[JobsWorkload, Tag("jobs")],
    Discriminator(_workload_tag),
]

BESIDE_NCCL: Final = frozenset({"auto", PACKED, "in-switch"})
"""Algorithms of collectives that the links or switches decide about, not NCCL."""


class Experiment(Section):
    """One simulation: a variant of an experiment file with everything filled in."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    """Name of the experiment; of the variant, once variants are told apart."""
    description: Annotated[str, Field(max_length=10_000)] = ""
    """A text for readers."""
    topology: TopologyField
    """The fabric."""
    gpus: GpusText = None
    """The GPUs of a machine, network of switches or topology file that take part; the others do not even forward."""
    groups: GroupsText = None
    """Groups that run every collective side by side; by default all NPUs that take part are one group."""
    slow_links: Annotated[list[SlowLink], Field(max_length=100_000)] = Field(default=[])
    """Links of a product topology that have a lower rate, or more latency, than their dimension says."""
    npu: Npu = Npu()
    """The NPU."""
    network: Network = networks.USUAL
    """The network model. Where it is not given, a single collective and a training on GPUs of a machine are simulated
    as flows, all else in packets."""
    workload: Workload
    """What is run."""
    parallel: Parallel = Parallel()
    """How a model with `workload.global_batch` is divided among the NPUs."""
    training: Training = Training()
    """The training loop; there is none with a single collective."""
    collective: Collective = Collective()
    """How collectives are carried out."""
    endpoint: Endpoint = endpoints.USUAL
    """What a message costs at an NPU. If not given, a training on GPUs that are known (a machine, or `npu.gpu`) has
    `nccl`, unless `collective` has plans or an algorithm that NCCL has not: `packed-trees`, `in-switch`, or `auto`,
    which takes the fastest one on the links. Everything else has `ideal`."""
    calibration: dict[str, Calibration] = Field(default={})
    """Fitted constants: the path of a field, and what it was fitted on."""
    fold: Literal["auto", "on", "off"] = "auto"
    """Whether NPUs that are alike are simulated once, which changes no result. `auto`: where that is exact; `on`:
    always, and a run for which it is not exact is refused; `off`: never."""
    output: Output = Output()
    """What is recorded."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for section, value in completed(self.topology.gpu, self.npu, self.workload, self.endpoint).items():
            object.__setattr__(self, section, value)
        if "endpoint" not in self.model_fields_set and self._trains_gpus:
            object.__setattr__(self, "endpoint", endpoints.OF_GPUS)
        own = dict(self.endpoint.IN_EXPERIMENTS)
        if isinstance(self.workload, CollectiveWorkload):
            own |= self.endpoint.usual_collective(self.workload.collective) | dict(self.network.IN_COLLECTIVES)
            if self.plan_of(self.workload.collective) is not None:
                own |= {"chunks": 1}  # a plan says itself how data is cut
        if own:
            object.__setattr__(self, "collective", self.collective.completed(own))
        if "network" not in self.model_fields_set and self._has_flows:
            object.__setattr__(self, "network", networks.FlowNetwork())
        if self._exchanges_directly:
            object.__setattr__(self, "collective", self.collective.with_direct_exchanges())
        return self

    @property
    def _trains_gpus(self) -> bool:
        """Whether a model is trained on GPUs that are known, whose collectives are NCCL's unless something is stated
        that NCCL does not have: plans, packed trees, sums in switches, or the fastest algorithm on the links.
        """
        if not isinstance(self.workload, ModelWorkload | DividedWorkload | JobsWorkload) or self.npu.gpu is None:
            return False
        given = self.collective
        return not given.plan and not {given.algorithm, *given.algorithms.values()} & BESIDE_NCCL

    @property
    def _has_flows(self) -> bool:
        """Whether messages are flows where the experiment names no network: those of a single collective, and those of
        GPUs, whose packets would make a training long to simulate. An engine that works on packets has them.
        """
        is_single = isinstance(self.workload, CollectiveWorkload)
        return (is_single or self.topology.gpu is not None) and not self.endpoint.streams

    @property
    def _exchanges_directly(self) -> bool:
        """Whether there may be all-to-alls whose messages to any NPU pass switches alone, so that whoever relays them
        by way of other NPUs only loads the same links several times; or which go as NCCL's do. Of nothing but
        all-to-alls, switch offload has nothing to add, and would look for one switch between all ranks.
        """
        joined_by_switches = isinstance(self.topology, Wired) and self.topology.is_joined_by_switches
        if not joined_by_switches and not self.endpoint.is_priced:
            return False
        kinds = kinds_of(self.workload)
        alone = kinds == [EXCHANGE] and self.endpoint.adds_in_switches
        return EXCHANGE in kinds and not alone and self.plan_of(EXCHANGE) is None

    def plan_of(self, kind: str) -> PlanFile | None:
        """The plan that takes the place of the algorithm of a kind of collectives."""
        return next((plan for plan in self.collective.plan if plan.kind == kind), None)

    @property
    def followers(self) -> list[str]:
        """The kinds of collectives that have neither a plan nor an algorithm of their own."""
        own = self.collective.algorithms
        return [kind for kind in kinds_of(self.workload) if kind not in own and self.plan_of(kind) is None]

    @property
    def is_all_planned(self) -> bool:
        """Whether there are plans, and what they leave has algorithms of its own."""
        return bool(self.collective.plan) and not self.followers

    @property
    def has_open_algorithm(self) -> bool:
        """Whether the algorithm of all kinds that have none of their own is still to be chosen."""
        if self.collective.algorithm != "auto":
            return False
        is_known = bool(self.collective.plan) or isinstance(self.workload, CollectiveWorkload)
        return bool(self.followers) or not is_known

    @property
    def open_kinds(self) -> list[str]:
        """The kinds of collectives whose own algorithm is still to be chosen."""
        own = self.collective.algorithms
        return [kind for kind, name in own.items() if name == "auto" and self.plan_of(kind) is None]

    @property
    def has_open_algorithms(self) -> bool:
        """Whether `auto` has to be settled before it can run."""
        return self.has_open_algorithm or bool(self.open_kinds)

    @property
    def has_open_slices(self) -> bool:
        """Whether the size of slices has to be found before it can run."""
        return self.collective.slices == MIAD

    @property
    def lanes(self) -> str:
        """How lanes are used, in the light of the algorithm."""
        return self.lanes_of(self.collective)

    def lanes_of(self, collective: Collective) -> str:
        """How lanes are used where collectives are carried out so."""
        one_way = collective.algorithm == "ring-unidirectional" and not self.is_all_planned
        return "one" if one_way else collective.lanes

    @property
    def root(self) -> int:
        """The rank of the root of a single collective: as stated, or as its plan has it."""
        if not isinstance(self.workload, CollectiveWorkload):
            return 0
        plan = self.plan_of(self.workload.collective)
        return self.workload.root or (0 if plan is None else plan.root or 0)

    @property
    def contents(self) -> list[str]:
        """What is in the files of the fabric and of plans, in short: it tells experiments apart."""
        graphs = [self.workload.file.content] if isinstance(self.workload, GraphWorkload) else []
        models = [workload.file.content for workload in models_of(self.workload) if not workload.file.is_packaged]
        table = self.npu.compute.measured
        tables = [] if table is None else [table.content]
        files = [*(plan.content for plan in self.collective.plan), *graphs, *models, *tables]
        software = getattr(self.endpoint, "software", None)
        files += [] if software is None else [software.content]
        return [self.topology.content.hex(), *(sha256(content).hexdigest() for content in files)]

    @property
    def transit(self) -> Transit:
        """Who forwards what is for distant NPUs."""
        if self.endpoint.chosen_transit is not None:
            return self.endpoint.chosen_transit
        topology = self.topology
        through_npus = not isinstance(topology, Wired) and topology.forwards and not topology.has_switches
        return "endpoint" if through_npus else "network"

    @property
    def shares(self) -> bool:
        """Whether compute and communication share the NPU while both run."""
        return self.endpoint.shares

    @property
    def members(self) -> Members | None:
        """The groups by NPU, or None if all NPUs are one. Raises `GroupError` or `AllocationError`."""
        return topologies.members(self.topology, self.gpus, self.groups)

    @property
    def ranks(self) -> int:
        """NPUs of a group."""
        members = self.members
        return self.topology.npus if members is None else len(members[0])

    @property
    def taking_part(self) -> int:
        """NPUs of all groups."""
        members = self.members
        return self.topology.npus if members is None else len(members) * len(members[0])

    @property
    def grid(self) -> list[int]:
        """The ranks of a group as the engine sees them: NPUs along each dimension, the innermost first."""
        return topologies.grid(self.topology, self.members)

    @property
    def fabric(self) -> Fabric:
        """The topology as those who take part see it."""
        return self.topology.narrowed(self.members)

    @property
    def traced(self) -> list[int]:
        """The NPUs whose activity is traced: those that are stated, or the first that takes part."""
        members = self.members
        if members is None or "trace_npus" in self.output.model_fields_set:
            return self.output.trace_npus
        return [members[0][0]]

    @property
    def strategy(self) -> str:
        """How the model is distributed."""
        return self.training.strategy or ("hybrid" if is_distributed(self.workload) else "data-parallel")

    @property
    def iterations(self) -> int:
        """How many iterations are simulated."""
        return self.training.iterations or (1 if self.is_graph else 2)

    @property
    def tail(self) -> Literal["stop", "drain"]:
        """What happens to what is in flight when compute ends."""
        return self.training.tail or ("drain" if self.is_graph or self._is_one_collective else "stop")

    @property
    def _is_one_collective(self) -> bool:
        """Whether a text workload has nothing but a collective."""
        text = self.workload.astra_text if isinstance(self.workload, AstraWorkload) else None
        return isinstance(text, TextFile) and text.is_one_collective

    @property
    def precision(self) -> Precision | None:
        """What the peak rate of the NPU is for; None where it is no matter of data types, or of no use."""
        model = self.workload.jobs[0].workload if isinstance(self.workload, JobsWorkload) else self.workload
        return model.compute_type if isinstance(model, ModelWorkload | DividedWorkload) else None

    @property
    def is_graph(self) -> bool:
        """Whether there are graphs of classes of NPUs, with families of communicators."""
        return isinstance(self.workload, GraphWorkload | DividedWorkload)

    @property
    def is_training(self) -> bool:
        """Whether a training loop is run, rather than one collective."""
        return not isinstance(self.workload, CollectiveWorkload)
