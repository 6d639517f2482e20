"""What kernels take on an NPU, for estimates; simulations ask the same code of the engine themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from syncline.core import binding
from syncline.models.demands import Kernel

Basis = Literal["model", "measured", "interpolated", "outside"]
"""Where a time comes from: a model of the NPU, a measurement of the shape, of shapes around it, or of others only."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a kernel takes."""

    time_ps: int
    """How long it runs, its launch included."""
    moved_bytes: int
    """Bytes from and to main memory, operands that are read again included."""
    basis: Basis


def of(compute: Mapping[str, Any], kernels: Sequence[Kernel]) -> list[Taken]:
    """What each of the kernels takes under a compute model, as `schema.compute.specification` describes it.

    Raises `_core.SpecError` if it describes none.
    """
    binding.require()
    from syncline.core import _core

    request = {"compute": dict(compute), "kernels": [kernel.described() for kernel in kernels]}
    return [Taken(**answer) for answer in json.loads(_core.times(json.dumps(request)))]
