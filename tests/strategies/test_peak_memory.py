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
from syncline.sections import execution
from syncline.sections.data_types import Widths
from syncline.sections.npu import Npu
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import DividedWorkload, Training
from syncline.strategies import memory
from syncline.strategies.memory import Memory
from syncline.strategies.training import Request

GIB, MIB = 2**30, 2**20
L, H, S, V = SHAPE["layers"], SHAPE["hidden"], SHAPE["tokens"], SHAPE["vocabulary"]
PURE = {"weights": "bf16", "compute": "bf16", "gradients": "bf16", "states": "bf16"}
MIXED = {"weights": "bf16", "compute": "bf16", "gradients": "fp32", "states": "fp32"}
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
EAGER, GRAPH, COMPILED = Training(), Training(launch="graph"), Training(kernels="compile")
FUSED_LOSS, MEGATRON = Training(loss="fused"), Training(kernels="megatron")
H100 = Npu.model_validate({"gpu": "h100", "compute": {"kind": "gpu"}})


def peak(
    workload: dict[str, Any], batch: int, precision: dict[str, str], training: Training = EAGER, **parallel: Any
) -> Memory:
    """What an H100 needs of a training in one micro-batch."""
    given = DividedWorkload.model_validate({**workload, "global_batch": batch, "precision": precision})
    divided_as = Parallel.model_validate({"micro_batch": batch, **parallel})
    request = Request(given, divided_as, training, 1, None).on(H100)
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
    ("workload", "batch", "precision", "training", "measured", "within"),
    [
        (GPT2_MEDIUM, 8, PURE, EAGER, 10.40, 0.01),
        (GPT2_MEDIUM, 8, PURE, GRAPH, 10.49, 0.01),
        (GPT2_MEDIUM, 8, AUTOCAST, EAGER, 15.46, 0.01),
        (LLAMA_1B, 4, PURE, EAGER, 23.41, 0.02),
        (LLAMA_1B, 4, PURE, GRAPH, 23.47, 0.02),
        (LLAMA_1B, 4, PURE, COMPILED, 21.33, 0.01),
        (RESNET50, 64, AUTOCAST | {"compute": "fp16"}, EAGER, 3.31, 0.08),
        (RESNET50, 64, AUTOCAST | {"compute": "fp16"}, GRAPH, 3.37, 0.08),
        (RESNET50, 64, PURE, GRAPH, 3.43, 0.12),
        (GPT2_MEDIUM, 2, PURE, EAGER, 4.83, 0.15),
        (LLAMA_8_LAYERS, 1, PURE, EAGER, 17.14, 0.07),
    ],
)
def test_peaks_are_those_of_pytorch(
    workload: dict[str, Any],
    batch: int,
    precision: dict[str, str],
    training: Training,
    measured: float,
    within: float,
) -> None:
    """Measured in this order but for the compiled one, which came last. What is missing grows along it, whatever is
    trained: 0.01, 0.04, 0.13, 0.23, 0.22, 0.22, 0.22, 0.37, 0.70 and 1.08 GiB (0.16 of the compiled one). So the
    process seems to have kept something of earlier runs.

    That the batch of 2 has something of runs before it shows in the one of 8, too: if 2 samples needed 4.83 GiB at some
    time of an iteration, and 8 no more than 10.40 then, a sample would need 0.93 at most and all else 2.97. Weights and
    moments are 1.98, and all gradients 0.66, which are not there while samples need that much.
    """
    kind = "sgd" if "fp16" in precision.values() else "adam"
    found = peak(workload, batch, precision, training, optimiser={"kind": kind, "implementation": "fused"})
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


@pytest.mark.parametrize(
    ("precision", "training", "bytes_of_a_logit"),
    [
        (PURE, EAGER, 2 + 2 + 2),  # logarithms, and the gradients of both halves
        (AUTOCAST, EAGER, (2 + 4) + 4),  # logarithms in BF16 and their cast, and its gradient
        (MIXED, EAGER, 4 + 4 + 4),  # logits are cast to FP32
        (MIXED, MEGATRON, 4 + 2),  # the gradient in place of the probabilities, and its cast
        (PURE, FUSED_LOSS, 2 + 2),  # logits, and their gradient
        (MIXED, FUSED_LOSS, 2 + 2),
        (AUTOCAST, FUSED_LOSS, 2 + 2),
    ],
)
def test_what_a_loss_needs(precision: dict[str, str], training: Training, bytes_of_a_logit: int) -> None:
    """Of 2 samples with 1024 tokens and 4096 words more; autocast has casts of the table's rows of these beside it."""
    activations = []
    for words in (8192, 12288):
        parameters = {**GPT2_MEDIUM["parameters"], "vocabulary": words}
        activations.append(peak({**GPT2_MEDIUM, "parameters": parameters}, 2, precision, training).activations)
    casts = 4096 * 1024 * 2 if precision is AUTOCAST else 0
    assert activations[1] - activations[0] == 2 * 1024 * 4096 * bytes_of_a_logit + casts


def test_gates_of_one_kernel_keep_nothing_of_their_own() -> None:
    """Eager operators keep the result of SiLU in each of 24 blocks: of 8192 tokens with 5504 features."""
    eager, compiled = (peak(LLAMA_1B, 4, PURE, training).activations for training in (EAGER, COMPILED))
    assert eager - compiled == 24 * 8192 * 5504 * 2


def test_libraries_have_workspaces() -> None:
    """32 MiB of cuBLAS for the thread of each pass, and as many on the stream on which a graph is captured."""
    assert [peak(RESNET50, 1, PURE, t).libraries for t in (EAGER, GRAPH)] == [2 * 32 * MIB, 4 * 32 * MIB]
    a100 = Npu.model_validate({"gpu": "a100-80gb"})
    assert execution.workspace(a100, EAGER) == 2 * 8.125 * MIB
    assert execution.workspace(Npu(), EAGER) == 0
