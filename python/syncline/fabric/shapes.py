"""What pictures are made of: boxes, wires, frames and text, in user units of the drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

BoxKind: TypeAlias = Literal["npu", "switch", "nic", "cpu"]
Point: TypeAlias = tuple[float, float]

THINNEST: Final = 1.4
THICKEST: Final = 6.0


@dataclass(frozen=True, slots=True)
class Box:
    """A node, around its centre."""

    x: float
    y: float
    width: float
    height: float
    label: str
    kind: BoxKind
    title: str
    """What a pointer that rests on it is told."""
    idle: bool = False
    """Whether it takes no part."""
    small: bool = False
    """Whether its label is set smaller."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Links between two nodes."""

    path: str
    """An SVG path."""
    kind: str
    """The class, which has a colour."""
    width: float
    title: str
    double: bool = False
    """Whether it is drawn as two parallel lines."""
    label: str = ""
    at: Point = (0.0, 0.0)
    """Where the middle of the label is."""
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A box around nodes that belong together."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words, around a point."""

    x: float
    y: float
    text: str
    strong: bool = False


@dataclass(slots=True)
class Drawing:
    """Shapes, and the words above and below them."""

    title: str
    subtitle: str
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """Classes, and what is said about them."""
    notes: list[str] = field(default_factory=list)

    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of everything but the words around it. Curves stay within their points."""
        xs: list[float] = [0.0]
        ys: list[float] = [0.0]
        if self.boxes or self.frames or self.texts:
            xs, ys = [], []
        for box in self.boxes:
            xs += [box.x - box.width / 2, box.x + box.width / 2]
            ys += [box.y - box.height / 2, box.y + box.height / 2]
        for frame in self.frames:
            xs += [frame.x, frame.x + frame.width]
            ys += [frame.y, frame.y + frame.height]
        for text in self.texts:
            xs += [text.x - 3.5 * len(text.text), text.x + 3.5 * len(text.text)]
            ys += [text.y - 10, text.y + 6]
        for wire in self.wires:
            numbers = [float(word) for word in wire.path.split() if not word.isalpha()]
            xs += numbers[0::2]
            ys += numbers[1::2]
        return min(xs), min(ys), max(xs), max(ys)


def straight(a: Point, b: Point) -> str:
    """A line."""
    return f"M {_n(a[0])} {_n(a[1])} L {_n(b[0])} {_n(b[1])}"


def curve(a: Point, b: Point, bend: Point) -> str:
    """A curve that leaves and arrives in the direction of `bend`, an offset of both ends."""
    first, second = (a[0] + bend[0], a[1] + bend[1]), (b[0] + bend[0], b[1] + bend[1])
    points = " ".join(f"{_n(x)} {_n(y)}" for x, y in (first, second, b))
    return f"M {_n(a[0])} {_n(a[1])} C {points}"


def widths(rates: Iterable[int]) -> dict[int, float]:
    """Widths of wires by their rates, on a logarithmic scale."""
    known = sorted(set(rates))
    if not known:
        return {}
    low, high = math.log(known[0]), math.log(known[-1])
    if high - low < 1e-9:
        return dict.fromkeys(known, 2.4)
    step = (THICKEST - THINNEST) / max(high - low, math.log(4))
    return {rate: round(THINNEST + (math.log(rate) - low) * step, 2) for rate in known}


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places at least `gap` apart, in the same order and as near to the wanted ones as a single pass brings them."""
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    places = [0.0] * len(wanted)
    last = -math.inf
    for index in order:
        last = places[index] = max(wanted[index], last + gap)
    shift = (sum(wanted) - sum(places)) / len(wanted) if wanted else 0.0
    return [place + shift for place in places]


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
