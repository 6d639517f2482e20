"""Switch offload from the command line: what it moves, where it is refused, and what real machines make of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from support.command import Ended
from support.experiments import complaints, study
from support.registry import ON_ANY_FABRIC
from syncline.base.errors import InputError
from syncline.engine import assumptions, choice
from syncline.engine import runs as engine
from syncline.experiment import packaged as studies
from syncline.experiment.load import load_file
from syncline.nccl import measurements, wire
from syncline.results import entries as results

Command = Callable[..., Ended]


def collective(command: Command, kind: str, size: str, *arguments: str) -> dict[str, Any]:
    """The document of a collective with switch offload."""
    ended = command("collective", kind, "--size", size, "--endpoint", "switch-offload", *arguments, "--json")
    assert (ended.status, ended.err) == (0, "")
    document: dict[str, Any] = json.loads(ended.out)
    return document


def refused(command: Command, *arguments: str) -> list[dict[str, Any]]:
    """What is wrong with a collective."""
    ended = command("collective", "all-reduce", "--size", "1MiB", *arguments, "--json")
    assert (ended.status, ended.out) == (2, "")
    errors: list[dict[str, Any]] = json.loads(ended.err)["errors"]
    return errors


def test_an_all_reduce_sends_and_receives_a_byte_per_byte(syncline_command: Command) -> None:
    size = 64 * 2**20
    document = collective(syncline_command, "all-reduce", "64MiB", "--topology", "Switch(16, rate=150GB/s)")
    endpoint = document["endpoint"]
    assert document["network"]["bytes_sent_per_npu"] == size
    assert endpoint["memory_read_bytes"] == endpoint["memory_write_bytes"] == 16 * size
    assert endpoint["sent_by_switches_bytes"] == 16 * size
    assert not any(r["resource"] == "sm" for r in endpoint["resources"])
    assert document["lower_bound_s"] == pytest.approx(size / 150e9, rel=0.01)
    assert 0.95 < document["efficiency"] <= 1
    assert document["bus_bandwidth_bytes_per_s"] == pytest.approx(2 * 15 / 16 * 150e9, rel=0.05)


def test_what_switches_do_is_an_assumption(syncline_command: Command) -> None:
    arguments = ("--topology", "Ring(4)_Switch(8)", "--algorithm", "ace-4-phase", "--set", "endpoint.comm_sms=6")
    said = (
        "switch offload in switches: all-reduce along dimension 1; by the NPUs: reduce-scatter along dimension 0, "
        "all-gather along dimension 0"
    )
    assert said in collective(syncline_command, "all-reduce", "1MiB", *arguments)["assumptions"]
    ended = syncline_command("check", "ace/placement", "--json")
    said = "switch offload in switches: all-reduce along dimension 0; by the NPUs: nothing (SwitchOffload)"
    assert said in json.loads(ended.out)["assumptions"]


@pytest.mark.parametrize(
    ("arguments", "field", "message", "accepted"),
    [
        (
            ("--topology", "Torus(4,4)"),
            "--endpoint",
            "switch offload needs a switch between the members: dimension 0 (a ring) has none",
            "a fabric with a switch, or the endpoint ideal, baseline or ace",
        ),
        (
            ("--machine", "dgx1v"),
            "--endpoint",
            "switch offload needs a switch between the members: GPU 0 and GPU 7 have none in common",
            "a fabric with a switch, or the endpoint ideal, baseline or ace",
        ),
        (
            ("--topology", "Ring(4)_Switch(8)", "--algorithm", "in-switch"),
            "--algorithm",
            "switch offload needs a switch between the members: dimension 0 (a ring) has none",
            "hierarchical, ace-4-phase or another composition, which offloads the dimensions with switches",
        ),
        (
            ("--topology", "Ring(4)_Switch(8)"),
            "--endpoint.comm_sms",
            "0, but the all-reduce along dimension 0 goes through no switch, so it needs SMs",
            "1 or more",
        ),
        (
            ("--topology", "Switch(8)", "--algorithm", "direct"),
            "--algorithm",
            "no part of it goes through a switch that reduces or copies",
            None,
        ),
        (
            ("--topology", "Switch(8)", "--set", "endpoint.switch_memory=4KiB"),
            "endpoint.switch_memory",
            "4096 B, but 16 chunks in flight need 65536 B of a switch's memory for one piece each",
            "at least 64KiB, or smaller chunks, or fewer in flight",
        ),
    ],
)
def test_what_switches_cannot_do_is_refused(
    syncline_command: Command, arguments: tuple[str, ...], field: str, message: str, accepted: str | None
) -> None:
    (error,) = refused(syncline_command, "--endpoint", "switch-offload", *arguments)
    assert (error["field"], error["message"]) == (field, message)
    assert accepted is None or error["accepted"] == accepted


@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
def test_other_endpoints_have_no_switches_that_add(syncline_command: Command, endpoint: str) -> None:
    arguments = ("--topology", "Switch(8)", "--endpoint", endpoint, "--algorithm", "in-switch")
    (error,) = refused(syncline_command, *arguments)
    assert error["field"] == "--algorithm"
    assert error["message"] == f"the endpoint {endpoint} has no switches that reduce"


DLRM = """\
name: small
topology: Switch(8, rate=150GB/s)
network: {backend: analytical}
workload: {model: dlrm, batch: 16}
training: {overlap: true, tail: drain}
collective: {algorithm: hierarchical, algorithms: {all-to-all: direct}, priority: [all-to-all], padding: none}
endpoint: {kind: switch-offload, comm_memory_bandwidth: 128GB/s}
"""


def test_all_reduces_go_through_the_switch_and_all_to_alls_by_dma() -> None:
    (variant,) = study(DLRM).variants
    result = engine.run(variant)
    entry = results.run_entry(variant, result)
    collectives = result.tables["collectives"].to_pydict()
    sizes: dict[str, int] = {}
    for kind, size in zip(collectives["kind"], collectives["bytes"], strict=True):
        sizes[kind] = sizes.get(kind, 0) + size
    endpoint = entry["endpoint"]
    assert endpoint["sent_by_switches_bytes"] == 8 * sizes["all-reduce"]
    assert endpoint["sent_bytes"] == 8 * sizes["all-reduce"] + 7 * sizes["all-to-all"]
    assert entry["network"]["bytes_sent_per_npu"] == endpoint["sent_bytes"] / 8
    assert endpoint["transit_bytes"] == 0
    assert not any(r["resource"] == "sm" for r in endpoint["resources"])
    said = "switch offload in switches: all-reduce along dimension 0; by the NPUs: all-to-all along dimension 0"
    assert said in assumptions.of([variant], {"small": result.summary["offloaded"]})


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        (["collective.algorithm=in-switch", "collective.algorithms={}"], "collective.algorithm", "no in-switch"),
        (["collective.algorithms.all-to-all=in-switch"], "collective.algorithms.all-to-all", "no in-switch"),
        (
            ["topology=Ring(2)_Switch(4)", "collective.algorithms.all-reduce=in-switch"],
            "collective.algorithms",
            "switch offload needs a switch between the members: dimension 0 (a ring) has none",
        ),
        (["collective.algorithm=direct"], "collective.algorithm", "no part of it goes through a switch"),
    ],
)
def test_what_is_wrong_with_one_of_several_kinds_is_said_of_it(settings: list[str], field: str, message: str) -> None:
    (variant,) = study(DLRM, *settings).variants
    with pytest.raises(InputError) as refusal:
        engine.preview(variant)
    (problem,) = refusal.value.problems
    assert problem.field == field
    assert message in problem.message


def test_an_algorithm_of_a_kind_needs_switches_that_add() -> None:
    settings = ("endpoint=ideal", "collective.algorithms.all-reduce=in-switch")
    said = complaints(DLRM, *settings)
    assert "collective.algorithms.all-reduce: the endpoint ideal has no switches that reduce" in said


def test_nothing_is_left_for_compute_beside_embeddings_in_the_background() -> None:
    settings = ("training.background_embedding=true", "training.background_sms=20", "endpoint.comm_sms=60")
    assert "training.background_sms: nothing would be left for compute beside it" in complaints(DLRM, *settings)


def test_switches_leave_nothing_to_forward() -> None:
    (variant,) = study(DLRM, "topology=Ring(2)_Switch(4)", "endpoint.comm_sms=6").variants
    assert variant.experiment.transit == "network"
    assert engine.run(variant).summary["endpoint"]["transit_bytes"] == 0
    assert "endpoint.transit: this key is not known" in complaints(DLRM, "endpoint.transit=endpoint")


def test_auto_tries_what_goes_through_switches_beside_all_else() -> None:
    text = (
        "name: a\ntopology: Switch(8)\nworkload: {collective: all-reduce, size: 1MB}\ncollective: {algorithm: auto}\n"
        "endpoint: {kind: switch-offload, comm_memory_bandwidth: 450GB/s, comm_sms: 6}\n"
    )
    variant = choice.settled(study(text)).variants[0]
    assert variant.choice is not None
    assert variant.choice.chosen == "in-switch"
    times = {c["algorithm"]: c.get("predicted_time_s") for c in variant.choice.candidates}
    assert times.keys() >= {"ring", "direct", "in-switch", "hierarchical", "six-phase"}
    assert times["in-switch"] == min(time for time in times.values() if time is not None)


def test_communication_takes_nothing_of_compute_but_memory_bandwidth() -> None:
    path, label = studies.find("ace/placement")
    variants = load_file(path, label).variants
    runs = {variant.name: results.run_entry(variant, engine.run(variant)) for variant in variants}
    baseline, offload = runs["BaselineCompOpt"], runs["SwitchOffload"]
    assert offload["compute_time_s"] < baseline["compute_time_s"]  # two SMs more
    assert offload["exposed_comm_s"] < baseline["exposed_comm_s"]
    assert offload["iteration_time_s"] < baseline["iteration_time_s"]
    read = {name: run["endpoint"]["memory_read_bytes"] for name, run in runs.items()}
    # A byte read per byte, and by the baseline 1.5 for each of 2 (n-1)/n.
    assert read["BaselineCompOpt"] / read["SwitchOffload"] == pytest.approx(1.5 * 2 * 15 / 16, rel=1e-3)
    # The engine takes of the NPU what the switch takes; it only sends more.
    engine_run = runs["ACE"]
    assert engine_run["compute_time_s"] == offload["compute_time_s"]
    assert read["ACE"] == pytest.approx(read["SwitchOffload"], rel=1e-4)
    sent = {name: run["network"]["bytes_sent_per_npu"] for name, run in runs.items()}
    assert sent["ACE"] / sent["SwitchOffload"] == pytest.approx(2 * 15 / 16, rel=1e-3)


@pytest.mark.parametrize("memory", [50, 400])
def test_engine_and_switch_differ_where_links_decide(memory: int) -> None:
    """A byte per byte from memory for both; 2 (n-1)/n over the engine's link, one over the switch's."""
    times = {}
    for kind in ("ace", "switch-offload"):
        text = (
            "name: one\ntopology: Switch(16, rate=150GB/s)\nworkload: {collective: all-reduce, size: 64MB}\n"
            "network: {backend: analytical}\ncollective: {algorithm: hierarchical, chunk: 64KiB, inflight: 16}\n"
            f"endpoint: {{kind: {kind}, comm_memory_bandwidth: {memory}GB/s}}\n"
        )
        times[kind] = engine.run(study(text).variants[0]).summary["total_ps"] / 1e12
    from_memory, sent = 64e6 / (memory * 1e9), 64e6 / 150e9
    assert times["ace"] == pytest.approx(max(from_memory, 2 * 15 / 16 * sent), rel=0.01)
    assert times["switch-offload"] == pytest.approx(max(from_memory, sent), rel=0.01)


def test_reduce_scatter_and_all_gather_in_the_switch_move_what_nvls_moves(syncline_command: Command) -> None:
    """NCCL's NVLS lets every GPU read the sum of its share and write it to all: (n+1)/n bytes each way."""
    size = 64 * 2**20
    document = collective(syncline_command, "all-reduce", "64MiB", "--machine", "dgx-h100", "--algorithm", "six-phase")
    assert Fraction(document["network"]["bytes_sent_per_npu"]) == wire.nvls("all-reduce", 8, size).nvlink_bytes


def test_a_dgx_h100_stays_below_what_its_switches_could_do(syncline_command: Command) -> None:
    """What docs/placement.md says of the measured table: above rings, and well below what the wires allow."""
    size = 4 * 2**30
    (measured,) = (row.out_of_place for row in measurements.packaged("h100-8-nvls").rows if row.size == size)
    assert measured is not None
    arguments = ["--machine", "dgx-h100", "--backend", "analytical", "--chunk", "1MiB"]
    arguments += ["--set", "endpoint.switch_memory=4MiB"]
    seconds = {
        algorithm: collective(syncline_command, "all-reduce", "4GiB", *arguments, "--algorithm", algorithm)["time_s"]
        for algorithm in ("in-switch", "six-phase")
    }
    assert 0.86 < seconds["six-phase"] / measured < 0.92
    assert 0.58 < seconds["in-switch"] / measured < 0.63
    ring = 2 * 7 / 8 * size / 450e9
    assert seconds["in-switch"] < seconds["six-phase"] < measured < ring
