"""How large flows are that arrive at random: cumulative distributions, by name or from a file.

A file has a point on each line, as the tools for such traffic have it: a size in bytes, and the share of all flows in
per cent that are no larger, with a comma or spaces between them; both never fall, and the last point has 100. Between
two points the distribution is a straight line. What the first point has above 0 are flows of exactly its size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from syncline.base.document import decode
from syncline.base.errors import InputError, Problem, shown

Point = tuple[int, int]
"""A size in bytes, and the millionths of all flows that are no larger."""

MILLION: Final = 1_000_000
MAX_BYTES: Final = 1024 * 1024
MOST_POINTS: Final = 10_000
LARGEST: Final = 2**40
LINE: Final = "a size in bytes and a share in per cent, such as 10000 15"
_LINE: Final = re.compile(r"([0-9]{1,13})(?:\s*,\s*|\s+)([0-9]{1,3})(?:\.([0-9]{1,4})0*)?")


def _of(points: str) -> tuple[Point, ...]:
    return tuple(_point(line) for line in points.split(";"))


def _point(line: str) -> Point:
    size, share = line.split()
    return int(size), int(Fraction(share) * 10_000)


NAMED: Final[dict[str, tuple[Point, ...]]] = {
    "websearch": _of(
        "0 0;10000 15;20000 20;30000 30;50000 40;80000 53;200000 60;1000000 70;2000000 80;5000000 90;10000000 97;"
        "30000000 100"
    ),
    "hadoop": _of(
        "0 0;100 1;200 2;300 5;350 15;400 20;500 30;600 40;700 50;1000 60;2000 67;7000 70;30000 72;50000 82;80000 87;"
        "120000 90;300000 95;1000000 97.5;2000000 99;10000000 100"
    ),
}
"""Distributions of sizes: of a cluster that searches the web (DCTCP, SIGCOMM 2010, figure 4), and of one that runs
Hadoop (Roy et al., "Inside the social network's (datacenter) network", SIGCOMM 2015, figure 6), with the points that
the evaluation of HPCC (SIGCOMM 2019) has of both."""
ACCEPTED: Final = (
    f"{', '.join(NAMED)}, or the path of a file, relative to the experiment file, with {LINE}, on each line"
)


@dataclass(frozen=True)
class Sizes:
    """A distribution."""

    name: str
    """What it is called, or the file as it was named."""
    points: tuple[Point, ...] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)
    """What is in the file, if it is one."""

    @property
    def mean(self) -> float:
        """The mean size in bytes."""
        first = self.points[0][0] * self.points[0][1]
        steps = zip(self.points, self.points[1:], strict=False)
        return (first + sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in steps)) / MILLION


def named(name: str) -> Sizes | None:
    """The distribution of a name, if there is one."""
    points = NAMED.get(name)
    return None if points is None else Sizes(name, points)


def read(content: bytes, file: str) -> Sizes:
    """Reads the content of a file. Raises [`InputError`] with the first line that is wrong."""
    points: list[Point] = []
    ends: int | None = None

    def refuse(at: int | None, value: object, message: str, accepted: str) -> InputError:
        return InputError([Problem(file, at, "", shown(value), message, accepted)])

    for line, text in enumerate(decode(content, file).split("\n"), start=1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise refuse(line, text.strip()[:60], "this is no point of a distribution", LINE)
        size, share = int(match[1]), int(match[2]) * 10_000 + int((match[3] or "0").ljust(4, "0"))
        if size > LARGEST or share > MILLION:
            raise refuse(line, text.strip(), "this is too large", f"up to {LARGEST} bytes and 100 per cent")
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise refuse(line, text.strip(), "this is below the point before", "sizes and shares that never fall")
        points.append((size, share))
        ends = line
        if len(points) > MOST_POINTS:
            raise refuse(line, None, "there are too many points", f"up to {MOST_POINTS}")
    if not points or points[-1][1] != MILLION or points[-1][0] == 0:
        last = None if not points else f"{points[-1][0]} {points[-1][1] / 10_000:g}"
        raise refuse(ends, last, "the distribution does not end", "a last point with a size and 100 per cent")
    return Sizes(file, tuple(points), content)
