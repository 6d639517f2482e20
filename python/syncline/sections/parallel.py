"""How the training of a model is divided among NPUs: the section `parallel` of an experiment.

What the fields mean together is checked by `strategies.checks`, which knows the model and the number of NPUs.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from syncline.base.section import Section
from syncline.fabric.fields import Accepted, refused

Axis = Literal["tensor", "context", "data", "pipeline"]
GridAxis = Literal["tensor", "context", "expert", "data", "pipeline"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "pipedream"]
FamilyName = Literal["tensor", "context", "expert", "data", "replica", "expert-data", "pipeline", "embedding"]
Ways = Annotated[int, Field(ge=1, le=1_048_576)]

USUAL_ORDER: Final[tuple[Axis, ...]] = ("tensor", "context", "data", "pipeline")


MOVED: Final = ("gradient", "master", "moment")
"""Keys of earlier versions, in place of which `workload.precision` has data types."""
FORMER: Final = {"master": "4B", "moment": "4B"}
"""What resolved experiments of earlier versions have of them; a name as precision still means it."""
MOVED_ACCEPTED: Final = (
    "kind and implementation here, and in workload a precision such as "
    "{weights: bf16, compute: bf16, gradients: fp32, states: fp32}"
)


def moved(stated: list[str]) -> str:
    """What says the same as keys of earlier versions."""
    types = {"gradient": "gradients", "master": "states", "moment": "states"}
    named = ", ".join(dict.fromkeys(types[name] for name in stated))
    copy = "; a copy of the weights is kept if states are wider than weights" if "master" in stated else ""
    return f"workload.precision says this, as data types ({named}){copy}"


TORCHTITAN: Final = "torchtitan"
RECOMPUTED: Final = "torchtitan, or a list of modules of Megatron-LM, kinds or names of operators"
MOST_LISTED: Final = 100


def _recomputed(value: object) -> object:
    is_list = isinstance(value, list | tuple) and 0 < len(value) <= MOST_LISTED
    if value == TORCHTITAN or (is_list and all(isinstance(entry, str) and entry for entry in value)):  # type: ignore[attr-defined]
        return value
    raise refused("this is no list of operators", RECOMPUTED)


RecomputedOperators = Annotated[
    str | list[str],
    PlainValidator(_recomputed),
    Accepted(RECOMPUTED),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "const": TORCHTITAN},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_LISTED},
            ]
        }
    ),
]


class Optimiser(Section):
    """The optimiser. The data types of gradients, states and weights are those of `workload.precision`."""

    kind: Literal["adam", "sgd"] = "adam"
    """`adam` keeps two moments, `sgd` one (momentum)."""
    implementation: Literal["fused", "foreach"] | None = None
    """Its kernels, as PyTorch has them: one for all that is done to a parameter, or one for each operation on a list of
    tensors, with temporary tensors in between. If not given, what `training.kernels` take by default: `foreach` in
    PyTorch, `fused` in Megatron-LM, and wherever kernels are those of no framework."""

    @model_validator(mode="before")
    @classmethod
    def _without_bytes(cls, value: Any) -> Any:
        if isinstance(value, dict) and FORMER.items() <= value.items() and value.keys() == {"kind", *FORMER}:
            return {"kind": value["kind"]}
        if isinstance(value, dict) and (stated := [name for name in MOVED if name in value]):
            raise refused(moved(stated), MOVED_ACCEPTED)
        return value

    @property
    def moments(self) -> int:
        """How many moments are kept of a parameter."""
        return 2 if self.kind == "adam" else 1


class Overlap(Section):
    """What is communicated beside compute; `training.overlap` says so of gradients and of weights."""

    tensor: bool = True
    """Exchange of an input's gradient at the entrance of a tensor-parallel region beside the gradient of that
    operator's weights, as Megatron-LM does. All else that tensor parallelism exchanges is waited for."""
    pipeline: bool = True
    """Sends between stages beside the compute that follows; `false` waits until a message has left."""


class Parallel(Section):
    """How a model with `workload.global_batch` is divided. Ways multiply to the NPUs of the topology."""

    @model_validator(mode="before")
    @classmethod
    def _without_host(cls, value: Any) -> Any:
        if isinstance(value, dict) and "dispatch" in value:
            if value["dispatch"] in (0, "0s"):  # of resolved experiments of earlier versions
                return {name: given for name, given in value.items() if name != "dispatch"}
            raise refused("what a host takes for a kernel is npu.host_kernel_time", "npu: {host_kernel_time: 10us}")
        return value

    tensor: Ways = 1
    """Tensor parallelism: NPUs among which operators are divided (Shoeybi et al., "Megatron-LM", 2019)."""
    sequence: bool = False
    """Sequence parallelism: what tensor parallelism leaves whole is divided by tokens among the same NPUs (Korthikanti
    et al., 2022)."""
    context: Ways = 1
    """Context parallelism: NPUs among which the tokens of a sample are divided."""
    context_exchange: Literal["ring", "all-gather"] = "ring"
    """How attention sees the keys and values of other NPUs: blocks go around a ring while attention to the one at hand
    is computed (Liu et al., "Ring Attention", 2023), or all are gathered first."""
    expert: Ways = 1
    """Expert parallelism: NPUs among which experts are divided; these are data-parallel for all else, so this divides
    `data`."""
    expert_loads: Annotated[
        list[Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]], Field(max_length=1024)
    ] = Field(default=[])
    """Relative shares of tokens that go to the experts of each of the `expert` NPUs; equal if not given."""
    pipeline: Ways = 1
    """Pipeline parallelism: stages, each with as many blocks of layers as any other. Where the blocks are one or two
    short of that, the last stage, or the last and the first one, have one block less."""
    virtual: Ways = 1
    """Chunks of layers of a stage in an interleaved schedule (Narayanan et al., SC 2021, section 2.2)."""
    schedule: Schedule = "1f1b"
    """In which order a stage computes. `gpipe`: all forward passes, then all backward ones (Huang et al., 2019).
    `1f1b`: alternately, with a flush at the end of an iteration (PipeDream-flush). `interleaved`: the same with several
    chunks of layers in each stage. `pipedream`: alternately and without a flush, with an update after each
    micro-batch, on weights that are stashed (Narayanan et al., "PipeDream", SOSP 2019)."""
    data: Ways | None = None
    """Data parallelism: copies of the model, each with its share of the batch; all that is left if not given."""
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    """Stage of ZeRO: what data-parallel NPUs divide. 1: states of the optimiser, 2: gradients too, 3: weights too: this
    is fully sharded data parallelism (FSDP). A single copy of the model has nobody to divide anything with."""
    hsdp: Annotated[int, Field(ge=2, le=1_048_576)] | None = None
    """Data-parallel NPUs among which ZeRO divides what it divides, neighbours by number: hybrid sharding (HSDP), with
    copies of all parts in as many groups as there are. Within a group weights are gathered and gradients
    reduce-scattered; the parts are then all-reduced between the groups. All NPUs that have copies if not given."""
    prefetch: Annotated[int, Field(ge=0, le=1024)] = 1
    """Layers ahead of the one computed whose weights are gathered, with ZeRO 3."""
    micro_batch: Ways = 1
    """Samples of a micro-batch, of which a copy of the model computes one after the other."""
    recompute: Literal["none", "selective", "full", "operators"] = "none"
    """What is computed again in the backward pass instead of being kept: the core of attention (`selective`), whole
    layers (`full`), or what `recompute_operators` lists."""
    recompute_operators: RecomputedOperators = TORCHTITAN
    """What is computed again with `recompute: operators`. `torchtitan`: all of a block but attention, every second
    matrix product, reduce-scatters and all-to-alls. Or a list, each entry a module of Megatron-LM (`core_attn`,
    `moe_act`, `layernorm`, `mla_up_proj`, `mlp`, `moe`, `shared_experts`), a kind of operators or the name of one."""
    scatter_gather: bool = False
    """Whether tensor-parallel NPUs send a part each of an activation between stages that all of them hold, which
    receivers gather again (Narayanan et al., SC 2021, section 4.1). Sequence parallelism sends parts anyway."""
    order: Annotated[list[Axis], Field(min_length=4, max_length=4)] = Field(default=list(USUAL_ORDER))
    """Which axis is innermost: along the first one NPUs are neighbours by number, so within a server. Experts are
    inside `data`."""
    on: dict[GridAxis, Annotated[list[Annotated[int, Field(ge=0, le=31)]], Field(min_length=1, max_length=32)]] = Field(
        default={}
    )
    """The dimensions of a product topology that an axis takes, in place of `order` and of sizes: `{tensor: [0], data:
    [1, 2]}`. Those of `expert` are beside those of `data`."""
    parameter_server: Literal["none", "central", "sharded"] = "none"
    """Who updates weights: all copies, after collectives; the first NPU of a data-parallel group, to which the others
    send gradients and from which they get weights (`central`); or each NPU of the group its part (`sharded`)."""
    updates: Literal["synchronous", "asynchronous"] = "synchronous"
    """Whether a parameter server waits for the gradients of all, or answers each as it comes."""
    optimiser: Optimiser = Optimiser()
    """The optimiser."""
    overlap: Overlap = Overlap()
    """What is communicated beside compute."""
    collectives: dict[FamilyName, dict[str, Any]] = Field(default={})
    """How collectives of single axes are carried out, where that is not as `collective` says: with the same keys."""
