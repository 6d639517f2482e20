"""Compute models: in experiments, through the binding, and held against measurements of an H200."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from support.command import Ended
from syncline.base import document
from syncline.base.errors import InputError
from syncline.commands.api import measuring
from syncline.engine import assumptions, completing
from syncline.engine import runs as engine
from syncline.experiment.load import load
from syncline.experiment.merge import parse_override
from syncline.measurements import operators
from syncline.models import demands, evaluate, file, times
from syncline.models.demands import Gemm, Kernel
from syncline.models.model import Layout
from syncline.models.times import Taken
from syncline.sections import compute, kernel_table, workloads
from syncline.sections.shapes import COLUMNS, IMAGES, LAID_OUT, LAYOUTS

H200 = Path(compute.__file__).parents[1] / "measurements/tables/nvidia-h200.csv"
H200_IMAGES = H200.with_name("nvidia-h200-images.csv")
EXPERIMENT = "name: a\ntopology: Ring(4, rate=100GB/s)\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
HEADER = ",".join(name for name in COLUMNS if name not in (*IMAGES, "layout"))
ROW = "product,forward,64,64,64,1,1,fp16,24576,3e-6,1e-8,11,9,cold,graph,GPU,2.0"


def product(m: int, k: int, n: int, count: int = 1, width: int = 2) -> Kernel:
    operands = (width * m * k * count, width * k * n * count)
    flops = 2 * m * k * n * count
    return Kernel(flops, sum(operands) + width * m * n * count, Gemm(m, k, n, count, operands))


def rates(**more: Any) -> dict[str, Any]:
    return {"flops_per_s": 1e12, "memory_bytes_per_s": 1e12, "scale": 1.0, **more}


def test_times_are_those_of_the_model() -> None:
    kernels = [product(100, 100, 100), Kernel(0, 5000), Kernel(7, 0)]
    assert times.of(rates(), kernels) == [
        Taken(2_000_000, 60_000, "model"),
        Taken(5000, 5000, "model"),
        Taken(7, 0, "model"),
    ]
    half = rates(launch_ps=50, sparsity={"structured": [2, 4]})
    # Half of the weights, 10,000 bytes, and two bits for each of 5,000 elements.
    assert times.of(half, kernels[:1]) == [Taken(1_000_050, 60_000 - 10_000 + 1_250, "model")]


def test_an_array_with_little_memory_waits_and_reads_again() -> None:
    array = {"kind": "systolic", "rows": 10, "columns": 10, "dataflow": "output-stationary", "clock_hz": 1e12}
    asked = [product(100, 100, 100)]
    ten = {"memory_bytes_per_s": 1e13}  # bytes per cycle
    [free] = times.of(rates(model=array) | ten, asked)
    assert free == Taken(100 * (2 * 10 + 10 + 100 - 2), 60_000, "model")
    sizes = {"inputs_bytes": 4000, "weights_bytes": 0, "outputs_bytes": 0}
    [waits] = times.of(rates(model=array | {"sram": sizes}) | ten, asked)
    # Inputs once, weights for each of ten rows of folds.
    assert waits.moved_bytes == 20_000 + 10 * 20_000 + 20_000
    assert waits.time_ps >= waits.moved_bytes / 10 > free.time_ps
    # Four arrays have 25 folds each, but the memory is no faster.
    assert times.of(rates(model=array | {"arrays": 4}) | ten, asked) == [Taken(6_000, 60_000, "model")]
    faster = rates(model=array | {"arrays": 4}) | {"memory_bytes_per_s": 1e14}
    assert times.of(faster, asked) == [Taken(free.time_ps // 4, 60_000, "model")]


def test_what_is_no_model_is_refused_by_its_field() -> None:
    from syncline.core import _core

    def refused(**spec: Any) -> Any:
        with pytest.raises(_core.SpecError) as error:
            times.of(rates(**spec), [])
        return json.loads(str(error.value))[0]["field"]

    array = {"kind": "systolic", "rows": 0, "columns": 1, "dataflow": "input-stationary", "clock_hz": 1.0}
    assert refused(model=array) == ["compute", "model", "rows"]
    assert refused(scale=0.0) == ["compute", "scale"]
    assert refused(sparsity={"density": 2.0}) == ["compute", "sparsity"]


@cache
def measured() -> list[kernel_table.Row]:
    """The products in BF16 that were measured on an H200."""
    rows = kernel_table.read(H200.read_bytes(), H200.name).rows
    return [row for row in rows if row.kernel.kind == "product" and row.kernel.dtype == "bf16"]


class TestOnAnH200:
    """The figures of docs/compute.md."""

    GRID = 775
    """Products of the grid, which are the last ones of the table; those of layers of models come before."""

    FITTED = (
        (8192, 8192, 8192), (2048, 2048, 2048), (4096, 1024, 4096), (1024, 4096, 1024), (8192, 8192, 64),
        (8192, 64, 8192), (64, 8192, 64), (128, 64, 128), (512, 512, 512), (1024, 2048, 256), (1024, 5120, 50257),
        (256, 256, 256),
    )  # fmt: skip

    def described(self, *settings: str) -> dict[str, Any]:
        text = EXPERIMENT + "npu: {gpu: h200}\n"
        experiment = loaded(text, *settings, "workload.precision=bf16")
        found: dict[str, Any] = completing.specification(experiment.experiment)["job"]["compute"]
        return found

    def errors(self, spec: dict[str, Any], rows: list[kernel_table.Row]) -> list[float]:
        asked = [product(row.kernel.m, row.kernel.k, row.kernel.n, row.kernel.count) for row in rows]
        taken = times.of(spec, asked)
        return [abs(t.time_ps / 1e12 / row.time_s - 1) for t, row in zip(taken, rows, strict=True)]

    def test_tiles_and_waves_predict_products_that_they_were_not_fitted_to(self) -> None:
        rows = measured()
        spec = self.described("npu.compute.kind=tiles", "npu.compute.launch=2.2us")
        layers, grid = rows[: -self.GRID], rows[-self.GRID :]
        held_out = [row for row in grid if (row.kernel.m, row.kernel.k, row.kernel.n) not in self.FITTED]
        assert (len(held_out), len(layers)) == (763, 205)
        errors = self.errors(spec, held_out)
        assert sum(errors) / len(errors) == pytest.approx(0.110, abs=0.001)
        errors = self.errors(spec, layers)
        assert sum(errors) / len(errors) == pytest.approx(0.040, abs=0.001)
        roofline = self.errors(self.described("npu.compute.kind=roofline"), held_out)
        assert sum(roofline) / len(roofline) == pytest.approx(0.64, abs=0.01)

    def test_interpolation_predicts_what_is_held_out(self, tmp_path: Path) -> None:
        grid = measured()[-self.GRID :]
        random.Random(1).shuffle(grid)
        held_out = grid[::4]
        lines = [HEADER]
        for row in grid:
            if row not in held_out:
                k = row.kernel
                lines.append(f"product,forward,{k.m},{k.k},{k.n},1,1,bf16,{row.bytes},{row.time_s},0,1,1,,,,")
        (tmp_path / "t.csv").write_text("\n".join(lines))
        spec = self.described("npu.compute.kind=table", f"npu.compute.table={tmp_path / 't.csv'}")
        asked = [product(row.kernel.m, row.kernel.k, row.kernel.n) for row in held_out]
        between = [(t, row) for t, row in zip(times.of(spec, asked), held_out, strict=True) if t.basis != "measured"]
        errors = sorted(abs(t.time_ps / 1e12 / row.time_s - 1) for t, row in between)
        assert len(errors) > 80
        assert sum(errors) / len(errors) < 0.15
        assert errors[len(errors) // 2] < 0.08


def loaded(text: str, *settings: str) -> Any:
    overrides = [parse_override(setting) for setting in settings]
    return load(document.read(text, "file.yaml"), "file.yaml", Path(), overrides).variants[0]


def refusal(text: str, *settings: str) -> str:
    with pytest.raises(InputError) as refused:
        loaded(text, *settings)
    return refused.value.as_text()


def test_a_table_gives_the_times_of_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(f"{HEADER}\n{ROW}\nadd,forward,64,0,64,1,1,fp16,24576,2e-6,0,1,1,,,,\n")
    variant = loaded(EXPERIMENT, "npu.compute.kind=table", "npu.compute.table=t.csv")
    spec = completing.specification(variant.experiment)["job"]["compute"]["model"]
    assert spec["products"] == [[64, 64, 64, 1, 24576, 3_000_000]]
    assert spec["streams"] == [[24576, 2_000_000]]
    assert (
        "kernels take what t.csv says, of GPU; between measured shapes, efficiency is interpolated"
        in assumptions.of([variant])
    )
    warnings = engine.run(variant).summary["warnings"]
    assert "kernels of an iteration have sizes outside of those in the table of measurements" in warnings[0]
    assert engine.preview(variant).warnings == warnings


def test_wrong_tables_are_named_with_line_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    setting = ("npu.compute.kind=table", "npu.compute.table=t.csv")
    assert "npu.compute.table: there is no such file" in refusal(EXPERIMENT, *setting)
    assert "npu.compute.table: the compute model table needs this" in refusal(EXPERIMENT, setting[0])

    def wrong(content: str) -> str:
        (tmp_path / "t.csv").write_text(content)
        return refusal(EXPERIMENT, *setting)

    assert "t.csv:1: the table has no column direction" in wrong("kind,m\nproduct,1\n")
    assert "t.csv: the table has no matrix product" in wrong(HEADER)
    assert "t.csv:2: 2 values, where the header has 17" in wrong(f"{HEADER}\na,b\n")
    assert "t.csv:3: kind: this is not known; did you mean 'product'?" in wrong(
        f"{HEADER}\n{ROW}\n{ROW.replace('product', 'produkt')}"
    )
    assert "t.csv:2: time_s: this is no time" in wrong(f"{HEADER}\n{ROW.replace('3e-6', 'nan')}")
    assert "t.csv:2: m: this is no size" in wrong(f"{HEADER}\n{ROW.replace(',64,', ',-64,', 1)}")
    assert "t.csv:2: k is missing" in wrong(f"{HEADER}\n{ROW.replace('64,64,64', '64,0,64')}")
    assert "npu.compute.table: the table has no products in fp16" in wrong(f"{HEADER}\n{ROW.replace('fp16', 'fp32')}")
    assert loaded(EXPERIMENT, *setting, "workload.precision=fp32"), "the NPU has one peak rate, the table what it has"
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    assert "t.csv: this is no text" in refusal(EXPERIMENT, *setting)


@pytest.mark.parametrize("value", ["3:2", "0:4", "2:4:6", "dense", "120%", "0.5"])
def test_a_sparsity_is_a_structure_or_a_percentage(value: str) -> None:
    assert "npu.compute.sparsity: this is no sparsity" in refusal(EXPERIMENT, f"npu.compute.sparsity='{value}'")


def test_models_ask_for_what_is_measured() -> None:
    """The products that are measured are those that the engine times."""
    model = evaluate.evaluate(file.load("gpt2"), 2)
    found = operators.of(
        [model], operators.Setting(1, "bf16", "nhwc"), lambda operator: demands.of([operator], 2)[0].params
    )
    measured = {kernel_table.product(kernel) for kernel in found.kernels} - {None}
    asked = demands.of([operator for layer in model.layers for operator in layer.operators], 2)
    gemms = {kernel.gemm for demand in asked for kernel in demand.forward + demand.backward if kernel.gemm}
    assert {(gemm.m, gemm.k, gemm.n, gemm.count) for gemm in gemms} <= measured
    assert found.left_out == ("position-embedding",)
    assert {kernel.m for kernel in found.kernels if kernel.kind == "adam"} > {768 * 2304 + 2304}


def test_convolutions_are_measured_as_the_products_that_the_engine_times() -> None:
    model = evaluate.evaluate(file.load("resnet50"), 2)
    found = operators.of(
        [model], operators.Setting(1, "fp32", "nhwc"), lambda operator: demands.of([operator], 4)[0].params
    )
    assert found.left_out == ()
    products = {kernel_table.product(kernel): kernel.bytes for kernel in found.kernels if kernel.kind == "convolution"}
    convolutions = [
        operator for layer in model.layers for operator in layer.operators if operator.kind == "convolution"
    ]
    asked = {}
    for demand in demands.of(convolutions, 4):
        for kernel in demand.forward + demand.backward:
            assert kernel.gemm is not None
            asked[kernel.gemm.m, kernel.gemm.k, kernel.gemm.n, kernel.gemm.count] = kernel.bytes
    assert products == asked  # shapes and bytes
    streams = {kernel.bytes for kernel in found.kernels if kernel.kind in ("relu", "max-pool", "average-pool", "add")}
    elementwise = [operator for layer in model.layers for operator in layer.operators if operator.kind != "convolution"]
    for operator, demand in zip(elementwise, demands.of(elementwise, 4), strict=True):
        if operator.kind in ("relu", "max-pool", "average-pool", "add", "fork"):
            assert {kernel.bytes for kernel in demand.forward + demand.backward} <= streams


def test_a_table_with_convolutions_gives_them_their_times(tmp_path: Path) -> None:
    row = "convolution,forward,24,36,6,1,1,fp32,2288,7e-6,{}"
    header = "kind,direction,m,k,n,count,groups,dtype,bytes,time_s," + ",".join(IMAGES)
    table = kernel_table.read(f"{header}\n{row.format('5,7,3,2,1')}\n".encode(), "t.csv")
    assert table.engine("fp32") == {"products": [[24, 36, 6, 1, 2288, 7_000_000]], "streams": []}
    with pytest.raises(InputError, match="height is missing"):
        kernel_table.read(f"{header}\n{row.format(',,,,')}\n".encode(), "t.csv")
    with pytest.raises(InputError, match="window: this is no size"):
        kernel_table.read(f"{header}\n{row.format('5,7,x,2,1')}\n".encode(), "t.csv")


def test_a_table_has_images_of_one_layout(tmp_path: Path) -> None:
    row = "convolution,forward,24,36,6,1,1,fp32,2288,7e-6,5,7,3,2,1,{}"
    header = "kind,direction,m,k,n,count,groups,dtype,bytes,time_s," + ",".join((*IMAGES, "layout"))

    def read(*layouts: str) -> kernel_table.KernelTable:
        return kernel_table.read("\n".join([header, *map(row.format, layouts)]).encode(), "t.csv")

    assert [of.kernel.layout for of in read("nhwc", "nhwc").rows] == ["nhwc", "nhwc"]
    assert [of.kernel.layout for of in read("", "nchw").rows] == ["nchw", "nchw"]
    with pytest.raises(InputError, match="two layouts"):
        read("nhwc", "nchw")
    with pytest.raises(InputError, match="layout 'chwn' is not known"):
        read("chwn")


def test_layouts_are_those_of_runs() -> None:
    assert set(LAYOUTS) == set(get_args(Layout))
    assert workloads.ModelWorkload.model_fields["layout"].default == measuring.DEFAULT_LAYOUT


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_kernels_on_images_are_measured_in_the_layout(layout: str) -> None:
    model = evaluate.evaluate(file.load("resnet50"), 2)
    found = operators.of([model], operators.Setting(1, "bf16", layout), lambda _: 0)
    assert {kernel.layout for kernel in found.kernels if kernel.kind in LAID_OUT} == {layout}
    assert {kernel.layout for kernel in found.kernels if kernel.kind not in LAID_OUT} == {"nchw"}


def test_measure_without_pytorch_is_refused_in_words(
    syncline_command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    ended = syncline_command("measure", "gpt2", "--out", str(tmp_path / "t.csv"), "--quiet")
    assert ended.status == 2
    assert "--device: PyTorch is not installed" in ended.err
    ended = syncline_command("measure", "gpt3-175b", "--tensor", "7", "--shapes", str(tmp_path / "s.json"))
    assert ended.status == 2
    assert "cannot be divided by 7" in ended.err
    ended = syncline_command("measure", "gpt3-175b", "--tensor", "8", "--shapes", str(tmp_path / "s.json"), "-q")
    assert (ended.status, json.loads((tmp_path / "s.json").read_text())["format"]) == (0, "syncline-shapes")


@pytest.mark.parametrize(("model", "measured_s"), [("resnet50", 14.16e-3), ("vgg16", 15.83e-3)])
def test_measured_kernels_come_to_a_measured_iteration(model: str, measured_s: float) -> None:
    """Of 32 images in BF16, as one CUDA graph on the device of the table (docs/compute.md); nothing is fitted."""
    text = (
        f"name: a\ntopology: Ring(2)\nworkload: {{model: {model}, batch: 32, element: 2B}}\nnetwork: analytical\n"
        f"npu: {{gpu: h200, compute: {{kind: table, table: {H200_IMAGES}, launch: 0.96us}}}}\n"
        "training: {iterations: 1}\n"
    )
    (variant,) = load(document.read(text, "a.yaml"), "a.yaml", Path(), []).variants
    summary = engine.run(variant).summary
    assert summary["compute_ps"] / 1e12 == pytest.approx(measured_s, rel=0.15)
