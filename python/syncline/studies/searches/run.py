"""Carries out a search: predicts all candidates, and simulates the most promising ones.

Candidates are simulated in order of their estimates. One whose bound is no better than the best simulated time cannot
win, and is not simulated. Simulations are in a sweep's journal, under the keys of sweeps, so that what is finished is
never simulated again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from syncline.base import memory
from syncline.base.errors import CancelledError
from syncline.engine.runs import PS_PER_S
from syncline.experiment import rules
from syncline.strategies.training import in_gb
from syncline.studies.searches.alone import MOST_NPUS
from syncline.studies.searches.file import Search
from syncline.studies.searches.predict import Predicted, Predictor
from syncline.studies.searches.space import Candidate, Space
from syncline.studies.sweeps import pool
from syncline.studies.sweeps import run as sweeps
from syncline.studies.sweeps.journal import Entry, Journal
from syncline.studies.sweeps.points import key_of
from syncline.studies.sweeps.progress import SweepProgress

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.core.cancelling import Cancellation

WAVE: Final = 4
"""Simulations for each processor between two looks at what can still win; twice as many each time."""
ALGORITHMS_ALIKE: Final = f"on more than {MOST_NPUS} NPUs, estimates do not tell algorithms apart: only simulations do"
PASS_BYTES: Final = 120_000
"""Memory that a simulation takes for each pass of a micro-batch through a layer: 4.6 GB for 192 through GPT-3 175B."""


@dataclass(slots=True)
class Finding:
    """What is known of a candidate."""

    candidate: Candidate
    predicted: Predicted | None = None
    """Nothing of what does not fit."""
    key: str | None = None
    """Under which its simulation is in the journal."""
    entry: Entry | None = None
    """What came of its simulation."""
    excluded: bool = False
    """Whether its bound is no better than the best simulated time."""

    @property
    def seconds(self) -> float | None:
        """The simulated time of an iteration: what one more costs, where that is another."""
        if self.entry is None or self.entry.status != "done":
            return None
        measures = self.entry.measures
        return float(measures.get("steady_iteration_time_s") or measures["iteration_time_s"])

    @property
    def reason(self) -> str | None:
        """Why there is no simulated time."""
        if not self.candidate.fits:
            needed = self.candidate.needed
            terms = ", ".join(f"{name} {in_gb(size)}" for name, size in needed.terms().items() if size)
            return f"stage {needed.stage} needs {in_gb(needed.total)} of {in_gb(self.candidate.available)}: {terms}"
        if self.entry is not None:
            return self.entry.error
        return (
            "its bound is no better than the best simulated time"
            if self.excluded
            else "its estimate is not among the best"
        )

    @property
    def status(self) -> str:
        """What became of it: `simulated`, `refused`, `failed`, `excluded`, `estimated` or `too large`."""
        if not self.candidate.fits:
            return "too large"
        if self.entry is not None:
            return "simulated" if self.entry.status == "done" else self.entry.status
        return "excluded" if self.excluded else "estimated"


@dataclass(slots=True)
class Found:
    """What a search has found."""

    search: Search
    space: Space
    findings: list[Finding]
    interrupted: bool = False

    def cost(self, finding: Finding, seconds: float) -> float:
        """What the objective makes of a time, the less the better."""
        per_npu = self.search.objective == "throughput_per_npu"
        return seconds * (finding.candidate.npus if per_npu else 1)

    @property
    def ranked(self) -> list[Finding]:
        """Those that were simulated, the best first."""
        done = [(self.cost(f, f.seconds), f.candidate.number, f) for f in self.findings if f.seconds is not None]
        return [finding for _, _, finding in sorted(done, key=lambda item: item[:2])]

    @property
    def best(self) -> Finding | None:
        """The best of those that were simulated."""
        return next(iter(self.ranked), None)

    @property
    def open(self) -> int:
        """Candidates that were not simulated and that nothing proves to be no better than the best."""
        return sum(finding.status in ("estimated", "failed") for finding in self.findings)

    def exclude(self) -> None:
        """Notes which candidates cannot be better than the best."""
        best = self.best
        if best is None or best.seconds is None:
            return
        limit = self.cost(best, best.seconds)
        for finding in self.findings:
            if finding.predicted is not None and finding.entry is None:
                finding.excluded = self.cost(finding, finding.predicted.bound / PS_PER_S) >= limit


def predicted(search: Search, space: Space) -> Found:
    """The candidates with bounds and estimates, of those that fit into memory."""
    predictors: dict[tuple[int, str], Predictor] = {}
    findings = []
    for candidate in space.candidates:
        key = (id(candidate.base), candidate.algorithm)
        if candidate.fits and key not in predictors:
            predictors[key] = Predictor(candidate.base, candidate.algorithm)
        findings.append(Finding(candidate, predictors[key].of(candidate) if candidate.fits else None))
    if "algorithm" in search.axes and any(base.experiment.topology.npus > MOST_NPUS for base in search.bases):
        search = replace(search, warnings=(*search.warnings, ALGORITHMS_ALIKE))
    return Found(search, space, findings)


def simulate(
    found: Found,
    journal: Journal | None,
    threads: int | None,
    *,
    quiet: bool,
    address: str | None = None,
    watch: Watch | None = None,
    warn: sweeps.Warn = sweeps.on_stderr,
    memory_limit: int | None = None,
    cancel: Cancellation | None = None,
) -> None:
    """Simulates the most promising candidates, as many as the search says, or until no other can be better.

    `watch` hears how far those are that are simulated next, `warn` of what is to be known; a simulation may take
    `memory_limit` bytes; `cancel` ends this as an interrupt does, with what is known by then.
    """
    entries: dict[str, Entry] = {}
    if journal is not None:
        if journal.remark is not None:
            warn(journal.remark)
        entries |= journal.entries
    order = [(found.cost(f, f.predicted.estimate), f.candidate.number, f) for f in found.findings if f.predicted]
    waiting = [finding for _, _, finding in sorted(order, key=lambda item: item[:2])]
    most, at_once = found.search.simulate, WAVE * (threads or os.cpu_count() or 1)
    try:
        while waiting:
            number = at_once if most is None else most - len(found.ranked)
            wave, waiting = waiting[:number], waiting[number:]
            if not wave:
                break
            jobs = [
                (key, replace(variant, memory_limit=memory_limit, cancel=cancel), seeds)
                for key, variant, seeds in _jobs(wave, entries)
            ]
            at_a_time = memory.at_once(threads, (_memory(finding) for finding in wave), memory_limit)
            names = {finding.key or "": finding.candidate.name for finding in wave}
            weights = {key: 0 for key, _, _ in jobs}
            already = len(wave) - len(jobs)
            with SweepProgress(weights, already, quiet=quiet, watch=watch, names=names) as progress:
                sweeps.keep(
                    pool.simulate(jobs, at_a_time if address is None else threads, address, cancel=cancel),
                    names,
                    entries,
                    journal,
                    progress,
                )
            _take(wave, entries)
            found.exclude()
            waiting = [finding for finding in waiting if not finding.excluded]
            at_once *= 2  # processes that start take time
    except (KeyboardInterrupt, CancelledError):
        found.interrupted = True
        _take(found.findings, entries)
        found.exclude()


def _jobs(wave: Sequence[Finding], entries: dict[str, Entry]) -> list[pool.Job]:
    """The simulations of which nothing is known yet; what no experiment may say is refused."""
    jobs = []
    for finding in wave:
        variant = finding.candidate.variant()
        finding.key = key_of(variant)
        experiment = variant.experiment
        parts = rules.Parts(**{name: getattr(experiment, name) for name in rules.Parts.__dataclass_fields__})
        broken = next(iter(rules.violations(parts)), None)
        if broken is not None:
            entries.setdefault(finding.key, Entry("refused", f"{'.'.join(broken.path)}: {broken.message}"))
        if finding.key not in entries:
            jobs.append((finding.key, variant, 1))
    return jobs


def _memory(finding: Finding) -> int:
    """Bytes that the simulation of a candidate takes, roughly."""
    setting = finding.candidate.setting
    return memory.LEAST + PASS_BYTES * 2 * setting.micros * len(setting.model.layers)


def _take(findings: Sequence[Finding], entries: dict[str, Entry]) -> None:
    for finding in findings:
        if finding.key is not None:
            finding.entry = entries.get(finding.key)
