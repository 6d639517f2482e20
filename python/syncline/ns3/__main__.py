"""`python -m syncline.ns3`: simulates all rows; with `--record` keeps what came of them for docs/validation.md."""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import asdict

from syncline.ns3 import page
from syncline.ns3.runs import RECORD, median, rows, simulate


def main() -> int:
    """Simulates, prints what misses the aims, and says how many do."""
    parser = argparse.ArgumentParser(prog="python -m syncline.ns3", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the numbers for docs/validation.md")
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    sys.exit(main())
