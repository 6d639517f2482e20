"""`syncline.load`, `syncline.check` and `syncline.run`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from syncline.base.errors import CancelledError, InputError, SimulationFailedError
from syncline.base.text_units import duration, size
from syncline.commands.api import arguments, display, files, runs, simulate, sources
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.report import run as report
from syncline.results import rundir
from syncline.results.rundir import RunDirectory

if TYPE_CHECKING:
    from syncline.commands.api.runs import Run
    from syncline.commands.api.sources import Source
    from syncline.core.cancelling import Cancellation
    from syncline.engine.estimate import Estimate
    from syncline.experiment import load as experiments
    from syncline.results.entries import Document


class Study:
    """An experiment that has been read and is legal: its variants, each with every field filled in."""

    def __init__(self, study: experiments.Study) -> None:
        self._study = study

    def __repr__(self) -> str:
        return f"<Study {self.name}: {', '.join(self.variants)}>"

    def _repr_html_(self) -> str:
        rows = [
            [each.name, str(each.experiment.topology), each.experiment.network.backend, each.experiment.endpoint.kind]
            for each in self._study.variants
        ]
        return display.table(self.name, ["variant", "topology", "network", "endpoint"], rows) + display.paragraphs(
            self.warnings
        )

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self._study.name

    @property
    def description(self) -> str:
        """A text for readers."""
        return self._study.description

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the variants, in the order of the experiment."""
        return tuple(variant.name for variant in self._study.variants)

    @property
    def baseline(self) -> str:
        """The variant that speed-ups are against."""
        return self._study.baseline or self.variants[0]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know of the experiment."""
        return self._study.warnings

    def resolved(self) -> dict[str, Any]:
        """Every variant with every field filled in, as a mapping that could be in a file; names of files are those in
        a run's directory.
        """
        return rundir.resolved(self._study)


class Check:
    """What running an experiment will take."""

    def __init__(self, checked: simulate.Checked) -> None:
        self.document: Document = checked.document
        """The document that `syncline check --json` prints."""
        self.study = Study(checked.study)
        """The study, with algorithms chosen where that was left open."""
        self.estimates: dict[str, Estimate] = dict(checked.estimates)
        """By variant: `time_s` in seconds, `memory_bytes`, `events` and counts of all NPUs that are simulated."""

    def __repr__(self) -> str:
        seconds = sum(each.time_s for each in self.estimates.values())
        return f"<Check {self.study.name}: about {duration(seconds)} of simulation>"

    def _repr_html_(self) -> str:
        headings = ["variant", "NPUs", "simulated", "events", "memory", "time"]
        rows = [
            [
                name,
                f"{each.npus:,}",
                f"{each.simulated_npus:,}",
                f"{each.events:,}",
                size(each.memory_bytes),
                duration(each.time_s),
            ]
            for name, each in self.estimates.items()
        ]
        return display.table(self.study.name, headings, rows) + display.paragraphs(self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before it is run."""
        return tuple(self.document["warnings"])


@arguments.plain_arguments
def load(
    source: Source,
    *,
    set: Mapping[str, object] | None = None,
    baseline: str | None = None,
    endpoint: str | None = None,
    backend: str | None = None,
    algorithm: str | None = None,
    chunk: str | int | None = None,
    inflight: int | None = None,
    padding: str | None = None,
    fold: str | None = None,
) -> Study:
    """Reads an experiment and fills in what it leaves open, without simulating anything.

    `source` is a file's path, the name of a study (`"ace/resnet50"`), what a file would say as a mapping, or an
    [`Experiment`]. Quantities are text with a unit (`"64KiB"`). Relative paths in a file start beside it, those in a
    mapping in the working directory. A mapping without a name is called `experiment`.

    `set` changes fields by their paths, `{"training.iterations": 4}`; variants may have values of their own
    (`{"variants.ACE.npu.sms": 40}` changes one). The other arguments hold for every variant, whatever the experiment
    says: `endpoint` is a name, with the parameters of the ACE paper; `baseline` the variant that speed-ups are against.

    Raises [`InputError`] with everything that is wrong, each with its place.
    """
    forced = {
        "endpoint": endpoint,
        "backend": backend,
        "algorithm": algorithm,
        "chunk": chunk,
        "inflight": inflight,
        "padding": padding,
        "fold": fold,
    }
    settings = arguments.of_program(changes=set, baseline=baseline, forced=forced)
    return Study(settings.loaded(reader(source)))


@arguments.plain_arguments
def check(
    source: Source | Study,
    *,
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    endpoint: str | None = None,
    backend: str | None = None,
    algorithm: str | None = None,
    chunk: str | int | None = None,
    inflight: int | None = None,
    padding: str | None = None,
    fold: str | None = None,
    memory_limit: str | int | None = None,
    cancel: Cancellation | None = None,
) -> Check:
    """Validates an experiment as the engine will see it, and estimates what running it takes.

    Arguments are as those of [`run`]. Algorithms that were left open are chosen, which may take some seconds. Raises
    [`InputError`] with everything that is wrong.
    """
    forced = {
        "endpoint": endpoint,
        "backend": backend,
        "algorithm": algorithm,
        "chunk": chunk,
        "inflight": inflight,
        "padding": padding,
        "fold": fold,
    }
    settings = arguments.of_program(changes=set, seed=seed, memory_limit=memory_limit, forced=forced, cancel=cancel)
    return Check(simulate.check(reader(source), settings))


@arguments.plain_arguments
def run(
    source: Source | Study,
    *,
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    threads: int | None = None,
    baseline: str | None = None,
    endpoint: str | None = None,
    backend: str | None = None,
    algorithm: str | None = None,
    chunk: str | int | None = None,
    inflight: int | None = None,
    padding: str | None = None,
    fold: str | None = None,
    memory_limit: str | int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
    errors: Literal["raise", "keep"] = "raise",
) -> Run:
    """Simulates an experiment, all of its variants, and returns what came of it.

    `source`, `set`, `baseline` and the arguments from `endpoint` to `fold` are as in [`load`]; a [`Study`] that was
    loaded may be given as well, without changes. `seed` is that of random numbers. `threads` simulations run at once,
    by default one for each processor. A simulation that would take more memory than `memory_limit` (bytes, or text such
    as `"8GB"`) is refused; by default that is 80 % of the computer's. `out` is a directory, which is written as by
    `syncline run --out`. `progress` is a function that hears how far the simulations are ([`Standing`]), or `True` for
    a bar in a notebook and a line on standard error elsewhere; an exception that it raises ends the run. So does
    `cancel`, a [`Cancellation`], when another thread calls it, with [`CancelledError`]; its `run` has the systems that
    are finished by then.

    The result depends on nothing but the input and the seed: two runs from two threads give what they give one after
    the other, except for `document["cost"]`.

    Raises [`InputError`] with everything that is wrong. If a simulation fails, [`SimulationFailedError`] is raised when
    the others are finished; its `run` has them. With `errors="keep"` the run is returned, and says what failed in
    `run.failed`. An interrupt ends the run with `KeyboardInterrupt`; what is finished by then is in `out`.
    """
    forced = {
        "endpoint": endpoint,
        "backend": backend,
        "algorithm": algorithm,
        "chunk": chunk,
        "inflight": inflight,
        "padding": padding,
        "fold": fold,
    }
    settings = arguments.of_program(
        changes=set,
        baseline=baseline,
        seed=seed,
        threads=threads,
        memory_limit=memory_limit,
        forced=forced,
        cancel=cancel,
    )
    problems = list(settings.problems)
    if errors not in ("raise", "keep"):
        problems.append(ARGUMENTS.problem("errors", errors, "this is not known", "raise, keep"))
    place = files.place_of(problems, out, "out", "a directory")
    if len(problems) > len(settings.problems):
        raise InputError(problems)
    command = runs.command_of(settings.seed)

    def to(study: experiments.Study) -> RunDirectory:
        assert place is not None
        return RunDirectory(place, study, command, settings.seed, report.page)

    with runs.of_directory("out"):
        finished = simulate.run(
            reader(source), settings, None if place is None else to, watch=watch_of(progress), warn=warn_of(progress)
        )
    if finished.outcomes.interrupted:
        raise KeyboardInterrupt
    found = runs.of_finished(finished, command)
    if finished.outcomes.cancelled:
        of = f"{len(finished.outcomes.results)} of {len(finished.study.variants)} simulations are finished"
        raise CancelledError(f"the run was cancelled; {of}", run=found)
    if finished.unwritten is not None:
        finished.unwritten.run = found
        raise finished.unwritten
    if found.failed and errors == "raise":
        said = "; ".join(f"{name}: {message}" for name, message in found.failed.items())
        raise SimulationFailedError(said, run=found)
    return found


def reader(source: Source | Study) -> simulate.Read:
    """Reads what is given as an experiment, with overrides. What it reads raises [`InputError`]."""

    def read(overrides: Any, forced: Any) -> experiments.Study:
        if not isinstance(source, Study):
            return sources.read(source, overrides, forced)
        if overrides or forced:
            message = "a study that has been loaded cannot be changed"
            raise InputError([ARGUMENTS.problem("source", source.name, message, "the changes in load")])
        return source._study

    return read
