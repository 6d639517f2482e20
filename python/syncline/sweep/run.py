"""Carries out a sweep: simulates what no journal has yet, and writes the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from syncline import rundir
from syncline.sweep import pool
from syncline.sweep.journal import Entry, Journal, uninterrupted
from syncline.sweep.points import Simulation
from syncline.sweep.progress import SweepProgress
from syncline.sweep.table import Table


def simulate(
    simulations: Sequence[Simulation], journal: Journal | None, threads: int | None, *, quiet: bool
) -> tuple[dict[str, Entry], bool]:
    """What came of the simulations, by their keys, and whether they were interrupted."""
    entries = {s.key: Entry("refused", s.refusal) for s in simulations if s.refusal is not None}
    if journal is not None:
        entries = journal.entries | entries
    todo = {s.key: s for s in simulations if s.key not in entries}
    already = len({s.key for s in simulations}) - len(todo)
    jobs = [(key, s.variant) for key, s in todo.items()]
    try:
        with (
            SweepProgress({key: s.events for key, s in todo.items()}, already, quiet=quiet) as progress,
            closing(pool.simulate(jobs, threads)) as outcomes,
        ):
            for key, outcome in outcomes:
                with uninterrupted():  # the table has what the journal has
                    if isinstance(outcome, pool.WorkerDiedError):
                        entries[key] = Entry("failed", str(outcome))  # not kept: another time it may succeed
                    else:
                        if journal is not None:
                            journal.add(key, todo[key].name, outcome)
                        entries[key] = outcome
                progress.finished(key, failed=entries[key].status != "done")
    except KeyboardInterrupt:
        return entries, True
    return entries, False


@contextmanager
def keeping(journal: Journal | None, to_go_on: str) -> Iterator[None]:
    """Where something cannot be written, says what is kept all the same, and what to do. Closes the journal."""
    try:
        yield
    except OSError:
        if journal is not None:
            kept = f"{len(journal.entries)} simulations are kept in {journal.path}"
            print(f"{kept}; {to_go_on} goes on there", file=sys.stderr)
        raise
    finally:
        if journal is not None:
            journal.close()


def write(path: Path, found: Table, name: str, status: str) -> None:
    """Writes the table as Parquet, as a whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(found.as_arrow(name, status), sink)
    rundir.write(path, sink.getvalue().to_pybytes())
