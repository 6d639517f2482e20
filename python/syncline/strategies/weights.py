"""Which layers a stage has, and how many parameters of them one of its NPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from syncline.models.model import Axis, Layer, Model
from syncline.sections.parallel import Parallel
from syncline.strategies import operators
from syncline.strategies.costs import Costs


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters of a layer, or of several, on one NPU."""

    dense: int = 0
    """Those that all data-parallel NPUs have copies of."""
    expert: int = 0
    """Those of experts."""
    whole: int = 0
    """Those of `dense` that sequence parallelism applies to a part of the tokens: all tensor-parallel NPUs have them,
    and the gradients of each are of its tokens only."""
    tied: int = 0
    """Those of `dense` that a layer of another stage has too."""

    def __add__(self, other: Weights) -> Weights:
        return Weights(
            self.dense + other.dense, self.expert + other.expert, self.whole + other.whole, self.tied + other.tied
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.dense + self.expert


FEWER: Final = ((0, 0), (0, 1), (1, 1))
"""How many blocks less than others the first and the last chunk of a model may have: none; the last one has the head
beside its blocks, which takes most; the first one has the embedding (Llama team, "The Llama 3 Herd of Models", 2024,
section 3.3.2)."""


def blocks_of_chunks(blocks: int, chunks: int) -> list[int] | None:
    """How many of so many blocks each of so many chunks has: equally many, but for the first and the last chunk where
    that is not possible. None if it is not possible then either.
    """
    for first, last in FEWER:
        each, left = divmod(blocks + first + last, chunks)
        if blocks and each and not left:
            found = [each] * chunks
            found[0] -= first
            found[-1] -= last
            return found
    return None


def placed(model: Model, stages: int, chunks: int) -> list[list[tuple[Layer, ...]]]:
    """The layers of each stage, by chunk: as many blocks as [`blocks_of_chunks`] says, and what stands before the first
    block and behind the last one with the first and the last chunk. Chunk c of stage s comes behind that of stage
    s - 1, and that of stage 0 behind chunk c - 1 of the last stage.
    """
    if stages * chunks == 1:
        return [[model.layers]]
    blocks = [number for number, layer in enumerate(model.layers) if layer.block]
    numbers = blocks_of_chunks(len(blocks), stages * chunks)
    if numbers is None:
        raise ValueError(f"{len(blocks)} blocks in {stages * chunks} chunks")
    behind = [*blocks, blocks[-1] + 1]
    starts = [0, *(behind[before] for before in accumulate(numbers[:-1])), len(model.layers)]
    pieces = [model.layers[start:end] for start, end in pairwise(starts)]
    return [[pieces[chunk * stages + stage] for chunk in range(chunks)] for stage in range(stages)]


def of_layer(layer: Layer, parallel: Parallel, costs: Costs) -> Weights:
    """Parameters of a layer on one NPU, those that it shares with another layer included."""
    return costs.once("weights", layer, lambda: _of_operators(layer, parallel, costs))


def _of_operators(layer: Layer, parallel: Parallel, costs: Costs) -> Weights:
    ways: dict[Axis, int] = {"tensor": parallel.tensor, "expert": parallel.expert}
    found = Weights()
    for operator in layer.operators:
        params = costs.demand(operator.divided(ways)).params
        if "expert" in operator.split and parallel.expert > 1:
            found += Weights(expert=params)
        else:
            whole = params if "sequence" in operator.split else operators.bias_of_sum(operator)
            found += Weights(dense=params, whole=whole if parallel.sequence else 0)
    return found


def of_stage(
    model: Model, pieces: Sequence[tuple[Layer, ...]], parallel: Parallel, costs: Costs
) -> list[tuple[Weights, ...]]:
    """Parameters of the layers of a stage on one NPU, by chunk. What two of them share, the first one has."""
    here = {layer.name for piece in pieces for layer in piece}
    found = []
    for piece in pieces:
        of_piece = []
        for layer in piece:
            weights = of_layer(layer, parallel, costs)
            for first, second in model.tied:
                if layer.name == second and first in here:
                    weights += Weights(dense=-_shared(model, first, parallel, costs))
                elif layer.name in (first, second) and not {first, second} <= here:
                    weights += Weights(tied=_shared(model, first, parallel, costs))
            of_piece.append(weights)
        found.append(tuple(of_piece))
    return found


def _shared(model: Model, name: str, parallel: Parallel, costs: Costs) -> int:
    """Parameters of a layer's table of tokens on one NPU, which another layer shares."""
    layer = next(layer for layer in model.layers if layer.name == name)
    tables = [operator for operator in layer.operators if operator.kind in operators.LOOKUPS]
    return sum(costs.demand(table.divided({"tensor": parallel.tensor})).params for table in tables)
