"""What a model file says, as it was read: expressions in place of numbers, and where everything was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from syncline.base.document import Origin
from syncline.models.expressions import Expression
from syncline.models.model import Axis

SUM: Final = "embedding-sum"
"""The kind of operators that look up tables which are distributed."""


@dataclass(frozen=True, slots=True)
class Number:
    """An expression at its place."""

    expression: Expression
    origin: Origin


@dataclass(frozen=True, slots=True)
class Name:
    """A name with expressions in braces: `layer{stage + 1}.{block}`."""

    texts: tuple[str, ...]
    """What stands before, between and behind the expressions."""
    expressions: tuple[Expression, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often something is there, and the name of the number of the one at hand, from 0."""

    count: Number
    index: str


@dataclass(frozen=True, slots=True)
class OperatorForm:
    """An operator."""

    name: str
    kind: str
    sizes: Mapping[str, Number]
    split: Mapping[Axis, str]
    when: Number | None
    """It is there unless this is 0."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class LayerForm:
    """A layer."""

    name: Name
    repeat: Repeat | None
    let: Mapping[str, Number]
    """Names for values, each of which may depend on those before."""
    block: bool
    operators: tuple[OperatorForm, ...]
    names: frozenset[str]
    """What its operators depend on, names of `let` included."""
    origin: Origin


@dataclass(frozen=True, slots=True)
class GroupForm:
    """Layers that are repeated together."""

    repeat: Repeat | None
    let: Mapping[str, Number]
    layers: tuple[LayerForm | GroupForm, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file."""

    file: str
    """The file, as it was named."""
    name: str
    description: str
    source: str
    """Where its shapes were published."""
    parameters: Mapping[str, Number]
    """With their values by default, each of which may depend on those before."""
    sequence: Number | None
    """Tokens of a sample by default; none where samples are no sequences."""
    hidden: Number | None
    layers: tuple[LayerForm | GroupForm, ...]
    tied: tuple[tuple[str, str], ...]
    origin: Origin
    content: bytes = field(repr=False, compare=False)
    """What is in the file."""
    is_packaged: bool
    """Whether it comes with the package."""

    @property
    def has_sequence(self) -> bool:
        """Whether its samples are sequences, whose length can be chosen."""
        return self.sequence is not None

    @property
    def is_distributed(self) -> bool:
        """Whether it begins with sums of embeddings, whose tables no NPU has alone."""
        first = self.layers[0]
        return isinstance(first, LayerForm) and all(operator.kind == SUM for operator in first.operators)
