"""Draws a figure as SVG, and the same as PNG and PDF.

All are the same bytes for the same numbers: no dates, and identifiers that depend on the content only.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from syncline.report import sweep
from syncline.report.figures import layout, legends
from syncline.studies.figures.file import PAPER, PIXELS_PER_INCH
from syncline.studies.figures.file import Figure as FigureSpec
from syncline.studies.figures.timeline import Track
from syncline.studies.figures.values import LEAST, MOST, Shown, Value, human

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#a6761d")
"""Told apart with every kind of colour vision (Okabe and Ito)."""
PUBLISHED: Final = "#111111"
ON_LIGHT, ON_DARK = "#010101", "#fefefe"
"""Letters upon a cell of a heat map, of which one has a contrast of 4.5 at least with any colour."""
EVEN: Final = 0.178
"""The luminance (WCAG 2) of the colours with which both have the same contrast."""
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "syncline",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 8,
    "text.parse_math": False,  # names and titles are not TeX
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 7,
}
MARKERS: Final = "osv^DPX*"
LONG: Final = 10
"""Letters of a name that stands level below an axis."""
VERY_LONG: Final = 24
"""Letters of a name of which only what tells it from others stands below an axis."""
SHORT: Final = 200
"""From the lower to the upper end of a logarithmic axis: one that needs more ticks than powers of ten."""
MANY: Final = 24
"""Names below an axis that have no room beside each other."""
SOME: Final = 14
"""Long names that have none even at an angle."""
WIDEST: Final = 12.0
"""Inches of a whole drawing, which a page shows without shrinking it: panels that have no room go below."""
POINTS: Final = 72
"""Points of an inch."""
BARS: Final = 0.8
"""The share of a group of bars, the rest being the gap to the next."""
BESIDE: Final = 2.0
"""Inches for what stands beside the bars of a panel: the axis and the legend."""
SMALL: Final = 7
"""The smallest letters, in points."""
NARROWEST: Final = 2.2
"""Inches of a panel in a figure of a paper."""


class Drawn(NamedTuple):
    """A figure in three formats."""

    svg: bytes
    png: bytes
    pdf: bytes


def draw(described: FigureSpec, panels: Sequence[Shown | Track]) -> Drawn:
    """The figure as SVG, PNG and PDF."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure, _ = drawing(described, panels)
        svg, png, pdf = io.BytesIO(), io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "Syncline"})
        dpi = PIXELS_PER_INCH * (2 if described.paper else 1)
        figure.savefig(png, format="png", dpi=dpi, metadata={"Software": "Syncline"})
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": "Syncline", "Producer": None})
    return Drawn(svg.getvalue(), png.getvalue(), pdf.getvalue())


def drawing(described: FigureSpec, panels: Sequence[Shown | Track]) -> tuple[Figure, list[Axes]]:
    """The figure before it is written, and the axes of its panels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    widest = PAPER[described.paper] if described.paper else WIDEST
    width = min(widest, max(described.width, *map(_least_width, panels), 0.0))
    if described.paper:
        width = max(NARROWEST, widest / described.columns)
    columns = min(described.columns, len(panels), max(1, int(widest / width)))
    rows = math.ceil(len(panels) / columns)
    size = (width * columns, described.height * rows + 0.3)
    if described.paper:
        size = (widest, min(described.height, width) * rows)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    if not described.paper:  # a paper has captions
        layout.fit_title(figure, figure.suptitle(described.title, fontsize=10))
    drawn = [figure.add_subplot(rows, columns, i + 1) for i in range(len(panels))]
    explained = []
    for axes, panel in zip(drawn, panels, strict=True):
        entries = _track(axes, panel) if isinstance(panel, Track) else _panel(axes, panel)
        explained.append((axes, entries))
        if described.paper:
            axes.set_title(axes.get_title(), fontsize=8)
    whole: dict[Text, str] = {}
    layout.fit_names(figure, drawn, whole)
    legends.add(figure, explained, SMALL, below=bool(described.paper))
    layout.fit_names(figure, drawn, whole)
    layout.fit_cells(drawn)
    layout.place_numbers(figure, drawn)
    return figure, drawn


def _least_width(shown: Shown | Track) -> float:
    """Inches that a panel needs for the names below its single bars, which stand upright side by side."""
    if isinstance(shown, Track) or shown.panel.kind != "stacked" or shown.panel.series is None:
        return 0.0
    xs, series, _ = _groups(shown)
    return BESIDE + len(xs) * len(series) * 1.2 * SMALL / POINTS / BARS


def _panel(axes: Axes, shown: Shown) -> legends.Entries:
    panel = shown.panel
    axes.set_title(panel.title)
    drawers = {"bars": _bars, "stacked": _stacked, "lines": _lines, "heat": _heat, "scatter": _scatter}
    if panel.log_y:
        axes.set_yscale("log")
    drawers[panel.kind](axes, shown)
    if panel.log_y:
        _name_logarithms(axes.yaxis)
    if panel.log and panel.kind == "scatter":  # ticks of lines are where their points are
        _name_logarithms(axes.xaxis)
    if panel.kind != "heat":
        axes.set_ylabel(
            panel.y_label or (f"{shown.measure} [{unit}]" if (unit := shown.y_scale.unit) else shown.measure)
        )
        for line in shown.lines:
            axes.axhline(line.value, color=PUBLISHED, linewidth=0.8, linestyle="--", label=line.label or "published")
    brackets = panel.kind == "heat" and any(v.published is not None for v in shown.values)
    x_label = _x_label(shown)
    if panel.kind in ("bars", "stacked"):
        _, common = _varying([shown.x_text(x) for x in _order([v.x for v in shown.values])])
        x_label = f"{x_label}\n{common}" if common else x_label
    axes.set_xlabel(f"{x_label}\n(in brackets: published)" if brackets else x_label)
    bare = (
        panel.series is not None
        and panel.kind != "stacked"
        and all(isinstance(v.series, int | float) for v in shown.values)
    )
    return legends.Entries(*axes.get_legend_handles_labels(), _label(panel.series or "", "") if bare else None)


def _name_logarithms(axis: Axis) -> None:
    """Plain numbers along a logarithmic axis; if it is short, others than powers of ten too."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_formatter("{x:g}")
    if high < SHORT * low:
        axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter("{x:g}")
    else:
        axis.set_minor_formatter(NullFormatter())


def _x_label(shown: Shown) -> str:
    """What is below the x axis. Ticks of lines and points are bare numbers, so that it has their unit."""
    panel = shown.panel
    is_bare = panel.kind in ("lines", "scatter") and not shown.is_wide
    unit = shown.x_scale.unit if is_bare else ""
    if not panel.x_label:
        return _label(panel.x, unit)
    return f"{panel.x_label} [{unit}]" if unit and "[" not in panel.x_label else panel.x_label


def _label(column: str, unit: str) -> str:
    """What a column is called on an axis."""
    name = human(column)
    return f"{name} [{unit}]" if unit else name


def _order(values: Sequence[Any]) -> list[Any]:
    """Distinct values, numbers by size and text as it comes."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(v, int | float) for v in distinct) else distinct


def _groups(shown: Shown) -> tuple[list[Any], list[Any], dict[tuple[Any, Any, str], Value]]:
    xs = _order([v.x for v in shown.values])
    series = _order([v.series for v in shown.values])
    return xs, series, {(v.x, v.series, v.part): v for v in shown.values}


def _bars(axes: Axes, shown: Shown) -> None:
    xs, series, found = _groups(shown)
    width = BARS / len(series)
    part = shown.panel.parts[0]
    ends = [LEAST + part, MOST + part] if shown.panel.spread else [part]
    published: list[tuple[float, float]] = []
    for j, name in enumerate(series):
        at = [i - BARS / 2 + width * (j + 0.5) for i in range(len(xs))]
        values = [found.get((x, name, ends[-1])) for x in xs]
        below = [_height(found, x, name, ends[0]) if len(ends) > 1 else 0.0 for x in xs]
        heights = [v.value - low if v else 0.0 for v, low in zip(values, below, strict=True)]
        colour = COLOURS[j % len(COLOURS)]
        label = shown.series_text(name) or None
        bars = axes.bar(at, heights, width * 0.92, bottom=below, color=colour, label=label)
        if len(ends) > 1:  # the least of one row alone is the most: a line
            for bar in bars:
                bar.set(edgecolor=colour, linewidth=1.2)
            axes.set_ylim(bottom=0)
        published += [(a, v.published) for a, v in zip(at, values, strict=True) if v and v.published is not None]
    _mark(axes, published)
    _name_groups(axes, shown, xs)


def _name_groups(axes: Axes, shown: Shown, xs: Sequence[Any]) -> None:
    """Names below groups of bars, at an angle where they would run into each other."""
    names, _ = _varying([shown.x_text(x) for x in xs])
    if len(names) > MANY or (len(names) > SOME and max(map(len, names)) > LONG):
        axes.set_xticks(range(len(xs)), names, rotation=90, fontsize=SMALL)
        axes.margins(x=0.01)
    elif max(map(len, names)) > LONG:
        axes.set_xticks(range(len(xs)), names, rotation=25, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(xs)), names)


def _varying(names: Sequence[str]) -> tuple[list[str], str]:
    """Of long names the part in which they differ, and what they have in common around it."""
    if len(names) < 2 or max(map(len, names)) <= VERY_LONG:
        return list(names), ""
    before = re.fullmatch(r"(.*[=(/, ])?.*", _beginning(names))
    after = re.fullmatch(r".*?([,).].*)?", _beginning([name[::-1] for name in names])[::-1])
    head, tail = (found[1] or "" if found else "" for found in (before, after))
    short = [name[len(head) : len(name) - len(tail)] for name in names]
    return (short, f"{head}\N{HORIZONTAL ELLIPSIS}{tail}") if head + tail and all(short) else (list(names), "")


def _beginning(names: Sequence[str]) -> str:
    """The letters with which all begin."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def _stacked(axes: Axes, shown: Shown) -> None:
    xs, series, found = _groups(shown)
    width = BARS / len(series)
    ticks: list[tuple[float, str]] = []
    for k, part in enumerate(shown.panel.parts):
        for j, name in enumerate(series):
            at = [i - BARS / 2 + width * (j + 0.5) for i in range(len(xs))]
            below = [sum(_height(found, x, name, p) for p in shown.panel.parts[:k]) for x in xs]
            heights = [_height(found, x, name, part) for x in xs]
            label = _label(part, "") if j == 0 else None
            axes.bar(at, heights, width * 0.92, bottom=below, color=COLOURS[k % len(COLOURS)], label=label)
            if k == 0 and len(series) > 1:
                ticks += [(a, shown.series_text(name)) for a in at]
    tops = [
        (i - BARS / 2 + width * (j + 0.5), v.published)
        for i, x in enumerate(xs)
        for j, name in enumerate(series)
        if (v := found.get((x, name, shown.panel.parts[0]))) and v.published is not None
    ]
    _mark(axes, tops)
    _name_groups(axes, shown, xs)
    if ticks:
        axes.xaxis.remove_overlapping_locs = False  # the middle bar of a group stands where the group's own tick is
        axes.tick_params(axis="x", which="major", pad=8 + 4.1 * max(len(text) for _, text in ticks), length=0)
        axes.set_xticks([a for a, _ in ticks], [text for _, text in ticks], minor=True, rotation=90, fontsize=SMALL)


def _height(found: dict[tuple[Any, Any, str], Value], x: Any, series: Any, part: str) -> float:
    value = found.get((x, series, part))
    return value.value if value else 0.0


def _lines(axes: Axes, shown: Shown) -> None:
    part = shown.panel.parts[0]
    xs, series, found = _groups(shown)
    numeric = all(isinstance(x, int | float) for x in xs)
    places = {x: x / shown.x_scale.factor if numeric else i for i, x in enumerate(xs)}
    published: list[tuple[float, float]] = []
    for j, name in enumerate(series):
        values = [v for x in xs if (v := found.get((x, name, part)))]
        beneath = 1 - j / len(series)  # wider, so that a line that another lies upon can be seen
        axes.plot(
            [places[v.x] for v in values],
            [v.value for v in values],
            marker=MARKERS[j % len(MARKERS)],
            markersize=2.5 + 1.5 * beneath,
            linewidth=0.8 + 1.2 * beneath,
            color=COLOURS[j % len(COLOURS)],
            label=shown.series_text(name) or None,
        )
        published += [(places[v.x], v.published) for v in values if v.published is not None]
    _mark(axes, published)
    if not numeric:
        axes.set_xticks(range(len(xs)), [str(x) for x in xs])
    elif shown.panel.log:
        axes.set_xscale("log", base=2)
        if shown.is_wide:
            names = [shown.x_text(x) for x in xs]
            axes.set_xticks(list(places.values()), names, rotation=90 if len(names) > SOME else 0)
        else:
            axes.set_xticks(list(places.values()), [f"{v:g}" for v in places.values()])
        axes.minorticks_off()
    elif all(place == round(place) for place in places.values()):
        axes.locator_params(axis="x", integer=True)
    if not shown.panel.log_y:
        axes.set_ylim(bottom=0)


def _heat(axes: Axes, shown: Shown) -> None:
    xs, series, found = _groups(shown)
    part = shown.panel.parts[0]
    grid = [[v.value if (v := found.get((x, name, part))) else math.nan for x in xs] for name in series]
    flat = [v for row in grid for v in row if not math.isnan(v)]
    low, high, remark = sweep.scale_of(flat)
    image = axes.imshow(grid, cmap="YlGnBu", aspect="auto", origin="lower", vmin=low, vmax=high)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.9, aspect=15, pad=0.02)
    bar.outline.set_visible(False)
    name = f"{shown.measure} [{unit}]" if (unit := shown.y_scale.unit) else shown.measure
    bar.set_label(f"{name}\n({remark})" if remark else name, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    drawn: Any = image.get_array()
    shades = image.to_rgba(drawn)
    for j, row in enumerate(grid):
        for i, value in enumerate(row):
            published = found[xs[i], series[j], part].published if not math.isnan(value) else None
            text = f"{value:.3f}" + (f"\n({published:g})" if published is not None else "")
            colour = ON_LIGHT if _luminance(shades[j, i]) > EVEN else ON_DARK
            axes.text(i, j, text, ha="center", va="center", fontsize=SMALL, color=colour, gid=layout.CELL)
    axes.set_xticks(range(len(xs)), [shown.x_text(x) for x in xs])
    axes.set_yticks(range(len(series)), [shown.series_text(name) for name in series])
    axes.set_ylabel(shown.panel.y_label or _label(shown.panel.series or "", ""))


def _luminance(colour: Sequence[float]) -> float:
    """The relative luminance of a colour in sRGB, from 0 to 1 (WCAG 2)."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _scatter(axes: Axes, shown: Shown) -> None:
    points = [(float(v.x) / shown.x_scale.factor, v) for v in shown.values]
    best = pareto(shown) if shown.panel.pareto else []
    if shown.panel.log:
        axes.set_xscale("log")
    axes.margins(0.09)  # for the numbers of points that are at an edge
    axes.scatter([x for x, _ in points], [v.value for _, v in points], s=14, color=COLOURS[5], label=None)
    if best:
        front = sorted((float(v.x) / shown.x_scale.factor, v.value) for v in best)
        axes.plot(*zip(*front, strict=True), color=COLOURS[1], marker="o", markersize=4, linewidth=1, label="Pareto")
    named = sorted((x, v.value, v.series) for x, v in points if v in best or not shown.panel.pareto)
    for number, (x, y, name) in enumerate(named, start=1):  # names would run into each other where points are close
        axes.annotate(
            str(number),
            (x, y),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=SMALL,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": COLOURS[6], "visible": False, "shrinkA": 0},
        )
        axes.plot([], [], " ", label=f"{number}: {name}")


def pareto(shown: Shown) -> list[Value]:
    """The values that no other beats: none is at least as good in both x and value, and better in one of the two."""
    cost, gain = (1 if shown.better[0] != "more" else -1), (-1 if shown.better[1] == "less" else 1)
    return [shown.values[i] for i in sweep.pareto([(cost * float(v.x), gain * v.value) for v in shown.values])]


def _mark(axes: Axes, published: Sequence[tuple[float, float]]) -> None:
    """Published values."""
    if published:
        x, y = zip(*published, strict=True)
        axes.scatter(
            x,
            y,
            s=22,
            marker="D",
            facecolors="#ffffff",
            edgecolors=PUBLISHED,
            linewidths=0.9,
            zorder=5,
            label="published",
        )


def _track(axes: Axes, track: Track) -> legends.Entries:
    axes.set_title(track.panel.title)
    for j, (name, shares) in enumerate(track.shares.items()):
        axes.plot(track.times_ms, [100 * s for s in shares], linewidth=0.9, color=COLOURS[j % len(COLOURS)], label=name)
    axes.set_ylim(0, 105)
    axes.set_xlabel("time [ms]")
    axes.set_ylabel("busy [%]")
    return legends.Entries(*axes.get_legend_handles_labels())
