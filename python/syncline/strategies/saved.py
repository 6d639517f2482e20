"""What an NPU keeps of a micro-batch for the backward pass: the tensors that PyTorch's eager operators save.

An operator saves what its backward pass needs (Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, section 4), which the engine counts. A tensor that two operators save counts once: what
attention returns is what the product behind it takes. Beside these:

* The gates of `swiglu` and `geglu` are an activation function and a multiplication, each of which saves what it takes;
  as one kernel (`torch.compile`, Megatron-LM) they save what both take.
* Pooling saves where the maxima were.
* Autocast runs norms in the type of the weights, so that what passes between blocks has that type, and keeps a cast of
  every weight of a product until its backward pass.

The loss, with logits of e bytes an element and w bytes of the widest type of the training, saves and needs beside that
when its backward pass begins:

    eager      w, and 2 w for the gradients of its two halves: a softmax and the loss of its logarithms. In pure BF16 w
               is e; with anything in FP32 logits are cast to it
    autocast   e + w, and w: the softmax is in the type of its logits, and its result is cast (`LossNLL.cpp` of PyTorch
               asks for that type)
    megatron   4, and e: FP32, whose gradient is computed in its place and cast
    fused      e, and e: the logits themselves and their gradient (`flash_attn.losses.cross_entropy`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncline.models.model import Layer, Operator
from syncline.sections.data_types import WIDE
from syncline.sections.parallel import Parallel
from syncline.strategies import operators, recomputed
from syncline.strategies.costs import PRODUCTS
from syncline.strategies.layers import Region, regions
from syncline.strategies.recomputed import GATED, NORMS, Again
from syncline.strategies.setting import Setting

POOL: Final = "max-pool"
INDEX_BYTES: Final = 8
"""Bytes of the place of a maximum, of which pooling keeps one for each."""


def kept_bytes(layer: Layer, parallel: Parallel, setting: Setting, share: float = 1.0) -> int:
    """Bytes that a layer keeps of a micro-batch for its backward pass."""
    if parallel.recompute == "full" and layer.block:
        return between_layers(parallel, setting)

    def summed() -> int:
        found = regions(layer, parallel, share)
        if layer.block and recomputed.is_torchtitan(parallel):
            return _as_torchtitan(found, parallel, setting)
        before = (recomputed.KEPT, *(_behind(region.operators[-1], region.again[-1]) for region in found))
        return sum(_of_region(*each, parallel, setting) for each in zip(found, before, strict=False))

    return setting.costs.once("kept", layer, summed, parallel.recompute)


def between_layers(parallel: Parallel, setting: Setting) -> int:
    """Bytes of what goes from layer to layer, as an NPU keeps it."""
    whole = setting.activation * setting.between // setting.element
    return whole // (parallel.tensor if parallel.sequence else 1)


def of_loss(layer: Layer, parallel: Parallel, setting: Setting) -> int:
    """Bytes of logarithms of probabilities that a layer keeps, if it has a loss."""
    found = regions(layer, parallel)
    losses = [operator for region in found for operator in region.operators if operator.kind == operators.LOSS]
    return sum(sum(_saved(loss, parallel, setting)) for loss in losses)


def beside_loss(layer: Layer, parallel: Parallel, setting: Setting) -> int:
    """Bytes of the gradients that the loss of a layer has where its backward pass begins, if it has one."""
    found = regions(layer, parallel)
    losses = [operator for region in found for operator in region.operators if operator.kind == operators.LOSS]
    wide = setting.widths.widest
    if setting.fused_loss or setting.kernels == "megatron":
        each = setting.element
    else:
        each = wide if setting.is_autocast and wide > setting.element else 2 * wide
    return each * sum(setting.costs.demand(loss).input_elements for loss in losses)


def _of_region(region: Region, before: Again, parallel: Parallel, setting: Setting) -> int:
    """Bytes that a region keeps; `before` says of the last operator in front of it whether it is computed again."""
    total = 0
    divided = region.tensor and parallel.sequence and region.operators[0].kind not in operators.LOOKUPS
    ways = parallel.tensor if divided and not operators.is_core(region.operators[0]) else 1
    for operator, again in zip(region.operators, region.again, strict=True):
        given, within = _saved(operator, parallel, setting)
        if again.runs and not given:
            given = _input(operator, setting)  # which it is computed again from
        if not before.runs:
            total += given // ways  # the input of a region is kept in parts, and gathered again
        if not again.runs:
            total += within + _cast(operator, setting)
        before, ways = _behind(operator, again), 1
    return total


def _behind(operator: Operator, again: Again) -> Again:
    """What the operator behind another one finds of its result: attention is computed again in its own place only."""
    return recomputed.KEPT if operators.is_core(operator) else again


def _as_torchtitan(found: Sequence[Region], parallel: Parallel, setting: Setting) -> int:
    """Bytes of a block's input, and of the results that are kept."""
    element = setting.element
    total = _input(found[0].operators[0], setting)
    for region in found:
        for operator, again in zip(region.operators, region.again, strict=True):
            if operators.is_core(operator):
                total += _saved(operator, parallel, setting)[1]
            total += int(setting.costs.demand(operator).output_elements * again.kept) * element
        ends = (setting.costs.demand(region.operators[place]) for place in (0, -1))
        first, last = next(ends).input_elements, next(ends).output_elements
        parts = parallel.tensor if region.tensor and parallel.sequence else 1
        if region.expert and parallel.expert > 1:
            total += (first + last) * element // parts
        if parts > 1 and not region.gathers and region.operators[-1].kind != operators.LOSS:
            total += last * element // parts
    return total


def _input(operator: Operator, setting: Setting) -> int:
    """Bytes of what an operator takes from the one before it."""
    elements = setting.costs.demand(operator).input_elements
    if operator.kind == "add":
        return elements // 2 * setting.between
    return elements * (setting.between if operator.kind in NORMS else setting.element)


def _saved(operator: Operator, parallel: Parallel, setting: Setting) -> tuple[int, int]:
    """Bytes that an operator saves of what it takes, and of what it computes."""
    costs = setting.costs
    demand = costs.demand(operator)
    if operator.kind in NORMS:
        return demand.input_elements * setting.between, 0
    if operator.kind in GATED:
        return demand.saved_bytes, demand.output_elements * costs.element if setting.kernels == "eager" else 0
    if operator.kind == POOL:
        return demand.saved_bytes, demand.output_elements * INDEX_BYTES
    if operator.kind == operators.LOSS:
        return _saved_by_loss(demand.input_elements, setting)
    if operator.kind == "dropout":
        return 0, demand.saved_bytes
    if not operators.is_core(operator):
        return demand.saved_bytes, 0
    given = demand.input_elements * costs.element
    if recomputed.repeats_core(operator, parallel):
        return given, 0
    scores = demand.saved_bytes - given
    return given, scores * (1 if operator.sizes.get("fused") else parallel.context)


def _saved_by_loss(logits: int, setting: Setting) -> tuple[int, int]:
    """Bytes that a loss saves of so many logits, and of what it computes."""
    wide = setting.widths.widest
    if setting.fused_loss:
        return logits * setting.element, 0
    if setting.kernels == "megatron":
        return 0, logits * WIDE
    casts = setting.is_autocast and wide > setting.element
    return 0, logits * (wide + (setting.element if casts else 0))


def _cast(operator: Operator, setting: Setting) -> int:
    """Bytes of the cast of an operator's weights, if there is one."""
    if not setting.is_autocast or operator.kind not in PRODUCTS:
        return 0
    return setting.costs.demand(operator).params * setting.element
