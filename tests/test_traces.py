"""What the engine records for traces: messages, busy links, and that recording changes nothing."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncline
from support.command import Ended
from support.perfetto_traces import read

Command = Callable[..., Ended]
BASE: dict[str, Any] = {
    "name": "t",
    "topology": "Ring(2, rate=100GB/s, latency=1us)_Ring(3, rate=50GB/s, latency=1us)",
    "workload": {"collective": "all-reduce", "size": "600KB"},
    "collective": {"chunks": 2},
    "fold": "off",
    "output": {"trace_npus": [0, 1, 2, 3, 4, 5], "trace_limit": 10_000_000},
}
CASES: dict[str, dict[str, Any]] = {
    "analytical": {"network": {"backend": "analytical"}, "endpoint": {"kind": "ideal"}},
    "flow": {"network": {"backend": "flow"}, "endpoint": {"kind": "ideal"}},
    "packet": {"network": {"backend": "packet"}, "endpoint": {"kind": "ideal"}},
    "ACE": {"network": {"backend": "packet"}, "endpoint": {"kind": "ace", "comm_memory_bandwidth": "128GB/s"}},
    "baseline": {
        "network": {"backend": "packet"},
        "endpoint": {"kind": "baseline", "comm_memory_bandwidth": "450GB/s", "comm_sms": 6},
    },
}


def run(case: str, **changes: Any) -> tuple[float | None, dict[str, Any]]:
    """The time and the tables of a run with one system."""
    [system] = syncline.run({**BASE, **CASES[case], **changes}).systems.values()
    return system.time_s, {name: system.tables[name].to_arrow() for name in ("links", "messages", "link_spans")}


@pytest.mark.parametrize("case", CASES)
def test_messages_and_spans_agree_with_what_links_carried(case: str) -> None:
    _, tables = run(case)
    links = {(row["node"], row["port"]): row for row in tables["links"].to_pylist()}
    sent: dict[tuple[int, str], int] = defaultdict(int)
    for message in tables["messages"].to_pylist():
        link = links[message["src"], message["src_port"]]
        assert link["to"] == message["dst"], "every message goes to a neighbour here"
        back = links[message["dst"], message["dst_port"]]
        assert back["to"] == message["src"]
        rate = 100e9 if link["dim"] == 0 else 50e9
        assert message["arrived_ps"] >= message["sent_ps"] + 10**6 + message["bytes"] / rate * 1e12 - 1
        sent[message["src"], message["src_port"]] += message["bytes"]
    assert sent == {key: row["bytes"] for key, row in links.items() if row["bytes"]}
    busy: dict[tuple[int, str], int] = defaultdict(int)
    ends: dict[tuple[int, str], int] = defaultdict(int)
    for span in tables["link_spans"].to_pylist():
        key = span["node"], span["port"]
        assert span["to"] == links[key]["to"]
        assert ends[key] <= span["start_ps"] < span["end_ps"], "spans of a link are disjoint and in order"
        assert 0 < span["busy_ps"] <= span["end_ps"] - span["start_ps"] or case == "analytical"
        ends[key] = span["end_ps"]
        busy[key] += span["busy_ps"]
    assert busy == {key: row["busy_ps"] for key, row in links.items() if row["busy_ps"]}


@pytest.mark.parametrize("case", CASES)
def test_recording_changes_nothing(case: str) -> None:
    time_s, traced = run(case)
    time_untraced_s, untraced = run(case, output={"trace_npus": []})
    assert traced["links"].equals(untraced["links"])
    assert time_s == time_untraced_s
    assert untraced["messages"].num_rows == untraced["link_spans"].num_rows == 0


def test_only_messages_of_traced_npus_are_recorded_up_to_the_limit() -> None:
    every = run("packet")[1]["messages"].to_pylist()
    mine = [row for row in every if 4 in (row["src"], row["dst"])]
    assert run("packet", output={"trace_npus": [4]})[1]["messages"].to_pylist() == mine
    _, few = run("packet", output={"trace_npus": [4], "trace_limit": 100})
    assert few["messages"].to_pylist() == mine[:5]
    assert few["link_spans"].num_rows <= 5


def test_traces_need_a_directory(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps({**BASE, **CASES["ACE"]}))
    for out in ((), ("--out", str(tmp_path / "systems.csv"))):
        ended = syncline_command("run", str(path), *out, "--trace", "json")
        assert ended.status == 2
        assert "--trace: traces need a directory to be written to" in ended.err


def test_a_run_writes_the_trace_that_is_asked_for(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps({**BASE, **CASES["ACE"]}))
    for suffix in ("json", "json.gz", "pftrace", "perfetto-trace"):
        out = tmp_path / suffix.replace(".", "-")
        assert syncline_command("run", str(path), "--out", str(out), "--trace", suffix).status == 0
        [trace] = out.glob(f"*/trace.{suffix}")
        content = trace.read_bytes()
        if suffix.startswith("json"):
            other = json.loads(gzip.decompress(content) if suffix.endswith("gz") else content)["otherData"]
        else:
            other = read(content).about
        assert other["slices_dropped"] == 0
        assert other["arrows_written"] == run("ACE")[1]["messages"].num_rows
    refused = syncline_command("run", str(path), "--trace", "pftrace")
    assert (refused.status, "--trace FORMAT with --out DIR" in refused.err) == (2, True)
    refused = syncline_command("run", str(path), "--trace", "svg", "--out", str(tmp_path / "x"))
    assert (refused.status, "this format of traces is not known" in refused.err) == (2, True)


def test_a_timeline_is_exported_with_what_was_measured(
    syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(json.dumps({**BASE, **CASES["ACE"]}))
    kernel: dict[str, Any] = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    events = [
        {**kernel, "name": "ncclDevKernel_AllReduce", "ts": 5, "dur": 3, "args": {"Collective name": "allreduce"}},
        {**kernel, "name": "gemm", "ts": 1, "dur": 3},
    ]
    Path("m.2.json").write_text(json.dumps({"distributedInfo": {"rank": 2, "world_size": 6}, "traceEvents": events}))
    flags = ("--set", "output.trace_npus=[0]", "-o", "t.pftrace", "--overlay", "m")
    ended = syncline_command("export-trace", "t.yaml", *flags)
    assert ended.status == 0, ended.err
    assert "rank 2: 2 kernels from the first event on; all-reduce: 1 matched of 1 measured and 1 simulated" in ended.err
    found = read(Path("t.pftrace").read_bytes())
    assert sorted(found.processes.values()) == ["NPU 0", "NPU 2", "rank 2 (measured)", "utilisation"]
    printed = syncline_command("export-trace", "t.yaml", "-o", "t.json.gz", "--npus", "1,2", "--overlay", "m", "--json")
    document = json.loads(printed.out)
    assert (document["format"], document["files"]) == ("chrome", ["t.json.gz"])
    assert document["overlay"][0]["matched"] == {"all-reduce": 1}
    wrong: tuple[tuple[tuple[str, ...], str], ...] = (
        (("-o", "x.json", "--format", "perfetto"), "this is no name of a file of the format perfetto"),
        (("-o", "folder", "--overlay", "m"), "profiles are shown beside a timeline"),
        (("-o", "x.json", "--overlay", "nowhere"), "there is no such file"),
    )
    for given, message in wrong:
        refused = syncline_command("export-trace", "t.yaml", *given)
        assert (refused.status, message in refused.err) == (2, True), refused.err
