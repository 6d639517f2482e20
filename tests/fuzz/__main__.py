"""`python -m tests.fuzz`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from . import campaign
from .campaign import Failure
from .case import GENERATORS


def main() -> int:
    """Runs the campaign; the exit status is 1 if any case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile input for every command.")
    parser.add_argument("--cases", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", action="append", default=[], choices=list(GENERATORS), help="a generator")
    parser.add_argument("--skip", action="append", default=[], choices=list(GENERATORS), help="all generators but this")
    parser.add_argument("--case", type=int, help="one case again, with all that it says (with --only)")
    parser.add_argument("--keep", type=Path, help="write the files of the case into this folder")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, help="begin no more cases after this time")
    parser.add_argument("--save", type=Path, help="write failures into this file, one JSON object per line")
    parser.add_argument("--record", action="store_true", help="keep the numbers for docs/validation.md")
    given = parser.parse_args()
    only = given.only or [name for name in GENERATORS if name not in given.skip] * bool(given.skip)
    if given.case is not None:
        if len(given.only) != 1:
            parser.error("--case needs the generator: --only GENERATOR")
        return campaign.again(given.seed, given.only[0], given.case, given.keep)

    def heard(failure: Failure) -> None:
        print(failure, flush=True)
        if given.save is not None:
            with given.save.open("a") as file:
                line = {"again": failure.again, "command": failure.command}
                line |= {"kind": failure.flaw.kind, "detail": failure.flaw.detail}
                file.write(json.dumps(line) + "\n")

    numbers = range(given.first, given.first + given.cases)
    outcome = campaign.run(given.seed, numbers, only, given.processes, heard, given.minutes)
    found = outcome.record()
    print(json.dumps(found, indent=2))
    took = ", ".join(f"{name} {ms / outcome.cases[name]:.0f}" for name, ms in outcome.milliseconds.most_common())
    print(f"milliseconds per case: {took}", file=sys.stderr)
    print(f"{found['cases']} cases, {found['failures']} failures, {outcome.wall_time_s:.0f} s", file=sys.stderr)
    if given.record and outcome.cases.total() == given.cases:
        campaign.save(outcome, campaign.RECORD)
    elif given.record:
        print(f"{outcome.cases.total()} of {given.cases} cases are no record", file=sys.stderr)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
