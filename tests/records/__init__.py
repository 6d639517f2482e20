"""What is committed of simulations, and whether they still give it: runs of ns-3, measured iterations, the ledger.

A *record* is a part of a committed file that a simulation has given: a row of `ns3/record.csv` or of
`training_times/record.csv`, or a line of docs/reproduction.md. `make test` simulates a sample anew, which changes with
the engine's sources; `make records` (`python -m tests.records`) simulates everything anew, and lists what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import ledger, ns3, training
from .record import Record


def every(keep: Path | None = None) -> Iterator[Record]:
    """All records; simulations of the ledger are kept in a folder, if one is given."""
    yield from ns3.records()
    yield from training.records()
    yield from ledger.records(ledger.committed(), keep)
