"""What retransmission timeouts cost a run, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncline.base import text_units


def sentence(network: Mapping[str, Any], time_s: float) -> str | None:
    """Says so where the network of a document, in a run of so many seconds, waited for timeouts; nothing elsewhere."""
    count, stalled = network.get("rto_events") or 0, network.get("rto_stalled_s") or 0.0
    if not count:
        return None
    flows = network.get("flows_with_rto") or 0
    of = f"{count:,} retransmission timeout{'s' * (count != 1)} on {flows:,} connection{'s' * (flows != 1)}"
    if not stalled or not time_s:
        return f"{of}; the network was never idle meanwhile"
    share = text_units.percent(stalled / time_s)
    idle = f"for {text_units.duration(stalled)} nothing was on any link until one ended"
    return f"timeouts take {share} of the time: {idle} ({of})"
