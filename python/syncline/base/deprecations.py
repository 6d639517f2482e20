"""Names that have changed: the old ones work for one more version, and a warning says which name is the new one.

Whoever renames something public adds it to one of the tables below, and nothing else has to be done
(docs/stability.md): options of commands, keys of files, columns of tables, and names that `import syncline` gives. The
latter are in `syncline._RENAMED`, so that nothing has to be imported for them. Tables are empty where nothing has been
renamed since the last version. A name is taken out with the version that it names.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

    import pyarrow as pa

    from syncline.base.document import Mapping, Origin
    from syncline.base.errors import Problem
    from syncline.experiment.merge import Override


@dataclass(frozen=True, slots=True)
class Renamed:
    """What an old name stands for."""

    new: str
    until: str
    """The version in which the old name no longer works."""


OPTIONS: Final[dict[tuple[str, str], Renamed]] = {}
"""By command and old option: `{("topology show", "--dims"): Renamed("--shape", "0.3.0")}`."""
KEYS: Final[dict[str, dict[str, Renamed]]] = {"experiment": {}, "sweep": {}, "search": {}, "figure": {}}
"""By the kind of file and the old path, within the same file: `{"npu.cores": Renamed("npu.sms", "0.3.0")}`. Paths lead
through mappings only. Those of experiments hold for `--set`, for variants and for axes as well.
"""
COLUMNS: Final[dict[str, Renamed]] = {}
"""Of all tables, by the old name: `{"total_s": Renamed("total_time_s", "0.3.0")}`."""
DEPRECATED: Final = b"deprecated"
"""The key in the metadata of a column that has the new name as its value."""
PACKAGE: Final = str(Path(__file__).parents[1])


class DeprecatedNameWarning(DeprecationWarning):
    """An old name was used, which will not work in a later version."""


def warn(what: str, old: str, renamed: Renamed) -> None:
    """Says that an old name was used, of the place in a program that called Syncline."""
    message = f"{what} {old} is now called {renamed.new}; the old name works until version {renamed.until}"
    warnings.warn(message, DeprecatedNameWarning, stacklevel=_level())


def _level() -> int:
    """How far up the first caller is that is no part of the package."""
    frame: FrameType | None = sys._getframe(2)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<frozen")):
        frame = frame.f_back
        level += 1
    return level


def path(written: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a field of experiments that is meant: of one that has been renamed, or lies below it, the new one."""
    prefix = written[:2] if written[0] == "variants" else ()
    inner = written[len(prefix) :]
    for old, renamed in KEYS["experiment"].items():
        keys = tuple(old.split("."))
        if inner[: len(keys)] == keys:
            warn("the field", old, renamed)
            return (*prefix, *renamed.new.split("."), *inner[len(keys) :])
    return written


def override(given: Override) -> Override:
    """The same setting of the field that is meant."""
    meant = path(given.path)
    return given if meant == given.path else replace(given, path=meant)


def keys(root: Mapping, of: str) -> Iterator[Problem]:
    """Moves what stands under old keys of a file to the new ones, within `root`. A key that is given under both names
    is a problem.
    """
    from syncline.base.document import Mapping

    for old, renamed in KEYS[of].items():
        *above, key = old.split(".")
        holder: object = root
        for part in above:
            holder = holder.entries.get(part) if isinstance(holder, Mapping) else None
        if not isinstance(holder, Mapping) or key not in holder.entries:
            continue
        value = holder.entries.pop(key)
        *sections, last = renamed.new.split(".")
        at: Mapping | None = root
        for part in sections:
            assert at is not None
            below = at.entries.setdefault(part, Mapping({}, _without_key(value.origin)))
            at = below if isinstance(below, Mapping) else None
            if at is None:  # the section is written in short, and has no field
                break
        if at is None or last in at.entries:
            message = f"this is the old name of {renamed.new}, which is given as well"
            yield value.origin.problem(message, None, f"{renamed.new} alone")
            continue
        warn("the key", f"{old} ({_place(value.origin)})", renamed)
        at.entries[last] = value


def column(name: str) -> str:
    """The column that is meant by a name in a file of a user."""
    if name not in COLUMNS:
        return name
    warn("the column", name, COLUMNS[name])
    return COLUMNS[name].new


def with_old_columns(table: pa.Table) -> pa.Table:
    """A table that is written or handed out, with its renamed columns under their old names too, at the end."""
    for old, renamed in COLUMNS.items():
        if renamed.new in table.column_names and old not in table.column_names:
            field = table.schema.field(renamed.new)
            metadata = {**(field.metadata or {}), DEPRECATED: renamed.new.encode()}
            table = table.append_column(field.with_name(old).with_metadata(metadata), table.column(renamed.new))
    return table


def with_new_columns(table: pa.Table) -> pa.Table:
    """A table that was read: columns have their new names only, whichever version has written it."""
    for old, renamed in COLUMNS.items():
        if old in table.column_names:
            if renamed.new in table.column_names:
                table = table.drop_columns([old])
            else:
                table = table.rename_columns([renamed.new if name == old else name for name in table.column_names])
    return table


def options(command: object, words: Sequence[str]) -> list[str]:
    """A command line with the new options in place of old ones. `command` is the group of all commands."""
    found = list(words)
    at, named = 0, []
    while at < len(found) and found[at] in getattr(command, "commands", {}):
        command = command.commands[found[at]]  # type: ignore[attr-defined]
        named.append(found[at])
        at += 1
    while at < len(found) and found[at] != "--":
        flag, equals, value = found[at].partition("=")
        renamed = OPTIONS.get((" ".join(named), flag))
        if renamed is not None:
            warn("the option", flag, renamed)
            flag = renamed.new
            found[at] = f"{flag}{equals}{value}"
        at += 2 if not equals and flag in _with_value(command) else 1
    return found


def _with_value(command: object) -> set[str]:
    """The flags of a command that the next word belongs to."""
    params = getattr(command, "params", ())
    return {flag for param in params for flag in param.opts if not getattr(param, "is_flag", True)}


@contextmanager
def on_terminal(*, quiet: bool, held: list[str] | None = None) -> Iterator[None]:
    """Has warnings of this module said on standard error, each once, and not at all where that is to be quiet. With
    `held`, they are put there instead.
    """
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if not issubclass(category, DeprecatedNameWarning):
            before(message, category, *place)
        elif str(message) not in said and not quiet:
            said.add(str(message))
            if held is None:
                print(f"warning: {message}", file=sys.stderr)
            else:
                held.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", DeprecatedNameWarning)
        before = warnings.showwarning
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _without_key(origin: Origin) -> Origin:
    """The origin of the mapping around a value."""
    return replace(origin, path=origin.path.rpartition(".")[0])


def _place(origin: Origin) -> str:
    return origin.file if origin.line is None else f"{origin.file}:{origin.line}"
