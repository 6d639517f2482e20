"""Collectives that are carried out between processes of this host, measured as nccl-tests does.

Each rank is a process (`worker`). The time of a call is that of the rank that took longest; that of a size is the
median over the repetitions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from syncline.nccl.sizes import ELEMENT_BYTES
from syncline.runtime.library import Chosen, RuntimeFailure, new_identity
from syncline.runtime.worker import Task

KINDS: Final = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all")
"""What can be measured."""
MOST_RANKS: Final = 64


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long a collective of a size took."""

    kind: str
    size: int
    """Bytes of the whole vector, as nccl-tests counts it: what divides among ranks and elements."""
    time_s: float
    least_s: float
    wrong: int
    """Elements that were wrong, on all ranks together."""
    chosen: Chosen
    """How the library carried it out."""


def measured(kinds: Sequence[str], sizes: Sequence[int], ranks: int, repetitions: int = 20) -> list[Measurement]:
    """Carries out collectives of all sizes between so many processes. Raises [`RuntimeFailure`] where that fails."""
    unit = ELEMENT_BYTES * ranks
    cases = [(kind, max(unit, size // unit * unit)) for kind in kinds for size in sizes]
    identity = new_identity().hex()
    environment = os.environ | {"SYNCLINE_DEVICE": "cpu"}
    command = [sys.executable, "-m", "syncline.runtime.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(ranks)]  # type: ignore[call-overload]
    try:
        for rank, worker in enumerate(workers):
            worker.stdin.write(json.dumps(asdict(Task(identity, rank, ranks, cases, repetitions))))
            worker.stdin.close()
            worker.stdin = None
        answers = [worker.communicate() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (_, said) in zip(workers, answers, strict=True):
        if worker.returncode:
            last = said.strip().splitlines()[-1:] or ["a rank ended without a word"]
            raise RuntimeFailure(last[0])
    of_ranks = [json.loads(text) for text, _ in answers]
    rows = []
    for number, (kind, size) in enumerate(cases):
        parts = [of_rank[number] for of_rank in of_ranks]
        times = [max(times) for times in zip(*(part["times_s"] for part in parts), strict=True)]
        wrong = sum(part["wrong"] for part in parts)
        chosen = Chosen(**parts[0]["chosen"])
        rows.append(Measurement(kind, size, statistics.median(times), min(times), wrong, chosen))
    return rows
