"""The fields of packed trees, and which collectives they carry out."""

from __future__ import annotations

from typing import Final, Literal

from syncline.base.section import Section

PACKED: Final = "packed-trees"
"""The algorithm, whose plans `syncline.treegen` makes; the engine sees plans."""
PLANNED: Final = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "gather", "scatter")
"""The collectives of which trees make plans."""

MIAD: Final = "miad"
"""In place of a number of slices: it is found from iteration to iteration."""
MOST_SLICES: Final = 2**20


class Trees(Section):
    """Which trees are packed."""

    links: Literal["auto", "nvlink", "pcie", "all", "hybrid"] = "auto"
    """The links that trees use: NVLinks with their switches (`nvlink`), PCIe and what joins sockets, all, or NVLinks
    and PCIe at the same time, with trees of their own (`hybrid`); `auto`: NVLinks within a machine that has some, all
    in a cluster, where servers reduce and broadcast on their own and exchange in between."""
    objective: Literal["time", "trees", "depth"] = "time"
    """Of trees with the best rate, those that are predicted to be the fastest for the size, the fewest, or the
    shallowest."""
