"""What `calibrate` keeps of a table beside constants, and its part of a class file.

Constants hold for a system's other collectives and numbers of nodes as well. For the very collective, GPUs and nodes of
the table, the file also says what describes it best (`selection.py`): the constants, or a line, below 1 MiB and from
there up, with or without a factor by size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from syncline.base.document import Mapping as Tree
from syncline.base.document import Node, Scalar
from syncline.base.document import Sequence as Items
from syncline.base.errors import Problem, one_of
from syncline.nccl.platform import NCCL
from syncline.nccl.wire import KINDS

BOUNDARY: Final = 2**20
"""Bytes from which on the second part holds; the first one up to half of that, and what lies between is joined."""
BASES: Final = ("constants", "line")
MAX_SIZES: Final = 10_000

Base: TypeAlias = Literal["constants", "line"]


@dataclass(frozen=True, slots=True)
class Line:
    """Time = seconds + size x seconds per byte."""

    seconds: float
    seconds_per_byte: float

    def time(self, size: int) -> float:
        """Seconds."""
        return self.seconds + size * self.seconds_per_byte


@dataclass(frozen=True, slots=True)
class Part:
    """A description of some sizes: its base, times a factor by size where there are any."""

    base: Base
    sizes: tuple[int, ...] = ()
    """In ascending order."""
    factors: tuple[float, ...] = ()

    def factor(self, size: int) -> float:
        """The factor of a size: in straight lines between logarithms, and beyond all sizes that of the nearest."""
        if not self.sizes or size <= self.sizes[0]:
            return self.factors[0] if self.factors else 1.0
        if size >= self.sizes[-1]:
            return self.factors[-1]
        above = next(i for i, known in enumerate(self.sizes) if known > size)
        low, high = self.sizes[above - 1], self.sizes[above]
        place = math.log(size / low) / math.log(high / low)
        return math.pow(self.factors[above - 1], 1 - place) * math.pow(self.factors[above], place)


@dataclass(frozen=True, slots=True)
class Measured:
    """A table of one collective on one platform, as it is described best."""

    machine: str
    kind: str
    algorithm: str
    gpus: int
    nodes: int
    line: Line
    below: Part
    """Below 1 MiB."""
    above: Part
    """From 1 MiB up."""
    nccl: tuple[int, int] = NCCL
    """The version of NCCL that the table states, with which its system chooses among algorithms."""
    channels: int = 0
    """The least number of channels that was set there."""

    def time(self, size: int, by_constants: float) -> float:
        """Seconds, where the constants say `by_constants`."""
        place = min(max(1 + math.log2(max(size, 1) / BOUNDARY), 0.0), 1.0)
        ends = [
            (by_constants if part.base == "constants" else self.line.time(size)) * part.factor(size)
            for part in (self.below, self.above)
        ]
        return math.pow(ends[0], 1 - place) * math.pow(ends[1], place)


def render(measured: Measured) -> Iterator[str]:
    """The lines of a class file that [`parse`] reads back."""
    yield "measured:"
    yield f"  machine: '{measured.machine}'"
    yield f"  collective: {measured.kind}"
    yield f"  algorithm: {measured.algorithm}"
    yield f"  gpus: {measured.gpus}"
    yield f"  nodes: {measured.nodes}"
    if measured.nccl != NCCL:
        yield f"  nccl: [{measured.nccl[0]}, {measured.nccl[1]}]"
    if measured.channels:
        yield f"  channels: {measured.channels}"
    yield f"  line: [{measured.line.seconds:.9f}, {measured.line.seconds_per_byte * 1e9:.9f}]  # s, ns per byte"
    for name, part in (("below_1MiB", measured.below), ("from_1MiB", measured.above)):
        yield f"  {name}:"
        yield f"    base: {part.base}"
        if part.sizes:
            yield f"    sizes: [{', '.join(map(str, part.sizes))}]"
            yield f"    factors: [{', '.join(f'{factor:.5f}' for factor in part.factors)}]"


def parse(node: Node, problems: list[Problem]) -> Measured | None:
    """The section `measured` of a class file; what is wrong with it is appended to the problems."""
    reader = _Reader(problems)
    keys = ("machine", "collective", "algorithm", "gpus", "nodes", "nccl", "channels", "line", *PARTS)
    section = reader.section(node, keys)
    if section is None:
        return None
    found = len(problems)
    machine, kind = reader.text(section, "machine"), reader.text(section, "collective")
    if kind and kind not in KINDS:
        problems.append(section.entries["collective"].origin.problem("this is not known", kind, one_of(KINDS)))
    algorithm = reader.text(section, "algorithm")
    gpus, nodes = (reader.numbers(section, key, 1, whole=True) for key in ("gpus", "nodes"))
    nccl: Sequence[float] = NCCL
    channels: Sequence[float] = (0,)
    if "nccl" in section.entries:
        nccl = reader.numbers(section, "nccl", 2, whole=True)
    if "channels" in section.entries:
        channels = reader.numbers(section, "channels", 1, whole=True)
    line = reader.numbers(section, "line", 2)
    below, above = (reader.part(section, name) for name in PARTS)
    if len(problems) > found or below is None or above is None:
        return None
    straight = Line(line[0], line[1] * 1e-9)
    settings = (int(nccl[0]), int(nccl[1])), int(channels[0])
    return Measured(machine, kind, algorithm, int(gpus[0]), int(nodes[0]), straight, below, above, *settings)


PARTS: Final = ("below_1MiB", "from_1MiB")


class _Reader:
    """Reads a section and collects its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def section(self, node: Node | None, keys: Sequence[str]) -> Tree | None:
        """A mapping with these keys and no others."""
        if not isinstance(node, Tree):
            if node is not None:
                self.problems.append(node.origin.problem("this is not a mapping", None, one_of(keys)))
            return None
        for key, entry in node.entries.items():
            if key not in keys:
                self.problems.append(entry.origin.problem("this is not known here", key, one_of(keys)))
        return node

    def text(self, section: Tree, key: str) -> str:
        """A word."""
        node = section.entries.get(key)
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value
        self.missing(section, key, "text")
        return ""

    def numbers(self, section: Tree, key: str, count: int | None = None, *, whole: bool = False) -> tuple[float, ...]:
        """So many numbers of zero or more; one of them without brackets."""
        node = section.entries.get(key)
        items = node.items if isinstance(node, Items) else [node] if count == 1 and node is not None else []
        values: list[float] = []
        for item in items:
            value = item.value if isinstance(item, Scalar) else None
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**50:
                self.problems.append(item.origin.problem("this is not a number", None, "a number of zero or more"))
            elif whole and not isinstance(value, int):
                self.problems.append(item.origin.problem("this is not a whole number", None, "a whole number"))
            else:
                values.append(float(value))
        if not items or (count is not None and len(items) != count) or len(items) > MAX_SIZES:
            self.missing(section, key, "numbers" if count is None else f"{count} numbers")
        return (*values, *([1.0] * ((count or 0) - len(values))))

    def part(self, section: Tree, key: str) -> Part | None:
        """One of the two descriptions."""
        if key not in section.entries:
            self.missing(section, key, "base, and perhaps sizes and factors")
        tree = self.section(section.entries.get(key), ("base", "sizes", "factors"))
        if tree is None:
            return None
        base = self.text(tree, "base")
        if base not in BASES:
            self.problems.append(tree.origin.problem("the base is not known", base, one_of(BASES)))
        if "sizes" not in tree.entries and "factors" not in tree.entries:
            return Part("line" if base == "line" else "constants")
        sizes, factors = self.numbers(tree, "sizes", whole=True), self.numbers(tree, "factors")
        ascending = all(a < b for a, b in zip((0, *sizes), sizes, strict=False))
        if len(sizes) != len(factors) or not ascending or not all(factors):
            message = "these are not a list of ascending sizes and a factor above zero for each"
            self.problems.append(tree.origin.problem(message, None, "a factor for every size"))
        return Part("line" if base == "line" else "constants", tuple(int(size) for size in sizes), factors)

    def missing(self, section: Tree, key: str, accepted: str) -> None:
        """Says that a key is not there, or not what it should be."""
        node = section.entries.get(key, section)
        message = f"{key} is missing" if node is section else f"this is not a valid {key}"
        self.problems.append(node.origin.problem(message, None, accepted))
