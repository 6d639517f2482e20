"""What is handed to other processes, of this machine or of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from syncline.studies.sweeps.journal import Entry

Work: TypeAlias = Callable[..., Entry]
"""A function of a module, which other processes find by its name."""
Task: TypeAlias = tuple[str, tuple[Any, ...]]
"""What such a function is called with, under a key."""


class WorkerDiedError(Exception):
    """The process that was simulating is gone."""
