"""The data types of a divided training: of weights, of what is computed, of gradients and of the optimiser's states.

What common set-ups are, as a mapping in `workload.precision`:

    pure BF16            {weights: bf16, compute: bf16, gradients: bf16, states: bf16}    2 + 2 + 4 bytes with Adam
    Megatron-LM          {weights: bf16, compute: bf16, gradients: fp32, states: fp32}    2 + 4 + 12
    FSDP, autocast       {weights: fp32, compute: bf16, gradients: fp32, states: fp32}    4 + 4 + 8

A name alone, such as `bf16`, is weights, compute and gradients in elements of its width, with a copy of the weights and
moments of four bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Tag

from syncline.base.section import Section
from syncline.fabric.gpus import WIDTHS, Precision, element_bytes

Stored = Literal["bf16", "fp16", "fp32", "fp64"]

WIDE: Final = 4
"""Bytes of a copy of a weight, and of a moment, where nothing else is said (Rajbhandari et al., "ZeRO", SC 2020,
section 3.1)."""


class DataTypes(Section):
    """The data types of weights, compute, gradients and states."""

    weights: Stored
    """The type in which weights are stored, and which ZeRO 1 and 2 gather."""
    compute: Precision
    """The type of products and activations. Where `weights` have another one, they are cast: whole, before every use
    (autocast), or with ZeRO 3 each NPU its part, before it is gathered (mixed precision of FSDP)."""
    gradients: Stored
    """The type in which gradients are added up and exchanged. Once they are, they are kept in this type, or in that of
    the weights if it is wider: FSDP casts the part that it has reduced to the type of its weights."""
    states: Stored
    """The type of the optimiser's moments, and of the copy of the weights that is updated. There is such a copy if this
    type is wider than that of the weights, and none otherwise."""


FORMS: Final = ("name", "types")
"""What tells a name and a mapping apart."""


def _form(value: Any) -> str:
    return "types" if isinstance(value, dict | DataTypes) else "name"


PrecisionOrTypes = Annotated[
    Annotated[Precision, Tag("name")] | Annotated[DataTypes, Tag("types")], Discriminator(_form)
]


def compute_type(precision: Precision | DataTypes | None) -> Precision | None:
    """The data type of kernels."""
    return precision.compute if isinstance(precision, DataTypes) else precision


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of what is kept and exchanged for a parameter."""

    weights: int
    compute: int
    """Of a weight as products take it, and of an element of an activation."""
    gradients: int
    """Of a gradient as it is exchanged."""
    master: int
    """Of the copy of a weight that is updated; 0 for none."""
    moment: int

    @classmethod
    def usual(cls, element: int) -> Widths:
        """With elements of so many bytes, where no types are given."""
        return cls(element, element, element, WIDE, WIDE)

    @classmethod
    def of(cls, precision: Precision | DataTypes | None, element: int) -> Widths:
        """Those of a precision; without types, those of elements of so many bytes."""
        if not isinstance(precision, DataTypes):
            return cls.usual(element)
        weights, states = WIDTHS[precision.weights], WIDTHS[precision.states]
        master = states if states > weights else 0
        return cls(weights, element_bytes(precision.compute), WIDTHS[precision.gradients], master, states)

    @property
    def reduced(self) -> int:
        """Bytes of a gradient once it is exchanged, as the optimiser takes it."""
        return max(self.weights, self.gradients)

    @property
    def widest(self) -> int:
        """Bytes of the widest type."""
        return max(self.weights, self.compute, self.gradients, self.moment)

    @property
    def casts(self) -> bool:
        """Whether weights are stored in another width than they are computed with."""
        return self.weights != self.compute

    def states(self, moments: int) -> int:
        """Bytes of a parameter's states, with so many moments."""
        return self.master + moments * self.moment
