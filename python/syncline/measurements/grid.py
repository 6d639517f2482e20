"""Grids of matrix products that models of compute time are held against, and what a device is asked beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from syncline.sections.shapes import FORWARD, Kernel

POWERS: Final = tuple(2**i for i in range(6, 14))
"""64 to 8192."""
SPARSE: Final = (64, 256, 1024, 4096)
EDGES: Final = (1, 16, 63, 65, 96, 127, 129, 160, 192, 255, 257, 320, 384, 511, 513, 768, 1000, 1536, 3000, 3072, 6144)
"""Rows around the edges of tiles of 64, 128 and 256, and some that are no power of two."""
WIDE: Final = (5120, 12288, 28672, 50257, 51200)
"""Columns of language models: hidden sizes, a feed-forward layer, vocabularies without and with padding."""
LARGEST: Final = 2 * 8192**3
"""Operations of the largest product."""
LARGEST_FP32: Final = 2 * 4096**3
"""Of the largest without matrix units, which is 15 times slower."""


def products(dtypes: Iterable[str], *, full: bool) -> list[Kernel]:
    """Products of the given types. The first type gets the whole grid: all powers of two, edges of tiles, and waves
    (columns in steps of 128); others get one power of two in four, and a few waves.
    """
    found: list[Kernel] = []
    for index, dtype in enumerate(dtypes):
        shapes = _whole() if full and index == 0 else _sample()
        most = LARGEST_FP32 if dtype in ("fp32", "fp64") else LARGEST
        found += [Kernel("product", FORWARD, *s, dtype=dtype) for s in shapes if 2 * s[0] * s[1] * s[2] <= most]
    return list(dict.fromkeys(found))


def _whole() -> Iterator[tuple[int, int, int]]:
    """`(m, k, n)`."""
    yield from product(POWERS, POWERS, POWERS)
    for m, n, k in product(EDGES, (128, 1024, 4096), (1024, 4096)):
        yield m, k, n
    for k in (48, 100, 1000, 1023, 1536, 3000, 5120, 12288):  # terms that fill no step of a tile
        yield 1024, k, 1024
        yield 4096, k, 4096
    for n in range(128, 8192 + 1, 128):
        yield 1024, 4096, n
    for n in range(256, 8192 + 1, 256):
        yield 4096, 1024, n
        yield n, 4096, n
    for m, n in product((1024, 2048, 4096), WIDE):
        yield m, 5120, n


def _sample() -> Iterator[tuple[int, int, int]]:
    yield from product(SPARSE, SPARSE, SPARSE)
    yield 8192, 8192, 8192
    for n in range(256, 4096 + 1, 256):
        yield 1024, 2048, n


def device() -> list[Kernel]:
    """What launches cost, and how fast memory copies: 4 KiB to 1 GiB."""
    launches = [Kernel("launch", direction, 256, 0, 0, dtype="fp32") for direction in ("eager", "graph")]
    return [*launches, *(Kernel("copy", FORWARD, 2**i, 0, 0, dtype="fp32") for i in range(12, 31, 2))]
