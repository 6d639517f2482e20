"""What `nvidia-smi` says of the PCIe links of GPUs: the table of `--query-gpu`, or the text of `-q`.

    pcie.link.gen.max, pcie.link.width.max          PCIe Generation
    5, 16                                               Max                       : 5
                                                    Link Width
                                                        Max                       : 16x

The largest generation and width that GPU and machine can do together count: idle GPUs run with less, to save power.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from syncline.fabric.hardware import DEFAULT_PCIE_WIDTH, PCIE_GENERATIONS

GENERATION: Final = "pcie.link.gen.max"
WIDTH: Final = "pcie.link.width.max"
WIDTHS: Final = (1, 2, 4, 8, 12, 16, 32)

_GENERATION = re.compile(r"PCIe Generation\s+Max\s*:\s*([0-9]{1,2})", re.ASCII)
_WIDTH = re.compile(r"Link Width\s+Max\s*:\s*([0-9]{1,2})x", re.ASCII)


def pcie_links(text: str) -> list[tuple[Fraction, int]]:
    """GT/s per lane and lanes of the PCIe link of every GPU, in order of the GPUs; none where it does not say so."""
    found = _of_table(text.split("\n")) or _of_text(text)
    links = [(PCIE_GENERATIONS.get(generation), width) for generation, width in found]
    return [(speed, width) for speed, width in links if speed is not None and width in WIDTHS]


def _of_table(lines: Sequence[str]) -> list[tuple[int, int]]:
    header = next((number for number, line in enumerate(lines) if GENERATION in line), None)
    if header is None:
        return []
    columns = [column.strip() for column in lines[header].split(",")]
    found = []
    for line in lines[header + 1 :]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(columns):
            break
        values = dict(zip(columns, cells, strict=True))
        found.append((_number(values.get(GENERATION, "")), _number(values.get(WIDTH, str(DEFAULT_PCIE_WIDTH)))))
    return found


def _of_text(text: str) -> list[tuple[int, int]]:
    generations = [int(found) for found in _GENERATION.findall(text)]
    widths = [int(found) for found in _WIDTH.findall(text)]
    return list(zip(generations, widths, strict=False)) if len(generations) == len(widths) else []


def _number(text: str) -> int:
    """A whole number; 0 for what is none, such as `[N/A]`."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 2 else 0
