"""Draws small products: a circle for one dimension, a grid for two, and panels of grids for three."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from syncline.fabric import circle_layout, description
from syncline.fabric.product import class_name
from syncline.fabric.shapes import Box, Drawing, Frame, Point, Wire, curve, straight, widths
from syncline.fabric.topology import NAMES, Dimension, Topology

SLOT: Final = 72.0
WIDTH, HEIGHT = 46.0, 28.0
BAR: Final = 12.0
"""Thickness of a switch that is drawn along its line."""
OFF: Final = 32.0
"""From the middle of a line of NPUs to its switch."""
ASIDE: Final = 9.0
"""From the middle of an NPU to its link to a switch beside it, which is not to be hidden by links along its row."""
PANEL_GAP: Final = 84.0


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension of two NPUs or more, with its number and the NPUs between neighbours along it."""

    number: int
    dim: Dimension
    stride: int


def words(dim: Dimension) -> str:
    """A dimension in words."""
    name = {"ring": "ring", "fully-connected": "full mesh", "switch": "switch"}[dim.block]
    many = f"{dim.links} x " if dim.links > 1 else ""
    return f"{name} of {dim.size}, {many}{description.rate(dim.rate)} a link, {description.latency(dim.latency)}"


def lay_out(drawing: Drawing, topology: Topology) -> None:
    """Adds the shapes of a product of up to three dimensions of two NPUs or more."""
    axes: list[_Axis] = []
    stride = 1
    for number, dim in enumerate(topology.dims):
        if dim.size > 1:
            axes.append(_Axis(number, dim, stride))
        stride *= dim.size
    width = widths(axis.dim.payload_rate * axis.dim.links for axis in axes)
    if len(axes) <= 1:
        at = dict(enumerate(circle_layout.places(topology.npus))) if axes else {0: (0.0, 0.0)}
    else:
        at = {npu: _grid(npu, axes) for npu in range(topology.npus)}
    for axis in axes[:2]:
        starts = [npu for npu in range(topology.npus) if npu // axis.stride % axis.dim.size == 0]
        for start in starts:
            line = [at[start + place * axis.stride] for place in range(axis.dim.size)]
            _line(drawing, axis, line, width[axis.dim.payload_rate * axis.dim.links], circle=len(axes) == 1)
    for npu, place in at.items():
        drawing.boxes.append(Box(*place, WIDTH, HEIGHT, str(npu), "npu", f"NPU {npu}"))
    if len(axes) == 3:
        _panels(drawing, axes, width[axes[2].dim.payload_rate * axes[2].dim.links])


def _grid(npu: int, axes: Sequence[_Axis]) -> Point:
    x, y = (npu // axis.stride % axis.dim.size for axis in axes[:2])
    panel = npu // axes[2].stride % axes[2].dim.size if len(axes) > 2 else 0
    columns = axes[0].dim.size
    return x * SLOT + panel * (columns * SLOT + PANEL_GAP), y * SLOT * 1.05


def _line(drawing: Drawing, axis: _Axis, line: Sequence[Point], width: float, *, circle: bool) -> None:
    """Adds the links of one line of NPUs, and its switch."""
    kind, title = class_name(axis.number), f"dimension {axis.number}: {words(axis.dim)}"
    if axis.dim.block != "switch":
        paths = _ring(line, circle) if axis.dim.block == "ring" else _mesh(line, circle)
        drawing.wires += [Wire(path, kind, width, title) for path in paths]
        return
    if circle:
        drawing.boxes.append(Box(0, 0, 96, 36, "switch", "switch", title))
        drawing.wires += [Wire(straight(place, (0, 0)), kind, width, title) for place in line]
        return
    (ax, ay), (bx, by) = line[0], line[-1]
    along_x = ay == by
    middle = ((ax + bx) / 2, ay + OFF) if along_x else (ax + OFF + 4, (ay + by) / 2)
    length = max(abs(bx - ax), abs(by - ay)) + (WIDTH if along_x else HEIGHT)
    size = (length, BAR) if along_x else (BAR, length)
    drawing.boxes.append(Box(*middle, *size, "", "switch", title))
    for x, y in line:
        a, b = ((x, y), (x, middle[1])) if along_x else ((x, y - ASIDE), (middle[0], y - ASIDE))
        drawing.wires.append(Wire(straight(a, b), kind, width, title))


def _ring(line: Sequence[Point], circle: bool) -> Iterator[str]:
    for a, b in pairwise(line):
        yield straight(a, b)
    if circle and len(line) > 2:
        yield straight(line[-1], line[0])
    else:
        yield _around(line[0], line[-1], 0.28)


def _mesh(line: Sequence[Point], circle: bool) -> Iterator[str]:
    for place, a in enumerate(line):
        for other in range(place + 1, len(line)):
            yield straight(a, line[other]) if circle or other == place + 1 else _around(a, line[other], 0.16)


def _around(a: Point, b: Point, share: float) -> str:
    """A curve beside the line from one NPU to another, below a row and to the right of a column."""
    length = abs(b[0] - a[0]) + abs(b[1] - a[1])
    depth = min(30.0, 20 + share * length * 0.2)
    if abs(b[0] - a[0]) > abs(b[1] - a[1]):
        return curve((a[0] + 8, a[1] + HEIGHT / 2 - 2), (b[0] - 8, b[1] + HEIGHT / 2 - 2), (0, depth))
    return curve((a[0] + WIDTH / 2 - 2, a[1] + 6), (b[0] + WIDTH / 2 - 2, b[1] - 6), (depth, 0))


def _panels(drawing: Drawing, axes: Sequence[_Axis], width: float) -> None:
    """Frames around the panels, and one line for all links between two of them."""
    third = axes[2]
    columns, rows = axes[0].dim.size, axes[1].dim.size
    panel_width, height = (columns - 1) * SLOT + WIDTH + 64, (rows - 1) * SLOT * 1.05 + HEIGHT + 84
    step = columns * SLOT + PANEL_GAP
    kind, title = class_name(third.number), f"dimension {third.number}: {words(third.dim)}, from each NPU to its like"
    tops: list[Point] = []
    for panel in range(third.dim.size):
        x = panel * step - WIDTH / 2 - 16
        drawing.frames.append(Frame(x, -HEIGHT / 2 - 20, panel_width, height, f"{panel} of dimension {third.number}"))
        tops.append((x + panel_width / 2, -HEIGHT / 2 - 20))
    drawing.notes.append(f"A line between panels stands for the {columns * rows} lines of dimension {third.number}.")
    if third.dim.block == "switch":
        centre = (sum(x for x, _ in tops) / len(tops), tops[0][1] - 78)
        drawing.boxes.append(
            Box(*centre, 200, 34, f"{columns * rows} {NAMES[third.dim.block].lower()}es", "switch", title)
        )
        drawing.wires += [Wire(straight(top, centre), kind, width + 2, title) for top in tops]
        return
    pairs = [(i, i + 1) for i in range(len(tops) - 1)]
    if third.dim.block == "ring":
        pairs.append((0, len(tops) - 1))
    else:
        pairs = [(i, j) for i in range(len(tops)) for j in range(i + 1, len(tops))]
    for index, (i, j) in enumerate(pairs):
        a, b = tops[i], tops[j]
        lift = -(26 + 14 * (j - i)) if len(tops) > 2 or not index else -62.0
        path = curve((a[0] + 14, a[1]), (b[0] - 14, b[1]), (0, lift))
        drawing.wires.append(Wire(path, kind, width + 2, title))
