"""The collectives by the names that people know them by.

Syncline writes `all-reduce`; MPI, NCCL, PyTorch and the programs of nccl-tests write `allreduce`, `all_reduce` or
`AllReduce`. All of these are read, wherever a collective is named on the command line, by a program or in a file;
results have the one name.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

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


class _AnySpelling:
    """In the JSON Schema: the names, which editors complete, and their other spellings."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": _pattern()}]}


def _pattern() -> str:
    def letter(character: str) -> str:
        return "[-_ ]?" if character == "-" else f"[{character.upper()}{character}]"

    return f"^({'|'.join(''.join(map(letter, name)) for name in NAMES)})$"


def _of_value(value: Any) -> Any:
    return settled(value) if isinstance(value, str) else value


def _each_once(value: Any) -> Any:
    """A mapping whose keys are collectives, none of them under two names."""
    from syncline.fabric.fields import refused

    seen: dict[str, str] = {}
    for key in value if isinstance(value, dict) else ():
        if isinstance(key, str) and (other := seen.setdefault(settled(key), key)) != key:
            raise refused(f"{other} and {key} are the same collective", "each collective once")
    return value


Collective = Annotated[Name, BeforeValidator(_of_value), _AnySpelling()]
"""A field that names a collective."""
EACH_ONCE: Final = BeforeValidator(_each_once)
"""On a mapping from collectives: the same one under two names is refused."""
