"""`python -m lab.training_times`: simulates measured iterations, and prints errors.

With `--record` what came of them is kept for docs/validation.md, with `--fit` the two fitted constants are searched,
with `--only TEXT` only points are simulated whose names contain the text.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Sequence
from typing import Final

from lab.training_times import page
from lab.training_times.points import Constants, Point, points, simulated_s
from syncline.strategies import training

MEMORY: Final = [f"{percent}%" for percent in range(60, 90, 5)]
DISPATCH: Final = [f"{us}us" for us in range(50, 82, 2)]


def main() -> int:
    """Simulates, and prints."""
    parser = argparse.ArgumentParser(prog="python -m lab.training_times", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the numbers for docs/validation.md")
    parser.add_argument("--fit", action="store_true", help="search the two fitted constants on the rows named for them")
    parser.add_argument("--only", default="", metavar="TEXT", help="only points whose names contain this")
    options = parser.parse_args()
    if options.fit:
        _fit()
        return 0
    found = page.recorded() if options.record and page.RECORD.is_file() else {}
    for point in points():
        if options.only not in point.name:
            continue
        found[point.name] = simulated_s(point)
        training.forget()
        print(f"{found[point.name] / point.iteration_s - 1:+7.1%}  {point.name}", flush=True)
        if options.record:
            _write(found)
    if options.record:
        _record_changes()
    return 0


def _write(found: dict[str, float]) -> None:
    """Keeps what was simulated, in the order of the tables."""
    with page.RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["point", "simulated_s"])
        writer.writerows([p.name, f"{found[p.name]:.6g}"] for p in points() if p.name in found)


def _record_changes() -> None:
    """Simulates and keeps what explains errors."""
    rows = []
    for change in page.CHANGES:
        for point in change.points():
            rows.append([change.name, point.name, f"{simulated_s(point, change.constants):.6g}"])
            print(f"{float(rows[-1][2]) / point.iteration_s - 1:+7.1%}  {change.name}: {point.name}", flush=True)
    with page.CHANGES_RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["change", "point", "simulated_s"])
        writer.writerows(rows)


def _fit() -> None:
    """Prints the mean absolute errors of the rows that constants are fitted on, over a grid of values."""
    by_name = {point.name: point for point in points()}
    for rows, tried in (
        (page.MEMORY_ROWS, [Constants(sustained_memory=value) for value in MEMORY]),
        (page.DISPATCH_ROWS, [Constants(dispatch=value) for value in DISPATCH]),
    ):
        print(*rows, sep="\n")
        errors = [(_error([by_name[name] for name in rows], constants), constants) for constants in tried]
        for error, constants in errors:
            print(f"{error:7.1%}  {constants}")
        print(f"least: {min(errors, key=lambda pair: pair[0])[1]}")


def _error(rows: Sequence[Point], constants: Constants) -> float:
    return statistics.mean(abs(simulated_s(row, constants) / row.iteration_s - 1) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
