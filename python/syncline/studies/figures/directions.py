"""Whether less or more of a measure is better, from the name of its column.

Of what costs something, less: times, energies, areas, powers, bytes, losses. Of what is gained, more: whatever is per
second, bandwidths, utilisations, efficiencies, speed-ups. Of fields that a sweep varies, amounts of hardware cost
something (`endpoint.sram`, `npu.memory_bandwidth`, which is paid for here and not gained); of others nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal

from syncline.studies import columns

Better = Literal["less", "more"]

LESS: Final = frozenset(
    {
        *("npus", "exposed_comm_share", "messages", "packet_hops", "steps", "fsm_peak", "bytes_sent_per_npu"),
        *(measure.name for measure in columns.TRANSPORT),
    }
)
"""What costs something although its name has no unit that says so."""
GAINED: Final = re.compile(r"_per_s(_|$)|(^|_)(bandwidth|utilisation|efficiency|speedup)(_|$)")
TIME: Final = re.compile(r"(?<!_per)_s$")
HARDWARE: Final = re.compile(r"(variants\.[^.]+\.)?(endpoint|npu)\.")
"""Fields of an experiment that say how much of something is built."""
COST: Final = re.compile(r"(_s|_j|_um2|_w|_bytes)$")


def of(column: str, axes: Collection[str]) -> Better | None:
    """Which is better of a column of a table that varies `axes`; nothing where that is not known."""
    if column in axes:
        return "less" if HARDWARE.match(column) and not TIME.search(column) else None
    if GAINED.search(column):
        return "more"
    return "less" if column in LESS or COST.search(column) else None


def other(better: Better) -> Better:
    """The opposite, as of a quotient whose lower part is the measure."""
    return "more" if better == "less" else "less"
