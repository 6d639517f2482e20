"""The publications whose figures are simulated. A new one is a module with such a class, and a line in `SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from syncline.experiment.load import Variant
from syncline.studies.reproduction.ace import Ace
from syncline.studies.reproduction.ace1 import Ace1
from syncline.studies.reproduction.blink import Blink
from syncline.studies.reproduction.hoti import Hoti
from syncline.studies.reproduction.ledger import Claim, Finding
from syncline.studies.reproduction.runs import Runs
from syncline.studies.reproduction.tutorial import Tutorial


class Source(Protocol):
    """What simulates the claims of a publication."""

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""


SOURCES: Final[MappingProxyType[str, Callable[[Runs], Source]]] = MappingProxyType(
    {"ace": Ace, "ace1": Ace1, "tutorial": Tutorial, "hoti": Hoti, "blink": Blink}
)


def tasks(claims: Sequence[Claim], runs: Runs) -> list[tuple[str, Callable[[], Any]]]:
    """Independent pieces of work that simulate what the claims need."""
    return [task for source, mine in _opened(claims, runs) for task in source.preparations(mine)]


def findings(claims: Sequence[Claim], runs: Runs) -> list[Finding]:
    """The claims against the simulations, in the order given."""
    found = {claim.id: source.finding(claim) for source, mine in _opened(claims, runs) for claim in mine}
    return [found[claim.id] for claim in claims]


def variants(claims: Sequence[Claim], runs: Runs) -> list[Variant]:
    """The variants whose assumptions the claims rest on."""
    return [variant for source, mine in _opened(claims, runs) for variant in source.variants(mine)]


def _opened(claims: Sequence[Claim], runs: Runs) -> Iterator[tuple[Source, list[Claim]]]:
    """The sources of the claims, each with its own."""
    for name, source in SOURCES.items():
        if mine := [claim for claim in claims if claim.source == name]:
            yield source(runs), mine
