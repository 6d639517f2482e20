"""Messages between two ranks take what NCCL's send and receive take."""

from __future__ import annotations

from typing import Any

import pytest

from support.experiments import study
from syncline.engine import completing
from syncline.engine import runs as engine
from syncline.engine.messages import LAUNCHES
from syncline.nccl.model import open_model
from syncline.nccl.platform import platform

TEXT = """\
name: x
topology: {topology}
gpus: "{gpus}"
network: flow
endpoint: {endpoint}
workload:
  model: gpt2
  parameters: {{layers: 4, hidden: 64, heads: 4, vocabulary: 256, positions: 64}}
  global_batch: 8
parallel: {parallel}
"""


def described(gpus: str, parallel: str, topology: str = "dgx-h100(nodes=2)", endpoint: str = "nccl") -> dict[str, Any]:
    """The engine's description of a small training."""
    text = TEXT.format(gpus=gpus, parallel=parallel, topology=topology, endpoint=endpoint)
    return completing.specification(study(text).variants[0].experiment)


def waits(specified: dict[str, Any]) -> set[tuple[int, int]]:
    """Bytes of messages, and picoseconds that they wait before they are sent."""
    found = set()
    for of in specified["job"]["graph"]["classes"]:
        for node in of["nodes"]:
            if node.work["op"] == "send":
                (before,) = node.after
                launch = of["nodes"][before]
                assert (launch.stream, launch.work["op"]) == (LAUNCHES, "time")
                found.add((node.work["bytes"], launch.work["time_ps"]))
    return found


@pytest.mark.parametrize(("gpus", "rate"), [("0,1", 450e9), ("0,8", 50e9)])
@pytest.mark.parametrize("parallel", ["{pipeline: 2}", "{context: 2}"])
def test_a_message_alone_takes_what_bench_says(gpus: str, rate: float, parallel: str) -> None:
    model = open_model(platform("dgx-h100(nodes=2)", gpus), kind="sendrecv")
    found = waits(described(gpus, parallel))
    assert found
    for size, wait in found:
        assert wait / 1e12 + size / rate == pytest.approx(model.time(size), rel=1e-6)


@pytest.mark.parametrize(
    "parallel",
    [
        "{pipeline: 4}",
        "{pipeline: 2, virtual: 2, schedule: interleaved}",
        "{context: 4}",
        "{parameter_server: sharded, updates: asynchronous}",
    ],
)
@pytest.mark.parametrize("topology", ["dgx-h100(nodes=2)", "dgx1v(nodes=2)"])
def test_trainings_wait_for_what_their_messages_take(topology: str, parallel: str) -> None:
    """Nodes keep their order and what they wait for, and nothing but launches is added."""
    plain = described("0-3", parallel, topology, "ideal")["job"]["graph"]["classes"]
    priced = described("0-3", parallel, topology)["job"]["graph"]["classes"]
    for before, after in zip(plain, priced, strict=True):
        kept = [number for number, node in enumerate(after["nodes"]) if node.stream != LAUNCHES]
        assert [after["nodes"][number].work for number in kept] == [node.work for node in before["nodes"]]
        for number, node in zip(kept, before["nodes"], strict=True):
            now = after["nodes"][number]
            if node.work["op"] == "send":
                now = after["nodes"][now.after[0]]
            assert now.after == tuple(kept[other] for other in node.after)
    text = TEXT.format(gpus="0-3", parallel=parallel, topology=topology, endpoint="nccl")
    total = engine.run(study(text).variants[0]).summary["total_ps"]
    launches = [wait for _, wait in waits(described("0-3", parallel, topology))]
    assert total > 2 * min(launches)


def test_exchanges_of_experts_wait_for_a_launch() -> None:
    text = """\
name: x
topology: dgx-h100
network: flow
endpoint: nccl
workload:
  model: mixtral-8x7b
  parameters: {layers: 1, hidden: 64, heads: 4, kv_heads: 2}
  sequence: 64
  global_batch: 8
parallel: {expert: 2, expert_loads: [3, 1]}
"""
    classes = completing.specification(study(text).variants[0].experiment)["job"]["graph"]["classes"]
    nodes = [(of["nodes"], node) for of in classes for node in of["nodes"] if node.work["op"] == "exchange"]
    assert nodes
    assert all(of[node.after[0]].work["time_ps"] > 10_000_000 for of, node in nodes)
