"""The package on the real engine: small systems, and what has to hold on all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from support.experiments import THREE_SYSTEMS, study
from support.registry import BACKENDS, FOLDING, ON_ANY_FABRIC
from syncline.core import _core
from syncline.engine import bounds, choice, completing
from syncline.engine import runs as engine
from syncline.fabric import topology

Command = Callable[..., Ended]

KINDS = ("all-reduce", "reduce-scatter", "all-gather")


def collective(command: Command, *arguments: str) -> dict[str, Any]:
    """The document of a collective."""
    ended = command("collective", *arguments, "--json")
    assert ended.status == 0
    assert all(line.startswith("warning: links look slower") for line in ended.err.splitlines())
    document: dict[str, Any] = json.loads(ended.out)
    return document


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["Ring(1)", "Ring(2)", "Ring(5)", "Torus(3,4)", "Torus(2,1,3)"])
def test_collectives_send_what_they_must_and_beat_no_bound(
    syncline_command: Command, kind: str, endpoint: str, backend: str, shape: str
) -> None:
    algorithm = "six-phase" if endpoint == "ideal" else "ace-4-phase"
    document = collective(
        syncline_command,
        *(kind, "--size", "960kB", "--topology", shape, "--endpoint", endpoint, "--backend", backend),
        *("--padding", "none", "--algorithm", algorithm),
    )
    factor = bounds.sent_per_byte(kind, algorithm, topology.parse(shape))
    assert document["network"]["bytes_sent_per_npu"] == pytest.approx(float(960_000 * factor), rel=1e-3)
    if document["npus"] == 1:
        assert (document["time_s"], document["efficiency"]) == (0, None)
    else:
        assert 0 < document["efficiency"] <= 1


@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
def test_nothing_to_send_takes_no_time(syncline_command: Command, endpoint: str) -> None:
    document = collective(
        syncline_command, *("all-reduce", "--size", "0B", "--topology", "Torus(4,4)", "--endpoint", endpoint)
    )
    assert (document["time_s"], document["network"]["bytes_sent_per_npu"]) == (0, 0)


def test_a_ring_all_reduce_takes_its_closed_form(syncline_command: Command) -> None:
    document = collective(syncline_command, "all-reduce", "--size", "64MB", "--topology", "Ring(8)")
    steps, step_s = 14, 64e6 / 2 / 8 / 50e9 + 500e-9
    assert document["steps"] == steps
    assert document["time_s"] == pytest.approx(steps * step_s, rel=1e-4)


def test_accounting_of_endpoints(syncline_command: Command) -> None:
    arguments = ("all-reduce", "--size", "4MiB", "--topology", "Torus(4,4,4)", "--backend", "packet")
    baseline = collective(syncline_command, *arguments, "--endpoint", "baseline")["endpoint"]
    ace = collective(syncline_command, *arguments, "--endpoint", "ace")["endpoint"]
    assert Fraction(baseline["memory_read_bytes"], baseline["sent_bytes"]) == Fraction(3, 2)
    assert Fraction(ace["sent_bytes"], ace["loaded_bytes"]) == Fraction(9, 4)


def test_runs_are_equal_whatever_the_threads(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    seen = set()
    for threads in ("1", "3"):
        document = json.loads(syncline_command("run", str(path), "--json", "--threads", threads).out)
        document.pop("cost")
        seen.add(json.dumps(document))
    assert len(seen) == 1


def test_iteration_time_is_compute_and_exposed_communication(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    document = json.loads(syncline_command("run", str(path), "--json", "--out", str(tmp_path / "run")).out)
    for run in document["runs"]:
        assert run["total_time_s"] == pytest.approx(run["compute_time_s"] + run["exposed_comm_s"])
        by_collective = sum(e["exposed_s"] for e in run["exposed_by_collective"])
        assert by_collective == pytest.approx(run["exposed_comm_s"], abs=1e-11)
    assert syncline_command("report", str(tmp_path / "run")).status == 0


def test_what_a_run_waits_for_at_its_end_is_said(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    settings = ("--set", "training.tail=drain", "--set", "training.update=false")
    for run in json.loads(syncline_command("run", str(path), *settings, "--json").out)["runs"]:
        assert run["drain_s"] > 0
        parts = ("compute_time_s", "exposed_comm_s", "background_wait_s", "drain_s")
        assert run["total_time_s"] == pytest.approx(sum(run[part] for part in parts))
    note = "after the last kernel the run waits for what is in flight (training.tail: drain): SMs "
    assert note in syncline_command("run", str(path), *settings).out
    assert note not in syncline_command("run", str(path)).out


def test_tables_come_without_a_copy() -> None:
    variant = study(THREE_SYSTEMS, "training.iterations=1").variants[2]
    result = engine.run(variant)
    links = result.tables["links"]
    assert links.num_rows == 2
    carried = zip(links.column("bytes").to_pylist(), links.column("copies").to_pylist(), strict=True)
    assert sum(size * copies for size, copies in carried) == result.summary["network"]["link_bytes"]
    assert str(links.schema.field("bytes").type) == "int64"


def test_what_the_engine_refuses_is_wrong_input(syncline_command: Command) -> None:
    ended = syncline_command(
        *("collective", "all-reduce", "--size", "1MB", "--topology", "Torus(4,4)", "--endpoint", "ace", "--json"),
        *("--set", "endpoint.fsms=1"),
    )
    assert (ended.status, ended.out) == (2, "")
    assert "FSMs" in json.loads(ended.err)["errors"][0]["message"]


def test_a_specification_that_is_none_is_refused() -> None:
    for text in ("", "{}", "[1]", "{", '{"fabric": 3}'):
        with pytest.raises(_core.SpecError):
            _core.run(text)


def test_all_refusals_come_before_anything_runs(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "refused.yaml"
    path.write_text(
        "name: refused\ntopology: Torus(2,2,2)\nworkload: {collective: all-reduce, size: 1MB}\n"
        "collective: {algorithm: ace-4-phase}\nvariants:\n  - {name: fine}\n"
        "  - {name: one, endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s, fsms: 1}}\n"
        "  - {name: two, endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}, network: {buffer: 1KiB}}\n"
    )
    for command in (["check"], ["run", "--out", str(tmp_path / "out")]):
        ended = syncline_command(*command[:1], str(path), *command[1:], "--json")
        assert (ended.status, ended.out) == (2, "")
        errors = json.loads(ended.err)["errors"]
        assert [(e["line"], e["field"]) for e in errors] == [
            (7, "variants.1.endpoint.fsms"),
            (8, "variants.2.network.buffer"),
        ]
        assert all(e["accepted"] for e in errors)
    assert not (tmp_path / "out").exists()


def test_neighbour_traffic_needs_no_deadlock_rule(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "one-slot.yaml"
    path.write_text(
        "name: one-slot\ntopology: Ring(4)\nworkload: {collective: all-reduce, size: 1MB}\n"
        "variants:\n  - name: auto\n  - {name: one slot, network: {deadlock_rule: none, buffer: 256B}}\n"
    )
    ended = syncline_command("run", str(path), "--json")
    assert ended.status == 0
    automatic, one_slot = (entry["total_time_s"] for entry in json.loads(ended.out)["runs"])
    assert one_slot > automatic


def test_ctrl_c_leaves_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(
        "name: long\ntopology: Torus(8,8,8)\ncollective: {algorithm: six-phase, chunk: 1MiB}\nvariants:\n"
        "  - {name: short, workload: {collective: all-reduce, size: 1kB}}\n"
        "  - {name: long, workload: {collective: all-reduce, size: 8GB}, network: {mode: reference}}\n"
    )
    out = tmp_path / "run"
    command = [sys.executable, "-m", "syncline", "run", str(path), "--json", "--out", str(out), "--threads", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        manifest = out / "manifest.json"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (manifest.exists() and "short" in manifest.read_text()):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(printed)["status"] == "partial"
    assert [r["name"] for r in json.loads(printed)["runs"]] == ["short"]
    assert json.loads(manifest.read_text())["variants"] == ["short"]
    assert (out / "short/tables/links.parquet").is_file()


def test_a_text_workload_that_is_wrong_is_refused_by_line(syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("DATA\n1\nstem -1 x NONE 0 0 NONE 0 31000 ALLREDUCE -4 1200\n")
    path = tmp_path / "text.yaml"
    path.write_text("name: text\ntopology: Ring(4)\nworkload: {astra_text: w.txt}\n")
    ended = syncline_command("run", str(path), "--json", "--out", str(tmp_path / "run"))
    assert (ended.status, ended.out) == (2, "")
    errors = json.loads(ended.err)["errors"]
    assert [(e["file"], e["line"], e["value"]) for e in errors] == [("w.txt", 3, "x"), ("w.txt", 3, "-4")]
    assert all(e["accepted"] for e in errors)
    assert not (tmp_path / "run").exists()


def test_one_lane_of_a_ring_takes_twice_as_long(syncline_command: Command) -> None:
    arguments = ("all-reduce", "--size", "80MB", "--topology", "Ring(4, latency=0ns)", "--algorithm")
    times = [collective(syncline_command, *arguments, name)["time_s"] for name in ("ring-unidirectional", "auto")]
    assert times[0] == pytest.approx(2 * times[1], rel=1e-3)


def test_auto_and_ring_unidirectional_in_a_file() -> None:
    def told(algorithm: str, shape: str) -> tuple[str, str]:
        text = f"name: a\ntopology: {shape}\nworkload: {{collective: all-reduce, size: 64MB}}\n"
        variant = choice.settled(study(f"{text}collective: {{algorithm: {algorithm}}}\n")).variants[0]
        collectives = completing.specification(variant.experiment)["collectives"]
        return collectives["algorithm"], collectives["lanes"]

    assert told("auto", "Ring(4)") == ("ring", "split")
    assert told("ring-unidirectional", "Torus(4,2)") == ("ring", "one")


EVERY_KIND = (*KINDS, "all-to-all", "broadcast", "reduce", "gather", "scatter")
FABRICS = (
    ("--topology", "Torus(3,4)"),
    ("--topology", "FullyConnected(3)_Switch(4)"),
    ("--topology", "Ring(3)_Ring(4)", "--group", "size 3"),
    ("--topology", "Ring(3)_Ring(4)", "--group", "0-2;5,4,3", "--backend", "packet"),
    ("--machine", "dgx1v"),
    ("--machine", "dgx1v", "--gpus", "0,1,4", "--backend", "flow"),
    ("--machine", "dgx-a100(nodes=2)", "--backend", "flow"),
    ("--machine", "dgx-a100(nodes=2)", "--group", "size 8", "--backend", "packet"),
)


@pytest.mark.parametrize("fabric", FABRICS, ids=" ".join)
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_collective_on_every_fabric(syncline_command: Command, kind: str, fabric: tuple[str, ...]) -> None:
    document = collective(syncline_command, kind, "--size", "1000002B", *fabric, "-q")
    assert 0 < document["efficiency"] <= 1 or document["fidelity"]["backend"] == "analytical"
    assert document["lower_bound_by"]
    if kind == "all-to-all" and "dgx-a100" in fabric[1]:
        assert document["algorithm"] == "direct"  # through switches nothing is faster, so that nothing is tried
        return
    choice = document["algorithm_choice"]
    assert choice["chosen"] == document["algorithm"]
    assert all(len({"predicted_time_s", "longer_than_s", "refused"} & set(c)) == 1 for c in choice["candidates"])


@pytest.mark.parametrize("backend", FOLDING)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "hierarchical", "six-phase", "ace-4-phase", "themis"])
def test_folding_changes_nothing(syncline_command: Command, algorithm: str, backend: str) -> None:
    arguments = ("all-reduce", "--size", "1MB", "--topology", "Torus(4,3)", "--algorithm", algorithm)
    folded, whole = (
        collective(syncline_command, *arguments, "--backend", backend, "--fold", fold, "-q") for fold in ("on", "off")
    )
    assert folded["fidelity"].pop("simulated_npus") < whole["fidelity"].pop("simulated_npus") == 12
    assert (folded["fidelity"]["folded"], whole["fidelity"]["folded"]) == (True, False)
    assert whole["fidelity"]["unfolded_because"] == "folding is turned off"
    for document in (folded, whole):
        for key in ("cost", "fidelity", "warnings", "assumptions"):
            document.pop(key)
    assert folded == whole


def test_a_million_npus_are_simulated_as_one(syncline_command: Command) -> None:
    arguments = ("all-reduce", "--size", "16MB", "--topology", "Torus(1024,1024)", "--algorithm", "six-phase")
    document = collective(syncline_command, *arguments)
    assert (document["npus"], document["fidelity"]["simulated_npus"]) == (1024**2, 1)


def test_what_cannot_be_folded_says_why(syncline_command: Command) -> None:
    arguments = ("collective", "broadcast", "--size", "1MB", "--topology", "Ring(4)", "--fold", "on")
    ended = syncline_command(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert "command line: --fold: the run cannot be folded: " in ended.err


def test_blocks_are_padded_unless_they_must_not_be(syncline_command: Command) -> None:
    arguments = ("all-reduce", "--size", "1000002B", "--topology", "Ring(7)", "--algorithm", "ring")
    equal, exact = (
        collective(syncline_command, *arguments, "--padding", padding)["network"]["bytes_sent_per_npu"]
        for padding in ("equal", "none")
    )
    assert equal > exact == pytest.approx(1000002 * 12 / 7)
    assert equal < 1.001 * exact


def test_an_ace_gets_chunks_that_fill_packets(syncline_command: Command) -> None:
    arguments = (
        "all-reduce",
        "--size",
        "4MiB",
        "--topology",
        "Torus(16,16)",
        "--endpoint",
        "ace",
        "--backend",
        "packet",
    )
    ended = syncline_command(
        "collective", *arguments, "--algorithm", "six-phase", "--set", "network.packet=1KiB", "--json"
    )
    assert ended.status == 0
    assert [w for w in json.loads(ended.out)["warnings"] if "steps carry" in w]
    kept = collective(syncline_command, *arguments, "--algorithm", "six-phase", "--chunk", "64KiB")
    assert kept["warnings"] == []


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        (
            ("all-reduce", "--topology", "Torus(4,4)", "--algorithm", "direct", "--endpoint", "ace"),
            "--algorithm",
            "rings between neighbouring",
        ),
        (("all-reduce", "--machine", "dgx1v", "--endpoint", "ace"), "--topology", "rings between neighbouring"),
        (("broadcast", "--topology", "Ring(4)", "--endpoint", "ace"), "KIND", "rings between neighbouring"),
        (
            ("all-to-all", "--topology", "Ring(4)", "--algorithm", "double-binary-tree"),
            "--algorithm",
            "there is no double-binary-tree algorithm for all-to-all",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    syncline_command: Command, arguments: tuple[str, ...], field: str, said: str
) -> None:
    ended = syncline_command("collective", *arguments, "--size", "1MB", "--json")
    assert (ended.status, ended.out) == (2, "")
    (error,) = json.loads(ended.err)["errors"]
    assert said in error["message"]
    assert error["accepted"]


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
@pytest.mark.parametrize("topology", ["Ring(4)", "Switch(4)", "Ring(4)_Switch(4, links=4)", "FullyConnected(5)"])
def test_an_engine_carries_out_rings_and_direct_phases(syncline_command: Command, kind: str, topology: str) -> None:
    algorithm = "hierarchical-optimal"
    document = collective(
        syncline_command, kind, "--topology", topology, "--size", "1MB", "--algorithm", algorithm, "--endpoint", "ace"
    )
    breakdown = document["endpoint"]["breakdown"]
    assert 0 < document["lower_bound_s"] <= document["time_s"]
    assert breakdown["messages"] > breakdown["chunks"] > 0
    assert 0 < breakdown["network_s"] < document["time_s"]


def test_a_study_on_machines_makes_a_report(syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(
        "nodes: [A, B, {name: S, kind: switch}]\ndefaults: {rate: 25GB/s, latency: 1us}\n"
        "links: [{from: A, to: S}, {from: B, to: S}]\n"
    )
    (tmp_path / "machines.yaml").write_text(
        "name: machines\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
        "training: {iterations: 1}\nvariants:\n"
        "  - {name: Machine, topology: dgx-a100, collective: {algorithm: auto}}\n"
        "  - {name: Switch, topology: Switch(8), collective: {algorithm: auto}}\n"
        "  - {name: Some, topology: dgx1v, gpus: 0-3}\n"
        "  - {name: Groups, topology: 'Torus(4,4)', groups: size 4}\n"
        "  - {name: File, topology: {file: box.yaml}}\n"
    )
    out = tmp_path / "run"
    first = syncline_command("run", str(tmp_path / "machines.yaml"), "--out", str(out), "--json")
    assert first.status == 0
    runs = {run["name"]: run for run in json.loads(first.out)["runs"]}
    assert runs["Machine"]["link_classes"] == ["NVSwitch"]
    assert runs["Machine"]["algorithm_choice"]["chosen"] == runs["Machine"]["algorithm"]
    assert (runs["Switch"]["fidelity"]["folded"], runs["Some"]["fidelity"]["folded"]) == (True, False)
    report = (out / "report.html").read_text()
    assert "NVSwitch" in report
    assert "QPI" in report
    (tmp_path / "box.yaml").unlink()
    again = syncline_command("run", str(out / "experiment.resolved.yaml"), "--out", str(tmp_path / "again"), "--json")
    assert again.status == 0
    times = [[run["total_time_s"] for run in json.loads(ended.out)["runs"]] for ended in (first, again)]
    assert times[0] == times[1]


def test_ctrl_c_while_algorithms_are_tried() -> None:
    arguments = ("collective", "all-reduce", "--size", "2GB", "--machine", "dgx-h100(nodes=512)", "--json")
    command = [sys.executable, "-m", "syncline", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2)
        os.kill(process.pid, signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "")
    assert said == "interrupted\n"


def test_a_ring_of_thousands_of_hosts_folds() -> None:
    """All messages of a rank go to the next one, of which one is looked at."""
    text = 'name: a\ntopology: "LeafSpine(leaves=64, hosts=64, spines=16)"\nnetwork: flow\n'
    text += "workload: {collective: all-reduce, size: 1MB}\ncollective: {algorithm: ring, chunks: 1}\n"
    preview = engine.preview(study(text).variants[0])
    assert (preview.npus, preview.simulated_npus) == (4096, 64)
