"""What links and sums of packed trees cost, where an experiment states nothing else."""

from __future__ import annotations

from typing import Final

PEER_ACCESS_PS: Final = 250_000_000
"""Switching peer access, for each GPU, of which nobody publishes the cost: fitted on what hybrid transfers of seven and
eight GPUs gain (Blink, section 5.3; `reproduction/blink_links.py`)."""
REDUCE_RATE: Final = 300_000_000_000
"""A reduction reads two bytes and writes one for each byte of a chunk: a third of the memory bandwidth of a V100."""
