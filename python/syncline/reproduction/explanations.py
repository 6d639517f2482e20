"""How far experiments explain claims that are outside their range, computed from what was simulated.

An experiment that explains a claim simulates the claim's own metric. Its first row changes nothing; of every other
row it is computed what share of the distance to the accepted range it closes. A claim counts as explained if some row
closes at least half of it: with less, what was changed is not the main cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, Literal

from syncline.reproduction import ledger
from syncline.reproduction.experiments import Table
from syncline.reproduction.ledger import Claim, Finding, Value

EXPLAINED: Final = 0.5
"""The least share of the distance that a row has to close."""

Kind = Literal["inside", "moved", "nearer", "not"]

COUNTED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "inside": "are inside in a simulation with other settings",
        "moved": "are brought inside by other settings that take out values that were inside",
        "nearer": f"are brought nearer by other settings, by at least {EXPLAINED:.0%} of the distance",
        "not": "are not explained",
    }
)
"""What is said of so many claims of each kind."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The row of an experiment that brings a claim nearest to its range."""

    claim: str
    experiment: str
    row: str
    """What is changed, in the words of the experiment."""
    share: float
    """Of the distance between the value as studied and the range, what the row closes; of several values that are
    outside, the least. 1: all of these are inside."""
    inside: bool
    """Whether the whole claim is inside with this row: no value that was inside has left its range."""

    @property
    def holds(self) -> bool:
        """Whether the claim counts as explained."""
        return self.share >= EXPLAINED

    def as_document(self) -> dict[str, Any]:
        """The explanation as JSON."""
        return asdict(self)


def of_table(table: Table) -> list[Explanation]:
    """What an experiment says of the claims that it explains and that are outside their range as studied."""
    return [found for claim in ledger.select(table.experiment.explains) if (found := _nearest(table, claim))]


def of_claim(claim: str, tables: Sequence[Table]) -> Explanation | None:
    """The best explanation of a claim."""
    every = [each for table in tables if claim in table.experiment.explains for each in of_table(table)]
    return max((each for each in every if each.claim == claim), key=_worth, default=None)


def _nearest(table: Table, claim: Claim) -> Explanation | None:
    index = next(i for i, column in enumerate(table.experiment.columns) if column.claim == claim.id)
    studied, *changed = (cells[index].value for cells in table.cells)
    if studied is not None and claim.holds(studied):
        return None
    found = [
        Explanation(
            claim.id,
            table.experiment.id,
            row.label,
            _closed(claim, studied, value),
            value is not None and claim.holds(value),
        )
        for row, value in zip(table.experiment.rows[1:], changed, strict=True)
    ]
    return max(found, key=_worth)


def _worth(explanation: Explanation) -> tuple[bool, float]:
    return explanation.inside, explanation.share


def _closed(claim: Claim, studied: Value | None, changed: Value | None) -> float:
    """The share of the distance to the range that a change closes, of the value of which it closes least."""
    before, after = claim.distances(studied), claim.distances(changed)
    return min(
        1.0 if now == 0 else max(0.0, 1 - now / then) if isfinite(then) and isfinite(now) else 0.0
        for then, now in zip(before, after, strict=True)
        if then > 0
    )


def kind_of(explanation: Explanation | None) -> Kind:
    """How far a claim outside its range is explained."""
    if explanation is None or not explanation.holds:
        return "not"
    if explanation.inside:
        return "inside"
    return "moved" if explanation.share == 1 else "nearer"


def verdict(finding: Finding, explanation: Explanation | None) -> str:
    """Whether a claim is inside its range and, if it is not, how far that is explained, as Markdown."""
    if finding.inside:
        return "inside"
    if explanation is None:
        return "**outside, not explained**"
    link = f"[{explanation.experiment}](#{explanation.experiment})"
    share = f"{100 * explanation.share:.0f} %"
    return {
        "inside": f"**outside**; inside with *{explanation.row}* ({link})",
        "moved": f"**outside**; *{explanation.row}* brings in what is outside and takes out other values ({link})",
        "nearer": f"**outside**; *{explanation.row}* closes {share} of the distance ({link})",
        "not": f"**outside, not explained**: no row of {link} closes more than {share} of the distance",
    }[kind_of(explanation)]


def counted(kinds: Sequence[Kind]) -> str:
    """How far the claims outside their range are explained: a sentence."""
    counts = Counter(kinds)
    parts = [f"{counts[kind]} {text}" for kind, text in COUNTED.items() if counts[kind]]
    return f"Of the {len(kinds)} others, {', '.join(parts)}." if parts else "There are no others."
