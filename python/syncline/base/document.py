"""Reads YAML into a tree that knows where every value was written.

The dialect is YAML without its surprises. Plain scalars are numbers, `true`, `false`, `null` or text, and
nothing else: `on`, `yes`, `1:30`, `010`, `1_000`, `0x10`, `.inf` and dates are text, so that a field which
needs a number refuses them instead of receiving another one. Anchors, aliases, tags, duplicate keys and
several documents in a file are refused.
"""

from __future__ import annotations

import codecs
import math
import numbers
import operator
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from syncline.base import inputs
from syncline.base.errors import InputError, Problem, shown

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 24
MAX_DIGITS: Final = 30
MAX_VALUES: Final = MAX_BYTES
"""A file cannot have more values than bytes, and what a program hands over shall not have more either."""
VALUES_ACCEPTED: Final = "text, a number, true, false, nothing, a list or a mapping"

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?", re.ASCII)
_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: the file, the line and the path of fields that leads to it."""

    file: str
    line: int | None
    path: str = ""

    def problem(self, message: str, value: object = None, accepted: str | None = None) -> Problem:
        """A problem with the value written here."""
        return Problem(self.file, self.line, self.path, shown(value), message, accepted)

    def below(self, key: str | int, line: int | None) -> Origin:
        """The origin of an entry of the value written here."""
        return Origin(self.file, line, f"{self.path}.{key}" if self.path else str(key))


@dataclass(slots=True)
class Scalar:
    """A number, a truth value, text or nothing."""

    value: bool | int | float | str | None
    origin: Origin


@dataclass(slots=True)
class Sequence:
    """A list."""

    items: list[Node]
    origin: Origin


@dataclass(slots=True)
class Mapping:
    """Named entries, in the order of the file."""

    entries: dict[str, Node]
    origin: Origin


Node: TypeAlias = "Scalar | Sequence | Mapping"


def plain(node: Node) -> Plain:
    """The value without its origins."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {key: plain(entry) for key, entry in entries.items()}


def copied(node: Node) -> Node:
    """The same tree, with mappings and lists of its own that may be changed."""
    match node:
        case Sequence(items=items, origin=origin):
            return Sequence([copied(item) for item in items], origin)
        case Mapping(entries=entries, origin=origin):
            return Mapping({key: copied(entry) for key, entry in entries.items()}, origin)
    return node


def read_text(path: Path, label: str, max_bytes: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file, or an [`InputError`] that says why there is none."""
    return decode(inputs.read_bytes(path, label, max_bytes), label)


def decode(data: bytes, label: str) -> str:
    """UTF-8 as text, or an [`InputError`] with the line where it is not UTF-8."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError([Problem(label, line, "", None, "this is not UTF-8 text")]) from None


def read(text: str, file: str) -> Node:
    """Parses a document. Raises [`InputError`] with everything that is wrong with its YAML."""
    reader = _Reader(file)
    try:
        node = reader.document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        reader.problems.append(Problem(file, line, "", None, f"this is not valid YAML: {_reason(error)}"))
        raise InputError(reader.problems) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"this is not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        raise InputError([Problem(file, line, "", None, message)]) from None
    except (ValueError, OverflowError):  # escapes and directives with numbers beyond all bounds
        raise InputError([Problem(file, None, "", None, "this is not valid YAML: a bad escape or directive")]) from None
    if reader.problems:
        raise InputError(reader.problems)
    return node


def plain_value(value: object) -> object:
    """Numbers and arrays of NumPy, and other objects that stand for a whole number, as numbers and lists of Python; any
    other value as it is.
    """
    if value is None or isinstance(value, str | bytes | int | float | list | tuple | AnyMapping | type):
        return value
    if callable(listing := getattr(value, "tolist", None)):  # of arrays, and of scalars of NumPy
        plain: object = listing()
        return plain
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what is no whole number says so itself
    except TypeError:
        return value


def of_value(value: object, origin: Origin) -> Node:
    """The tree of a value that a program hands over: mappings, lists, tuples and arrays of text, numbers, truth values
    and nothing, as a file has them. Text stays text, and paths are text.

    Raises [`InputError`] with everything that no file could say, at its place: keys that are not text, numbers that are
    not finite, objects of other types, more values than a file holds, or mappings within each other without end.
    """
    reader = _ValueReader()
    node = reader.node(value, origin, 0)
    if reader.problems:
        raise InputError(reader.problems)
    return node


@dataclass(slots=True)
class _ValueReader:
    """Makes nodes of values, and remembers what is wrong with them."""

    problems: list[Problem] = field(default_factory=list)
    values: int = 0

    def node(self, value: object, at: Origin, depth: int) -> Node:
        self.values += 1
        if depth > MAX_DEPTH:
            raise InputError([*self.problems, at.problem(f"nested deeper than {MAX_DEPTH} levels")])
        if self.values > MAX_VALUES:
            raise InputError([*self.problems, at.problem(f"there are more than {MAX_VALUES} values up to here")])
        if isinstance(value, AnyMapping):
            return self._mapping(value, at, depth)
        value = plain_value(value)
        if isinstance(value, list | tuple | range):
            items = (self.node(item, at.below(i, None), depth + 1) for i, item in enumerate(value))
            return Sequence(list(items), at)
        return Scalar(self._scalar(value, at), at)

    def _mapping(self, value: AnyMapping[object, object], at: Origin, depth: int) -> Mapping:
        entries: dict[str, Node] = {}
        for key, entry in value.items():
            if not isinstance(key, str) or not key or _is_broken(key):
                self.problems.append(at.problem("a key must be text", repr(key)))
                continue
            entries[str(key)] = self.node(entry, at.below(key, None), depth + 1)
        return Mapping(entries, at)

    def _scalar(self, value: object, at: Origin) -> bool | int | float | str | None:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str | os.PathLike):
            text = str(os.fsdecode(value))
            if _is_broken(text):
                self.problems.append(at.problem("this is not legal text: half a character"))
                return ""
            return text
        if isinstance(value, numbers.Integral):  # numbers of NumPy included
            if abs(int(value)) >= 10**MAX_DIGITS:
                self.problems.append(at.problem(f"this number has more than {MAX_DIGITS} digits"))
                return 0
            return int(value)
        if isinstance(value, numbers.Real):
            return self._float(value, at)
        kind = type(value).__name__
        message = f"a value of the type {kind} cannot be written in a file"
        self.problems.append(at.problem(message, None, VALUES_ACCEPTED))
        return None

    def _float(self, value: numbers.Real, at: Origin) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        self.problems.append(at.problem("this is not a finite number", repr(value)))
        return 0.0


def _is_broken(text: str) -> bool:
    """Whether text has half a character, which no file can hold."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def scalar(text: str) -> bool | int | float | str | None:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


@dataclass(slots=True)
class _Reader:
    file: str
    problems: list[Problem] = field(default_factory=list)

    def document(self, text: str) -> Node:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._refuse(event, "there is more than one document in the file", Origin(self.file, None))
                    return root
                root = self._node(next(events), events, Origin(self.file, 1), 0)
        if root is None:
            raise InputError([Problem(self.file, None, "", None, "the file is empty")])
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], at: Origin, depth: int) -> Node:
        origin = Origin(at.file, _line(event), at.path)
        if depth > MAX_DEPTH:
            raise InputError([*self.problems, origin.problem(f"nested deeper than {MAX_DEPTH} levels")])
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, "anchors and aliases are not accepted: write the value out", origin)
            return Scalar(None, origin)
        if getattr(event, "anchor", None) is not None:
            self._refuse(event, "anchors and aliases are not accepted: write the value out", origin)
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(event, f"tags such as {shown(tag)} are not accepted", origin)
        if isinstance(event, yaml.ScalarEvent):
            if _is_broken(event.value):
                self._refuse(event, "this is not legal text: half a character", origin)
                return Scalar("", origin)
            return Scalar(scalar(event.value) if event.implicit[0] else event.value, origin)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, origin, depth)
        return self._mapping(events, origin, depth)

    def _sequence(self, events: Iterator[yaml.Event], origin: Origin, depth: int) -> Sequence:
        items: list[Node] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, events, origin.below(len(items), None), depth + 1))
        return Sequence(items, origin)

    def _mapping(self, events: Iterator[yaml.Event], origin: Origin, depth: int) -> Mapping:
        entries: dict[str, Node] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            line = _line(event)
            key = self._node(event, events, origin.below("(key)", line), depth + 1)
            name = self._key(key, origin, line)
            entry = self._node(next(events), events, origin.below(name, line), depth + 1)
            if name in entries:
                first = entries[name].origin
                message = f"the key is written twice; the first is on line {first.line}"
                self.problems.append(origin.below(name, line).problem(message))
            else:
                entry.origin = origin.below(name, line)
                entries[name] = entry
        return Mapping(entries, origin)

    def _key(self, key: Node, origin: Origin, line: int) -> str:
        if isinstance(key, Scalar) and isinstance(key.value, str) and key.value:
            return key.value
        value = key.value if isinstance(key, Scalar) else plain(key)
        self.problems.append(Origin(self.file, line, origin.path).problem("a key must be text", value))
        return f"(line {line})"

    def _refuse(self, event: yaml.Event, message: str, origin: Origin) -> None:
        self.problems.append(Origin(self.file, _line(event), origin.path).problem(message))


def _line(event: yaml.Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _reason(error: yaml.MarkedYAMLError) -> str:
    reason = error.problem or error.context or "unreadable"
    if "'\\t'" in reason:
        return "a tab cannot be used for indentation or to start a value; use spaces"
    return reason
