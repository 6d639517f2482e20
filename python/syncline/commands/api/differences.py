"""`syncline.diff`: where the time of two runs differs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from syncline.base.clock import Clock
from syncline.base.errors import InputError, one_of
from syncline.base.text_units import duration, percent
from syncline.commands.api import arguments, display
from syncline.commands.api.arguments import ARGUMENTS, Settings, Spelling
from syncline.commands.api.explaining import Subject
from syncline.commands.api.explanations import subject_of, watch_of
from syncline.commands.api.runs import Run
from syncline.report import differences
from syncline.results import entries as results
from syncline.results import rundir
from syncline.results.entries import Document
from syncline.studies.reasons import said, waterfall
from syncline.studies.reasons.seen import Seen

if TYPE_CHECKING:
    from syncline.commands.api.explanations import Explainable
    from syncline.commands.api.progress import Progress
    from syncline.core.cancelling import Cancellation

__all__ = ["Difference", "Step", "Systems", "compare", "diff"]


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an iteration in both runs."""

    name: str
    a_ps: int
    """Picoseconds in the first run."""
    b_ps: int
    """Picoseconds in the second run."""

    @property
    def delta_ps(self) -> int:
        """How much longer it is in the second run."""
        return self.b_ps - self.a_ps


@dataclass(frozen=True, slots=True)
class Systems:
    """Two systems that were compared. Times are whole picoseconds of an iteration, or of a collective on its own."""

    system_a: str
    system_b: str
    a_ps: int
    b_ps: int
    steps: tuple[Step, ...]
    """Their differences add up to `b_ps - a_ps`."""

    @property
    def delta_ps(self) -> int:
        """How much longer the second takes."""
        return self.b_ps - self.a_ps


class Difference:
    """Where the time of two runs differs."""

    def __init__(self, document: Document) -> None:
        self.document: Document = document
        """The document that `syncline diff --json` prints; `syncline schema diff` describes it."""

    def __repr__(self) -> str:
        pairs = (f"{pair.system_a} and {pair.system_b}" for pair in self.pairs)
        return f"<Difference {self.document['a']['name']}, {self.document['b']['name']}: {one_of(pairs)}>"

    def _repr_html_(self) -> str:
        text = ""
        for pair in self.document["pairs"]:
            rows = [[said.part(s), *(duration_of(s[f"{of}_ps"]) for of in ("a", "b", "delta"))] for s in pair["steps"]]
            rows.append(["all", *(duration_of(pair[f"{of}_ps"]) for of in ("a", "b", "delta"))])
            text += display.table(title(pair), ["part of an iteration", "A", "B", "difference"], rows)
        return text + display.paragraphs(unmatched(self.document))

    @property
    def pairs(self) -> tuple[Systems, ...]:
        """The systems that were compared, in the order of the first run."""
        return tuple(
            Systems(
                pair["system_a"],
                pair["system_b"],
                pair["a_ps"],
                pair["b_ps"],
                tuple(Step(said.part(step), step["a_ps"], step["b_ps"]) for step in pair["steps"]),
            )
            for pair in self.document["pairs"]
        )

    def page(self) -> str:
        """The comparison as the text of an HTML page, which needs no other file and no network."""
        return differences.build(self.document)


@arguments.plain_arguments
def diff(
    a: Explainable,
    b: Explainable,
    *,
    system: str | Sequence[str] | None = None,
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Difference:
    """Where the time of two runs differs: an iteration of `a`, step by step, becomes one of `b`.

    `a` and `b` are directories of runs, results of [`run`] or experiments, which are simulated. Systems of equal names
    are compared; `system` names some of them, or two of different names as `"ACE=Ideal"`. `set` changes experiments.
    Steps are whole picoseconds and add up exactly to the difference.

    Raises [`InputError`] with everything that is wrong, also where no two systems match, [`SimulationFailedError`] if a
    simulation fails, [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, seed=seed, threads=threads, memory_limit=memory_limit, cancel=cancel)
    problems = list(settings.problems)
    names = arguments.names(problems, "system", () if system is None else system)
    settings = replace(settings, problems=tuple(problems))
    wanted = list(_wanted(names))
    began = Clock()
    sides = [a, b]
    first, second = (
        subject_of(
            source,
            of_side(settings, [_is_run(side) for side in sides], number),
            [pair[number] for pair in wanted],
            ARGUMENTS,
            watch=watch_of(progress),
            numbers_only=True,
        )
        for number, source in enumerate(sides)
    )
    return Difference(compare(first, second, names, ARGUMENTS, began))


def _is_run(source: Explainable) -> bool:
    return isinstance(source, Run) or (isinstance(source, str | os.PathLike) and rundir.is_meant(source))


def of_side(settings: Settings, are_runs: Sequence[bool], side: int) -> Settings:
    """The settings of one side. Beside an experiment, which they change, there may be a finished run, which they do
    not.
    """
    return replace(settings, overrides=()) if are_runs[side] and not all(are_runs) else settings


def wanted_of(names: Sequence[str], side: int) -> list[str]:
    """The systems of one side that are asked for: 0 for A, 1 for B."""
    return [pair[side] for pair in _wanted(names)]


def _wanted(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        one, equals, other = name.partition("=")
        yield one, other if equals else one


def compare(first: Subject, second: Subject, names: Sequence[str], spelling: Spelling, began: Clock) -> Document:
    """The document of `diff`. Raises [`InputError`] where nothing can be compared."""
    pairs = list(_wanted(names)) or _matched(first, second, spelling)
    for one, other in pairs:
        mine, its = first.seen[one], second.seen[other]
        if mine.is_training != its.is_training:
            message = f"{_kind(mine)} cannot be compared with {_kind(its)}"
            raise InputError([spelling.problem("system", f"{one}={other}", message, "two of the same kind")])
    head = {key: value for key, value in first.document.items() if key in ("schema_version", "version")}
    return {
        **head,
        "status": "complete",
        "seed": first.document.get("seed"),
        "assumptions": _both(first, second, "assumptions"),
        "warnings": _both(first, second, "warnings"),
        "a": _side(first),
        "b": _side(second),
        "pairs": [waterfall.entry(waterfall.of(first.seen[one], second.seen[other])) for one, other in pairs],
        "unmatched": {
            "a": [name for name in first.seen if name not in [one for one, _ in pairs]],
            "b": [name for name in second.seen if name not in [other for _, other in pairs]],
        },
        "cost": results.cost(began, [*first.results, *second.results]),
    }


def _matched(first: Subject, second: Subject, spelling: Spelling) -> list[tuple[str, str]]:
    same = [(name, name) for name in first.seen if name in second.seen]
    if same:
        return same
    if len(first.seen) == len(second.seen) == 1:
        return [(*first.seen, *second.seen)]  # type: ignore[list-item]
    message = "no system of one has the name of a system of the other"
    accepted = f"A=B with A of {one_of(first.seen)} and B of {one_of(second.seen)}"
    raise InputError([spelling.problem("system", None, message, accepted)])


def _kind(seen: Seen) -> str:
    return "a training loop" if seen.is_training else "a collective on its own"


def _side(subject: Subject) -> Document:
    source = subject.command[2] if subject.directory is None else str(subject.directory)
    return {"name": subject.name, "source": source, "systems": list(subject.seen)}


def _both(first: Subject, second: Subject, key: str) -> list[str]:
    return list(dict.fromkeys([*(first.document.get(key) or []), *(second.document.get(key) or [])]))


def title(pair: Mapping[str, object]) -> str:
    """What was compared, and how much longer the second takes."""
    a, b = str(pair["system_a"]), str(pair["system_b"])
    ratio = pair["ratio"]
    assert isinstance(ratio, float | None)
    change = "" if ratio is None else f" ({'+' if ratio >= 1 else ''}{percent(ratio - 1)})"
    times = f"{duration_of(pair['a_ps'])} to {duration_of(pair['b_ps'])}{change}"
    return f"{a}: {times}" if a == b else f"{a} to {b}: {times}"


def duration_of(picoseconds: object, *, signed: bool = False) -> str:
    """Picoseconds with a unit; negative ones, too."""
    assert isinstance(picoseconds, int)
    sign = "-" if picoseconds < 0 else "+" if signed and picoseconds else ""
    return sign + duration(abs(picoseconds) / 1e12)


def unmatched(document: Document) -> list[str]:
    """What was not compared, in sentences."""
    return [
        f"Not compared, for want of a partner: {one_of(names)} of {side.upper()}."
        for side in ("a", "b")
        if (names := document["unmatched"][side])
    ]
