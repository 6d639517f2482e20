"""Trees of some roots that stand for those of all, on networks with symmetries (`Packing.generators`)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from syncline.treegen.packing import Packing

Pair = tuple[int, int]


def kinds(packing: Packing) -> list[int]:
    """Of each GPU, the first one that symmetries lead to it."""
    return [int(kind) for kind in _group(packing)[0]]


def loads(packing: Packing, carried: Iterable[tuple[Pair, Fraction]]) -> dict[Pair, Fraction]:
    """What the trees of all roots load between two GPUs, for those pairs between which the trees that stand for all,
    whose own loads are given, carry something.
    """
    first, back = _group(packing)
    home: dict[Pair, Fraction] = {}
    pairs: dict[Pair, Pair] = {}
    for (src, dst), weight in carried:
        # Pairs that symmetries lead to each other are loaded alike, and one of them begins at the first GPU of a kind.
        place = pairs.setdefault((src, dst), (int(first[src]), int(back[src, dst])))
        home[place] = home.get(place, Fraction(0)) + weight
    return {pair: home[place] for pair, place in pairs.items()}


def _group(packing: Packing) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each GPU the first one that symmetries lead to it, and where the one that leads it there leads all others."""
    import numpy as np

    gpus = packing.gpus
    generators = [np.array(leads, dtype=np.int64) for leads in packing.generators]
    found = {0: np.arange(gpus)}
    waiting = [found[0]]
    for member in waiting:
        for leads in generators:
            product = leads[member]
            if int(product[0]) not in found:
                found[int(product[0])] = product
                waiting.append(product)
    first = np.full(gpus, -1, dtype=np.int64)
    inverses = np.empty((gpus, gpus), dtype=np.int64)
    for gpu in range(gpus):
        if first[gpu] < 0:
            for member in waiting:
                first[member[gpu]] = gpu
                inverses[member[gpu], member] = np.arange(gpus)
    return first, inverses
