"""`python -m lab.training_times`: simulates measured iterations, and prints errors.

With `--record` what came of them is kept for docs/validation.md, with `--fit` the fitted number is searched, with
`--only TEXT` only points are simulated whose names contain the text.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Mapping
from dataclasses import astuple
from typing import Final

from lab.training_times import page
from lab.training_times.page import Outcome
from lab.training_times.parts import parts
from lab.training_times.points import Point, points, simulated_s

HOST_TIMES: Final = [f"{us}us" for us in range(40, 72, 2)]


def main() -> int:
    """Simulates, and prints."""
    parser = argparse.ArgumentParser(prog="python -m lab.training_times", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the numbers for docs/validation.md")
    parser.add_argument("--fit", action="store_true", help="search what hosts take on the rows named for it")
    parser.add_argument("--only", default="", metavar="TEXT", help="only points whose names contain this")
    options = parser.parse_args()
    if options.fit:
        _fit()
        return 0
    found = page.recorded() if options.record and page.RECORD.is_file() else {}
    for point in points():
        if options.only not in point.name:
            continue
        found[point.name] = outcome(point)
        print(f"{found[point.name].simulated_s / point.iteration_s - 1:+7.1%}  {point.name}", flush=True)
        if options.record:
            _write(found)
    if options.record:
        _record_changes()
    return 0


def outcome(point: Point) -> Outcome:
    """What is simulated of a point, and the parts of it if causes are looked for in its source."""
    of = astuple(parts(point)) if point.source in page.SEARCHED else (None, None)
    return Outcome(simulated_s(point), *of)


def _write(found: Mapping[str, Outcome]) -> None:
    """Keeps what was simulated, in the order of the tables."""
    with page.RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["point", *Outcome.__dataclass_fields__])
        for point in points():
            if point.name in found:
                values = astuple(found[point.name])
                writer.writerow([point.name, *("" if value is None else f"{value:.6g}" for value in values)])


def _record_changes() -> None:
    """Simulates and keeps what explains errors."""
    rows = []
    for change in page.CHANGES:
        for point in change.points():
            rows.append([change.name, point.name, f"{simulated_s(point, change.sections):.6g}"])
            print(f"{float(rows[-1][2]) / point.iteration_s - 1:+7.1%}  {change.name}: {point.name}", flush=True)
    with page.CHANGES_RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["change", "point", "simulated_s"])
        writer.writerows(rows)


def _fit() -> None:
    """Prints the mean absolute errors of the rows that hosts' time is fitted on, over a grid of values."""
    rows = [point for point in points() if point.name in page.FITTED]
    print(*(row.name for row in rows), sep="\n")
    errors = {}
    for time in HOST_TIMES:
        changed = {"npu": {"host_kernel_time": time}}
        errors[time] = statistics.mean(abs(simulated_s(row, changed) / row.iteration_s - 1) for row in rows)
        print(f"{errors[time]:7.1%}  {time}")
    print(f"least: {min(errors, key=errors.__getitem__)}")


if __name__ == "__main__":
    sys.exit(main())
