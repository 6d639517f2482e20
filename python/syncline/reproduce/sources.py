"""The publications whose figures are simulated. A new one is a module with such a class, and a line in `SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from syncline import runner
from syncline.reproduce.ace import Ace
from syncline.reproduce.ace1 import Ace1
from syncline.reproduce.ledger import Claim, Finding
from syncline.reproduce.runs import Runs
from syncline.reproduce.tutorial import Tutorial
from syncline.schema.load import Variant


class Source(Protocol):
    """What simulates the claims of a publication."""

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""


SOURCES: Final[MappingProxyType[str, Callable[[Runs], Source]]] = MappingProxyType(
    {"ace": Ace, "ace1": Ace1, "tutorial": Tutorial}
)


def findings(claims: Sequence[Claim], runs: Runs, threads: int | None = None) -> tuple[list[Finding], list[Variant]]:
    """The claims against simulations, which run `threads` at once, and the variants that they rest on."""
    by_source = {name: [claim for claim in claims if claim.source == name] for name in SOURCES}
    opened = {name: SOURCES[name](runs) for name, mine in by_source.items() if mine}
    tasks = [task for name, source in opened.items() for task in source.preparations(by_source[name])]
    for _ in runner.concurrently(tasks, threads):
        pass
    found = [opened[claim.source].finding(claim) for claim in claims]
    return found, [variant for name, source in opened.items() for variant in source.variants(by_source[name])]
