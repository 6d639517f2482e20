"""How variants and `--set` change what a file says.

A variant's mapping is laid over the file's: entries replace entries, mappings are merged. Where keys
exclude each other, what the variant says displaces what it inherits: another endpoint `kind` or network
`backend` starts from that kind's defaults, `chunks` displaces `chunk`, `astra_text` displaces `model`.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from syncline.base import document
from syncline.base.document import Mapping, Node, Origin, Scalar, Sequence
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.fabric import topology

SHORTHANDS: Final = {"endpoint": "kind", "network": "backend"}
"""Sections that may be written as the value of one key: `endpoint: ideal`."""

EXCLUSIVE: Final = {
    "workload": ("model", "astra_text", "collective", "graph", "jobs"),
    "collective": ("chunk", "chunks"),
    "topology": ("dims", "file"),
}
"""Keys of a section of which at most one is given."""
COMPANIONS: Final = {"collective": {"least_chunk": ("chunks", "chunks_of")}}
"""Keys of a section that say something only beside others; what displaces the last of these displaces them."""


@dataclass(frozen=True, slots=True)
class Override:
    """A `--set PATH=VALUE`."""

    path: tuple[str, ...]
    value: Node

    @property
    def text(self) -> str:
        """The path as it was written."""
        return ".".join(self.path)


def parse_override(argument: str, label: str = "--set") -> Override:
    """Reads `training.iterations=4`. Raises [`InputError`]."""
    path, equals, text = argument.partition("=")
    parts = tuple(part.strip() for part in path.split("."))
    if not equals or not all(parts):
        problem = Problem(label, None, "", argument[:60], "this is not PATH=VALUE", "such as training.iterations=4")
        raise InputError([problem])
    origin = Origin(label, None, ".".join(parts))
    if text[:1] in ("[", "{", '"', "'"):
        return Override(parts, _written_at(document.read(text, label), origin))
    return Override(parts, Scalar(document.scalar(text.strip()), origin))


def _written_at(node: Node, origin: Origin) -> Node:
    """The tree with the paths that its values have where it is put; it has no lines."""
    match node:
        case Mapping(entries=entries):
            below = {key: _written_at(entry, origin.below(key, None)) for key, entry in entries.items()}
            return Mapping(below, origin)
        case Sequence(items=items):
            return Sequence([_written_at(item, origin.below(i, None)) for i, item in enumerate(items)], origin)
        case Scalar(value=value):
            return Scalar(value, origin)


def rivals(overrides: Iterable[Override]) -> Iterable[Problem]:
    """Overrides of the same mapping that exclude each other, of which the last one would win."""
    first: dict[tuple[str, ...], Override] = {}
    for override in overrides:
        *parent, key = override.path
        section = parent[-1] if parent else ""
        if key in EXCLUSIVE.get(section, ()):
            other = first.setdefault(tuple(parent), override)
            if other.path != override.path:
                message = f"{other.path[-1]} and {key} exclude each other, and both are set"
                accepted = f"one of {one_of(EXCLUSIVE[section])}"
                yield override.value.origin.problem(message, document.plain(override.value), accepted)


def given_twice(overrides: Iterable[Override]) -> Iterable[Problem]:
    """Fields that are set in two ways, by `--set` and by a flag of their own, say, of which one would win in silence:
    even where both say the same, since what is written twice is changed once. The same way twice is not meant here.
    """
    first: dict[tuple[str, ...], Override] = {}
    for override in overrides:
        for path in _fields(override):
            other = first.setdefault(path, override)
            ways = [_way(each.value.origin) for each in (other, override)]
            if ways[0] != ways[1]:
                message = f"this is given twice, by {ways[0]} and by {ways[1]}"
                yield other.value.origin.problem(message, document.plain(other.value), "one of them")


def _fields(override: Override) -> list[tuple[str, ...]]:
    """The fields that an override sets, of all variants alike; of a section in full, each of its keys."""
    path = override.path[2:] if override.path[0] == "variants" and len(override.path) > 2 else override.path
    if len(path) == 1 and isinstance(override.value, Mapping) and path[0] != "topology":
        return [(*path, key) for key in override.value.entries]
    if len(path) == 1 and path[0] in SHORTHANDS:
        return [(*path, SHORTHANDS[path[0]])]
    if path[0] == "topology" and path[1:] in [(key,) for key in EXCLUSIVE["topology"]]:
        return [path[:1]]
    return [path]


def _way(origin: Origin) -> str:
    """How a value is given: `--set`, `--algorithm`, or the name of an argument. The places of arguments that no field
    of a file is behind have it as their path (`api.arguments`).
    """
    name = origin.file.removeprefix("argument ")
    return name if name.startswith("--") or name != origin.file else origin.path


def expand(section: str, node: Node) -> Node:
    """A section in full, where it is written in short."""
    if section in SHORTHANDS and isinstance(node, Scalar):
        return Mapping({SHORTHANDS[section]: node}, node.origin)
    return node


def apply(root: Mapping, override: Override) -> None:
    """Puts the value of an override into the tree. Raises [`InputError`] where the path leads nowhere."""
    at: Node = root
    override = _of_the_only_system(root, override)
    sections = (2,) if override.path[0] == "variants" else (0,)
    for depth, key in enumerate(override.path[:-1]):
        if isinstance(at, Mapping):
            child = at.entries.get(key)
            reaches_in = depth in sections and (key, override.path[depth + 1]) == ("topology", "dims")
            if child is None and reaches_in:
                child = deepcopy(root.entries.get(key))  # a variant's own, of which one dimension differs
            if child is None:
                child = Mapping({}, _above(override, depth))
            child = expand(key, child) if depth in sections else child
            child = _in_dimensions(child) if reaches_in else child
            at.entries[key] = child
            at = child
        else:
            at = _item(at, key, override).items[_index(at, key, override)]
    _assign(at, override)


def _of_the_only_system(root: Mapping, override: Override) -> Override:
    """A setting of a variant, where the file has none: results call its only system by the name of the experiment, and
    settings may. The name itself is the exception, since it would change under way.
    """
    if override.path[0] != "variants" or "variants" in root.entries:
        return override
    _, name, *below = override.path if len(override.path) > 1 else ("", "")
    if below and below[0] != "name" and name == name_of(root):
        return Override(tuple(below), override.value)
    accepted = f"{'.'.join(below) or 'a path'}=VALUE, for all that the file describes"
    raise InputError([override.value.origin.problem("the file has no variants", None, accepted)])


def _in_dimensions(node: Node) -> Node:
    """A topology string as a list of its dimensions, of which each parameter can be set; anything else as it is."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return node
    try:
        product = topology.parse(node.value)
    except topology.TopologyError:
        return node  # a machine or a network of switches; a mistake is found where the whole is read
    origin = node.origin.below("dims", node.origin.line)
    dims: list[Node] = []
    for number, dimension in enumerate(product.dims):
        values: dict[str, str | int] = {"block": topology.NAMES[dimension.block], "size": dimension.size}
        stated = {name: text for name, text in dimension.parameters.items() if name not in dimension.filled_in}
        values |= {name: text.partition("=")[2] for name, text in stated.items()}
        at = origin.below(number, origin.line)
        entries: dict[str, Node] = {
            name: Scalar(document.scalar(str(value)), at.below(name, at.line)) for name, value in values.items()
        }
        dims.append(Mapping(entries, at))
    return Mapping({"dims": Sequence(dims, origin)}, node.origin)


def _above(override: Override, depth: int) -> Origin:
    """The origin of a section that an override brings in; a value of an axis says itself where it stands."""
    origin = override.value.origin
    return replace(origin, path=".".join(override.path[: depth + 1])) if origin.path == override.text else origin


def _assign(at: Node, override: Override) -> None:
    key = override.path[-1]
    if isinstance(at, Mapping):
        section = override.path[-2] if len(override.path) > 1 else ""
        _displace(at, section, key, override.value)
        at.entries[key] = override.value
    else:
        _item(at, key, override).items[_index(at, key, override)] = override.value


def _displace(section: Mapping, name: str, key: str, value: Node) -> None:
    """Removes what cannot stay beside the new value of `key`."""
    if key == SHORTHANDS.get(name):
        old = section.entries.get(key)
        if old is not None and not _same(old, value):
            section.entries.clear()
    if key in EXCLUSIVE.get(name, ()):
        before = set(section.entries)
        for other in EXCLUSIVE[name]:
            if other != key:
                section.entries.pop(other, None)
        for left in _left_alone(name, before, set(section.entries)):
            if section.entries[left].origin.file != value.origin.file:  # else both are set, which contradicts itself
                section.entries.pop(left)


def _left_alone(section: str, before: set[str], after: set[str]) -> list[str]:
    """Keys of a section that have lost the last of those that they are given for."""
    companions = COMPANIONS.get(section, {}).items()
    return [key for key, others in companions if key in after and before.intersection(others) and not after & {*others}]


def _item(at: Node, key: str, override: Override) -> Sequence:
    if isinstance(at, Sequence):
        return at
    message = f"'{at.origin.path}' is a value, with nothing below it to set"
    raise InputError([override.value.origin.problem(message, key, f"{at.origin.path}=VALUE")])


def _index(at: Node, key: str, override: Override) -> int:
    assert isinstance(at, Sequence)
    names = [name_of(item) for item in at.items]
    if key in names:
        return names.index(key)
    if key.isascii() and key.isdigit() and int(key[:9]) < len(at.items):
        return int(key[:9])
    known = [name for name in names if name]
    accepted = [*known, f"0 to {len(at.items) - 1}"] if at.items else ["nothing: the list is empty"]
    message = f"'{key}' is not an item of '{at.origin.path}'{did_you_mean(key, known)}"
    raise InputError([override.value.origin.problem(message, key, one_of(accepted))])


def name_of(item: Node) -> str:
    """The name of an item of a list, if it has one."""
    name = item.entries.get("name") if isinstance(item, Mapping) else None
    return name.value if isinstance(name, Scalar) and isinstance(name.value, str) else ""


def overlay(base: Mapping, over: Mapping, section: str = "") -> Mapping:
    """`over` laid over `base`; neither is changed."""
    inherited = dict(base.entries)
    discriminator = SHORTHANDS.get(section)
    if (
        discriminator in inherited
        and discriminator in over.entries
        and not _same(inherited[discriminator], over.entries[discriminator])
    ):
        inherited = {}
    exclusive = EXCLUSIVE.get(section, ())
    if any(key in over.entries for key in exclusive):
        inherited = {key: node for key, node in inherited.items() if key not in exclusive or key in over.entries}
    if section == "workload" and exclusive_choice(base) not in (None, exclusive_choice(over) or exclusive_choice(base)):
        inherited = {}
    merged = inherited
    for key, node in over.entries.items():
        below = inherited.get(key)
        if isinstance(node, Mapping) and below is not None:
            below = expand(key, below) if not section else below
            if isinstance(below, Mapping):
                merged[key] = overlay(below, node, key if not section else f"{section}.{key}")
                continue
        merged[key] = node
    for key in _left_alone(section, set(base.entries), set(merged)):
        if key not in over.entries:
            merged.pop(key)
    return Mapping(merged, over.origin)


def _same(one: Node, other: Node) -> bool:
    return document.plain(one) == document.plain(other)


def exclusive_choice(workload: Mapping) -> str | None:
    """Which kind of workload a mapping describes, if it says so."""
    return next((key for key in EXCLUSIVE["workload"] if key in workload.entries), None)


def contradictions(merged: Mapping) -> Iterable[Problem]:
    """Keys that exclude each other and are written beside each other. All but the first are removed."""
    for section, keys in EXCLUSIVE.items():
        node = merged.entries.get(section)
        if not isinstance(node, Mapping):
            continue
        given = [key for key in keys if key in node.entries]
        for extra in given[1:]:
            entry = node.entries.pop(extra)
            yield entry.origin.problem(
                f"{given[0]} and {extra} exclude each other", document.plain(entry), f"one of {one_of(keys)}"
            )
