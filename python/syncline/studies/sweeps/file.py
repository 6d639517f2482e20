"""Reads a sweep file: base experiments, and the fields that vary.

    name: ace-design-space
    base: ace/resnet50                  # a study or a file; a list of them for several workloads
    variants: [ACE]                     # the variants of the bases that are simulated; all if not given
    set: {training.iterations: 2}       # fields of every point
    axes:                               # every value with every other
      endpoint.sram: [1MiB, 2MiB, 4MiB, 8MiB]
      endpoint.fsms: [4, 8, 16, 20]
    zip:                                # groups of fields that vary together
      - {topology.dims.1.size: [2, 4], topology.dims.2.size: [2, 2]}
    seeds: 5                            # where frames are lost, rows are medians over so many seeds

Paths are those of `--set`. Unlike there, a field holds for every variant that is simulated, whatever the variant says;
a path that begins with `variants.NAME.` is for one variant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline.base import document, inputs
from syncline.base.document import Mapping, Node, Origin, Scalar
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.experiment import merge
from syncline.experiment import packaged as studies
from syncline.experiment.merge import Override
from syncline.sections.experiment import NAME_ACCEPTED, NAME_PATTERN

KEYS: Final = ("name", "description", "base", "variants", "set", "axes", "zip", "seeds")
MAX_POINTS: Final = 100_000
MAX_SEEDS: Final = 999
INLINE: Final = "experiment"
"""What an experiment is called that stands in a sweep and has no name."""
FIXED: Final = frozenset({"name", "description"})
"""Fields that say nothing about what is simulated."""


@dataclass(frozen=True, slots=True)
class Base:
    """An experiment file, read and not yet changed."""

    name: str
    """As the sweep calls it."""
    root: Mapping
    label: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Axis:
    """Fields that vary together: at each position, a value for every path."""

    paths: tuple[tuple[str, ...], ...]
    positions: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep file."""

    name: str
    description: str
    label: str
    folder: Path
    bases: tuple[Base, ...]
    variants: tuple[str, ...] | None
    """The variants that are simulated; None for all."""
    settings: tuple[Override, ...]
    axes: tuple[Axis, ...]
    seeds: int = 1
    """With how many seeds a simulation that loses frames is run; its row is their median."""

    @property
    def points(self) -> int:
        """How many combinations there are."""
        return len(self.bases) * math.prod(len(axis.positions) for axis in self.axes)


@dataclass(slots=True)
class _Reading:
    """A sweep file on its way to a sweep."""

    root: Mapping
    label: str
    folder: Path
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, node: Node | Origin, message: str, accepted: str | None = None) -> None:
        value = None if isinstance(node, Origin) else document.plain(node)
        origin = node if isinstance(node, Origin) else node.origin
        self.problems.append(origin.problem(message, value, accepted))

    def missing(self, key: str, accepted: str) -> None:
        self.refuse(self.root.origin.below(key, self.root.origin.line), "this is missing", accepted)


def load(path: Path, label: str, overrides: Sequence[Override] = ()) -> Sweep:
    """Reads the sweep file at `path`; `overrides` hold for every point.

    Raises [`InputError`] with everything that is wrong with it.
    """
    root = document.read(document.read_text(path, label), label)
    return of_tree(root, label, inputs.folder_of(path), overrides)


def of_tree(root: Node, label: str, folder: Path, overrides: Sequence[Override] = ()) -> Sweep:
    """The same of a file that has been read, or of values that stand for one; relative paths start in `folder`."""
    if not isinstance(root, Mapping):
        message = "a sweep file is a mapping, with the keys name, base and axes"
        raise InputError([root.origin.problem(message, document.plain(root))])
    reading = _Reading(root, label, folder)
    for key in root.entries:
        if key not in KEYS:
            reading.refuse(
                root.entries[key], f"this key is not known{did_you_mean(key, KEYS)}", f"the keys {one_of(KEYS)}"
            )
    bases = tuple(_bases(reading))
    sweep = Sweep(
        name=_name(reading),
        description=_description(reading),
        label=label,
        folder=reading.folder,
        bases=bases,
        variants=_variants(reading, bases),
        settings=(*_settings(reading), *overrides),
        axes=(*_axes(reading), *_zips(reading)),
        seeds=_seeds(reading),
    )
    if not sweep.axes and not reading.problems:
        reading.missing("axes", "a mapping of paths to lists of values")
    _no_field_twice(sweep, reading)
    if sweep.points > MAX_POINTS:
        message = f"these are {sweep.points} points; at most {MAX_POINTS} are simulated in one sweep"
        reading.refuse(root.origin, message, "fewer values, or several sweeps")
    if reading.problems:
        raise InputError(reading.problems)
    return sweep


def as_text(node: Node) -> str:
    """A value as it is written on one line."""
    return _text(document.plain(node))


def _text(value: Any) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case list():
            return f"[{', '.join(_text(item) for item in value)}]"
        case dict():
            return "{" + ", ".join(f"{key}: {_text(entry)}" for key, entry in value.items()) + "}"
    return str(value)


def _name(reading: _Reading) -> str:
    node = reading.root.entries.get("name")
    if node is None:
        reading.missing("name", NAME_ACCEPTED)
    elif not isinstance(node, Scalar) or not isinstance(node.value, str) or not re.fullmatch(NAME_PATTERN, node.value):
        reading.refuse(node, "this is not a legal name", NAME_ACCEPTED)
    else:
        return node.value
    return ""


def _description(reading: _Reading) -> str:
    node = reading.root.entries.get("description")
    if node is None:
        return ""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    reading.refuse(node, "this is not text (if it is meant as text, put it in quotes)")
    return ""


def _words(reading: _Reading, node: Node, what: str) -> Iterator[tuple[str, Node]]:
    """A list of distinct texts."""
    items = node.items if isinstance(node, document.Sequence) else []
    if not items:
        reading.refuse(node, f"a list of {what} is needed")
    seen: set[str] = set()
    for item in items:
        word = item.value if isinstance(item, Scalar) else None
        if not isinstance(word, str):
            reading.refuse(item, "this is not text (if it is meant as text, put it in quotes)")
        elif word in seen:
            reading.refuse(item, "this is listed twice")
        else:
            seen.add(word)
            yield word, item


def _bases(reading: _Reading) -> Iterator[Base]:
    node = reading.root.entries.get("base")
    if node is None:
        reading.missing("base", "the path of an experiment file or the name of a study, or a list of them")
        return
    if isinstance(node, Mapping):  # an experiment in place of its name, as a program gives it
        named = node.entries.setdefault("name", Scalar(INLINE, node.origin))
        name = named.value if isinstance(named, Scalar) and isinstance(named.value, str) else INLINE
        yield Base(name, node, reading.label, reading.folder)
        return
    several = node if isinstance(node, document.Sequence) else document.Sequence([node], node.origin)
    for name, item in _words(reading, several, "experiments"):
        try:
            path, label = studies.find(name, reading.folder)
        except InputError as error:
            reading.refuse(item, error.problems[0].message, error.problems[0].accepted)
            continue
        try:
            root = document.read(document.read_text(path, label), label)
        except InputError as error:
            reading.problems += error.problems
            continue
        if isinstance(root, Mapping):
            yield Base(name, root, label, path.parent)
        else:
            reading.refuse(item, "an experiment file is a mapping, with keys such as name, topology and workload")


def variant_names(base: Base) -> list[str]:
    """The names of the variants of an experiment file; none if it has no variants."""
    listed = base.root.entries.get("variants")
    items = listed.items if isinstance(listed, document.Sequence) else []
    return [name for item in items if (name := merge.name_of(item))]


def _variants(reading: _Reading, bases: Sequence[Base]) -> tuple[str, ...] | None:
    node = reading.root.entries.get("variants")
    if node is None:
        return None
    known = {base.name: variant_names(base) for base in bases}
    everywhere = list(dict.fromkeys(name for names in known.values() for name in names))
    chosen: list[str] = []
    for name, item in _words(reading, node, "names of variants"):
        chosen.append(name)
        if bases and name not in everywhere:
            accepted = one_of(everywhere) or "nothing: the experiment has no variants"
            reading.refuse(item, f"there is no variant '{name}'{did_you_mean(name, everywhere)}", accepted)
    for base, names in known.items():
        if names and chosen and set(chosen) & set(everywhere) and not set(chosen) & set(names):
            reading.refuse(node, f"{base} has none of these variants", one_of(names))
    return tuple(chosen)


def _path(reading: _Reading, text: str, node: Node) -> tuple[str, ...] | None:
    parts = tuple(part.strip() for part in text.split("."))
    if not all(parts):
        reading.refuse(node, "this is not the path of a field", "a path such as endpoint.sram")
    elif parts[0] in FIXED or (parts[0] == "variants" and len(parts) < 3):
        reading.refuse(node, "this cannot be set by a sweep", "the path of a field that is simulated")
    else:
        return parts
    return None


def _settings(reading: _Reading) -> Iterator[Override]:
    node = reading.root.entries.get("set")
    if node is None:
        return
    if not isinstance(node, Mapping):
        reading.refuse(node, "a mapping of paths to values is needed")
        return
    for text, value in node.entries.items():
        path = _path(reading, text, value)
        if path is not None:
            yield Override(path, value)


def _columns(reading: _Reading, node: Mapping) -> Iterator[tuple[tuple[str, ...], list[Node]]]:
    """Paths with their lists of values."""
    for text, values in node.entries.items():
        path = _path(reading, text, values)
        if not isinstance(values, document.Sequence) or not values.items:
            reading.refuse(values, "a list of at least one value is needed")
        elif path is not None:
            yield path, values.items


def _axes(reading: _Reading) -> Iterator[Axis]:
    node = reading.root.entries.get("axes")
    if node is None:
        return
    if not isinstance(node, Mapping):
        reading.refuse(node, "a mapping of paths to lists of values is needed")
        return
    for path, values in _columns(reading, node):
        yield Axis((path,), tuple((value,) for value in values))


def _zips(reading: _Reading) -> Iterator[Axis]:
    node = reading.root.entries.get("zip")
    if node is None:
        return
    groups = node.items if isinstance(node, document.Sequence) else [node]
    for group in groups:
        if not isinstance(group, Mapping) or not group.entries:
            reading.refuse(group, "a mapping of paths to lists of values is needed, or a list of such mappings")
            continue
        columns = list(_columns(reading, group))
        lengths = {".".join(path): len(values) for path, values in columns}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{path} has {count}" for path, count in lengths.items())
            reading.refuse(group, f"lists that vary together must be equally long: {counts}")
        elif columns:
            yield Axis(tuple(path for path, _ in columns), tuple(zip(*(values for _, values in columns), strict=True)))


def _seeds(reading: _Reading) -> int:
    node = reading.root.entries.get("seeds")
    if node is None:
        return 1
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SEEDS:
        return value
    reading.refuse(node, "this is not a number of seeds", f"1 to {MAX_SEEDS}")
    return 1


def _no_field_twice(sweep: Sweep, reading: _Reading) -> None:
    """Refuses axes of one field, and settings that an axis would displace."""
    first: list[tuple[str, ...]] = []
    for axis in sweep.axes:
        for path, value in zip(axis.paths, axis.positions[0], strict=True):
            other = next((other for other in first if _overlap(path, other)), None)
            if other is not None:
                message = f"{'.'.join(path)} and {'.'.join(other)} are the same field, or one contains the other"
                reading.refuse(value, message, "one axis for each field")
            first.append(path)
    for setting in sweep.settings:
        if any(setting.path[: len(path)] == path for path in first):
            reading.refuse(setting.value, f"{setting.text} is an axis of the sweep", "a field that does not vary")


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
