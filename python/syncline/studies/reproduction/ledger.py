"""The claims, and how a simulated value is judged."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of

FILE: Final = Path(__file__).parent / "claims.toml"
ROUNDING: Final = 1e-6
"""Exact claims must match to this relative difference, which is that of floating point."""

Value = float | list[float]


@dataclass(frozen=True, slots=True)
class Claim:
    """A published figure, or several that belong together."""

    id: str
    source: str
    where: str
    metric: str
    published: Value
    unit: str
    accept: list[Any]
    kind: str

    def holds(self, simulated: Value) -> bool:
        """Whether the simulated value, or each of them, is within the accepted range."""
        values = simulated if isinstance(simulated, list) else [simulated]
        ranges = self.accept if isinstance(simulated, list) else [self.accept]
        slack = ROUNDING if self.kind == "exact" else 0.0
        return len(values) == len(ranges) and all(
            low * (1 - slack) <= value <= high * (1 + slack) for value, (low, high) in zip(values, ranges, strict=True)
        )

    def distances(self, simulated: Value | None) -> list[float]:
        """How far each value is from its range, in the unit of the claim: 0 inside; infinite without a value."""
        ranges = self.accept if isinstance(self.published, list) else [self.accept]
        if simulated is None:
            return [inf] * len(ranges)
        values = simulated if isinstance(simulated, list) else [simulated]
        return [max(0.0, low - value, value - high) for value, (low, high) in zip(values, ranges, strict=True)]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim and what the simulation says."""

    claim: Claim
    simulated: Value | None
    """Nothing if the search for it found nothing; the note says why."""
    note: str

    @property
    def inside(self) -> bool:
        """Whether the claim is reproduced."""
        return self.simulated is not None and self.claim.holds(self.simulated)

    def as_document(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {
            "id": self.claim.id,
            "source": self.claim.source,
            "where": self.claim.where,
            "metric": self.claim.metric,
            "unit": self.claim.unit,
            "published": self.claim.published,
            "simulated": self.simulated,
            "accept": self.claim.accept,
            "inside": self.inside,
            "note": self.note,
        }


def claims() -> list[Claim]:
    """All claims, in the order of the file."""
    return [Claim(**entry) for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["claim"]]


def select(names: Sequence[str]) -> list[Claim]:
    """The claims of the given identifiers or sources; all without any. Raises [`InputError`]."""
    every = claims()
    known = [*dict.fromkeys(c.source for c in every), *(c.id for c in every)]
    problems = [
        Problem(
            "command line",
            None,
            "CLAIM",
            name,
            f"no claim or source is called this{did_you_mean(name, known)}",
            one_of(known),
        )
        for name in names
        if name not in known
    ]
    if problems:
        raise InputError(problems)
    return [claim for claim in every if not names or claim.id in names or claim.source in names]


def document(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings as JSON."""
    return [finding.as_document() for finding in findings]


def numbers(value: Value | None) -> str:
    """A value, or several, for a person: four digits; large numbers in full rather than with an exponent."""
    if value is None:
        return "-"
    return ", ".join(_number(v) for v in (value if isinstance(value, list) else [value]))


def ranges(claim: Claim) -> str:
    """What is accepted, for a person."""
    each = claim.accept if isinstance(claim.published, list) else [claim.accept]
    return ", ".join("-".join(_bound(v) for v in dict.fromkeys(pair)) for pair in each)


def _bound(value: float) -> str:
    return _number(value) if abs(value) >= 1e4 else f"{value:g}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
