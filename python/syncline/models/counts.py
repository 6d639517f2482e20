"""What a model comes to: parameters and operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from syncline.models import demands
from syncline.models.demands import Kernel
from syncline.models.model import Layer, Model

TABLES: Final = frozenset({"embedding"})
"""Kinds of operators whose weights are what tied layers share."""
ELEMENT: Final = 2
"""Bytes of elements, on which neither parameters nor operations depend."""


def parameters(model: Model) -> int:
    """Trainable parameters; what tied layers share is counted once."""
    return sum(of_layer(layer) for layer in model.layers) - sum(shared(model).values())


def shared(model: Model) -> dict[str, int]:
    """Parameters that layers share with an earlier one, to which they are tied, by the names of these layers."""
    layers = {layer.name: layer for layer in model.layers}
    found: dict[str, int] = {}
    for first, second in model.tied:
        found[second] = found.get(second, 0) + of_layer(layers[first], TABLES)
    return found


def of_layer(layer: Layer, kinds: frozenset[str] | None = None) -> int:
    """Trainable parameters of a layer, or of its operators of some kinds."""
    operators = [operator for operator in layer.operators if kinds is None or operator.kind in kinds]
    return sum(demand.params for demand in demands.of(operators, ELEMENT))


def forward_flops(model: Model) -> int:
    """Operations of all kernels of a forward pass."""
    return sum(k.flops for k in _kernels(model, "forward"))


def product_flops(model: Model, *passes: str) -> int:
    """Operations of matrix products in some passes: `forward`, `weight_grad`, `input_grad`."""
    return sum(k.flops for pass_ in passes for k in _kernels(model, pass_) if k.gemm is not None)


def _kernels(model: Model, pass_: str) -> Iterable[Kernel]:
    for layer in model.layers:
        for demand in demands.of(layer.operators, ELEMENT):
            kernels: tuple[Kernel, ...] = getattr(demand, pass_)
            yield from kernels
