"""What an update of weights asks of an NPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from syncline.models import demands
from syncline.sections.data_types import WIDE, Widths
from syncline.sections.parallel import Optimiser
from syncline.strategies.costs import Kernels

OPERATIONS_OF_MOMENT: Final = 5
"""Operations per parameter and moment: decay, add, correct, scale, apply. Memory bounds an update anyway."""
OF_LISTS: Final[Mapping[str, int]] = {"adam": 13, "sgd": 3}
"""Elements that `foreach` moves for each parameter beside those of a fused update: every operation on a list of tensors
reads what it works on and writes its result, which a fused update keeps in registers (PyTorch, `_multi_tensor_adam` in
`torch/optim/adam.py` and `_multi_tensor_sgd` in `sgd.py`)."""


def kernels(parameters: int, optimiser: Optimiser, widths: Widths) -> Kernels:
    """The kernel that updates so many parameters: it reads gradients, reads
    and writes states, and writes weights, which it reads as well where there is no other copy.
    """
    if not parameters:
        return ()
    states = widths.states(optimiser.moments)
    moved = widths.reduced + 2 * states + (widths.weights if widths.master else 2 * widths.weights)
    if optimiser.implementation == "foreach":
        moved += OF_LISTS[optimiser.kind] * widths.moment
    flops = parameters * OPERATIONS_OF_MOMENT * optimiser.moments
    return (demands.traffic(parameters * moved, "update", wide=widths.moment >= WIDE, flops=flops),)
