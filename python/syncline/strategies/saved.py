"""What an NPU keeps of a micro-batch for the backward pass: the tensors that PyTorch's eager operators save.

An operator saves what its backward pass needs (Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4), which the engine counts. A tensor that two operators save counts once: what
attention returns is what the product behind it takes. Beside these:

* The gates of `swiglu` and `geglu` are an activation function and a multiplication, each of which saves what it takes.
* Pooling saves where the maxima were.
* A loss saves logarithms of probabilities in the widest type of the training: cross-entropy in pure BF16 has no wider
  ones, with anything in FP32 logits are cast to it.
* Autocast runs norms in the type of the weights, so that what passes between blocks has that type, and keeps a cast of
  every weight of a product until its backward pass.
"""

from __future__ import annotations

from typing import Final

from syncline.models.model import Layer, Operator
from syncline.sections.parallel import Parallel
from syncline.strategies import operators
from syncline.strategies.layers import Region, regions
from syncline.strategies.setting import Setting

NORMS: Final = frozenset({"layer-norm", "rms-norm"})
POOL: Final = "max-pool"
INDEX_BYTES: Final = 8
"""Bytes of the place of a maximum, of which pooling keeps one for each."""
GATED: Final = frozenset({"swiglu", "geglu"})


def kept_bytes(layer: Layer, parallel: Parallel, setting: Setting, share: float = 1.0) -> int:
    """Bytes that a layer keeps of a micro-batch for its backward pass."""
    if parallel.recompute == "full" and layer.block:
        return between_layers(parallel, setting)

    def summed() -> int:
        return sum(_of_region(region, parallel, setting) for region in regions(layer, parallel, share))

    return setting.costs.once("kept", layer, summed, parallel.recompute)


def between_layers(parallel: Parallel, setting: Setting) -> int:
    """Bytes of what goes from layer to layer, as an NPU keeps it."""
    whole = setting.activation * setting.between // setting.element
    return whole // (parallel.tensor if parallel.sequence else 1)


def of_loss(layer: Layer, parallel: Parallel, setting: Setting) -> int:
    """Bytes of logarithms of probabilities that a layer keeps, if it has a loss."""
    found = regions(layer, parallel)
    losses = [operator for region in found for operator in region.operators if operator.kind == operators.LOSS]
    return sum(_of_operator(loss, parallel, setting) for loss in losses)


def _of_region(region: Region, parallel: Parallel, setting: Setting) -> int:
    kept = [_of_operator(operator, parallel, setting) for operator in region.operators]
    divided = region.tensor and parallel.sequence and region.operators[0].kind not in operators.LOOKUPS
    if divided and not operators.is_core(region.operators[0]):
        kept[0] //= parallel.tensor  # the input of the region is kept in parts, and gathered again
    return sum(kept) + sum(setting.costs.cast_bytes(operator) for operator in region.operators)


def _of_operator(operator: Operator, parallel: Parallel, setting: Setting) -> int:
    costs = setting.costs
    demand = costs.demand(operator)
    if operator.kind in NORMS:
        return demand.input_elements * setting.between
    if operator.kind in GATED:
        return demand.saved_bytes + demand.output_elements * costs.element
    if operator.kind == POOL:
        return demand.saved_bytes + demand.output_elements * INDEX_BYTES
    if operator.kind == operators.LOSS:
        return demand.input_elements * setting.widths.widest
    if not operators.is_core(operator):
        return demand.saved_bytes
    given = demand.input_elements * costs.element
    if parallel.recompute == "selective":
        return given
    scores = demand.saved_bytes - given
    return given + scores * (1 if operator.sizes.get("fused") else parallel.context)
