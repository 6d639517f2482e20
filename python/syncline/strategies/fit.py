"""Which divisions of a training fit into the memory of its NPUs, and with what terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import isqrt
from typing import Any, Final, get_args

from syncline.schema.parallel import Parallel
from syncline.strategies import memory
from syncline.strategies.memory import Memory
from syncline.strategies.training import Request

VARIED: Final = ("tensor", "pipeline", "data", "zero", "recompute")
"""What is varied; everything else is as the experiment says."""


ZERO_STAGES: Final = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A division, and the memory of an NPU of the stage that needs most."""

    parallel: Parallel
    needed: Memory
    micros: int

    def row(self, available: int) -> dict[str, Any]:
        """The candidate as a document has it."""
        varied = {name: getattr(self.parallel, name) for name in VARIED}
        terms = {f"{name}_bytes": size for name, size in self.needed.terms().items()}
        return {
            **varied,
            "micro_batches": self.micros,
            "fits": self.needed.total <= available,
            "memory_bytes": self.needed.total,
            "stage": self.needed.stage,
            **terms,
        }


def candidates(request: Request) -> Iterator[Candidate]:
    """All divisions that are legal, by tensor, pipeline, recomputation and ZeRO, the least divided first."""
    small = [number for number in range(1, isqrt(request.npus) + 1) if request.npus % number == 0]
    ways = sorted({*small, *(request.npus // number for number in small)})
    recomputed = get_args(Parallel.model_fields["recompute"].annotation)
    for tensor, pipeline, recompute, zero in product(ways, ways, recomputed, range(ZERO_STAGES)):
        changed = _changed(request, tensor=tensor, pipeline=pipeline, recompute=recompute, zero=zero)
        if any(True for _ in changed.violations()):
            continue
        setting = changed.setting()
        needed = max(memory.of(setting), key=lambda of_stage: of_stage.total)
        yield Candidate(setting.parallel, needed, setting.micros)


def _changed(request: Request, **values: Any) -> Request:
    """Another division; what the experiment says of what there is none of then, is left out."""
    given = request.parallel
    fallback: dict[str, Any] = {"data": None, "on": {}}
    if values["tensor"] == 1:
        fallback |= {"sequence": False, "scatter_gather": False}
    if values["pipeline"] == 1:
        fallback |= {"scatter_gather": False}
    if values["pipeline"] == 1 and given.schedule == "interleaved":
        fallback |= {"schedule": "1f1b", "virtual": 1}
    return replace(request, parallel=given.model_copy(update=fallback | values))
