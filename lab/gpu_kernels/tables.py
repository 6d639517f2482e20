"""Tables of `syncline measure` as rows: kernels of another GPU than the one whose operators were measured one by one.

Images are in PyTorch's default layout there, NCHW. Left out: launches, attention whose scores go through memory,
kernels in types of other widths, and grouped products.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.gpu_kernels.rows import Row

PASSES: Final = {"forward": "forward", "backward": "backward", "update": "update"} | {
    "input-grad": "input_grad",
    "weight-grad": "weight_grad",
}
ROWS: Final = {"layer-norm", "rms-norm", "gelu", "relu", "swiglu", "dropout", "add", "softmax"}
BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4}
PARAMETERS_BYTES: Final = 28
"""Of an Adam update of a parameter in FP32."""


def read(path: Path) -> list[Row]:
    """Rows of a table."""
    with path.open(newline="") as file:
        return [row for values in csv.DictReader(file) for row in _rows(values)]


def _rows(values: dict[str, str]) -> Iterator[Row]:
    kind, dtype = values["kind"], values["dtype"]
    if dtype not in BYTES or values["direction"] not in PASSES:
        return
    m, k, n, count, groups = (int(values[name]) for name in ("m", "k", "n", "count", "groups"))
    time_us, pass_, width = float(values["time_s"]) * 1e6, PASSES[values["direction"]], BYTES[dtype]

    def row(operator: str, library: str = "", **sizes: int) -> Row:
        return Row("measure", operator, pass_, sizes, width, library, time_us)

    if kind == "product" and groups == 1 and dtype != "fp32":
        yield row("matmul", rows=m, inputs=k, outputs=n, count=count) if count > 1 else _linear(row("linear"), m, k, n)
    elif kind == "attention-causal":
        yield row(
            "attention",
            "cudnn",
            sequences=1,
            heads=count,
            kv_heads=count,
            queries=m,
            keys=n,
            head_size=k,
            causal=1,
            fused=1,
        )
    elif kind in ROWS:
        yield row(kind, rows=m * count, features=n)
    elif kind == "copy":
        yield row("copy", rows=1, features=m * max(n, 1))
    elif kind == "cross-entropy":
        yield row("softmax-cross-entropy", rows=m, vocabulary=n)
    elif kind == "embedding":
        yield row("embedding", rows=m, vocabulary=k, features=n)
    elif kind == "adam":
        yield row("adamw", "fused", parameters=int(values["bytes"]) // PARAMETERS_BYTES)
    elif kind in ("convolution", "max-pool", "batch-norm"):
        yield from _image(values, row("image"))


def _linear(row: Row, m: int, k: int, n: int) -> Row:
    rows, inputs, outputs = {"forward": (m, k, n), "input_grad": (m, n, k), "weight_grad": (k, m, n)}[row.pass_]
    return _as(row, "linear", {"rows": rows, "inputs": inputs, "outputs": outputs, "bias": 0}, "")


def _as(row: Row, operator: str, sizes: dict[str, int], library: str) -> Row:
    return Row(row.set, operator, row.pass_, sizes, row.element_bytes, library, row.time_us)


def _image(values: dict[str, str], row: Row) -> Iterator[Row]:
    kind = values["kind"]
    m, k, n = (int(values[name]) for name in ("m", "k", "n"))
    if kind == "batch-norm":
        sizes = {"samples": m, "channels": n, "height": k, "width": 1}
        yield _as(row, kind, sizes, "nchw")
        return
    height, width, window, stride, padding = (
        int(values[name]) for name in ("height", "width", "window", "stride", "padding")
    )
    image = {"height": height, "width": width}
    moves = {"stride": stride, "padding": padding}
    if kind == "max-pool":
        yield _as(row, kind, {"samples": m, "channels": n, **image, "window": window, **moves}, "nchw")
        return
    windows, channels, filters = {
        "forward": (m, k, n),
        "input_grad": (m, n, k),
        "weight_grad": (k, m, n),
    }[row.pass_]
    along = [(side + 2 * padding - window) // stride + 1 for side in (height, width)]
    sizes = {"samples": windows // (along[0] * along[1]), "channels": channels // window**2, **image}
    yield _as(row, kind, {**sizes, "filters": filters, "kernel": window, **moves}, "nchw")
