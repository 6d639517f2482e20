"""`python -m tests.records`: simulates anew what is committed of simulations, and lists what differs.

Without arguments that is everything, which takes hours. A ledger that was ended is taken up again with `--keep`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from syncline.engine import runner

from . import every
from .record import Record, sample


def main() -> int:
    """The exit status is 1 if something is no longer as it is committed."""
    parser = argparse.ArgumentParser(prog="python -m tests.records", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TEXT", help="only records whose names contain one of these")
    parser.add_argument("--sample", type=float, metavar="SECONDS", help="a sample that takes about as long")
    parser.add_argument("--seed", type=int, help="the seed of the sample")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the ledger's simulations in this folder")
    parser.add_argument("--threads", type=int, help="records that are simulated at once; by default one per core")
    given = parser.parse_args()
    chosen = list(every(given.keep))
    if given.names:
        chosen = [record for record in chosen if any(name in record.name for name in given.names)]
    if given.sample is not None:
        chosen = list(sample(chosen, given.sample, given.seed))
    different = 0
    for record, found in runner.concurrently(
        [(record.name, partial(_simulated, record)) for record in chosen], given.threads
    ):
        different += bool(found)
        print(f"{record.name}: {'; '.join(found) or 'as committed'}", flush=True)
    print(f"{different} of {len(chosen)} records differ")
    return int(different > 0)


def _simulated(record: Record) -> tuple[Record, list[str]]:
    return record, record.differences()


if __name__ == "__main__":
    sys.exit(main())
