"""Measuring kernels: what is asked of PyTorch, with stand-ins for it, and what is written."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from support.fake_torch import torch
from syncline.measurements import grid, kernels, operations
from syncline.measurements.timing import REPETITIONS, Clock
from syncline.sections import kernel_table
from syncline.sections.shapes import COLUMNS, KINDS, LAID_OUT, LAYOUTS, Kernel, ShapesError, dumps, legal, loads

SIZES: dict[str, Any] = {"m": 8, "k": 4, "n": 12}


IMAGES: dict[str, dict[str, Any]] = {
    "convolution": {"height": 5, "width": 7, "window": 3, "stride": 2, "padding": 1},
    "max-pool": {"height": 5, "width": 7, "window": 2, "stride": 2},
    "average-pool": {"height": 5, "width": 7},
}
CONVOLVED: dict[str, dict[str, Any]] = {
    "forward": {"m": 2 * 12, "k": 4 * 9, "n": 6},
    "input-grad": {"m": 2 * 12, "k": 6, "n": 4 * 9},
    "weight-grad": {"m": 4 * 9, "k": 2 * 12, "n": 6},
}
"""Two images of 5 x 7 with four channels, of which a filter of 3 x 3 sees 3 x 4 places, and six filters."""


def kernel_of(kind: str, way: str) -> Kernel:
    sizes = CONVOLVED[way] if kind == "convolution" else SIZES
    return Kernel(kind, way, **sizes, dtype="fp32", **IMAGES.get(kind, {}))


def every_kernel() -> list[Kernel]:
    found = [kernel_of(kind, way) for kind, ways in KINDS.items() for way in ways]
    assert all(legal(kernel) is None for kernel in found)
    return found


class Matrix(np.ndarray[Any, Any]):
    """As much of a tensor as products need."""

    def t(self) -> Any:
        return self.T


class Numpy:
    """As much of PyTorch as products need; it refuses shapes that do not fit."""

    float32 = np.float32

    def randn(self, *sizes: int, device: str, dtype: Any) -> Any:
        assert device == "cpu"
        return np.ones(sizes, dtype).view(Matrix)

    def mm(self, a: Any, b: Any, out: Any) -> Any:
        return np.matmul(a, b, out=out)

    bmm = mm


@pytest.mark.parametrize("direction", KINDS["product"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_product_has_the_sizes_of_its_kernel(direction: str, count: int) -> None:
    work = operations.operation(Numpy(), Kernel("product", direction, **SIZES, count=count, dtype="fp32"), "cpu")
    given = work.operands()
    assert [x.size for x in given] == [count * 8 * 4, count * 4 * 12, count * 8 * 12]
    result = np.asarray(work.call(given))
    assert result.sum() == count * 8 * 4 * 12  # every term of every sum


@pytest.mark.parametrize("direction", KINDS["convolution"])
def test_a_convolution_moves_its_images_filters_and_results_once(direction: str) -> None:
    kernel = kernel_of("convolution", direction)
    assert (kernel.windows, kernel.convolved) == ((3, 4), (2, 4, 6))
    assert kernel.bytes == 4 * (2 * 4 * 5 * 7 + 6 * 4 * 9 + 2 * 6 * 12)


@pytest.mark.parametrize("kind", LAID_OUT)
def test_images_lie_in_memory_as_they_are_asked_for(kind: str) -> None:
    for layout in LAYOUTS:
        fake = torch()
        kernel = replace(kernel_of(kind, "forward"), layout=layout)
        assert legal(kernel) is None
        operations.operation(fake, kernel, "cpu").operands()
        made = fake.randn.return_value.contiguous
        assert made.called == (layout == "nhwc")
        assert all(call.kwargs == {"memory_format": fake.channels_last} for call in made.call_args_list)
    message = legal(replace(kernel_of("softmax", "forward"), layout="nhwc"))
    assert message == "layout 'nhwc' is not known; accepted: none for a kernel that is not on images"


def on_gpu(fake: MagicMock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("syncline.measurements.timing.CLOCK_RISES_S", 0)
    return Clock(fake, "cuda")


def test_calls_on_a_gpu_are_replayed_as_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = torch(cuda=True)
    row = on_gpu(fake, monkeypatch).measure(Kernel("product", "forward", 8, 4, 12, dtype="bf16"))
    graph = fake.cuda.CUDAGraph.return_value
    # 352 bytes: 6 sets of operands exceed twice a cache of 1000 bytes. Calls of a millisecond: one for each set.
    assert (row.timing, row.cache, row.calls, row.repetitions) == ("graph", "cold", 6, REPETITIONS)
    assert row.time_s == pytest.approx(1e-3 / 6)
    assert fake.mm.call_count == 3 + 1 + 6  # to warm up, to see how long it takes, and captured
    assert graph.replay.call_count >= REPETITIONS
    assert graph.capture_begin.call_count == graph.capture_end.call_count == 1


def test_what_cannot_be_captured_is_launched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = torch(cuda=True)
    fake.cuda.CUDAGraph.return_value.capture_end.side_effect = RuntimeError("capture failed")
    row = on_gpu(fake, monkeypatch).measure(Kernel("softmax", "forward", 1000, 0, 1000, dtype="bf16"))
    assert (row.timing, row.cache, row.calls) == ("events", "cold", 4)
    assert fake.nn.functional.softmax.call_count > REPETITIONS


def test_every_kernel_is_measured_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncline.measurements.timing.ROUND_S", 1e-5)
    monkeypatch.setitem(sys.modules, "torch", torch())
    (tmp_path / "shapes.json").write_text(dumps([*every_kernel(), *every_kernel()], "a test"))
    out = tmp_path / "table.csv"
    assert kernels.main([str(tmp_path / "shapes.json"), "--out", str(out), "--device", "cpu"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    measured = [kernel for kernel in every_kernel() if kernel.direction != "graph"]  # which a CPU does not have
    assert [(row["kind"], row["direction"]) for row in rows] == [(k.kind, k.direction) for k in measured]
    assert {row["timing"] for row in rows} == {"host"}
    table = kernel_table.read(out.read_bytes(), "table.csv")
    assert [row.kernel for row in table.rows] == measured


def test_what_fails_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = torch()
    fake.nn.functional.softmax.side_effect = RuntimeError("out of memory\nmore")
    del fake.nn.functional.rms_norm
    some = [Kernel(kind, "forward", **SIZES) for kind in ("softmax", "rms-norm", "gelu")]
    rows = kernels.measure(Clock(fake, "cpu"), some, MagicMock(), None)
    assert [row.kernel.kind for row in rows] == ["gelu"]
    said = capsys.readouterr().err
    assert "softmax forward m=8 k=4 n=12 count=1 bf16 is not measured: out of memory\n" in said
    assert "rms_norm is missing; PyTorch 2.4 has it" in said
    assert kernels.measure(Clock(fake, "cpu"), some, MagicMock(), -1.0) == []
    assert "the time is up: 3 of 3 kernels are not measured" in capsys.readouterr().err


def test_a_busy_processor_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake = torch()
    fake.get_num_threads.return_value = 2
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr("syncline.measurements.kernels._processors", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    kernels.clock("cpu", 0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("os.getloadavg", lambda: (3.5, 0.0, 0.0))
    kernels.clock("cpu", 0)
    said = capsys.readouterr().err
    assert "warning: other programs are busy (a load of 3.5 on 4 processors)" in said
    assert "OMP_NUM_THREADS" in said


def test_without_pytorch_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert kernels.main(["--launch", "--out", str(tmp_path / "t.csv")]) == 2
    assert "PyTorch is not installed" in capsys.readouterr().err
    assert not (tmp_path / "t.csv").exists()


def test_the_entry_needs_the_standard_library_only() -> None:
    heavy = "{'pydantic', 'pyarrow', 'numpy', 'yaml', 'typer', 'syncline.core._core'}"
    code = f"import sys, syncline.measurements.kernels; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def wrong(change: Callable[[dict[str, Any]], Any]) -> str:
    data = json.loads(dumps([Kernel("product", "forward", **SIZES)], "a test"))
    change(data)
    with pytest.raises(ShapesError) as refused:
        loads(json.dumps(data))
    return str(refused.value)


def test_wrong_shapes_are_named_with_their_place() -> None:
    assert "format must be 'syncline-shapes'" in wrong(lambda data: data.pop("format"))
    assert wrong(lambda data: data.update(kernels=1)) == "kernels: a list is expected"

    def change(**values: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda data: data["kernels"][0].update(values)

    assert wrong(change(kind="prodct")).startswith("kernels.0: kind 'prodct' is not known; accepted: product,")
    assert wrong(change(m=0)) == "kernels.0: m 0 is out of range; accepted: 1 to 1099511627776"
    assert wrong(change(k=0)) == "kernels.0: k is missing: a kernel of kind product has one"
    assert wrong(change(n=True)) == "kernels.0.n: an integer is expected"
    assert wrong(change(size=1)).startswith("kernels.0.size: this key is not known")
    assert wrong(lambda data: data["kernels"][0].pop("m")) == "kernels.0.m: this is missing"
    assert wrong(change(height=2)) == "kernels.0: height 2 has no meaning for a kernel of kind product; accepted: 0"
    assert wrong(change(kind="max-pool")) == "kernels.0: height is missing: a kernel of kind max-pool has one"
    pool = {"kind": "max-pool", "height": 4, "width": 9, "window": 5, "stride": 1}
    assert wrong(change(**pool)) == "kernels.0: window 5 is larger than the padded image; accepted: 1 to 4"
    assert wrong(change(**pool, padding=3)) == "kernels.0: padding 3 is out of range; accepted: 0 to 2"
    convolution = {"kind": "convolution", **CONVOLVED["forward"], **IMAGES["convolution"]}
    assert wrong(change(**convolution | {"m": 25})) == (
        "kernels.0: m 25, k 36 and n 6 are not those of whole images and channels; "
        "accepted: multiples of 12 places and 9 elements"
    )
    assert wrong(change(groups=2)) == "kernels.0: groups 2 do not divide count 1"
    with pytest.raises(ShapesError, match="this is no JSON"):
        loads("{")


def test_the_grid_has_edges_of_tiles_and_waves() -> None:
    full = grid.products(["bf16", "fp32"], full=True)
    assert all(legal(kernel) is None for kernel in full)
    assert len(full) == len(set(full))
    shapes = {(k.m, k.k, k.n) for k in full if k.dtype == "bf16"}
    assert {(64, 64, 64), (8192, 8192, 8192), (129, 4096, 1024), (1024, 4096, 8192 - 128)} <= shapes
    assert len(shapes) > 9 * len([k for k in full if k.dtype == "fp32"])
