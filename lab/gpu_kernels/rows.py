"""Kernels measured on one GPU, as the engine describes them.

`h100.csv` has operators of PyTorch 2.11 (CUDA 13.0) on one NVIDIA H100 80GB HBM3 (SXM, 700 W), timed in CUDA graphs: in
set `operators` the median of 15 repetitions, whose operands may be in the cache; in set `measure` by `syncline measure`
on the same card, with operands that are not. Set `profile` has the kernels of rotary positions from the profile of an
iteration of Llama 2 7B, since nothing else was measured of views that are not contiguous. Sizes are those of operators
of model files, and of some kernels that are no operators (`TENSORS`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncline.core import _core

H100: Final = Path(__file__).with_name("h100.csv")
PS_PER_US: Final = 10**6
WIDE: Final = 4
"""Bytes of an element that the engine counts as wide."""
TENSORS: Final = {"cast": 3, "transpose": 2, "column-sum": 1, "softmax": 2}
"""Kernels that are no operators, and the tensors that they move, in elements as wide as those that they read."""
BACKWARD_TENSORS: Final = {"softmax": 3}
SHAPED: Final = ("column-sum", "softmax")
"""Those for which the length of a row matters."""


@dataclass(frozen=True)
class Row:
    """A measured operator."""

    set: str
    operator: str
    pass_: str
    sizes: dict[str, int]
    element_bytes: int
    library: str
    time_us: float

    @property
    def kind(self) -> str:
        """Which constants it is to be compared with."""
        if self.operator in ("linear", "matmul"):
            return "products"
        return f"attention {self.library}" if self.operator == "attention" else self.operator

    @property
    def layout(self) -> str:
        """In which order images lie in memory."""
        return "nchw" if self.library == "nchw" else "nhwc"

    @property
    def title(self) -> str:
        """What tells it from others."""
        sizes = " ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.operator} {self.pass_} {sizes} {self.element_bytes}B {self.library}".rstrip()


def read(path: Path = H100) -> list[Row]:
    """All rows."""
    with path.open(newline="") as file:
        return [_row(values) for values in csv.DictReader(file)]


def _row(values: dict[str, str]) -> Row:
    sizes = {name: int(size) for name, _, size in (part.partition("=") for part in values["sizes"].split())}
    names = ("set", "operator", "pass")
    known = dict(zip(("set", "operator", "pass_"), (values[name] for name in names), strict=True))
    time_us, width = float(values["time_us"]), int(values["element_bytes"])
    return Row(**known, sizes=sizes, element_bytes=width, library=values["library"], time_us=time_us)


def kernels(row: Row) -> list[dict[str, Any]]:
    """The kernels of a row as the engine takes them, as PyTorch launches them."""
    if row.operator == "adamw":
        return _update(row)
    if row.operator == "strided":
        return [
            _traffic("strided", row.sizes["tensors"] * row.sizes["rows"] * row.sizes["features"], row.element_bytes)
        ]
    if row.operator in TENSORS:
        backward = row.pass_ == "backward"
        tensors = (BACKWARD_TENSORS if backward else TENSORS)[row.operator]
        elements = row.sizes["rows"] * row.sizes["features"] * tensors
        name = f"{row.operator}-gradient" if backward else row.operator
        columns = row.sizes["features"] if row.operator in SHAPED else 0
        return [_traffic(name, elements, row.element_bytes, WIDE if row.operator == "cast" else None, columns)]
    width = row.element_bytes
    request = {
        "operators": [{"kind": row.operator, "sizes": row.sizes}],
        "element_bytes": width,
        "framework": {"kernels": "eager", "wide_bytes": width, "loss_bytes": width, "layout": row.layout},
    }
    (answer,) = json.loads(_core.demands(json.dumps(request)))
    passes = ("weight_grad", "input_grad") if row.pass_ == "backward" else (row.pass_,)
    found = [kernel for pass_ in passes for kernel in answer[pass_]]
    if row.operator == "attention":
        return found[:1]  # the operator alone, without what puts gradients side by side
    return found


def _traffic(name: str, elements: int, width: int, wide: int | None = None, columns: int = 0) -> dict[str, Any]:
    kind = {"memory": {"kernel": name, "wide": (wide or width) >= WIDE, "columns": columns}}
    return {"flops": 0, "bytes": elements * width, "kind": kind}


def _update(row: Row) -> list[dict[str, Any]]:
    step = {"optimiser": "adam", "implementation": row.library, "decays": True, "element_bytes": row.element_bytes}
    return update(step, row.sizes["parameters"], row.sizes.get("tensors", 1))


def update(step: dict[str, Any], parameters: int, tensors: int) -> list[dict[str, Any]]:
    """The kernels of an optimiser's step."""
    updates = [{"step": step, "parameters": parameters, "tensors": tensors}]
    request = {"operators": [], "element_bytes": step["element_bytes"], "updates": updates}
    (answer,) = json.loads(_core.demands(json.dumps(request)))
    found: list[dict[str, Any]] = answer["update"]
    return found


def times_us(each: Sequence[Iterable[dict[str, Any]]], compute: dict[str, Any]) -> list[float]:
    """Microseconds of the kernels of rows, by a compute model as the engine takes it."""
    lists = [list(kernels) for kernels in each]
    request = {"compute": compute, "kernels": [kernel for kernels in lists for kernel in kernels]}
    answers = iter(json.loads(_core.times(json.dumps(request))))
    return [sum(next(answers)["time_ps"] for _ in kernels) / PS_PER_US for kernels in lists]
