"""Trees with whole weights that use up every link into some GPU, found by trying.

Where a GPU receives no more than the rate that is asked for, the trees use all that its links have. So of a link into
such a GPU something carries the rest, and only the trees over it have to be tried: on a DGX-1, all GPUs are like that.
An integer program finds the same, and takes ten times as long for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TOLERANCE: Final = 1e-6
MOST_STEPS: Final = 3000
"""Links that are looked at before the search gives up; no clock decides that."""


class _TooLongError(Exception):
    """The search says nothing."""


def exactly(
    ends: Sequence[tuple[int, int]],
    capacity: Sequence[int],
    trees: Sequence[Sequence[int]],
    needed: float,
    numbers: Iterable[int],
) -> list[tuple[int, int]] | None:
    """Places of trees and their whole weights, which have a rate together, within the capacities of arcs with
    these ends: so many of them as the first of these numbers allows. None if there are none, or that takes too long to
    say.
    """
    import numpy as np

    if not trees:
        return None
    # Whole weights that have at least this together.
    rate = math.ceil(needed * (1 - TOLERANCE))
    arcs = np.zeros((len(trees), len(ends)), dtype=bool)
    for place, tree in enumerate(trees):
        arcs[place, list(tree)] = True
    into = np.zeros((max(dst for _, dst in ends) + 1, len(ends)), dtype=np.int64)
    for arc, (_, dst) in enumerate(ends):
        into[dst, arc] = 1
    # Nodes that no tree enters are roots.
    reached = (into @ arcs.any(axis=0)) > 0
    room = np.array(capacity, dtype=np.int64)
    widest = int(np.where(arcs, room, room.max()).min(axis=1).max())
    search = _Search(arcs, into[reached], widest)
    try:
        for most in numbers:
            found = search.of(np.arange(len(trees)), room, rate, most)
            if found is not None:
                return found
    except _TooLongError:
        pass
    return None


class _Search:
    def __init__(self, arcs: npt.NDArray[np.bool_], into: npt.NDArray[np.int64], widest: int) -> None:
        self.arcs, self.into, self.widest = arcs, into, widest
        self.steps = 0

    def of(
        self, places: npt.NDArray[np.int64], room: npt.NDArray[Any], left: int, most: int
    ) -> list[tuple[int, int]] | None:
        """The same of some of the trees, where arcs have so much left."""
        import numpy as np

        if left == 0:
            return []
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _TooLongError
        entering = self.into @ room
        if left > most * self.widest or entering.min() < left:
            return None
        full = (self.into[entering == left].any(axis=0)) & (room > 0)
        if not full.any():
            raise _TooLongError
        fit = places[~self.arcs[places][:, room == 0].any(axis=1)]
        users = self.arcs[fit].sum(axis=0)
        arc = int(np.where(full, users, len(self.arcs) + 1).argmin())
        over = self.arcs[fit, arc]
        others = fit[~over]
        for number, place in enumerate(fit[over]):
            # What was tried is in no solution.
            rest = np.concatenate([fit[over][number:], others])
            mine = self.arcs[place]
            for weight in range(min(left, int(room[mine].min())), 0, -1):
                found = self.of(rest, room - weight * mine, left - weight, most - 1)
                if found is not None:
                    return [(int(place), weight), *found]
        return None
