"""`python -m tests.documents`: runs all pages, slow blocks included, and with `--update` rewrites what they show."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from . import run
from .page import ROOT, PageError, all_pages


def main() -> int:
    """The exit status is 1 if a page does not run, or shows what is not printed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.documents", description="Runs the pages of the documentation."
    )
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="by default README.md and all of docs/")
    parser.add_argument("--update", action="store_true", help="write into the pages what commands print now")
    parser.add_argument("--fast", action="store_true", help="leave out blocks that are marked as slow")
    parser.add_argument("-v", "--verbose", action="store_true", help="say how long every command takes")
    given = parser.parse_args()
    wrong = 0
    for page in [path.resolve() for path in given.pages] or all_pages():
        wrong += not _passes(page, given)
    return int(wrong > 0)


def _passes(page: Path, given: argparse.Namespace) -> bool:
    text = page.read_text(encoding="utf-8")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = run.run(text, Path(folder), slow=not given.fast, said=_say if given.verbose else lambda _: None)
        except PageError as error:
            print(f"{_name(page)}: {error}")
            return False
    print(f"{_name(page)}: {time.monotonic() - began:.1f} s, {len(outcome.printed)} commands", flush=True)
    if given.update:
        page.write_text(run.updated(text, outcome), encoding="utf-8")
        outcome.failures = [failure for failure in outcome.failures if "prints something else" not in failure]
    for failure in outcome.failures:
        print(f"{_name(page)}, {failure}\n")
    return not outcome.failures


def _name(page: Path) -> str:
    return os.path.relpath(page, ROOT)


def _say(command: str) -> None:
    print(f"  {command}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
