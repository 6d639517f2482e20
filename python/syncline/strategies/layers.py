"""What an NPU does for a layer and a micro-batch: steps of compute and of communication within the layer.

Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models", 2022, section 4.2). Neighbouring operators that `tensor` divides are a
region:

    forward                              backward
    enter    nothing                     all-reduce of the input's gradient
    leave    all-reduce of the output    nothing

With sequence parallelism what lies outside of regions is divided by tokens:

    enter    all-gather                  all-gather of the input again, which was kept in parts; reduce-scatter
    leave    reduce-scatter              all-gather of the output's gradient

Expert parallelism (Lepikhin et al., "GShard", 2020): around neighbouring operators that `expert` divides, an all-to-all
takes tokens to their experts, and another one takes results back; the same with gradients in the backward pass.

Context parallelism (Liu et al., "Ring Attention", 2023): of c NPUs each has a c-th of the tokens. Forward, blocks of
keys and values go on c - 1 times; backward they do so again, and their gradients go on c times, until they are home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from syncline.models.model import Axis, Layer, Operator
from syncline.sections.parallel import Parallel
from syncline.strategies import operators, recomputed
from syncline.strategies.costs import Costs, Kernels
from syncline.strategies.nodes import FORWARD, INPUT_GRAD, WEIGHT_GRAD
from syncline.strategies.recomputed import Again


@dataclass(frozen=True, slots=True)
class Compute:
    """Kernels, one after the other."""

    pass_: str
    kernels: Kernels


@dataclass(frozen=True, slots=True)
class Communicate:
    """A collective; what follows waits for it, or only what follows the next [`Join`]."""

    pass_: str
    family: str
    kind: str
    size: int
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Join:
    """Waits for all collectives that did not block."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An all-to-all of experts, with a size for each pair of ranks."""

    pass_: str
    sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """The core of attention block by block, while blocks of keys and values go around."""

    pass_: str
    blocks: int
    kernels: Kernels
    """What the core does with a block."""
    passing: int
    """Bytes of keys and values that go on with every block but the last."""
    returning: int
    """Bytes of their gradients that go on after every block."""


Step = Compute | Communicate | Join | Exchange | Ring


@dataclass(frozen=True, slots=True)
class LayerSteps:
    """The steps of a layer."""

    name: str
    forward: tuple[Step, ...]
    backward: tuple[Step, ...]
    """With what is computed again."""


@dataclass(frozen=True, slots=True)
class Region:
    """Neighbouring operators of a layer that the same axes divide."""

    operators: tuple[Operator, ...]
    """Their parts on one NPU."""
    balanced: tuple[Operator, ...]
    """The same as if all experts got as many tokens."""
    tensor: bool
    expert: bool
    gathers: bool
    """Whether its results are parts of rows, to be gathered."""
    again: tuple[Again, ...]
    """What is kept and computed again of each operator."""


def regions(layer: Layer, parallel: Parallel, share: float = 1.0) -> list[Region]:
    """A layer's regions on one NPU, whose experts get a share of tokens.

    Raises [`models.model.DivisionError`] for sizes that cannot be divided evenly.
    """
    ways: dict[Axis, int] = {
        "tensor": parallel.tensor,
        "sequence": parallel.tensor if parallel.sequence else 1,
        "expert": parallel.expert,
    }
    found, again = [], iter(recomputed.of(layer, parallel))
    for (tensor, expert), group in groupby(layer.operators, key=lambda o: ("tensor" in o.split, "expert" in o.split)):
        whole = tuple(group)
        balanced = tuple(operators.part(operator, ways, parallel.context) for operator in whole)
        parts = tuple(operators.loaded(part, share) for part in balanced) if expert and share != 1.0 else balanced
        gathers = tensor and whole[-1].split["tensor"] == operators.OUTPUTS
        found.append(Region(parts, balanced, tensor, expert, gathers, tuple(islice(again, len(whole)))))
    return found


class LayerPasses:
    """Makes the steps of layers."""

    def __init__(self, parallel: Parallel, costs: Costs, expert_rank: int | None = None) -> None:
        """Of one class of NPUs, which `expert_rank` tells from others where experts have different loads."""
        self.parallel = parallel
        self.costs = costs
        self.shares = shares(parallel)
        self.rank = expert_rank
        self.share = 1.0 if expert_rank is None else self.shares[expert_rank]

    def steps(self, layer: Layer) -> LayerSteps:
        """The steps of a layer. Raises [`models.model.DivisionError`]."""
        forward, backward = self.costs.once("steps", layer, lambda: self._steps(layer), self.rank)
        return LayerSteps(layer.name, forward, backward)

    def _steps(self, layer: Layer) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        found = regions(layer, self.parallel, self.share)
        forward = _merged([step for region in found for step in self._forward(region)])
        backward: list[Step] = list(forward) if self.parallel.recompute == "full" and layer.block else []
        backward += [step for region in found for step in self._again(region)]
        for region in reversed(found):
            backward += self._backward(region)
        return tuple(forward), tuple(_merged(backward))

    # Forward

    def _forward(self, region: Region) -> Iterator[Step]:
        if region.expert:
            yield from self._to_experts(region, FORWARD)
        if self._gathers(region):
            yield Communicate(FORWARD, "tensor", "all-gather", self._entering(region))
        for operator in region.operators:
            if operators.is_core(operator) and self.parallel.context > 1:
                yield from self._core_forward(operator)
            else:
                yield from self._compute(FORWARD, [operator])
        if region.tensor:
            yield from self._leave(region)
        if region.expert:
            yield from self._from_experts(region, FORWARD)

    def _again(self, region: Region) -> Iterator[Step]:
        """What runs again before the backward pass, with what has to be exchanged once more for it. The core of
        attention follows in its own place.
        """
        begins, ends = (region.again[place].runs > 0 for place in (0, -1))
        keeps_exchanges = recomputed.is_torchtitan(self.parallel)
        if region.expert and begins and not keeps_exchanges:
            yield from self._to_experts(region, FORWARD)
        if begins and self._gathers(region):
            yield Communicate(FORWARD, "tensor", "all-gather", self._entering(region))
        for operator, again in zip(region.operators, region.again, strict=True):
            if again.runs and not operators.is_core(operator):
                yield from self._compute(FORWARD, [recomputed.part(operator, again.runs)])
        if region.tensor and ends:
            for step in self._leave(region):
                if not keeps_exchanges or (isinstance(step, Communicate) and step.kind != "reduce-scatter"):
                    yield step
        if region.expert and ends and not keeps_exchanges:
            yield from self._from_experts(region, FORWARD)

    def _gathers(self, region: Region) -> bool:
        """Whether sequence parallelism gathers what enters a region."""
        return region.tensor and self.parallel.sequence and not self._is_lookup(region)

    def _leave(self, region: Region) -> Iterator[Step]:
        last = region.operators[-1]
        if last.kind == operators.LOSS:
            size = last.sizes["rows"] * operators.LOSS_BYTES
            for _ in range(operators.LOSS_REDUCES):
                yield Communicate(FORWARD, "tensor", "all-reduce", size)
        elif region.gathers:
            size = self.costs.demand(last).output_elements * self.costs.element * self.parallel.tensor
            yield Communicate(FORWARD, "tensor", "all-gather", size)
        else:
            kind = "reduce-scatter" if self.parallel.sequence else "all-reduce"
            yield Communicate(FORWARD, "tensor", kind, self._leaving(region))

    def _core_forward(self, core: Operator) -> Iterator[Step]:
        blocks, size = self.parallel.context, operators.keys_and_values(core) * self.costs.element
        if self.parallel.context_exchange == "ring":
            yield Ring(FORWARD, blocks, self.costs.kernels([core], FORWARD), size, 0)
            return
        yield Communicate(FORWARD, "context", "all-gather", size * blocks)
        yield from self._compute(FORWARD, [core] * blocks)

    # Backward

    def _backward(self, region: Region) -> Iterator[Step]:
        if region.expert:
            yield from self._to_experts(region, INPUT_GRAD)
        if region.tensor and self.parallel.sequence:
            yield from self._leave_backward(region)
        first = region.operators[: 1 if region.tensor else 0]
        for is_apart, group in groupby(reversed(region.operators[len(first) :]), key=self._is_apart):
            parts = list(group)
            yield from self._core_backward(parts) if is_apart else self._both_gradients(parts)
        if first:
            yield from self._enter_backward(region, first[0])
        if region.expert:
            yield from self._from_experts(region, INPUT_GRAD)

    def _is_apart(self, operator: Operator) -> bool:
        """Whether an operator is a core of attention that does more than its own backward pass."""
        if not operators.is_core(operator):
            return False
        return self.parallel.context > 1 or recomputed.repeats_core(operator, self.parallel)

    def _both_gradients(self, parts: Sequence[Operator]) -> Iterator[Step]:
        yield from self._compute(WEIGHT_GRAD, parts)
        yield from self._compute(INPUT_GRAD, parts)

    def _leave_backward(self, region: Region) -> Iterator[Step]:
        """The gradient of a region's output, and its input once more, which sequence parallelism keeps in parts."""
        if region.operators[-1].kind != operators.LOSS and not region.gathers:
            yield Communicate(INPUT_GRAD, "tensor", "all-gather", self._leaving(region))
        if not self._is_lookup(region) and not region.again[0].runs:  # which has gathered it
            yield Communicate(WEIGHT_GRAD, "tensor", "all-gather", self._entering(region), blocks=False)

    def _enter_backward(self, region: Region, first: Operator) -> Iterator[Step]:
        """The gradient of a region's input, with that of the first operator's weights beside it or before it."""
        if self._is_lookup(region):
            yield from self._both_gradients([first])
            return
        kind = "reduce-scatter" if self.parallel.sequence else "all-reduce"
        exchange = Communicate(INPUT_GRAD, "tensor", kind, self._entering(region), blocks=False)
        if self._is_apart(first):
            yield from self._core_backward([first])
        else:
            yield from self._compute(INPUT_GRAD, [first])
        if self.parallel.sequence:
            yield Join()  # the weights' gradient needs the whole input
        if self.parallel.overlap.tensor:
            yield exchange
            yield from self._compute(WEIGHT_GRAD, [first])
        else:
            yield from self._compute(WEIGHT_GRAD, [first])
            yield exchange
        yield Join()

    def _core_backward(self, cores: Iterable[Operator]) -> Iterator[Step]:
        blocks = self.parallel.context
        for core in cores:
            again = (FORWARD,) if recomputed.repeats_core(core, self.parallel) else ()
            size = operators.keys_and_values(core) * self.costs.element
            kernels = self.costs.kernels([core], *again, INPUT_GRAD)
            if blocks > 1 and self.parallel.context_exchange == "ring":
                yield Ring(INPUT_GRAD, blocks, kernels, size, size)
                continue
            if blocks > 1:
                yield Communicate(INPUT_GRAD, "context", "all-gather", size * blocks)
            yield Compute(INPUT_GRAD, kernels * blocks)
            if blocks > 1:
                yield Communicate(INPUT_GRAD, "context", "reduce-scatter", size * blocks)

    # What both have

    def _compute(self, pass_: str, parts: Sequence[Operator]) -> Iterator[Step]:
        kernels = self.costs.kernels(parts, pass_)
        if kernels:
            yield Compute(pass_, kernels)

    def _is_lookup(self, region: Region) -> bool:
        return region.operators[0].kind in operators.LOOKUPS

    def _entering(self, region: Region) -> int:
        """Bytes of what enters a tensor-parallel region, whole."""
        return self._size(region.operators, first=True)

    def _leaving(self, region: Region) -> int:
        """The same of what leaves it."""
        return self._size(region.operators, first=False)

    def _size(self, parts: Sequence[Operator], *, first: bool) -> int:
        operator = parts[0 if first else -1]
        demand = self.costs.demand(operator)
        elements = demand.input_elements if first else demand.output_elements
        return elements * self.costs.element

    def _sent(self, region: Region, *, first: bool) -> int:
        """Bytes that an NPU sends to all experts together, or gets from them: as if loads were equal."""
        size = self._size(region.balanced, first=first)
        divided = region.tensor and self.parallel.sequence
        return size // self.parallel.tensor if divided else size

    def _to_experts(self, region: Region, pass_: str) -> Iterator[Step]:
        yield from self._routing(pass_, self._sent(region, first=pass_ == FORWARD), outward=True)

    def _from_experts(self, region: Region, pass_: str) -> Iterator[Step]:
        yield from self._routing(pass_, self._sent(region, first=pass_ != FORWARD), outward=False)

    def _routing(self, pass_: str, size: int, *, outward: bool) -> Iterator[Step]:
        if self.rank is None:
            yield Communicate(pass_, "expert", "all-to-all", size)
            return
        number = self.parallel.expert
        rows = [tuple(round(size * share / number) for share in self.shares)] * number
        yield Exchange(pass_, tuple(rows if outward else zip(*rows, strict=True)))


def shares(parallel: Parallel) -> list[float]:
    """What the experts of each NPU get, as a multiple of what they would get if all got as much."""
    loads = parallel.expert_loads or [1.0] * parallel.expert
    total = sum(loads)
    return [load * len(loads) / total for load in loads]


def _merged(steps: Sequence[Step]) -> list[Step]:
    """The steps, with kernels of a pass that follow one another as one."""
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        if isinstance(step, Compute) and isinstance(before, Compute) and step.pass_ == before.pass_:
            found[-1] = Compute(step.pass_, before.kernels + step.kernels)
        else:
            found.append(step)
    return found
