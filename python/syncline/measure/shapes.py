"""What is measured: kernels with their shapes, in JSON before and in CSV after. Needs the standard library only."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, TextIO

WIDTHS: Final = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
"""Data types that are measured, with the bytes of an element. TF32 is FP32 in memory."""

FORWARD, BACKWARD = "forward", "backward"

KINDS: Final = {
    "product": (FORWARD, "input-grad", "weight-grad"),
    "attention": (FORWARD, BACKWARD),
    "attention-causal": (FORWARD, BACKWARD),
    "attention-plain": (FORWARD, BACKWARD),
    "softmax": (FORWARD, BACKWARD),
    "layer-norm": (FORWARD, BACKWARD),
    "rms-norm": (FORWARD, BACKWARD),
    "gelu": (FORWARD, BACKWARD),
    "swiglu": (FORWARD, BACKWARD),
    "dropout": (FORWARD, BACKWARD),
    "add": (FORWARD,),
    "cross-entropy": (FORWARD, BACKWARD),
    "embedding": (FORWARD, BACKWARD),
    "adam": ("update",),
    "copy": (FORWARD,),
    "launch": ("eager", "graph"),
}
"""Kinds of kernels, with their directions.

*product*   `count` matrix products, each `m x k` times `k x n`. The directions differ in how the factors lie in memory,
            as they do in a linear layer: the second factor transposed (forward), none (input-grad), the first
            (weight-grad). `m`, `k` and `n` are always those of the product itself.
*attention* `count` heads of `m` queries and `n` keys of `k` elements, as one fused kernel; `-causal` masks keys behind
            the query; `-plain` consists of two products and a softmax. `groups` heads share keys and values.
*embedding* `m` rows of `n` elements out of a table of `k` rows.
*adam*      an update of `m` parameters in FP32, with two moments.
*copy*      `m` bytes from memory to memory.
*launch*    the time of one of `m` kernels of one element each, launched one by one, or as a graph.
The rest work on `m` rows of `n` elements (cross-entropy: a row is a token, an element a word).
"""

FORMAT: Final = "syncline-shapes"
VERSION: Final = 1
MOST: Final = 2**40
"""Most of each size."""
COLUMNS: Final = (
    "kind", "direction", "m", "k", "n", "count", "groups", "dtype", "bytes", "time_s", "spread_s", "repetitions",
    "calls", "cache", "timing", "device", "torch",
)  # fmt: skip
"""Columns of a table.

*bytes*       the least that the kernel moves: every operand once
*time_s*      median over repetitions of the time of one call
*spread_s*    the distance between the quartiles of the repetitions
*repetitions* how many there are, of `calls` calls each
*cache*       `cold`: calls take turns on so many sets of operands that these exceed the last-level cache twice;
              `warm`: on fewer, so that operands may be found there
*timing*      `graph`: the calls are one CUDA graph, so that gaps between launches do not count; `events`: CUDA events
              around calls that were launched one by one; `host`: the clock of the CPU
"""


class ShapesError(ValueError):
    """What is wrong with a file of shapes; the message begins with the place."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to measure. What `m`, `k` and `n` are depends on the kind; those that it does not have are 0."""

    kind: str
    direction: str
    m: int
    k: int
    n: int
    count: int = 1
    groups: int = 1
    dtype: str = "bf16"

    @property
    def bytes(self) -> int:
        """The least that it moves to and from memory: every operand is read once, every result written once."""
        width = WIDTHS[self.dtype]
        m, k, n, count = self.m, self.k, self.n, self.count
        rows = m * n
        backward = self.direction == BACKWARD
        if self.kind == "product":
            return count * (m * k + k * n + m * n) * width
        if self.kind.startswith("attention"):
            keys = 2 * (count // self.groups) * n * k  # and values
            queries = 2 * count * m * k  # and results
            scores = 0 if self.kind != "attention-plain" else 4 * count * m * n
            return (2 if backward else 1) * (keys + queries + scores) * width
        if self.kind == "embedding":
            return 2 * rows * width if not backward else (rows + k * n) * width
        if self.kind == "adam":
            return 7 * m * WIDTHS["fp32"]  # reads gradient, weight and both moments, writes all but the gradient
        if self.kind == "copy":
            return 2 * m
        if self.kind == "launch":
            return 2 * width
        operands = {"add": 3, "swiglu": 5 if backward else 3}.get(self.kind, 3 if backward else 2)
        return operands * rows * width


def legal(kernel: Kernel) -> str | None:
    """What is wrong with a kernel, or nothing."""
    if kernel.kind not in KINDS:
        return f"kind {kernel.kind!r} is not known; accepted: {', '.join(KINDS)}"
    if kernel.direction not in KINDS[kernel.kind]:
        return f"direction {kernel.direction!r} is not known; accepted: {', '.join(KINDS[kernel.kind])}"
    if kernel.dtype not in WIDTHS:
        return f"dtype {kernel.dtype!r} is not known; accepted: {', '.join(WIDTHS)}"
    for name in ("m", "k", "n", "count", "groups"):
        least = 1 if name in ("m", "count", "groups") else 0
        value = getattr(kernel, name)
        if not least <= value <= MOST:
            return f"{name} {value} is out of range; accepted: {least} to {MOST}"
    if kernel.count % kernel.groups:
        return f"groups {kernel.groups} do not divide count {kernel.count}"
    needed = {"product": ("k", "n"), "embedding": ("k", "n"), "adam": (), "copy": (), "launch": ()}
    for name in needed.get(kernel.kind, ("k", "n") if kernel.kind.startswith("attention") else ("n",)):
        if getattr(kernel, name) < 1:
            return f"{name} is missing: a kernel of kind {kernel.kind} has one"
    return None


def dumps(kernels: Iterable[Kernel], source: str) -> str:
    """A file of shapes, each of which is in it once. `source` says what they are of."""
    lines = ",\n".join("  " + json.dumps(asdict(kernel)) for kernel in dict.fromkeys(kernels))
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "source": {json.dumps(source)}, "kernels": [\n{lines}\n]}}\n'


def loads(text: str) -> list[Kernel]:
    """The kernels of a file of shapes. Raises [`ShapesError`]."""
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise ShapesError(f"this is no JSON: {error}") from None
    except RecursionError:
        raise ShapesError("this is no file of shapes: it is nested too deeply") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise ShapesError(f"this is no file of shapes: format must be {FORMAT!r} and version {VERSION}")
    listed = data.get("kernels")
    if not isinstance(listed, list):
        raise ShapesError("kernels: a list is expected")
    return [_kernel(item, f"kernels.{index}") for index, item in enumerate(listed)]


def _kernel(item: Any, place: str) -> Kernel:
    fields = Kernel.__dataclass_fields__
    if not isinstance(item, dict):
        raise ShapesError(f"{place}: a mapping is expected")
    for key, value in item.items():
        if key not in fields:
            raise ShapesError(f"{place}.{key}: this key is not known; accepted: {', '.join(fields)}")
        expected = str if key in ("kind", "direction", "dtype") else int
        if not isinstance(value, expected) or isinstance(value, bool):
            raise ShapesError(f"{place}.{key}: {'a text' if expected is str else 'an integer'} is expected")
    missing = [key for key in ("kind", "direction", "m", "k", "n") if key not in item]
    if missing:
        raise ShapesError(f"{place}.{missing[0]}: this is missing")
    kernel = Kernel(**item)
    wrong = legal(kernel)
    if wrong is not None:
        raise ShapesError(f"{place}: {wrong}")
    return kernel


@dataclass(frozen=True, slots=True)
class Measured:
    """What a kernel took."""

    kernel: Kernel
    time_s: float
    spread_s: float
    repetitions: int
    calls: int
    cache: str
    timing: str


class Table:
    """A table that is written row by row, so that what was measured is kept whatever ends the measurement."""

    def __init__(self, file: TextIO, device: str, torch: str) -> None:
        self._file = file
        self._writer = csv.writer(file, lineterminator="\n")
        self._about = (device, torch)
        self._writer.writerow(COLUMNS)

    def add(self, row: Measured) -> None:
        """Writes a row."""
        kernel = row.kernel
        sizes = (kernel.kind, kernel.direction, kernel.m, kernel.k, kernel.n, kernel.count, kernel.groups, kernel.dtype)
        times = (f"{row.time_s:.6g}", f"{row.spread_s:.3g}", row.repetitions, row.calls, row.cache, row.timing)
        self._writer.writerow((*sizes, kernel.bytes, *times, *self._about))
        self._file.flush()
