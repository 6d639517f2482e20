"""Runs cases on several workers, and records what came of them."""

from __future__ import annotations

import json
import multiprocessing
import queue
import shlex
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from . import corpus, experiments, formats, lines, results, traces  # noqa: F401  (registers the generators)
from .case import GENERATORS, Case, Corpus, case_of, turn
from .verdict import Ended, Flaw, judge
from .worker import Worker

SAID_EVERY: Final = 1000
"""Cases after which a campaign says how far it is."""
RECORD: Final = Path(__file__).with_name("record.json")


@dataclass(frozen=True, slots=True)
class Failure:
    """A case with a flaw."""

    seed: int
    generator: str
    number: int
    command: list[str]
    flaw: Flaw

    @property
    def again(self) -> str:
        """The command that runs the case again."""
        return f"python -m tests.fuzz --seed {self.seed} --only {self.generator} --case {self.number}"

    def __str__(self) -> str:
        shown = shlex.join(["syncline", *self.command])
        return f"{self.flaw.kind}: {self.again}\n  {shown}\n  {self.flaw.detail.strip()[-1500:]}"


@dataclass(slots=True)
class Outcome:
    """What came of the cases."""

    seed: int
    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Cases by their generator and the status of the last command."""
    failures: list[Failure] = field(default_factory=list)
    milliseconds: Counter[str] = field(default_factory=Counter)
    """What the cases of each generator took."""
    wall_time_s: float = 0.0

    def record(self) -> dict[str, Any]:
        """The numbers that stay."""
        import syncline

        failed = Counter(failure.generator for failure in self.failures)
        by_status: Counter[str] = Counter()
        for (_, status), count in self.statuses.items():
            by_status[status] += count
        return {
            "version": syncline.__version__,
            "seed": self.seed,
            "cases": self.cases.total(),
            "statuses": dict(sorted(by_status.items())),
            "failures": len(self.failures),
            "generators": {
                name: {
                    "cases": self.cases[name],
                    "done": self.statuses[name, "0"],
                    "refused": self.statuses[name, "2"],
                    "failures": failed[name],
                }
                for name in GENERATORS
                if self.cases[name]
            },
        }


def run(
    seed: int,
    numbers: Sequence[int],
    only: Sequence[str] = (),
    processes: int = 2,
    heard: Callable[[Failure], None] = lambda _: None,
    minutes: float | None = None,
) -> Outcome:
    """Runs the cases of some numbers, of all generators or `only` of some; no more begin after some minutes."""
    outcome = Outcome(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="syncline-fuzz-corpus-") as folder:
        made = corpus.build(Path(folder) / "corpus")
        pending: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in numbers:
            pending.put(number)
        lock = threading.Lock()
        broken: list[BaseException] = []

        def work() -> None:
            worker = Worker(multiprocessing.get_context("spawn"))
            try:
                while not broken and (minutes is None or time.monotonic() - began < 60 * minutes):
                    try:
                        number = pending.get_nowait()
                    except queue.Empty:
                        return
                    name = turn(seed, number, only)
                    case = case_of(seed, name, number, made)
                    started = time.monotonic()
                    ends = worker.run(case)
                    with lock:
                        outcome.milliseconds[name] += round(1000 * (time.monotonic() - started))
                        _note(outcome, name, number, case, ends, heard)
            except BaseException as error:  # of the harness itself
                broken.append(error)
                raise
            finally:
                worker.end()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)
    if broken:
        raise broken[0]
    outcome.failures.sort(key=lambda failure: failure.number)
    outcome.wall_time_s = time.monotonic() - began
    return outcome


def _note(
    outcome: Outcome, name: str, number: int, case: Case, ends: Sequence[Ended], heard: Callable[[Failure], None]
) -> None:
    outcome.cases[name] += 1
    outcome.statuses[name, str(ends[-1].status)] += 1
    if outcome.cases.total() % SAID_EVERY == 0:
        print(f"{outcome.cases.total()} cases, {len(outcome.failures)} failures", file=sys.stderr, flush=True)
    for command, ended in zip(case.commands, ends, strict=False):
        flaw = judge(command, ended)
        if flaw is not None:
            failure = Failure(outcome.seed, name, number, command, flaw)
            outcome.failures.append(failure)
            heard(failure)
            return


def again(seed: int, name: str, number: int, keep: Path | None) -> int:
    """Runs one case in this process's worker and says everything; the exit status."""
    with tempfile.TemporaryDirectory(prefix="syncline-fuzz-corpus-") as folder:
        made: Corpus = corpus.build(Path(folder) / "corpus")
        case = case_of(seed, name, number, made)
        if keep is not None:
            for path, content in case.files.items():
                (keep / path).parent.mkdir(parents=True, exist_ok=True)
                (keep / path).write_bytes(content)
        worker = Worker(multiprocessing.get_context("spawn"))
        flawed = False
        for command, ended in zip(case.commands, worker.run(case), strict=False):
            print(f"$ {shlex.join(['syncline', *command])}\n[{ended.ended_by or ended.status}] {ended.detail}")
            sys.stdout.write(ended.out.decode("utf-8", "replace")[:4000])
            sys.stdout.write(ended.err.decode("utf-8", "replace")[-4000:])
            flaw = judge(command, ended)
            print(f"\nflaw: {flaw.kind}" if flaw else "\nno flaw")
            flawed = flawed or flaw is not None
        worker.end()
    return 1 if flawed else 0


def save(outcome: Outcome, path: Path) -> None:
    """Writes the record."""
    path.write_text(json.dumps(outcome.record(), indent=2) + "\n")
