"""Weights that are gathered beside compute: in the order in which layers need them, and what is left to wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncline.base import document
from syncline.engine import comparison
from syncline.engine import runs as engine
from syncline.experiment.load import Variant, load
from syncline.results import entries as results

H, WORDS, NPUS = 1024, 1024, 4
RATE = 50e9
"""Bytes per second into an NPU."""
EXPERIMENT = """\
name: gpt
topology: "Switch(4, rate=100GB/s, latency=1ns)"
workload: {{model: gpt, parameters: {{layers: 4, hidden: 1024, heads: 16, vocabulary: 1024}}, global_batch: 16}}
parallel: {parallel}
collective: {{algorithm: direct, chunks: 8, scheduling: {scheduling}}}
network: flow
endpoint: ideal
npu: {{gpu: a100-80gb, compute: {{kind: roofline}}}}
training: {training}
"""


def variant(parallel: str, scheduling: str = "lifo", training: str = "{iterations: 3}") -> Variant:
    text = EXPERIMENT.format(parallel=parallel, scheduling=scheduling, training=training)
    return load(document.read(text, "gpt.yaml"), "gpt.yaml", Path()).variants[0]


def summary(*args: str, steady: bool = False, **named: str) -> dict[str, Any]:
    return engine.run(variant(*args, **named), steady=steady).summary


def gathered(parameters: int) -> float:
    """Picoseconds of an all-gather of weights of two bytes."""
    return 2 * parameters * (NPUS - 1) / NPUS / RATE * 1e12


@pytest.mark.parametrize("scheduling", ["lifo", "fifo"])
def test_the_next_forward_pass_hides_weights_but_those_of_its_first_layers(scheduling: str) -> None:
    """A block computes for longer than its weights take, so what is waited for is the embedding's, which nothing is
    beside, and of the first block's what the embedding does not hide.
    """
    found = summary("{zero: 1, micro_batch: 4}", scheduling)
    waits = {e["layer"]: e["exposed_ps"] / 2 for e in found["exposed_by"] if e["pass"] == "update"}
    assert set(waits) == {"embedding", "block.0"}
    assert waits["embedding"] == pytest.approx(gathered(WORDS * H), rel=1e-3)
    assert waits["block.0"] < gathered(12 * H * H)


@pytest.mark.parametrize("parallel", ["{zero: 2}", "{zero: 3}", "{zero: 3, prefetch: 3}"])
def test_the_order_of_gathers_is_not_a_matter_of_scheduling(parallel: str) -> None:
    """What is issued last goes first with LIFO; the layer that is needed first has its weights first all the same."""
    lifo, fifo = (summary(parallel, scheduling)["steady"]["iteration_ps"] for scheduling in ("lifo", "fifo"))
    assert lifo == pytest.approx(fifo, rel=1e-4)


@pytest.mark.parametrize("tail", ["drain", "stop"])
@pytest.mark.parametrize("parallel", ["{zero: 1}", "{parameter_server: sharded}"])
def test_one_iteration_tells_what_a_further_one_costs(parallel: str, tail: str) -> None:
    short = variant(parallel, training=f"{{tail: {tail}, iterations: 1}}")
    result = engine.run(short, steady=True)
    ends = [summary(parallel, training=f"{{tail: stop, iterations: {n}}}")["total_ps"] for n in (3, 4)]
    assert result.summary["steady"]["iteration_ps"] == pytest.approx(ends[1] - ends[0], rel=1e-6)
    assert engine.run(short).summary == result.summary | {"steady": None}
    entry = results.run_entry(short, result)
    differ = abs(entry["steady_iteration_time_s"] / entry["iteration_time_s"] - 1) > comparison.DIFFERENT
    assert differ == ("that of the only iteration" in (entry["steady_iteration_because"] or ""))


def test_where_nothing_comes_later_no_more_is_simulated() -> None:
    for parallel, overlap in (("{zero: 1}", "false"), ("{zero: 3}", "true"), ("{}", "true")):
        one, two = (summary(parallel, training=f"{{overlap: {overlap}, iterations: {n}}}", steady=True) for n in (1, 2))
        assert one["steady"] is None
        assert two["steady"]["iteration_ps"] == pytest.approx(one["total_ps"], rel=1e-6)
