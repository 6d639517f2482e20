"""The fit of a GPU's constants to its measured kernels.

Constants are fitted in three parts that do not depend on each other: what memory bounds, attention by library, and
products with the limit of power. Residuals are logarithms of predicted over measured times, softened so that a few
kernels which a library does in another way pull no harder than others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lab.gpu_kernels import rows
from lab.gpu_kernels.rows import Row
from syncline.nccl.solver import minimise, soften

SOFT: Final = 0.1
PEAK: Final = 989.4e12
H100, H200 = 3350e9, 4800e9
"""Bandwidths of memory, of GPUs with the same SMs (`syncline.fabric.gpus`)."""
Constants = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """A constant that is fitted, by its path, and others that are the same."""

    path: tuple[str | int, ...]
    same: tuple[tuple[str | int, ...], ...] = ()

    def read(self, constants: Constants) -> float:
        """Its value."""
        here: Any = constants
        for step in self.path:
            here = here[step]
        return float(here)

    def write(self, constants: Constants, value: float) -> None:
        """Puts another value in its place."""
        for path in (self.path, *self.same):
            here: Any = constants
            for step in path[:-1]:
                here = here[step]
            is_whole = path[-1] == "fill" or any(str(step).endswith("_ps") for step in path)
            here[path[-1]] = round(value) if is_whole else value


def compute(constants: Constants, library: str = "cudnn", bandwidth: float = H100) -> dict[str, Any]:
    """The compute model as the engine takes it."""
    attention = constants["attention"][library if library in constants["attention"] else "cudnn"]
    model = {
        "kind": "gpu",
        **{name: constants[name] for name in ("products", "convolutions", "memory", "power")},
        "attention": attention,
    }
    return {"flops_per_s": PEAK, "memory_bytes_per_s": bandwidth, "scale": 1.0, "model": model}


def predicted_us(found: Sequence[Row], constants: Constants, bandwidth: float = H100) -> list[float]:
    """Microseconds of rows, each by the constants of its library."""
    times: dict[int, float] = {}
    for library in sorted({row.library for row in found}):
        here = [number for number, row in enumerate(found) if row.library == library]
        answers = rows.times_us([rows.kernels(found[n]) for n in here], compute(constants, library, bandwidth))
        times.update(zip(here, answers, strict=True))
    return [times[number] for number in range(len(found))]


def fitted(
    found: Sequence[Row], start: Constants, parameters: Sequence[Parameter], bandwidth: float = H100
) -> Constants:
    """The constants with some of them fitted to rows."""
    libraries = sorted({row.library for row in found})
    by_library = {name: [row for row in found if row.library == name] for name in libraries}
    asked = {name: [rows.kernels(row) for row in of] for name, of in by_library.items()}

    def with_(values: Sequence[float]) -> Constants:
        constants = copy.deepcopy(start)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.write(constants, math.exp(value))
        return constants

    def residuals(values: Sequence[float]) -> list[float]:
        constants = with_(values)
        return [
            soften(math.log(us / row.time_us), SOFT)
            for name in libraries
            for us, row in zip(
                rows.times_us(asked[name], compute(constants, name, bandwidth)), by_library[name], strict=True
            )
        ]

    return with_(minimise(residuals, [math.log(parameter.read(start)) for parameter in parameters]))


def _of(*path: str | int) -> Parameter:
    return Parameter(path)


NARROW: Final = (
    *("elementwise", "transpose", "cast", "dropout", "norm", "norm-gradient", "column-sum", "softmax"),
    *("softmax-gradient", "loss", "loss-gradient", "lookup", "lookup-gradient", "update"),
)
"""Kernels that memory bounds of which there are rows in two bytes."""
WIDER: Final = ("norm", "norm-gradient", "column-sum", "softmax", "loss", "loss-gradient", "update")
"""The same in four bytes, where that makes a difference."""
MEMORY_PARAMETERS: Final = (
    *(_of("memory", "efficiency", kernel) for kernel in NARROW),
    *(_of("memory", "efficiency_wide", kernel) for kernel in WIDER),
    _of("memory", "start_ps"),
    *(_of("memory", "starts_ps", kernel) for kernel in ("column-sum", "update")),
    _of("memory", "per_column", "column-sum"),
)
PRODUCT_PARAMETERS: Final = (
    *(_of("products", name) for name in ("sustained", "reuse", "fill", "sustained_memory", "split_overhead_ps")),
    *(_of("products", name) for name in ("start_ps", "last_wave", "misaligned")),
    *(_of("products", "layouts", place) for place in (0, 1)),
    _of("power", "per_flop_pj"),
)


def attention_parameters(library: str) -> list[Parameter]:
    """Those of attention by a library."""
    pairs = [_of("attention", library, name, place) for name in ("sustained", "fill") for place in (0, 1)]
    return [*pairs, *(_of("attention", library, name) for name in ("reuse", "tail", "start_ps"))]


def all_of(found: Sequence[Row], start: Constants) -> Constants:
    """All constants, fitted to rows. Products are those of set `operators`, which ran long enough to reach the limit of
    power.
    """
    attention = {row.library for row in found if row.operator == "attention"}
    others = [row for row in found if row.kind != "products" and row.operator != "attention"]
    constants = fitted(others, start, MEMORY_PARAMETERS)
    for library in sorted(attention):
        rows_of = [row for row in found if row.operator == "attention" and row.library == library]
        constants = fitted(rows_of, constants, attention_parameters(library))
    products = [row for row in found if row.kind == "products" and row.set == "operators"]
    return fitted(products, constants, PRODUCT_PARAMETERS)
