"""Plans that an experiment names: each a file that has been read and verified, and takes the place of an algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.core.refusals import Refusal
from syncline.plans import plan, verification
from syncline.plans.load import Loaded, parse

BUFFERING: Final = "eager"
"""What connections hold in a run: whatever is sent."""
LISTED: Final = 20
"""Findings about a plan, and warnings, that are said; `syncline verify` lists all."""
KEPT: Final = 32
"""Plans whose verdict is kept, so that the points of a sweep do not verify the same file again and again."""


@dataclass(frozen=True, slots=True)
class Line:
    """What the ranks along a dimension do, as far as other settings depend on it."""

    kind: str
    around: bool
    """Whether they send to neighbours of a ring, over its lanes."""
    switch: bool
    """Whether a switch adds and copies."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan in the place of an algorithm."""

    loaded: Loaded = field(repr=False)
    kind: str
    """The collectives that it carries out, as experiments call them."""
    root: int | None
    """The rank of their root; none where there is none."""
    lines: tuple[Line, ...]
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def file(self) -> str:
        """The file, as it was named."""
        return self.loaded.file

    @property
    def name(self) -> str:
        """What people call the plan."""
        return self.loaded.name

    @property
    def content(self) -> bytes:
        """What is in the file."""
        return self.loaded.content

    @property
    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        if self.loaded.is_schedule:
            return {"schedule": self.loaded.form, "root": self.root}
        return {"plan": self.loaded.form}

    def problem(self, within: Sequence[str], refusal: Refusal) -> Problem:
        """What the engine refuses of it, at its place in the file."""
        return verification.in_file(self.loaded, within, refusal)


def read(content: bytes, file: str) -> PlanFile:
    """The plan in the content of a file. Raises [`InputError`] with everything that is wrong with it."""
    return _read(content, file)


@lru_cache(KEPT)
def _read(content: bytes, file: str) -> PlanFile:
    loaded = parse(content, file)
    verdict = verification.verify(loaded, None, BUFFERING)
    if not verdict.verified:
        found = [*verdict.errors, *verdict.flaws]
        count = len(found) + verdict.omitted
        raise InputError([*([_summary(file, count)] if count > LISTED else []), *found[:LISTED]])
    kind = plan.KINDS[loaded.form["collective"]]
    warnings = [str(warning) for warning in verdict.warnings[:LISTED]]
    count = len(verdict.warnings) + verdict.report["warnings_omitted"]
    if count > LISTED:
        warnings.append(str(_summary(file, count)))
    return PlanFile(loaded, kind, verdict.report["root"], tuple(_lines(loaded, kind)), tuple(warnings))


def _summary(file: str, count: int) -> Problem:
    message = f"there are {count} findings, of which the first {LISTED} are listed: syncline verify lists all"
    return Problem(file, None, "", None, message)


def _lines(loaded: Loaded, kind: str) -> Iterable[Line]:
    if loaded.is_schedule:
        yield Line(kind, around=False, switch=False)
        return
    for program in loaded.form["programs"]:
        own = plan.KINDS[program["collective"]]
        yield Line(own, around=bool(program.get("around")), switch=bool(program.get("switch")))
