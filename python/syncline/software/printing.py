"""Predicted times in the columns of nccl-tests, with the interval that they are expected in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from syncline.software.model import Model, Prediction
from syncline.software.wire import bus_factor

ELEMENT_BYTES: Final = 4
"""nccl-tests counts elements of `float` unless told otherwise."""
_OPERATIONS: Final = frozenset({"all-reduce", "reduce-scatter", "reduce"})
_ROOTED: Final = frozenset({"broadcast", "reduce"})
_DIVIDED: Final = frozenset({"reduce-scatter", "all-gather", "all-to-all"})


def table(model: Model, predictions: Sequence[Prediction]) -> str:
    """The table, as text."""
    platform = model.platform
    lines = [
        f"# {model.kind} on {platform}: {platform.gpus} GPUs, predicted",
        f"# software: {model.software.name}{' (anchored at a small size)' if model.anchored else ''}",
        "#",
        "#       size         count    type   redop    root       time    algbw    busbw          nine of ten",
        "#        (B)    (elements)                               (us)   (GB/s)   (GB/s)   between (us) and (us)",
    ]
    factor = float(bus_factor(model.kind, platform.gpus))
    redop = "sum" if model.kind in _OPERATIONS else "none"
    root = 0 if model.kind in _ROOTED else -1
    for p in predictions:
        rate = p.algorithm_bandwidth / 1e9
        lines.append(
            f"{p.size:>12} {_count(model, p.size):>13} {'float':>7} {redop:>7} {root:>7} {_us(p.time):>10} "
            f"{rate:>8.2f} {rate * factor:>8.2f}   {_us(p.low):>12} {_us(p.high):>8}"
        )
    return "\n".join(lines) + "\n"


def rows(model: Model, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """The same for JSON."""
    factor = float(bus_factor(model.kind, model.platform.gpus))
    return [
        {
            "size_bytes": p.size,
            "time_s": p.time,
            "time_low_s": p.low,
            "time_high_s": p.high,
            "algorithm_bandwidth_bytes_per_s": p.algorithm_bandwidth,
            "bus_bandwidth_bytes_per_s": p.algorithm_bandwidth * factor,
            "algorithm": p.algorithm,
            "protocol": p.protocol,
        }
        for p in predictions
    ]


def _count(model: Model, size: int) -> int:
    elements = size // ELEMENT_BYTES
    return elements // model.platform.gpus if model.kind in _DIVIDED else elements


def _us(seconds: float) -> str:
    """Microseconds with four or more digits, as nccl-tests prints them."""
    value = seconds * 1e6
    for limit, digits in ((100, 2), (10_000, 1)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"
