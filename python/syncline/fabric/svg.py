"""Writes a drawing as SVG: one self-contained file, for light and dark backgrounds.

Colours are plain attributes of classes, and the dark ones override them where the viewer prefers dark; nothing is
loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from types import MappingProxyType
from typing import Final

from syncline.fabric.shapes import Box, Drawing, Frame, Text, Wire

MARGIN: Final = 28.0
TITLE_HEIGHT: Final = 56.0
LINE_HEIGHT: Final = 20.0
LEGEND_WIDTH: Final = 340.0
LEAST_WIDTH: Final = 520.0
LABEL_WIDTH: Final = 6.4
"""Of a letter, on average."""

COLOURS: Final = MappingProxyType(
    {
        "NVLink": "#2b8a3e",
        "NVSwitch": "#0c8599",
        "PCIe": "#7b8794",
        "QPI": "#d9730d",
        "UPI": "#d9730d",
        "xGMI": "#d9730d",
        "SMP": "#d9730d",
        "X-Bus": "#d9730d",
        "InfiniBand": "#7048e8",
        "C2C": "#c2255c",
    }
)
OTHER_COLOURS: Final = ("#1c7ed6", "#d9480f", "#2f9e44", "#9c36b5", "#c2255c", "#0b7285", "#a06a00", "#5c677d")

_STYLE: Final = """
text { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 12px; fill: #1f2933; }
.title { font-size: 16px; font-weight: 600; } .soft { fill: #5f6b7a; } .strong { font-weight: 600; }
.middle { text-anchor: middle; } .small { font-size: 10px; }
.ground { fill: #ffffff; } .gap { stroke: #ffffff; } .halo { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
.frame { fill: #f8f9fb; stroke: #d5dbe3; }
.npu { fill: #dbe9fd; stroke: #3b73c8; } .switch { fill: #e8f3ee; stroke: #3f8f72; }
.nic { fill: #efe9fd; stroke: #8566d6; } .cpu { fill: #fdf0dc; stroke: #c98a2b; }
.wire { fill: none; stroke-linecap: round; } .idle { opacity: 0.28; } rect.idle { stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ee; } .soft { fill: #a5afbd; }
.ground { fill: #14181f; } .gap { stroke: #14181f; } .halo { stroke: #14181f; }
.frame { fill: #1a2029; stroke: #36404e; }
.npu { fill: #1d3557; stroke: #6ea0ea; } .switch { fill: #173a30; stroke: #5fb897; }
.nic { fill: #2d2450; stroke: #a58df0; } .cpu { fill: #45320f; stroke: #dba550; }
}
"""


def render(drawing: Drawing) -> str:
    """The drawing as an SVG document."""
    left, top, right, bottom = drawing.extent()
    needed = max(LEAST_WIDTH, 9.2 * len(drawing.title), LABEL_WIDTH * len(drawing.subtitle))
    width = max(right - left, needed, *(LABEL_WIDTH * len(note) for note in drawing.notes or ("",))) + 2 * MARGIN
    per_row = max(1, int((width - 2 * MARGIN) // LEGEND_WIDTH))
    legend_rows = -(-len(drawing.legend) // per_row)
    below = MARGIN + TITLE_HEIGHT + (bottom - top) + 1.5 * MARGIN
    height = below + LINE_HEIGHT * (legend_rows + len(drawing.notes)) + MARGIN
    colours = _colours([kind for kind, _ in drawing.legend] + [wire.kind for wire in drawing.wires])
    shift_x, shift_y = (width - (right - left)) / 2 - left, MARGIN + TITLE_HEIGHT - top
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
        f'height="{_n(height)}" role="img">',
        f"<title>{escape(drawing.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_n(width)}" height="{_n(height)}"/>',
        f'<text class="title" x="{_n(MARGIN)}" y="{_n(MARGIN + 10)}">{escape(drawing.title)}</text>',
        f'<text class="soft" x="{_n(MARGIN)}" y="{_n(MARGIN + 30)}">{escape(drawing.subtitle)}</text>',
        f'<g transform="translate({_n(shift_x)} {_n(shift_y)})">',
        *(_frame(frame) for frame in drawing.frames),
        *(line for wire in drawing.wires for line in _wire(wire, colours)),
        *(line for box in drawing.boxes for line in _box(box)),
        *(_wire_label(wire) for wire in drawing.wires if wire.label),
        *(_text(text) for text in drawing.texts),
        "</g>",
        *_legend(drawing.legend, colours, per_row, below),
    ]
    for row, note in enumerate(drawing.notes):
        y = below + LINE_HEIGHT * (legend_rows + row)
        lines.append(f'<text class="soft" x="{_n(MARGIN)}" y="{_n(y)}">{escape(note)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _colours(kinds: Sequence[str]) -> dict[str, str]:
    """The colour of every class: its own, or the next of those that are left."""
    colours: dict[str, str] = {}
    for kind in dict.fromkeys(kinds):
        others = sum(known not in COLOURS for known in colours)
        colours[kind] = COLOURS.get(kind, OTHER_COLOURS[others % len(OTHER_COLOURS)])
    return colours


def _frame(frame: Frame) -> str:
    box = f'x="{_n(frame.x)}" y="{_n(frame.y)}" width="{_n(frame.width)}" height="{_n(frame.height)}"'
    label = (
        f'<text class="soft" x="{_n(frame.x + 10)}" y="{_n(frame.y + frame.height - 8)}">{escape(frame.label)}</text>'
    )
    return f'<rect class="frame" {box} rx="10"/>{label}'


def _wire(wire: Wire, colours: dict[str, str]) -> Iterator[str]:
    idle = " idle" if wire.idle else ""
    width = wire.width + 2.6 if wire.double else wire.width
    yield (
        f'<path class="wire{idle}" d="{wire.path}" stroke="{colours[wire.kind]}" stroke-width="{_n(width)}">'
        f"<title>{escape(wire.title)}</title></path>"
    )
    if wire.double:
        yield f'<path class="wire gap" d="{wire.path}" stroke-width="{_n(max(1.6, width / 3))}"/>'


def _box(box: Box) -> Iterator[str]:
    idle = " idle" if box.idle else ""
    place = f'x="{_n(box.x - box.width / 2)}" y="{_n(box.y - box.height / 2)}"'
    size = f'width="{_n(box.width)}" height="{_n(box.height)}"'
    yield f'<rect class="ground" {place} {size} rx="6"/>'
    yield f'<rect class="{box.kind}{idle}" {place} {size} rx="6"><title>{escape(box.title)}</title></rect>'
    if box.label:
        size = " small" if box.small else ""
        words = f'class="middle{size}{idle}" x="{_n(box.x)}" y="{_n(box.y + (3.5 if box.small else 4.2))}"'
        yield f'<text {words} pointer-events="none">{escape(box.label)}</text>'


def _wire_label(wire: Wire) -> str:
    place = f'x="{_n(wire.at[0])}" y="{_n(wire.at[1] + 4)}"'
    return f'<text class="middle small halo" {place} pointer-events="none">{escape(wire.label)}</text>'


def _text(text: Text) -> str:
    weight = " strong" if text.strong else " soft"
    return f'<text class="middle{weight}" x="{_n(text.x)}" y="{_n(text.y)}">{escape(text.text)}</text>'


def _legend(legend: Sequence[tuple[str, str]], colours: dict[str, str], per_row: int, top: float) -> Iterator[str]:
    for index, (kind, words) in enumerate(legend):
        x, y = MARGIN + index % per_row * LEGEND_WIDTH, top + index // per_row * LINE_HEIGHT
        line = f'x1="{_n(x)}" y1="{_n(y - 4)}" x2="{_n(x + 26)}" y2="{_n(y - 4)}"'
        yield f'<line {line} stroke="{colours[kind]}" stroke-width="4" stroke-linecap="round"/>'
        yield f'<text x="{_n(x + 36)}" y="{_n(y)}">{escape(words)}</text>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
