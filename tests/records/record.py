"""Records, and samples of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from syncline.core import _core

SEED: Final = 1
"""With the engine's sources this makes the seed of the samples: they change with every change of the engine."""


@dataclass(frozen=True, slots=True)
class Record:
    """Something that was simulated and committed."""

    name: str
    cost_s: Callable[[], float]
    """About how many seconds of processor time its simulations take, before they are run."""
    differences: Callable[[], list[str]]
    """Simulates it anew: what is not as it is committed, each as a line."""


def sample(records: Sequence[Record], budget_s: float, seed: int | None = None) -> Iterator[Record]:
    """Records in a random order, as many as take no longer than the budget, leaving out those that take more than half
    of it. The order is that of the seed and of the engine's sources.
    """
    order = random.Random(f"{SEED if seed is None else seed} {_core.sources()}")
    left_s = budget_s
    for record in order.sample(records, len(records)):
        cost_s = record.cost_s()
        if cost_s <= min(left_s, budget_s / 2):
            left_s -= cost_s
            yield record
        elif left_s < budget_s / 20:
            return
