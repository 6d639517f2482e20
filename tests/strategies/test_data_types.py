"""Data types of a divided training: what a mapping as `workload.precision` means, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline.base import document
from syncline.base.errors import InputError, Problem
from syncline.experiment.load import load
from syncline.sections.data_types import DataTypes, Widths
from syncline.sections.experiment import Experiment
from syncline.sections.workloads import DividedWorkload
from syncline.strategies import memory, training
from syncline.strategies.layers import Compute, LayerPasses

LLAMA: dict[str, Any] = {"layers": 2, "hidden": 256, "heads": 4, "feed_forward": 512, "vocabulary": 512}
PURE = {"weights": "bf16", "compute": "bf16", "gradients": "bf16", "states": "bf16"}
MEGATRON = PURE | {"gradients": "fp32", "states": "fp32"}
FSDP = MEGATRON | {"weights": "fp32"}


def of(precision: Any, parallel: dict[str, Any] | None = None, **more: Any) -> Experiment:
    """A training on eight GPUs."""
    workload = {"model": "llama", "parameters": LLAMA, "sequence": 2048, "global_batch": 48, "precision": precision}
    given = {"name": "a", "topology": "dgx-h100", "workload": workload | more, "parallel": parallel or {}}
    given["npu"] = {"compute": {"kind": "roofline"}}
    return load(document.read(yaml.safe_dump(given), "a.yaml"), "a.yaml", Path()).variants[0].experiment


def refused(precision: Any, parallel: dict[str, Any] | None = None, **more: Any) -> Problem:
    with pytest.raises(InputError) as raised:
        of(precision, parallel, **more)
    return raised.value.problems[0]


@pytest.mark.parametrize(
    ("precision", "widths"),
    [
        (PURE, Widths(2, 2, 2, 0, 2)),  # no copy, moments of two bytes
        (MEGATRON, Widths(2, 2, 4, 4, 4)),
        (FSDP, Widths(4, 2, 4, 0, 4)),  # the weights are what is updated
        (FSDP | {"gradients": "bf16"}, Widths(4, 2, 2, 0, 4)),
        (PURE | {"compute": "fp8"}, Widths(2, 2, 2, 0, 2)),
        ("bf16", Widths(2, 2, 2, 4, 4)),
        ("fp32", Widths(4, 4, 4, 4, 4)),
        (None, Widths(2, 2, 2, 4, 4)),
    ],
)
def test_widths(precision: Any, widths: Widths) -> None:
    workload = DividedWorkload.model_validate({"model": "gpt2", "global_batch": 1, "precision": precision})
    assert workload.widths == widths
    assert workload.element == widths.compute


def test_bytes_of_a_parameter() -> None:
    """Pure BF16 2 + 2 + 4, Megatron-LM 2 + 4 + 12, FSDP 4 + 4 + 8, with gradients in the type of weights at least."""

    def kept(precision: dict[str, str], **parallel: Any) -> list[float]:
        setting = training.of(of(precision, parallel)).setting()
        ((*_, updated),) = memory.phases(setting)
        parameters = updated.weights / setting.weight
        return [size / parameters for size in (updated.weights, updated.gradients, updated.optimiser)]

    assert kept(PURE) == [2, 2, 4]
    assert kept(MEGATRON) == [2, 4, 12]
    assert kept(FSDP, zero=3) == [4, 4, 8]
    assert kept(FSDP | {"gradients": "bf16"}, zero=3) == [4, 4, 8]


@pytest.mark.parametrize(
    ("precision", "parallel"),
    [
        (PURE, {"micro_batch": 6, "optimiser": {"kind": "adam", "implementation": "fused"}}),
        (FSDP | {"gradients": "bf16"}, {"micro_batch": 6, "zero": 3, "recompute": "none"}),
        (FSDP, {"micro_batch": 2, "zero": 3, "recompute": "operators"}),
    ],
)
def test_recipes_are_read(precision: dict[str, str], parallel: dict[str, Any]) -> None:
    experiment = of(precision, parallel)
    assert experiment.precision == "bf16"  # which the peak rate is for
    assert isinstance(experiment.workload, DividedWorkload)
    assert experiment.workload.precision == DataTypes.model_validate(precision)


def test_a_name_means_the_same_as_a_mapping_with_a_copy() -> None:
    by_name, by_types = (training.of(of(given)).setting() for given in ("bf16", MEGATRON | {"gradients": "bf16"}))
    assert (by_name.widths, memory.of(by_name)) == (by_types.widths, memory.of(by_types))


@pytest.mark.parametrize("zero", [0, 3])
def test_autocast_casts_weights_and_their_gradients(zero: int) -> None:
    """Forward 4 bytes of a weight are read and 2 written, backward the reverse of a gradient; FSDP casts before."""

    def kernels(precision: dict[str, str]) -> tuple[int, int, int]:
        setting = training.of(of(precision, {"zero": zero})).setting()
        steps = LayerPasses(setting.parallel, setting.costs).steps(setting.model.layers[1])
        both = [[k for step in pass_ if isinstance(step, Compute) for k in step.kernels] for pass_ in
                (steps.forward, steps.backward)]  # fmt: skip
        return sum(k.bytes for k in both[0]), sum(k.bytes for k in both[1]), sum(k.flops for k in both[0] + both[1])

    weights = 4 * 256 * 256 + 3 * 256 * 512
    more = 0 if zero == 3 else 6 * weights
    plain, cast = kernels(PURE), kernels(FSDP)
    assert (cast[0] - plain[0], cast[1] - plain[1], cast[2] - plain[2]) == (more, more, 0)


def test_keys_of_earlier_versions_say_what_has_their_place() -> None:
    for key in ("gradient", "master", "moment"):
        problem = refused("bf16", {"optimiser": {key: "2B"}})
        assert problem.field == "parallel.optimiser"
        assert "workload.precision says this" in problem.message
        assert "precision such as {weights: bf16, compute: bf16, gradients: fp32, states: fp32}" in str(
            problem.accepted
        )
    former = {"kind": "adam", "master": "4B", "moment": "4B"}  # as resolved experiments had it
    assert of("bf16", {"optimiser": former}) == of("bf16", {"optimiser": {"kind": "adam"}})


def test_what_is_wrong_with_types_is_said() -> None:
    missing = refused(dict.fromkeys(("weights", "compute", "gradients"), "bf16"))
    assert (missing.field, missing.message) == ("workload.precision.states", "this is missing")
    unknown = refused(PURE | {"weights": "fp8"})
    assert (unknown.field, unknown.accepted) == ("workload.precision.weights", "bf16, fp16, fp32, fp64")
    assert refused(PURE, element="4B").accepted == "no value, or 2B"
    assert of(PURE, element="2B") == of(PURE)  # as resolved experiments have it
    given = {"topology": "dgx-a100", "workload": {"model": "gpt2", "global_batch": 8, "precision": PURE}}
    given["workload"]["precision"] = PURE | {"compute": "fp8"}  # type: ignore[index]
    with pytest.raises(InputError, match=r"workload\.precision\.compute: the .* has no units for this data type"):
        load(document.read(yaml.safe_dump({"name": "a", **given}), "a.yaml"), "a.yaml", Path())
