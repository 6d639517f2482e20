"""The ledger as a page of Markdown: what people wrote, in pieces, and the tables that runs fill.

A piece is a file of `pieces/`, in the order of their names. It may contain directives, `{{name argument}}`:

* `{{claims SOURCE}}`: the claims of a source, published and simulated
* `{{fitted SOURCE}}`: the constants that the studies of a source declare as fitted
* `{{experiment ID}}`: a table of one-factor experiments
* `{{confirmed}}`: folded runs against unfolded ones
* `{{simulated CLAIM}}`, `{{inside}}`: a claim's values, and how many claims are inside, within a sentence
* `{{explained}}`: how far experiments explain the claims outside, as a sentence

Everything on the page that a run says comes from a directive, and every experiment is on it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.studies.reproduction import explanations, fitted, ledger, sources
from syncline.studies.reproduction.confirm import Comparison
from syncline.studies.reproduction.experiments import Experiment, Table
from syncline.studies.reproduction.explanations import Explanation
from syncline.studies.reproduction.ledger import Claim, Finding

PIECES: Final = Path(__file__).parent / "pieces"
DIRECTIVE: Final = re.compile(r"\{\{\s*([a-z]+)((?:\s+[^\s{}]+)*)\s*\}\}")

CLAIMS: Final = ("claim", "published", "simulated", "accepted", "", "note")
FITTED: Final = ("constant", "value", "in the studies", "fitted on", "published", "simulated", "note")
CONFIRMED: Final = ("study", "variant", "NPUs", "folded to", "changed", "unfolded run")


@dataclass(frozen=True, slots=True)
class Page:
    """What the directives draw on."""

    findings: Sequence[Finding]
    tables: Sequence[Table]
    comparisons: Sequence[Comparison]

    def claims(self, source: str) -> str:
        """The claims of a source."""
        mine = [finding for finding in self.findings if finding.claim.source == source]
        return markdown(CLAIMS, [claim_row(finding, self._explanation(finding)) for finding in mine])

    def fitted(self, source: str) -> str:
        """The fitted constants of a source's studies."""
        known = {finding.claim.id: finding for finding in self.findings}
        rows = []
        for constant in fitted.constants(source):
            finding = known[constant.fitted_on]
            figures = [ledger.numbers(finding.claim.published), ledger.numbers(finding.simulated)]
            named = ", ".join(f"`{study}`" for study in constant.studies)
            name, value, claim = (f"`{text}`" for text in (constant.path, constant.value, constant.fitted_on))
            rows.append([name, value, named, claim, *figures, "; ".join(constant.notes)])
        return markdown(FITTED, rows)

    def experiment(self, name: str) -> str:
        """A table of one-factor experiments, under its name."""
        table = next(table for table in self.tables if table.experiment.id == name)
        headings = ["", *(column.heading for column in table.experiment.columns)]
        return f'<a id="{name}"></a>**{name}.** {table.experiment.shows}\n\n{markdown(headings, table.as_text())}'

    def confirmed(self) -> str:
        """Folded runs against unfolded ones."""
        return markdown(CONFIRMED, confirmed(self.comparisons))

    def simulated(self, claim: str) -> str:
        """The values of a claim, with their unit."""
        finding = next(finding for finding in self.findings if finding.claim.id == claim)
        return f"{ledger.numbers(finding.simulated)}{_unit(finding.claim)}"

    def inside(self) -> str:
        """How many claims are inside their range, of how many."""
        return f"{sum(finding.inside for finding in self.findings)} of {len(self.findings)}"

    def explained(self) -> str:
        """How far the claims outside their range are explained."""
        outside = [finding for finding in self.findings if not finding.inside]
        return explanations.counted([explanations.kind_of(self._explanation(finding)) for finding in outside])

    def _explanation(self, finding: Finding) -> Explanation | None:
        return explanations.of_claim(finding.claim.id, self.tables)


def render(page: Page, folder: Path = PIECES) -> str:
    """The whole page. The pieces have been checked."""

    def filled(directive: re.Match[str]) -> str:
        return str(getattr(page, directive[1])(*directive[2].split()))

    return "\n".join(DIRECTIVE.sub(filled, text) for _, text in pieces(folder))


def pieces(folder: Path = PIECES) -> Iterator[tuple[str, str]]:
    """What people wrote: names and texts, in order."""
    for path in sorted(folder.glob("*.md")):
        yield path.name, path.read_text(encoding="utf-8")


def check(experiments: Sequence[Experiment], folder: Path = PIECES) -> None:
    """Raises [`InputError`] with every directive that cannot be followed, and with the tables that are not on the page
    once. Nothing need have been simulated.
    """
    takes: dict[str, Sequence[str]] = {
        "claims": list(sources.SOURCES),
        "fitted": list(sources.SOURCES),
        "experiment": [experiment.id for experiment in experiments],
        "simulated": [claim.id for claim in ledger.claims()],
        "confirmed": (),
        "inside": (),
        "explained": (),
    }
    problems: list[Problem] = []
    used: list[str] = []
    for name, text in pieces(folder):
        for found in DIRECTIVE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            used.append(" ".join(found[0].strip("{}").split()))
            if (wrong := _wrong(found, takes)) is not None:
                message, accepted = wrong
                problems.append(Problem(name, line, "", found[0], f"{found[0]}: {message}", accepted))
    tables = [(what, each) for what in ("claims", "experiment") for each in takes[what]] + [("confirmed", "")]
    for what, each in tables:
        directive = f"{what} {each}".strip()
        if used.count(directive) != 1:
            message = f"{{{{{directive}}}}} is there {used.count(directive)} times"
            problems.append(Problem(folder.name, None, "", None, message, "once"))
    if problems:
        raise InputError(problems)


def _wrong(directive: re.Match[str], takes: dict[str, Sequence[str]]) -> tuple[str, str] | None:
    """What is wrong with a directive, and what is accepted."""
    name, arguments = directive[1], directive[2].split()
    if name not in takes:
        return f"there is no such directive{did_you_mean(name, takes)}", one_of(takes)
    known = takes[name]
    if len(arguments) != (1 if known else 0):
        return ("one name is needed", one_of(known)) if known else ("nothing can be named here", f"{{{{{name}}}}}")
    if known and arguments[0] not in known:
        return f"nothing is called '{arguments[0]}'{did_you_mean(arguments[0], known)}", one_of(known)
    return None


def claim_row(finding: Finding, explanation: Explanation | None) -> list[str]:
    """A claim in its table; outside its range it leads to the experiment that explains it best."""
    claim = finding.claim
    if claim.kind == "ordering":
        figures = ["holds", "holds" if finding.inside else "does not hold", ""]
    else:
        figures = [
            f"{ledger.numbers(claim.published)}{_unit(claim)}",
            ledger.numbers(finding.simulated),
            ledger.ranges(claim),
        ]
    return [
        f"`{claim.id}`, {claim.where}: {claim.metric}",
        *figures,
        explanations.verdict(finding, explanation),
        finding.note,
    ]


def _unit(claim: Claim) -> str:
    """The unit behind a number; of several, in brackets."""
    if claim.unit in ("x", "1"):
        return ""
    return f" ({claim.unit})" if "," in claim.unit else f" {claim.unit}"


def confirmed(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """The rows of the table of folded runs against unfolded ones."""
    return [
        [
            c.study,
            c.variant,
            f"{c.npus} ({c.topology})",
            f"{c.simulated_npus}",
            ", ".join(c.settings),
            "equal" if c.equal else f"DIFFERENT: {', '.join(c.different)}",
        ]
        for c in comparisons
    ]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("|" + "|".join(map(_cell, line)) + "|" for line in lines)


def _cell(text: str) -> str:
    """A cell with its spaces, on one line."""
    plain = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return f" {plain} " if plain else " "
