"""`syncline explain` and `syncline.explain`: what is reported, kept, and can be repeated."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import syncline
from support.command import Ended
from support.pages import check_page
from syncline.base.errors import InputError
from syncline.commands import catalogue
from syncline.commands.api import explaining, reruns
from syncline.engine import choice, runner
from syncline.fabric import topology
from syncline.results import rundir
from syncline.studies.reasons import changes, limits, said

Command = Callable[..., Ended]

TWO = """\
name: two
topology: "Ring(4, rate=50GB/s, latency=1us)_Ring(2, rate=5GB/s)"
workload: {collective: all-reduce, size: 256KiB}
collective: {algorithm: hierarchical-optimal}
variants:
  - {name: SMs, endpoint: {kind: baseline, comm_memory_bandwidth: 128GB/s, comm_sms: 2}}
  - {name: Engine, endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}}
"""
ALONE = """\
name: alone
topology: FatTree(k=2, rate=5GB/s)
workload: {collective: all-reduce, size: 64KiB}
collective: {algorithm: ring, inflight: 2}
network: {backend: packet}
"""
SLOW = """\
name: slow
topology: Ring(4)
workload: {model: resnet18, batch: 8}
training: {iterations: 1, stragglers: [{npu: 2, factor: 3}]}
collective: {algorithm: ring, chunk: 4MiB}
network: analytical
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two experiments, and few algorithms to be tried."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choice, "candidates", lambda _: ["ring", "direct"])
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "alone.yaml").write_text(ALONE)
    return tmp_path


def answer(command: Command, *arguments: str) -> dict[str, Any]:
    """The document, which is as its schema says and whose paths add up."""
    ended = command("explain", *arguments, "--json", "-q")
    assert ended.status == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    jsonschema.validate(document, catalogue.SCHEMAS["explain"]())
    for entry in document["systems"]:
        assert sum(part["ps"] for part in entry["critical_path"]) == entry["total_ps"]
        assert sum(part["share"] for part in entry["critical_path"]) == pytest.approx(1, abs=1e-12)
        assert sum(part["ps"] for part in entry["by_resource"]) == entry["total_ps"]
        for part in entry["critical_path"]:
            assert part["links_busy_ps"] is None or 0 <= part["links_busy_ps"] <= part["ps"]
    return document


@pytest.mark.parametrize("given", [["two.yaml", "--set", "workload.size=128KiB", "--system", "SMs"], ["alone.yaml"]])
def test_every_setting_gives_what_was_reported(given: list[str], folder: Path, syncline_command: Command) -> None:
    document = answer(syncline_command, *given)
    repeated = 0
    for entry in document["systems"]:
        gains = [rerun["gain"] for rerun in entry["what_if"] if rerun["gain"] is not None]
        assert gains == sorted(gains, reverse=True)
        for rerun in entry["what_if"]:
            program, *arguments = shlex.split(rerun["command"])
            assert (program, arguments[:2]) == ("syncline", ["run", given[0]])
            if rerun["refused"] is not None:
                assert rerun["gain"] is None
                continue
            ended = syncline_command(*arguments, "--json", "-q")
            assert ended.status == 0, (rerun, ended.err)
            mine = next(run for run in json.loads(ended.out)["runs"] if run["name"] == entry["name"])
            assert mine["iteration_time_s"] == rerun["iteration_time_s"], rerun["change"]
            assert rerun["gain"] == pytest.approx(1 - mine["iteration_time_s"] / entry["iteration_time_s"], abs=1e-9)
            repeated += 1
    assert repeated >= 6


def test_the_parts_of_a_path_add_up_to_an_iteration(folder: Path, syncline_command: Command) -> None:
    """Of a collective on its own, and of a training of two iterations, each of whose parts is per iteration."""
    training = (
        "workload: {model: resnet18, batch: 2}\ntraining: {iterations: 2}\ncollective: {algorithm: ring, chunks: 2}\n"
    )
    (folder / "train.yaml").write_text(f"name: train\ntopology: Ring(4, rate=5GB/s)\nnetwork: analytical\n{training}")
    for name in ("alone.yaml", "train.yaml"):
        (entry,) = answer(syncline_command, name, "--no-what-if")["systems"]
        whole = sum(part["time_s"] for part in entry["critical_path"])
        assert whole == pytest.approx(entry["iteration_time_s"], rel=1e-9)


def test_the_limit_is_decided_by_reruns(folder: Path, syncline_command: Command) -> None:
    entry = answer(syncline_command, "two.yaml", "--system", "SMs")["systems"][0]
    assert entry["limit"]["by"] == "reruns"
    assert any(r["relieves"] == entry["limit"]["name"] and r["gain"] > 0.1 for r in entry["what_if"])
    ended = syncline_command("explain", "two.yaml", "--system", "SMs", "-q")
    assert f"SMs: {said.limit(entry)}." in " ".join(ended.out.split())
    assert "--set 'variants.SMs." in ended.out


def test_without_reruns_it_says_so(folder: Path, syncline_command: Command) -> None:
    ended = syncline_command("explain", "two.yaml", "--no-what-if")
    assert ended.status == 0
    assert ended.out.count("by accounting only, without reruns") == 2
    assert "what would help" not in ended.out


def test_a_run_keeps_its_answer_and_its_report_shows_it(folder: Path, syncline_command: Command) -> None:
    assert syncline_command("run", "two.yaml", "--out", "kept", "-q").status == 0
    page = (folder / "kept/report.html").read_text()
    assert "by accounting only" in page
    assert "Critical path" in page
    assert "What would help" not in page
    document = answer(syncline_command, "kept", "--system", "SMs")
    kept = json.loads((folder / "kept" / rundir.EXPLAINED).read_text())
    assert kept == document
    page = (folder / "kept/report.html").read_text()
    text = " ".join("".join(check_page(page).text).split())
    assert "What would help" in text
    assert f"{said.limit(document['systems'][0])}." in text
    assert text.count("by accounting only") == 1
    best = document["systems"][0]["what_if"][0]
    assert best["change"] in text
    _, *arguments = shlex.split(best["command"])
    assert arguments[1] == str(Path("kept") / rundir.RESOLVED)
    mine = json.loads(syncline_command(*arguments, "--json", "-q").out)["runs"][0]
    assert mine["iteration_time_s"] == best["iteration_time_s"]
    answer(syncline_command, "kept", "--system", "Engine")
    assert "by accounting only" not in (folder / "kept/report.html").read_text()
    assert syncline_command("run", "two.yaml", "--out", "kept", "-q").status == 0
    assert not (folder / "kept" / rundir.EXPLAINED).exists()


def test_a_damaged_answer_is_left_out_of_the_report(folder: Path, syncline_command: Command) -> None:
    assert syncline_command("run", "two.yaml", "--out", "kept", "-q").status == 0
    (folder / "kept" / rundir.EXPLAINED).write_text('{"systems": [{"name": "SMs", "critical_path": 3}]}')
    assert syncline_command("report", "kept", "-q").status == 0
    assert "by accounting only" in (folder / "kept/report.html").read_text()


WRONG: dict[str, tuple[list[str], str]] = {
    "a system": (["two.yaml", "--system", "SM"], "--system: there is no such system; did you mean 'SMs'?"),
    "a setting of a run": (["kept", "--set", "collective.inflight=3"], "a run that is finished cannot be changed"),
    "a file": (["none.yaml"], "none.yaml"),
    "threads": (["two.yaml", "--threads", "0"], "--threads"),
    "a setting": (["two.yaml", "--set", "nothing=1"], "this key is not known"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str, folder: Path, syncline_command: Command) -> None:
    arguments, message = WRONG[case]
    if "kept" in arguments:
        assert syncline_command("run", "two.yaml", "--out", "kept", "-q").status == 0
    ended = syncline_command("explain", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    ended = syncline_command("explain", *arguments, "--json")
    assert (ended.status, ended.out) == (2, "")
    assert json.loads(ended.err)["errors"]


def test_an_interrupt_leaves_what_is_known(
    folder: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = runner.Progress.finished

    def interrupt(self: runner.Progress, name: str) -> None:
        finished(self, name)
        if name == "alone: half the latency":
            raise KeyboardInterrupt

    monkeypatch.setattr(runner.Progress, "finished", interrupt)
    ended = syncline_command("explain", "alone.yaml", "--json", "--threads", "1")
    assert ended.status == 130
    document = json.loads(ended.out)
    assert document["status"] == "partial"
    assert document["systems"][0]["what_if"]
    with pytest.raises(KeyboardInterrupt):
        syncline.explain("alone.yaml", threads=1)


def test_an_interrupt_while_reruns_are_set_up_leaves_the_path(
    folder: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reruns, "planned", interrupt)
    ended = syncline_command("explain", "alone.yaml", "--json")
    assert ended.status == 130
    document = json.loads(ended.out)
    assert document["status"] == "partial"
    assert document["systems"][0]["critical_path"]
    assert document["systems"][0]["what_if"] == []


def test_a_record_that_is_too_short_is_made_longer_or_told_of(
    folder: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("alone.yaml", "--set", "collective.chunk=1KiB", "--no-what-if")
    short = (*arguments, "--set", "output.trace_limit=20")
    (whole,) = answer(syncline_command, *arguments)["systems"]
    (again,) = answer(syncline_command, *short)["systems"]
    assert again["critical_path"] == whole["critical_path"]
    monkeypatch.setattr(explaining, "TRACED", 30)
    (warning,) = answer(syncline_command, *short)["warnings"]
    assert "alone: the record of what its NPU did is full" in warning
    assert syncline_command("run", *short[:-3], *short[-2:], "--out", "kept").status == 0
    *_, warning = answer(syncline_command, "kept", "--no-what-if")["warnings"]
    assert "alone: the record of what its NPU did is full" in warning


@pytest.mark.parametrize("trace", ["output.trace_npus=[]", "output.trace_npus=[1]", "output.trace_limit=0"])
def test_a_training_without_a_record_of_its_slowest_npu_is_repeated_for_one(
    trace: str, folder: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares of a run in a directory are those of an experiment, which is traced as far as they need it."""
    (folder / "slow.yaml").write_text(SLOW)
    (whole,) = answer(syncline_command, "slow.yaml", "--no-what-if")["systems"]
    assert whole["critical_path"][0]["what"] == "compute"
    assert syncline_command("run", "slow.yaml", "--set", trace, "--out", "kept").status == 0
    page = (folder / "kept" / "report.html").read_text()
    assert ("by its critical path" in page or "what is in use on its critical path" in page) == (trace[-3:] == "[1]")
    document = answer(syncline_command, "kept", "--no-what-if")
    (again,) = document["systems"]
    assert (again["npu"], again["critical_path"]) == (2, whole["critical_path"])
    assert "slow: the run has no record of what its slowest NPU did, and was repeated for one" in document["warnings"]
    written = json.loads((folder / "kept" / "summary.json").read_text())
    written["runs"][0]["total_time_s"] *= 2
    (folder / "kept" / "summary.json").write_text(json.dumps(written))
    ended = syncline_command("explain", "kept", "--no-what-if")
    assert (ended.status, ended.out) == (2, "")
    assert "this version simulates it otherwise than the one that has written it" in ended.err


def test_nics_that_wait_for_pcie_are_doubled_with_it(folder: Path) -> None:
    """A NIC of a DGX H100 has 50 GB/s behind a PCIe link of 52.48."""
    experiment = {
        "topology": "dgx-h100(nodes=2)",
        "workload": {"collective": "all-reduce", "size": "64MiB"},
        "collective": {"algorithm": "hierarchical"},
        "network": "flow",
    }
    (system,) = syncline.explain(experiment).systems.values()
    assert system.what_if is not None
    gains = {each.change: each.gain for each in system.what_if}
    alone, both = (
        gains["twice the rate of the NICs, behind PCIe of 52.48GB/s"],
        gains["twice the rate of the NICs and of PCIe"],
    )
    assert alone is not None
    assert both is not None
    assert 0 < alone < 0.05
    assert both > 0.2
    assert system.limit == "links of InfiniBand and PCIe"


def test_a_directory_without_a_run_is_told(folder: Path, syncline_command: Command) -> None:
    (folder / "empty").mkdir()
    for arguments in (("explain", "empty"), ("diff", "empty", "empty")):
        ended = syncline_command(*arguments)
        assert ended.status == 2
        assert "this is not the directory of a run" in ended.err
        assert "given: empty" in ended.err
    with pytest.raises(InputError, match="this is not the directory of a run"):
        syncline.explain("empty")


def test_the_function_gives_the_document_of_the_command(folder: Path, syncline_command: Command) -> None:
    explanation = syncline.explain("two.yaml", set={"workload.size": "128KiB"}, system="Engine")
    document = answer(syncline_command, "two.yaml", "--set", "workload.size=128KiB", "--system", "Engine")
    mine = explanation.document
    assert {**mine, "cost": None} == {**document, "cost": None}
    (system,) = explanation.systems.values()
    assert (system.name, system.limit) == ("Engine", document["systems"][0]["limit"]["name"])
    assert sum(part.ps for part in system.critical_path) == document["systems"][0]["total_ps"]
    assert system.what_if is not None
    assert system.what_if[0].settings == tuple(document["systems"][0]["what_if"][0]["set"])
    assert "critical path" in explanation._repr_html_()
    run = syncline.run("two.yaml")
    with pytest.raises(InputError, match="this run is in no directory"):
        syncline.explain(run)
    run.save(folder / "kept")
    assert list(syncline.explain(run, what_if=False).systems) == ["SMs", "Engine"]


def test_a_slow_npu_is_the_one_that_is_explained() -> None:
    experiment = {
        "topology": "Ring(4)",
        "workload": {"model": "resnet18", "batch": 2},
        "training": {"iterations": 1, "stragglers": [{"npu": 2, "factor": 3}]},
        "collective": {"chunk": "4MiB"},
    }
    document = syncline.explain(experiment, what_if=False).document
    assert document["systems"][0]["npu"] == 2


def test_accounting_is_kept_where_no_relief_is_better() -> None:
    relief = changes.Change("twice the bus", (), "relief", changes.BUS)
    found = limits.decided(("SRAM", "evidence"), [limits.Rerun(relief, (), 99.9, 0.001)])
    assert (found.name, found.accounting) == (limits.NOTHING, "SRAM")
    assert found.because.startswith("no change of one thing makes it faster by 1.0 % or more")


def test_machines_and_networks_of_switches_are_changed_by_their_parameters() -> None:
    from syncline.experiment.load import Study

    def labels(topology: str, algorithm: str = "ring") -> dict[str, str]:
        experiment: Study = syncline.load(
            {
                "topology": topology,
                "workload": {"collective": "all-reduce", "size": "1MiB"},
                "collective": {"algorithm": algorithm},
            }
        )._study
        found = changes.of(experiment.variants[0].experiment, timeouts=False)
        return {c.label: str(dict(c.settings).get("topology")) for c in found if "topology" in dict(c.settings)}

    cluster = labels("dgx-a100(nodes=2, nic_rate=10GB/s, latency=1us, oversubscription=2)")
    assert cluster["twice the rate of the NICs"] == (
        "dgx-a100(nodes=2, nics=rail, nic_rate=20GB/s, latency=1us, oversubscription=2)"
    )
    assert "oversubscription" not in cluster["no oversubscription"]
    assert "latency=500ns" in cluster["half the latency"] or "latency" not in cluster["half the latency"]
    leaves = labels("LeafSpine(leaves=2, hosts=4, spines=2, rate=50GB/s, uplink_rate=25GB/s, latency=400ns)")
    assert "uplink_rate=50GB/s" in leaves["twice the uplink rate of links"]
    assert "rate=100GB/s, uplink_rate=25GB/s" in leaves["twice the rate of links"]
    assert "rate=100GB/s, uplink_rate=50GB/s" in leaves["twice the rate of all links"]
    assert "latency=200ns" in leaves["half the latency"]
    assert labels("dgx1v") == {}
    tori = labels("Ring(4, rate=50GB/s, latency=1us)_Ring(2, rate=5GB/s, latency=600ns)", "six-phase")
    read = {label: [(d.rate, d.latency) for d in syncline_topology(text)] for label, text in tori.items()}
    assert read == {
        "twice the link rate of dim 0": [(100 * 10**9, 10**6), (5 * 10**9, 600_000)],
        "twice the link rate of dim 1": [(50 * 10**9, 10**6), (10 * 10**9, 600_000)],
        "twice the rate of all links": [(100 * 10**9, 10**6), (10 * 10**9, 600_000)],
        "half the latency": [(50 * 10**9, 500_000), (5 * 10**9, 300_000)],
    }


def syncline_topology(text: str) -> tuple[topology.Dimension, ...]:
    """The dimensions of a topology string."""
    return topology.parse(text).dims


def test_tables_of_older_versions_may_lack_columns() -> None:
    from syncline.report import html
    from syncline.studies.reasons import entries

    run = syncline.run(
        {
            "topology": "Ring(4)_Ring(2)",
            "workload": {"collective": "all-reduce", "size": "64KiB"},
            "endpoint": {"kind": "ace", "comm_memory_bandwidth": "128GB/s"},
        }
    )
    assert run._finished is not None
    variants = run._finished.study.variants
    (name,) = run.systems
    whole = dict(run._tables[name])
    for table, content in whole.items():
        reduced = [content.drop_columns([column]) for column in content.column_names]
        reduced.append(content.slice(0, 0))
        for fewer in reduced:
            (entry,) = entries.entries(run.document, {name: {**whole, table: fewer}}, variants)
            assert sum(part["ps"] for part in entry["critical_path"]) == entry["total_ps"]
            assert sum(part["ps"] for part in entry["by_resource"]) == entry["total_ps"]
    (entry,) = entries.entries(run.document, {name: {}}, variants)
    assert [part["name"] for part in entry["critical_path"]] in (["communication"], ["before the NPU begins"])
    for old in ({}, {"iteration_time_s": None}):
        runs = [{**{k: v for k, v in run.document["runs"][0].items() if k != "endpoint"}, **old}]
        found = entries.entries({**run.document, "runs": runs}, run._tables, variants)
        check_page(html.build({**run.document, "runs": runs}, run._tables, "syncline run", "", found))
