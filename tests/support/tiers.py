"""Which tests `make test` leaves to `make test-all`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIST: Final = Path(__file__).parents[1] / "slow.txt"


@dataclass(frozen=True, slots=True)
class Slow:
    """A test that takes too long for the first tier."""

    name: str
    """As pytest names it."""
    stands_for_it: str | None
    """A test of the first tier; without one, other cases of the same function are."""

    @property
    def function(self) -> str:
        """What it is a case of."""
        return self.name.partition("[")[0]


def slow() -> list[Slow]:
    """The tests of the list."""
    found = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            _, name = line.split(maxsplit=1)
            name, _, other = name.partition("  ->  ")
            found.append(Slow(name, other or None))
    return found
