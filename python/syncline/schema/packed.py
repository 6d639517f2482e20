"""The fields of packed trees, and which collectives they carry out."""

from __future__ import annotations

from typing import Final, Literal

from syncline.schema.section import Section

PACKED: Final = "packed-trees"
"""The algorithm, whose plans `syncline.trees` makes; the engine sees plans."""
PLANNED: Final = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce")
"""The collectives of which trees make plans."""


class Trees(Section):
    """Which trees are packed."""

    links: Literal["auto", "nvlink", "all"] = "auto"
    """The links that trees use: NVLinks with their switches (`nvlink`), or all; `auto`: NVLinks within a machine that
    has some, all in a cluster."""
    objective: Literal["time", "trees", "depth"] = "time"
    """Of trees with the best rate, those that are predicted to be the fastest for the size, the fewest, or the
    shallowest."""
