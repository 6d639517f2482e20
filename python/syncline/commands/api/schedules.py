"""`syncline.verify`: whether a collective schedule does what its name says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base.clock import Clock
from syncline.base.errors import InputError, Problem
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Spelling
from syncline.plans import load, verification
from syncline.plans.verification import line
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.plans.load import Loaded
    from syncline.plans.verification import Buffering, Verdict
    from syncline.results.entries import Document

DEFAULT_BUFFERING: Final = "1"
MSCCL_SLOTS: Final = 8
"""Messages that a connection of NCCL and MSCCL holds (NCCL_STEPS)."""
MOST_SLOTS: Final = 2**31 - 1
ACCEPTED: Final = "eager, rendezvous, or how many messages a connection holds, 1 or more"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found out about a schedule."""

    loaded: Loaded
    verdict: Verdict
    document: Document
    """The document of `verify --json`."""
    right_with_room: bool
    """Whether a schedule that is wrong where connections hold one message, which nobody asked for, is right where they
    hold as many as MSCCL's."""


class Verification:
    """Whether a schedule is correct, and what is wrong with it."""

    def __init__(self, verified: Verified) -> None:
        self.document: Document = verified.document
        """The document that `syncline verify --json` prints."""
        self.verified: bool = verified.verdict.verified
        """Whether nothing is wrong."""
        self.errors: tuple[Problem, ...] = verified.verdict.errors
        """What makes results wrong, each with its place in the file; not all of them if there are many."""
        self.flaws: tuple[Problem, ...] = verified.verdict.flaws
        """What may make results wrong, or keep them from coming, with some timing."""
        self.warnings: tuple[Problem, ...] = verified.verdict.warnings
        """What is right here and may not be elsewhere."""
        self.right_with_room: bool = verified.right_with_room
        """Whether it is wrong for want of room only: connections that hold 8 messages, as MSCCL's do, make it right."""

    def __bool__(self) -> bool:
        return self.verified

    def __repr__(self) -> str:
        wrong = len(self.errors) + len(self.flaws)
        return f"<Verification of {self.file}: {'correct' if self.verified else display.counted(wrong, 'finding')}>"

    def _repr_html_(self) -> str:
        findings = [(str(problem),) for problem in (*self.errors, *self.flaws)]
        if not findings:
            return display.paragraphs([f"{self.file}: correct"])
        return display.table(f"{self.file}: wrong", ["finding"], findings)

    @property
    def file(self) -> str:
        """The file of the schedule."""
        return str(self.document["file"])

    @property
    def collective(self) -> str:
        """What the schedule is to carry out."""
        return str(self.document["collective"])

    @property
    def root(self) -> int | None:
        """The rank of the root, where there is one: as given, or as the results have it."""
        root: int | None = self.document["root"]
        return root

    @property
    def counts(self) -> dict[str, Any] | None:
        """Ranks, channels, thread blocks, steps and messages; `None` of a schedule that cannot end."""
        counts: dict[str, Any] | None = self.document["counts"]
        return counts


@arguments.plain_arguments
def verify(
    plan: str | os.PathLike[str], *, root: int | None = None, buffering: str | int | None = None
) -> Verification:
    """Verifies a collective schedule on symbolic data.

    `plan` is the file of MSCCL XML, of an execution plan of MSCCL++, or of a plan as JSON of `syncline-plan`. `root` is
    the rank of the root; if not given, the one that the results fit best. `buffering` says how many messages a
    connection holds: a number, `"eager"` for any number, or `"rendezvous"` for none; 1 if not given.

    A schedule is correct if every contribution arrives exactly once where it has to, whatever the timing. A wrong one
    is a result, not an error: `if syncline.verify("ring.xml"): ...`. Raises [`InputError`] if the file is no schedule.
    """
    path = Path(files.path_of(plan, "plan", "a schedule", "the path of a file"))
    text = str(buffering) if isinstance(buffering, int) and not isinstance(buffering, bool) else buffering
    return Verification(look(path, root, text, ARGUMENTS))


def look(plan: Path, root: int | None, buffering: object, spelling: Spelling = FLAGS) -> Verified:
    """Verifies a schedule, for programs and for the command line. Raises [`InputError`]."""
    holds = _buffering(DEFAULT_BUFFERING if buffering is None else buffering, spelling)
    if root is not None and (isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < 2**31):
        raise InputError([spelling.problem("root", root, "this is out of range", "a rank")])

    began = Clock()
    loaded = load.load(plan)
    if loaded.one_sided is not None and buffering not in (None, verification.ONE_SIDED):
        message = "what a plan of MSCCL++ puts into the memory of others waits for no room"
        raise InputError([spelling.problem("buffering", buffering, message, verification.ONE_SIDED)])
    try:
        verdict = verification.verify(loaded, root, holds)
    except InputError as error:
        raise InputError(arguments.respelled(problem, spelling) for problem in error.problems) from None
    is_default = buffering is None and loaded.one_sided is None
    document = _document(loaded, verdict, default=is_default)
    document["cost"] = results.cost(began, []) | {"events": _steps(verdict)}
    needs_room = is_default and not verdict.verified and not verdict.errors
    right = needs_room and verification.verify(loaded, root, {"slots": MSCCL_SLOTS}).verified
    return Verified(loaded, verdict, document, right)


def _buffering(text: object, spelling: Spelling) -> Buffering:
    if isinstance(text, str):
        if text in ("eager", "rendezvous"):
            return text
        if text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST_SLOTS:
            return {"slots": int(text)}
    raise InputError([spelling.problem("buffering", text, "this is not known", ACCEPTED)])


def _steps(verdict: Verdict) -> int:
    counts = verdict.report["counts"]
    return 0 if counts is None else int(counts["steps"] + counts["nops"])


def _document(loaded: Loaded, verdict: Verdict, *, default: bool) -> Document:
    report = verdict.report
    assumptions = ["buffering = 1 message per connection (default)"] if default else []
    if report["root_inferred"]:
        assumptions.append(f"root = {report['root']} (from the results)")

    def findings(kind: str) -> list[dict[str, Any]]:
        return [{**finding, "line": line(loaded, finding)} for finding in report[kind]]

    return {
        **_version.versions(),
        "status": "complete",
        "seed": 0,
        "assumptions": assumptions,
        "warnings": [str(problem) for problem in verdict.warnings],
        "fidelity": {"backend": "symbolic"},
        "file": loaded.file,
        "format": loaded.format,
        "name": report["name"],
        "collective": report["collective"],
        "in_place": report["in_place"],
        "root": report["root"],
        "buffering": report["buffering"],
        "verified": verdict.verified,
        "errors": findings("errors"),
        "errors_omitted": report["errors_omitted"],
        "flaws": findings("flaws"),
        "flaws_omitted": report["flaws_omitted"],
        "counts": report["counts"],
    }
