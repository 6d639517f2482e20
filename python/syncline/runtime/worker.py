"""A rank of a measurement: `python -m syncline.runtime.worker`, with what to measure in JSON on standard input.

It prints, as JSON, for each collective and size, how long each repetition took and how many elements were wrong.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from syncline.nccl.sizes import ELEMENT_BYTES
from syncline.runtime.library import Chosen, Communicator, DataType, Reduction

WARM_UP: Final = 20
"""Calls before those that count."""

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Task:
    """What a rank measures."""

    identity: str
    """The communicator's identity, in hexadecimal digits."""
    rank: int
    ranks: int
    cases: list[tuple[str, int]]
    """Collectives by name, with the bytes of the whole vector."""
    repetitions: int


@dataclass(frozen=True, slots=True)
class Row:
    """What a case came to on a rank."""

    kind: str
    size: int
    times_s: list[float]
    wrong: int
    chosen: Chosen
    """How the library carried it out."""


class _Case:
    """A collective of a size, with its buffers. Values are small whole numbers, whose sums are exact in any order."""

    def __init__(self, communicator: Communicator, kind: str, size: int) -> None:
        self.communicator, self.kind = communicator, kind
        ranks, own = communicator.ranks, communicator.rank
        elements = size // ELEMENT_BYTES
        self.count = elements // ranks if kind in {"all-gather", "reduce-scatter", "all-to-all"} else elements
        whole = self.count * ranks if kind in {"all-gather", "reduce-scatter", "all-to-all"} else elements
        self.source = _pattern(own, self.count if kind == "all-gather" else whole)
        self.target = np.full(self.count if kind == "reduce-scatter" else whole, -1, np.float32)

    def call(self) -> None:
        """Carries it out."""
        source, target = self.source.ctypes.data, self.target.ctypes.data
        match self.kind:
            case "all-reduce":
                self.communicator.all_reduce(source, target, self.count, DataType.FLOAT32, Reduction.SUM)
            case "reduce-scatter":
                self.communicator.reduce_scatter(source, target, self.count, DataType.FLOAT32, Reduction.SUM)
            case "reduce":
                self.communicator.reduce(source, target, self.count, DataType.FLOAT32, Reduction.SUM, 0)
            case "broadcast":
                self.communicator.broadcast(source, target, self.count, DataType.FLOAT32, 0)
            case "all-gather":
                self.communicator.all_gather(source, target, self.count, DataType.FLOAT32)
            case "all-to-all":
                self.communicator.all_to_all(source, target, self.count, DataType.FLOAT32)

    def wrong(self) -> int:
        """Elements of the result that are not what the collective means."""
        expected = self._expected()
        return 0 if expected is None else int(np.count_nonzero(self.target != expected))

    def _expected(self) -> Vector | None:
        ranks, own, count = self.communicator.ranks, self.communicator.rank, self.count
        share = slice(own * count, (own + 1) * count)
        match self.kind:
            case "all-reduce":
                return _sum(ranks, count)
            case "reduce":
                return _sum(ranks, count) if own == 0 else None
            case "reduce-scatter":
                return _sum(ranks, count * ranks)[share]
            case "broadcast":
                return _pattern(0, count)
            case "all-gather":
                return np.concatenate([_pattern(rank, count) for rank in range(ranks)])
            case _:
                return np.concatenate([_pattern(rank, count * ranks)[share] for rank in range(ranks)])


def _pattern(rank: int, elements: int) -> Vector:
    return ((np.arange(elements, dtype=np.int64) * 7 + rank * 13) % 1000).astype(np.float32)


def _sum(ranks: int, elements: int) -> Vector:
    total = np.zeros(elements, np.float32)
    for rank in range(ranks):
        total += _pattern(rank, elements)
    return total


def measure(task: Task) -> list[Row]:
    """Carries out all cases of a task, on one rank."""
    communicator = Communicator(bytes.fromhex(task.identity), task.rank, task.ranks)
    rows = []
    for kind, size in task.cases:
        case = _Case(communicator, kind, size)
        for _ in range(WARM_UP):
            case.call()
        times = []
        for _ in range(task.repetitions):
            begin = time.perf_counter()
            case.call()
            times.append(time.perf_counter() - begin)
        chosen = communicator.chosen(kind, case.count, DataType.FLOAT32)
        rows.append(Row(kind, size, times, case.wrong(), chosen))
    communicator.close()
    return rows


def main() -> int:
    """Reads the task, measures, and prints the rows."""
    given: dict[str, Any] = json.load(sys.stdin)
    given["cases"] = [(kind, size) for kind, size in given["cases"]]
    json.dump([asdict(row) for row in measure(Task(**given))], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
