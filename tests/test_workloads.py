"""Recommendation and translation models on the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from support.experiments import study
from syncline.engine import runs as engine
from syncline.experiment import packaged as studies
from syncline.experiment.load import load_file
from syncline.results.entries import dumps

Command = Callable[..., Ended]

DLRM = """\
name: tables
topology: Torus(4,2,2)
network: flow
workload: {model: dlrm, batch: 64}
training: {update: false}
collective: {algorithm: ace-4-phase, algorithms: {all-to-all: direct}, priority: [all-to-all], chunks: 8}
"""


def summary(text: str, *settings: str) -> dict[str, Any]:
    """What the engine makes of the only variant."""
    return engine.run(study(text, *settings).variants[0]).summary


def test_time_is_compute_waits_for_communication_and_waits_for_background_compute() -> None:
    for settings in ((), ("training.overlap=false",), ("training.background_embedding=true",)):
        found = summary(DLRM, *settings)
        parts = ("compute_ps", "exposed_ps", "background_wait_ps")
        assert found["total_ps"] == sum(found[part] for part in parts)


def test_a_background_with_everything_that_it_needs_saves_the_tables_time() -> None:
    inline = summary(DLRM)
    # Resources beyond the NPU's, so that the main stream keeps what it has.
    rich = ("npu.memory_bandwidth=1800GB/s", "npu.sms=160", "npu.peak=240TFLOP/s")
    beside = ("background_embedding=true", "background_sms=80", "background_memory_bandwidth=900GB/s")
    background = summary(DLRM, *rich, *(f"training.{setting}" for setting in beside))
    layers = engine.run(study(DLRM).variants[0]).tables["layers"].to_pydict()
    lookup, apply = layers["forward_ps"][0], layers["weight_grad_ps"][0]
    # Of two lookups and two applications only the first lookup stays; tables are all but bound by memory.
    assert inline["compute_ps"] - background["compute_ps"] == pytest.approx(lookup + 2 * apply, rel=1e-9)
    assert background["total_ps"] < inline["total_ps"]


def test_every_kind_of_collectives_has_its_phases() -> None:
    phases = engine.run(study(DLRM).variants[0]).tables["phases"].to_pydict()
    assert phases["name"] == [
        "reduce-scatter dim 0",
        "all-reduce dim 1",
        "all-reduce dim 2",
        "all-gather dim 0",
        "all-to-all of all",
    ]
    assert phases["chunks"][4] == 8 * 4  # two exchanges in each of two iterations


@pytest.mark.parametrize("model", ["gnmt", "dlrm"])
def test_a_folded_run_is_the_run_of_the_whole(model: str) -> None:
    text = DLRM
    if model == "gnmt":
        text = DLRM.replace("dlrm, batch: 64", "gnmt, batch: 8").replace("{all-to-all: direct}", "{}")
        text = text.replace("[all-to-all]", "[]")
    results = []
    for fold in ("on", "off"):
        found = summary(text, f"fold={fold}")
        for key in ("simulated_npus", "unfolded", "events"):
            del found[key]
        results.append(dumps(found))
    assert results[0] == results[1]


def test_longer_sentences_take_longer() -> None:
    text = "name: a\ntopology: Ring(2)\nnetwork: analytical\nworkload: {model: gnmt, batch: 64}\n"
    text += "training: {update: false}\n"
    default = summary(text)["compute_ps"]
    assert summary(text, "workload.sequence=25")["compute_ps"] == default
    assert 1.9 < summary(text, "workload.sequence=50")["compute_ps"] / default < 2.1


def test_a_systolic_array_takes_what_its_closed_form_says() -> None:
    text = "name: a\ntopology: Ring(2)\nnetwork: analytical\nworkload: {model: resnet50, batch: 32}\n"
    array = "npu.compute={kind: systolic, rows: 256, columns: 256, dataflow: weight-stationary, clock: 700MHz}"
    fast = "npu.memory_bandwidth=1000000GB/s"
    layers = engine.run(study(text, array, fast, "workload.kernels=weighted").variants[0]).tables["layers"].to_pydict()
    at = layers["layer"].index("layer1.0.conv2")  # 100,352 windows of 576 elements by 64 channels: three folds
    assert layers["forward_ps"][at] == round(3 * (3 * 256 - 2 + 100_352) * 1e12 / 700e6)


@pytest.mark.parametrize("model", [2, 4])
def test_data_groups_of_a_text_know_servers(syncline_command: Command, tmp_path: Any, model: int) -> None:
    """They take as long as the same groups by number: parts of two servers, in rings over all of their NICs."""
    layer = "wide -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 64000000 0"
    (tmp_path / "text.txt").write_text(f"HYBRID_TRANSFORMER model_parallel_NPU_group: {model}\n1\n{layer}\n")
    common = "topology: dgx-h100(nodes=2)\nnetwork: flow\ncollective: {algorithm: ring, chunks: 16}\n"
    text = "workload: {astra_text: text.txt}\ntraining: {iterations: 1, tail: drain}\n"
    alone = f"workload: {{collective: all-reduce, size: 64MB}}\ngroups: size {16 // model} stride {model}\n"
    times = []
    for name, more in (("text", text), ("alone", alone)):
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"name: {name}\n{common}{more}")
        times.append(json.loads(syncline_command("run", str(file), "--json").out)["runs"][0]["total_time_s"])
    assert times[0] == pytest.approx(times[1], rel=0.01)


def test_terminal_and_json_show_the_background(syncline_command: Command, tmp_path: Any) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(DLRM)
    plain = syncline_command("run", str(file))
    assert "background" not in plain.out
    beside = syncline_command("run", str(file), "--set", "training.background_embedding=true")
    assert "background" in beside.out
    assert "waits for it" in beside.out
    ended = syncline_command("run", str(file), "--set", "training.background_embedding=true", "--json")
    (run,) = json.loads(ended.out)["runs"]
    assert run["background_compute_time_s"] > 0
    assert run["background_wait_s"] >= 0


def test_packaged_studies_are_folded() -> None:
    for name in ("ace/gnmt", "ace/dlrm", "ace/dlrm-optimised"):
        for preview in engine.check(load_file(*studies.find(name)).variants):
            assert preview.simulated_npus == 1


MICRO_TEXT = "MICRO\n1\nconv1 -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1048576 5\n"


def test_a_text_of_one_collective_has_the_time_of_that_collective(syncline_command: Command, tmp_path: Path) -> None:
    """It has no passes with which a run could end, unless it is said that it ends with them."""
    (tmp_path / "micro.txt").write_text(MICRO_TEXT)
    file = tmp_path / "micro.yaml"
    file.write_text("name: micro\ntopology: Ring(4)\nworkload: {astra_text: micro.txt}\n")

    def document(*settings: str) -> Any:
        ended = syncline_command("run", str(file), "--json", "-q", *(f"--set={setting}" for setting in settings))
        assert ended.status == 0, ended.err
        return json.loads(ended.out)

    once, twice = (document(f"training.iterations={count}") for count in (1, 2))
    assert "training.tail = drain (default)" in once["assumptions"]
    assert once["runs"][0]["iteration_time_s"] == twice["runs"][0]["iteration_time_s"] > 0
    stopped = document("training.iterations=1", "training.tail=stop")
    assert stopped["runs"][0]["iteration_time_s"] == 0
