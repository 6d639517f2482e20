"""A model in plain data parallelism against the same model in copies only: what both exchange and update."""

from __future__ import annotations

from typing import Any

import pytest

import syncline
from syncline.models import counts, file
from syncline.models.evaluate import evaluate

SIZES = {"layers": 2, "hidden": 64, "heads": 4, "vocabulary": 512, "positions": 32}
FABRIC = {
    "topology": "Ring(4, rate=50GB/s, latency=500ns)",
    "npu": {"gpu": "h200", "compute": {"kind": "roofline"}},
    "collective": {"algorithm": "ring", "chunks": 4},
    "network": "flow",
    "endpoint": "ideal",  # collectives take nothing of kernels
}
PLAIN = {"workload": {"model": "gpt2", "batch": 1, "parameters": SIZES}}
DIVIDED = {"workload": {"model": "gpt2", "global_batch": 4, "parameters": SIZES}, "parallel": {"data": 4}}


def ran(experiment: dict[str, Any], **training: Any) -> syncline.System:
    """The only system of an experiment on [`FABRIC`]."""
    (system,) = syncline.run({"name": "both", **FABRIC, **experiment, "training": training}).systems.values()
    return system


def of_layers(system: syncline.System, column: str) -> int:
    """The sum of a column of the table of layers."""
    return sum(system.tables["layers"].to_arrow()[column].to_pylist())


@pytest.mark.parametrize("bucket", [{}, {"bucket": "1MiB"}, {"overlap": False}])
def test_what_tied_layers_share_is_exchanged_and_updated_once(bucket: dict[str, Any]) -> None:
    parameters = counts.parameters(evaluate(file.load("gpt2"), 1, parameters=SIZES))
    plain = ran(PLAIN, iterations=1, tail="drain", **bucket)
    divided = ran(DIVIDED, iterations=1)
    exchanged = [sum(s.tables["collectives"].to_arrow()["bytes"].to_pylist()) for s in (plain, divided)]
    assert exchanged == [2 * parameters, 2 * parameters]
    assert of_layers(plain, "params") == parameters
    assert of_layers(plain, "gradient_bytes") == 2 * parameters
    # Gradients and momenta of four bytes, weights of four, and a copy of two: 20 bytes for each parameter.
    assert of_layers(plain, "update_ps") == pytest.approx(20 * parameters / 4.8e12 * 1e12, rel=1e-3)


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("training", [{"tail": "drain"}, {"barrier": True}, {"barrier": True, "tail": "drain"}])
def test_every_iteration_has_its_updates(training: dict[str, Any], iterations: int) -> None:
    system = ran(PLAIN, iterations=iterations, **training)
    passes = ("forward_ps", "input_grad_ps", "weight_grad_ps", "update_ps")
    once = sum(of_layers(system, column) for column in passes)
    assert system.compute_time_s == pytest.approx(iterations * once / 1e12, rel=1e-9)
    stopped = ran(PLAIN, iterations=iterations)
    left = of_layers(system, "update_ps") / 1e12
    assert stopped.compute_time_s == pytest.approx(iterations * once / 1e12 - left, rel=1e-9)


def test_a_barrier_makes_an_iteration_what_it_is_in_a_long_run() -> None:
    system = ran(PLAIN, iterations=2, barrier=True)
    assert system.steady_iteration_time_s == pytest.approx(system.iteration_time_s, rel=1e-9)


def test_layers_of_a_divided_model_say_what_their_graph_says() -> None:
    plain, divided = ran(PLAIN, iterations=1, tail="drain"), ran(DIVIDED, iterations=1)
    rows = {row["layer"]: row for row in divided.tables["layers"].to_arrow().to_pylist()}
    for row in plain.tables["layers"].to_arrow().to_pylist():
        other = rows[row["layer"]]
        assert (other["params"], other["gradient_bytes"]) == (None, None)
        assert other["forward_ps"] == row["forward_ps"] > 0
    passes = ("forward_ps", "input_grad_ps", "weight_grad_ps", "update_ps")
    assert sum(of_layers(divided, column) for column in passes) == of_layers(divided, "compute_ps")
