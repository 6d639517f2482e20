"""What an ACE costs on a die: area and power from the sizes of its parts.

Source: Table IV of the ACE paper (Rashidi et al., ISCA 2021; the same as Table 6 of its first version), synthesis in
28 nm. The rows are, in um2 and mW:

    ALU                       16112      7.552   one ALU; the total has four
    control unit             159803    128       all 16 FSMs
    4 x 1 MB of SRAM        5113696   4096
    switch, interconnect       1084      0.329
    ACE                     5339031   4255       4 x 16112 + 159803 + 5113696 + 1084, and 4254.537 mW

How the rows scale with the parameters of an ACE:

* SRAM: linearly in bytes. What more or fewer banks of the same size in all cost in periphery, the table does not
  separate, so their number has no effect.
* Control unit: linearly in FSMs. The first version (section 6) takes an FSM for 8 KB of SRAM. That is the row exactly:
  16 x 8 KiB are 1/32 of 4 MiB, and 1/32 of the SRAM's row is 159803 um2 and 128 mW. (This also says that the paper's KB
  and MB are powers of two.)
* ALUs: linearly in their number, each 64 B wide (16 FP32 or 32 FP16).
* Switch and interconnect: constant. One point says nothing about its growth with ports, and at 0.02 % of the total ten
  times the ports would not show.

Left out: the clock (the paper does not say which one was synthesised for), the width of ports and ALUs, port buffers,
DMA engines, and other technologies. The power is that of the synthesis. No activity factor is known, so that power
times time bounds the energy from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

TECHNOLOGY_NM: Final = 28
UM2_PER_MM2: Final = 10**6
MW_PER_W: Final = 10**3


@dataclass(frozen=True, slots=True)
class Cost:
    """Area in um2 and power in mW."""

    area_um2: Fraction
    power_mw: Fraction

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.area_um2 + other.area_um2, self.power_mw + other.power_mw)

    def __mul__(self, factor: Fraction | int) -> Cost:
        return Cost(self.area_um2 * factor, self.power_mw * factor)


ALU: Final = Cost(Fraction(16112), Fraction("7.552"))
"""One ALU of 64 B."""
SRAM: Final = Cost(Fraction(5113696), Fraction(4096))
"""`SRAM_BYTES` of SRAM."""
SRAM_BYTES: Final = 4 * 2**20
FSM_BYTES: Final = 8 * 2**10
"""The SRAM that an FSM is as large as."""
SWITCH: Final = Cost(Fraction(1084), Fraction("0.329"))
"""Switch and interconnect."""


def sram(size: int) -> Cost:
    """SRAM of `size` bytes."""
    return SRAM * Fraction(size, SRAM_BYTES)


def ace(*, sram_bytes: int, fsms: int, alus: int) -> Cost:
    """An ACE with so many bytes of SRAM, FSMs and ALUs."""
    return sram(sram_bytes) + sram(FSM_BYTES) * fsms + ALU * alus + SWITCH


def document(cost: Cost, total_s: float, iterations: int) -> dict[str, Any]:
    """The ACE of each NPU, of that cost, in the document of a run that took `total_s`.

    `iterations` is 0 for a collective on its own, which then counts as one.
    """
    area, power_w = float(cost.area_um2), float(cost.power_mw / MW_PER_W)
    each_s = total_s / max(1, iterations)
    per = "iteration" if iterations else "collective"
    return {
        "of": "the ACE of one NPU, as synthesised",
        "technology_nm": TECHNOLOGY_NM,
        "area_um2": area,
        "power_w": power_w,
        f"energy_per_{per}_j": power_w * each_s,
        "energy_means": "synthesised power x time, an upper bound: no activity factor is known",
        f"{per}s_per_s_per_mm2": 1 / each_s / (area / UM2_PER_MM2) if each_s else None,
    }
