"""What operators ask of an NPU: kernels by pass, parameters, and what is kept for the backward pass.

The engine knows it (`crates/workload/src/described`); nothing is computed here. Answers are kept, since models consist
of equal operators and a search asks for the same ones again and again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from syncline.core import binding, refusals
from syncline.core.refusals import Refusal
from syncline.models.model import Operator

Counted = Literal["all", "weighted"]
"""Which kernels cost time: all of them, or those of matrix products and embeddings only."""

MOST_KEPT: Final = 100_000
"""Answers that are kept; when there are more, all are forgotten."""


class OperatorError(ValueError):
    """An operator that there cannot be.

    `operator` is its name, `size` the size to blame, or empty, `accepted` says what is accepted in its place.
    """

    def __init__(self, operator: str, size: str, message: str, accepted: str | None) -> None:
        super().__init__(f"{operator}: {message}" + (f"; accepted: {accepted}" if accepted else ""))
        self.operator, self.size, self.message, self.accepted = operator, size, message, accepted


Kind = tuple[str, str | tuple[tuple[str, Any], ...]]
"""What a kernel does: its class, and its layout or fields."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """Matrix products: `count` of them, each `m x k` times `k x n`, one after the other."""

    m: int
    k: int
    n: int
    count: int
    operands: tuple[int, int]
    """Bytes of both factors of all products."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, or a run of equal ones."""

    flops: int
    """Floating-point operations; a multiply-accumulate counts as two."""
    bytes: int
    """Bytes from and to main memory."""
    gemm: Gemm | None = None
    """Its matrix products, if that is what it does."""
    narrow: bool = False
    """Whether the factors of these are in the narrow data type of linear layers."""
    kind: Kind | None = None
    """What it does (`crates/workload/src/kernel_kind.rs`), for compute models that know kinds of kernels apart."""

    def described(self) -> dict[str, Any]:
        """The kernel as the engine takes it, in rows of `costs` of a graph."""
        found: dict[str, Any] = {"flops": self.flops, "bytes": self.bytes}
        if self.gemm is not None:
            m, k, n, count = self.gemm.m, self.gemm.k, self.gemm.n, self.gemm.count
            found["gemm"] = {"m": m, "k": k, "n": n, "count": count, "operands": list(self.gemm.operands)}
        if self.narrow:
            found["narrow"] = True
        if self.kind is not None:
            found["kind"] = {self.kind[0]: self.kind[1] if isinstance(self.kind[1], str) else dict(self.kind[1])}
        return found


@dataclass(frozen=True, slots=True)
class Demand:
    """What an operator asks of an NPU."""

    params: int
    """Trainable parameters."""
    saved_bytes: int
    """Bytes of activations that are kept until the backward pass."""
    input_elements: int
    """Elements that go in, parameters not included."""
    output_elements: int
    """Elements that come out."""
    forward: tuple[Kernel, ...]
    weight_grad: tuple[Kernel, ...]
    """The gradient with respect to the parameters, and what it needs first: these kernels run before `input_grad`."""
    input_grad: tuple[Kernel, ...]

    @property
    def backward(self) -> tuple[Kernel, ...]:
        """All kernels of the backward pass, in order."""
        return self.weight_grad + self.input_grad


_Key = tuple[str, tuple[tuple[str, int], ...], int, int | None, Counted, tuple[tuple[str, Any], ...] | None]

_kept: Final[dict[_Key, Demand]] = {}


def of(
    operators: Iterable[Operator],
    element_bytes: int,
    counted: Counted = "all",
    *,
    linear_bytes: int | None = None,
    framework: Mapping[str, Any] | None = None,
) -> list[Demand]:
    """What each of the operators asks, for elements of so many bytes (1, 2, 4 or 8); `linear_bytes` are those of the
    factors of linear layers' products, if these are in a narrower data type. With a `framework` (`Framework` in
    `crates/workload/src/frameworks.rs`) kernels are those that it launches, else the least that operators need.

    Raises [`OperatorError`] for the first that there cannot be.
    """
    operators = list(operators)
    common = {"element_bytes": element_bytes, "linear_bytes": linear_bytes, "counted": counted, "framework": framework}
    keys = [_key(operator, common) for operator in operators]
    if len(_kept) > MOST_KEPT:
        _kept.clear()
    missing: dict[_Key, Operator] = {}
    for key, operator in zip(keys, operators, strict=True):
        if key not in _kept:
            missing.setdefault(key, operator)
    if missing:
        _kept.update(zip(missing, _asked(list(missing.values()), common), strict=True))
    return [_kept[key] for key in keys]


def _key(operator: Operator, common: Mapping[str, Any]) -> _Key:
    framework = common["framework"]
    known = None if framework is None else tuple(framework.items())
    numbers = (common["element_bytes"], common["linear_bytes"], common["counted"])
    return (operator.kind, tuple(sorted(operator.sizes.items())), *numbers, known)


def _asked(operators: list[Operator], common: Mapping[str, Any]) -> list[Demand]:
    binding.require()
    from syncline.core import _core

    asked = [{"kind": operator.kind, "sizes": dict(operator.sizes)} for operator in operators]
    request = {"operators": asked, **common}
    try:
        answers = json.loads(_core.demands(json.dumps(request)))
    except _core.SpecError as error:
        raise _refused(refusals.read(error)[0], operators) from None
    return [_demand(**answer) for answer in answers]


def _refused(refusal: Refusal, operators: list[Operator]) -> OperatorError:
    match refusal.field:
        case ("operators", number, *rest):
            operator = operators[int(number)]
            size = rest[1] if len(rest) > 1 else ""
            return OperatorError(operator.name, size, refusal.message, refusal.accepted)
        case field:
            return OperatorError(".".join(field), "", refusal.message, refusal.accepted)


def _demand(*, forward: list[Any], weight_grad: list[Any], input_grad: list[Any], **numbers: int) -> Demand:
    passes = (tuple(_kernel(**kernel) for kernel in kernels) for kernels in (forward, weight_grad, input_grad))
    ahead, weights, inputs = passes
    return Demand(**numbers, forward=ahead, weight_grad=weights, input_grad=inputs)


def _kernel(
    flops: int, bytes: int, gemm: dict[str, Any] | None, narrow: bool = False, kind: dict[str, Any] | None = None
) -> Kernel:
    known = None if kind is None else _kind(kind)
    if gemm is None:
        return Kernel(flops, bytes, kind=known)
    first, second = gemm["operands"]
    return Kernel(flops, bytes, Gemm(gemm["m"], gemm["k"], gemm["n"], gemm["count"], (first, second)), narrow, known)


def _kind(given: dict[str, Any]) -> Kind:
    ((name, of),) = given.items()
    return name, of if isinstance(of, str) else tuple(of.items())


def traffic(bytes: int, kernel: str = "elementwise", *, wide: bool = False, flops: int = 0) -> Kernel:
    """A kernel that memory bounds, of one of the engine's kinds (`MemoryKernel`); `wide` of elements of four bytes."""
    return Kernel(flops, bytes, kind=("memory", (("kernel", kernel), ("wide", wide))))
