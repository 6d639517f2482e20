"""Memory of an NPU by term: weights, gradients, states of the optimiser, activations, and what is there for a while.

States follow Rajbhandari et al. ("ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020,
section 3.1 and Fig. 1), activations Korthikanti et al. ("Reducing Activation Recomputation in Large Transformer
Models", 2022, section 4): an operator keeps what its backward pass needs. Not counted are buffers of libraries,
fragmentation, and what a kernel needs while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from syncline.models.model import Layer, Operator
from syncline.sections.parallel import Parallel
from syncline.strategies import operators, schedules, weights
from syncline.strategies.costs import Costs
from syncline.strategies.gradients import buckets
from syncline.strategies.layers import Region, regions, shares
from syncline.strategies.setting import Setting
from syncline.strategies.weights import Weights


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of an NPU of a stage, by term."""

    stage: int
    weights: int
    """Weights, all versions of them that are kept."""
    gradients: int
    optimiser: int
    """States of the optimiser: copies of weights, and moments. None where weights are not updated."""
    activations: int
    """Those of all micro-batches in flight, and of a layer that is computed again."""
    exchange: int
    """Weights that are gathered for a while, and gradients that are not divided yet (ZeRO 2 and 3)."""

    @property
    def total(self) -> int:
        """All terms."""
        return self.weights + self.gradients + self.optimiser + self.activations + self.exchange

    def terms(self) -> dict[str, int]:
        """The terms, by name."""
        found = asdict(self)
        del found["stage"]
        return found


def states(parameters: int, copies: int, zero: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Bytes of weights, gradients and states of the optimiser of so many parameters, which `copies` NPUs have; `sizes`
    are the bytes of each for one parameter.

    ZeRO divides the states from stage 1 on, gradients from 2 on and weights with 3.
    """
    part = -(-parameters // copies)
    weight, gradient, state = sizes
    return (
        weight * (part if zero == 3 else parameters),
        gradient * (part if zero >= 2 else parameters),
        state * (part if zero >= 1 else parameters),
    )


def of(setting: Setting) -> list[Memory]:
    """The memory of an NPU of each stage; where NPUs of a stage differ, of the one that needs most.

    Raises [`models.model.DivisionError`] for sizes that cannot be divided evenly.
    """
    parallel = setting.parallel
    pieces = weights.placed(setting.model, parallel.pipeline, parallel.virtual)
    return [_of_stage(setting, stage, pieces[stage]) for stage in range(parallel.pipeline)]


def _of_stage(setting: Setting, stage: int, pieces: Sequence[tuple[Layer, ...]]) -> Memory:
    parallel = setting.parallel
    of_chunks = weights.of_stage(setting.model, pieces, parallel, setting.costs)
    every = [of_layer for of_chunk in of_chunks for of_layer in of_chunk]
    together = sum(every, Weights())
    order = schedules.turns(parallel.schedule, stage, parallel.pipeline, setting.micros, parallel.virtual)
    share = max(shares(parallel)) if parallel.expert_loads else 1.0
    state = setting.widths.states(parallel.optimiser.moments) if setting.costs_update else 0
    sizes = (setting.weight, setting.widths.reduced, state)
    # The parts of a sharded parameter server are updated each in one place only, as with ZeRO 1.
    zero = 1 if parallel.parameter_server == "sharded" else parallel.zero
    weight = gradient = state = 0
    for family, parameters in setting.parts(together):
        more = states(parameters, setting.copies(family), zero, sizes)
        weight, gradient, state = weight + more[0], gradient + more[1], state + more[2]
    if setting.is_pipedream:
        weight *= schedules.most_kept(order, [1] * parallel.virtual)
    kept = [sum(kept_bytes(layer, parallel, setting, share) for layer in piece) for piece in pieces]
    again = 0
    if parallel.recompute == "full":
        blocks = [layer for piece in pieces for layer in piece if layer.block]
        whole = parallel.model_copy(update={"recompute": "none"})
        again = max((kept_bytes(layer, whole, setting, share) for layer in blocks), default=0)
    activations = schedules.most_kept(order, kept) + again
    return Memory(stage, weight, gradient, state, activations, _exchange(setting, of_chunks))


def _exchange(setting: Setting, of_chunks: Sequence[Sequence[Weights]]) -> int:
    """Bytes of weights that are gathered at a time, and of gradients before they are divided."""
    zero = setting.parallel.zero
    if zero < 2 or setting.copies("data") == 1:
        return 0
    most = 0
    for of_chunk in of_chunks:
        sizes = [of_layer.total * setting.gradient for of_layer in of_chunk]
        together = [sum(sizes[n] for n in layers) for layers in buckets(sizes, setting.bucket, setting.first_bucket)]
        most = max(most, *together) if setting.overlap else max(most, sum(together))
    if zero == 2:
        return most
    layers = sorted((of_layer.total for of_chunk in of_chunks for of_layer in of_chunk), reverse=True)
    return most + setting.element * sum(layers[: setting.parallel.prefetch + 1])


def kept_bytes(layer: Layer, parallel: Parallel, setting: Setting, share: float = 1.0) -> int:
    """Bytes that a layer keeps of a micro-batch for its backward pass."""
    if parallel.recompute == "full" and layer.block:
        return setting.activation // (parallel.tensor if parallel.sequence else 1)

    def summed() -> int:
        return sum(_of_region(region, parallel, setting.costs) for region in regions(layer, parallel, share))

    return setting.costs.once("kept", layer, summed, parallel.recompute)


def _of_region(region: Region, parallel: Parallel, costs: Costs) -> int:
    kept = [_of_operator(operator, parallel, costs) for operator in region.operators]
    divided = region.tensor and parallel.sequence and region.operators[0].kind not in operators.LOOKUPS
    if divided and not operators.is_core(region.operators[0]):
        kept[0] //= parallel.tensor  # the input of the region is kept in parts, and gathered again
    return sum(kept)


def _of_operator(operator: Operator, parallel: Parallel, costs: Costs) -> int:
    demand = costs.demand(operator)
    if not operators.is_core(operator):
        return demand.saved_bytes
    given = demand.input_elements * costs.element
    if parallel.recompute == "selective":
        return given
    scores = demand.saved_bytes - given
    return given + scores * (1 if operator.sizes.get("fused") else parallel.context)
