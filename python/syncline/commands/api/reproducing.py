"""`syncline.reproduce`: published figures against simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline.base.clock import Clock
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.commands.api import arguments, display, files, tables
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.core import cancelling
from syncline.engine import estimate, runner
from syncline.results import entries as results
from syncline.studies.reproduction import confirm, explanations, ledger, page, sources
from syncline.studies.reproduction import experiments as varied
from syncline.studies.reproduction.kept import Kept
from syncline.studies.reproduction.ledger import numbers
from syncline.studies.reproduction.runs import Runs, estimated
from syncline.studies.reproduction.sources import SOURCES

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.simulate import Warn
    from syncline.commands.api.tables import Table
    from syncline.core.cancelling import Cancellation
    from syncline.results.entries import Document
    from syncline.studies.reproduction.confirm import Comparison

RENAMED: Final = replace(ARGUMENTS, called=(("claim", "claims"),))
"""What the arguments of the function are called that the command calls otherwise."""
SHOWN: Final = 50
"""Claims that a notebook shows."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The claims that are simulated."""

    names: tuple[str, ...]
    """Claims and sources that are asked for; all without any."""
    claims: Sequence[ledger.Claim]
    experiments: Sequence[varied.Experiment]
    """What is varied behind the claims."""
    with_experiments: bool


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of the claims."""

    asked: Asked
    findings: Sequence[ledger.Finding]
    tables: Sequence[varied.Table]
    comparisons: Sequence[Comparison]
    """With all claims: points that were simulated folded and unfolded."""
    differences: Sequence[str]
    """What is not the same of them, in words."""
    document: Document
    """The document of `reproduce --json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A published figure, or several that belong together, and what was simulated."""

    id: str
    """The name of the claim."""
    source: str
    """The publication: `ace`, say."""
    where: str
    """Section, figure or table of it."""
    metric: str
    """What the figure says."""
    unit: str
    published: float | list[float]
    simulated: float | list[float] | None
    """`None` if the search for it found nothing; the note says why."""
    accept: list[Any]
    """The least and the most that count as reproduced, for each figure."""
    inside: bool
    """Whether all are within them."""
    note: str
    """What was found beside the figures."""


class Reproduction(Documented):
    """Published figures beside simulated ones."""

    def __init__(self, reproduced: Reproduced) -> None:
        super().__init__(reproduced.document)
        self.findings: tuple[Finding, ...] = tuple(Finding(**each) for each in reproduced.document["claims"])
        """The claims, in the order of the sources."""
        self.table: Table = tables.of_entries("claims", [row for each in self.findings for row in _rows(each)])
        """The same with a row for each figure: `published`, `simulated`, and `least` and `most` that are accepted."""
        self.differences: tuple[str, ...] = tuple(reproduced.differences)
        """Of all claims: what folding changed of points that were simulated unfolded as well; empty if all is well."""
        self._reproduced = reproduced

    def __repr__(self) -> str:
        inside = sum(each.inside for each in self.findings)
        return f"<Reproduction of {display.counted(len(self.findings), 'claim')}: {inside} inside their range>"

    def _repr_html_(self) -> str:
        claims = self.document["claims"]
        rows = [
            (
                str(each["id"]),
                str(each["unit"]),
                *(
                    each[key] if isinstance(each[key], str) else numbers(each[key])
                    for key in ("published", "simulated")
                ),
                "inside" if each["inside"] else "outside",
            )
            for each in claims[:SHOWN]
        ]
        left = len(claims) - SHOWN
        more = [f"{left:,} further claims are in reproduction.findings."] if left > 0 else []
        headings = ["claim", "unit", "published", "simulated", ""]
        return display.table("published figures", headings, rows) + display.paragraphs([*more, *self.differences])

    @property
    def experiments(self) -> tuple[dict[str, Any], ...]:
        """What was varied behind the claims, as tables of the document, if it was asked for."""
        return tuple(self.document.get("experiments", ()))

    def page(self) -> str:
        """All claims and experiments as a page of Markdown, which `syncline reproduce --write` writes.

        Raises [`InputError`] for some of the claims, or without experiments: the page has all of them.
        """
        asked = self._reproduced.asked
        if asked.names or not asked.with_experiments:
            argument, value = ("claims", ", ".join(asked.names)) if asked.names else ("experiments", "False")
            message = "the page holds all claims and experiments"
            accepted = "reproduce(experiments=True) without claims or sources"
            raise InputError([ARGUMENTS.problem(argument, value, message, accepted)])
        return page_of(self._reproduced)


def _rows(finding: Finding) -> list[dict[str, Any]]:
    """A row for each figure of a claim."""
    many = isinstance(finding.published, list)
    published = finding.published if isinstance(finding.published, list) else [finding.published]
    simulated = finding.simulated if isinstance(finding.simulated, list) else [finding.simulated] * len(published)
    return [
        {
            "id": finding.id,
            "source": finding.source,
            "where": finding.where,
            "metric": finding.metric,
            "unit": finding.unit,
            "published": float(said),
            "simulated": None if found is None else float(found),
            "least": float(accept[0]),
            "most": float(accept[1]),
            "inside": finding.inside,
            "note": finding.note,
        }
        for said, found, accept in zip(published, simulated, finding.accept if many else [finding.accept], strict=True)
    ]


@arguments.plain_arguments
def reproduce(
    claims: str | Sequence[str] = (),
    *,
    sources: str | Sequence[str] = (),
    experiments: bool = False,
    keep: AnyPath | None = None,
    threads: int | None = None,
    seed: int = 0,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Reproduction:
    """Compares simulations with published figures.

    `claims` are names of claims (`"ace-fig6-sms"`) and `sources` those of publications, all of whose claims are
    simulated: ace, ace1, tutorial, hoti and blink. Without any of them, all claims are, which takes hours, and one
    point of every study is simulated unfolded as well. With `experiments`, the one-factor experiments behind the claims
    are run, too. Simulations are kept in the folder `keep`, from which a later call takes them: also what was finished
    when `cancel` was called.

    A claim outside its range is a result, not an error. Raises [`InputError`] with everything that is wrong,
    [`SimulationFailedError`] if a simulation fails, and [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(seed=seed, threads=threads, memory_limit=memory_limit, cancel=cancel)
    problems = list(settings.problems)
    names = [*arguments.names(problems, "claims", claims), *_sources(sources, problems)]
    problems += arguments.not_flags(experiments=experiments)
    kept = files.place_of(problems, keep, "keep", "a folder")
    with arguments.spelled(RENAMED):
        asked = arguments.collected(problems, lambda: select(names, experiments=experiments is True))
        if problems or asked is None:
            raise InputError(problems)
        watch, warn = watch_of(progress), warn_of(progress)
        reproduced = run(
            asked,
            kept,
            seed=settings.seed,
            threads=settings.threads,
            memory_limit=settings.memory_limit,
            cancel=settings.cancel,
            watch=watch,
            warn=warn,
        )
    return Reproduction(reproduced)


def _sources(given: object, problems: list[Problem]) -> list[str]:
    names = arguments.names(problems, "sources", given)
    for name in names:
        if name not in SOURCES:
            message = f"no source is called this{did_you_mean(name, SOURCES)}"
            problems.append(ARGUMENTS.problem("sources", name, message, one_of(SOURCES)))
    return [name for name in names if name in SOURCES]


def select(names: Sequence[str], *, experiments: bool) -> Asked:
    """The claims of the given names and sources, all without any, and the experiments behind them if asked for. Raises
    [`InputError`].
    """
    selected = ledger.select(names)
    chosen = varied.select(varied.load(), names, selected) if experiments else []
    return Asked(tuple(names), selected, chosen, experiments)


def page_of(reproduced: Reproduced) -> str:
    """The page of all claims and experiments, as Markdown."""
    return page.render(page.Page(reproduced.findings, reproduced.tables, reproduced.comparisons))


def run(
    asked: Asked,
    keep: Path | None,
    *,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: int | None = None,
    cancel: Cancellation | None = None,
    watch: Watch | None = None,
    warn: Warn | None = None,
) -> Reproduced:
    """Simulates what claims need, for programs and for the command line. Raises [`InputError`] where simulations cannot
    be kept or would take more than `memory_limit` bytes, and [`CancelledError`] when `cancel` is called.
    """
    began = Clock()
    cancelling.check(cancel)
    kept = None if keep is None else Kept(keep)
    if kept is not None:
        kept.prepare()
    runs, confirming = (Runs(seed, kept, memory_limit, cancel) for _ in range(2))

    def work(runs: Runs, confirming: Runs) -> list[tuple[str, Callable[[], Any]]]:
        of_claims = [*sources.tasks(asked.claims, runs), *varied.tasks(asked.experiments, runs)]
        return of_claims if asked.names else [*confirm.tasks(confirming), *of_claims]

    takes = estimated(lambda ahead: work(ahead, ahead), seed, kept)
    warning = estimate.warning_of_many("the claims", takes, threads)
    if warning is not None and warn is not None:
        warn(warning)
    for _ in runner.concurrently(work(runs, confirming), threads, watch, cancel=cancel):
        pass
    findings = sources.findings(asked.claims, runs)
    found = [varied.table(experiment, runs) for experiment in asked.experiments]
    comparisons = [] if asked.names else confirm.comparisons(confirming)

    document = results.document(sources.variants(asked.claims, runs), seed=seed, status="complete", warnings=[])
    results.state_folded(document, (result.summary["unfolded"] is None for result in runs.finished()))
    document["claims"] = ledger.document(findings)
    if asked.with_experiments:
        document["experiments"] = [
            table.as_document() | {"explanations": [each.as_document() for each in explanations.of_table(table)]}
            for table in found
        ]
    if not asked.names:
        document["confirmed_unfolded"] = [comparison.as_document() for comparison in comparisons]
    document["cost"] = results.cost(began, [*runs.finished(), *confirming.finished()])
    return Reproduced(asked, findings, found, comparisons, confirm.differences(comparisons), document)
