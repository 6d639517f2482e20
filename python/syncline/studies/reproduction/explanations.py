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

from syncline.studies.reproduction import ledger
from syncline.studies.reproduction.experiments import Table
from syncline.studies.reproduction.ledger import Claim, Finding, Value

EXPLAINED: Final = 0.5
"""The least share of the distance that a row has to close."""

Kind = Literal["inside", "moved", "nearer", "not"]

COUNTED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "inside": "inside in a simulation with other settings",
        "moved": "brought inside by other settings that take out values that were inside",
        "nearer": f"brought nearer by other settings, by at least {100 * EXPLAINED:.0f} % of the distance",
        "not": "not explained",
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
    leaves: bool
    """Whether a value leaves its range with this row that was inside as studied."""

    @property
    def inside(self) -> bool:
        """Whether the whole claim is inside with this row."""
        return self.share == 1 and not self.leaves

    @property
    def holds(self) -> bool:
        """Whether the claim counts as explained."""
        return self.share >= EXPLAINED

    def as_document(self) -> dict[str, Any]:
        """The explanation as JSON."""
        return asdict(self) | {"inside": self.inside}


def of_table(table: Table) -> list[Explanation]:
    """What an experiment says of the claims that it explains and that are outside their range as studied."""
    explains = table.experiment.explains
    claims = ledger.select(explains) if explains else []  # none would be all
    return [found for claim in claims if (found := _nearest(table, claim))]


def of_claim(claim: str, tables: Sequence[Table]) -> Explanation | None:
    """The best explanation of a claim."""
    every = [each for table in tables if claim in table.experiment.explains for each in of_table(table)]
    return max((each for each in every if each.claim == claim), key=_worth, default=None)


def _nearest(table: Table, claim: Claim) -> Explanation | None:
    index = next(i for i, column in enumerate(table.experiment.columns) if column.claim == claim.id)
    studied, *changed = (cells[index].value for cells in table.cells)
    if studied is not None and claim.holds(studied):
        return None
    rows = zip(table.experiment.rows[1:], changed, strict=True)
    return max((_of_row(claim, table.experiment.id, row.label, studied, value) for row, value in rows), key=_worth)


def _of_row(claim: Claim, experiment: str, row: str, studied: Value | None, changed: Value | None) -> Explanation:
    before, after = claim.distances(studied), claim.distances(changed)
    leaves = any(now > 0 for then, now in zip(before, after, strict=True) if then == 0)
    closed = (_closed(then, now) for then, now in zip(before, after, strict=True) if then > 0)
    return Explanation(claim.id, experiment, row, min(closed), leaves)


def _worth(explanation: Explanation) -> tuple[float, bool]:
    return explanation.share, not explanation.leaves


def _closed(before: float, after: float) -> float:
    """The share of the distance of a value to its range that a change closes."""
    if after == 0:
        return 1.0
    return max(0.0, 1 - after / before) if isfinite(before) and isfinite(after) else 0.0


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
    nearer = f"closes {share} of the distance" + (" and takes out other values" if explanation.leaves else "")
    return {
        "inside": f"**outside**; inside with *{explanation.row}* ({link})",
        "moved": f"**outside**; *{explanation.row}* brings in what is outside and takes out other values ({link})",
        "nearer": f"**outside**; *{explanation.row}* {nearer} ({link})",
        "not": f"**outside, not explained**: no row of {link} closes more than {share} of the distance",
    }[kind_of(explanation)]


def counted(kinds: Sequence[Kind]) -> str:
    """How far the claims outside their range are explained: a sentence."""
    counts = Counter(kinds)
    are = {1: "1 is"}
    parts = [f"{are.get(n, f'{n} are')} {text}" for kind, text in COUNTED.items() if (n := counts[kind])]
    return f"Of the {len(kinds)} others, {', '.join(parts)}." if parts else "There are no others."
