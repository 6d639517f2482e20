"""What `auto` chose, in sentences for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def sentences(runs: Iterable[dict[str, Any]], *, named: bool) -> list[str]:
    """One for each run, or entry of a document, that left its algorithm open; `named` says which run it is about."""
    found: list[str] = []
    for run in runs:
        choice = run.get("algorithm_choice")
        if choice is not None:
            of = f"{run['name']}: " if named else ""
            found.append(f"{of}auto chose {choice['chosen']}: {choice['because']}")
    return found
