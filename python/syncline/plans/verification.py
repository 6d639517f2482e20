"""Asks the engine what is wrong with a plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from syncline.base.errors import InputError, Problem, SimulationFailedError
from syncline.core import binding
from syncline.core.refusals import Refusal, read
from syncline.plans.load import Loaded
from syncline.plans.mscclpp.form import place
from syncline.plans.mscclpp.read import Document
from syncline.plans.plan import phases_of

Buffering = str | dict[str, int]
"""`eager`, `rendezvous`, or how many messages a connection holds, as the engine takes it."""

_FLAGS: Final = {"root": "--root", "buffering": "--buffering"}
ONE_SIDED: Final = "eager"
"""How one-sided messages are buffered: a put waits for no room."""
OF_MSCCL: Final = frozenset({"limit", "unannounced", "chain", "head"})
"""Kinds of warnings about the runtime of MSCCL."""
_PARTS: Final = ("schedule", "plan")
"""What the engine calls a file that writes out steps, and one that writes down algorithms."""


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

    @property
    def omitted(self) -> int:
        """Errors and flaws that are counted and not listed."""
        return int(self.report["errors_omitted"] + self.report["flaws_omitted"])


def verify(loaded: Loaded, root: int | None, buffering: Buffering) -> Verdict:
    """Verifies a plan. Raises [`InputError`] if it is none, or one that cannot be verified."""
    binding.require()
    from syncline.core import _core

    if loaded.one_sided is not None:
        buffering = ONE_SIDED
        if loaded.one_sided.schedule is None:
            return _verdict(loaded, _unended(loaded.one_sided))
    head = json.dumps({"root": root, "buffering": buffering})[:-1]
    part = _PARTS[0] if loaded.is_schedule else _PARTS[1]
    try:
        # The plan goes in as it was written, so that the lines in messages are those of the file.
        answer = _core.verify(f'{head}, "{part}": {loaded.plan_json}}}')
    except _core.SpecError as error:
        raise InputError(_refusal(loaded, refusal, root is not None) for refusal in read(error)) from None
    except BaseException as error:
        if type(error).__name__ in binding.PANICS:
            raise SimulationFailedError(f"the verifier has a defect: {error}") from None
        raise
    report: dict[str, Any] = json.loads(answer)
    if loaded.one_sided is not None:
        _of_operations(loaded, loaded.one_sided, report)
    return _verdict(loaded, report)


def _verdict(loaded: Loaded, report: dict[str, Any]) -> Verdict:
    return Verdict(
        report,
        errors=tuple(_problem(loaded, finding) for finding in report["errors"]),
        flaws=tuple(_problem(loaded, finding) for finding in report["flaws"]),
        warnings=(*loaded.warnings, *(_problem(loaded, finding) for finding in report["warnings"])),
    )


def _unended(document: Document) -> dict[str, Any]:
    """The report of an execution plan of MSCCL++ whose thread blocks wait for ever, of which there is no schedule."""
    nothing: dict[str, Any] = {}
    for kind in ("errors", "flaws", "warnings"):
        nothing |= {kind: [], f"{kind}_omitted": 0}
    return nothing | {
        "name": document.plan.name,
        "collective": document.plan.collective,
        "in_place": document.plan.in_place,
        "root": None,
        "root_inferred": False,
        "buffering": ONE_SIDED,
        "verified": False,
        "flaws": list(document.flaws),
        "flaws_omitted": document.omitted,
        "counts": None,
    }


def _of_operations(loaded: Loaded, document: Document, report: dict[str, Any]) -> None:
    """Makes the report on a schedule one on the execution plan of MSCCL++ that it comes from.

    Findings get the places of operations. What stumbles over a limit of MSCCL's runtime, which is another one, is left
    out. Races are those of the plan, in which a message is written as soon as it is put; a schedule that has other ones
    has data waited for at another place than where it takes them from the plan, which is no fault of the plan.
    """
    for finding in (*report["errors"], *report["flaws"], *report["warnings"]):
        site = (finding["rank"], finding["thread_block"], finding["step"])
        place = document.sites.get(site)
        if place is not None:
            finding["rank"], finding["thread_block"], finding["step"] = place
        elif finding["thread_block"] is not None:
            finding["thread_block"] = finding["step"] = None
    races = [flaw for flaw in report["flaws"] if flaw["kind"] == "race"]
    if races and not document.flaws:
        message = (
            "this uses data after another signal than the first one that follows the put or get, which is not read"
        )
        accepted = "operations that come after the wait for that signal"
        raise InputError([replace(_problem(loaded, races[0]), message=message, accepted=accepted)])
    if not report["errors"]:
        report["flaws"] = [*document.flaws, *(flaw for flaw in report["flaws"] if flaw["kind"] != "race")]
        report["flaws_omitted"] += document.omitted
    report["verified"] = report["verified"] and not document.flaws
    report["warnings"] = [warning for warning in report["warnings"] if warning["kind"] not in OF_MSCCL]


def line(loaded: Loaded, finding: dict[str, Any]) -> int | None:
    """The line of a finding, or of the smallest part of the file that holds it."""
    rank, block, step = finding["rank"], finding["thread_block"], finding["step"]
    for site in ((rank, block, step), (rank, block, None), (rank, None, None), (None, None, None)):
        if site in loaded.lines:
            return loaded.lines[site]
    if loaded.one_sided is not None and rank is not None:
        return loaded.one_sided.plan.line(rank, block, step)
    if loaded.positions is None or rank is None:
        return None
    path = _in_schedule(loaded, finding) if loaded.is_schedule else _in_plan(loaded, finding)
    return loaded.positions.line(path)


def _in_schedule(loaded: Loaded, finding: dict[str, Any]) -> list[str | int]:
    """Where a finding is in a file that writes out steps, whose parts are in any order."""
    path: list[str | int] = []
    within: Any = loaded.form
    for key, number in (("ranks", "rank"), ("thread_blocks", "thread_block"), ("steps", "step")):
        listed = within.get(key, [])
        at = next((i for i, part in enumerate(listed) if part.get("id") == finding[number]), None)
        if at is None:
            break
        path += [key, at]
        within = listed[at]
    return path


def _in_plan(loaded: Loaded, finding: dict[str, Any]) -> list[str | int]:
    """Where a finding is in a file that writes down algorithms: in the program of its phase."""
    phase, rank, thread, step = (finding.get(name) for name in ("phase", "rank", "thread_block", "step"))
    phases, grid = phases_of(loaded.form), loaded.form["grid"]
    phase = 0 if phase is None and len(phases) == 1 else phase
    if phase is None or phase >= len(phases):
        return ["programs"]
    kind, dim = phases[phase]
    programs = loaded.form["programs"]
    named = (n for n, program in enumerate(programs) if (program["collective"], program.get("dim", 0)) == (kind, dim))
    number = next(named, None)
    if number is None or rank is None:
        return ["programs"] if number is None else ["programs", number]
    written: dict[str, Any] = programs[number]
    place = 0 if written.get("rotates") else rank // prod(grid[:dim]) % grid[dim] if rank < prod(grid) else grid[dim]
    path: list[str | int] = ["programs", number, "ranks", place]
    if thread is None:
        return path
    path.append(thread)
    threads = written["ranks"][place] if place < len(written["ranks"]) else []
    if step is None or thread >= len(threads):
        return path
    passed = 0
    for at, loop in enumerate(threads[thread]):
        steps = len(loop["steps"]) * loop.get("times", 1)
        if step < passed + steps:
            return [*path, at, "steps", (step - passed) % len(loop["steps"])]
        passed += steps
    return path


def _problem(loaded: Loaded, finding: dict[str, Any]) -> Problem:
    if loaded.one_sided is not None:
        field = place(finding["rank"], finding["thread_block"], finding["step"])
        return Problem(loaded.file, line(loaded, finding), field, None, finding["message"], finding["accepted"])
    thread = "thread block" if loaded.is_schedule else "thread"
    named = (
        ("phase", finding.get("phase")),
        ("rank", finding["rank"]),
        (thread, finding["thread_block"]),
        ("step", finding["step"]),
    )
    field = ", ".join(f"{name} {number}" for name, number in named if number is not None)
    return Problem(loaded.file, line(loaded, finding), field, None, finding["message"], finding["accepted"])


def _refusal(loaded: Loaded, refusal: Refusal, root_given: bool) -> Problem:
    field = refusal.field
    if field == ("buffering",) or (field == ("root",) and root_given):
        return Problem("command line", None, _FLAGS[field[0]], None, refusal.message, refusal.accepted)
    return in_file(loaded, field, refusal)


def in_file(loaded: Loaded, field: Sequence[str], refusal: Refusal) -> Problem:
    """What the engine refuses of a plan, at its place in the file. `field` is the path within the description."""
    within = field[1:] if field[:1] and field[0] in _PARTS else field
    line = refusal.line
    if loaded.positions is None:  # of another format a plan was made whose lines nobody has written
        line = loaded.lines.get((None, None, None)) if within else None
    elif line is None and within:
        line = loaded.positions.line(within)
    return Problem(loaded.file, line, ".".join(within), refusal.value, refusal.message, refusal.accepted)
