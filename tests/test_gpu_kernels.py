"""The constants of GPUs' kernels, held against the kernels and the iterations that were measured."""

from __future__ import annotations

import copy
from statistics import mean

import pytest

from lab.gpu_kernels import errors as page
from lab.gpu_kernels import fit, iterations, rows, tables

BARS = {"products": 0.07, "attention": 0.10, "memory": 0.12, "convolution": 0.12}
"""Mean absolute errors that kernels of a group may have."""


def group(row: rows.Row) -> str:
    """Products, attention, convolutions, or what memory bounds."""
    if row.operator in ("attention", "convolution"):
        return row.operator
    return "products" if row.kind == "products" else "memory"


@pytest.mark.parametrize("name", BARS)
def test_the_constants_predict_what_was_measured(name: str) -> None:
    found = [row for row in page.modelled() if group(row) == name and row.set == "operators"]
    errors = page.errors(found, page.known())
    assert len(found) > 40
    assert mean(map(abs, errors)) < BARS[name]
    assert abs(mean(errors)) < BARS[name] / 2


def test_the_constants_are_those_of_the_fit() -> None:
    """A fit that begins with the constants ends with them."""
    h100 = page.known()
    again = page.refitted("h100", page.modelled())
    parameters = [*fit.STREAMS, *fit.PRODUCTS, *fit.ATTENTION, *fit.CONVOLUTIONS, *fit.REORDERED]
    assert len(parameters) <= 40
    for parameter in parameters:
        assert parameter.read(again) == pytest.approx(parameter.read(h100), rel=0.05), parameter.path


@pytest.mark.parametrize(
    ("group_", "bar"),
    [("products", 0.07), ("attention cudnn", 0.15), ("attention flash2", 0.15), ("memory-bound", 0.18)],
)
def test_kernels_that_a_fit_left_out_reach_the_bars(group_: str, bar: float) -> None:
    found = [of for of in page.kept() if (of.gpu, of.group) == ("h100", group_)]
    assert len(found) > 20
    assert mean(abs(of.held_out) for of in found) < bar


def test_errors_are_those_of_the_constants() -> None:
    assert len(page.kept()) == sum(len(page.modelled(gpu)) for gpu in page.OTHERS)
    for gpu in page.OTHERS:
        kept = [of.fitted for of in page.kept() if of.gpu == gpu]
        assert kept == pytest.approx(page.errors(page.modelled(gpu), page.known(gpu), gpu), abs=1e-3)


def test_a_fold_is_predicted_again() -> None:
    kept = [of.held_out for of in page.kept() if of.gpu == "h100"]
    assert kept[0 :: page.FOLDS] == pytest.approx(page.held_out("h100", 0), abs=0.02)


def test_whole_iterations_are_the_sums_of_their_kernels() -> None:
    """Nothing was fitted to iterations."""
    for iteration in iterations.measured():
        time_ms, _ = iterations.predicted(iteration, page.known())
        assert time_ms == pytest.approx(iteration.measured_ms, rel=0.12), iteration.name


def test_products_run_faster_in_a_mix_than_alone() -> None:
    """Kernels that memory bounds leave them power."""
    (iteration,) = (each for each in iterations.measured() if each.name == "llama-1.3b b4")
    tight = copy.deepcopy(page.known())
    tight["power"]["limit_w"] = 500.0
    mixed_ms, _ = iterations.predicted(iteration, tight)
    alone_us = rows.times_us([[kernel] for _, kernel in iteration.demands()], fit.compute(tight))
    free_ms, _ = iterations.predicted(iteration, page.known())
    assert free_ms < mixed_ms < sum(alone_us) / 1e3


def test_a_table_has_the_sizes_of_operators() -> None:
    found = {row.title for row in tables.read(page.TABLES / "nvidia-h200-images.csv")}
    sizes = "samples=32 channels=3 height=224 width=224 filters=64 kernel=7 stride=2 padding=3"
    for pass_ in ("forward", "weight_grad", "input_grad"):
        assert f"convolution {pass_} {sizes} 2B nchw" in found
    assert "linear weight_grad rows=32 inputs=2048 outputs=1000 bias=0 2B" in found


def test_a_row_is_the_kernels_that_pytorch_launches() -> None:
    found = {row.title: row for row in rows.read()}
    (backward,) = (
        row for title, row in found.items() if title.startswith("layer-norm backward rows=16384") and "2B" in title
    )
    sum_, gradient = rows.kernels(backward)
    assert sum_["kind"] == {"memory": {"kernel": "norm-sum", "wide": False, "columns": 8192}}
    assert gradient["kind"]["memory"]["kernel"] == "norm-gradient"
    assert (sum_["bytes"], gradient["bytes"]) == (2 * 16384 * 8192 * 2, 3 * 16384 * 8192 * 2)
