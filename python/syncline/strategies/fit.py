"""Which divisions of a training fit into the memory of its NPUs, and with what terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import isqrt
from typing import Any, Final

from syncline.sections.parallel import Parallel
from syncline.strategies import memory
from syncline.strategies.memory import Memory
from syncline.strategies.training import Request

VARIED: Final = ("tensor", "pipeline", "data", "zero", "recompute")
"""What is varied; everything else is as the experiment says."""


RECOMPUTED: Final = ("none", "selective", "full")
ZERO_STAGES: Final = 4
MOST_TENSOR: Final = 8
"""NPUs of a server, among which NVLink divides layers."""


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
    ways = divisors(request.npus)
    given = request.parallel.recompute
    recomputed = [*RECOMPUTED, *([given] if given not in RECOMPUTED else [])]
    for tensor, pipeline, recompute, zero in product(ways, ways, recomputed, range(ZERO_STAGES)):
        found = _candidate(_changed(request, tensor=tensor, pipeline=pipeline, recompute=recompute, zero=zero))
        if found is not None and found.parallel.zero == zero:
            yield found


def first_that_fits(request: Request, available: int) -> Candidate | None:
    """The first division that fits into so many bytes, divided at least as far as it is asked for. What costs least
    communication is tried first: stages of ZeRO, then tensor parallelism within a server, then computing activations
    again, then a pipeline.
    """
    given = request.parallel
    ways = divisors(request.npus)
    tensors = [size for size in ways if given.tensor <= size <= max(given.tensor, MOST_TENSOR)]
    recomputed = [given.recompute, *(["full"] if given.recompute != "full" else [])]
    pipelines = [size for size in ways if size >= given.pipeline]
    for pipeline, recompute, tensor, zero in product(pipelines, recomputed, tensors, range(given.zero, ZERO_STAGES)):
        found = _candidate(_changed(request, tensor=tensor, pipeline=pipeline, recompute=recompute, zero=zero))
        if found is not None and found.needed.total <= available:
            return found
    return None


def changes(request: Request, found: Candidate) -> str:
    """What a candidate has in place of what is asked for, as keys of `parallel` in YAML; `data` follows from others."""
    values = {name: getattr(found.parallel, name) for name in VARIED if name != "data"}
    return ", ".join(f"{name}: {value}" for name, value in values.items() if value != getattr(request.parallel, name))


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _candidate(request: Request) -> Candidate | None:
    """The candidate that a request is, if it is legal."""
    if any(True for _ in request.violations()):
        return None
    setting = request.setting()
    return Candidate(setting.parallel, max(memory.of(setting), key=lambda of_stage: of_stage.total), setting.micros)


def _changed(request: Request, **values: Any) -> Request:
    """Another division; what the experiment says of what there is none of then, is left out."""
    given = request.parallel
    fallback: dict[str, Any] = {"data": None, "on": {}}
    if not values["zero"]:
        fallback |= {"hsdp": None}
    if values["tensor"] == 1:
        fallback |= {"sequence": False, "scatter_gather": False}
    if values["pipeline"] == 1:
        fallback |= {"scatter_gather": False}
    if values["pipeline"] == 1 and given.schedule == "interleaved":
        fallback |= {"schedule": "1f1b", "virtual": 1}
    return replace(request, parallel=given.model_copy(update=fallback | values))
