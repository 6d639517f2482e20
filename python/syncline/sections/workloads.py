"""The fields of what is run: workloads and the training loop."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from syncline.base.errors import did_you_mean, one_of
from syncline.base.section import Section
from syncline.core import facts
from syncline.fabric.fields import (
    Accepted,
    Count,
    Rate,
    Size,
    SizeOrZero,
    SmallCount,
    Unread,
    Warps,
    refused,
    said_elsewhere,
)
from syncline.fabric.gpus import Precision, element_bytes, linear_bytes
from syncline.fabric.numbers import NUMBERS_ACCEPTED
from syncline.kernels import calibrated
from syncline.kernels.calibrated import Attention
from syncline.models import evaluate
from syncline.models import file as model_files
from syncline.models.model import Layout
from syncline.sections.collective import Kind
from syncline.sections.data_types import PrecisionOrTypes, Widths, compute_type

if TYPE_CHECKING:
    from syncline.models.form import ModelFile
    from syncline.models.model import Model
    from syncline.sections.graph_file import GraphFile

DEFAULT_ELEMENT: Final = 2
TEXT_ACCEPTED: Final = "the path of a file, relative to the experiment file"


class NamedModel(str):
    """The name or the path of a model; of a path, with what is in the file."""

    read: ModelFile | None = None

    @classmethod
    def of(cls, path: str, file: ModelFile) -> NamedModel:
        """The path of a file that has been read."""
        named = cls(path)
        named.read = file
        return named

    @property
    def file(self) -> ModelFile:
        """The model's file."""
        return self.read or model_files.by_name(str(self))


def _model(value: object) -> NamedModel:
    if isinstance(value, Unread):
        raise said_elsewhere()
    if isinstance(value, NamedModel):
        return value
    if not isinstance(value, str) or value not in model_files.packaged():
        known = model_files.packaged()
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise refused(f"no model is named so{hint}", model_accepted())
    return NamedModel(value)


def model_accepted() -> str:
    """What is accepted where a model is needed."""
    return f"the path of a model file ({one_of(model_files.SUFFIXES)}), or one of {one_of(model_files.packaged())}"


NamedModelField = Annotated[
    NamedModel,
    PlainValidator(_model),
    PlainSerializer(str, return_type=str),
    Accepted("the name of a model, or the path of a model file"),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 4096}),
]
ModelParameters = Annotated[dict[str, Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]], Field(max_length=100)]


class ModelWorkload(Section):
    """Training of a model."""

    model: NamedModelField
    """The model: the name of one that comes with the package, or the path of a model file (docs/models.md), relative to
    the experiment file."""
    parameters: ModelParameters = Field(default={})
    """Values for parameters of the model, where these are not what its file says."""
    batch: Count
    """Samples per NPU and iteration."""
    element: Size = DEFAULT_ELEMENT
    """Bytes of an activation, weight or gradient element; those of `precision` if that is given and this is not.
    Collectives are never cut finer."""
    precision: Precision | None = None
    """The data type of kernels, which determines the peak rate of a GPU. By default it follows from the bytes of an
    element: 1 `fp8`, 2 `fp16`, 4 `fp32` (`tf32` has to be chosen explicitly), 8 `fp64`, or the next wider type that the
    GPU has. `fp8` is the type of products of linear layers only, of their factors and their peak rate: attention, other
    kernels, weights, gradients, activations and messages are as with `bf16`."""
    kernels: Literal["all", "weighted"] = "all"
    """Which kernels take time: all of them, or only those of operators with weights (convolutions, fully connected and
    recurrent layers, attention, embeddings), as in simulators whose compute model has no others."""
    sequence: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Tokens of a sample, for models of sequences; as many as the model's file says, if not given."""
    layout: Layout = "nhwc"
    """How images lie in memory, for the kernels of a GPU: channels innermost (`channels_last` in PyTorch, with which
    tensor cores work at once) or outermost (PyTorch's default)."""

    @model_validator(mode="after")
    def _elements_of_the_precision(self) -> Self:
        if self.precision is not None and "element" not in self.model_fields_set:
            object.__setattr__(self, "element", element_bytes(self.precision))
        return self

    @property
    def compute_type(self) -> Precision | None:
        """The data type of kernels."""
        return self.precision

    @property
    def linear_element(self) -> int | None:
        """Bytes of an element of the factors of linear layers' products, if these have a data type of their own."""
        return linear_bytes(self.precision, self.element)

    @property
    def file(self) -> ModelFile:
        """The model's file."""
        return self.model.file

    @property
    def evaluated(self) -> Model:
        """The model for the batch of an NPU. Raises the errors of `evaluate.evaluate`."""
        sequence = self.sequence if self.file.has_sequence else None  # which has no effect, and is refused as such
        if self.file.is_packaged:
            return _packaged(str(self.model), self.batch, sequence, tuple(self.parameters.items()))
        return evaluate.evaluate(self.file, self.batch, sequence, self.parameters)

    @property
    def tokens(self) -> int | None:
        """Tokens of a sample; none where samples are no sequences."""
        return self.evaluated.tokens if self.file.has_sequence else None


@lru_cache(maxsize=256)
def _packaged(name: str, batch: int, sequence: int | None, parameters: tuple[tuple[str, int], ...]) -> Model:
    """A model that comes with the package, evaluated: an experiment asks for it many times."""
    return evaluate.evaluate(model_files.by_name(name), batch, sequence, dict(parameters))


class DividedWorkload(Section):
    """Training of a model with a given batch, which is divided as `parallel` says among all NPUs that take part."""

    model: NamedModelField
    """The model: the name of one that comes with the package, or the path of a model file (docs/models.md), relative to
    the experiment file."""
    parameters: ModelParameters = Field(default={})
    """Values for parameters of the model, where these are not what its file says."""
    global_batch: Count
    """Samples of an iteration over all NPUs together."""
    sequence: Annotated[int, Field(ge=1, le=2**24)] | None = None
    """Tokens of a sample, for models of sequences; as many as the model's file says, if not given."""
    element: Size = DEFAULT_ELEMENT
    """Bytes of an element of weights and activations; those of `precision` if that is given and this is not."""
    precision: PrecisionOrTypes | None = None
    """The data type of kernels, as for other models; or a mapping that says of weights, compute, gradients and states
    in which data types they are. Of a name alone, weights and gradients have the width of an element, and the
    optimiser keeps a copy of the weights and moments of four bytes each."""
    layout: Layout = "nhwc"
    """How images lie in memory, for the kernels of a GPU: channels innermost (`channels_last` in PyTorch, with which
    tensor cores work at once) or outermost (PyTorch's default)."""

    @model_validator(mode="after")
    def _elements_of_the_precision(self) -> Self:
        known = self.compute_type
        if known is not None and "element" not in self.model_fields_set:
            object.__setattr__(self, "element", element_bytes(known))
        return self

    @property
    def compute_type(self) -> Precision | None:
        """The data type of kernels."""
        return compute_type(self.precision)

    @property
    def widths(self) -> Widths:
        """Bytes of what is kept and exchanged for a parameter."""
        return Widths.of(self.precision, self.element)

    @property
    def linear_element(self) -> int | None:
        """Bytes of an element of the factors of linear layers' products, if these have a data type of their own."""
        return linear_bytes(self.compute_type, self.element)

    @property
    def file(self) -> ModelFile:
        """The model's file."""
        return self.model.file

    @property
    def evaluated(self) -> Model:
        """The model for one sample. Raises the errors of `evaluate.evaluate`."""
        return evaluate.evaluate(self.file, 1, self.sequence, self.parameters)


GRADIENTS: Final = 9
"""Where the collective of the gradients of weights stands in a line of a text workload; its bytes follow."""
ALL_REDUCED: Final = re.compile(r"ALLREDUCE ([0-9]{1,18})", re.ASCII)


class TextFile(str):
    """The path of a text workload that has been read."""

    kinds: tuple[str, ...] = ("all-reduce",)
    """The kinds of its collectives."""
    is_one_collective: bool = False
    """Whether it has no passes, and is there for the time of a collective (`MICRO`)."""
    gradient_bytes: int = 0
    """Bytes of the gradients of weights that an NPU all-reduces in an iteration."""

    @classmethod
    def of(cls, path: str, text: str) -> TextFile:
        """The path of a file with this text."""
        words = {"ALLREDUCE": "all-reduce", "ALLGATHER": "all-gather"}
        words |= {"ALLTOALL": "all-to-all", "REDUCESCATTER": "reduce-scatter"}
        found = {kind for word, kind in words.items() if re.search(rf"\s{word}\s", text)}
        file = cls(path)
        file.kinds = tuple(sorted(found)) or ("all-reduce",)
        file.is_one_collective = text.split(maxsplit=1)[:1] == ["MICRO"]
        if not file.is_one_collective:
            ends = (" ".join(line.split()[GRADIENTS : GRADIENTS + 2]) for line in text.splitlines())
            file.gradient_bytes = sum(int(match[1]) for match in map(ALL_REDUCED.fullmatch, ends) if match)
        return file


def _text_file(value: object) -> str:
    if isinstance(value, Unread):
        raise said_elsewhere()
    if not isinstance(value, str) or not 0 < len(value) <= 4096:
        raise refused("this names no file", TEXT_ACCEPTED)
    return value


class AstraWorkload(Section):
    """Training as an ASTRA-sim 1.0 text workload describes it, with that file's own compute times."""

    astra_text: Annotated[
        str,
        PlainValidator(_text_file),
        PlainSerializer(str, return_type=str),
        Accepted("text of up to 4096 characters"),
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 4096}),
    ]
    """The file, relative to the experiment file. Of other parallelism than that of data, it names model groups and data
    groups of NPUs, which follow from the topology."""
    element: Size = 4
    """Bytes of a gradient element; collectives are never cut finer."""


GRAPH_ACCEPTED: Final = (
    "the path of a JSON file with classes, families and nodes, or of a connection matrix of htsim, relative to the "
    "experiment file"
)


def _graph(value: object) -> Any:
    if hasattr(value, "engine_classes"):
        return value
    if isinstance(value, Unread):
        raise said_elsewhere()
    raise refused("this names no file", GRAPH_ACCEPTED)


class GraphWorkload(Section):
    """Graphs of compute and communication, for classes of NPUs, with families of communicators."""

    graph: Annotated[
        Any,
        PlainValidator(_graph),
        PlainSerializer(lambda graph: graph.file, return_type=str),
        Accepted(GRAPH_ACCEPTED),
        WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 4096}),
    ]
    """The file, relative to the experiment file: JSON, of which `syncline schema graph` prints the schema, or a
    connection matrix of htsim."""
    element: Size = DEFAULT_ELEMENT
    """Bytes of an element; collectives are never cut finer."""

    @property
    def file(self) -> GraphFile:
        """The file, read."""
        graph: GraphFile = self.graph
        return graph


class PlacedJob(Section):
    """A job among several: the training of a model on some of the NPUs."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _+-]{0,63}$")]
    """Its name."""
    npus: Annotated[list[Annotated[int, Field(ge=0)]] | str, Accepted(NUMBERS_ACCEPTED)]
    """Its NPUs, by rank; no other job has them."""
    workload: ModelWorkload
    """The model that it trains."""
    iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """How many iterations it has; by default as many as `training.iterations` says."""
    collective: dict[str, Any] = Field(default={})
    """How its collectives are carried out, where that is not as `collective` of the experiment says: with the same
    keys."""


class JobsWorkload(Section):
    """Several jobs on disjoint NPUs that share the fabric."""

    jobs: Annotated[list[PlacedJob], Field(min_length=1, max_length=100)]
    """The jobs. Each is also run alone, which tells how much the others slow it down."""

    @property
    def element(self) -> int:
        """Bytes of the smallest element of any job."""
        return min(job.workload.element for job in self.jobs)


def models_of(workload: AnyWorkload) -> list[ModelWorkload | DividedWorkload]:
    """The models that a run trains."""
    if isinstance(workload, JobsWorkload):
        return [job.workload for job in workload.jobs]
    return [workload] if isinstance(workload, ModelWorkload | DividedWorkload) else []


def is_distributed(workload: object) -> bool:
    """Whether a workload is a model that is too large for one NPU: hybrid parallelism, with its tables distributed."""
    return isinstance(workload, ModelWorkload) and workload.file.is_distributed


def has_sequence(workload: object) -> bool:
    """Whether a workload is a model whose samples are sequences."""
    return isinstance(workload, ModelWorkload | DividedWorkload) and workload.file.has_sequence


OF_SEQUENCES: Final = "a model of sequences, such as gnmt or gpt2"
OF_TABLES: Final = "a model with embedding tables, such as dlrm"
OF_ITSELF: Final = "a model without embedding tables, such as resnet50"


ROOTED: Final = facts.Names(lambda engine: (c.name for c in engine.collectives.values() if c.is_rooted))
"""Collectives with a root."""


class Load(Section):
    """Kernels that run beside a collective, on every NPU, for as long as it takes."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """The name of the kernel."""
    warps: Warps = 64.0
    """Warps of one of them on each SM."""
    memory_bandwidth: Rate | None = None
    """Main-memory bandwidth that one of them uses if it runs alone; none if not given."""
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """How many of them run at once."""


class CollectiveWorkload(Section):
    """A single collective of all NPUs, or of every group at once."""

    collective: Kind
    """Which."""
    size: SizeOrZero
    """The full vector, as nccl-tests counts it: the larger of what a rank, or the root, sends and receives."""
    root: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """The rank of the root of a broadcast, reduce, gather or scatter; 0 if not given, or the root of the plan."""
    element: Size = 2
    """Bytes of an element; nothing is cut finer."""
    beside: Annotated[list[Load], Field(max_length=16)] = Field(default=[])
    """Kernels that run beside the collective; only if the endpoint's `contention` is dynamic."""


AnyWorkload: TypeAlias = (
    "ModelWorkload | DividedWorkload | AstraWorkload | CollectiveWorkload | GraphWorkload | JobsWorkload"
)
DIVIDED_KINDS: Final = ("all-gather", "all-reduce", "all-to-all", "broadcast", "reduce", "reduce-scatter")
"""The kinds of collectives that some division of a model has."""


def kinds_of(workload: AnyWorkload) -> list[str]:
    """The kinds of collectives that a run has."""
    if isinstance(workload, JobsWorkload):
        return sorted({kind for job in workload.jobs for kind in kinds_of(job.workload)})
    if isinstance(workload, GraphWorkload):
        return workload.file.kinds
    if isinstance(workload, DividedWorkload):
        return list(DIVIDED_KINDS)
    if isinstance(workload, CollectiveWorkload):
        return [workload.collective]
    if isinstance(workload, AstraWorkload) and isinstance(workload.astra_text, TextFile):
        return list(workload.astra_text.kinds)
    return ["all-reduce", "all-to-all"] if is_distributed(workload) else ["all-reduce"]


class Straggler(Section):
    """An NPU that computes more slowly than the others."""

    npu: Annotated[int, Field(ge=0)]
    """Which."""
    factor: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
    """Factor on its compute times; 1.5 takes half as long again."""


Fusion = Literal["eager", "compile", "megatron"]
Loss = Literal["eager", "fused"]


class Training(Section):
    """The training loop."""

    strategy: Literal["data-parallel", "hybrid"] | None = None
    """How the model is distributed: a copy on every NPU, or copies of the MLPs with the embedding tables distributed;
    by default what the model needs, which is `hybrid` for DLRM."""
    iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """How many iterations are simulated: 2 if nothing is said, or 1 of a graph of a file, and of a
    model with `workload.global_batch`."""
    overlap: bool = True
    """Issue collectives as gradients become ready; `false` issues them together after back-propagation."""
    bucket: Size | None = None
    """Gradients are all-reduced together in buckets of layers that follow one another, each full once it has so many
    bytes, as in PyTorch's DistributedDataParallel (25 MiB there); layer by layer, if not given."""
    first_bucket: Size | None = None
    """The same for the bucket of the first layers, whose gradients come last (1 MiB there); by default like the
    others."""
    barrier: bool = False
    """Whether an iteration ends with one step of an optimiser that updates all weights when all gradients are reduced
    (PyTorch); `false` lets each layer's next forward pass wait for its own gradients only, and the layer's weights are
    updated then."""
    tail: Literal["stop", "drain"] | None = None
    """What happens to what is in flight when back-propagation ends for the last time: `stop` ends the run, `drain`
    waits for it, and weights are updated by it; by default a run stops, but graphs of files and models with
    `workload.global_batch` are run to their last node, and text workloads with `MICRO`, which have no passes, to the
    end of their collective."""
    update: bool = True
    """Whether weight updates cost compute time, and states of an optimiser memory: those of stochastic gradient descent
    with momentum, or of the optimiser in `parallel` for a model with `workload.global_batch`."""
    kernels: Fusion = "eager"
    """Whose kernels an NPU runs, with the compute model of a GPU: those of PyTorch as it is, of `torch.compile`, or of
    Megatron-LM. It decides what is fused, and in which types losses are computed."""
    launch: Literal["host", "graph"] = "host"
    """Who launches kernels: the host, one by one (`npu.host_kernel_time`), or a CUDA graph."""
    attention: Attention | None = None
    """Which library computes attention: FlashAttention 1 (that of Triton is as fast), 2 or 3, cuDNN, or products and a
    softmax whose scores go through memory (`unfused`). If not given, what PyTorch's `scaled_dot_product_attention`
    takes on the GPU, for models whose attention is fused."""
    loss: Loss = "eager"
    """How cross-entropy is computed: by a softmax and the loss of its result, with logits that are cast to FP32 if
    anything of the training is in FP32 (`eager`), or by one kernel that takes logits as they are and keeps nothing else
    (`fused`, as of FlashAttention). Logits are often what a training of language models needs most memory for."""
    background_embedding: bool = False
    """Look up embeddings for the next iteration, and apply the gradients of the previous one, in the background: beside
    the training loop, on resources that are taken from compute."""
    background_sms: SmallCount = 1
    """SMs for the embeddings in the background."""
    background_memory_bandwidth: Rate = 80 * 10**9
    """Main-memory bandwidth for the embeddings in the background."""
    stragglers: Annotated[list[Straggler], Field(max_length=100_000)] = Field(default=[])
    """NPUs that compute more slowly."""
    compute_scale: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    """Factor on every compute time, those of a text workload included; a fitted value is declared under
    `calibration`."""

    def attention_of(self, gpu: str | None) -> Attention:
        """The library that computes fused attention on a GPU."""
        return self.attention or calibrated.LIBRARIES.get(gpu or "", ("flash2",))[0]

    def meaning_of_nothing(self, name: str) -> str:
        """What a field comes to that is not given."""
        return {"attention": "that of PyTorch", "bucket": "one layer", "first_bucket": "training.bucket"}.get(
            name, "auto"
        )
