"""What `precision: fp8` acts on: products of linear layers, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from support.experiments import complaints, study
from syncline.engine import assumptions, specification
from syncline.engine import runs as engine
from syncline.strategies import memory, training
from syncline.strategies.build import Divided
from syncline.strategies.memory import Memory

LLAMA = (
    "model: llama, parameters: {layers: 4, hidden: 512, heads: 4, feed_forward: 1408, vocabulary: 1024}, sequence: 256"
)
MIXTRAL = (
    "model: mixtral-8x7b, parameters: {layers: 2, hidden: 256, heads: 4, kv_heads: 4, feed_forward: 512, "
    "vocabulary: 1024}, sequence: 256"
)
PLAIN = "collective: {algorithm: ring, chunks: 4}\n"
"""Chunks that do not follow from how long anything takes."""
WAYS = {
    "data": "{}",
    "zero 1": "{zero: 1}",
    "zero 2": "{zero: 2}",
    "zero 3": "{zero: 3}",
    "tensor": "{tensor: 4}",
    "sequence": "{tensor: 4, sequence: true}",
    "context": "{context: 4}",
    "gathered context": "{context: 2, context_exchange: all-gather}",
    "pipeline": "{pipeline: 4, tensor: 2, scatter_gather: true}",
    "interleaved": "{pipeline: 2, schedule: interleaved, virtual: 2, zero: 1}",
    "pipedream": "{pipeline: 2, schedule: pipedream}",
    "recomputed": "{recompute: full}",
    "central server": "{parameter_server: central}",
    "sharded server": "{parameter_server: sharded, updates: asynchronous}",
    "experts": "{expert: 4}",
    "unequal experts": "{expert: 2, expert_loads: [1, 3]}",
}


def variant(workload: str, precision: str, more: str = "", *settings: str) -> Any:
    """An experiment on eight H100."""
    text = f"name: narrow\ntopology: dgx-h100\nnetwork: analytical\nworkload: {{{workload}, precision: {precision}}}\n"
    return study(text + more, *settings).variants[0]


def exchanged(divided: Divided) -> list[list[Any]]:
    """What the nodes of every class do that is no compute, with their bytes."""
    return [[node.work for node in of.nodes if node.work["op"] != "kernels"] for of in divided.classes]


class TestDivided:
    @pytest.mark.parametrize("ways", WAYS)
    def test_messages_and_memory_are_those_of_bf16(self, ways: str) -> None:
        model = MIXTRAL if "experts" in ways else LLAMA
        found: list[tuple[Divided, list[Memory]]] = []
        for precision in ("bf16", "fp8"):
            experiment = variant(f"{model}, global_batch: 16", precision, f"parallel: {WAYS[ways]}\n").experiment
            found.append((training.divided(experiment), memory.of(training.of(experiment).setting())))
        (wide, of_wide), (narrow, of_narrow) = found
        assert exchanged(wide) == exchanged(narrow)
        assert of_wide == of_narrow
        changed = [
            (before, after)
            for row, other in zip(wide.costs, narrow.costs, strict=True)
            for before, after in zip(row, other, strict=True)
            if before != after
        ]
        assert changed
        for before, after in changed:
            assert after.narrow
            assert before.gemm is not None
            first, second = before.gemm.operands
            operands = (first // 2, second // 2)
            assert after.gemm == dataclasses.replace(before.gemm, operands=operands)
            assert before.bytes - after.bytes == sum(operands)

    def test_what_is_gained_is_less_than_the_products_of_linear_layers(self) -> None:
        """Most of the work is done twice as fast, and the rest as before: a whole iteration gains less than two."""
        model = "model: llama3-8b, parameters: {layers: 4}, sequence: 4096, global_batch: 8"
        wide, narrow = (engine.run(variant(model, p, PLAIN + "parallel: {zero: 3}\n")).summary for p in ("bf16", "fp8"))
        assert 1.2 < wide["total_ps"] / narrow["total_ps"] < 1.75
        assert wide["network"]["delivered_bytes"] == narrow["network"]["delivered_bytes"]


class TestCopies:
    """Of the same on every NPU, and of jobs, the engine makes the graphs."""

    @pytest.mark.parametrize(
        "workload",
        ["model: gpt2, batch: 2", "jobs: [{name: one, npus: 0-3, workload: {model: gpt2, batch: 2, precision: @}}]"],
    )
    def test_gradients_are_those_of_bf16(self, workload: str) -> None:
        found = []
        for precision in ("bf16", "fp8"):
            text = workload.replace("@", precision)
            named = "" if "@" in workload else f", precision: {precision}"
            head = f"name: narrow\ntopology: dgx-h100\nnetwork: analytical\nworkload: {{{text}{named}}}\n"
            found.append(engine.run(study(head + PLAIN + "training: {tail: drain}\n").variants[0]).summary)
        wide, narrow = found
        assert 1.1 < wide["compute_ps"] / narrow["compute_ps"] < 1.9
        assert wide["network"]["delivered_bytes"] == narrow["network"]["delivered_bytes"]


class TestCompute:
    @pytest.mark.parametrize(
        ("settings", "rates"),
        [
            ((), (989.4e12, 1978.9e12)),
            (("npu.peak=1500TFLOP/s",), (1500e12 * 989.4 / 1978.9, 1500e12)),
            (("topology=dgx-a100", "npu.peak=600TFLOP/s"), (300e12, 600e12)),
        ],
    )
    def test_only_linear_layers_have_the_peak(self, settings: tuple[str, ...], rates: tuple[float, float]) -> None:
        found = specification.compute_model(variant("model: gpt2, batch: 2", "fp8", "", *settings).experiment)
        assert (found["flops_per_s"], found["narrow"]["flops_per_s"]) == pytest.approx(rates, rel=1e-12)

    def test_tiles_take_in_more_elements_of_what_is_narrow(self) -> None:
        experiment = variant("model: gpt2, batch: 2", "fp8", "npu: {compute: {kind: tiles}}\n").experiment
        found = specification.compute_model(experiment)
        depths = [of["model"]["depth"] for of in (found, found["narrow"])]
        assert depths == [64, 128]

    def test_elements_of_one_byte_are_honoured(self) -> None:
        """Whoever says that elements have one byte gets messages of that."""
        found = variant("model: gpt2, batch: 2, element: 1B", "fp8").experiment
        assert (found.workload.element, found.workload.linear_element) == (1, 1)

    def test_what_it_acts_on_is_an_assumption(self) -> None:
        for size in ("batch: 2", "global_batch: 8"):
            (line,) = [text for text in assumptions.of([variant(f"model: gpt2, {size}", "fp8")]) if "linear" in text]
            assert line.startswith("workload.precision = fp8 acts on products of linear layers only")
            assert "have elements of 2B" in line
        assert not any("linear" in text for text in assumptions.of([variant("model: gpt2, batch: 2", "bf16")]))

    def test_it_is_refused_without_units(self) -> None:
        text = "name: narrow\ntopology: dgx-a100\nworkload: {model: gpt2, batch: 2, precision: fp8}\n"
        assert "has no units for this data type" in complaints(text)
