"""Communicator groups of ASTRA-sim: a JSON object of lists of NPUs, by the name of the communicator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from syncline.base import inputs
from syncline.base.errors import InputError, Problem, shown
from syncline.importers.json_text import Text, load

MAX_BYTES: Final = 64 * 1024 * 1024
ACCEPTED: Final = 'an object such as {"1": [0, 1], "2": [2, 3]}'


def is_one(values: Any) -> bool:
    """Whether a JSON document has the form of such a file."""
    lists = isinstance(values, dict) and bool(values) and all(isinstance(v, list) for v in values.values())
    return lists and all(isinstance(npu, int) for v in values.values() for npu in v)


def read(path: Path) -> dict[str, list[int]]:
    """The communicators of a file. Raises [`InputError`]."""
    label = str(path)
    return parsed(load(inputs.read_bytes(inputs.given(path), label, MAX_BYTES), label))


def parsed(text: Text) -> dict[str, list[int]]:
    """The communicators of a document. Raises [`InputError`]."""
    values = text.values
    if not isinstance(values, dict):
        raise InputError([Problem(text.file, 1, "", shown(values), "these are no communicators", ACCEPTED)])
    problems: list[Problem] = []
    for name, members in values.items():
        is_list = isinstance(members, list) and all(type(npu) is int and 0 <= npu < 2**26 for npu in members)
        if not is_list or not members or len(set(members)) < len(members):
            problems.append(text.problem([name], "this is no list of different NPUs", shown(members), ACCEPTED))
        if name == "0":
            message = "0 stands for all NPUs"
            problems.append(text.problem([name], message, None, "another name for a communicator of some"))
    if problems:
        raise InputError(problems)
    return values
