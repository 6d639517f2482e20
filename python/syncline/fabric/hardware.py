"""Rates and latencies of interconnects: published figures, and assumptions where there are none.

NVLink     one link and direction: 20 GB/s (1st generation, P100), 25 GB/s (2nd to 4th, V100 to H100), 50 GB/s (5th,
           B200); NVIDIA's architecture white papers. GA10x cards have four links of 14.0625 GB/s.
PCIe       raw signalling over all lanes, of which payload gets 82 % from the third generation on and 67 % before:
           128b/130b coding (before: 8b/10b), 24 bytes of header and framing for every 256 of payload, and 8 % for
           acknowledgements and flow control (Neugebauer et al., "Understanding PCIe performance for end host
           networking", SIGCOMM 2018). That is 13.1 GB/s for gen 3 x16, 26.2 for gen 4 and 52.5 for gen 5, a little
           more than the InfiniBand ports carry that are plugged into them. NCCL's model of the machine, which chooses
           among paths, counts 75 % (12 GB/s for gen 3 x16), although ports of 100 Gb/s reach 12.2 GB/s over it.
sockets    between the CPUs of a machine: raw signalling of QPI at 9.6 GT/s; payload is what NCCL's model counts for
           GPU traffic, which is far less (6 GB/s on Broadwell).
C2C        NVLink-C2C between a Grace CPU and the two GPUs of a GB200: 900 GB/s, both directions and GPUs together.
InfiniBand EDR 100, HDR 200, NDR 400 Gb/s per port and direction, all of it payload: headers take 2 %.

Latencies are those of one link with the switch behind it. Vendors publish them for switches only: 115 to 150 ns for
PCIe, 90 to 150 ns for InfiniBand. Nothing is published for NVLink, between sockets, and for what NICs and cables add.
So all latencies are assumptions, and are listed as such. Between GPUs that share both, NVSwitches are nearer than PCIe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from syncline.base import quantities

GB: Final = 10**9
NS: Final = 10**3

NVLINK_LATENCY: Final = 500 * NS
"""GPU to GPU over a direct NVLink."""
NVSWITCH_LATENCY: Final = 300 * NS
"""GPU to NVSwitch, or the other way."""
PCIE_LATENCY: Final = 400 * NS
"""One PCIe link and the switch or device behind it."""
SOCKET_LATENCY: Final = 200 * NS
"""One hop between CPUs."""
NETWORK_LATENCY: Final = 500 * NS
"""One network link with the NIC or switch behind it."""

PCIE_EFFICIENCY: Final = Fraction(82, 100)
OLD_PCIE_EFFICIENCY: Final = Fraction(67, 100)
"""Of the first two generations, with 8b/10b coding."""
C2C_RATE: Final = 225 * GB
"""Bytes per second of NVLink-C2C between a CPU and one of its GPUs, in one direction."""
PCIE_GENERATIONS: Final = MappingProxyType(
    {1: Fraction(5, 2), 2: Fraction(5), 3: Fraction(8), 4: Fraction(16), 5: Fraction(32), 6: Fraction(64)}
)
"""GT/s per lane."""
DEFAULT_PCIE_GT: Final = PCIE_GENERATIONS[3]
DEFAULT_PCIE_WIDTH: Final = 16
MAX_PCIE_GT: Final = 256

NVLINK_RATES: Final = MappingProxyType({60: 20 * GB, 70: 25 * GB, 80: 25 * GB, 86: 14_062_500_000, 90: 25 * GB})
"""Bytes per second of one NVLink and direction, by compute capability (times ten)."""
BLACKWELL_SM: Final = 100
BLACKWELL_NVLINK_RATE: Final = 50 * GB
DEFAULT_NVLINK_RATE: Final = 25 * GB


@dataclass(frozen=True, slots=True)
class Socket:
    """What connects the CPUs of a machine."""

    kind: str
    rate: int
    efficiency: Fraction


QPI: Final = Socket("QPI", 19_200_000_000, Fraction(6 * GB, 19_200_000_000))
"""Intel up to Broadwell: 9.6 GT/s x 2 bytes, of which GPU traffic gets 6 GB/s."""
UPI: Final = Socket("UPI", 20_800_000_000, Fraction(10 * GB, 20_800_000_000))
"""Intel Skylake to Ice Lake: 10.4 GT/s x 2 bytes; 10 GB/s for GPU traffic."""
UPI_2: Final = Socket("UPI", 48 * GB, Fraction(22, 48))
"""Intel Sapphire Rapids: 16 GT/s x 3 bytes; 22 GB/s for GPU traffic."""
XGMI: Final = Socket("xGMI", 36 * GB, Fraction(16, 36))
"""AMD: 18 GT/s x 2 bytes; 16 GB/s for GPU traffic."""
OTHER_SOCKET: Final = Socket("SMP", 6 * GB, Fraction(1))
"""Anything else: 6 GB/s, as NCCL counts it for Arm."""
POWER_SOCKET: Final = Socket("X-Bus", 32 * GB, Fraction(1))
"""POWER9: 32 GB/s."""

SKYLAKE_MODEL: Final = 85
SAPPHIRE_RAPIDS_MODEL: Final = 143

_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) *GT/s(?: PCIe)?")


def nvlink_rate(sm: int | None) -> int:
    """Bytes per second of one NVLink and direction of a GPU, by its compute capability (times ten)."""
    if sm is None:
        return DEFAULT_NVLINK_RATE
    if sm >= BLACKWELL_SM:
        return BLACKWELL_NVLINK_RATE
    return NVLINK_RATES[max((known for known in NVLINK_RATES if known <= sm), default=60)]


def pcie_speed(text: str) -> Fraction | None:
    """GT/s per lane of a speed as the kernel and NCCL write it, such as `32.0 GT/s PCIe`; nothing, if it is none."""
    match = _SPEED.fullmatch(text.strip())
    per_lane = Fraction(match[1]) if match else Fraction(0)
    return per_lane if 0 < per_lane <= MAX_PCIE_GT else None


def pcie_rate(per_lane: Fraction | int, width: int = DEFAULT_PCIE_WIDTH) -> tuple[int, Fraction]:
    """Bytes per second of a PCIe link on the wire, by GT/s per lane and lanes, and the share of payload."""
    efficiency = PCIE_EFFICIENCY if per_lane >= PCIE_GENERATIONS[3] else OLD_PCIE_EFFICIENCY
    return int(per_lane * width * GB / 8), efficiency


def pcie_name(per_lane: Fraction) -> str:
    """Such as `gen 5`, or `12 GT/s`."""
    generation = next((number for number, speed in PCIE_GENERATIONS.items() if speed == per_lane), None)
    return f"{float(per_lane):g} GT/s" if generation is None else f"gen {generation}"


def socket(arch: str, vendor: str, model: int) -> Socket:
    """What connects CPUs of a kind (`familyid` is not needed to tell them apart)."""
    if arch.startswith("ppc"):
        return POWER_SOCKET
    if vendor == "GenuineIntel":
        if model >= SAPPHIRE_RAPIDS_MODEL:
            return UPI_2
        return UPI if model >= SKYLAKE_MODEL else QPI
    return XGMI if vendor == "AuthenticAMD" else OTHER_SOCKET


def share_assumptions(links: Iterable[tuple[str, int, Fraction]]) -> Iterator[str]:
    """What payload is assumed to get of links, which are classes, rates on the wire and shares, where it is not all."""
    for kind, rate, efficiency in dict.fromkeys(links):
        if efficiency != 1:
            share = f"{float(100 * efficiency):.4g} %"
            yield f"links of class {kind} carry {gb(rate * efficiency)} of payload, {share} of {gb(rate)} on the wire"


def gb(rate: int | Fraction) -> str:
    """A rate in GB/s."""
    return f"{float(rate) / GB:g}GB/s"


def latency_assumption(kind: str, latency: int) -> str:
    """The assumption about the latency of links of a class."""
    return f"links of class {kind} take {quantities.TIME.format(latency)} each"
