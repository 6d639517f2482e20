"""What operators ask of an NPU, asked of the engine once for each that is different, and rows of a table of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from syncline.models import demands
from syncline.models.demands import Demand, Kernel
from syncline.models.model import Layer, Operator

T = TypeVar("T")

Kernels = tuple[Kernel, ...]


@dataclass
class Costs:
    """Demands of operators with elements of so many bytes, and the table of costs that nodes name rows of."""

    element: int
    linear: int | None = None
    """Bytes of an element of the factors of linear layers' products, if these are in a narrower data type."""
    rows: list[Kernels] = field(default_factory=list)
    _once: dict[tuple[object, ...], Any] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[tuple[str, int], ...]], Demand] = field(default_factory=dict)
    _places: dict[Kernels, int] = field(default_factory=dict)

    def demand(self, operator: Operator) -> Demand:
        """What an operator asks of an NPU."""
        key = (operator.kind, tuple(sorted(operator.sizes.items())))
        if key not in self._known:
            (self._known[key],) = demands.of([operator], self.element, linear_bytes=self.linear)
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
        return tuple(kernel for name in names for o in operators for kernel in getattr(self.demand(o), name))

    def row(self, kernels: Kernels) -> int:
        """The row of the table that has these kernels."""
        if kernels not in self._places:
            self._places[kernels] = len(self.rows)
            self.rows.append(kernels)
        return self._places[kernels]
