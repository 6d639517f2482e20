"""Models as lists of layers of operators with shapes, before anything is divided among NPUs.

A model file (`models.file`) is evaluated for a micro-batch and gives a [`Model`]. Strategies divide its operators
(`Operator.divided`); the engine alone says what an operator asks of an NPU (`models.demands`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

Axis = Literal["tensor", "sequence", "expert"]
"""What divides an operator's sizes: tensor parallelism, the sequence parallelism that goes with it, expert parallelism.
Context parallelism divides the tokens of all operators alike, and data parallelism the samples."""

Layout = Literal["nhwc", "nchw"]
"""How images lie in memory: channels innermost, or outermost."""

AXES: Final[tuple[Axis, ...]] = ("tensor", "sequence", "expert")


TOGETHER: Final[Mapping[str, str]] = {"heads": "kv_heads"}
"""Sizes that are divided whenever another one is: heads of keys and values go with the heads of queries."""


class DivisionError(ValueError):
    """A size of an operator that cannot be divided evenly: the message names operator, size and ways."""

    def __init__(self, operator: str, size: str, value: int, ways: int, axis: str) -> None:
        super().__init__(f"{operator}: {size} {value} cannot be divided by {ways} ({axis} parallelism)")
        self.size = size
        """The name of the size."""
        self.value = value
        self.ways = ways


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a layer, for one micro-batch."""

    name: str
    """Its name within the layer, such as `attention.output`."""
    kind: str
    """What it does: a name that the engine knows (`linear`, `attention`, `layer-norm`, ...)."""
    sizes: Mapping[str, int]
    """Its sizes by name, all that the kind has: of `linear` `rows`, `inputs`, `outputs`, `bias` (0 or 1)."""
    split: Mapping[Axis, str] = field(default_factory=dict)
    """The size that an axis divides; `kv_heads` is divided with `heads`. What is missing is not divided: it is computed
    whole by all NPUs of that axis. An empty name is for what works between divided operators, on whatever rows these
    have: the activation function between the matrix products of experts."""

    def divided(self, ways: Mapping[Axis, int]) -> Operator:
        """The part of one of so many NPUs along each axis.

        Raises [`DivisionError`] if a size cannot be divided evenly.
        """
        sizes = dict(self.sizes)
        for axis, size in self.split.items():
            number = ways.get(axis, 1)
            for each in (size, TOGETHER.get(size, "")):
                if sizes.get(each, 0) % number:
                    raise DivisionError(self.name, each, sizes[each], number, axis)
                if each in sizes:
                    sizes[each] //= number
        return replace(self, sizes=sizes)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: what pipeline stages, recomputation, and sharded data parallelism treat as a whole.

    Regions of it are divided by tensor parallelism: neighbouring operators whose `split` has `tensor`. Activations
    enter and leave such a region whole, which is where its NPUs communicate (Shoeybi et al., "Megatron-LM", section 3).
    """

    name: str
    """Its name, unique within the model, such as `block.17`."""
    operators: tuple[Operator, ...]
    """In the order of the forward pass."""
    block: bool = True
    """Whether it is one of the equal blocks that stages of a pipeline are made of; embeddings and heads are not, they
    go with the first and the last block."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model, evaluated for a micro-batch."""

    name: str
    layers: tuple[Layer, ...]
    """In the order of the forward pass."""
    tokens: int
    """Tokens of a sample (its sequence length), or 1 where samples are not sequences."""
    samples: int
    """Samples of the micro-batch."""
    hidden: int
    """Elements of an activation between layers for each token, which is what pipeline stages send; 0 where layers
    differ (then the last operator of a layer says it)."""
    tied: tuple[tuple[str, str], ...] = ()
    """Pairs of layers that share weights, such as the embedding and the head of GPT: where they are in different
    pipeline stages, both have a copy, and their gradients are all-reduced."""


def with_attention(model: Model, *, fused: bool) -> Model:
    """A model whose attention is one kernel, or products and a softmax whose scores go through memory."""
    known: dict[int, tuple[Operator, ...]] = {}

    def of(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        if id(operators) not in known:
            known[id(operators)] = tuple(
                replace(o, sizes={**o.sizes, "fused": int(fused)}) if o.kind == "attention" else o for o in operators
            )
        return known[id(operators)]

    return replace(model, layers=tuple(replace(layer, operators=of(layer.operators)) for layer in model.layers))


def has_kind(model: Model, kind: str) -> bool:
    """Whether a model has operators of a kind."""
    return any(operator.kind == kind for layer in model.layers for operator in layer.operators)
