"""What the times of a source's rows have in common beside their simulations: factors of parts, as a check of causes.

A row's time is taken to be what is simulated, with its matrix products and its attention a factor slower, and with a
time that passes in each forward pass of a layer. The three are fitted to the rows of one source on one GPU. They are no
part of any model: they say where a difference comes from.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.training_times.points import Point, variant
from syncline.core import _core
from syncline.engine import specification
from syncline.engine.runs import PS_PER_S
from syncline.nccl.solver import minimise
from syncline.strategies import training


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of an iteration's products and attention, while nothing else runs."""

    products_s: float
    attention_s: float


@dataclass(frozen=True, slots=True)
class Causes:
    """What makes simulations take as long as was measured, and by how much they still differ."""

    products: float
    attention: float
    pass_ms: float
    """Milliseconds of each forward pass of a layer."""
    error: float


def parts(point: Point) -> Parts:
    """The parts of the first NPU's iteration."""
    experiment = variant(point).experiment
    divided = training.divided(experiment)
    nodes = [node.work for node in divided.classes[0].nodes if node.work["op"] == "kernels"]
    kernels = [kernel.described() for work in nodes for kernel in divided.costs[work["cost"]]]
    training.forget()
    request = {"compute": specification.compute_model(experiment), "kernels": kernels, "mix": True}
    times = [answer["time_ps"] / PS_PER_S for answer in json.loads(_core.times(json.dumps(request)))]
    timed = list(zip(times, kernels, strict=True))
    return Parts(
        *(sum(t for t, kernel in timed if name in kernel.get("kind", ())) for name in ("product", "attention"))
    )


def passes(point: Point) -> int:
    """Forward passes of a layer in an iteration of a GPU."""
    micros = point.batch // (point.data * point.micro_batch)
    return micros * point.layers // point.pipeline * (2 if point.recompute == "full" else 1)


def causes(rows: Sequence[tuple[Point, float, Parts]]) -> Causes:
    """The causes fitted to points, each with the seconds that were simulated and its parts."""

    def errors(values: Sequence[float]) -> list[float]:
        products, attention, pass_ms = values
        return [
            (
                simulated_s
                + (products - 1) * of.products_s
                + (attention - 1) * of.attention_s
                + pass_ms / 1e3 * passes(point)
            )
            / point.iteration_s
            - 1
            for point, simulated_s, of in rows
        ]

    found = products, attention, pass_ms = minimise(errors, [1.0, 1.0, 0.0])
    return Causes(products, attention, pass_ms, statistics.mean(map(abs, errors(found))))
