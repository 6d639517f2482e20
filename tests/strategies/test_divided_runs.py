"""Experiments whose model is divided: whole runs, what is refused, and what fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.command import Ended
from syncline.base import document
from syncline.base.errors import InputError
from syncline.engine import assumptions, specification
from syncline.engine import runs as engine
from syncline.experiment.load import Variant, load
from syncline.strategies import training

Command = Callable[..., Ended]

TINY = "{layers: 4, hidden: 64, heads: 4, vocabulary: 256, positions: 32}"
ROOFLINE = "{compute: {kind: roofline}}"
EXPERIMENT = (
    "name: gpt\ntopology: {topology}\nworkload: {{model: gpt2, parameters: {tiny}, global_batch: {batch}}}\n"
    "parallel: {parallel}\ncollective: {{chunks: 2, algorithm: ring}}\nnetwork: flow\nendpoint: ideal\n"
    "npu: {npu}\n{more}\n"
)


def text(parallel: str, topology: str = "dgx-a100", batch: int = 16, more: str = "", npu: str = ROOFLINE) -> str:
    """An experiment with a small GPT."""
    return EXPERIMENT.format(parallel=parallel, topology=topology, batch=batch, tiny=TINY, more=more, npu=npu)


def hosted(time: str) -> str:
    """An NPU whose host takes so long for a kernel."""
    return f"{{compute: {{kind: roofline}}, host_kernel_time: {time}}}"


def loaded(*args: Any, **named: Any) -> Variant:
    """The same, read."""
    return load(document.read(text(*args, **named), "gpt.yaml"), "gpt.yaml", Path()).variants[0]


@pytest.mark.parametrize(
    "parallel",
    [
        "{}",
        "{tensor: 2, sequence: true, pipeline: 2, zero: 1}",
        "{pipeline: 4, schedule: gpipe, recompute: full}",
        "{pipeline: 2, schedule: interleaved, virtual: 2, tensor: 2, scatter_gather: true}",
        "{pipeline: 2, schedule: pipedream}",
        "{context: 2, tensor: 2, recompute: selective}",
        "{zero: 3, prefetch: 2}",
        "{zero: 2, micro_batch: 1, tensor: 4, order: [data, tensor, context, pipeline]}",
        "{parameter_server: central}",
        "{parameter_server: central, updates: asynchronous, tensor: 2}",
        "{parameter_server: sharded, updates: asynchronous}",
    ],
)
def test_every_strategy_runs_and_its_parts_add_up(parallel: str) -> None:
    iterations = 1 if "pipedream" in parallel else 2
    summary = engine.run(loaded(parallel, more=f"training: {{iterations: {iterations}}}")).summary
    assert summary["total_ps"] > 0
    parts = ("compute_ps", "exposed_ps", "bubble_ps", "background_wait_ps", "drain_ps")
    for of_class in summary["classes"]:
        assert sum(of_class[part] for part in parts) == of_class["total_ps"]


@pytest.mark.parametrize(
    ("parallel", "topology"),
    [
        ("{tensor: 2, pipeline: 2, sequence: true, zero: 1}", '"Ring(2)_Ring(2)_Ring(2)"'),
        ("{context: 2, pipeline: 2, recompute: full}", '"Ring(2)_Ring(2)_Ring(2)"'),
        ("{tensor: 2, pipeline: 2, schedule: interleaved, virtual: 2}", '"Ring(2)_Ring(2)_Ring(2)"'),
        ("{tensor: 2, zero: 3}", '"Ring(2)_Ring(2)_Ring(2)"'),
        ("{tensor: 4, pipeline: 2, zero: 1}", "dgx-a100(nodes=2)"),
    ],
)
def test_folded_and_whole_runs_are_the_same(parallel: str, topology: str) -> None:
    folded, whole = (engine.run(loaded(parallel, topology, more=f"fold: '{f}'")).summary for f in ("on", "off"))
    assert folded["simulated_npus"] < whole["simulated_npus"] == whole["npus"]
    different = {name for name in whole if folded[name] != whole[name]}
    assert different <= {"simulated_npus", "unfolded", "events"}


@settings(max_examples=16)
@given(
    server=st.sampled_from(["central", "sharded"]),
    tensor=st.sampled_from([1, 2]),
    topology=st.sampled_from(['"Switch(4)"', '"Ring(2)_Ring(4)"', '"FullyConnected(4)"', "dgx-a100"]),
    iterations=st.integers(1, 6),
    tail=st.sampled_from(["stop", "drain"]),
    overlap=st.booleans(),
)
def test_folded_runs_with_parameter_servers_are_the_same(
    *, server: str, tensor: int, topology: str, iterations: int, tail: str, overlap: bool
) -> None:
    """Also in whether iterations have settled: no NPU is then in the next iteration in which others are not."""
    parallel = f"{{parameter_server: {server}, tensor: {tensor}}}"
    training = f"training: {{iterations: {iterations}, tail: {tail}, overlap: {str(overlap).lower()}}}"
    try:
        folded = engine.run(loaded(parallel, topology, more=f"fold: 'on'\n{training}"), steady=True).summary
    except InputError:
        return  # servers that differ from the others do not fold
    whole = engine.run(loaded(parallel, topology, more=f"fold: 'off'\n{training}"), steady=True).summary
    different = {name for name in whole if folded[name] != whole[name]}
    assert different <= {"simulated_npus", "unfolded", "events"}


@pytest.mark.parametrize("server", ["central", "sharded"])
def test_asynchronous_servers_do_not_fold(server: str) -> None:
    """Of gradients that arrive at two equal servers at the same time, these take different ones first."""
    parallel = f"{{parameter_server: {server}, updates: asynchronous, tensor: 2}}"
    summary = engine.run(loaded(parallel, more="fold: auto")).summary
    assert (summary["simulated_npus"], summary["unfolded"]) == (8, specification.AS_THEY_ARRIVE)
    with pytest.raises(InputError, match="the run cannot be folded: a server takes gradients in the order"):
        engine.run(loaded(parallel, more="fold: 'on'"))


def test_axes_on_dimensions_are_the_same_as_in_order() -> None:
    topology = '"Ring(2)_Ring(4)"'
    by_order = engine.run(loaded("{tensor: 2}", topology=topology)).summary["total_ps"]
    by_name = engine.run(loaded("{on: {tensor: [0], data: [1]}}", topology=topology)).summary["total_ps"]
    other = engine.run(loaded("{on: {tensor: [1], data: [0]}}", topology=topology)).summary["total_ps"]
    assert by_order == by_name != other


def test_weights_are_gathered_by_the_same_npus_in_the_same_time_however_axes_are_nested() -> None:
    """Copies along `context` and `data` together are the same eight NPUs of two servers, whichever is innermost."""

    def gathers(parallel: str) -> int:
        parallel = f"{{tensor: 2, zero: 1, {parallel}}}"
        summary = engine.run(loaded(parallel, "dgx-h100(nodes=2)", more="training: {iterations: 1}")).summary
        found: int = summary["drain_ps"]
        return found

    alone = gathers("context: 1")
    assert alone > 0
    for order in ("[tensor, context, data, pipeline]", "[tensor, data, context, pipeline]"):
        assert gathers(f"context: 2, order: {order}") == pytest.approx(alone, rel=0.01)


def test_overlap_never_slows_a_run() -> None:
    def time(overlap: str, training: str = "true") -> int:
        parallel = f"{{tensor: 2, pipeline: 2, zero: 1, overlap: {overlap}}}"
        found: int = engine.run(loaded(parallel, more=f"training: {{overlap: {training}}}")).summary["total_ps"]
        return found

    usual = time("{}")
    assert usual <= time("{tensor: false}")
    assert usual <= time("{pipeline: false}")
    assert usual <= time("{}", "false")


def test_an_asynchronous_server_does_not_let_the_others_wait_for_a_straggler() -> None:
    def others(updates: str) -> int:
        straggler = "training: {iterations: 3, stragglers: [{npu: 3, factor: 4.0}]}"
        variant = loaded(f"{{parameter_server: sharded, updates: {updates}}}", "Switch(4)", more=straggler)
        parallel = {"synchronous": "total_ps", "asynchronous": "total_ps"}[updates]
        found: int = engine.run(variant).summary[parallel]
        return found

    assert others("asynchronous") <= others("synchronous")


@pytest.mark.parametrize(
    ("parallel", "more", "field", "message", "accepted"),
    [
        ("{tensor: 3}", {}, "parallel.tensor", "does not divide the 8 NPUs", "1, 2, 4, 8"),
        ("{tensor: 8, pipeline: 2}", {}, "parallel.tensor", "is 16, which does not", "1, 2, 4, beside pipeline 2"),
        ("{tensor: 2, pipeline: 3}", {}, "parallel.pipeline", "does not divide", "1, 2, 4, beside tensor 2"),
        ("{tensor: 3, pipeline: 5}", {}, "parallel.tensor", "does not divide", "sizes whose product divides 8"),
        ("{data: 3}", {}, "parallel.data", "not the 8 NPUs", "8"),
        ("{tensor: 8}", {}, "parallel.tensor", "heads 4 cannot be divided by 8", "a divisor of that size"),
        ("{pipeline: 8}", {}, "parallel.pipeline", "has 4 blocks, which pipeline 8 does not divide", "a divisor of 4"),
        ("{micro_batch: 3}", {}, "parallel.micro_batch", "no multiple of data 8 x micro_batch 3", "a divisor of 2"),
        ("{tensor: 4, pipeline: 2}", {"batch": 10**9}, "workload.global_batch", "too many to be", "a smaller batch"),
        ("{}", {"topology": "Torus(1024,2048)"}, "topology", "among 2,097,152 NPUs", "up to 1,048,576"),
        ("{}", {"batch": 12}, "workload.global_batch", "no multiple of data 8", "a multiple of 8"),
        ("{pipeline: 2, zero: 3}", {}, "parallel.zero", "gathered again", "0 to 2 with a pipeline"),
        ("{sequence: true}", {}, "parallel.sequence", "nothing is divided", "false, or tensor of 2 or more"),
        ("{virtual: 2}", {}, "parallel.virtual", "has one chunk", "1, or schedule interleaved"),
        ("{pipeline: 2, schedule: interleaved}", {}, "parallel.virtual", "several chunks", "2 or more"),
        ("{pipeline: 4, schedule: interleaved, virtual: 2}", {}, "parallel.virtual", "x virtual 2", "a divisor of 1"),
        ("{updates: asynchronous}", {}, "parallel.updates", "wait for each other", "parameter_server central"),
        ("{expert: 2}", {}, "parallel.expert", "no operator that says how it is divided", "1, or another model"),
        (
            "{expert_loads: [1.0, 2.0]}",
            {},
            "parallel.expert_loads",
            "2 shares for the experts of 1",
            "a share for each",
        ),
        ("{on: {tensor: [0]}}", {}, "parallel.on", "no product of dimensions", "order"),
        ("{on: {tensor: [0]}}", {"topology": "Torus(2,4)"}, "parallel.on", "dimensions 0 to 1", "each of them"),
        ("{order: [data, data, tensor, pipeline]}", {}, "parallel.order", "listed twice", "each once"),
        ("{tensor: 2, collectives: {tensor: {algorithm: auto}}}", {}, "algorithm", "not chosen", "the name of one"),
        ("{zero: 1, parameter_server: sharded}", {}, "parallel.zero", "does not go with a parameter server", "0"),
        ("{prefetch: 2}", {}, "parallel.prefetch", "no weights are gathered ahead", "parallel.zero 3"),
        ("{overlap: {pipeline: false}}", {}, "overlap.pipeline", "there is one stage", "parallel.pipeline of 2"),
        ("{}", {"more": "training: {barrier: true}"}, "training.barrier", "no effect", "workload.batch"),
        ("{schedule: 2f2b}", {}, "parallel.schedule", "not a known schedule", "gpipe, 1f1b"),
    ],
)
def test_what_is_wrong_is_said(parallel: str, more: dict[str, Any], field: str, message: str, accepted: str) -> None:
    with pytest.raises(InputError) as caught:
        loaded(parallel, **more)
    said = [problem for problem in caught.value.problems if problem.field.endswith(field)]
    assert said, caught.value
    assert any(message in problem.message for problem in said), said
    assert any(accepted in (problem.accepted or "") for problem in said), said


def test_models_are_found_and_their_parameters_checked() -> None:
    def problem(workload: str) -> str:
        experiment = f"name: a\ntopology: dgx-a100\nworkload: {workload}\n"
        with pytest.raises(InputError) as caught:
            load(document.read(experiment, "a.yaml"), "a.yaml", Path())
        return str(caught.value)

    assert "did you mean 'gpt2'" in problem("{model: gtp2, global_batch: 8}")
    assert "workload.parameters.layer: " in problem("{model: gpt2, parameters: {layer: 3}, global_batch: 8}")
    assert "no such file" in problem("{model: mine.yaml, global_batch: 8}").lower()
    assert "workload.global_batch" in problem("{model: resnet50, batch: 8}\nparallel: {tensor: 2}")


def test_what_does_not_fit_is_refused_with_its_terms(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "gpt.yaml"
    path.write_text(text("{tensor: 2}", npu="{compute: {kind: roofline}, memory: 1MB, reserved: 0B}"))
    for command in ("check", "run"):
        ended = syncline_command(command, str(path))
        assert ended.status == 2
        assert "parallel: with tensor 2, pipeline 1, data 4, zero 0, recompute none, an NPU needs" in ended.err
        assert all(term in ended.err for term in ("weights", "gradients", "optimiser", "activations", "syncline fit"))


def test_fit_lists_what_fits(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "gpt.yaml"
    path.write_text(text("{tensor: 2}", npu="{compute: {kind: roofline}, memory: 18540kB, reserved: 0B}"))
    found = json.loads(syncline_command("fit", str(path), "--json", "--all").out)["variants"][0]
    rows = found["rows"]
    assert len(rows) == found["candidates"] > found["fitting"] > 0
    for row in rows:
        names = ("weights", "gradients", "optimiser", "activations", "exchange", "libraries")
        assert row["memory_bytes"] == sum(row[f"{name}_bytes"] for name in names)
        assert row["libraries_bytes"] == 2 * 8.125 * 2**20  # of cuBLAS, on an A100
        assert row["fits"] == (row["memory_bytes"] <= 18_540_000)
        assert row["tensor"] * row["pipeline"] * row["data"] == 8
    listed = syncline_command("fit", str(path))
    assert f"{found['fitting']} of {found['candidates']} divisions fit" in listed.out
    fitting = next(row for row in rows if row["fits"])
    chosen = ",".join(f"{name}: {fitting[name]}" for name in ("tensor", "pipeline", "zero", "recompute"))
    assert syncline_command("check", str(path), "--set", f"parallel={{{chosen}}}").status == 0
    least = min(rows, key=lambda row: int(row["memory_bytes"]))
    path.write_text(text("{tensor: 2}", npu="{compute: {kind: roofline}, memory: 1kB, reserved: 0B}"))
    none = syncline_command("fit", str(path))
    assert f"0 of {found['candidates']} divisions fit" in none.out
    assert "The least that a division needs is" in none.out
    assert f"with tensor {least['tensor']}, pipeline {least['pipeline']}, data {least['data']}" in none.out
    (document,) = json.loads(syncline_command("fit", str(path), "--json").out)["variants"]
    assert document["least"] | {"fits": True} == least | {"fits": True}
    path.write_text(text("{}", "Switch(8)"))
    assert "npu.memory" in syncline_command("fit", str(path)).err


def test_a_run_is_written_and_can_be_run_again(tmp_path: Path, syncline_command: Command) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\ndescription: d\nsource: s\nlike: gpt\nparameters: " + TINY + "\n")
    path = tmp_path / "gpt.yaml"
    path.write_text(
        "name: mine\ntopology: dgx-a100\nworkload: {model: mine.yaml, global_batch: 16}\nnetwork: flow\n"
        "parallel: {tensor: 2, pipeline: 2}\ncollective: {chunks: 1}\n"
    )
    first = syncline_command("run", str(path), "--out", str(tmp_path / "run"), "--json")
    assert first.status == 0, first.err
    again = syncline_command("run", str(tmp_path / "run" / "experiment.resolved.yaml"), "--json")
    assert again.status == 0, again.err
    one, two = (json.loads(ended.out)["runs"][0] for ended in (first, again))
    assert one["total_time_s"] == two["total_time_s"]


def total(parallel: str, more: str = "", **named: Any) -> int:
    """Picoseconds of a run."""
    found: int = engine.run(loaded(parallel, more=more, **named)).summary["total_ps"]
    return found


def test_a_slow_host_decides_how_long_a_run_takes() -> None:
    """One NPU: the last node begins when the host has issued all kernels before it, and its own first one."""
    variant = loaded("{micro_batch: 2}", npu=hosted("1ms"), topology='"Ring(1)"', batch=4)
    divided = training.divided(variant.experiment)
    works = [node.work for node in divided.classes[0].nodes]
    kernels = [len(divided.costs[work["cost"]]) for work in works if work["op"] == "kernels"]
    issued = (sum(kernels[:-1]) + 1) * 10**9
    summary = engine.run(variant).summary
    assert issued < summary["total_ps"] < issued + summary["compute_ps"]
    assert summary["background_wait_ps"] == summary["total_ps"] - summary["compute_ps"]


def test_a_fast_host_only_delays_the_beginning() -> None:
    without, with_host = (
        total(
            "{micro_batch: 2}",
            npu=hosted(d),
            topology='"Ring(1)"',
            batch=4,
        )
        for d in ("0s", "1ns")
    )
    assert without + 1_000 == with_host


def test_folded_and_whole_runs_with_hosts_are_the_same() -> None:
    parallel, npu = "{tensor: 2, pipeline: 2}", hosted("50us")
    folded, whole = (
        total(parallel, f"fold: '{f}'", npu=npu, topology='"Ring(2)_Ring(2)_Ring(2)"') for f in ("on", "off")
    )
    assert folded == whole


def test_zero_of_a_single_copy_divides_nothing() -> None:
    """A template may keep `zero` where one copy of the model is left; ZeRO 3 then goes with a pipeline, too."""
    for ways in ("pipeline: 2, tensor: 4", "pipeline: 4, context: 1, tensor: 2"):
        whole = training.divided(loaded(f"{{{ways}}}").experiment)
        for zero in (1, 2, 3):
            variant = loaded(f"{{{ways}, zero: {zero}}}")
            assert training.divided(variant.experiment) == whole
            said = assumptions.of([variant])
            assert f"parallel.zero = {zero} has no effect: there is one copy of the weights" in said
    two = assumptions.of([loaded("{tensor: 4, zero: 1}")])
    assert not any("parallel.zero" in line for line in two)
