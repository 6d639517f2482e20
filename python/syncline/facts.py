"""What the engine says of itself (`crates/system/src/facts.rs`): what can be asked for, and what tables hold.

Units and meanings of columns are declared there, and only there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from syncline import binding


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of a run."""

    name: str
    unit: str
    """`ps`, `B`, `count`, `share`, `index` or `name`."""
    values: str
    """`int`, `optional-int`, `float` or `text`."""
    meaning: str
    """What it holds, as a phrase."""
    optional: bool
    """Whether a table may lack it."""


@cache
def describe() -> dict[str, Any]:
    """All of it. Raises `EngineUnusableError` where there is no engine that can be asked."""
    binding.require()
    from syncline import _core

    found: dict[str, Any] = json.loads(_core.describe())
    return found


@cache
def tables() -> dict[str, dict[str, Column]]:
    """The columns of each table of a run, by name."""
    return {t["name"]: {c["name"]: Column(**c) for c in t["columns"]} for t in describe()["tables"]}
