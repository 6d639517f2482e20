"""Execution plans of MSCCL++ (JSON, protocol Simple), read into schedules and written from them.

In a schedule every message has a step that sends it and one that takes it. In an execution plan data move one-sided: an
operation of one rank writes into memory of another (`put`) or reads from it (`get`), and nothing but `signal` and
`wait`, which meet in order on a channel, says when. `parse` reads the text, `order` carries a plan out and finds what
nothing orders, `lower` makes a schedule of it, and `write` makes a plan of a schedule.

Attributes of Syncline's own stand under the key `syncline` of the plan, of thread blocks and of operations, where
runtimes ignore them.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "mscclpp-json"

OPERATIONS: Final = 64
"""Of a thread block."""
CHANNELS: Final = 16
"""Of a type, and remote buffers, in a thread block."""
CHANNELS_OF_OPERATION: Final = 8
SEMAPHORES: Final = 16
"""Of a GPU; there are as many barriers."""

COLLECTIVES: Final = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reducescatter": "reduce_scatter",
    "alltoall": "alltoall",
    **{name: name for name in ("broadcast", "reduce", "gather", "scatter")},
}
"""Collectives as MSCCL++ spells them, and as schedules do. Its runtime has no name for the last three; its executor
runs whatever plan it is given."""

NAMED: Final = frozenset({"allreduce", "allgather", "reduce_scatter", "alltoall", "broadcast"})
"""Collectives, as schedules call them, by whose names runtimes choose a plan."""

OWN: Final = "syncline"
"""The key of what only Syncline knows."""
