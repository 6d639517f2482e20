"""Traces of runs: read by hand, and imported again to the same times."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import syncline
from support import wire
from support.command import Ended

Command = Callable[..., Ended]
COMP, SEND, RECV, COLL = 4, 5, 6, 7

MODEL = """\
name: model
topology: "Ring(2, rate=200GB/s)_Ring(2)"
workload: {model: resnet18, batch: 2}
training: {iterations: 2, compute_scale: 1.5}
network: analytical
collective: {chunks: 2}
"""
TABLES = """\
name: tables
topology: "Ring(4)"
workload: {model: dlrm, batch: 64}
training: {iterations: 1, background_embedding: true}
network: analytical
collective: {chunks: 2}
"""
TEXT = """\
name: text
topology: "Torus(2,2)"
workload: {astra_text: w.txt}
network: flow
collective: {chunk: 64KiB}
"""
WORKLOAD = """\
HYBRID_DATA_MODEL
2
one -1 24000 ALLREDUCE 4000 25000 ALLREDUCE 8000 31000 ALLREDUCE 40000 1200
two -1 36000 ALLGATHER 4000 35000 NONE 0 41000 ALLREDUCE 240000 2100
"""
GRAPH = """\
name: graph
topology: "Ring(2)_Ring(2)"
workload: {graph: g.json}
training: {iterations: 2}
network: flow
endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}
"""
PART = """\
name: part
topology: dgx1v
gpus: "1,4,5,6"
workload: {model: resnet18, batch: 2}
training: {iterations: 1}
endpoint: ideal
network: flow
collective: {algorithm: ring}
"""
JOBS = """\
name: jobs
topology: Ring(4)
training: {iterations: 1}
network: flow
jobs:
  - {name: even, npus: [0, 2], workload: {model: resnet18, batch: 2}}
  - {name: odd, npus: [1, 3], workload: {model: resnet18, batch: 4}, collective: {algorithm: direct, chunks: 2}}
"""
DIVIDED = """\
name: divided
topology: "Ring(4, rate=20GB/s)"
workload:
  {model: gpt, global_batch: 4, sequence: 32, parameters: {hidden: 64, layers: 2, heads: 2, vocabulary: 128}}
parallel: {pipeline: 2, micro_batch: 1, zero: 1, collectives: {data: {algorithm: direct, chunks: 2}}}
npu: {peak: 100TFLOPS, memory_bandwidth: 1TB/s, compute: {kind: table, table: k.csv}}
network: flow
"""
"""A pipeline, whose stages share a table."""
KERNELS = """\
kind,direction,m,k,n,count,groups,dtype,bytes,time_s
product,forward,64,64,64,1,1,fp16,24576,3e-6
add,forward,64,0,64,1,1,fp16,24576,2e-6
"""
ALONE = """\
name: alone
topology: "Ring(4)"
workload: {collective: all-gather, size: 1MB}
collective: {algorithm: six-phase, chunk: 64KiB, lanes: split}
network: packet
"""


def stages() -> dict[str, Any]:
    """Two stages of a pipeline with data parallelism, an exchange, and the things that few graphs have."""
    first = [
        {"name": "f", "time": "1234567ps", "after_previous": ["x"]},
        {"name": "s", "send": {"family": "pipeline", "to": 1, "size": "1MB", "tag": 2}, "after": ["f"]},
        {"name": "copy", "stream": 1, "compute": {"flops": 10**9, "bytes": "1MB"}, "pass": "update"},
        {"name": "x", "exchange": {"family": "data", "sizes": [["1B", "2MB"], ["3MB", "4B"]]}, "after": ["s"]},
        {"name": "g", "collective": {"family": "data", "kind": "all-reduce", "size": "1MB"}, "after": ["copy"]},
        {"name": "meet", "barrier": "data", "after": ["g"]},
        {"name": "u", "compute": {"flops": 10**9, "bytes": "1MB"}, "after": ["meet"]},
    ]
    second = [
        {"name": "r", "recv": {"family": "pipeline", "from": -1, "size": "1MB", "tag": 2}},
        {"name": "b", "time": "10us", "after": ["r"], "layer": "backward", "pass": "input-grad"},
        {"name": "w", "collective": {"family": "data", "kind": "broadcast", "size": "1MB", "root": 1}, "after": ["b"]},
    ]
    members = {"grid": [2, 2], "along": [1]}
    return {
        "families": {
            "pipeline": {"members": {"grid": [2, 2], "along": [0]}, "priority": 1},
            "data": {"members": members, "collective": {"algorithm": "direct", "chunks": 2}, "traffic_class": 1},
        },
        "classes": {
            "first": {"npus": [0, 2], "streams": ["in-order", "by-readiness"], "nodes": first},
            "second": {"npus": [1, 3], "nodes": second},
        },
    }


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("w.txt", WORKLOAD), ("g.json", json.dumps(stages())), ("k.csv", KERNELS)):
        Path(name).write_text(text)


def document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def export(command: Command, text: str, *flags: str) -> dict[str, Any]:
    Path("e.yaml").write_text(text)
    return document(command("export-trace", "e.yaml", "-o", "traces", "--json", *flags))


def times(run: dict[str, Any], *more: str) -> dict[str, Any]:
    """What two runs of the same graph have in common, exactly."""
    parts = ("total_time_s", "compute_time_s", "exposed_comm_s", "bubble_s", "bytes_sent_per_npu", *more)
    return {part: run.get(part) for part in parts}


@pytest.mark.parametrize(
    "text", [MODEL, TABLES, TEXT, GRAPH, PART, JOBS, DIVIDED, ALONE], ids=lambda text: text.split()[1]
)
def test_traces_run_to_the_same_times_as_what_they_were_written_from(text: str, syncline_command: Command) -> None:
    exported = export(syncline_command, text)
    (before,) = document(syncline_command("run", "e.yaml", "--json"))["runs"]
    name = exported["name"]
    ended = syncline_command("import", "chakra", f"traces/{name}", "--like", "e.yaml", "-o", "again")
    assert ended.status == 0, ended.err
    (after,) = document(syncline_command("run", "again/experiment.yaml", "--json"))["runs"]
    if name == "alone":  # a collective alone is a time, and no training
        assert after["total_time_s"] == before["time_s"]
        return
    assert times(after) == times(before)
    if name == "graph":
        assert after["classes"] == before["classes"]


def test_traces_are_what_other_programs_read(syncline_command: Command) -> None:
    export(syncline_command, MODEL)
    nodes = wire.read(Path("traces/model.3.et").read_bytes())
    assert [node.number for node in nodes] == list(range(len(nodes)))
    assert all(set(node.control) | set(node.after) <= set(range(node.number)) for node in nodes)
    computing = [node for node in nodes if node.kind == COMP]
    # Compute is in order by control dependencies, whatever else it waits for.
    assert [node.control for node in computing] == [[], *([node.number] for node in computing[:-1])]
    reduced = [node for node in nodes if node.kind == COLL]
    assert {node.attrs["comm_type"] for node in reduced} == {0}
    assert all("pg_name" not in node.attrs for node in reduced)
    parameters = 11_689_512
    assert sum(node.attrs["comm_size"] for node in reduced) == pytest.approx(2 * 2 * parameters, rel=0.01)
    # Updates come before the next forward, so that iterations differ and the trace has both.
    (before,) = document(syncline_command("run", "e.yaml", "--json"))["runs"]
    total_us, total_ps = sum(node.us for node in computing), sum(node.attrs["syncline_ps"] for node in computing)
    assert total_us == pytest.approx(before["compute_time_s"] * 1e6, abs=0.5 * len(computing))
    assert total_ps == pytest.approx(before["compute_time_s"] * 1e12, abs=0.5)
    assert {path.name for path in Path("traces").iterdir()} == {f"model.{npu}.et" for npu in range(4)}


def test_communicators_are_named_in_a_file_of_groups(syncline_command: Command) -> None:
    export(syncline_command, GRAPH)
    groups = json.loads(Path("traces/groups.json").read_text())
    assert sorted(groups.values()) == [[0, 1], [0, 2], [1, 3], [2, 3]]
    first, second = (wire.read(Path(f"traces/graph.{npu}.et").read_bytes()) for npu in (2, 3))
    (sent, *_), (got, *_) = ([n for n in nodes if n.kind == kind] for nodes, kind in ((first, SEND), (second, RECV)))
    for node in (sent, got):
        assert {key: node.attrs[key] for key in ("comm_src", "comm_dst", "comm_size", "comm_tag")} == {
            "comm_src": 2,
            "comm_dst": 3,
            "comm_size": 10**6,
            "comm_tag": 2,
        }
    (reduced, *_) = (n for n in first if n.kind == COLL and n.attrs["comm_type"] == 0)
    assert groups[reduced.attrs["pg_name"]] == [0, 2]
    # What Syncline adds is not needed: the plain attributes alone are a trace, too.
    for npu in range(4):
        path = Path(f"traces/graph.{npu}.et")
        path.write_bytes(plain(path.read_bytes()))
    flags = ("--groups", "traces/groups.json", "-o", "plain")
    assert syncline_command("import", "chakra", "traces/graph", *flags).status == 0
    assert syncline_command("run", "plain/experiment.yaml", "-q").status == 0


def plain(data: bytes) -> bytes:
    """A trace without the attributes that only Syncline knows."""
    messages = []
    for message in list(wire.messages(data))[1:]:
        fields = [
            (n, v) for n, v in wire.split(message) if not (n == 10 and isinstance(v, bytes) and b"syncline_" in v)
        ]
        messages.append(b"".join(wire.entry(number, value) for number, value in fields))
    return wire.trace(*messages)


def test_a_profile_has_the_kernels_of_the_run(syncline_command: Command) -> None:
    exported = export(syncline_command, MODEL, "--format", "kineto", "--npus", "1-2")
    assert exported["files"] == ["model.1.json", "model.2.json"]
    profile = json.loads(Path("traces/model.1.json").read_text())
    assert profile["distributedInfo"]["rank"] == 1
    assert profile["distributedInfo"]["pg_config"][0]["ranks"] == [0, 1, 2, 3]
    kernels = [event for event in profile["traceEvents"] if event.get("cat") == "kernel"]
    computing = [event for event in kernels if event["args"]["stream"] == 7]
    (before,) = document(syncline_command("run", "e.yaml", "--json"))["runs"]
    assert sum(event["dur"] for event in computing) == pytest.approx(before["compute_time_s"] * 1e6, rel=1e-3)
    reduced = [event for event in kernels if event["name"].startswith("ncclDevKernel_AllReduce_Sum_bf16")]
    assert len(reduced) == len(kernels) - len(computing) > 20
    assert {event["args"]["Collective name"] for event in reduced} == {"allreduce"}
    for stream in {event["args"]["stream"] for event in kernels}:
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in kernels if e["args"]["stream"] == stream)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))
    ended = syncline_command("import", "kineto", "traces", "--like", "e.yaml", "-o", "again")
    assert ended.status == 0, ended.err
    assert "rank 3: no profile, taken as equal to rank 2" in Path("again/experiment.yaml").read_text()


def test_what_is_in_flight_at_the_end_is_missing_in_profiles_and_said(syncline_command: Command) -> None:
    def written(*flags: str) -> tuple[int, list[str], str]:
        exported = export(syncline_command, MODEL, "--format", "kineto", "--npus", "0", *flags)
        events = json.loads(Path("traces/model.0.json").read_text())["traceEvents"]
        kernels = sum(event["name"].startswith("ncclDevKernel") for event in events)
        ended = syncline_command("export-trace", "e.yaml", "-o", "again", "--format", "kineto", "--npus", "0", *flags)
        assert ended.status == 0
        return kernels, exported["warnings"], ended.err

    whole, warnings, said = written("--set", "training.tail=drain")
    assert (whole, warnings) == (42, [])
    assert "warning" not in said
    kernels, (warning,), said = written("--set", "training.tail=stop")
    assert kernels < whole
    assert warning == (
        f"profiles lack {whole - kernels} of {whole} collectives of an NPU, which are in flight when the run ends; "
        "with training.tail=drain they have all"
    )
    assert f"warning: {warning}" in said
    found = syncline.export_trace("e.yaml", out="again", format="kineto", set={"training.tail": "stop"})
    assert found.warnings == (warning,)


def test_collectives_between_stages_are_in_the_profiles_of_both(syncline_command: Command) -> None:
    """That of the table that the first and the last stage share has the layer of one of them in the timeline of all."""
    export(syncline_command, DIVIDED, "--format", "kineto")
    shared = []
    for npu in range(4):
        events = json.loads(Path(f"traces/divided.{npu}.json").read_text())["traceEvents"]
        said = [event["args"] for event in events if event["name"].startswith("ncclDevKernel")]
        assert all("Collective name" in args for args in said)
        shared.append([args["Process Group Ranks"] for args in said if args["Collective name"] == "allreduce"])
    assert shared[:2] == shared[2:]
    assert "[0, 2]" in shared[0]
    ended = syncline_command("import", "kineto", "traces", "--like", "e.yaml", "-o", "again")
    assert ended.status == 0, ended.err
    assert "parallel.collectives of e.yaml has no effect" in ended.err
    assert syncline_command("run", "again/experiment.yaml", "-q").status == 0


def test_what_cannot_be_exported_is_refused(syncline_command: Command) -> None:
    Path("e.yaml").write_text(MODEL)
    for flags, said in (
        (["--format", "chakara"], "this format is not known; did you mean 'chakra'?"),
        (["--npus", "0"], "traces are written for all NPUs"),
        (["--format", "kineto", "--npus", "9"], "--npus"),
        (["--variant", "x"], "there is no such variant"),
        (["-o", "e.yaml/x"], "this cannot be written"),
    ):
        ended = syncline_command("export-trace", "e.yaml", *flags)
        assert ended.status == 2
        assert said in ended.err


def test_damaged_additions_are_refused(syncline_command: Command) -> None:
    export(syncline_command, MODEL)
    path = Path("traces/model.0.et")
    data = path.read_bytes()
    for old, new, said in (
        (b'"along": [0, 1', b'"along": [0, 9', "the families in the metadata are not legal: no such grid"),
        (b'{"all": {"mem', b'{"all": {"mum', "the families in the metadata are not legal"),
        (b'{"all"', b'{"all', "the attributes syncline_... of the metadata are damaged"),
    ):
        changed = data.replace(old, new.ljust(len(old)), 1)
        assert changed != data
        for npu in range(4):
            Path(f"traces/model.{npu}.et").write_bytes(changed)
        ended = syncline_command("import", "chakra", "traces/model", "-o", "again")
        assert ended.status == 2
        assert said in ended.err
