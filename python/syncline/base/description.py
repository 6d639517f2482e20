"""The engine's description as JSON text.

A large machine is most of it, and the same in the many descriptions of trials: its text is made once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

FABRIC = "fabric"


class Described(dict[str, Any]):
    """A part of a description that nobody changes, and its text."""

    @cached_property
    def text(self) -> str:
        """JSON."""
        return json.dumps(self)


def text(description: Mapping[str, Any]) -> str:
    """A whole description."""
    return joined(*parted(description))


def parted(description: Mapping[str, Any]) -> tuple[str, str]:
    """The text of the fabric, and that of all else."""
    fabric = description[FABRIC]
    rest = {key: value for key, value in description.items() if key != FABRIC}
    return fabric.text if isinstance(fabric, Described) else json.dumps(fabric), json.dumps(rest)


def joined(fabric: str, rest: str) -> str:
    """The whole description of two such parts."""
    return f'{{"{FABRIC}": {fabric}, {rest[1:]}'
