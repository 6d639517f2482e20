"""`python -m lab.ns3`: simulates all rows; with `--record` keeps what came of them for docs/validation.md.

With `--pair PROGRAM` it times rows beside ns-3 instead: see `lab.ns3.pair`.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

from lab.ns3 import page, pair
from lab.ns3.runs import RECORD, median, rows, simulate
from syncline.base.errors import InputError


def main() -> int:
    """Simulates, prints what misses the aims, and says how many do."""
    parser = argparse.ArgumentParser(prog="python -m lab.ns3", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", action="store_true", help="keep the numbers for docs/validation.md")
    what.add_argument("--pair", metavar="PROGRAM", type=Path, help="time all rows beside this program, which runs ns-3")
    arguments = parser.parse_args()
    if arguments.pair is not None:
        return _paired(arguments.pair)
    written, missed = [], 0
    for row in rows():
        found = median([simulate(row, seed) for seed in range(1, row.seeds + 1)])
        misses = page.misses(row, found)
        missed += bool(misses)
        print(f"{row.given['pattern']:7} {row.given['hosts']:>3} {row.given['size_bytes']:>9} {', '.join(misses)}")
        written.append(row.given | {name: f"{value:g}" for name, value in asdict(found).items()})
    print(f"{missed} of {len(written)} rows miss an aim")
    if arguments.record:
        with RECORD.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(written[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(written)
    return 0


def _paired(program: Path) -> int:
    """Rows with both, in turn: processor time, and how many times as long ns-3 takes."""
    ratios = []
    simulate(rows()[0], 1)  # what is imported is not timed
    print("pattern hosts     bytes  frames of the switch    ns-3 [s]  Syncline [s]  ratio", flush=True)
    for row in rows():
        try:
            found = pair.run(program, row)
        except InputError as error:
            print(error, file=sys.stderr)
            return 2
        given = row.given
        print(
            f"{given['pattern']:7} {given['hosts']:>5} {given['size_bytes']:>9} {found.frames:>21,} "
            f"{found.theirs_s:>11.3f} {found.ours_s:>13.3f} {found.ratio:>6.1f}",
            flush=True,
        )
        if found.theirs_s >= pair.LEAST_PAIRED_S:
            ratios.append(found.ratio)
    if ratios:
        took = f"of which ns-3 takes {pair.LEAST_PAIRED_S:g} s or longer"
        print(f"{len(ratios)} rows {took}: median {statistics.median(ratios):.0f}, least {min(ratios):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
