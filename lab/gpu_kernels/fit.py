"""The fit of a GPU's constants to its measured kernels.

Constants are fitted in parts that do not depend on each other: what memory bounds, attention, products with the limit
of power, and images. What a GPU draws is fitted to products alone, which run at the limit, and to those within
iterations, which other kernels leave more or less power. Residuals are logarithms of predicted over measured times,
softened so that a few kernels which a library does in another way pull no harder than others.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lab.gpu_kernels import rows
from lab.gpu_kernels.rows import Row
from syncline.core import _core
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
            is_whole = any(str(step) in ("start_ps", "starts_ps") for step in path)
            here[path[-1]] = round(value) if is_whole else value


def compute(
    constants: Constants, library: str = "cudnn", bandwidth: float = H100, limited: bool = True
) -> dict[str, Any]:
    """The compute model as the engine takes it; without a limit of power if it is not `limited`."""
    attention = constants["attention"][library if library in constants["attention"] else "cudnn"]
    model = {
        "kind": "gpu",
        **{name: constants[name] for name in ("products", "convolutions", "memory")},
        "power": {k: v for k, v in constants["power"].items() if k != "peak"} if limited else None,
        "attention": attention,
    }
    return {"flops_per_s": PEAK, "memory_bytes_per_s": bandwidth, "scale": 1.0, "model": model}


@dataclass(frozen=True)
class Mix:
    """Kernels that ran over and over, and how long the products among them took."""

    kernels: list[dict[str, Any]]
    products_us: float

    def predicted_us(self, constants: Constants) -> float:
        """Microseconds of the products at the clock that the mix leaves."""
        request = {"compute": compute(constants), "kernels": self.kernels, "mix": True}
        answers = json.loads(_core.times(json.dumps(request)))
        pairs = zip(self.kernels, answers, strict=True)
        return float(sum(a["time_ps"] for kernel, a in pairs if "product" in kernel.get("kind", ()))) / rows.PS_PER_US


WEIGHT: Final = 3.0
"""Of the products of a mix, which are hundreds, beside those that were measured alone."""


def _groups(found: Sequence[Row]) -> list[tuple[str, bool, list[int]]]:
    """Numbers of rows by their library, and by whether they ran long enough to reach the limit of power: those of set
    `measure` did not.
    """
    keys = [(row.library, row.set != "measure") for row in found]
    return [(*key, [n for n, of in enumerate(keys) if of == key]) for key in sorted(set(keys))]


def predicted_us(found: Sequence[Row], constants: Constants, bandwidth: float = H100) -> list[float]:
    """Microseconds of rows, each by the constants of its library."""
    times: dict[int, float] = {}
    for library, limited, here in _groups(found):
        model = compute(constants, library, bandwidth, limited)
        times.update(zip(here, rows.times_us([rows.kernels(found[n]) for n in here], model), strict=True))
    return [times[number] for number in range(len(found))]


def fitted(
    found: Sequence[Row],
    start: Constants,
    parameters: Sequence[Parameter],
    bandwidth: float = H100,
    mixes: Sequence[Mix] = (),
) -> Constants:
    """The constants with some of them fitted to rows, and to products within mixes of kernels."""
    groups = [(library, limited, [found[n] for n in here]) for library, limited, here in _groups(found)]
    asked = [[rows.kernels(row) for row in of] for _, _, of in groups]

    def with_(values: Sequence[float]) -> Constants:
        constants = copy.deepcopy(start)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.write(constants, math.exp(value))
        return constants

    def residuals(values: Sequence[float]) -> list[float]:
        constants = with_(values)
        of_mixes = [WEIGHT * math.log(mix.predicted_us(constants) / mix.products_us) for mix in mixes]
        return of_mixes + [
            soften(math.log(us / row.time_us), SOFT)
            for (library, limited, of), kernels in zip(groups, asked, strict=True)
            for us, row in zip(rows.times_us(kernels, compute(constants, library, bandwidth, limited)), of, strict=True)
        ]

    return with_(minimise(residuals, [math.log(parameter.read(start)) for parameter in parameters]))


def _of(*path: str | int) -> Parameter:
    return Parameter(path)


def _efficiency(kernel: str, *others: str) -> Parameter:
    return Parameter(("memory", "efficiency", kernel), tuple(("memory", "efficiency", other) for other in others))


STREAMS: Final = (
    _efficiency("elementwise", "lookup", "column-sum", "norm-sum"),
    _efficiency("norm", "norm-gradient", "cast"),
    _efficiency("rms-norm", "dropout", "batch-norm", "batch-norm-gradient"),
    _efficiency("softmax", "loss-gradient"),
    *map(_efficiency, ("strided", "transpose", "softmax-gradient", "loss", "lookup-gradient", "update")),
    Parameter(("memory", "per_column", "column-sum"), (("memory", "per_column", "norm-sum"),)),
    _of("memory", "starts_ps", "column-sum"),
    _of("memory", "starts_ps", "update"),
    _of("memory", "per_element_ps"),
    _of("memory", "per_doubling"),
    _of("memory", "start_ps"),
    _of("memory", "cache", "gain"),
)
"""Of what memory bounds, but for planes of images. Kinds that were as fast as each other have one constant."""
PRODUCTS: Final = (
    *(_of("products", name) for name in ("sustained", "reuse", "fill", "sustained_memory", "start_ps", "misaligned")),
    Parameter(("products", "layouts", 0), (("products", "layouts", 1),)),
    _of("power", "per_flop_pj"),
    _of("power", "streaming_w"),
)
CONVOLUTIONS: Final = (
    *(_of("convolutions", "products", "layouts", place) for place in (0, 1)),
    _of("convolutions", "padded", 0),
)
"""Of those in NHWC; SMs reach what they reach in products with endless tiles, and begin as these do."""
REORDERED: Final = (_efficiency("reorder"), _of("convolutions", "padded", 1))
"""Of those in NCHW, beside the constants of NHWC."""
PLANES: Final = tuple(
    Parameter(path)
    for kernel in ("plane-norm", "plane-norm-gradient")
    for path in (
        ("memory", "efficiency", kernel),
        ("memory", "per_column", kernel),
        ("memory", "starts_ps", kernel),
    )
)
POOLS: Final = (_efficiency("pool"), _efficiency("pool-gradient"))


LIBRARIES: Final = ("cudnn", "flash2")
ATTENTION: Final = (
    *(_of("attention", library, "sustained", place) for library in LIBRARIES for place in (0, 1)),
    *(Parameter(("attention", library, "fill", 0), (("attention", library, "fill", 1),)) for library in LIBRARIES),
    *(
        Parameter(("attention", LIBRARIES[0], name), tuple(("attention", other, name) for other in LIBRARIES[1:]))
        for name in ("reuse", "tail", "start_ps")
    ),
)
"""Of attention: how fast a library is either way and what its blocks cost at their ends; the rest is the GPU's."""


def h200(found: Sequence[Row], start: Constants, h100: Constants) -> Constants:
    """Constants of the H200, fitted to rows of one. Its SMs are the H100's, and so is what was not measured."""
    constants = copy.deepcopy(start)
    for kernel in ("strided", "transpose", "cast", "batch-norm", "batch-norm-gradient", "reorder"):
        constants["memory"]["efficiency"][kernel] = h100["memory"]["efficiency"][kernel] * H100 / H200
    constants["memory"]["per_column"]["column-sum"] = h100["memory"]["per_column"]["column-sum"] * H100 / H200
    constants["convolutions"] = h100["convolutions"]
    constants["attention"]["flash2"] = h100["attention"]["flash2"]
    constants["power"] = h100["power"]
    images = ("batch-norm", "max-pool", "convolution")
    borrowed = {("memory", "per_column", "column-sum"), ("memory", "starts_ps", "column-sum")}
    borrowed |= {("memory", "efficiency", kernel) for kernel in ("strided", "transpose", "cast")}
    streams = [row for row in found if row.kind != "products" and row.operator not in (*images, "attention")]
    constants = fitted(streams, constants, [p for p in STREAMS if p.path not in borrowed], H200)
    constants = fitted([row for row in found if row.operator == "batch-norm"], constants, PLANES, H200)
    constants = fitted([row for row in found if row.operator == "max-pool"], constants, POOLS, H200)
    attention = [row for row in found if row.operator == "attention"]
    constants = fitted(attention, constants, [p for p in ATTENTION if LIBRARIES[0] in p.path], H200)
    products = [row for row in found if row.kind == "products"][::THINNED]
    return fitted(products, constants, [p for p in PRODUCTS if p.path[0] == "products"], H200)


THINNED: Final = 4
"""One of so many products of the H200's table is fitted to."""


def h100(found: Sequence[Row], start: Constants, of_h200: Constants, mixes: Sequence[Mix]) -> Constants:
    """Constants of the H100, fitted to rows of one. Planes and maxima are bound by threads and not by memory: they have
    the constants of the H200.
    """
    constants = copy.deepcopy(start)
    for _, table, kernel in (parameter.path for parameter in (*PLANES, *POOLS)):
        scale = 1 if table == "starts_ps" else H200 / H100
        constants["memory"][table][kernel] = of_h200["memory"][table][kernel] * scale
    images = ("batch-norm", "max-pool", "convolution")
    streams = [row for row in found if row.kind != "products" and row.operator not in (*images, "attention")]
    normalised = [row for row in found if row.operator == "batch-norm" and row.layout == "nhwc"]
    constants = fitted([*streams, *normalised], constants, STREAMS)
    constants = fitted([row for row in found if row.operator == "attention"], constants, ATTENTION)
    constants = fitted([row for row in found if row.kind == "products"], constants, PRODUCTS, mixes=mixes)
    for name in ("sustained", "reuse", "fill", "sustained_memory", "start_ps"):
        constants["convolutions"]["products"][name] = constants["products"][name]
    convolutions = [row for row in found if row.operator == "convolution"]
    constants = fitted([row for row in convolutions if row.layout == "nhwc"], constants, CONVOLUTIONS)
    return fitted([row for row in convolutions if row.layout == "nchw"], constants, REORDERED)
