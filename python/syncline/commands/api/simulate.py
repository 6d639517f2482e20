"""Loading, checking and running experiments, for programs and for the command line alike.

What is here raises and returns; it prints nothing. Whoever calls says who hears of progress (`watch`), and of what is
to be known before something begins (`warn`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from syncline.base import memory
from syncline.base.clock import Clock
from syncline.base.errors import NotWrittenError
from syncline.base.progress import Watch
from syncline.commands.api.arguments import Settings
from syncline.core import cancelling
from syncline.core.preview import Preview
from syncline.engine import choice, comparison, completing, estimate, runner
from syncline.engine import runs as engine
from syncline.engine.estimate import Estimate
from syncline.engine.runner import Outcome, Outcomes
from syncline.engine.runs import Prepared
from syncline.experiment.load import Study
from syncline.experiment.merge import Override
from syncline.importers import text_passes
from syncline.results import entries as results
from syncline.results import ideal_bound
from syncline.results.entries import Document
from syncline.results.rundir import RunDirectory
from syncline.sections.networks import background, captures

Read = Callable[[Sequence[Override], Sequence[Override]], Study]
"""Reads a study with overrides and with forced ones."""
Warn = Callable[[str], None]
"""Hears of what is to be known before something begins."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A study that the engine has looked at."""

    study: Study
    """With algorithms chosen where that was left open."""
    looks: tuple[tuple[Preview, Prepared | None], ...]
    """By variant, what simulating it will be. One that is alone has been set up to be run; several would take the
    memory of all of their runs."""

    def estimates(self) -> list[Estimate]:
        """What each variant will take."""
        looked_at = zip(self.study.variants, self.looks, strict=True)
        return [estimate.of_variant(variant, *look) for variant, look in looked_at]


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` finds out."""

    study: Study
    estimates: tuple[tuple[str, Estimate], ...]
    """By variant's name."""
    document: Document


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a run."""

    study: Study
    outcomes: Outcomes
    document: Document
    """The document of `run --json`."""
    directory: RunDirectory | None
    """Where it was written."""
    unwritten: NotWrittenError | None = None
    """What could not be written of it, if anything."""


def look(read: Read, settings: Settings) -> Looked:
    """A study that can be run. Raises [`InputError`] with everything that is wrong with it."""
    loaded = settings.loaded(read)
    cancelling.check(settings.cancel)
    study = choice.settled(loaded)
    looks: list[tuple[Preview, Prepared | None]]
    if len(study.variants) == 1:
        looks = [engine.prepare(study.variants[0], steady=True)]
    else:
        looks = [(preview, None) for preview in engine.check(study.variants)]
    return Looked(study, tuple(looks))


def _with_warnings(study: Study) -> Study:
    """The study with a warning for every variant whose settings make links look slower than they are, or whose text
    workload has collectives that ASTRA-sim 1.0 leaves out.
    """
    slow = [f"{variant.name}: {said}" for variant in study.variants for said in completing.slow_links(variant)]
    texts = [(v.name, text_passes.left_out(v.astra_text)) for v in study.variants if v.astra_text is not None]
    more = [f"{name}: {said}" for name, said in texts if said is not None]
    return replace(study, warnings=(*study.warnings, *slow, *more))


def check(read: Read, settings: Settings) -> Checked:
    """What running a study will take. Raises [`InputError`] with everything that is wrong with it."""
    looked = look(read, settings)
    study = _with_warnings(looked.study)
    named = [(variant, preview) for variant, (preview, _) in zip(study.variants, looked.looks, strict=True)]
    estimates = [(v.name, each) for v, each in zip(study.variants, looked.estimates(), strict=True)]
    warnings = [*study.warnings, *(f"{v.name}: {warning}" for v, preview in named for warning in preview.warnings)]
    warnings += filter(None, (estimate.warning(name, expected) for name, expected in estimates))
    seen = {variant.name: asdict(preview) for variant, preview in named}
    document = results.document(study.variants, seed=settings.seed, status="complete", warnings=warnings, seen=seen)
    document["estimates"] = [{"name": name, **e.as_document()} for name, e in estimates]
    return Checked(study, tuple(estimates), document)


def run(
    read: Read,
    settings: Settings,
    to: Callable[[Study], RunDirectory] | None = None,
    *,
    watch: Watch | None = None,
    warn: Warn | None = None,
) -> Finished:
    """Simulates all variants of a study; `to` makes the directory that they are written to.

    On an interrupt (`KeyboardInterrupt`) it returns what is finished by then, which is written like everything else.
    Raises [`InputError`] with everything that is wrong with the study, its directory included. A simulation that fails
    is among the outcomes, and so are those that cannot be written, of which the first error is kept.
    """
    began = Clock()
    looked = look(read, settings)
    directory = None if to is None else to(looked.study)
    if directory is not None:
        directory.check()
        if warn is not None and (other := directory.replaced()) is not None:
            mine = looked.study.name
            warn(f"{directory.path} has results of the experiment {other}, which are replaced by those of {mine}")
    study = _with_warnings(looked.study)
    expected = looked.estimates()
    for variant, each in zip(study.variants, expected, strict=True):
        text = estimate.warning(variant.name, each)
        if text is not None and warn is not None:
            warn(text)
    threads = memory.at_once(settings.threads, (each.memory_bytes for each in expected), settings.memory_limit)
    prepared = [kept for _, kept in looked.looks]
    saver = _Saver(directory)
    outcomes = runner.run_all(
        study.variants,
        threads,
        saver.save,
        steady=True,
        prepared=prepared,
        watch=watch,
        expected=[each.events for each in expected],
    )
    document = _document(study, outcomes, settings.seed, began)
    if (outcomes.refused or outcomes.interrupted) and not outcomes.results:
        directory = None
    else:
        saver.close(document, outcomes)
    outcomes.raise_if_refused()
    return Finished(study, outcomes, document, directory, saver.unwritten)


@dataclass(slots=True)
class _Saver:
    """Writes what is finished. What cannot be written ends nothing: it was simulated, and can be printed."""

    directory: RunDirectory | None
    unwritten: NotWrittenError | None = None
    """The first error."""

    def save(self, outcome: Outcome) -> None:
        """Writes a variant."""
        if self.directory is not None and outcome.result is not None:
            with self._kept():
                self.directory.add(outcome.variant, outcome.result)

    def close(self, document: Document, outcomes: Outcomes) -> None:
        """Writes what is about the whole run."""
        if self.directory is not None:
            with self._kept():
                tables = {variant.name: result.tables for variant, result in outcomes.results}
                self.directory.close(document, tables)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except NotWrittenError as error:
            self.unwritten = self.unwritten or error


def _document(study: Study, outcomes: Outcomes, seed: int, began: Clock) -> Document:
    complete = len(outcomes.results) == len(study.variants)
    warnings = list(study.warnings)
    for variant, result in outcomes.results:
        found = [*result.summary["warnings"], *captures.notes_of(result.tables), *background.notes_of(result.tables)]
        warnings += [f"{variant.name}: {warning}" for warning in found]
    status = "complete" if complete else "partial"
    seen = {variant.name: result.summary for variant, result in outcomes.results}
    document = results.document(study.variants, seed=seed, status=status, warnings=warnings, seen=seen)
    document["name"] = study.name
    document["description"] = study.description
    document["runs"] = [results.run_entry(variant, result) for variant, result in outcomes.results]
    comparison.compare(document, [variant.name for variant in study.variants], study.baseline)
    document["warnings"] += ideal_bound.warnings(document, study.variants)
    document["failed"] = [{"name": name, "message": message} for name, message in outcomes.failures]
    document["cost"] = results.cost(began, [result for _, result in outcomes.results])
    return document
