"""Trees of one root that stand for those of all, on networks with symmetries (`Packing.generators`)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from syncline.trees.packing import Packing

Pair = tuple[int, int]


def loads(packing: Packing, carried: Iterable[tuple[Pair, Fraction]]) -> dict[Pair, Fraction]:
    """What the trees of all roots load between two GPUs, for those pairs between which the trees of one root, whose own
    loads are given, carry something.
    """
    back = _inverses(packing)
    home: dict[int, Fraction] = {}
    pairs: dict[Pair, int] = {}
    for (src, dst), weight in carried:
        # All pairs that symmetries lead to each other are loaded alike, and one of them begins at the first GPU.
        place = pairs.setdefault((src, dst), int(back[src, dst]))
        home[place] = home.get(place, Fraction(0)) + weight
    return {pair: home[place] for pair, place in pairs.items()}


def _inverses(packing: Packing) -> npt.NDArray[np.int64]:
    """For each GPU, where the symmetry that leads it to the first one leads all others."""
    import numpy as np

    gpus = packing.gpus
    generators = [np.array(images, dtype=np.int64) for images in packing.generators]
    found = {0: np.arange(gpus)}
    waiting = [found[0]]
    for member in waiting:
        for images in generators:
            product = images[member]
            if int(product[0]) not in found:
                found[int(product[0])] = product
                waiting.append(product)
    inverses = np.empty((gpus, gpus), dtype=np.int64)
    for gpu, member in found.items():
        inverses[gpu, member] = np.arange(gpus)
    return inverses
