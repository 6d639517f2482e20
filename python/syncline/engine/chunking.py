"""How many chunks a pipeline of streams has: in closed form, and by trial as Blink does it (MLSys 2020, 4.2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MB: Final = 10**6
STEADY: Final = 0.01
"""A throughput that changes by less than this share is steady."""


def best_chunks(fill_s: float, overhead_s: float, most: int = 65_536) -> int:
    """The number of chunks with which a pipeline takes the least time.

    With `c` chunks it takes `T(c) = T0 + c * overhead + fill / c`: `overhead` is what each chunk costs the slowest
    stage beside its bytes, and `fill` what all bytes would take on the way of the first chunk to the slowest stage,
    and of the last one from there. Along a chain of `g` GPUs that forward `S` bytes over links of rate `R`, `fill` is
    `(g - 2) S / R`.
    """
    if fill_s <= 0:
        return 1
    if overhead_s <= 0:
        return most
    low = max(1, min(most, math.floor(math.sqrt(fill_s / overhead_s))))
    return min(
        (chunks for chunks in (low, low + 1) if chunks <= most), key=lambda c: c * overhead_s + fill_s / c, default=most
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """An iteration."""

    chunk: int
    """Bytes of a chunk."""
    throughput: float


def miad(
    measure: Callable[[int], float],
    *,
    start: int = MB,
    factor: int = 2,
    step: int | Callable[[int], int] = MB,
    largest: int | None = None,
) -> list[Trial]:
    """Multiple increase, additive decrease: the chunk sizes of iterations until throughput is steady.

    `measure` gives the throughput with chunks of so many bytes. The size is multiplied by `factor` as long as that
    rises, and lowered by `step` once it has fallen, as long as that raises it again. It ends when a change of the size
    changes the throughput by less than a share of `STEADY`, or a step down lowers it. `largest` is the size of all
    data, since no chunk is larger. `step` may also be a function: the size that is tried after another one on the way
    down, or nothing below the smallest one.
    """
    if start <= 0 or factor < 2 or (isinstance(step, int) and step <= 0):
        raise ValueError("start and step are positive, and factor is at least 2")
    history = [Trial(start, measure(start))]
    while largest is None or history[-1].chunk < largest:
        before = history[-1]
        chunk = before.chunk * factor if largest is None else min(before.chunk * factor, largest)
        history.append(Trial(chunk, measure(chunk)))
        gain = history[-1].throughput / before.throughput - 1
        if abs(gain) < STEADY:
            return history
        if gain < 0:
            break
    else:
        return history
    while True:
        before = history[-1]
        chunk = step(before.chunk) if callable(step) else before.chunk - step
        if chunk <= 0:
            break
        history.append(Trial(chunk, measure(chunk)))
        if history[-1].throughput < before.throughput * (1 + STEADY):
            break
    return history


def steady_from(history: Sequence[Trial], best: float, within: float = 0.02) -> int | None:
    """The number of the iteration from which on throughput stays that close to the best; the first is 1."""
    far = [number for number, trial in enumerate(history, start=1) if trial.throughput < best * (1 - within)]
    last = far[-1] if far else 0
    return last + 1 if last < len(history) else None
