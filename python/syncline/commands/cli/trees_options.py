"""Options of `syncline trees` beyond one answer: a comparison, all allocations, a page; and what excludes what."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncline.base import outputs
from syncline.base.errors import command_line
from syncline.commands.api import exporting
from syncline.commands.cli import options

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.base.outputs import Kind

ALLOCATIONS: Final = "allocations"

Compare = Annotated[
    bool, typer.Option("--compare", help="Simulate the trees beside NCCL-like rings and double binary trees.")
]
Backend = Annotated[
    str | None,
    typer.Option(metavar="analytical|flow|packet|ethernet", help="The network model of --compare; by default flow."),
]
Endpoint = Annotated[
    str | None, typer.Option(metavar="ideal|streams", help="The endpoint model of --compare; by default ideal.")
]
Sweep = Annotated[
    str | None, typer.Option(metavar="allocations", help="A row for every allocation of the machine, as a table.")
]
Sizes = Annotated[
    str | None, typer.Option(metavar="LIST", help="With --sweep, how many GPUs, such as 3-8; by default 2 and more.")
]
Every = Annotated[
    bool, typer.Option("--every", help="With --sweep, a row for each allocation, and not one for all that are alike.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="With --sweep, continue from the journal of an earlier sweep with this output.")
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained page of the results.")]


def typed() -> str:
    """The command as it was typed, to be typed again."""
    return shlex.join(["syncline", *sys.argv[1:]])


@dataclass(frozen=True, slots=True)
class Given:
    """What is given of these options, and of those that they exclude."""

    sweep: str | None
    sizes: str | None
    every: bool
    resume: bool
    threads: int | None
    root: str | None
    compare: bool
    plan_format: str | None
    """The format of a plan; None where no plan is written."""
    output: Path | None
    pictures: tuple[tuple[str, Path | None], ...]
    """Flags of other files that are written, and these files: a picture and a page."""

    def problems(self) -> list[Problem]:
        """What is wrong with their combination."""
        found = options.common_problems(threads=self.threads)
        if self.sweep not in (None, ALLOCATIONS):
            found += command_line("--sweep", self.sweep, "this is nothing to sweep over", ALLOCATIONS).problems
        for flag, value in (
            ("--sizes", self.sizes),
            ("--every", self.every or None),
            ("--resume", self.resume or None),
            ("--threads", self.threads),
        ):
            if value is not None and not self.sweep:
                message = "this has no meaning without --sweep allocations"
                given = None if value is True else value
                found += command_line(flag, given, message, "--sweep allocations beside it").problems
        if self.compare and self.plan_format is not None:
            message = "a plan is no comparison"
            found += command_line("--compare", None, message, "--format json, or no --compare").problems
        if self.sweep is not None and self.root is not None:
            message = "in a sweep, the root is the first GPU of every allocation"
            found += command_line("--root", self.root, message, "no --root").problems
        if self.sweep is not None and self.plan_format is not None:
            message = "a sweep writes no plans"
            found += command_line("--format", self.plan_format, message, "--format json").problems
        if self.resume and self.sweep is not None and self.output is None:
            message = "there is nothing to go on with"
            found += command_line("--resume", None, message, "--out FILE as well").problems
        for (flag, path), kind in zip(self.pictures, (outputs.PICTURE, outputs.PAGE), strict=True):
            found += _unwritable(flag, path, kind)
        if self.plan_format in exporting.KINDS:
            found += _unwritable("--out", self.output, exporting.KINDS[self.plan_format])
        return found


def _unwritable(flag: str, path: Path | None, kind: Kind) -> list[Problem]:
    """What can be said of a file before anything is simulated for it."""
    if path is None:
        return []
    try:
        if path.is_dir():
            reason = "this is a directory"
        elif not path.parent.is_dir():
            reason = "the directory of this file does not exist"
        else:
            wrong = outputs.refusal(path, kind)
            return [] if wrong is None else list(command_line(flag, str(path), *wrong).problems)
    except (OSError, ValueError) as error:  # longer than a path can be, or with zeros in it
        reason = str(getattr(error, "strerror", None) or error)
    return list(command_line(flag, str(path), f"this cannot be written: {reason}", "the name of a file").problems)
