"""Holds this version to what a pinned one answers: `python -m lab.freeze DIR --tool PATH`.

The pinned version is cloned and built in DIR. Its studies, sweeps, figures and lists, random collectives and trainings,
and cases that its `tests/fuzz` generates become files and command lines; both versions run them, in parts, of which as
many at once as there are processors. What differs is printed, unless a line of `freeze_exemptions.txt` says why it
does: a regular expression, ` # `, the reason. The exit status is 1 if anything differs that is not exempt.

Steps whose result lies in DIR are not repeated, so that what was interrupted goes on when it is started again; what
this version answers is kept by its commit and its changes since. Everything together takes hours of processor time.

PATH is a program that is no part of this repository: the comparer that freezes what a version answers. Its commands are
`cases`, which writes cases down, `record`, which runs a part of them, and `compare`, for two such records.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PINNED: Final = "0df7b55470336c2bd02fe7bdbc0c3b8f5bb55cc1"
"""The commit whose answers count."""

SEED: Final = 1
DONE: Final = 1000
REFUSED: Final = 1000
RANDOM: Final = 300
"""Generated cases: how many that are done, that are refused, and random collectives and trainings each."""

LIMIT_S: Final = 60
"""Processor time after which a command is ended and counts as not covered."""

PARTS: Final = 20
"""Into how many parts a record is divided: the ones that were ended are not repeated."""

ROOT: Final = Path(__file__).parents[1]
EXEMPTIONS: Final = Path(__file__).with_name("freeze_exemptions.txt")


@dataclass(frozen=True, slots=True)
class Comparer:
    """The program that freezes answers, and the Python that it runs with."""

    tool: Path
    python: Path

    def run(self, *words: str | Path, check: bool = True) -> int:
        """Runs a command of it. Raises [`subprocess.CalledProcessError`]."""
        return subprocess.run([self.python, self.tool, *words], check=check).returncode


def _git(*words: str | Path, cwd: Path = ROOT) -> bytes:
    return subprocess.run(["git", *words], cwd=cwd, check=True, stdout=subprocess.PIPE).stdout


def pinned(folder: Path) -> Path:
    """A checkout of the pinned version."""
    if not folder.exists():
        _git("clone", "--quiet", "--no-checkout", ROOT, folder)
    _git("checkout", "--quiet", "--detach", PINNED, cwd=folder)
    return folder


def built(checkout: Path, engine: str) -> Path:
    """The command of a checkout, with the engine that a target of its Makefile builds for speed."""
    subprocess.run(["make", "--silent", f".venv/{engine}"], cwd=checkout, check=True)
    return checkout / ".venv/bin/syncline"


def state() -> str:
    """A name for this version: its commit, and what was changed in it since."""
    return hashlib.sha256(_git("rev-parse", "HEAD") + _git("diff", "HEAD", "--binary")).hexdigest()[:12]


def write_cases(comparer: Comparer, syncline: Path, checkout: Path, folder: Path) -> None:
    """Has the cases written down, with the generators of a checkout, unless they are there."""
    if folder.exists():
        return
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    counts = {"--done": DONE, "--refused": REFUSED, "--random": RANDOM, "--seed": SEED}
    words = [word for flag, value in counts.items() for word in (flag, str(value))]
    comparer.run("cases", unfinished, "--syncline", syncline, "--repo", checkout, *words)
    unfinished.rename(folder)


def record(comparer: Comparer, cases: Path, syncline: Path, part: int, folder: Path) -> None:
    """Records a part of what a version answers, unless that is there."""
    path = folder / f"{part}-of-{PARTS}.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        limits = ["--part", f"{part}/{PARTS}", "--limit", str(LIMIT_S)]
        comparer.run("record", cases, unfinished, "--syncline", syncline, *limits)
        unfinished.rename(path)


def joined(folder: Path) -> Path:
    """One file of all parts of a record."""
    path = folder.with_suffix(".jsonl")
    path.write_bytes(b"".join(part.read_bytes() for part in sorted(folder.glob("*.jsonl"))))
    return path


def main() -> int:
    """Makes what is missing in the folder, and compares."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.freeze", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where everything is kept")
    parser.add_argument("--tool", metavar="PATH", type=Path, required=True, help="the comparer")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="parts that run at once")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    checkout = pinned(folder / "pinned")
    old = built(checkout, ".engine")
    comparer = Comparer(arguments.tool.resolve(), old.with_name("python"))
    cases = folder / "cases"
    write_cases(comparer, old, checkout, cases)

    records = {folder / "records-pinned": old, folder / f"records-{state()}": built(ROOT, ".engine-release")}
    for kept in records:
        kept.mkdir(exist_ok=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        each = [(part, *kept) for part in range(1, PARTS + 1) for kept in records.items()]
        parts = [pool.submit(record, comparer, cases, syncline, part, kept) for part, kept, syncline in each]
        try:
            for ended in parts:
                ended.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return comparer.run("compare", *(joined(kept) for kept in records), "--allow", EXEMPTIONS, check=False)


if __name__ == "__main__":
    sys.exit(main())
