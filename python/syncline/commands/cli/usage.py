"""What typer says about a command line that it cannot read, as a problem like any other."""

from __future__ import annotations

import re
from typing import Any, Final

from syncline.base.errors import Problem, one_of
from syncline.experiment import packaged as studies

_NAMED: Final = re.compile(r"'([^']*)'|(--?[a-z][a-z-]*)")


def problem(error: Exception) -> Problem:
    """The problem with its field, and the commands or flags that there are."""
    say = getattr(error, "format_message", None)
    message = str(error) if say is None else say()
    named = _NAMED.search(message)
    name = (named[1] or named[2]) if named else ""
    unknown = message.startswith("No such")
    if message.startswith("Missing argument") and name.lower() in studies.KINDS:
        return Problem("command line", None, name, None, "this is missing", studies.accepted(name.lower()))
    commands, flags = _known(getattr(error, "ctx", None))
    if commands:
        return Problem("command line", None, "COMMAND", name or None, message, one_of(commands))
    accepted = one_of(flags) if unknown else None
    if message.startswith("Missing option"):
        message, accepted = "this is missing", _meaning(getattr(error, "param", None))
    return Problem("command line", None, name, None, message, accepted)


def _meaning(parameter: Any) -> str | None:
    """What a flag expects, as its help says it."""
    text = str(getattr(parameter, "help", None) or "").rstrip(".")
    return f"{text[:1].lower()}{text[1:]}" or None


def _known(context: Any) -> tuple[list[str], list[str]]:
    """The commands of a group, and the flags of a command."""
    command = getattr(context, "command", None)
    options = [flag for parameter in getattr(command, "params", ()) for flag in parameter.opts]
    return list(getattr(command, "commands", ())), [flag for flag in options if flag.startswith("--")]
