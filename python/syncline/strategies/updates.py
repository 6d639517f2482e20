"""What an update of weights asks of an NPU."""

from __future__ import annotations

from typing import Final

from syncline.models.demands import Kernel
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Optimiser
from syncline.strategies.costs import Kernels

OPERATIONS_OF_MOMENT: Final = 5
"""Operations per parameter and moment: decay, add, correct, scale, apply. Memory bounds an update anyway."""


def kernels(parameters: int, optimiser: Optimiser, widths: Widths) -> Kernels:
    """The kernel that updates so many parameters: it reads gradients, reads
    and writes states, and writes weights, which it reads as well where there is no other copy.
    """
    if not parameters:
        return ()
    states = widths.states(optimiser.moments)
    moved = widths.reduced + 2 * states + (widths.weights if widths.master else 2 * widths.weights)
    return (Kernel(parameters * OPERATIONS_OF_MOMENT * optimiser.moments, parameters * moved),)
