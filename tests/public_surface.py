"""What is public, as a text (docs/stability.md): `python -m tests.public_surface --write` writes `public_surface.txt`.

Names and signatures of `import syncline`, commands with their options, keys of files, columns of tables, fields of
documents with their version, formats of plans and exit statuses. `test_public_surface.py` compares it.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

import syncline
from syncline import _version
from syncline.commands import catalogue, cli
from syncline.commands.api import exporting, trace_exports, trace_imports
from syncline.core import facts
from syncline.plans import plan
from syncline.studies import columns, command_tables
from syncline.studies.searches import table as searches
from syncline.studies.trees import sweep_table

FILE: Final = Path(__file__).with_name("public_surface.txt")
WIDTH: Final = 120
FILES: Final = ("experiment", "sweep", "search", "figure", "plan", "graph", "model")
"""The schemas of files that users write."""


def text() -> str:
    """Everything that is public."""
    sections = {
        "Python": _python(),
        "Commands": _commands(),
        "Keys of files": _schemas(FILES),
        "Columns of tables": _columns(),
        f"Fields of documents, version {_version.SCHEMA_VERSION}": _schemas(
            name for name in catalogue.SCHEMAS if name not in FILES
        ),
        "Formats of plans and traces": _formats(),
        "Exit statuses": _statuses(),
    }
    return "\n\n".join("\n".join([f"# {title}", *lines]) for title, lines in sections.items()) + "\n"


def _entry(head: str, words: Iterable[str]) -> str:
    """A name and what belongs to it, broken into lines."""
    body = f"{head}: {', '.join(words)}"
    return textwrap.fill(body, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _python() -> Iterator[str]:
    for name in sorted(syncline.__all__):
        what = getattr(syncline, name)
        if inspect.isclass(what):
            bases = "exception" if issubclass(what, BaseException) else "class"
            yield _entry(f"{bases} {name}", _members(what))
        elif callable(what):
            yield textwrap.fill(f"{name}{_signature(what)}", WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        else:
            yield name


def _signature(function: Any) -> str:
    """Names and defaults of parameters; types are left to type checkers."""
    found = inspect.signature(function)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _members(what: type) -> list[str]:
    """Public attributes and methods; those of the built-in classes are left out."""
    mine = [base for base in what.__mro__ if base.__module__.startswith("syncline")]
    names = {name for base in mine for name in (*vars(base), *inspect.get_annotations(base))}
    for base in mine:
        if "__init__" in vars(base) and "__dataclass_fields__" not in vars(base):
            names |= set(re.findall(r"self\.([a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(vars(base)["__init__"])))
    shown = []
    for name in sorted(name for name in names if not name.startswith("_")):
        member = inspect.getattr_static(what, name, None)
        shown.append(f"{name}{_signature(member)}" if inspect.isfunction(member) else name)
    return shown


def _commands() -> Iterator[str]:
    yield from _command("syncline", typer.main.get_command(cli.app))


def _command(path: str, command: Any) -> Iterator[str]:
    words: list[str] = []
    for parameter in command.params:
        flags = [*parameter.opts, *parameter.secondary_opts]
        if parameter.param_type_name == "argument":
            words.insert(0, parameter.name.upper() + ("..." if parameter.nargs == -1 else ""))
        elif flags != ["--help"]:
            words.append("/".join(sorted(flags, key=len)))
    yield _entry(path, words)
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _command(f"{path} {name}", below)


def _schemas(names: Iterable[str]) -> Iterator[str]:
    """Keys of each form; parts of it that have a name stand once, below."""
    parts: dict[str, list[str]] = {}
    for name in names:
        whole = catalogue.SCHEMAS[name]()
        yield _entry(name, _keys(whole))
        for part, schema in whole.get("$defs", {}).items():
            keys = list(_keys(schema))
            known = parts.setdefault(part, keys)
            parts[part] = list(dict.fromkeys([*known, *keys]))
    for part, keys in sorted(parts.items()):
        if keys:
            yield _entry(f"  {part}", keys)


def _keys(schema: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a schema, with those of parts that have no name as `key.key`."""
    found: dict[str, None] = {}
    for alternative in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(alternative, ()):
            found |= dict.fromkeys(_keys(part))
    items = schema.get("items")
    if isinstance(items, Mapping):
        found |= dict.fromkeys(_keys(items))
    for key, below in schema.get("properties", {}).items():
        found[key] = None
        found |= dict.fromkeys(f"{key}.{inner}" for inner in _keys(below))
    yield from found


def _columns() -> Iterator[str]:
    for form in command_tables.forms().values():
        yield _entry(form.command, (column.name for column in form.columns))
    measured = {
        "row": columns.ROW,
        "training": columns.TRAINING,
        "collective": columns.COLLECTIVE,
        "algorithm": columns.COMMON,
        "network": columns.NETWORK,
        "transport": columns.TRANSPORT,
        "endpoint": columns.ENDPOINT,
        "breakdown": columns.BREAKDOWN,
        "named": columns.NAMED,
        "cost": columns.COST,
        "fidelity": (*columns.FIDELITY, columns.WARNINGS),
    }
    for group, measures in measured.items():
        yield _entry(f"sweep, {group}", (measure.name for measure in measures))
    yield _entry("search", searches.TYPES)
    yield _entry("trees --sweep", (column.name for column in (*sweep_table.COLUMNS, *sweep_table.COMPARED)))
    for table in facts.engine().tables.values():
        yield _entry(f"run, {table.name}", table.columns)


def _formats() -> Iterator[str]:
    yield _entry("export", exporting.FORMATS)
    yield _entry("export-trace", trace_exports.FORMATS)
    yield f"syncline-plan {plan.VERSION}, {plan.PLAN_VERSION}"
    yield _entry("import", trace_imports.FORMATS)


def _statuses() -> Iterator[str]:
    for name in ("DONE", "FAILED", "WRONG_INPUT", "INTERRUPTED"):
        value = getattr(cli, name)
        yield f"{value.value if isinstance(value, enum.Enum) else value} {name.lower().replace('_', ' ')}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text(), encoding="utf-8")
    else:
        print(text(), end="")
