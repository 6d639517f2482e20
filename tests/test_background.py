"""Traffic beside that of a run of Ethernet: given flows, flows that arrive at random, flows of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.command import run
from support.pages import charts_of
from syncline.base.errors import InputError
from syncline.sections.networks import sizes

STAR = """name: beside
topology: "Switch(4, rate=100Gb/s, latency=500ns)"
workload: {collective: all-reduce, size: 4MB}
collective: {algorithm: ring}
endpoint: {kind: ideal}
network:
  backend: ethernet
"""
FLOWS = """Nodes 4
Connections 2
# A comment
1->0 id 1 start 0 size 200000
2->0 start 5000000.0 size 1000 prio 3
"""


def document(folder: Path, background: str, *arguments: str) -> dict[str, Any]:
    """What running with such traffic gives."""
    folder.mkdir(exist_ok=True)
    (folder / "e.yaml").write_text(f"{STAR}  background:\n{background}\n" if background else STAR)
    done = run("run", folder / "e.yaml", "--out", folder / "run", "--json", "-q", *arguments)
    assert done.status == 0, done.err
    return dict(json.loads(done.out))


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """A table of that run."""
    return list(pq.read_table(folder / "run/beside/tables" / f"{name}.parquet").to_pylist())


def test_nothing_beside_a_run_changes_nothing(tmp_path: Path) -> None:
    plain = document(tmp_path / "plain", "")["runs"][0]
    for number, nothing in enumerate(("    []", "    - {load: 0%, size: 10kB}")):
        run_entry = document(tmp_path / str(number), nothing)["runs"][0]
        assert run_entry["time_s"] == plain["time_s"]
        kept = {key: value for key, value in run_entry["network"].items() if not key.startswith("background")}
        assert kept == plain["network"]


def test_flows_have_rows_and_distributions_of_their_own(tmp_path: Path) -> None:
    given = "    - {from: npu 1, to: npu 0, size: 100kB, start: 5us, repeat: 3, every: 20us}"
    network = document(tmp_path, given)["runs"][0]["network"]
    assert (network["background_flows"], network["background_finished"]) == (3, 3)
    assert network["background_bytes"] == network["background_finished_bytes"] == 300_000
    beside = [row for row in table(tmp_path, "flows") if row["kind"] == "background"]
    assert [row["began_ps"] for row in beside] == [5_000_000, 25_000_000, 45_000_000]
    assert all(row["bytes"] == 100_000 and row["ended_ps"] - row["began_ps"] >= row["alone_ps"] for row in beside)
    for name in ("completions", "slowdowns"):
        counts = [row["messages"] for row in table(tmp_path, name) if row["kind"] == "background"]
        assert sum(counts) == 3
    page = (tmp_path / "run/report.html").read_text()
    assert "beside, background" in json.dumps(charts_of(page))
    assert "Flows beside the run that have begun" in page


def test_flows_that_are_not_finished_are_counted(tmp_path: Path) -> None:
    endless = "    - {from: npu 1, to: npu 0, size: 100GB}"
    entry = document(tmp_path, endless)["runs"][0]
    assert (entry["network"]["background_flows"], entry["network"]["background_finished"]) == (1, 0)
    assert entry["network"]["background_unfinished"] == 1
    assert entry["time_s"] < 0.1
    (row,) = [row for row in table(tmp_path, "flows") if row["kind"] == "background"]
    assert row["ended_ps"] is None
    assert row["alone_ps"] > 8 * 10**12


def test_every_flow_has_finished_or_failed_or_is_under_way(tmp_path: Path) -> None:
    """One of each: nobody hears of what is sent to NPU 3, and the last flow is longer than the run."""
    flows = "".join(
        f"    - {{from: npu {src}, to: npu {dst}, size: {size}}}\n"
        for src, dst, size in ((1, 2, "10kB"), (0, 3, "10kB"), (1, 2, "100GB"))
    )
    group = ("--set", "groups=0-2", "--set", "workload.size=10MB")
    fault = ("network.transport=roce", "network.min_rto=20us", "network.faults=[{node: npu 3, at: 0s, rate: 0%}]")
    settings = [argument for setting in fault for argument in ("--set", setting)]
    (entry,) = document(tmp_path, flows, *group, *settings)["runs"]
    counts = [entry["network"][f"background_{name}"] for name in ("finished", "failed", "unfinished", "flows")]
    assert counts == [1, 1, 1, 3]


def test_random_flows_depend_on_the_seed_alone(tmp_path: Path) -> None:
    random = "    - {load: 20%, sizes: hadoop, from: [npu 0, npu 1], to: all}"
    one, same = (document(tmp_path / name, random, "--seed", "3") for name in ("a", "b"))
    other = document(tmp_path / "c", random, "--seed", "4")
    assert one["runs"] == same["runs"]
    assert one["runs"][0]["time_s"] != other["runs"][0]["time_s"]
    assert (tmp_path / "a/run/experiment.resolved.yaml").read_text().count("sizes: hadoop") == 1
    senders = {row["src"] for row in table(tmp_path / "a", "flows") if row["kind"] == "background"}
    assert senders == {"NPU 0 (0)", "NPU 1 (1)"}


def test_files_are_read_beside_the_experiment_and_kept_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "flows.cm").write_text(FLOWS)
    (tmp_path / "sizes.csv").write_text("1000 50\n20000,100\n")
    files = "    - {matrix: flows.cm}\n    - {load: 10%, sizes: sizes.csv, to: npu 3}"
    entry = document(tmp_path, files)["runs"][0]
    beside = [row for row in table(tmp_path, "flows") if row["kind"] == "background"]
    assert [(row["src"], row["began_ps"]) for row in beside if row["dst"] == "NPU 0 (0)"] == [
        ("NPU 1 (1)", 0),
        ("NPU 2 (2)", 5_000_000),
    ]
    assert sorted(path.suffix for path in (tmp_path / "run/inputs").iterdir()) == [".cm", ".csv"]
    resolved = tmp_path / "run/experiment.resolved.yaml"
    done = run("run", resolved, "--json", "-q")
    assert done.status == 0, done.err
    assert json.loads(done.out)["runs"][0]["network"] == entry["network"]


WRONG = {
    "{from: npu 1, to: npu 1, size: 1MB}": ("to", "another NPU"),
    "{from: npu 1, to: npu 9, size: 1MB}": ("to", "npu 0 to npu 3"),
    "{from: npu 1, size: 1MB}": ("to", "an NPU; or load"),
    "{from: [npu 1, npu 2], to: npu 0, size: 1MB}": ("from", "an NPU; or load"),
    "{from: npu 1, to: npu 0}": ("size", "a size; or load"),
    "{from: npu 1, to: npu 0, size: 1MB, repeat: 2}": ("every", "a time with a unit"),
    "{from: npu 1, to: npu 0, size: 1MB, every: 2us}": ("every", "repeat of 2 or more"),
    "{from: npu 1, to: npu 0, sizes: hadoop}": ("sizes", "size; or load"),
    "{from: switch 0, to: npu 0, size: 1MB}": ("from", "all, npu N"),
    "{from: npu 01, to: npu 0, size: 1MB}": ("from", "all, npu N"),
    "{load: 30%}": ("size", "size or sizes, and not both"),
    "{load: 30%, size: 1MB, sizes: hadoop}": ("size", "size or sizes, and not both"),
    "{load: 130%, size: 1MB}": ("load", "0% to 100%"),
    "{load: 30%, size: 1MB, start: 1us}": ("start", "load without it"),
    "{load: 30%, size: 1MB, from: npu 1, to: npu 1}": ("to", "another NPU"),
    "{load: 30%, sizes: none.csv}": ("sizes", "websearch, hadoop, or the path"),
    "{matrix: none.cm}": ("matrix", "connection matrix"),
    "{matrix: flows.cm, size: 1MB}": ("size", "matrix alone"),
    "{matrix: triggers.cm}": ("matrix", "workload.graph"),
    "{flow: 1}": ("flow", "from"),
}


@pytest.mark.parametrize("traffic", WRONG)
def test_wrong_traffic_is_refused_with_field_and_line(tmp_path: Path, traffic: str) -> None:
    field, accepted = WRONG[traffic]
    (tmp_path / "flows.cm").write_text(FLOWS)
    triggers = "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 1\n"
    (tmp_path / "triggers.cm").write_text(triggers + "1->2 id 2 trigger 1 size 5\ntrigger id 1 oneshot\n")
    (tmp_path / "e.yaml").write_text(f"{STAR}  background:\n    - {traffic}\n")
    done = run("check", tmp_path / "e.yaml", "--json")
    assert (done.status, done.out) == (2, "")
    errors = json.loads(done.err)["errors"]
    assert len(errors) == 1, errors
    assert errors[0]["field"] == f"network.background.0.{field}", errors
    assert errors[0]["line"] == 9
    assert accepted in errors[0]["accepted"], errors


SIZES_WRONG = {
    "": (None, "does not end"),
    "10 50\n": (1, "does not end"),
    "10 50\n5 100\n": (2, "below the point before"),
    "10 50\n20 40\n": (2, "below the point before"),
    "10 50\nten 100\n": (2, "no point"),
    "10 50\n20 101\n": (2, "too large"),
    "0 100\n": (1, "does not end"),
}


@pytest.mark.parametrize("text", SIZES_WRONG)
def test_damaged_distributions_are_refused_with_their_line(text: str) -> None:
    line, message = SIZES_WRONG[text]
    with pytest.raises(InputError) as refused:
        sizes.read(text.encode(), "sizes.csv")
    (problem,) = refused.value.problems
    assert (problem.file, problem.line) == ("sizes.csv", line)
    assert message in problem.message


def test_distributions_have_their_means() -> None:
    read = sizes.read(b"# sizes\n0, 0\n1000, 50.5\n2000 100\n", "x")
    assert read.points == ((0, 0), (1000, 505_000), (2000, 1_000_000))
    assert read.mean == pytest.approx(0.505 * 500 + 0.495 * 1500)
    assert sizes.NAMED["websearch"][-1] == (30_000_000, 1_000_000)
    assert 1.5e6 < sizes.Sizes("websearch", sizes.NAMED["websearch"]).mean < 1.8e6
