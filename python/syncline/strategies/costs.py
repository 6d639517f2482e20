"""What operators ask of an NPU, asked of the engine once for each that is different, and rows of a table of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from syncline.models.model import Layer, Operator

T = TypeVar("T")

Kernel = tuple[int, int, tuple[tuple[str, Any], ...] | None]
"""Operations, bytes to and from main memory, and the shape of a matrix product if it is one."""
Kernels = tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """What an operator asks of an NPU."""

    params: int
    """Trainable parameters."""
    saved_bytes: int
    """Bytes of activations that are kept for the backward pass."""
    input_elements: int
    output_elements: int
    kernels: dict[str, Kernels]
    """By pass: `forward`, `weight-grad`, `input-grad`."""


Ask = Callable[[Sequence[Operator], int], list[Demand]]
"""Answers what operators ask of an NPU, with elements of so many bytes."""


@dataclass
class Costs:
    """Demands of operators with elements of so many bytes, and the table of costs that nodes name rows of."""

    ask: Ask
    element: int
    rows: list[Kernels] = field(default_factory=list)
    _once: dict[tuple[object, ...], Any] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[tuple[str, int], ...]], Demand] = field(default_factory=dict)
    _places: dict[Kernels, int] = field(default_factory=dict)

    def demand(self, operator: Operator) -> Demand:
        """What an operator asks of an NPU."""
        key = (operator.kind, tuple(sorted(operator.sizes.items())))
        if key not in self._known:
            (self._known[key],) = self.ask([operator], self.element)
        return self._known[key]

    def once(self, what: str, layer: Layer, work: Callable[[], T], *more: object) -> T:
        """What follows from the operators of a layer, worked out once for layers that share them."""
        key = (what, id(layer.operators), layer.block, *more)
        if key not in self._once:
            self._once[key] = work()
        found: T = self._once[key]
        return found

    def kernels(self, operators: Iterable[Operator], *passes: str) -> Kernels:
        """The kernels of operators in some passes, one after the other."""
        return tuple(k for pass_ in passes for operator in operators for k in self.demand(operator).kernels[pass_])

    def row(self, kernels: Kernels) -> int:
        """The row of the table that has these kernels."""
        if kernels not in self._places:
            self._places[kernels] = len(self.rows)
            self.rows.append(kernels)
        return self._places[kernels]
