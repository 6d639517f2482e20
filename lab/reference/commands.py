"""The page of all commands, made of the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from lab.reference.markdown import GENERATED, code, table

HEAD: Final = f"""# Commands

{GENERATED}

`syncline COMMAND --help` prints the same. Exit status: 0 done, 1 a simulation failed, a schedule is wrong,
the disk is full or Syncline itself has an error, 2 the input is wrong, 130 interrupted. With `--json`, every
command prints one [document](../documents.md). Quantities carry [units](units.md).
"""
_EXAMPLES: Final = "\b\n"


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    from syncline.commands import cli

    found = list(_commands(cli.command(), ("syncline",)))
    yield from table(("command", "what it does"), ((f"[`{name}`](#{_id(name)})", _first(of)) for name, of in found))
    for name, command in found:
        yield from _section(name, command)


def _id(name: str) -> str:
    return name.replace(" ", "-")


def _commands(group: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        path = (*names, name)
        if hasattr(command, "commands"):
            yield from _commands(command, path)
        else:
            yield " ".join(path), command


def _first(command: Any) -> str:
    return inspect.cleandoc(command.help).split("\n\n")[0]


def _section(name: str, command: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    words = [name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])]
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        if paragraph.startswith(_EXAMPLES):
            lines = inspect.cleandoc(paragraph.removeprefix(_EXAMPLES))
            yield f"```text\n{lines}\n```\n"
        else:
            yield f"{paragraph}\n"
    yield f"```text\n{' '.join(words)}\n```\n"
    yield from table(("argument", "meaning"), ((code(_usage(a)), a.help) for a in arguments))
    yield from table(
        ("option", "value", "default", "meaning"), ((_names(o), _value(o), _default(o), o.help) for o in options)
    )


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    if argument.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _names(option: Any) -> str:
    return ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))


def _value(option: Any) -> str:
    if option.is_flag:
        return ""
    repeated = ", may be repeated" if option.multiple else ""
    return code(option.metavar or _kind(option)) + repeated


def _kind(option: Any) -> str:
    kind = type(option.default)
    return {int: "N", float: "NUMBER"}.get(kind, "N")


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.default in (None, "", (), []):
        return ""
    return code(str(option.default))
