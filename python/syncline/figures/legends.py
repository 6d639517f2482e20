"""Legends: one for all panels where these show the same things in the same colours, and otherwise one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS: Final = 72
LETTER: Final = 0.55
"""The width of a letter over its height, about."""
HANDLE: Final = 3.5
"""What stands before a name and between two, in letters' heights."""


@dataclass(slots=True)
class Entries:
    """What a panel has to explain."""

    handles: list[Any] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    title: str | None = None


def add(figure: Figure, drawn: Sequence[tuple[Axes, Entries]], size: int, *, below: bool) -> None:
    """Adds the legends of panels in letters of `size` points; those of single panels `below` them or to their right."""
    explained = [(axes, entries) for axes, entries in drawn if entries.labels]
    shared = _shared([entries for _, entries in explained])
    if shared is not None and (below or len(explained) > 1):
        columns = _columns(shared.labels, figure.get_figwidth(), size)
        figure.legend(
            *(shared.handles, shared.labels),
            loc="outside lower center",
            ncols=columns,
            fontsize=size,
            title=shared.title,
            title_fontsize=size,
        )
        return
    for axes, entries in explained:
        where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        if below:
            columns = _columns(entries.labels, axes.bbox.width / figure.dpi, size)
            where = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.28), "ncols": columns}
        axes.legend(entries.handles, entries.labels, title=entries.title, title_fontsize=size, fontsize=size, **where)


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


def _columns(labels: Sequence[str], inches: float, size: int) -> int:
    """As many entries side by side as fit."""
    widest = max(map(len, labels)) * LETTER + HANDLE
    return max(1, min(len(labels), int(inches * POINTS / (size * widest))))
