"""Draws the results of the demo for README and the site: `python -m website.picture > docs/assets/demo.svg`.

A bar for each system, divided into compute and exposed communication. Colours follow the reader's choice of dark or
light pages, and letters are large enough for a telephone.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

import syncline

STUDY: Final = "ace/resnet50"
TITLE: Final = "An iteration of ResNet-50 on 128 NPUs"
WIDTH: Final = 480
_LEFT, _RIGHT, _BAR, _STEP, _TOP = 150, 72, 20, 32, 62

_STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; }
  .paper { fill: #ffffff; }
  .title { font-weight: 600; }
  .number { font-variant-numeric: tabular-nums; }
  .compute { fill: #3f6fb5; }
  .exposed { fill: #d9822b; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #161b22; }
    text { fill: #e6edf3; }
    .compute { fill: #6f9fe0; }
    .exposed { fill: #f0a050; }
  }
"""


@dataclass(frozen=True)
class Bar:
    """A system, with the times of an iteration in milliseconds."""

    name: str
    compute: float
    exposed: float

    @property
    def total(self) -> float:
        """The length of the bar."""
        return self.compute + self.exposed


def drawing(bars: list[Bar], title: str) -> str:
    """The picture as SVG."""
    height = _TOP + _STEP * len(bars) + 2
    scale = (WIDTH - _LEFT - _RIGHT) / max(bar.total for bar in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="12" y="18">{escape(title)}</text>',
        '<rect class="compute" x="12" y="32" width="14" height="14" rx="2"/><text x="32" y="44">compute</text>',
        '<rect class="exposed" x="116" y="32" width="14" height="14" rx="2"/>'
        '<text x="136" y="44">exposed communication</text>',
    ]
    for number, bar in enumerate(bars):
        top = _TOP + _STEP * number
        middle = top + _BAR / 2 + 5
        compute, exposed = bar.compute * scale, bar.exposed * scale
        parts += [
            f'<text x="12" y="{middle:g}">{escape(bar.name)}</text>',
            f'<rect class="compute" x="{_LEFT}" y="{top}" width="{compute:.1f}" height="{_BAR}"/>',
            f'<rect class="exposed" x="{_LEFT + compute:.1f}" y="{top}" width="{exposed:.1f}" height="{_BAR}"/>',
            f'<text class="number" x="{_LEFT + compute + exposed + 6:.1f}" y="{middle:g}">{bar.total:.2f} ms</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def bars() -> list[Bar]:
    """The systems of the demo, simulated."""
    systems = syncline.run(STUDY, progress=False).systems
    return [
        Bar(name, 1e3 * (one.compute_time_s or 0) / one.iterations, 1e3 * (one.exposed_comm_s or 0) / one.iterations)
        for name, one in systems.items()
        if one.iterations
    ]


if __name__ == "__main__":
    print(drawing(bars(), TITLE), end="")
