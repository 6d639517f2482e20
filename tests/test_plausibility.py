"""How much of their peak the NPUs of a training use, and who is warned of too much."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from support.experiments import study
from syncline.engine import plausibility
from syncline.engine import runs as engine

Command = Callable[..., Ended]

PEAK = 989.4e12
LAYERS, HIDDEN, TOKENS, VOCABULARY, SAMPLES = 4, 1024, 16, 64, 8
GPT = f"{{layers: {LAYERS}, hidden: {HIDDEN}, heads: 16, vocabulary: {VOCABULARY}, positions: {TOKENS}, dropout: 0}}"
BLOCKS = 3 * LAYERS * 24 * HIDDEN**2 * SAMPLES * TOKENS
"""FLOP of the products of blocks in an iteration, forward and twice as much backward (Narayanan et al., SC 2021,
section 5.1), without attention, which is a 400th of that here."""
NO_UPDATE = "training: {update: false}"
SECOND = {"total_ps": 2 * 10**12, "iterations": 2}


def share(workload: str, more: str = "", topology: str = "dgx-h100", summary: dict[str, Any] | None = None) -> Any:
    """The share of a run of a second for an iteration."""
    text = f"name: x\ntopology: {topology}\nworkload: {workload}\nnetwork: flow\n{more}\n"
    (variant,) = study(text).variants
    return plausibility.peak_share(variant.experiment, summary or SECOND)


def test_copies_compute_what_the_formula_says() -> None:
    found = share(f"{{model: gpt, parameters: {GPT}, batch: {SAMPLES}, precision: bf16}}")
    assert found * PEAK == pytest.approx(BLOCKS, rel=0.03)


@pytest.mark.parametrize(
    ("parallel", "passes"),
    [
        ("{}", 3),
        ("{recompute: full}", 4),
        ("{tensor: 4, pipeline: 2, micro_batch: 8}", 3),
        ("{zero: 3}", 3),
        ("{tensor: 8, recompute: full, micro_batch: 8}", 4),
    ],
)
def test_divided_models_compute_as_much_however_they_are_divided(parallel: str, passes: int) -> None:
    """Of 8 times as many samples on 8 NPUs; a whole forward pass more where blocks are computed again."""
    workload = f"{{model: gpt, parameters: {GPT}, global_batch: {8 * SAMPLES}, precision: bf16}}"
    found = share(workload, f"parallel: {parallel}\n{NO_UPDATE}")
    assert found * PEAK == pytest.approx(BLOCKS * passes / 3, rel=0.03)


def test_products_in_fp8_are_held_against_their_own_peak() -> None:
    """Twice that of BF16, of nearly all that a GPT computes."""
    wide, narrow = (
        share(f"{{model: gpt, parameters: {GPT}, global_batch: 64, precision: {precision}}}", NO_UPDATE)
        for precision in ("bf16", "fp8")
    )
    assert narrow / wide == pytest.approx(1 / 2, rel=0.03)


def test_jobs_are_looked_at_one_by_one() -> None:
    job = f"workload: {{model: gpt, parameters: {GPT}, batch: {SAMPLES}, precision: bf16}}"
    summary = {"jobs": [{"name": "a", "time_ps": 4 * 10**12, "iterations": 2}]}
    summary["jobs"].append({"name": "b", "time_ps": 10**12, "iterations": 2})
    found = share(f"{{jobs: [{{name: a, npus: 0-3, {job}}}, {{name: b, npus: 4-7, {job}}}]}}", summary=summary)
    assert found * PEAK == pytest.approx(2 * BLOCKS, rel=0.03)


def test_nothing_is_said_where_nothing_follows_from_the_peak() -> None:
    assert share("{collective: all-reduce, size: 1MB}") is None
    systolic = "npu: {compute: {kind: systolic}}"
    assert share("{model: resnet18, batch: 1}", systolic, "Ring(4)") is None
    assert share("{model: resnet18, batch: 1}", summary={"total_ps": 0, "iterations": 2}) is None


def test_a_gpu_that_is_too_busy_is_a_warning_with_its_reasons(tmp_path: Path, syncline_command: Command) -> None:
    """Large products at the roofline, whose only exposed collective takes nothing of NPUs."""
    path = tmp_path / "x.yaml"
    model = "{layers: 2, hidden: 8192, heads: 64, vocabulary: 1024, dropout: 0}"
    path.write_text(
        "name: x\ntopology: dgx-h100\nendpoint: ideal\nnetwork: flow\ncollective: {chunks: 1, algorithm: ring}\n"
        f"workload: {{model: gpt, parameters: {model}, global_batch: 128, precision: bf16}}\n"
        "parallel: {micro_batch: 16, zero: 1}\nnpu: {compute: {kind: roofline}}\n"
    )
    (entry,) = json.loads(syncline_command("run", str(path), "--json").out)["runs"]
    roofline, warning = (line for line in entry["warnings"] if "npu.peak" in line)
    assert roofline.startswith("npu.compute.kind = roofline: ")
    assert 0.75 < entry["peak_share"] < 1
    assert warning.startswith(
        f"operations run at {entry['peak_share']:.0%} of npu.peak, what is computed again included"
    )
    for reason in ("npu.compute.kind roofline", "npu.host_kernel_time 0", "endpoint ideal"):
        assert reason in warning
    (entry,) = json.loads(syncline_command("run", str(path), "--json", "--set", "npu.compute.kind=gpu").out)["runs"]
    assert 0.2 < entry["peak_share"] < 0.75
    assert not any("npu.peak" in line for line in entry["warnings"])


def test_only_gpus_are_warned_of() -> None:
    (gpu,) = study("name: x\ntopology: dgx-h100\nworkload: {model: gpt2, batch: 1}\n").variants
    (other,) = study("name: x\ntopology: Ring(4)\nworkload: {model: gpt2, batch: 1}\n").variants
    assert [*plausibility.warnings(gpu.experiment, 0.75)] == []
    assert [*plausibility.warnings(gpu.experiment, None)] == []
    assert len([*plausibility.warnings(gpu.experiment, 0.76)]) == 1
    assert [*plausibility.warnings(other.experiment, 0.99)] == []


def test_a_collective_has_no_share() -> None:
    text = "name: x\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\ncollective: {algorithm: ring}\n"
    (variant,) = study(text).variants
    assert engine.run(variant).summary["peak_share"] is None
