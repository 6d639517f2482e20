"""Measuring kernels with a real PyTorch, on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from syncline.measurements import kernels, operations
from syncline.sections import kernel_table
from syncline.sections.shapes import KINDS, LAYOUTS, Kernel

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # warnings of PyTorch are its own

IMAGE: dict[str, Any] = {"height": 9, "width": 7, "window": 3, "stride": 2, "padding": 1}
"""Five by four places of the filter. Two images, of 4 channels, and 6 filters."""
PRODUCTS = {"forward": (40, 36, 6), "input-grad": (40, 6, 36), "weight-grad": (36, 40, 6)}
MODEL = """\
name: tiny
description: an example
source: none
layers:
  - name: conv
    operators:
      - {kind: convolution, samples: samples, channels: 4, height: 9, width: 7, filters: 6, kernel: 3, stride: 2}
      - {kind: batch-norm, samples: samples, channels: 6, height: 4, width: 3}
      - {kind: relu, rows: samples, features: 72}
      - {kind: max-pool, samples: samples, channels: 6, height: 4, width: 3, window: 2, stride: 1}
  - name: fc
    operators:
      - {kind: linear, rows: samples, inputs: 36, outputs: 10, bias: 1}
      - {kind: softmax-cross-entropy, rows: samples, vocabulary: 10}
"""
EXPERIMENT = """\
name: tiny
topology: Ring(1)
workload: {model: tiny.yaml, global_batch: 2, precision: fp32}
parallel: {micro_batch: 2}
network: analytical
npu: {peak: 100GFLOPS, memory_bandwidth: 20GB/s, compute: {kind: table, table: tiny.csv}}
"""


def convolution(direction: str) -> Kernel:
    m, k, n = PRODUCTS[direction]
    return Kernel("convolution", direction, m, k, n, dtype="fp64", **IMAGE)


def kernel_of(kind: str, direction: str) -> Kernel:
    if kind == "convolution":
        return convolution(direction)
    image = {"max-pool": IMAGE, "average-pool": {"height": 9, "width": 7}}.get(kind, {})
    if kind == "launch":
        return Kernel(kind, direction, 4, 0, 0, dtype="fp32")
    return Kernel(kind, direction, 8, 4, 12, 4 if kind.startswith("attention") else 1, dtype="fp32", **image)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_can_be_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncline.measurements.timing.ROUND_S", 1e-4)
    clock = kernels.clock("cpu", 0)
    for direction in KINDS[kind]:
        if direction == "graph":
            continue  # which a CPU does not have
        try:
            row = clock.measure(kernel_of(kind, direction))
        except operations.UnsupportedError as error:
            pytest.skip(str(error))
        assert 0 < row.time_s < 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("direction", PRODUCTS)
def test_convolutions_compute_what_autograd_does(direction: str, layout: str) -> None:
    import torch

    torch.manual_seed(1)
    kernel = replace(convolution(direction), layout=layout)
    work = operations.operation(torch, kernel, "cpu")
    image, filters, gradient = given = work.operands()
    assert image.is_contiguous(memory_format=torch.channels_last) == (layout == "nhwc")
    assert sum(8 * prod(x.shape) for x in given) == kernel.bytes
    result = torch.nn.functional.conv2d(image.requires_grad_(), filters.requires_grad_(), stride=2, padding=1)
    assert result.shape == gradient.shape
    result.backward(gradient)
    found: Any = work.call(given)
    expected = {"forward": result, "input-grad": image.grad, "weight-grad": filters.grad}
    if direction != "forward":
        found = found[0] if direction == "input-grad" else found[1]
    torch.testing.assert_close(found, expected[direction])


def test_a_model_is_measured_and_runs_with_its_table(
    syncline_command: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("syncline.measurements.timing.ROUND_S", 1e-4)
    Path("tiny.yaml").write_text(MODEL)
    Path("run.yaml").write_text(EXPERIMENT)
    line = ("measure", "tiny.yaml", "--micro-batch", "2", "--precision", "fp32", "--device", "cpu", "--out", "tiny.csv")
    ended = syncline_command(*line)
    assert ended.status == 0, ended.err
    assert "not measured" not in ended.err
    rows = kernel_table.read(Path("tiny.csv").read_bytes(), "tiny.csv").rows
    products = [row for row in rows if row.kernel.kind in ("convolution", "product")]
    assert len(products) == 6
    ended = syncline_command("run", "run.yaml", "--json")
    assert ended.status == 0, ended.err
    (run,) = json.loads(ended.out)["runs"]
    # All of them are in an iteration, but for the gradient of the images.
    needed = [
        row.time_s for row in products if (row.kernel.kind, row.kernel.direction) != ("convolution", "input-grad")
    ]
    assert run["compute_time_s"] / run["iterations"] > sum(needed)
