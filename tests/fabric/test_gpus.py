"""GPUs against numbers that they were not entered from: totals of whole machines, and units times clock."""

from __future__ import annotations

from typing import get_args

import pytest

from syncline.fabric import gpu_products
from syncline.fabric.gpus import BY_WIDTH, GPUS, WIDTHS, Precision
from syncline.fabric.machines import MACHINES
from syncline.sections.npu import GpuName

PFLOPS = 1e15
SPARSE = 2
"""Published totals from the H100 on are with structured sparsity, which doubles the rate."""


@pytest.mark.parametrize(
    ("machine", "precision", "pflops"),
    [
        ("dgx1p", "fp16", 0.170),
        ("dgx1v", "fp16", 1.0),
        ("dgx2", "fp16", 2.0),
        ("dgx-a100", "fp16", 5 / SPARSE),
        ("dgx-h100", "fp8", 32 / SPARSE),
        ("dgx-h200", "fp8", 32 / SPARSE),
        ("dgx-b200", "fp8", 72 / SPARSE),
        ("gb200-nvl72", "fp8", 720 / SPARSE),
        ("gb200-nvl72", "fp16", 360 / SPARSE),
        ("gb200-nvl72", "tf32", 180 / SPARSE),
    ],
)
def test_the_peak_of_a_whole_machine(machine: str, precision: Precision, pflops: float) -> None:
    found = MACHINES[machine]
    assert found.gpus * found.gpu.peaks[precision] == pytest.approx(pflops * PFLOPS, rel=0.015)


@pytest.mark.parametrize(
    ("machine", "gigabytes"),
    [
        *(("dgx1p", 128), ("dgx1v", 256), ("dgx2", 512), ("dgx-a100", 640)),
        *(("dgx-h100", 640), ("dgx-h200", 1128), ("dgx-b200", 1440), ("gb200-nvl72", 13_400)),
    ],
)
def test_the_memory_of_a_whole_machine(machine: str, gigabytes: int) -> None:
    """What is sold as GB are nearly as many GiB, of which the driver and error correction take some."""
    found = MACHINES[machine]
    assert 0.985 <= found.gpus * found.gpu.memory / (gigabytes * 2**30) < 1


@pytest.mark.parametrize(
    ("gpu", "gigabytes_per_s"),
    [
        *(("p100", 732), ("v100-16gb", 900), ("v100-32gb", 900), ("a100-40gb", 1555), ("a100-80gb", 2039)),
        *(("h100", 3350), ("h200", 4800), ("b200", 64_000 / 8), ("gb200", 576_000 / 72)),
    ],
)
def test_memory_bandwidths(gpu: str, gigabytes_per_s: float) -> None:
    assert GPUS[gpu].memory_bandwidth == gigabytes_per_s * 1e9


@pytest.mark.parametrize(
    ("gpu", "operations"),
    [
        ("p100", 64 * 2 * 2),  # cores, multiply and add, two halves in each
        ("v100-32gb", 8 * 64 * 2),  # tensor cores of 4 x 4 x 4
        ("a100-80gb", 4 * 256 * 2),
        ("h100", 4 * 512 * 2),
        ("h200", 4 * 512 * 2),
        ("b200", 4 * 1024 * 2),
        ("gb200", 4 * 1024 * 2),
    ],
)
def test_the_peak_is_what_the_units_do_at_the_clock(gpu: str, operations: int) -> None:
    found = GPUS[gpu]
    assert found.peaks["fp16"] == pytest.approx(found.sms * operations * found.clock, rel=0.004)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_narrower_types_are_no_slower(gpu: object) -> None:
    peaks = GPUS[str(getattr(gpu, "name", ""))].peaks
    ordered = [peaks[name] for name in ("fp64", "fp32", "tf32", "fp16", "fp8") if name in peaks]
    assert ordered == sorted(ordered)
    assert peaks.get("bf16", peaks["fp16"]) == peaks["fp16"]


def test_units_that_came_with_a_generation() -> None:
    assert {name for name, gpu in GPUS.items() if "bf16" not in gpu.peaks} == {"p100", "v100-16gb", "v100-32gb"}
    assert {name for name, gpu in GPUS.items() if "fp8" in gpu.peaks} == {
        *("h100-pcie", "h100-nvl", "h100", "h200", "b200", "gb200")
    }


def test_elements_are_computed_in_their_own_type_or_a_wider_one() -> None:
    for gpu in GPUS.values():
        for width in BY_WIDTH:
            precision = gpu.precision(width)
            assert precision in gpu.peaks
            assert WIDTHS[precision] >= width
    assert [GPUS["a100-40gb"].precision(width) for width in (1, 2, 4, 8)] == ["fp16", "fp16", "fp32", "fp64"]
    assert GPUS["h100"].precision(1) == "fp8"


def test_the_schema_knows_them() -> None:
    assert get_args(GpuName) == tuple(GPUS)
    assert {machine.gpu.name for machine in MACHINES.values()} <= set(GPUS)


def test_products_have_figures_that_are_known_and_ids_of_their_own() -> None:
    products = gpu_products.PRODUCTS
    assert {product.gpu for product in products} - {None} == set(GPUS)
    ids = [device for product in products for device in product.ids]
    assert len(ids) == len(set(ids))
    for product in products:
        assert product.gpu is None or GPUS[product.gpu].memory == pytest.approx(product.memory * 1e9, rel=0.1)
        assert gpu_products.by_id(product.ids[0]) is product


@pytest.mark.parametrize("machine", MACHINES)
def test_products_have_the_links_of_the_machines_with_them(machine: str) -> None:
    found = MACHINES[machine]
    product = gpu_products.like(found.gpu.name)
    links = found.switch_links or max(
        sum(count for *pair, count in found.pairs if gpu in pair) for gpu in range(found.gpus)
    )
    assert (product.nvlinks, product.nvlink_rate, product.pcie_gt) == (links, found.nvlink_rate, found.pcie_gt)
