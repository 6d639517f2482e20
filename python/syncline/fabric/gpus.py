"""GPUs that are known by name, as their vendor publishes them.

Peaks are dense (no structured sparsity), of tensor cores where the GPU has them for a data type, else of its vector
units; a multiply-accumulate is two operations. They are what the arithmetic units can do at the clock below, which no
kernel reaches. `bf16` and `tf32` exist from the A100 on, `fp8` from the H100 on.

Sources, all of NVIDIA:

P100    data sheet of the Tesla P100 (SXM2) and the white paper of the Pascal architecture: 56 SMs, 1480 MHz, 732 GB/s;
        no tensor cores: FP16 runs at twice the rate of FP32 on the vector units
V100    data sheet of the Tesla V100 (SXM2, 16 and 32 GB), white paper of the Volta architecture: 80 SMs, 1530 MHz
A100    data sheet of the A100 (SXM4, 40 and 80 GB) and the white paper of the Ampere architecture: 108 SMs, 1410 MHz
H100    white paper of the Hopper architecture (SXM5): 132 SMs, 1830 MHz with tensor cores (1980 MHz without), 3.35 TB/s
H200    data sheet of the H200 (SXM): an H100 with 141 GB and 4.8 TB/s
PCIe    data sheets and product briefs of the A100 PCIe (40 and 80 GB), the H100 PCIe (114 SMs, 2 TB/s) and the H100 NVL
        (132 SMs, 3.9 TB/s); clocks are those at which their SMs come to the peak
B200    data sheets of the DGX B200 (eight GPUs: 1,440 GB, 64 TB/s, 72 PFLOP/s FP8 with sparsity) and the HGX B200
GB200   data sheet of the GB200 NVL72 (72 GPUs: 13.4 TB, 576 TB/s, 360 PFLOP/s FP16 and 720 PFLOP/s FP8 with sparsity)

Memory is what CUDA reports as a device's total, in GiB as PyTorch prints it when it runs out ("total capacity"): what
error correction and the driver keep for themselves is not in it, and it is less than `nvidia-smi` shows. It differs by
up to 0.5 GiB between drivers. From such messages in public bug reports and logs, among them haotian-liu/LLaVA#812
(V100 of 32 GB), levihsu/OOTDiffusion#235 (A100 of 80 GB: 79.25), vllm-project/vllm#27508 (H100: 79.11),
ali-vilab/VACE#56 (H100 NVL: 93.00) and pytorch/ao#4002 (B200). Data sheets state 80 GB for what is
nearly 80 GiB, and other sizes likewise.

SMs and clocks of the Blackwell GPUs are in no data sheet. The numbers of SMs, 148 and 152, are what the driver reports.
Clocks are those at which 8,192 FP16 operations per SM and cycle, twice those of Hopper, come to the peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Precision: TypeAlias = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]

WIDTHS: Final[Mapping[Precision, int]] = MappingProxyType(
    {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
)
"""Data types that kernels compute in, with the bytes that an element has in memory."""
BY_WIDTH: Final[Mapping[int, Precision]] = MappingProxyType({8: "fp64", 4: "fp32", 2: "fp16", 1: "fp8"})
"""What elements of so many bytes are computed in, if nothing is said: TF32 has to be asked for."""
NARROW: Final[Mapping[Precision, Precision]] = MappingProxyType({"fp8": "bf16"})
"""Data types that act on products of linear layers only, and what everything else is computed and kept in meanwhile:
attention, other kernels, weights, gradients, activations and messages."""

TFLOPS: Final = 10**12
GB: Final = 10**9
MIB: Final = 2**20
MIB_PER_GIB: Final = 1024
MHZ: Final = 10**6


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its vendor builds it."""

    name: str
    """As `npu.gpu` has it."""
    title: str
    sms: int
    clock: int
    """Hertz at which the peak of its fastest 16-bit units holds."""
    memory_bandwidth: int
    """Bytes per second."""
    memory: int
    """Bytes in all that a program can have, its CUDA context included."""
    power: int
    """Watts that it may draw, as it comes."""
    peaks: Mapping[Precision, int]
    """FLOP/s by data type; those that the GPU has no units for are missing."""

    def precision(self, element: int) -> Precision:
        """What elements of so many bytes are computed in: their own type, or the next wider one that there is."""
        wide_enough = [BY_WIDTH[width] for width in sorted(BY_WIDTH) if width >= element]
        return next((precision for precision in wide_enough if precision in self.peaks), "fp64")

    def __reduce__(self) -> tuple[Callable[[str], Gpu], tuple[str]]:
        """Goes to worker processes by its name, as read-only mappings cannot."""
        return _named, (self.name,)


def element_bytes(precision: Precision) -> int:
    """Bytes of an element of weights, gradients and activations in training with a data type."""
    return WIDTHS[NARROW.get(precision, precision)]


def linear_bytes(precision: Precision | None, element: int) -> int | None:
    """Bytes of an element of the factors of linear layers' products, beside elements of so many bytes, if products
    have a data type of their own.
    """
    return min(element, WIDTHS[precision]) if precision is not None and precision in NARROW else None


def _gpu(
    names: tuple[str, str], chip: tuple[int, int, int], memory: tuple[int, float], peaks: dict[Precision, float]
) -> Gpu:
    """A GPU of so many SMs, MHz and W, GB/s and GiB (to the nearest MiB), with peaks in TFLOP/s."""
    (name, title), (sms, mhz, power), (bandwidth, gib) = names, chip, memory
    rates = {precision: round(peak * TFLOPS) for precision, peak in peaks.items()}
    size = round(gib * MIB_PER_GIB) * MIB
    return Gpu(name, title, sms, mhz * MHZ, bandwidth * GB, size, power, MappingProxyType(rates))


_VOLTA: Final[dict[Precision, float]] = {"fp64": 7.8, "fp32": 15.7, "fp16": 125}
_AMPERE: Final[dict[Precision, float]] = {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312}
_HOPPER: Final[dict[Precision, float]] = {
    "fp64": 66.9,
    "fp32": 66.9,
    "tf32": 494.7,
    "fp16": 989.4,
    "bf16": 989.4,
    "fp8": 1978.9,
}
_H100_PCIE: Final[dict[Precision, float]] = {"fp64": 51, "fp32": 51, "tf32": 378, "fp16": 756, "bf16": 756, "fp8": 1513}
_H100_NVL: Final[dict[Precision, float]] = {
    "fp64": 60,
    "fp32": 60,
    "tf32": 417.5,
    "fp16": 835.5,
    "bf16": 835.5,
    "fp8": 1670.5,
}
_B200: Final[dict[Precision, float]] = {"fp64": 37, "fp32": 75, "tf32": 1125, "fp16": 2250, "bf16": 2250, "fp8": 4500}
_GB200: Final[dict[Precision, float]] = {"fp64": 40, "fp32": 80, "tf32": 1250, "fp16": 2500, "bf16": 2500, "fp8": 5000}


def _by_name(gpus: Iterable[Gpu]) -> Mapping[str, Gpu]:
    return MappingProxyType({gpu.name: gpu for gpu in gpus})


GPUS: Final = _by_name(
    (
        _gpu(("p100", "NVIDIA P100 SXM2"), (56, 1480, 300), (732, 15.90), {"fp64": 5.3, "fp32": 10.6, "fp16": 21.2}),
        _gpu(("v100-16gb", "NVIDIA V100 SXM2 16 GB"), (80, 1530, 300), (900, 15.78), _VOLTA),
        _gpu(("v100-32gb", "NVIDIA V100 SXM2 32 GB"), (80, 1530, 300), (900, 31.74), _VOLTA),
        _gpu(("a100-40gb", "NVIDIA A100 SXM4 40 GB"), (108, 1410, 400), (1555, 39.39), _AMPERE),
        _gpu(("a100-80gb", "NVIDIA A100 SXM4 80 GB"), (108, 1410, 400), (2039, 79.15), _AMPERE),
        _gpu(("a100-pcie-40gb", "NVIDIA A100 PCIe 40 GB"), (108, 1410, 250), (1555, 39.39), _AMPERE),
        _gpu(("a100-pcie-80gb", "NVIDIA A100 PCIe 80 GB"), (108, 1410, 300), (1935, 79.15), _AMPERE),
        _gpu(("h100-pcie", "NVIDIA H100 PCIe"), (114, 1620, 350), (2000, 79.10), _H100_PCIE),
        _gpu(("h100-nvl", "NVIDIA H100 NVL"), (132, 1545, 400), (3938, 93.00), _H100_NVL),
        _gpu(("h100", "NVIDIA H100 SXM5"), (132, 1830, 700), (3350, 79.18), _HOPPER),
        _gpu(("h200", "NVIDIA H200 SXM5"), (132, 1830, 700), (4800, 139.81), _HOPPER),
        _gpu(("b200", "NVIDIA B200"), (148, 1856, 1000), (8000, 178.35), _B200),
        _gpu(("gb200", "NVIDIA GB200"), (152, 2008, 1200), (8000, 184.31), _GB200),
    )
)
"""The GPUs, by name."""


def _named(name: str) -> Gpu:
    return GPUS[name]
