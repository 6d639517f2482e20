"""What is measured: kernels with their shapes, in JSON before and in CSV after. Needs the standard library only."""

from __future__ import annotations

import csv
import json
import math
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
    "convolution": (FORWARD, "input-grad", "weight-grad"),
    "batch-norm": (FORWARD, BACKWARD),
    "relu": (FORWARD, BACKWARD),
    "max-pool": (FORWARD, BACKWARD),
    "average-pool": (FORWARD, BACKWARD),
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
*convolution* with square filters of `window` rows, `stride` and `padding`, of images of `height` x `width`. `m`, `k`
            and `n` are those of the matrix product that does the same (`crates/workload/src/operators.rs`): forward,
            places of the filter on all images x (channels x elements of a filter) x filters.
*batch-norm* in training, of `m` images of `k` elements for each of `n` channels.
*max-pool*  of `m` images of `n` channels of `height` x `width`, over squares of `window` rows.
*average-pool* over each channel of as many.
*adam*      an update of `m` parameters in FP32, with two moments.
*copy*      `m` bytes from memory to memory.
*launch*    the time of one of `m` kernels of one element each, launched one by one, or as a graph.
The rest work on `m` rows of `n` elements (cross-entropy: a row is a token, an element a word).

Kernels on images have a `layout`: `nchw`, channel by channel, as PyTorch has images by default, or `nhwc`, all channels
of a place side by side (`channels_last` in PyTorch).
"""

FORMAT: Final = "syncline-shapes"
VERSION: Final = 1
MOST: Final = 2**40
"""Most of each size."""
IMAGES: Final = ("height", "width", "window", "stride", "padding")
"""The sizes that only kernels on images have, which are 0 for others."""
_HAVE_IMAGES: Final = {"convolution": IMAGES, "max-pool": IMAGES, "average-pool": IMAGES[:2]}
"""Kinds of kernels on images, with the sizes that they have."""
LAYOUTS: Final = ("nchw", "nhwc")
LAID_OUT: Final = ("convolution", "batch-norm", "max-pool", "average-pool")
"""Kinds of kernels whose time depends on how images lie in memory."""
COLUMNS: Final = (
    "kind", "direction", "m", "k", "n", "count", "groups", *IMAGES, "layout", "dtype", "bytes", "time_s", "spread_s",
    "repetitions", "calls", "cache", "timing", "device", "torch",
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
    height: int = 0
    width: int = 0
    window: int = 0
    stride: int = 0
    padding: int = 0
    layout: str = LAYOUTS[0]

    @property
    def windows(self) -> tuple[int, int]:
        """At how many places of an image, downwards and sideways, the window is."""
        free = (side + 2 * self.padding - self.window for side in (self.height, self.width))
        down, sideways = (space // self.stride + 1 for space in free)
        return down, sideways

    @property
    def convolved(self) -> tuple[int, int, int]:
        """Images, channels in and channels out (filters) of a convolution."""
        m, k, n = self.m, self.k, self.n
        # The product of each direction has these three sizes in another order (`KINDS`).
        places, terms, filters = {FORWARD: (m, k, n), "input-grad": (m, n, k)}.get(self.direction, (k, m, n))
        return places // math.prod(self.windows), terms // self.window**2, filters

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
        if self.kind == "convolution":
            images, channels, filters = self.convolved
            inputs = images * channels * self.height * self.width
            results = images * filters * math.prod(self.windows)
            return (inputs + filters * channels * self.window**2 + results) * width
        if self.kind == "batch-norm":
            return (5 if backward else 3) * rows * k * width  # statistics first, so that one input is read twice
        if self.kind in ("max-pool", "average-pool"):
            inputs = rows * self.height * self.width
            results = rows * (math.prod(self.windows) if self.kind == "max-pool" else 1)
            # The maxima are found again from inputs and results, as the engine counts.
            return (2 if backward and self.kind == "max-pool" else 1) * (inputs + results) * width
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
    if kernel.layout not in (LAYOUTS if kernel.kind in LAID_OUT else LAYOUTS[:1]):
        accepted = ", ".join(LAYOUTS) if kernel.kind in LAID_OUT else "none for a kernel that is not on images"
        return f"layout {kernel.layout!r} is not known; accepted: {accepted}"
    for name in ("m", "k", "n", "count", "groups", *IMAGES):
        least = 1 if name in ("m", "count", "groups") else 0
        value = getattr(kernel, name)
        if not least <= value <= MOST:
            return f"{name} {value} is out of range; accepted: {least} to {MOST}"
    if kernel.count % kernel.groups:
        return f"groups {kernel.groups} do not divide count {kernel.count}"
    with_terms = ("product", "embedding", "convolution", "batch-norm")
    needed: tuple[str, ...] = ("k", "n") if kernel.kind in with_terms or kernel.kind.startswith("attention") else ("n",)
    if kernel.kind in ("adam", "copy", "launch"):
        needed = ()
    on_images = _HAVE_IMAGES.get(kernel.kind, ())
    for name in (*needed, *on_images):
        if getattr(kernel, name) < 1 and name != "padding":
            return f"{name} is missing: a kernel of kind {kernel.kind} has one"
    for name in IMAGES:
        if name not in on_images and getattr(kernel, name):
            return f"{name} {getattr(kernel, name)} has no meaning for a kernel of kind {kernel.kind}; accepted: 0"
    return _legal_window(kernel) if "window" in on_images else None


def _legal_window(kernel: Kernel) -> str | None:
    """What is wrong with the window of a kernel on images, or nothing."""
    most = min(kernel.height, kernel.width) + 2 * kernel.padding
    if kernel.window > most:
        return f"window {kernel.window} is larger than the padded image; accepted: 1 to {most}"
    if kernel.kind == "max-pool":
        if 2 * kernel.padding > kernel.window:
            return f"padding {kernel.padding} is out of range; accepted: 0 to {kernel.window // 2}"
        return None
    images, channels, filters = kernel.convolved
    sizes = (images * math.prod(kernel.windows), channels * kernel.window**2, filters)
    if sorted(sizes) != sorted((kernel.m, kernel.k, kernel.n)):
        message = f"m {kernel.m}, k {kernel.k} and n {kernel.n} are not those of whole images and channels"
        return f"{message}; accepted: multiples of {math.prod(kernel.windows)} places and {kernel.window**2} elements"
    return None


def described(kernel: Kernel) -> dict[str, Any]:
    """A kernel by its fields, without sizes and layout of images where it works on none."""
    left_out = {name for name in IMAGES if not getattr(kernel, name)}
    left_out |= set() if kernel.kind in LAID_OUT else {"layout"}
    return {name: value for name, value in asdict(kernel).items() if name not in left_out}


def dumps(kernels: Iterable[Kernel], source: str) -> str:
    """A file of shapes, each of which is in it once. `source` says what they are of."""
    lines = ",\n".join("  " + json.dumps(described(kernel)) for kernel in dict.fromkeys(kernels))
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
        expected = str if key in ("kind", "direction", "dtype", "layout") else int
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
        known = described(kernel) | {name: getattr(kernel, name) for name in IMAGES}
        sizes = (known.get(name, "") for name in COLUMNS[: COLUMNS.index("bytes")])
        times = (f"{row.time_s:.6g}", f"{row.spread_s:.3g}", row.repetitions, row.calls, row.cache, row.timing)
        self._writer.writerow((*sizes, kernel.bytes, *times, *self._about))
        self._file.flush()
