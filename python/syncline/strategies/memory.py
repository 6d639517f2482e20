"""Memory of an NPU by term: weights, gradients, states of the optimiser, activations, and what is there for a while.

States follow Rajbhandari et al. ("ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020,
section 3.1 and Fig. 1); activations are those of `strategies.saved`. What an NPU needs is the most that there is at a
time:

    backward pass    weights, states, and activations: all of them where it begins, with gradients of logits beside
                     what the loss has saved, then fewer, layer by layer, while gradients come
    update           weights, gradients, states, and the temporary tensors of an optimiser that is not fused

Gradients that are allocated once are there all the time: those of several micro-batches that are added up, those in
buckets of copies (DistributedDataParallel, Megatron-LM), and those in a wider type than that of the weights, which
have a buffer of their own (Megatron-LM). Others, as of FSDP, are freed behind the update. Libraries keep the workspace
of matrix products (`sections.execution`). Not counted are fragmentation, and what other kernels need while they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from syncline.models.model import Layer
from syncline.strategies import saved, schedules, weights
from syncline.strategies.gradients import buckets
from syncline.strategies.layers import shares
from syncline.strategies.setting import GATHERING, Setting
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
    phase: Literal["backward", "update"] = "backward"
    """When that is."""
    libraries: int = 0
    """Workspaces of matrix products."""

    @property
    def total(self) -> int:
        """All terms."""
        return self.weights + self.gradients + self.optimiser + self.activations + self.exchange + self.libraries

    def terms(self) -> dict[str, int]:
        """The terms, by name."""
        found = asdict(self)
        del found["stage"], found["phase"]
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
    """The memory of an NPU of each stage when it needs most; where NPUs of a stage differ, of the one that needs most.

    Raises [`models.model.DivisionError`] for sizes that cannot be divided evenly.
    """
    return [max(of_stage, key=lambda phase: phase.total) for of_stage in phases(setting)]


def phases(setting: Setting) -> list[list[Memory]]:
    """The memory of an NPU of each stage at the times at which it may need most, the beginning of the backward pass
    first. Raises [`models.model.DivisionError`].
    """
    parallel = setting.parallel
    pieces = weights.placed(setting.model, parallel.pipeline, parallel.virtual)
    return [
        [replace(phase, libraries=setting.workspace) for phase in _phases(setting, stage, pieces[stage])]
        for stage in range(parallel.pipeline)
    ]


def _phases(setting: Setting, stage: int, pieces: Sequence[tuple[Layer, ...]]) -> Iterator[Memory]:
    """What a stage has at these times."""
    parallel = setting.parallel
    of_chunks = weights.of_stage(setting.model, pieces, parallel, setting.costs)
    every = [of_layer for of_chunk in of_chunks for of_layer in of_chunk]
    order = schedules.turns(parallel.schedule, stage, parallel.pipeline, setting.micros, parallel.virtual)
    weight, gradient, state = _states(setting, sum(every, Weights()))
    if setting.is_pipedream:
        weight *= schedules.most_kept(order, [1] * parallel.virtual)
    exchange = _exchange(setting, of_chunks)
    if keeps_gradients(setting):
        activations = _most_activations(setting, pieces, order)
        yield Memory(stage, weight, gradient, state, activations, exchange)
    else:
        (piece,) = pieces
        behind = Weights()
        for there, of_layer in zip(_backward(setting, piece), reversed(every), strict=True):
            yield Memory(stage, weight, _states(setting, behind)[1], state, there, exchange)
            behind += of_layer
    if setting.costs_update:
        yield Memory(stage, weight, gradient, state + _temporary(setting, every), 0, 0, "update")


def keeps_gradients(setting: Setting) -> bool:
    """Whether gradients are allocated once, for all iterations."""
    widths, zero = setting.widths, setting.parallel.zero
    in_buckets = setting.has_copies or (setting.copies("data") > 1 and zero < GATHERING)
    return setting.micros > 1 or in_buckets or widths.gradients > widths.weights


def _states(setting: Setting, together: Weights) -> tuple[int, int, int]:
    """Bytes of weights, gradients and states of these parameters on one NPU."""
    parallel = setting.parallel
    of_optimiser = setting.widths.states(parallel.optimiser.moments) if setting.costs_update else 0
    sizes = (setting.weight, setting.widths.reduced, of_optimiser)
    # The parts of a sharded parameter server are updated each in one place only, as with ZeRO 1.
    zero = 1 if parallel.parameter_server == "sharded" else parallel.zero
    found = [states(n, setting.copies(family), zero, sizes) for family, n in setting.parts(together)]
    weight, gradient, state = (sum(column) for column in zip(*found, strict=True))
    return weight, gradient, state


def _temporary(setting: Setting, every: Sequence[Weights]) -> int:
    """Bytes of the roots of second moments, of which an optimiser that works on lists of tensors has one."""
    optimiser = setting.parallel.optimiser
    if optimiser.implementation != "foreach" or optimiser.kind != "adam":
        return 0
    return setting.widths.moment * setting.held(sum(every, Weights()), divided=setting.parallel.zero >= 1)


def _share(setting: Setting) -> float:
    """What the most loaded experts get."""
    return max(shares(setting.parallel)) if setting.parallel.expert_loads else 1.0


def _again(setting: Setting, layers: Sequence[Layer]) -> int:
    """Bytes of a block that is computed again, the largest one."""
    parallel, share = setting.parallel, _share(setting)
    if parallel.recompute not in ("full", "operators"):
        return 0
    whole = parallel.model_copy(update={"recompute": "none"})
    most = 0
    for layer in layers:
        if layer.block:
            there = saved.kept_bytes(layer, parallel, setting, share) if parallel.recompute == "operators" else 0
            most = max(most, saved.kept_bytes(layer, whole, setting, share) - there)
    return most


def _most_activations(setting: Setting, pieces: Sequence[tuple[Layer, ...]], order: Sequence[schedules.Turn]) -> int:
    """Bytes of all activations that micro-batches in flight keep, and of what is there for a while beside them."""
    parallel, share = setting.parallel, _share(setting)
    kept = [sum(saved.kept_bytes(layer, parallel, setting, share) for layer in piece) for piece in pieces]
    layers = [layer for piece in pieces for layer in piece]
    loss, beside = (what(layers[-1], parallel, setting) for what in (saved.of_loss, saved.beside_loss))
    return schedules.most_kept(order, kept) + max(beside, _again(setting, layers) - loss)


def _backward(setting: Setting, layers: Sequence[Layer]) -> Iterator[int]:
    """Bytes of activations when the backward pass of each layer begins, the last layer first."""
    parallel, share = setting.parallel, _share(setting)
    kept = [saved.kept_bytes(layer, parallel, setting, share) for layer in layers]
    there = sum(kept)
    for number in reversed(range(len(layers))):
        beside = saved.beside_loss(layers[number], parallel, setting) if number == len(layers) - 1 else 0
        again = _again(setting, layers[number : number + 1])
        yield there + max(beside, again)
        there -= kept[number]


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
