"""Which files of a trace belong to which NPU: `PREFIX.N.et`, as prefix, folder, or one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncline.base.errors import InputError, Problem, command_line, shown

MOST_NPUS: Final = 65_536
MOST_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a trace."""

    name: str
    """What they are called, without numbers."""
    by_npu: dict[int, Path]


def of(arguments: Sequence[str], suffixes: Sequence[str]) -> Files:
    """The files that arguments of the command line mean: each a file, a folder, or a prefix of `PREFIX.N` and one of
    the suffixes. Raises [`InputError`] if there are none, or one is missing.
    """
    ends = "|".join(re.escape(suffix) for suffix in suffixes)
    numbered = re.compile(rf"(.*?)\.?([0-9]{{1,7}})(?:{ends})", re.DOTALL)
    found: list[Path] = []
    for argument in arguments:
        found += _meant(argument, numbered, suffixes)
    by_npu: dict[int, Path] = {}
    matches = [(path, numbered.fullmatch(path.name)) for path in found]
    if not any(match for _, match in matches):
        named = {re.sub(rf"(?:{ends})$", "", path.name) for path in found}
        return Files(sorted(named)[0], dict(enumerate(found)))
    names = {match[1] for _, match in matches if match is not None}
    if len(names) > 1:
        accepted = " or ".join(shown(name) or "" for name in sorted(names)[:MOST_LISTED])
        raise command_line("FILE", arguments[0], "these are files of several traces", f"one prefix: {accepted}")
    for path, match in matches:
        if match is None:
            message = "this file has no number, and others have one"
            raise _refused(path, message, f"names such as trace.0{suffixes[0]}")
        number = int(match[2])
        if number in by_npu:
            raise _refused(path, f"NPU {number} has another file: {by_npu[number]}", "a file for each NPU")
        by_npu[number] = path
    if len(by_npu) > MOST_NPUS:
        raise command_line("FILE", arguments[0], f"{len(by_npu)} files", f"up to {MOST_NPUS}")
    return Files(names.pop(), dict(sorted(by_npu.items())))


def require_all(files: Files) -> None:
    """Refuses a trace whose NPUs are not numbered from 0 without gaps."""
    missing = sorted(set(range(max(files.by_npu) + 1)) - set(files.by_npu))
    if missing:
        some = next(iter(files.by_npu.values()))
        more = f" and {len(missing) - MOST_LISTED} more" if len(missing) > MOST_LISTED else ""
        listed = ", ".join(str(npu) for npu in missing[:MOST_LISTED])
        raise _refused(some, f"there is no file of NPU {listed}{more} beside it", "a file for each NPU, from 0")


def _meant(argument: str, numbered: re.Pattern[str], suffixes: Sequence[str]) -> list[Path]:
    path = Path(argument)
    if "\0" in argument or len(argument) > 4096:
        raise command_line("FILE", argument, "this is no name of a file", "a file, a folder or a prefix")
    try:
        if path.is_dir():
            folder, prefix = path, None
        elif path.exists() or argument == "-":
            return [path]
        else:
            folder, prefix = path.parent, path.name
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        names, prefix, folder = [], "", path
    matches = [(name, numbered.fullmatch(name)) for name in names]
    found = [folder / name for name, match in matches if match and prefix in (None, match[1])]
    if not found and prefix is None:
        found = [folder / name for name in names if name.endswith(tuple(suffixes))]
    if not found and prefix is None:
        accepted = f"a folder with files such as trace.0{suffixes[0]}, whose names end in {' or '.join(suffixes)}"
        raise command_line("FILE", argument, "this folder has no traces", accepted)
    if not found:
        accepted = f"a file, a folder, or a prefix of files such as trace.0{suffixes[0]}"
        raise command_line("FILE", argument, "there is no such file", accepted)
    return found


def _refused(path: Path, message: str, accepted: str) -> InputError:
    return InputError([Problem(str(path), None, "", None, message, accepted)])
