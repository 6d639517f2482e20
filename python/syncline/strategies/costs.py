"""What operators ask of an NPU, asked of the engine once for each that is different, and rows of a table of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from syncline.models import demands
from syncline.models.demands import Demand, Kernel
from syncline.models.model import Layer, Operator
from syncline.sections.data_types import WIDE

T = TypeVar("T")

Kernels = tuple[Kernel, ...]

PRODUCTS: Final = frozenset({"linear", "experts", "router", "convolution", "lstm", "bahdanau-attention"})
"""Kinds of operators with weights in products, which are computed in the data type of these."""


OF_SUM: Final = 3
"""Tensors that an addition reads and writes."""


@dataclass
class Costs:
    """Demands of operators with elements of so many bytes, and the table of costs that nodes name rows of."""

    element: int
    linear: int | None = None
    """Bytes of an element of the factors of linear layers' products, if these are in a narrower data type."""
    framework: Mapping[str, Any] | None = None
    """The framework whose kernels operators are, as the engine takes it; the least that they need if none."""
    cast: tuple[int, int] | None = None
    """Bytes of a weight and of its gradient, where these are not those of an element: products take a cast of their
    weights, and cast the gradients of these back."""
    added: int = 0
    """Bytes of a gradient that is added to that of the micro-batches before by a kernel of its own; 0 if none is."""
    rows: list[Kernels] = field(default_factory=list)
    _once: dict[tuple[object, ...], Any] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[tuple[str, int], ...]], Demand] = field(default_factory=dict)
    _places: dict[Kernels, int] = field(default_factory=dict)

    def demand(self, operator: Operator) -> Demand:
        """What an operator asks of an NPU."""
        key = (operator.kind, tuple(sorted(operator.sizes.items())))
        if key not in self._known:
            (self._known[key],) = demands.of(
                [operator], self.element, linear_bytes=self.linear, framework=self.framework
            )
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
        names = [pass_.replace("-", "_") for pass_ in passes]
        return tuple(kernel for name in names for o in operators for kernel in self._pass(o, name))

    def _pass(self, operator: Operator, name: str) -> Kernels:
        """The kernels of an operator in a pass, with casts of its weights and of their gradients."""
        demand = self.demand(operator)
        found: Kernels = getattr(demand, name)
        if name == "weight_grad" and self.added and demand.params:
            found = (*found, demands.traffic(OF_SUM * demand.params * self.added, wide=self.added >= WIDE))
        if self.framework is not None or self.cast is None or not demand.params or operator.kind not in PRODUCTS:
            return found  # the casts of a framework are among its kernels
        weight, gradient = self.cast
        if name == "forward":
            return (Kernel(0, demand.params * (weight + self.element)), *found)
        if name == "weight_grad":
            return (*found, Kernel(0, demand.params * (self.element + gradient)))
        return found

    def row(self, kernels: Kernels) -> int:
        """The row of the table that has these kernels."""
        if kernels not in self._places:
            self._places[kernels] = len(self.rows)
            self.rows.append(kernels)
        return self._places[kernels]
