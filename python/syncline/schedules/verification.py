"""Asks the engine what is wrong with a schedule."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from syncline import binding
from syncline.errors import InputError, Problem, SimulationFailedError
from syncline.refusals import Refusal, read
from syncline.schedules.load import Loaded

Buffering = str | dict[str, int]
"""`eager`, `rendezvous`, or how many messages a connection holds, as the engine takes it."""

_FLAGS: Final = {"root": "--root", "buffering": "--buffering"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the engine reports, and its findings in the places of the file."""

    report: dict[str, Any]
    errors: tuple[Problem, ...]
    flaws: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def verified(self) -> bool:
        """Whether nothing is wrong."""
        return bool(self.report["verified"])


def verify(loaded: Loaded, root: int | None, buffering: Buffering) -> Verdict:
    """Verifies a schedule. Raises [`InputError`] if it is none, or one that cannot be verified."""
    binding.require()
    from syncline import _core

    head = json.dumps({"root": root, "buffering": buffering})[:-1]
    try:
        # The plan goes in as it was written, so that the lines in messages are those of the file.
        answer = _core.verify(f'{head}, "schedule": {loaded.plan_json}}}')
    except _core.SpecError as error:
        raise InputError(_refusal(loaded, refusal, root is not None) for refusal in read(error)) from None
    except BaseException as error:
        if type(error).__name__ in binding.PANICS:
            raise SimulationFailedError(f"the verifier has a defect: {error}") from None
        raise
    report: dict[str, Any] = json.loads(answer)
    return Verdict(
        report,
        errors=tuple(_problem(loaded, finding) for finding in report["errors"]),
        flaws=tuple(_problem(loaded, finding) for finding in report["flaws"]),
        warnings=(*loaded.warnings, *(_problem(loaded, finding) for finding in report["warnings"])),
    )


def line(loaded: Loaded, finding: dict[str, Any]) -> int | None:
    """The line of a finding, or of the smallest part of the file that holds it."""
    rank, block, step = finding["rank"], finding["thread_block"], finding["step"]
    for site in ((rank, block, step), (rank, block, None), (rank, None, None), (None, None, None)):
        if site in loaded.lines:
            return loaded.lines[site]
    return None


def _problem(loaded: Loaded, finding: dict[str, Any]) -> Problem:
    named = (("rank", finding["rank"]), ("thread block", finding["thread_block"]), ("step", finding["step"]))
    field = ", ".join(f"{name} {number}" for name, number in named if number is not None)
    return Problem(loaded.file, line(loaded, finding), field, None, finding["message"], finding["accepted"])


def _refusal(loaded: Loaded, refusal: Refusal, root_given: bool) -> Problem:
    (field,) = refusal.field
    message, accepted = refusal.message, refusal.accepted
    if field == "buffering" or (field == "root" and root_given):
        return Problem("command line", None, _FLAGS[field], None, message, accepted)
    if field != "schedule":
        return Problem(loaded.file, loaded.lines.get((None, None, None)), field, None, message, accepted)
    # Of other formats a plan is made whose lines nobody has written.
    line = refusal.line if loaded.format != "msccl-xml" else None
    return Problem(loaded.file, line, "", None, message, accepted)
