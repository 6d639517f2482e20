"""Which GPUs have constants of their own, which take those of another one, and how far these may be off.

Of a *calibrated* GPU kernels were measured. The constants are fractions of published rates and times of single SMs, so
that another GPU takes those of a calibrated one with its own SMs, clock, rates and limit of power: it is *scaled*, and
what that leaves out is a range (`range_of`). Attention of a library that was not measured takes the constants of
another one, at a rate that was published (`STANDS_FOR`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal

import yaml

from syncline.fabric.gpus import Gpu

Attention = Literal["flash1", "flash2", "flash3", "cudnn", "unfused"]

CALIBRATED: Final[Mapping[str, str]] = {"h100": "h100", "h200": "h200"}
"""GPUs whose kernels were measured, and the files of their constants."""
SCALED: Final[Mapping[str, str]] = {
    "v100-16gb": "h100",
    "v100-32gb": "h100",
    "a100-40gb": "a100",
    "a100-80gb": "a100",
    "a100-pcie-40gb": "a100",
    "a100-pcie-80gb": "a100",
    "h100-pcie": "h100",
    "h100-nvl": "h100",
    "b200": "h100",
    "gb200": "h100",
}
"""GPUs that take the constants of another one, and the files of these."""
RANGE: Final = 0.25
"""How far times of kernels of a scaled GPU may be off, either way, where nothing holds them: assumed."""
HELD: Final[Mapping[str, float]] = {"a100-40gb": 0.2, "a100-80gb": 0.2}
"""The same of GPUs that published iterations hold: nine of ten that do not wait for hosts (docs/validation.md)."""
A100: Final = ("a100-40gb", "a100-80gb", "a100-pcie-40gb", "a100-pcie-80gb")
ACHIEVED: Final[Mapping[str, tuple[float, float | None]]] = {
    **dict.fromkeys(A100, (0.869, None)),
    **dict.fromkeys(("h100", "h100-pcie", "h100-nvl"), (0.803, 0.709)),
    "h200": (0.803, 0.734),
    "b200": (0.776, 0.763),
    "gb200": (0.729, 0.723),
}
"""What the best matrix products reach of the peak in BF16, and in FP8 if the GPU has it: Bekman, "Machine Learning
Engineering", accelerators, table of maximum achievable matmul FLOPS (2025, PyTorch 2.6 to 2.10). Only ratios of them
are used: tensor cores of one generation, or of one type, keep busy better than those of another. Variants with a lower
limit of power have the share of the one with the highest, since the limit is in the model."""
SPREAD: Final = 0.035
"""Standard deviation among GPUs of one kind of the energy of an operation, as a share. Products of the 8 GPUs of a
server differ by 5 % (Bekman, "Not all accelerators are created equal"; 8 % of V100 in Sinha et al., SC 2022); eight
normal values lie within 2.85 deviations, and at the limit of power a rate goes with the root of the energy."""
LIBRARIES: Final[Mapping[str, tuple[Attention, ...]]] = {
    "v100-16gb": ("unfused",),
    "v100-32gb": ("unfused",),
    **dict.fromkeys(A100, ("flash2", "flash1", "unfused")),
    **dict.fromkeys(("h100", "h200", "h100-pcie", "h100-nvl"), ("cudnn", "flash1", "flash2", "flash3", "unfused")),
    **dict.fromkeys(("b200", "gb200"), ("cudnn", "flash2", "unfused")),
}
"""Implementations of attention that there are for a GPU, the one first that PyTorch's `scaled_dot_product_attention`
takes (PyTorch 2.11 prefers cuDNN from Hopper on). FlashAttention 2 begins with the A100, 3 is for Hopper."""
STANDS_FOR: Final[Mapping[Attention, tuple[Attention, float]]] = {"flash1": ("flash2", 0.5), "flash3": ("cudnn", 1.0)}
"""What is taken for an implementation that was not measured, at which part of its rate. FlashAttention 2 is twice as
fast as the first one and as that of Triton (Dao, "FlashAttention-2", 2023, abstract and section 4.1). FlashAttention 3
in BF16 is within a few percent of cuDNN's attention forward, and about as fast backward (Shah et al.,
"FlashAttention-3", 2024, Figs. 5 and 6)."""


def is_known(gpu: str | None) -> bool:
    """Whether there are constants for a GPU; there are none for none."""
    return gpu in CALIBRATED or gpu in SCALED


def base(gpu: str) -> str:
    """The file of the constants of a GPU. Raises `KeyError` if there are none."""
    return CALIBRATED[gpu] if gpu in CALIBRATED else SCALED[gpu]


def measured_on(gpu: str) -> str:
    """The GPU whose kernels were measured for the constants of another. Raises `KeyError` if there are none."""
    file = base(gpu)
    return str(_read(file).get("like", file))


def range_of(gpu: str) -> float:
    """How far times of kernels of a scaled GPU may be off, either way."""
    return HELD.get(gpu, RANGE)


@cache
def _read(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text())
    return found


@cache
def constants(name: str) -> Mapping[str, Any]:
    """The constants in a file, and those of the file that it names beside its own."""
    found = _read(name)
    if "like" not in found:
        return found
    others = constants(found["like"])
    return {**others, **{key: others[key] | value for key, value in found.items() if key != "like"}}


@dataclass(frozen=True, slots=True)
class Use:
    """What decides on the kernels of a GPU."""

    sms: int
    width: int
    """Bytes of an element of the factors of products."""
    peak: float
    """FLOP/s of products."""
    attention: Attention
    power: int
    """Watts that it may draw."""
    gpus: int
    """GPUs that wait for each other, of which the slowest sets the pace."""


def model(gpu: Gpu, use: Use) -> dict[str, Any]:
    """The engine's description of a GPU (`compute::gpu::Gpu`). Raises `KeyError` if there are no constants."""
    found = constants(base(gpu.name))
    of_power = dict(found["power"])
    share = gpu.power / found["power"]["limit_w"]
    faster = _faster(gpu.name, use.width)
    # An SM takes in as many bytes of operands in a step, and as much energy in a second, whatever the type of elements.
    on_sms = {"sms": use.sms, "depth": HALF * found["products"]["depth"] // use.width}
    on_sms["sustained"] = found["products"]["sustained"] * faster
    convolutions = found["convolutions"]
    flops = use.peak / of_power.pop("peak") * faster
    of_power |= {
        "limit_w": float(use.power),
        "idle_w": of_power["idle_w"] * share,
        "per_flop_pj": of_power["per_flop_pj"] * share / flops * of_slowest(use.gpus),
        "streaming_w": of_power["streaming_w"] * share,
    }
    library, rate = STANDS_FOR.get(use.attention, (use.attention, 1.0))
    of_library = dict(found["attention"].get(library, next(iter(found["attention"].values()))))
    of_library["sustained"] = [rate * sustained for sustained in of_library["sustained"]]
    return {
        "kind": "gpu",
        "products": found["products"] | on_sms,
        "convolutions": convolutions | {"products": convolutions["products"] | on_sms},
        "attention": of_library,
        "memory": found["memory"],
        "power": of_power,
    }


def _faster(gpu: str, width: int) -> float:
    """How many times the measured GPU's share of its peak in BF16 products of a GPU reach."""
    half, narrow = ACHIEVED.get(gpu, (None, None))
    achieved = half if width >= HALF else narrow
    measured, _ = ACHIEVED[measured_on(gpu)]
    return 1.0 if achieved is None else achieved / measured


def of_slowest(gpus: int) -> float:
    """The energy of an operation on the slowest of some GPUs, of the mean: that of the largest of normal values (Blom,
    "Statistical estimates and transformed beta-variables", 1958).
    """
    return 1 + SPREAD * NormalDist().inv_cdf((gpus - 0.375) / (gpus + 0.25))


HALF: Final = 2
"""Bytes of an element of the products that constants were fitted to."""
