"""Divided trainings on some GPUs of a machine, which `gpus` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline
from support.experiments import SMALL_GPT, complaints, study
from syncline.engine import runs as engine
from syncline.strategies import training

TEXT = """\
name: part
topology: dgx-h100(nodes=2)
gpus: "{gpus}"
network: flow
collective: {{algorithm: ring, chunks: 2}}
endpoint: {endpoint}
workload:
  model: gpt2
  parameters: {{layers: 4, hidden: 256, heads: 4, vocabulary: 1024, positions: 128}}
  global_batch: 16
parallel: {parallel}
"""
WAYS = (
    "{}",
    "{zero: 1}",
    "{zero: 3}",
    "{tensor: 4}",
    "{tensor: 2, pipeline: 2, sequence: true}",
    "{context: 4}",
    "{pipeline: 4}",
    "{parameter_server: central}",
    "{parameter_server: sharded}",
)


def variant(gpus: str, parallel: str = "{}", endpoint: str = "ideal") -> Any:
    """A small GPT on some GPUs of two servers."""
    return study(TEXT.format(gpus=gpus, parallel=parallel, endpoint=endpoint)).variants[0]


@pytest.mark.parametrize("parallel", WAYS)
def test_it_does_not_matter_which_gpus_of_a_server_train(parallel: str) -> None:
    """Any four are joined by the same switches."""
    found = []
    for gpus in ("0-3", "4-7", "9,10,12,15"):
        of_gpus = variant(gpus, parallel)
        summary = engine.run(of_gpus).summary
        divided = training.divided(of_gpus.experiment)
        chosen = set(of_gpus.experiment.members[0])
        assert {npu for of_class in divided.classes for npu in of_class.npus} == chosen
        for family in divided.families.values():
            assert {npu for group in family["groups"] for npu in group} <= chosen
        assert summary["npu"] in chosen
        found.append((summary["total_ps"], summary["network"]["delivered_bytes"]))
    assert found[0] == found[1] == found[2]


def test_it_takes_what_a_machine_of_so_many_takes() -> None:
    """Eight GPUs of one server are that server."""
    part = engine.run(variant("8-15", "{tensor: 2}")).summary
    text = TEXT.format(gpus="0-7", parallel="{tensor: 2}", endpoint="ideal").replace("(nodes=2)", "")
    whole = engine.run(study(text).variants[0]).summary
    assert part["total_ps"] == whole["total_ps"]


@pytest.mark.parametrize(
    "endpoint", ["nccl", "streams", "{kind: baseline, comm_sms: auto, comm_memory_bandwidth: auto}"]
)
def test_endpoints_know_the_part(endpoint: str) -> None:
    times = [engine.run(variant(gpus, "{tensor: 2, zero: 1}", endpoint)).summary["total_ps"] for gpus in ("0-3", "4-7")]
    assert times[0] == times[1]
    across = engine.run(variant("0-1,8-9", "{tensor: 2, zero: 1}", endpoint)).summary["total_ps"]
    assert across > times[0]


def test_servers_with_unequally_many_of_them() -> None:
    """Three on one and one on the other: data-parallel rings cross the network."""
    assert engine.run(variant("0-2,8")).summary["total_ps"] > engine.run(variant("0-3")).summary["total_ps"]


def test_the_first_of_them_is_traced() -> None:
    slices = engine.run(variant("12-15")).tables["slices"]
    assert set(slices.column("npu").to_pylist()) == {12}


def test_ways_are_those_of_the_part() -> None:
    text = TEXT.format(gpus="0-2", parallel="{tensor: 2}", endpoint="ideal")
    assert "tensor 2 x context 1 x pipeline 1 is 2, which does not divide the 3 NPUs" in complaints(text)
    assert "there is no GPU 16" in complaints(TEXT.format(gpus="0-16", parallel="{}", endpoint="ideal"))
    text = TEXT.format(gpus="0-3", parallel="{}", endpoint="ideal").replace('gpus: "0-3"', 'groups: "0,1;2,3"')
    assert "parallel says which GPUs of a divided training (workload.global_batch) work together" in complaints(text)


def test_fit_and_search_divide_the_part(tmp_path: Path) -> None:
    experiment = {**SMALL_GPT, "topology": "dgx-a100", "gpus": "2-5"}
    (variant_of_fit,) = syncline.fit(experiment).document["variants"]
    assert variant_of_fit["npus"] == 4
    assert {row["tensor"] * row["pipeline"] * row["data"] for row in variant_of_fit["rows"]} == {4}
    found = syncline.search({**experiment, "search": {"tensor": "auto", "zero": [0, 1], "simulate": 2}})
    rows = found.document["rows"]
    assert {row["npus"] for row in rows} == {4}
    assert sum(row["status"] == "simulated" for row in rows) == 2
