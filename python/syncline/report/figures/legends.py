"""Legends: one for all panels where these show the same things in the same colours, and otherwise one for each."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from syncline.report.figures import layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

POINTS: Final = 72
GAP: Final = 4
"""Points around a legend."""
MOST_COLUMNS: Final = 8
"""Entries side by side."""
LEAST_LETTERS: Final = 12
"""Letters of a line in a legend that are not broken further."""
MOST_BESIDE: Final = 0.5
"""The share of a panel's room that a legend takes to the right of the axes; what is wider or higher stands below."""


@dataclass(slots=True)
class Entries:
    """What a panel has to explain."""

    handles: list[Any] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    title: str | None = None


def add(figure: Figure, drawn: Sequence[tuple[Axes, Entries]], size: int, *, below: bool) -> None:
    """Adds the legends of panels in letters of `size` points; those of single panels `below` their axes, for which the
    figure becomes higher, or to their right if all have room there.
    """
    explained = [(axes, entries) for axes, entries in drawn if entries.labels]
    shared = _shared([entries for _, entries in explained])
    if shared is not None and (below or len(explained) > 1):
        width = figure.bbox.width - 2 * GAP * figure.dpi / POINTS
        legend = _fitting(figure.legend, shared, size, width, loc="outside lower center")
        layout.grow(figure, legend.get_window_extent().height)
        return
    if not below and _beside(figure, explained, size):
        return
    rows: dict[int, list[tuple[Axes, Entries]]] = {}
    for axes, entries in explained:
        rows.setdefault(_place(axes)[0], []).append((axes, entries))
    deep = {row: max(_depth(axes) for axes, _ in drawn if _place(axes)[0] == row) for row in rows}
    layout.grow(figure, sum(_beneath(figure, each, deep[row], size) for row, each in rows.items()))


def _beside(figure: Figure, explained: Sequence[tuple[Axes, Entries]], size: int) -> bool:
    """Adds the legends of panels to the right of their axes, and says whether they have room; if not, adds none."""
    added, fit = [], True
    for axes, entries in explained:
        legend = axes.legend(**_described(entries, size), loc="center left", bbox_to_anchor=(1.0, 0.5))
        added.append(legend)
        box, room = legend.get_window_extent(), MOST_BESIDE * figure.bbox.width / _place(axes)[2]
        fit = fit and bool(box.width <= room and box.height <= axes.bbox.height)
    if not fit:
        for legend in added:
            legend.remove()
    return fit


def _depth(axes: Axes) -> float:
    """How far what is below the axes of a panel reaches down."""
    whole = axes.get_tightbbox()
    return 0.0 if whole is None else float(axes.bbox.y0 - whole.y0)


def _beneath(figure: Figure, row: Sequence[tuple[Axes, Entries]], depth: float, size: int) -> float:
    """Adds the legends of the panels of a row below the names of their axes, and says how high they are.

    Each stands in the middle of its panel's share of the width, wherever the axes are in it: the layout knows of its
    height alone.
    """
    from matplotlib.patches import Rectangle
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    gap, highest = GAP * figure.dpi / POINTS, 0.0
    for axes, entries in row:
        _, column, columns = _place(axes)
        room = figure.bbox.width / columns - 2 * gap
        down = axes.transAxes + ScaledTranslation(0, -(depth + gap) / figure.dpi, figure.dpi_scale_trans)
        legend = _fitting(axes.legend, entries, size, room, loc="upper center", borderaxespad=0)
        middle = blended_transform_factory(figure.transFigure, down)
        legend.set_bbox_to_anchor(((column + 0.5) / columns, 0.0), transform=middle)
        legend.set_in_layout(False)
        height = legend.get_window_extent().height + 2 * gap
        reserved = figure.dpi_scale_trans + ScaledTranslation(0.5, 0, axes.transAxes)  # type: ignore[arg-type]
        bottom, high = -(depth + height) / figure.dpi, height / figure.dpi
        axes.add_artist(Rectangle((0, bottom), 0.01, high, transform=reserved, clip_on=False, color="none"))
        highest = max(highest, height)
    return highest


def _fitting(make: Callable[..., Legend], entries: Entries, size: int, width: float, **where: Any) -> Legend:
    """A legend with as many entries side by side as a width has room for, in columns of about equal length."""
    count = len(entries.labels)
    legend = None
    for side_by_side in range(min(count, MOST_COLUMNS), 0, -1):
        columns = math.ceil(count / math.ceil(count / side_by_side))
        if legend is not None:
            legend.remove()
        legend = make(**_described(entries, size), ncols=columns, **where)
        if legend.get_window_extent().width <= width:
            break
    assert legend is not None, "a legend has entries"
    _break(legend, width)
    return legend


def _break(legend: Legend, width: float) -> None:
    """Breaks the names of a legend that is too wide with one beside the other."""
    for text in legend.get_texts():
        letters = len(text.get_text())
        while legend.get_window_extent().width > width and letters > LEAST_LETTERS:
            letters -= 2
            text.set_text(textwrap.fill(text.get_text().replace("\n", " "), letters, break_long_words=False))


def _described(entries: Entries, size: int) -> dict[str, Any]:
    of = {"handles": entries.handles, "labels": entries.labels, "title": entries.title}
    return of | {"fontsize": size, "title_fontsize": size}


def _place(axes: Axes) -> tuple[int, int, int]:
    """The row and the column of a panel, and how many columns there are."""
    place = axes.get_subplotspec()
    assert place is not None, "a panel is in a grid"
    return place.rowspan.start, place.colspan.start, place.get_gridspec().ncols


def _shared(each: Sequence[Entries]) -> Entries | None:
    """What all panels explain together; nothing if a name or a look would mean two things."""
    found = Entries()
    looks: dict[str, Any] = {}
    for entries in each:
        for handle, label in zip(entries.handles, entries.labels, strict=True):
            look = _look(handle)
            if looks.setdefault(label, look) != look:
                return None
            if label not in found.labels:
                found.handles.append(handle)
                found.labels.append(label)
    if len({repr(look) for look in looks.values()}) < len(looks):
        return None
    titles = {entries.title for entries in each}
    if len(titles) > 1:
        return None
    found.title = next(iter(titles), None)
    return found if found.labels else None


def _look(handle: Any) -> tuple[Any, ...]:
    """How something is drawn, as far as a reader can tell."""
    if hasattr(handle, "patches"):
        return ("bar", tuple(handle.patches[0].get_facecolor())) if handle.patches else ("bar",)
    if hasattr(handle, "get_linestyle") and hasattr(handle, "get_marker"):
        return ("line", handle.get_color(), handle.get_linestyle(), handle.get_marker())
    faces, edges = (getattr(handle, name)() for name in ("get_facecolor", "get_edgecolor"))
    return ("points", *(tuple(colour) for colours in (faces, edges) for colour in colours[:1]))
