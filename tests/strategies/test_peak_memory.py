"""The most memory at a time against PyTorch's allocator, on one H100 with eager operators, and in closed forms.

Measured with PyTorch 2.11 (`torch.cuda.max_memory_allocated`): AdamW and fused SGD with momentum, scaled dot-product
attention by cuDNN, no dropout, no communication.
"""

from __future__ import annotations

from typing import Any

import pytest

from support import divided
from support.divided import SHAPE
from syncline.models import counts
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import DividedWorkload, Training
from syncline.strategies import memory
from syncline.strategies.memory import Memory
from syncline.strategies.training import Request

GIB = 2**30
L, H, S, V = SHAPE["layers"], SHAPE["hidden"], SHAPE["tokens"], SHAPE["vocabulary"]
PURE = {"weights": "bf16", "compute": "bf16", "gradients": "bf16", "states": "bf16"}
AUTOCAST = {"weights": "fp32", "compute": "bf16", "gradients": "fp32", "states": "fp32"}
GPT2_MEDIUM: dict[str, Any] = {
    "model": "gpt",
    "parameters": {"layers": 24, "hidden": 1024, "heads": 16, "dropout": 0},
}
LLAMA_1B: dict[str, Any] = {
    "model": "llama",
    "parameters": {"layers": 24, "hidden": 2048, "heads": 16, "feed_forward": 5504},
    "sequence": 2048,
}
LLAMA_8_LAYERS: dict[str, Any] = {"model": "llama", "parameters": {"layers": 8}, "sequence": 4096}
RESNET50: dict[str, Any] = {"model": "resnet50"}


def peak(workload: dict[str, Any], batch: int, precision: dict[str, str], npus: int = 1, **parallel: Any) -> Memory:
    """What an NPU needs of a training in one micro-batch."""
    given = DividedWorkload.model_validate({**workload, "global_batch": batch * npus, "precision": precision})
    divided_as = Parallel.model_validate({"micro_batch": batch, **parallel})
    request = Request(given, divided_as, Training(), npus, None)
    assert not list(request.violations())
    (found,) = memory.of(request.setting())
    return found


@pytest.mark.parametrize(
    ("workload", "number"),
    [(GPT2_MEDIUM, 354_823_168), (LLAMA_1B, 1_345_423_360), (LLAMA_8_LAYERS, 1_881_214_976), (RESNET50, 25_557_032)],
)
def test_models_are_those_that_were_measured(workload: dict[str, Any], number: int) -> None:
    model = DividedWorkload.model_validate({**workload, "global_batch": 1}).evaluated
    assert counts.parameters(model) == number


@pytest.mark.parametrize(
    ("workload", "batch", "precision", "kind", "measured", "within"),
    [
        (GPT2_MEDIUM, 8, PURE, "adam", 10.40, 0.02),
        (GPT2_MEDIUM, 8, AUTOCAST, "adam", 15.46, 0.05),
        (LLAMA_1B, 4, PURE, "adam", 23.41, 0.02),
        (LLAMA_8_LAYERS, 1, PURE, "adam", 17.14, 0.08),
        (RESNET50, 64, AUTOCAST | {"compute": "fp16"}, "sgd", 3.31, 0.12),
        # 0.7 GB more than the batch of 8 lets expect, of which six samples more take 5.57 GiB. Perhaps of runs before.
        (GPT2_MEDIUM, 2, PURE, "adam", 4.83, 0.16),
    ],
)
def test_peaks_are_those_of_pytorch(
    workload: dict[str, Any], batch: int, precision: dict[str, str], kind: str, measured: float, within: float
) -> None:
    found = peak(workload, batch, precision, optimiser={"kind": kind})
    assert found.phase == "backward"
    assert found.total / GIB == pytest.approx(measured, rel=within)


def of_gpt(widths: Widths, **parallel: Any) -> list[Memory]:
    """The memory of one NPU that trains a small GPT with embedding and head on two samples."""
    setting = divided.setting({"micro_batch": 2, **parallel}, 1, 1, divided.gpt(2), given=widths)
    (found,) = memory.phases(setting)
    return found


def test_the_backward_pass_begins_with_three_tensors_of_logits() -> None:
    """What the loss has saved, in the widest type, and the gradients of its halves."""
    narrow, wide = of_gpt(Widths(2, 2, 2, 0, 2)), of_gpt(Widths(2, 2, 2, 4, 4))
    assert wide[0].activations - narrow[0].activations == 3 * (2 * S * V) * (4 - 2)
    without_loss = memory.phases(divided.setting({"micro_batch": 2}, 1, 1, divided.gpt(2, ends=False)))[0]
    ends = 2 * S * (8 + H) + 2 * S * 2 * H * 2  # tokens, a mask of dropout, what the last norm and the product take
    assert wide[0].activations == without_loss[0].activations + ends + 3 * (2 * S * V) * 4


def test_gradients_come_while_activations_go() -> None:
    """Of one NPU and one micro-batch, gradients are there of the layers that the backward pass has left behind."""
    *backward, updated = of_gpt(Widths.usual(2))
    assert len(backward) == L + 2
    assert [of.gradients for of in backward] == sorted(of.gradients for of in backward)
    assert [of.activations for of in backward] == sorted((of.activations for of in backward), reverse=True)
    assert (backward[0].gradients, updated.activations) == (0, 0)
    assert updated.gradients == updated.weights > backward[-1].gradients
    setting = divided.setting({"micro_batch": 2}, 1, 2, divided.gpt(2))
    assert memory.phases(setting)[0][0].gradients == updated.gradients  # those of several are added up


def test_an_optimiser_that_is_not_fused_has_roots_of_moments_for_a_while() -> None:
    fused, foreach = (of_gpt(Widths.usual(2), optimiser={"implementation": i})[-1] for i in ("fused", "foreach"))
    parameters = fused.weights // 2
    assert foreach.optimiser - fused.optimiser == 4 * parameters


def test_autocast_keeps_casts_of_weights_and_wide_inputs_of_norms() -> None:
    """Of a block of GPT-2 and 8 samples: 18 x 2 bytes of an activation for each token and feature, 16 without."""
    model = {**GPT2_MEDIUM, "parameters": {**GPT2_MEDIUM["parameters"], "vocabulary": 64}}

    def of_block(precision: dict[str, str]) -> int:
        less = {**model, "parameters": {**model["parameters"], "layers": 23}}
        return peak(model, 8, precision).activations - peak(less, 8, precision).activations

    unit, statistics, casts = 8 * 1024 * 1024 * 2, 8 * 16 * 1024 * 4, (12 * 1024**2 + 9 * 1024) * 2
    assert of_block(PURE) == 16 * unit + statistics
    assert of_block(AUTOCAST) == 18 * unit + statistics + casts
