"""Chakra execution traces: what nodes become, and what is wrong with damaged ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import wire
from support.command import Ended

Command = Callable[..., Ended]
INVALID, METADATA, LOAD, STORE, COMP, SEND, RECV, COLL = range(8)
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BLOCK, BARRIER = range(10)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*traces: bytes, name: str = "t") -> None:
    """Writes a trace for each NPU."""
    for npu, content in enumerate(traces):
        Path(f"{name}.{npu}.et").write_bytes(content)


def graph(command: Command, *flags: str, name: str = "t") -> dict[str, Any]:
    """What an import makes."""
    ended = command("import", "chakra", name, "-o", "out", *flags)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(Path("out/graph.json").read_text())
    return found


def refused(command: Command, *flags: str, name: str = "t") -> str:
    """What is said of a trace that cannot be imported."""
    ended = command("import", "chakra", name, "-o", "out", *flags)
    assert (ended.status, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert not Path("out/experiment.yaml").exists()
    return ended.err


def collective(number: int, kind: int, size: int = 4096, **attrs: Any) -> bytes:
    """A collective."""
    return wire.node(number, COLL, f"c{number}", attrs={"comm_type": kind, "comm_size": size, **attrs})


def test_every_node_type_becomes_something(syncline_command: Command) -> None:
    nodes = [
        wire.node(0, METADATA, "about"),
        wire.node(1, INVALID, after=[0]),
        wire.node(2, COMP, "mm", [1], us=5, attrs={"num_ops": 1000, "tensor_size": 64}),
        wire.node(3, COMP, "host", control=[0], us=7, attrs={"is_cpu_op": True}),
        wire.node(4, COMP, "flops", [2], attrs={"num_ops": 1000, "tensor_size": 64}),
        wire.node(5, LOAD, "in", [4], attrs={"tensor_size": 10}),
        wire.node(6, STORE, "out", [5], us=2, attrs={"tensor_size": 10}),
    ]
    write(wire.trace(*nodes))
    (of,) = graph(syncline_command)["classes"].values()
    assert of["streams"] == ["by-readiness"] * 4
    assert {node["name"]: (node.get("stream", 0), node.get("after", [])) for node in of["nodes"]} == {
        "about": (3, []),
        "node 1": (3, ["about"]),
        "mm": (0, ["node 1"]),
        "host": (1, ["about"]),
        "flops": (0, ["mm"]),
        "in": (2, ["flops"]),
        "out": (2, ["in"]),
    }
    works = {node["name"]: node.get("time") or node.get("compute") for node in of["nodes"]}
    assert works["mm"] == "5000000ps"
    assert works["flops"] == {"flops": 1000, "bytes": "64B"}
    assert works["in"] == {"flops": 0, "bytes": "10B"}
    assert works["out"] == "2000000ps"
    (of,) = graph(syncline_command, "--times", "computed")["classes"].values()
    works = {node["name"]: node.get("time") or node.get("compute") for node in of["nodes"]}
    assert (works["mm"], works["host"]) == ({"flops": 1000, "bytes": "64B"}, "7000000ps")


def test_every_collective_has_the_size_of_its_full_vector(syncline_command: Command) -> None:
    calls = [collective(kind, kind, comm_src=1) for kind in range(10)]
    write(*[wire.trace(*calls)] * 4)
    (of,) = graph(syncline_command)["classes"].values()
    found = [node.get("collective", {}) for node in of["nodes"]]
    sizes = {call.get("kind", "barrier"): (call.get("size"), call.get("root", 0)) for call in found}
    assert sizes == {
        "all-reduce": ("4096B", 0),
        "reduce": ("4096B", 1),
        "all-gather": ("16384B", 0),
        "gather": ("16384B", 1),
        "scatter": ("4096B", 1),
        "broadcast": ("4096B", 1),
        "all-to-all": ("4096B", 0),
        "reduce-scatter": ("4096B", 0),
        "barrier": (None, 0),
    }
    assert syncline_command("run", "out/experiment.yaml", "-q").status == 0


def test_nodes_are_run_in_order_of_dependencies_and_numbers(syncline_command: Command) -> None:
    write(
        wire.trace(*(wire.node(n, COMP, f"n{n}", after, us=1) for n, after in ((3, [7]), (7, []), (1, [3]), (5, []))))
    )
    (of,) = graph(syncline_command)["classes"].values()
    assert [node["name"] for node in of["nodes"]] == ["n5", "n7", "n3", "n1"]


def test_npus_with_equal_graphs_are_a_class(syncline_command: Command) -> None:
    def of(npu: int, us: int) -> bytes:
        group = str(1 + npu // 2)
        work = wire.node(0, COMP, f"rank {npu}", us=us)
        return wire.trace(work, wire.node(9, COLL, "g", [0], attrs={"comm_type": 0, "comm_size": 8, "pg_name": group}))

    write(*(of(npu, 3 if npu < 4 else 4) for npu in range(6)))
    Path("groups.json").write_text('{"1": [0, 1], "2": [2, 3], "3": [5, 4]}')
    found = graph(syncline_command, "--groups", "groups.json")
    assert {name: of["npus"] for name, of in found["classes"].items()} == {
        "NPU 0 and alike": "0-3",
        "NPU 4 and alike": [4, 5],
    }
    assert found["families"] == {"group 1": {"members": {"groups": [[0, 1], [2, 3], [5, 4]]}}}


def test_overlapping_communicators_are_of_different_families(syncline_command: Command) -> None:
    names = {0: ("a", "x"), 1: ("a", "y"), 2: ("b", "x"), 3: ("b", "y")}

    def of(npu: int) -> bytes:
        calls = (collective(n, ALL_REDUCE, pg_name=name) for n, name in enumerate(names[npu]))
        return wire.trace(*calls, collective(5, BARRIER))

    write(*(of(npu) for npu in range(4)))
    Path("groups.json").write_text('{"a": [0, 1], "b": [2, 3], "x": [0, 2], "y": [1, 3]}')
    found = graph(syncline_command, "--groups", "groups.json")
    assert {name: family["members"]["groups"] for name, family in found["families"].items()} == {
        "group a": [[0, 1], [2, 3]],
        "group x": [[0, 2], [1, 3]],
        "all": ["0-3"],
    }
    assert list(found["classes"]) == ["all NPUs"]


def test_a_metadata_node_says_who_is_in_a_process_group(syncline_command: Command) -> None:
    listed = json.dumps([{"pg_name": "0", "ranks": []}, {"pg_name": "7", "ranks": [1, 0]}])
    nodes = (wire.node(0, METADATA, "process groups", inputs=repr([listed])), collective(1, ALL_REDUCE, pg_name="7"))
    write(*[wire.trace(*nodes)] * 3)
    assert "NPU 2 is not in communicator 7" in refused(syncline_command)
    write(*[wire.trace(*nodes)] * 2)
    Path("t.2.et").write_bytes(wire.trace(wire.node(0, COMP, us=1)))
    assert graph(syncline_command)["families"] == {"group 7": {"members": {"groups": [[1, 0]]}}}


def test_a_process_group_may_be_listed_in_another_trace(syncline_command: Command) -> None:
    listed = json.dumps([{"pg_name": "7", "ranks": [1, 0]}])
    call = collective(1, ALL_GATHER, 10, pg_name="7")
    write(wire.trace(wire.node(0, METADATA, inputs=listed), call), wire.trace(call))
    for of in graph(syncline_command)["classes"].values():
        assert of["nodes"][-1]["collective"]["size"] == "20B"


def test_collectives_along_some_dimensions(syncline_command: Command) -> None:
    write(*[wire.trace(collective(0, ALL_GATHER, 10, involved_dim=[False, True, True, True]))] * 8)
    err = refused(syncline_command)
    assert "involved_dim names some dimensions of the topology only" in err
    found = graph(syncline_command, "--topology", "Ring(4)_Ring(2)")
    assert found["families"] == {"all along 1": {"members": {"grid": [4, 2], "along": [1]}}}
    (of,) = found["classes"].values()
    assert of["nodes"][0]["collective"]["size"] == "20B"


def test_a_pipeline_has_relative_peers(syncline_command: Command) -> None:
    def stage(npu: int) -> bytes:
        nodes = [wire.node(1, COMP, "f", [0] if npu else [], us=10)]
        if npu:
            nodes.append(wire.node(0, RECV, "r", attrs={"comm_src": npu - 1, "comm_size": 8, "comm_tag": 3}))
        if npu < 3:
            nodes.append(wire.node(2, SEND, "s", [1], attrs={"comm_dst": npu + 1, "comm_size": 8, "comm_tag": 3}))
        return wire.trace(*nodes)

    write(*(stage(npu) for npu in range(4)))
    found = graph(syncline_command)
    assert [of["npus"] for of in found["classes"].values()] == [[0], [1, 2], [3]]
    ended = syncline_command("run", "out/experiment.yaml", "--json")
    assert 40e-6 < json.loads(ended.out)["runs"][0]["total_time_s"] < 60e-6


def send(number: int, peer: int, size: int = 8, tag: int = 0) -> bytes:
    return wire.node(number, SEND, "s", attrs={"comm_dst": peer, "comm_size": size, "comm_tag": tag})


def recv(number: int, peer: int, size: int = 8, tag: int = 0) -> bytes:
    return wire.node(number, RECV, "r", attrs={"comm_src": peer, "comm_size": size, "comm_tag": tag})


@pytest.mark.parametrize(
    ("traces", "said"),
    [
        ([[wire.node(1, COMP, "x", [5], us=1)]], "t.0.et: byte 8: node 1 (x): it waits for node 5, which is not in"),
        (
            [[wire.node(1, COMP, "x", [2]), wire.node(2, COMP, "y", [3]), wire.node(3, COMP, "z", [1])]],
            "node 1 (x): nodes wait for each other: 1 waits for 2 waits for 3 waits for 1",
        ),
        ([[wire.node(1, COMP), wire.node(1, COMP)]], "node 1: another node has the same number"),
        ([[send(4, 1, tag=6)], []], "t.0.et: byte 8: node 4 (s): no node of NPU 1 receives this message"),
        ([[], [recv(4, 0)]], "t.1.et: byte 8: node 4 (r): no node of NPU 0 sends this message"),
        ([[send(4, 1)], [recv(4, 0, 9)]], "node 4 (s): it sends 8 bytes, and node 4 (r) of t.1.et receives 9"),
        ([[send(4, 1, tag=2)], [recv(4, 0, tag=3)]], "(from NPU 0, tag 2)"),
        ([[send(4, 5)], []], "there is no NPU 5"),
        ([[send(4, 0)], []], "to or from itself"),
        ([[collective(4, 0)], [collective(5, 2)]], "is all-gather of 8192 bytes here, and all-reduce of 4096 bytes in"),
        ([[collective(4, 0)], []], "NPU 1 takes no part in this collective, number 1 of communicator all (t.1.et)"),
        ([[collective(4, 0, pg_name="9")]], "nobody says who is in communicator 9"),
        ([[collective(4, 12)]], "a collective of type 12"),
        ([[wire.node(4, COLL, "c", attrs={"comm_size": 1})]], "it has no attribute comm_type"),
        ([[wire.node(4, COLL, "c", attrs={"comm_type": 0})]], "it has no attribute comm_size"),
        ([[collective(4, 0, size=-1)]], "attribute comm_size is -1"),
        ([[wire.node(4, COLL, "c", attrs={"comm_type": "sum"})]], "attribute comm_type is sum"),
        ([[wire.node(4, 9)]], "a type of 9"),
        ([[wire.node(4, COMP, us=2**63)]], "picoseconds"),
        ([[]], "no trace has any node"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_with_file_and_node(
    traces: list[list[bytes]], said: str, syncline_command: Command
) -> None:
    write(*(wire.trace(*nodes) for nodes in traces))
    assert said in refused(syncline_command)


GOOD = wire.trace(wire.node(1, COMP, "x", us=1), wire.node(2, COMP, "y", [1], us=1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (GOOD[:-1], "byte 18: a message of 12 bytes begins here, and only 11 bytes follow"),
        (GOOD + b"\x80", f"byte {len(GOOD)}: the file ends within the length of a message"),
        (GOOD + b"\xff" * 12, f"byte {len(GOOD)}: this is not a length: a number of more than 64 bits"),
        (GOOD + b"\xff\xff\xff\xff\xff\xff\xff\x7f", "a message of 72057594037927935 bytes begins here"),
        (GOOD + b"\x02\x12\x09", f"byte {len(GOOD)}: the message that begins here cannot be read as a node"),
        (
            wire.trace(wire.entry(1, 1) + wire.entry(2, b"\xff\xfe")),
            "byte 8: the message that begins here cannot be read",
        ),
        (b"\x1f\x8b" + b"x" * 20, "the compressed data that begins here is damaged"),
        (gzip.compress(GOOD, mtime=0)[:-4], "the compressed data is cut off"),
        (b"{}", "a message of 123 bytes begins here"),
    ],
)
def test_damaged_files_are_refused_with_the_byte(content: bytes, said: str, syncline_command: Command) -> None:
    Path("t.0.et").write_bytes(content)
    assert said in refused(syncline_command)


def test_files_may_be_compressed_and_named_in_several_ways(syncline_command: Command) -> None:
    Path("traces").mkdir()
    for npu in range(2):
        Path(f"traces/a.{npu}.et.gz").write_bytes(gzip.compress(GOOD, mtime=0))
    wanted = graph(syncline_command, name="traces/a")
    assert graph(syncline_command, name="traces") == wanted
    assert graph(syncline_command, "traces/a.1.et.gz", name="traces/a.0.et.gz") == wanted
    Path("traces/a.3.et").write_bytes(GOOD)
    assert "there is no file of NPU 2 beside it" in refused_of(syncline_command, "traces")
    Path("traces/b.0.et").write_bytes(GOOD)
    assert "these are files of several traces" in refused_of(syncline_command, "traces")
    assert "there is no such file" in refused_of(syncline_command, "nowhere")


@pytest.mark.parametrize("kind", ["chakra", "kineto"])
@pytest.mark.parametrize("others", [[], ["notes.txt"]])
def test_a_folder_without_traces(syncline_command: Command, kind: str, others: list[str]) -> None:
    Path("empty").mkdir()
    for name in others:
        Path("empty", name).touch()
    ended = syncline_command("import", kind, "empty", "-o", "out")
    assert (ended.status, ended.out) == (2, "")
    assert "FILE: this folder has no traces" in ended.err
    assert "given: empty" in ended.err
    ends = {"chakra": ".et or .et.gz", "kineto": ".json or .json.gz or .pt.trace.json or .pt.trace.json.gz"}
    first = {"chakra": "trace.0.et", "kineto": "trace.0.json"}[kind]
    assert f"accepted: a folder with files such as {first}, whose names end in {ends[kind]}" in ended.err


def refused_of(command: Command, *files: str) -> str:
    ended = command("import", "chakra", *files)
    assert ended.status == 2
    return ended.err


def test_a_topology_that_is_too_small_is_refused(syncline_command: Command) -> None:
    write(GOOD, GOOD, GOOD)
    assert "it has 2 NPUs" in refused(syncline_command, "--topology", "Ring(2)")
    assert "at least 3" in refused(syncline_command, "--topology", "Ring(2)")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["fx", "t", "--times", "computed"], "--times: this has no effect"),
        (["kineto", "t", "--groups", "g.json"], "--groups: this has no effect"),
        (["chakra", "t", "--like", "e.yaml", "--backend", "flow"], "--backend: --like says the network"),
        (["astra", "t", "--like", "e.yaml"], "--like: the directory says how"),
        (["chakra", "t", "--times", "guessed"], "--times: this is not known"),
        (["chakra", "t", "--backend", "flaw"], "--backend: this backend is not known"),
        (["chakra", "t", "--system", "s.json"], "--system: only a directory of ASTRA-sim has such a part"),
        (["fx", "t", "--npus", "0"], "--npus: this is out of range"),
    ],
)
def test_flags_without_an_effect_are_refused(flags: list[str], said: str, syncline_command: Command) -> None:
    ended = syncline_command("import", *flags)
    assert ended.status == 2
    assert said in ended.err


def test_out_may_name_a_file(syncline_command: Command) -> None:
    write(GOOD)
    assert syncline_command("import", "chakra", "t", "-o", "deep/mine.json").status == 0
    assert sorted(path.name for path in Path("deep").iterdir()) == ["mine.json", "mine.yaml"]
    assert syncline_command("run", "deep/mine.yaml", "-q").status == 0


def test_a_trace_with_times_is_replayed(syncline_command: Command) -> None:
    def of(npu: int, late: int = 0) -> bytes:
        call = {"comm_type": ALL_REDUCE, "comm_size": 4096}
        return wire.trace(
            wire.node(1, COMP, "a", us=10, start=100),
            wire.node(2, COLL, "c", [1], us=30, attrs=call, start=110),
            wire.node(3, COMP, "b", [1], us=20 + npu, start=110),
            wire.node(4, COMP, "d", [2, 3], us=5, start=140 + late),
        )

    write(of(0), of(1))
    ended = syncline_command("import", "chakra", "t", "-o", "out", "--json")
    record = json.loads(ended.out)["record"]
    # The collective is under way for 30 us, of which 20 and 21 are beside compute.
    assert [(n["time_s"], n["exposed_comm_s"], n["difference"]) for n in record["npus"]] == [
        (45e-6, 10e-6, 0),
        (45e-6, 9e-6, 0),
    ]
    ended = syncline_command("import", "chakra", "t", "-o", "out", "--json", "--times", "computed")
    assert json.loads(ended.out)["record"] is None
    # A gap that nothing explains: the graph has 45 us of 65.
    write(of(0), of(1, late=20))
    document = json.loads(syncline_command("import", "chakra", "t", "-o", "out", "--json").out)
    (warning,) = document["warnings"]
    assert "with communication as recorded NPU 1 takes 45.000 us, and 65.000 us were recorded (-30.8 %)" in warning
    assert json.loads(syncline_command("run", "out/experiment.yaml", "--json").out)["warnings"] == [warning]


def test_a_trace_that_does_not_say_how_long_communication_took(syncline_command: Command) -> None:
    write(wire.trace(wire.node(1, COMP, "a", us=10, start=100), collective(2, ALL_REDUCE)))
    document = json.loads(syncline_command("import", "chakra", "t", "-o", "out", "--json").out)
    assert document["record"]["time_s"] == 10e-6
    assert document["record"]["replayed_time_s"] is None
    assert "it is not known how far the graph is from the record of NPU 0" in document["warnings"][0]


@pytest.mark.parametrize(
    "text",
    ["{'pg_name': 1, []: 2}", "[{'pg_name': {}: 1}]", "'\\d pg_name'", "['pg_name', 1" + "0" * 5000 + "]"],
)
def test_process_groups_that_are_none_say_nothing(text: str, syncline_command: Command) -> None:
    write(wire.trace(wire.node(0, METADATA, inputs=text), wire.node(1, COMP, us=1)))
    ended = syncline_command("import", "chakra", "t", "-o", "out", "--quiet")
    assert (ended.status, ended.err) == (0, "")
