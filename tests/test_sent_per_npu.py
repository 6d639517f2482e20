"""What `sent per NPU` means: the payload of the job, whatever the endpoint, the rates of links and NCCL's algorithm."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import syncline
from support.experiments import SMALL_GPT
from syncline.engine import runs as engine
from syncline.results import entries as results

SIZE = 16 * 3 * 2**20
"""Divides by all numbers of ranks here, so that nothing is padded."""
BY_HAND = {
    "all-reduce": 2 * SIZE,
    "all-gather": SIZE,
    "reduce-scatter": SIZE,
    "all-to-all": SIZE,
    "broadcast": SIZE,
    "reduce": SIZE,
}
"""Bytes of all messages of n ranks over n - 1: ranks that receive or send all but their own part, or the whole."""


def collective(topology: str, endpoint: Any, kind: str, **more: Any) -> dict[str, Any]:
    """An experiment that is one."""
    of = {"topology": topology, "network": "flow", "endpoint": endpoint}
    return {"name": "one", **of, "workload": {"collective": kind, "size": f"{SIZE}B"}, **more}


def sent(experiment: dict[str, Any]) -> float:
    """Bytes that an NPU sent, as the bandwidth has them, too."""
    (system,) = syncline.run(experiment).systems.values()
    network = system.network
    assert network["achieved_bandwidth_bytes_per_s"] == network["bytes_sent_per_npu"] / system.total_time_s
    return float(network["bytes_sent_per_npu"])


def by_hand(kind: str, ranks: int) -> Fraction:
    """Bytes that a rank sends in the mean."""
    return Fraction(BY_HAND[kind] * (ranks - 1), ranks)


@pytest.mark.parametrize("endpoint", ["ideal", "baseline", "nccl"])
@pytest.mark.parametrize("kind", BY_HAND)
@pytest.mark.parametrize(
    ("topology", "members", "ranks"),
    [
        ("dgx-a100(nodes=2)", {}, 16),
        ("dgx-h100(nodes=2)", {"groups": "0-3;4,5,8,9"}, 4),
        ("Switch(8)_Switch(2)", {"npu": {"gpu": "h100"}}, 16),
    ],
)
def test_of_a_collective_it_is_what_its_ranks_have_to_send(
    topology: str, members: dict[str, Any], ranks: int, kind: str, endpoint: str
) -> None:
    how: dict[str, Any] = {"algorithm": "hierarchical-optimal", "chunks": 1}
    if kind == "all-to-all":
        how = {"algorithms": {kind: "direct"}, "chunks": 1}
    elif kind in ("broadcast", "reduce"):
        how["slices"] = 1
    of: Any = endpoint
    if endpoint == "baseline":
        of = {"kind": endpoint, "comm_sms": 6, "comm_memory_bandwidth": "450GB/s"}
    assert sent(collective(topology, of, kind, collective=how, **members)) == float(by_hand(kind, ranks))
    if endpoint == "nccl":
        assert sent(collective(topology, of, kind, **members)) == float(by_hand(kind, ranks))


@pytest.mark.parametrize("algorithm", ["ring", "tree", "nvls"])
def test_neither_rates_nor_the_algorithm_of_nccl_change_it(algorithm: str) -> None:
    for nic_rate in ("100Gb/s", "400Gb/s", "800Gb/s"):
        machine = f"dgx-h100(nodes=4, nic_rate={nic_rate})"
        experiment = collective(machine, {"kind": "nccl", "algorithm": algorithm}, "all-reduce")
        assert sent(experiment) == float(by_hand("all-reduce", 32))


@pytest.mark.parametrize("parallel", [{}, {"tensor": 4, "pipeline": 2}, {"zero": 3}, {"parameter_server": "sharded"}])
def test_a_training_sends_the_same_with_every_endpoint_and_rate(parallel: dict[str, Any]) -> None:
    model = {**SMALL_GPT["workload"], "global_batch": 16}
    how = {"collective": {"algorithm": "hierarchical-optimal", "chunks": 1}, "network": "flow"}
    found = {
        sent(
            {"name": "gpt", "workload": model, "parallel": parallel, "topology": topology, "endpoint": endpoint, **how}
        )
        for endpoint in ("ideal", "nccl")
        for topology in ("dgx-h100(nodes=2, nic_rate=100Gb/s)", "dgx-h100(nodes=2, nic_rate=400Gb/s)")
    }
    assert len(found) == 1, found
    assert found.pop() > 0


def test_a_run_that_stops_counts_what_has_arrived() -> None:
    """Of 51 MB of gradients an iteration; those of the second one are under way when it ends."""
    experiment = {
        **{"name": "one", "topology": "dgx-h100(nodes=4)", "network": "flow", "endpoint": "nccl"},
        **{"workload": {"model": "resnet50", "batch": 1}, "training": {"bucket": "25MiB"}},
    }
    whole = sent({**experiment, "training": {"bucket": "25MiB", "tail": "drain"}})
    assert whole / 2 <= sent(experiment) < whole
    assert whole == pytest.approx(2 * 2 * 31 / 32 * 2 * 25.557e6, rel=1e-3)


def test_what_switches_send_is_no_part_of_what_has_arrived_of_npus() -> None:
    """Of 800 bytes of NPUs and 200 of switches 600 have arrived, those of switches and half of all others."""
    endpoint = {"kind": "switch-offload", "comm_memory_bandwidth": "450GB/s"}
    experiment = collective("Switch(8)", endpoint, "all-reduce", collective={"algorithm": "in-switch"})
    (variant,) = syncline.load(experiment)._study.variants
    training = variant.experiment.training.model_copy(update={"tail": "stop"})
    stopped = variant.experiment.model_copy(update={"training": training})
    result = engine.run(variant)
    assert stopped.tail == "stop"
    sent_of = result.summary["endpoint"] | {"sent_bytes": 800, "sent_by_switches_bytes": 200, "transit_bytes": 0}
    carried = result.summary["network"] | {"injected_bytes": 1000, "delivered_bytes": 600}
    summary = result.summary | {"endpoint": sent_of, "network": carried}
    assert results.network(stopped, replace(result, summary=summary))["bytes_sent_per_npu"] == 400 / 8


def test_what_check_says_is_what_run_says() -> None:
    ((_, estimate),) = syncline.check(collective("dgx-h100(nodes=2)", "nccl", "broadcast")).estimates.items()
    assert estimate.bytes_sent_per_npu == by_hand("broadcast", 16)
