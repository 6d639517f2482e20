"""How much of messages and links a run keeps: a little of many, since a run may have millions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

PART: Final = 20
"""Of every so many rows that the table `slices` may have, the tables below have one: 10,000 by default."""
STARTS: Final = {"messages": "sent_ps", "link_spans": "start_ps"}
"""The tables that are cut, and when their rows begin."""


def most(limit: int) -> int:
    """Rows of these tables, given `output.trace_limit`."""
    return -(-limit // PART)


def cut(tables: Mapping[str, pa.Table], limit: int) -> dict[str, pa.Table]:
    """The tables of a run with that part of messages and of busy spans of links that began first."""
    found = dict(tables)
    for name, column in STARTS.items():
        table = found.get(name)
        if table is not None and table.num_rows > most(limit):
            starts = table.column(column).to_numpy()
            # Messages are in this order already; spans are listed link by link.
            kept = starts.argsort(kind="stable")[: most(limit)]
            kept.sort()
            found[name] = table.take(kept)
    return found
