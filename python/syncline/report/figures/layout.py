"""Lays out a figure whose panels are drawn, so that nothing that it says lies upon anything else, or leaves it.

How long a name is, is known only when it is drawn: names are measured, and broken into lines that fit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

POINTS: Final = 72
"""Points of an inch."""
GAP: Final = 3
"""Points between things that must not touch."""
AWAY: Final = (3, 9, 15, 22)
"""Points from a point to its number: the nearest without anything below it is taken."""
LED: Final = 9
"""Points from which on a line leads from the number to its point."""
AROUND: Final = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))
UPRIGHT: Final = 90
HIGHEST: Final = 100
"""Inches to which a figure becomes higher for its title and its legends."""


def fit_names(figure: Figure, drawn: Sequence[Axes], whole: dict[Text, str]) -> None:
    """Breaks titles and the names of axes into lines, and turns the names below an axis that run into each other.

    `whole` keeps the names, for when this is done again.
    """
    figure.draw_without_rendering()
    for axes in figure.axes:
        width, height = _width(axes), axes.bbox.height
        for text, room in ((axes.title, width), (axes.xaxis.label, width), (axes.yaxis.label, height)):
            text.set_text(_broken(text, whole.setdefault(text, text.get_text()), room))
    for axes in drawn:
        _turn(axes)


def fit_title(figure: Figure, title: Text) -> None:
    """Breaks the title above all panels into lines that are no wider than the figure, which becomes higher for them."""
    room = float(figure.bbox.width) - 2 * GAP * figure.dpi / POINTS
    before = title.get_window_extent().height
    title.set_text(_broken(title, title.get_text(), room))
    grow(figure, title.get_window_extent().height - before)


def grow(figure: Figure, pixels: float) -> None:
    """Makes a figure higher."""
    height = figure.get_figheight()
    figure.set_figheight(max(height, min(height + pixels / figure.dpi, HIGHEST)))


def _width(axes: Axes) -> float:
    """What is in the middle above or below the axes of a panel may be so wide."""
    place = axes.get_subplotspec()
    if place is None:
        return float(axes.bbox.width)
    share = float(axes.figure.bbox.width) / place.get_gridspec().ncols
    middle = (axes.bbox.x0 + axes.bbox.x1) / 2 - place.colspan.start * share
    room = max(float(axes.bbox.width), 2 * min(middle, share - middle) - 2 * GAP)
    return float(room)


def _broken(text: Text, whole: str, room: float) -> str:
    """The text in lines that are no longer than `room`, where words allow that; a unit is not broken."""
    lines = []
    for line in whole.split("\n"):
        kept = ""
        for word in re.split(r" (?![^\[]*\])", line):
            longer = f"{kept} {word}" if kept else word
            if kept and _length(text, longer) > room:
                lines.append(kept)
                longer = word
            kept = longer
        lines.append(kept)
    return "\n".join(lines)


def _length(text: Text, words: str) -> float:
    text.set_text(words)
    box = text.get_window_extent()
    return float(box.height if text.get_rotation() == UPRIGHT else box.width)


def _turn(axes: Axes) -> None:
    """Turns the names below an axis upright if they run into each other; of numbers, shows fewer."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    axis = axes.xaxis
    for bins in (6, 5, 4, 3):
        boxes = sorted((box for label in axis.get_ticklabels() if (box := _box(label))), key=lambda box: box.x0)
        gap = GAP * axes.figure.dpi / POINTS
        if all(one.x1 + gap <= other.x0 for one, other in itertools.pairwise(boxes)):
            return
        if isinstance(axis.get_major_locator(), MaxNLocator):
            axes.locator_params(axis="x", nbins=bins)
        elif isinstance(axis.get_major_locator(), FixedLocator):
            if all(label.get_rotation() == 0 for label in axis.get_ticklabels()):
                axes.tick_params(axis="x", labelrotation=UPRIGHT)
            return


def _box(text: Text) -> Bbox | None:
    """Where a text stands, if it does."""
    return text.get_window_extent() if text.get_visible() and text.get_text().strip() else None


def fit_cells(drawn: Sequence[Axes]) -> None:
    """Rounds what stands upon the cells of a heat map if room is short, then turns it upright, then leaves it out."""
    for axes in drawn:
        cells = [text for text in axes.texts if text.get_gid() == CELL]
        if not cells:
            continue
        width = axes.bbox.width / abs(axes.get_xlim()[1] - axes.get_xlim()[0])
        height = axes.bbox.height / abs(axes.get_ylim()[1] - axes.get_ylim()[0])
        if _fits(cells, width, height):
            continue
        for text in cells:
            text.set_text("\n".join(_rounded(line) for line in text.get_text().split("\n")))
        if not _fits(cells, width, height):
            for text in cells:
                text.set_rotation(UPRIGHT)
            if not _fits(cells, width, height):
                for text in cells:
                    text.set_visible(False)


CELL: Final = "cell"
"""Marks what stands upon a cell."""


def _fits(cells: Sequence[Text], width: float, height: float) -> bool:
    boxes = [text.get_window_extent() for text in cells]
    return all(box.width <= 0.96 * width and box.height <= height for box in boxes)


def _rounded(number: str) -> str:
    """A number to three digits, as far as it has decimals; published ones are as they were."""
    return (
        number
        if number.startswith("(")
        else f"{float(number):.3g}"
        if abs(float(number)) < 1000
        else f"{float(number):.0f}"
    )


def place_numbers(figure: Figure, drawn: Sequence[Axes]) -> None:
    """Moves the numbers of points to where nothing else is."""
    from matplotlib.text import Annotation

    if not any(isinstance(text, Annotation) for axes in drawn for text in axes.texts):
        return
    figure.draw_without_rendering()
    for axes in drawn:
        numbers = [text for text in axes.texts if isinstance(text, Annotation)]
        if not numbers:
            continue
        taken = list(_points(axes))
        for number in numbers:
            taken.append(_place(axes, number, taken))


def _points(axes: Axes) -> Iterator[Bbox]:
    """What the points of a panel take, and the lines that join them."""
    from matplotlib.transforms import Bbox

    half = 2.2 * axes.figure.dpi / POINTS
    for collection in axes.collections:
        for x, y in collection.get_offset_transform().transform(collection.get_offsets()):
            yield Bbox.from_extents(x - half, y - half, x + half, y + half)
    for line in axes.lines:
        corners = line.get_transform().transform(line.get_xydata())
        for (x, y), (to_x, to_y) in itertools.pairwise(corners):
            steps = int(max(abs(to_x - x), abs(to_y - y)) / half) + 1
            for i in range(steps):
                at_x, at_y = x + (to_x - x) * i / steps, y + (to_y - y) * i / steps
                yield Bbox.from_extents(at_x - 1, at_y - 1, at_x + 1, at_y + 1)


def _place(axes: Axes, number: Annotation, taken: Sequence[Bbox]) -> Bbox:
    """Puts a number near its point, and says where it then is."""
    scale = axes.figure.dpi / POINTS
    x, y = axes.transData.transform(number.xy)
    drawn = number.get_window_extent()
    width, height = drawn.width + 2 * scale, drawn.height
    best: tuple[float, int, int, Bbox] | None = None
    for away, (right, up) in itertools.product(AWAY, AROUND):
        box = _shifted(x, y, right, up, (away * scale, width, height))
        outside = not (axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 and axes.bbox.y0 <= box.y0)
        outside = outside or box.y1 > axes.bbox.y1
        covered = sum(_common(box, other) for other in taken) + (1e9 if outside else 0.0)
        if best is None or covered < best[0]:
            best = (covered, right * away, up * away, box)
        if covered == 0:
            break
    assert best is not None, "there are places to try"
    _, right, up, box = best
    number.set(ha={0: "center", 1: "left", -1: "right"}[_sign(right)])
    number.set(va={0: "center", 1: "bottom", -1: "top"}[_sign(up)])
    number.xyann = (right, up)
    if max(abs(right), abs(up)) >= LED and number.arrow_patch is not None:
        number.arrow_patch.set_visible(True)
    return box


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _shifted(x: float, y: float, right: int, up: int, sizes: tuple[float, float, float]) -> Bbox:
    """The box of these sizes that is so far to the right of and above a point."""
    from matplotlib.transforms import Bbox

    away, width, height = sizes
    left = x + right * away - (width / 2 if right == 0 else width if right < 0 else 0)
    bottom = y + up * away - (height / 2 if up == 0 else height if up < 0 else 0)
    found: Bbox = Bbox.from_bounds(left, bottom, width, height)
    return found


def _common(one: Bbox, other: Bbox) -> float:
    """The area that two boxes share."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(0.0, width) * max(0.0, height))
