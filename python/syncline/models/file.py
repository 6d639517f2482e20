"""Reads model files: YAML with layers of operators, whose sizes are expressions (docs/models.md).

A file either has layers, or is `like` a model that comes with the package, with other parameters. Which kinds of
operators there are, and which sizes they have, the engine says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from syncline.base import document
from syncline.base.document import Mapping, Node, Origin, Scalar, Sequence
from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, command_line, did_you_mean, one_of
from syncline.core import facts
from syncline.models import expressions
from syncline.models.expressions import Expression, ExpressionError
from syncline.models.form import GroupForm, LayerForm, ModelFile, Name, Number, OperatorForm, Repeat
from syncline.models.model import AXES, Axis

FOLDER: Final = Path(__file__).parent / "packaged"
SUFFIX: Final = ".yaml"
SUFFIXES: Final = (SUFFIX, ".yml")
ACCEPTED: Final = "the name of a model that comes with the package, or the path of a model file"
GIVEN: Final = ("samples", "sequence", "tokens")
"""Names that expressions have without being told: samples of the micro-batch, tokens of each, and of all of them."""
MOST_LETTERS: Final = 2000
NAME_ACCEPTED: Final = "a letter, then letters, digits and _"
INDEX: Final = "index"
"""The name of the number of a repetition, if it has no other."""
BETWEEN: Final = "none"
"""Stands for the size that an axis divides in operators that it divides with their neighbours."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_RESERVED: Final = frozenset({*GIVEN, "and", "or", "not", "if", "else", "min", "max", "choose", "in", "is", "lambda"})
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}", re.ASCII)
LABEL_ACCEPTED: Final = "up to 100 letters, digits, dots, - and _"

_FILE_KEYS: Final = (
    "name",
    "description",
    "source",
    "like",
    "parameters",
    "sequence",
    "hidden",
    "layers",
    "tied",
)
_GROUP_KEYS: Final = ("repeat", "as", "let", "layers")
_LAYER_KEYS: Final = ("name", "repeat", "as", "let", "block", "operators")
_OPERATOR_KEYS: Final = ("name", "kind", "split", "when")


def packaged() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def is_path(given: str) -> bool:
    """Whether a model is given as the path of a file, not by name."""
    return given.endswith(SUFFIXES)


def load(given: str, folder: Path | None = None) -> ModelFile:
    """The model of this name, or in the file at this path, which starts at `folder` or where the command runs.

    Raises [`InputError`] with all that is wrong with the file, or if there is none.
    """
    if not is_path(given):
        return by_name(given)
    return read(document.read_text((folder or Path()) / given, given), given)


@cache
def by_name(name: str) -> ModelFile:
    """The model of this name that comes with the package. Raises [`InputError`] if there is none."""
    if name not in packaged():
        message = f"no model is named {name!r}{did_you_mean(name, packaged())}"
        raise command_line("MODEL", name, message, f"{ACCEPTED}: {one_of(packaged())}")
    path = FOLDER / f"{name}{SUFFIX}"
    return replace(read(document.read_text(path, path.name), path.name), is_packaged=True)


def read(text: str, file: str) -> ModelFile:
    """The model in the text of a file. Raises [`InputError`] with all that is wrong with it."""
    return of_tree(document.read(text, file), text.encode())


def of_tree(node: Node, content: bytes) -> ModelFile:
    """The model that a tree of values describes; `content` is what it was read from. Raises [`InputError`] with all
    that is wrong with it.
    """
    reader = _Reader()
    found = reader.file(node, content)
    if reader.problems or found is None:
        raise InputError(reader.problems)
    return found


T = TypeVar("T")


@dataclass(slots=True)
class _Reader:
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, origin: Origin, message: str, value: object = None, accepted: str | None = None) -> None:
        self.problems.append(origin.problem(message, value, accepted))

    # The file

    def file(self, node: Node, content: bytes) -> ModelFile | None:
        if not isinstance(node, Mapping):
            self.refuse(node.origin, "this is no model", None, f"the keys {one_of(_FILE_KEYS)}")
            return None
        self.keys(node, _FILE_KEYS)
        base = self.like(node)
        parameters = self.numbers(node.entries.get("parameters"))
        for name, number in parameters.items() if base else ():
            if base and name not in base.parameters:
                accepted = f"the parameters {one_of(base.parameters)}"
                self.refuse(number.origin, f"{UNKNOWN_KEY}{did_you_mean(name, base.parameters)}", None, accepted)
        found = ModelFile(
            file=node.origin.file,
            name=self.label(node, "name"),
            description=self.text(node, "description"),
            source=self.text(node, "source"),
            parameters=parameters,
            sequence=self.number(node.entries.get("sequence")),
            hidden=self.number(node.entries.get("hidden")),
            layers=(),
            tied=(),
            origin=node.origin,
            content=content,
            is_packaged=False,
        )
        if base is not None:
            for key in ("layers", "tied", "hidden"):
                if key in node.entries:
                    message = f"a model that is like another one has its {key}"
                    self.refuse(node.entries[key].origin, message, None, f"no {key}, or no like")
            return replace(
                found,
                parameters={**base.parameters, **parameters},
                sequence=found.sequence or base.sequence,
                hidden=base.hidden,
                layers=base.layers,
                tied=base.tied,
            )
        layers = tuple(self.layers(node))
        return replace(found, layers=layers, tied=tuple(self.tied(node.entries.get("tied"))))

    def like(self, node: Mapping) -> ModelFile | None:
        given = node.entries.get("like")
        if given is None:
            return None
        name = given.value if isinstance(given, Scalar) and isinstance(given.value, str) else ""
        if name in packaged():
            return by_name(name)
        message = f"no model that comes with the package is named so{did_you_mean(name, packaged())}"
        self.refuse(given.origin, message, document.plain(given), one_of(packaged()))
        return None

    def tied(self, node: Node | None) -> Iterator[tuple[str, str]]:
        for pair in self.items(node):
            match pair:
                case Sequence(items=[Scalar(value=str() as one), Scalar(value=str() as two)]):
                    yield one, two
                case _:
                    self.refuse(pair.origin, "this is no pair", document.plain(pair), "the names of two layers: [a, b]")

    # Layers

    def layers(self, node: Mapping) -> Iterator[LayerForm | GroupForm]:
        given = node.entries.get("layers")
        if given is None or (isinstance(given, Sequence) and not given.items):
            self.refuse(node.origin.below("layers", node.origin.line), "there are no layers", None, "a list of layers")
            return
        for item in self.items(given):
            if not isinstance(item, Mapping):
                accepted = f"the keys {one_of(_LAYER_KEYS)}, or {one_of(_GROUP_KEYS)}"
                self.refuse(item.origin, "this is no layer", document.plain(item), accepted)
            elif "layers" in item.entries:
                self.keys(item, _GROUP_KEYS)
                repeat, let = self.repeat(item), self.numbers(item.entries.get("let"))
                yield GroupForm(repeat, let, tuple(self.layers(item)), item.origin)
            else:
                yield self.layer(item)

    def layer(self, node: Mapping) -> LayerForm:
        self.keys(node, _LAYER_KEYS)
        repeat, let = self.repeat(node), self.numbers(node.entries.get("let"))
        operators = tuple(self.operators(node))
        block = self.flag(node, "block", default=True)
        name = self.name(node, repeat)
        used = {n for o in operators for number in o.sizes.values() for n in number.expression.names}
        used |= {n for o in operators if o.when for n in o.when.expression.names}
        return LayerForm(name, repeat, let, block, operators, frozenset(used), node.origin)

    def repeat(self, node: Mapping) -> Repeat | None:
        index = node.entries.get("as")
        name = INDEX
        if index is not None:
            name = index.value if isinstance(index, Scalar) and isinstance(index.value, str) else ""
            self.variable(name, index.origin)
            if "repeat" not in node.entries:
                self.refuse(index.origin, "nothing is repeated", name, "repeat beside it")
        count = self.number(node.entries.get("repeat"))
        return None if count is None else Repeat(count, name)

    def name(self, node: Mapping, repeat: Repeat | None) -> Name:
        given = node.entries.get("name")
        origin = node.origin if given is None else given.origin
        text = given.value if isinstance(given, Scalar) and isinstance(given.value, str | int) else ""
        pieces = re.split(r"\{([^{}]*)\}", str(text)[:MOST_LETTERS])
        texts, inside = pieces[::2], pieces[1::2]
        if not _LABEL.fullmatch("0".join(texts)):
            message = "this is missing" if given is None else "this is no name"
            accepted = f"{LABEL_ACCEPTED}, and expressions in braces"
            self.refuse(origin.below("name", origin.line) if given is None else origin, message, text or None, accepted)
        found = tuple(filter(None, (self.expression(piece, origin) for piece in inside)))
        if not found and repeat is not None:
            return Name((f"{texts[0]}.", ""), (expressions.read(repeat.index or INDEX),), origin)
        return Name(tuple(texts) if len(found) == len(inside) else ("",), found, origin)

    # Operators

    def operators(self, node: Mapping) -> Iterator[OperatorForm]:
        given = node.entries.get("operators")
        if given is None or (isinstance(given, Sequence) and not given.items):
            origin = node.origin.below("operators", node.origin.line)
            self.refuse(origin, "there are no operators", None, "a list of operators")
            return
        names: set[str] = set()
        for item in self.items(given):
            if not isinstance(item, Mapping):
                accepted = f"the keys {one_of(_OPERATOR_KEYS)}, and sizes"
                self.refuse(item.origin, "this is no operator", document.plain(item), accepted)
                continue
            found = self.operator(item)
            if found is not None:
                if found.name in names:
                    self.refuse(item.origin, "two operators of a layer have this name", found.name, "a name for each")
                names.add(found.name)
                yield found

    def operator(self, node: Mapping) -> OperatorForm | None:
        known = facts.engine().operators
        given = node.entries.get("kind")
        kind = given.value if isinstance(given, Scalar) and isinstance(given.value, str) else ""
        if kind not in known:
            origin = node.origin.below("kind", node.origin.line) if given is None else given.origin
            message = (
                "this is missing" if given is None else f"no kind of operators is named so{did_you_mean(kind, known)}"
            )
            self.refuse(origin, message, document.plain(given) if given else None, one_of(known))
            return None
        sizes = known[kind].sizes
        self.keys(node, (*_OPERATOR_KEYS, *sizes))
        for name, size in sizes.items():
            if name not in node.entries and not size.is_optional:
                self.refuse(
                    node.origin.below(name, node.origin.line), f"this size of {kind} is missing", None, "a size"
                )
        found = {name: self.number(node.entries.get(name)) for name in sizes}
        name = kind if "name" not in node.entries else self.label(node, "name")
        split = self.split(node.entries.get("split"), kind, list(sizes))
        when = self.number(node.entries.get("when"))
        return OperatorForm(name, kind, {n: v for n, v in found.items() if v}, split, when, node.origin)

    def split(self, node: Node | None, kind: str, sizes: list[str]) -> dict[Axis, str]:
        found: dict[Axis, str] = {}
        if node is None:
            return found
        if not isinstance(node, Mapping):
            self.refuse(node.origin, "this divides nothing", document.plain(node), f"sizes by axis: {one_of(AXES)}")
            return found
        for axis, size in node.entries.items():
            value = document.plain(size)
            known = next((each for each in AXES if each == axis), None)
            if known is None:
                self.refuse(size.origin, f"{UNKNOWN_KEY}{did_you_mean(axis, AXES)}", None, one_of(AXES))
            elif value not in (*sizes, BETWEEN):
                accepted = f"{one_of(sizes)}, or {BETWEEN} for what works between divided operators"
                self.refuse(size.origin, f"{kind} has no such size", value, accepted)
            else:
                found[known] = "" if value == BETWEEN else str(value)
        return found

    # Values

    def keys(self, node: Mapping, known: tuple[str, ...]) -> None:
        for key, entry in node.entries.items():
            if key not in known:
                self.refuse(entry.origin, f"{UNKNOWN_KEY}{did_you_mean(key, known)}", None, f"the keys {one_of(known)}")

    def items(self, node: Node | None) -> list[Node]:
        if node is None:
            return []
        if isinstance(node, Sequence):
            return node.items
        self.refuse(node.origin, "this is no list", document.plain(node), "a list")
        return []

    def numbers(self, node: Node | None) -> dict[str, Number]:
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            self.refuse(node.origin, "these are no names with values", document.plain(node), "names with numbers")
            return {}
        found: dict[str, Number] = {}
        for name, entry in node.entries.items():
            self.variable(name, entry.origin)
            number = self.number(entry)
            if number is not None:
                found[name] = number
        return found

    def variable(self, name: str, origin: Origin) -> None:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            accepted = f"{NAME_ACCEPTED}; not {one_of(sorted(_RESERVED))}"
            self.refuse(origin, "this cannot be a name", name, accepted)

    def number(self, node: Node | None) -> Number | None:
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.refuse(node.origin, "this is no number", document.plain(node), expressions.ACCEPTED)
            return None
        found = self.expression(node.value, node.origin)
        return None if found is None else Number(found, node.origin)

    def expression(self, value: object, origin: Origin) -> Expression | None:
        try:
            return expressions.read(value)
        except ExpressionError as error:
            self.refuse(origin, error.message, value, error.accepted)
            return None

    def text(self, node: Mapping, key: str) -> str:
        given = node.entries.get(key)
        value = given.value if isinstance(given, Scalar) else None
        if isinstance(value, str) and 0 < len(value) <= MOST_LETTERS:
            return value
        origin = node.origin.below(key, node.origin.line) if given is None else given.origin
        message = "this is missing" if given is None else "this is no text"
        self.refuse(origin, message, document.plain(given) if given else None, f"text of up to {MOST_LETTERS} letters")
        return ""

    def label(self, node: Mapping, key: str) -> str:
        text = self.text(node, key)
        if text and not _LABEL.fullmatch(text):
            self.refuse(node.entries[key].origin, "this is no name", text, LABEL_ACCEPTED)
        return text

    def flag(self, node: Mapping, key: str, *, default: bool) -> bool:
        given = node.entries.get(key)
        value = default if given is None else document.plain(given)
        if isinstance(value, bool):
            return value
        self.refuse(node.entries[key].origin, "this is neither true nor false", value, "true or false")
        return default
