"""The collectives by the names that people know them by.

Syncline writes `all-reduce`; MPI, NCCL, PyTorch and the programs of nccl-tests write `allreduce`, `all_reduce` or
`AllReduce`. All of these are read, wherever a collective is named on the command line, by a program or in a file;
results have the one name.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

from syncline.base.errors import Problem, command_line, did_you_mean, one_of

Name = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter"]
NAMES: Final[tuple[str, ...]] = get_args(Name)
"""The collectives, as results name them."""


def _letters(text: str) -> str:
    """A name without what spellings differ in: case, and hyphens, underscores and blanks between words."""
    return re.sub(r"[-_ ]", "", text.strip().casefold())


def settled(text: str, names: tuple[str, ...] = NAMES) -> str:
    """The one of `names` that a text spells; the text itself, where it spells none."""
    letters = _letters(text)
    return next((name for name in names if _letters(name) == letters), text)


def chosen(flag: str, text: str, problems: list[Problem], names: tuple[str, ...] = NAMES) -> str:
    """The same for an argument of the command line; what is none of `names` adds to `problems`."""
    found = settled(text, names)
    if found not in names:
        message = f"this collective is not known{did_you_mean(text, names)}"
        problems += command_line(flag, text, message, one_of(names)).problems
    return found
