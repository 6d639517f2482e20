"""Schedules for tests: the example, and copies of it with something changed."""

from __future__ import annotations

import re
from pathlib import Path

RING4 = (Path(__file__).parents[2] / "examples/plans/ring4.xml").read_text()

Place = tuple[int, int, int]
"""Rank, thread block, step."""


def _find(lines: list[str], place: Place) -> int:
    rank, block, step = place
    at = next(i for i, line in enumerate(lines) if f'<gpu id="{rank}"' in line)
    at = next(i for i in range(at, len(lines)) if f'<tb id="{block}"' in lines[i])
    return next(i for i in range(at, len(lines)) if f'<step s="{step}"' in lines[i])


def _set(line: str, attributes: dict[str, object]) -> str:
    for name, value in attributes.items():
        line, count = re.subn(rf' {name}="[^"]*"', f' {name}="{value}"', line)
        assert count == 1, name
    return line


def edit_step(text: str, place: Place, **attributes: object) -> str:
    """Changes attributes of a step."""
    lines = text.splitlines(keepends=True)
    at = _find(lines, place)
    lines[at] = _set(lines[at], attributes)
    return "".join(lines)


def edit_block(text: str, rank: int, block: int, **attributes: object) -> str:
    """Changes attributes of a thread block."""
    lines = text.splitlines(keepends=True)
    at = _find(lines, (rank, block, 0)) - 1
    lines[at] = _set(lines[at], attributes)
    return "".join(lines)


def edit_gpu(text: str, rank: int, **attributes: object) -> str:
    """Changes attributes of a rank."""
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if f'<gpu id="{rank}"' in line)
    lines[at] = _set(lines[at], attributes)
    return "".join(lines)


def edit_algo(text: str, **attributes: object) -> str:
    """Changes attributes of the schedule."""
    head, rest = text.split("\n", 1)
    return _set(head, attributes) + "\n" + rest


def _renumbered(lines: list[str]) -> str:
    number = 0
    for at, line in enumerate(lines):
        number = 0 if "<tb " in line else number
        if "<step " in line:
            lines[at] = _set(line, {"s": number})
            number += 1
    return "".join(lines)


def drop_step(text: str, place: Place) -> str:
    """Takes a step out; the others close up."""
    lines = text.splitlines(keepends=True)
    del lines[_find(lines, place)]
    return _renumbered(lines)


def double_step(text: str, place: Place, **attributes: object) -> str:
    """Puts a changed copy of a step before it."""
    lines = text.splitlines(keepends=True)
    at = _find(lines, place)
    lines.insert(at, _set(lines[at], attributes))
    return _renumbered(lines)


def add_block(text: str, rank: int, number: int, *steps: str, send: int = -1, recv: int = -1) -> str:
    """Adds a thread block at the end of a rank; steps are `type src dst`, such as `re i3 i3`."""
    written = []
    for s, step in enumerate(steps):
        kind, src, dst = step.split()
        places = f'srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" dstoff="{dst[1:]}"'
        written.append(f'<step s="{s}" type="{kind}" {places} cnt="1" depid="-1" deps="-1" hasdep="0"/>\n')
    block = f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">\n{"".join(written)}</tb>\n'
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if f'<gpu id="{rank}"' in line)
    end = next(i for i in range(at, len(lines)) if "</gpu>" in lines[i])
    lines.insert(end, block)
    return "".join(lines)
