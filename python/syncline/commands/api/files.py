"""What a function is given in place of the file that a command reads, and what it is asked to write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from syncline.base import document, inputs, outputs
from syncline.base.document import Origin
from syncline.base.errors import InputError, Problem, one_of
from syncline.commands.api.arguments import ARGUMENTS, Spelling, collected, elsewhere, respelled
from syncline.results import parquet
from syncline.sections.typed import Experiment
from syncline.studies.sweeps import journal

if TYPE_CHECKING:
    from syncline.base.document import Node

AnyPath: TypeAlias = "str | os.PathLike[str]"


def tree_of(source: Mapping[str, object], label: str) -> Node:
    """The tree of values that stand for a file, which problems call by `label`."""
    return document.of_value(plain(source), Origin(label, None))


def plain(value: object) -> object:
    """Values with experiments as the mappings that they stand for."""
    if isinstance(value, Experiment):
        return plain(value.as_mapping())
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def path_of(source: object, argument: str, what: str, accepted: str) -> str:
    """The path that a program gives. Raises [`InputError`] for what is none."""
    if not isinstance(source, str | os.PathLike) or isinstance(given := os.fspath(source), bytes):
        message = f"{what} cannot be given as {type(source).__name__}"
        raise InputError([ARGUMENTS.problem(argument, None, message, accepted)])
    if not given:
        raise InputError([ARGUMENTS.problem(argument, None, "this is empty", accepted)])
    if inputs.given(given) == inputs.STANDARD_INPUT:
        message = "standard input is read by the command line only"
        raise InputError([ARGUMENTS.problem(argument, given, message, accepted)])
    return given


def text_of(
    problems: list[Problem], given: object, argument: str, what: str = "a file", accepted: str | None = None
) -> str | None:
    """The path of a file or a folder as it is given, if it is; what is wrong with it is added to `problems`."""
    if given is None:
        return None
    return collected(problems, lambda: path_of(given, argument, what, accepted or f"the path of {what}"))


def place_of(problems: list[Problem], given: object, argument: str, what: str = "a file") -> Path | None:
    """The same as a path."""
    text = text_of(problems, given, argument, what)
    return None if text is None else Path(text)


def found(find: Callable[[str], tuple[Path, str]], given: str, argument: str) -> tuple[Path, str]:
    """The file that is named, and how problems call it. Raises [`InputError`] where there is none."""
    try:
        return find(given)
    except InputError as error:
        raise elsewhere(error, ARGUMENTS.place, ARGUMENTS.name(argument)) from None


def output_problems(
    out: Path | None,
    spelling: Spelling,
    *,
    resume: bool,
    is_ours: Callable[[Path], bool],
    what: str,
    has_journal: bool = True,
    pages: Sequence[str] = (),
) -> list[Problem]:
    """What is wrong with a table that is to be written, its journal, and pages beside it with other suffixes, before
    anything is read; `is_ours` says of a file whether it is `what` is written, which alone is replaced.
    """

    def wrong(message: str, accepted: str | None = None) -> list[Problem]:
        return [spelling.problem("out", str(out), message, accepted)]

    if out is None:
        if resume:
            needed = f"{spelling.name('out')} FILE as well" if spelling.before else "out as well"
            return [spelling.problem("resume", None, "there is nothing to go on with", needed)]
        return []
    try:
        if out.suffix not in parquet.FORMATS:
            message = (
                f"the suffix {out.suffix} is not that of a format"
                if out.suffix
                else "the file name has no suffix, which chooses the format"
            )
            return wrong(message, one_of(f"FILE{suffix}" for suffix in parquet.FORMATS))
        if out.is_dir():
            return wrong("this is a directory", "the name of a file")
        if not out.parent.is_dir():
            return wrong("the directory of this file does not exist")
        if not os.access(out.parent, os.W_OK | os.X_OK):
            return wrong("the directory of this file cannot be written to")
        beside = [(out.with_suffix(suffix), outputs.PAGE) for suffix in pages]
        for path, kind in [(out, outputs.Kind(what, is_ours)), *beside]:
            if (refused := outputs.refusal(path, kind)) is not None:
                return [spelling.problem("out", str(path), *refused)]
        if has_journal:
            journal.check(journal.beside(out), resume=resume)
    except InputError as error:
        return [respelled(problem, spelling) for problem in error.problems]
    except (OSError, ValueError) as error:
        return wrong(f"this file cannot be used: {error}")
    return []
