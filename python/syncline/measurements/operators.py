"""The kernels of a model's operators, as they are measured: what of `models` is a kernel of PyTorch, of which sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from syncline.models.model import Model, Operator
from syncline.sections.shapes import BACKWARD, FORWARD, KINDS, LAID_OUT, Kernel

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Measurable:
    """What of a model can be measured."""

    kernels: tuple[Kernel, ...]
    """Its kernels, each once."""
    left_out: tuple[str, ...]
    """Kinds of operators that are not measured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What kernels are measured in."""

    ways: int
    """NPUs among which tensor parallelism divides operators."""
    dtype: str
    layout: str
    """How images lie in memory (`shapes.LAYOUTS`)."""


def of(models: Iterable[Model], setting: Setting, updated: Callable[[Operator], int]) -> Measurable:
    """The kernels of models. `updated` says how many parameters of an operator are updated.

    Raises `models.model.DivisionError` if one cannot be divided.
    """
    found: dict[Kernel, None] = {}
    left_out: dict[str, None] = {}
    for operator in dict.fromkeys(_identified(models)):
        part = operator.operator.divided({"tensor": setting.ways, "sequence": setting.ways})
        known = _OF_KIND.get(part.kind)
        if known is None:
            left_out[part.kind] = None
            continue
        found |= dict.fromkeys(_laid_out(kernel, setting.layout) for kernel in known(part.sizes, setting.dtype))
        parameters = updated(part)
        if parameters:
            found[Kernel("adam", "update", parameters, 0, 0, dtype="fp32")] = None
    return Measurable(tuple(found), tuple(left_out))


def _laid_out(kernel: Kernel, layout: str) -> Kernel:
    return replace(kernel, layout=layout) if kernel.kind in LAID_OUT else kernel


@dataclass(frozen=True, slots=True)
class _Identified:
    """An operator, told from others by what it does."""

    kind: str
    sizes: tuple[tuple[str, int], ...]
    split: tuple[tuple[str, str], ...]

    @property
    def operator(self) -> Operator:
        return Operator(self.kind, self.kind, dict(self.sizes), dict(self.split))  # type: ignore[arg-type]


def _identified(models: Iterable[Model]) -> Iterator[_Identified]:
    for model in models:
        for layer in model.layers:
            for operator in layer.operators:
                yield _Identified(operator.kind, tuple(operator.sizes.items()), tuple(operator.split.items()))


def _products(rows: int, inputs: int, outputs: int, count: int, dtype: str) -> Iterator[Kernel]:
    """The product of a layer, and those of both gradients, in the sizes that the engine has (`fully_connected`)."""
    yield Kernel("product", FORWARD, rows, inputs, outputs, count, dtype=dtype)
    yield Kernel("product", "input-grad", rows, outputs, inputs, count, dtype=dtype)
    yield Kernel("product", "weight-grad", inputs, rows, outputs, count, dtype=dtype)


def _linear(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    yield from _products(sizes["rows"], sizes["inputs"], sizes["outputs"], sizes.get("count", 1), dtype)


def _experts(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    experts = sizes["experts"]
    rows = max(1, sizes["rows"] // experts)
    yield from _products(rows, sizes["inputs"], sizes["outputs"], experts, dtype)


def _attention(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    """Fused and plain attention, whichever the model has; what plain attention consists of, too."""
    heads, queries, head = sizes["heads"], sizes["queries"], sizes["head_size"]
    kv_heads, keys = sizes.get("kv_heads", heads), sizes.get("keys", queries)
    value = sizes.get("value_size", head)
    groups, count = heads // kv_heads, sizes["sequences"] * heads
    fused = "attention-causal" if sizes.get("causal") and queries == keys else "attention"
    if value == head:
        for kind in (fused, "attention-plain"):
            for direction in KINDS[kind]:
                yield Kernel(kind, direction, queries, head, keys, count, groups, dtype)
    rows, products = queries * groups, count // groups
    yield Kernel("product", FORWARD, rows, head, keys, products, dtype=dtype)
    yield Kernel("product", FORWARD, rows, keys, value, products, dtype=dtype)
    yield from _each("softmax", count * queries, keys, dtype)


def _each(kind: str, rows: int, features: int, dtype: str) -> Iterator[Kernel]:
    for direction in KINDS[kind]:
        yield Kernel(kind, direction, rows, 0, features, dtype=dtype)


def _embedding(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    for direction in KINDS["embedding"]:
        yield Kernel("embedding", direction, sizes["rows"], sizes["vocabulary"], sizes["features"], dtype=dtype)


def _loss(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    for direction in (FORWARD, BACKWARD):
        yield Kernel("cross-entropy", direction, sizes["rows"], 0, sizes["vocabulary"], dtype=dtype)


def _convolution(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    """The products of a convolution, in the sizes that the engine has (`Conv2d::operator`)."""
    image = Kernel(
        *("convolution", FORWARD, 1, 1, 1),
        height=sizes["height"],
        width=sizes["width"],
        window=sizes["kernel"],
        stride=sizes["stride"],
        padding=sizes.get("padding", 0),
    )
    places, terms = sizes["samples"] * prod(image.windows), sizes["channels"] * image.window**2
    for product in _products(places, terms, sizes["filters"], 1, dtype):
        yield replace(image, direction=product.direction, m=product.m, k=product.k, n=product.n, dtype=dtype)


def _batch_norm(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    for direction in KINDS["batch-norm"]:
        pixels = sizes["height"] * sizes["width"]
        yield Kernel("batch-norm", direction, sizes["samples"], pixels, sizes["channels"], dtype=dtype)


def _pool(kind: str) -> Callable[[Sizes, str], Iterator[Kernel]]:
    def kernels(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
        for direction in KINDS[kind]:
            yield Kernel(
                *(kind, direction, sizes["samples"], 0, sizes["channels"]),
                dtype=dtype,
                height=sizes["height"],
                width=sizes["width"],
                window=sizes.get("window", 0),
                stride=sizes.get("stride", 0),
                padding=sizes.get("padding", 0),
            )

    return kernels


def _fork(sizes: Sizes, dtype: str) -> Iterator[Kernel]:
    """The addition of two gradients."""
    yield from _each("add", sizes["rows"], sizes["features"], dtype)


def _elements(kind: str) -> Callable[[Sizes, str], Iterator[Kernel]]:
    return lambda sizes, dtype: _each(kind, sizes["rows"], sizes["features"], dtype)


_ELEMENTWISE: Final = ("layer-norm", "rms-norm", "gelu", "relu", "swiglu", "dropout", "add")

_OF_KIND: Final[Mapping[str, Callable[[Sizes, str], Iterator[Kernel]]]] = {
    "linear": _linear,
    "matmul": _linear,
    "experts": _experts,
    "attention": _attention,
    "embedding": _embedding,
    "softmax-cross-entropy": _loss,
    "convolution": _convolution,
    "batch-norm": _batch_norm,
    "fork": _fork,
    **{kind: _pool(kind) for kind in ("max-pool", "average-pool")},
    **{kind: _elements(kind) for kind in _ELEMENTWISE},
}
"""By kind of operators, their kernels."""
