"""Carries out a sweep: simulates what no journal has yet, and writes the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from syncline.base import atomic, interrupts, memory
from syncline.base.errors import CancelledError
from syncline.engine import estimate
from syncline.results import entries as results
from syncline.results import parquet
from syncline.studies import command_tables
from syncline.studies.sweeps import pool
from syncline.studies.sweeps.journal import Entry, Journal
from syncline.studies.sweeps.points import Simulation
from syncline.studies.sweeps.progress import SweepProgress
from syncline.studies.sweeps.table import LABELS, METADATA, Table
from syncline.studies.sweeps.work import WorkerDiedError

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.core.cancelling import Cancellation


Warn: TypeAlias = Callable[[str], None]


def on_stderr(warning: str) -> None:
    """Says what is to be known on standard error."""
    print(f"warning: {warning}", file=sys.stderr, flush=True)


def simulate(
    simulations: Sequence[Simulation],
    journal: Journal | None,
    threads: int | None,
    *,
    quiet: bool,
    address: str | None = None,
    watch: Watch | None = None,
    warn: Warn = on_stderr,
    memory_limit: int | None = None,
    cancel: Cancellation | None = None,
) -> tuple[dict[str, Entry], bool]:
    """What came of the simulations, by their keys, and whether they were interrupted, or ended by `cancel`. `address`
    is that of a Ray cluster, which simulates in place of processes of this machine. `watch` hears how far they are,
    `warn` of what is to be known before they begin.
    """
    entries = {s.key: Entry("refused", s.refusal) for s in simulations if s.refusal is not None}
    if journal is not None:
        if journal.remark is not None:
            warn(journal.remark)
        entries = journal.entries | entries
    pending = {s.key: s for s in simulations if s.key not in entries}
    already = len({s.key for s in simulations}) - len(pending)
    jobs = [(key, s.variant, s.seeds) for key, s in pending.items()]
    expected = [s.expected for s in pending.values() if s.expected is not None]
    threads = memory.at_once(threads, (each.memory_bytes for each in expected), memory_limit)
    long = estimate.warning_of_many("the sweep", [each.time_s for each in expected], threads)
    if long is not None and (not quiet or warn is not on_stderr):
        warn(long)
    weights, named = ({key: s.events for key, s in pending.items()}, {key: s.name for key, s in pending.items()})
    try:
        with SweepProgress(weights, already, quiet=quiet, watch=watch, names=named) as progress:
            keep(pool.simulate(jobs, threads, address, cancel=cancel), named, entries, journal, progress)
    except (KeyboardInterrupt, CancelledError):
        return entries, True
    return entries, False


Outcomes: TypeAlias = Generator[tuple[str, Entry | WorkerDiedError], None, None]
"""What comes of simulations, as it comes."""


def keep(
    outcomes: Outcomes,
    names: Mapping[str, str],
    entries: dict[str, Entry],
    journal: Journal | None,
    progress: SweepProgress,
) -> None:
    """Adds what comes of simulations to the entries and the journal; their `names` are for people."""
    with closing(outcomes):
        for key, outcome in outcomes:
            with interrupts.held_back():  # the table has what the journal has
                if isinstance(outcome, WorkerDiedError):
                    entries[key] = Entry("failed", str(outcome))  # not kept: another time it may succeed
                else:
                    if journal is not None:
                        journal.add(key, names[key], outcome)
                    entries[key] = outcome
            progress.finished(key, failed=entries[key].status != "done")


@contextmanager
def keeping(journal: Journal | None, to_go_on: str, *, quiet: bool = False) -> Iterator[None]:
    """Where something cannot be written, says what is kept all the same, and what to do, unless it is to be `quiet`.
    Closes the journal.
    """
    try:
        yield
    except OSError:
        if journal is not None and not quiet:
            kept = f"{len(journal.entries)} simulations are kept in {journal.path}"
            print(f"{kept}; {to_go_on} goes on there", file=sys.stderr)
        raise
    finally:
        if journal is not None:
            journal.close()


def write(path: Path, found: Table, name: str, status: str) -> None:
    """Writes the table as Parquet or CSV, by its suffix, as a whole or not at all."""
    atomic.write(path, parquet.content(found.as_arrow(name, status), path.suffix))


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Writes the document of a sweep, the same."""
    atomic.write(path, results.dumps(document) + "\n")


def is_sweep(path: Path) -> bool:
    """Whether a file looks like a table that a sweep has written."""
    if path.suffix == ".json":
        return command_tables.is_document(path, "axes", "points", "rows")
    return parquet.looks_like(path, METADATA, LABELS)
