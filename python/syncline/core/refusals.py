"""What the engine refuses, as it says it.

The engine names a field of its own description (`crates/system/src/spec.rs`), says what is wrong with it and what would
do, and where there is one, the least number that would (`crates/core/src/refusal.rs`). Nothing here reads its words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the engine refuses."""

    field: Path
    message: str
    accepted: str | None
    least: int | None
    """The least number that would do, in the unit of the field."""
    value: str | None
    line: int | None


def read(error: ValueError) -> list[Refusal]:
    """What a `SpecError` of the engine says."""
    entries: list[dict[str, Any]] = json.loads(str(error))
    return [Refusal(**entry | {"field": tuple(entry["field"])}) for entry in entries]
