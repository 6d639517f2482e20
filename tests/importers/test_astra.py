"""Directories of ASTRA-sim: compared with the closed form of its ring and with times that its backends print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncline
from support import wire
from support.command import Ended

Command = Callable[..., Ended]
LOAD, COLL = 2, 7
KINDS = {"all-reduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    **{f"{kind}-implementation": ["ring"] for kind in KINDS},
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def network(*sizes: int, block: str = "Ring") -> str:
    """Rings of 50 GB/s and 500 ns."""
    lists: dict[str, list[Any]] = {
        "topology": [block] * len(sizes),
        "npus_count": list(sizes),
        "bandwidth": [50.0] * len(sizes),
        "latency": [500.0] * len(sizes),
    }
    return "".join(f"{key}: [ {', '.join(str(v) for v in values)} ]\n" for key, values in lists.items())


def directory(
    nodes: list[bytes], npus: int, net: str | None = None, system: dict[str, Any] | None = None, **files: str
) -> None:
    """A directory with traces that are equal on all NPUs."""
    folder = Path("inputs")
    (folder / "workload").mkdir(parents=True, exist_ok=True)
    for npu in range(npus):
        (folder / f"workload/w.{npu}.et").write_bytes(wire.trace(*nodes))
    (folder / "network.yml").write_text(net or network(npus))
    (folder / "system.json").write_text(json.dumps({**SYSTEM, **(system or {})}, indent=1))
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)


def collective(kind: str, size: int, **attrs: Any) -> bytes:
    return wire.node(0, COLL, kind, attrs={"comm_type": KINDS[kind], "comm_size": size, **attrs})


def time_ns(command: Command, *flags: str) -> float:
    """The time of the directory's workload."""
    ended = command("import", "astra", "inputs", "-o", "out", *flags)
    assert ended.status == 0, ended.err
    ended = command("run", "out/experiment.yaml", "--json")
    assert ended.status == 0, ended.err
    return float(json.loads(ended.out)["runs"][0]["total_time_s"]) * 1e9


def refused(command: Command, *flags: str) -> str:
    ended = command("import", "astra", "inputs", "-o", "out", *flags)
    assert (ended.status, ended.out) == (2, "")
    return ended.err


def closed_form(kind: str, npus: int, size: int, splits: int = 4, delay: float = 10) -> tuple[float, int]:
    """Nanoseconds of the native ring without the time of reductions, and its steps: splits x (delay + (N - 1) x steps),
    a step being latency + bytes / bandwidth + delay.
    """
    chunk = size / splits if kind == "all-gather" else size / splits / npus
    steps = 2 * (npus - 1) if kind == "all-reduce" else npus - 1
    step = 500 + chunk / (50 * 2**30 / 1e9) + delay
    return splits * (delay + steps * step), splits * steps


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter"])
@pytest.mark.parametrize(("npus", "size"), [(4, 2**10), (4, 2**20), (16, 2**24)])
def test_rings_take_as_long_as_the_closed_form_says(kind: str, npus: int, size: int, syncline_command: Command) -> None:
    directory([collective(kind, size)], npus)
    wanted, steps = closed_form(kind, npus, size)
    assert time_ns(syncline_command) == pytest.approx(wanted, abs=0.001 * steps + 0.01)


@pytest.mark.parametrize(("npus", "size", "printed"), [(8, 2**20, 64_440), (8, 2**26, 2_326_112), (64, 2**20, 296_896)])
def test_all_reduces_differ_from_what_is_printed_by_reductions(
    npus: int, size: int, printed: int, syncline_command: Command
) -> None:
    directory([collective("all-reduce", size)], npus)
    # Three passes over local memory for every message that is reduced, in whole nanoseconds, at 1600 GB/s.
    reductions = 4 * (npus - 1) * 3 * int(size / 4 / npus / 1600)
    # Every message is rounded down to a nanosecond there.
    assert 0 <= time_ns(syncline_command) + reductions - printed < 4 * 2 * (npus - 1)


def test_links_that_carry_all_chunks_at_once_take_what_the_congestion_aware_backend_prints(
    syncline_command: Command,
) -> None:
    directory([collective("all-reduce", 2**30)], 64, system={"active-chunks-per-dimension": 4})
    assert time_ns(syncline_command, "--backend", "flow") == pytest.approx(39_375_520, rel=1e-6)


def test_several_dimensions_are_composed(syncline_command: Command) -> None:
    system = {f"{kind}-implementation": ["ring"] * 3 for kind in KINDS}
    directory([collective("all-reduce", 2**26)], 64, network(4, 4, 4), system)
    # Printed is 1981676 ns, of which the reductions of a chunk along the first dimension take four times 23589 ns and
    # those along the others, of the last chunk, 7.4 us.
    assert time_ns(syncline_command) == pytest.approx(1_981_676 - 4 * 23_589 - 7_400, rel=0.001)
    experiment = Path("out/experiment.yaml").read_text()
    assert "algorithm: six-phase" in experiment
    directory(
        [collective("all-reduce", 2**26)], 64, network(4, 4, 4), {**system, "collective-optimization": "baseline"}
    )
    assert time_ns(syncline_command) > 1_981_676
    assert "algorithm: hierarchical" in Path("out/experiment.yaml").read_text()


def test_the_roofline_gives_compute_its_time(syncline_command: Command) -> None:
    nodes = [
        wire.node(1, 4, "compute-bound", us=9, attrs={"num_ops": 2 * 10**9, "tensor_size": 1000}),
        wire.node(2, 4, "memory-bound", [1], us=9, attrs={"num_ops": 1000, "tensor_size": 16 * 10**5}),
        wire.node(3, 4, "skipped", [2], us=9, attrs={"num_ops": 1000}),
    ]
    directory(nodes, 2, system={"roofline-enabled": 1, "peak-perf": 2})
    assert time_ns(syncline_command) == pytest.approx(10**6 + 10**3)
    directory(nodes, 2)
    assert time_ns(syncline_command) == pytest.approx(27_000)


def test_loads_take_what_the_remote_memory_takes(syncline_command: Command) -> None:
    nodes = [wire.node(1, LOAD, "in", attrs={"tensor_size": 1050})]
    memory = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 10}
    directory(nodes, 2, memory=json.dumps(memory))
    assert time_ns(syncline_command) == pytest.approx(100 + 105)
    directory(nodes, 2, memory=json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}))
    assert "w.0.et: byte 8: node 1 (in): it loads or stores, and the memory configuration" in refused(syncline_command)
    directory(nodes, 2, memory=json.dumps({**memory, "memory-type": "MEMORY_POOL"}))
    assert time_ns(syncline_command) == pytest.approx(205)
    assert "| memory-type: MEMORY_POOL | one access at a time, of all NPUs |" in Path("out/differences.md").read_text()


def test_groups_are_communicators(syncline_command: Command) -> None:
    directory([collective("all-gather", 100)], 4, groups='{"1": [0, 1], "2": [3, 2]}')
    for npu in range(4):
        content = wire.trace(collective("all-gather", 100, pg_name="1" if npu < 2 else "2"))
        Path(f"inputs/workload/w.{npu}.et").write_bytes(content)
    time_ns(syncline_command)
    graph = json.loads(Path("out/graph.json").read_text())
    assert graph["families"] == {"group 1": {"members": {"groups": [[0, 1], [3, 2]]}}}
    (of,) = graph["classes"].values()
    assert of["nodes"][0]["collective"]["size"] == "200B"


def test_text_workloads_are_taken_as_they_are(syncline_command: Command) -> None:
    directory([], 0, network(4))
    Path("inputs/workload/w.txt").write_text("DATA\n1\nfc -1 5000 NONE 0 6000 NONE 0 7000 ALLREDUCE 1048576 10\n")
    assert time_ns(syncline_command) > 12_000
    assert "astra_text: workload.txt" in Path("out/experiment.yaml").read_text()


@pytest.mark.parametrize("parallelism", ["HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"])
def test_the_last_bottom_layer_has_a_keyword_or_none(parallelism: str, syncline_command: Command) -> None:
    layers = "table -1 10 ALLTOALL 4096 10 ALLTOALL 4096 10 NONE 0 10\n"
    layers += "".join(f"{name} -1 500 NONE 0 600 NONE 0 700 ALLREDUCE 1048576 10\n" for name in ("bottom", "top"))
    Path("text.yaml").write_text("name: text\ntopology: Ring(4)\nworkload: {astra_text: w.txt}\n")

    def run(given: str) -> Ended:
        Path("w.txt").write_text(f"{parallelism} {given}\n3\n{layers}")
        return syncline_command("run", "text.yaml", "--quiet")

    alone, named = run("1"), run("DLRM_LAST_BOTTOM_LAYER: 1")
    assert (alone.status, named.status, named.out) == (0, 0, alone.out)
    wrong = run("DLRM_LAST_BOTTOM_LAYER: x")
    assert "w.txt:1: last bottom layer: this is not a legal last bottom layer\n    given: x\n" in wrong.err


@pytest.mark.parametrize(
    ("head", "layers", "said"),
    [
        ("HYBRID_CUSTOMIZED", ["a -1 1 ALLGATHER 8 1 NONE 0 1 NONE 0 1 DATA"], "the forward ALLGATHER of layer a"),
        ("HYBRID_CUSTOMIZED", ["a -1 1 ALLGATHER 8 1 NONE 0 1 NONE 0 1 MODEL"], None),
        ("MODEL", ["a -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 8 1"], "the weight-gradient ALLREDUCE of layer a"),
        ("MODEL", ["a -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 0 1"], None),
        ("HYBRID_DATA_MODEL", ["a -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 8 1"], None),
        (
            "HYBRID_DLRM 1",
            ["t -1 1 ALLTOALL 8 1 ALLTOALL 8 1 NONE 0 1", *(f"{n} -1 1 ALLGATHER 8 1 NONE 0 1 NONE 0 1" for n in "bc")],
            "the forward ALLGATHER of layer b and 1 more",
        ),
    ],
)
def test_what_the_format_leaves_out_is_told_of(head: str, layers: list[str], said: str | None, tmp_path: Path) -> None:
    """ASTRA-sim 1.0 communicates along no dimension there."""
    text = "\n".join([head, str(len(layers)), *layers, ""])
    (tmp_path / "w.txt").write_text(text)
    (tmp_path / "e.yaml").write_text("name: e\ntopology: Ring(4)\nworkload: {astra_text: w.txt}\n")
    found = [w for w in syncline.check(tmp_path / "e.yaml").document["warnings"] if "leaves out" in w]
    assert [w.partition(" leaves out ")[2].partition(":")[0] for w in found] == ([] if said is None else [said])


@pytest.mark.parametrize("kinds", [["all-reduce"], ["all-to-all"], ["all-reduce", "all-to-all"], []])
def test_algorithms_are_those_of_the_collectives_that_there_are(kinds: list[str], syncline_command: Command) -> None:
    nodes = [
        wire.node(n, COLL, kind, attrs={"comm_type": KINDS[kind], "comm_size": 800}) for n, kind in enumerate(kinds)
    ]
    directory([*nodes, wire.node(9, 4, us=1)], 4, system={"all-to-all-implementation": ["direct"]})
    assert time_ns(syncline_command) > 0
    text = Path("out/experiment.yaml").read_text()
    assert ("algorithm: direct" in text) == (kinds == ["all-to-all"])
    assert ("all-to-all: direct" in text) == (len(kinds) == 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scheduling-policy": "EXPLICIT"}, "scheduling-policy: priorities of single nodes are not taken"),
        ({"scheduling-polcy": "LIFO"}, "scheduling-polcy: this key is not known; did you mean 'scheduling-policy'?"),
        ({"replay-only": 1}, "replay-only: a replay of recorded times simulates no network"),
        ({"model-shared-bus": 1}, "model-shared-bus: the shared bus is not taken"),
        ({"all-reduce-implementation": ["rings"]}, "all-reduce-implementation.0: this algorithm is not known"),
        ({"all-reduce-implementation": ["ring", "ring"]}, "all-reduce-implementation: 2 algorithms"),
        ({"all-reduce-implementation-custom": ["x"]}, "algorithms in traces of their own are not taken"),
        ({"preferred-dataset-splits": 0}, "preferred-dataset-splits: this is out of range"),
        ({"preferred-dataset-splits": 1.5}, "preferred-dataset-splits: this is no whole number"),
        ({"endpoint-delay": "10"}, "endpoint-delay: this is out of range"),
        ({"roofline-enabled": 1}, "roofline-enabled: the roofline needs peak-perf"),
        ({"collective-optimization": "x"}, "collective-optimization: this is not known"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_keys_are_refused_by_name(change: dict[str, Any], said: str, syncline_command: Command) -> None:
    directory([collective("all-reduce", 8)], 2, system=change)
    err = refused(syncline_command)
    assert "inputs/system.json:" in err
    assert said in err


def test_every_key_that_files_have_is_known(syncline_command: Command) -> None:
    more = {
        **{"boost-mode": 0, "intra-dimension-scheduling": "FIFO", "inter-dimension-scheduling": "themis"},
        **{"trace-enabled": 1, "track-local-mem": 0, "local-mem-trace-filename": "x", "L": 1, "o": 2, "g": 0.5, "G": 0},
        **{
            "model-shared-bus": 0,
            "local-reduction-delay": 1,
            "replay-only": 0,
            "peak-perf": 900,
            "roofline-enabled": 0,
        },
    }
    directory([collective("all-reduce", 8)], 2, system=more)
    ended = syncline_command("import", "astra", "inputs", "-o", "out", "--json")
    differences = {entry["what"] for entry in json.loads(ended.out)["differences"]}
    assert {"boost-mode", "track-local-mem", "L", "peak-perf", "local-mem-bw", "time of a message"} <= differences


@pytest.mark.parametrize(
    ("net", "said"),
    [
        ("topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50 ]\n", "latency: this is missing, or no list"),
        (network(2).replace("Ring", "Mesh"), "network.yml:1: topology.0: this is not accepted"),
        (network(2).replace("50.0", "0"), "network.yml:3: bandwidth.0: this is not accepted"),
        (network(2) + "hops: 3\n", "network.yml:5: hops: this key is not known"),
        (network(2).replace("[ 2 ]", "[ 2, 2 ]"), "network.yml:2: npus_count: 2 entries, and topology has 1"),
        (network(4), "there are traces of 2 NPUs, and the network has 4"),
    ],
)
def test_networks_are_refused_with_the_line(net: str, said: str, syncline_command: Command) -> None:
    directory([collective("all-reduce", 8)], 2, net)
    assert said in refused(syncline_command)


def test_files_that_may_be_several_things_have_to_be_named(syncline_command: Command) -> None:
    directory([collective("all-reduce", 8)], 2)
    (Path("inputs") / "other.json").write_text(json.dumps(SYSTEM))
    assert "--system: which of these is the system configuration?" in refused(syncline_command)
    assert time_ns(syncline_command, "--system", "inputs/other.json") > 0
    (Path("inputs") / "x.0.et").write_bytes(b"")
    flags = ("--system", "inputs/other.json")
    assert "--workload: which of these is the workload?" in refused(syncline_command, *flags)
    assert time_ns(syncline_command, *flags, "--workload", "inputs/workload/w") > 0
    assert "this is no directory" in syncline_command("import", "astra", "nowhere").err


def test_files_that_cannot_be_read_are_named_where_a_part_is_missing(syncline_command: Command) -> None:
    """A file in UTF-16 may be any part, so that it is not enough to say which part there is not."""
    directory([collective("all-reduce", 2**20)], 2)
    path = Path("inputs/network.yml")
    path.write_text(path.read_text(), encoding="utf-16")
    ended = syncline_command("import", "astra", "inputs")
    assert ended.status == 2
    assert "--network: there is no network configuration in the directory" in ended.err
    assert "inputs/network.yml:1: this is not UTF-8 text" in ended.err
    path.write_text(network(2))
    for trace in Path("inputs/workload").iterdir():
        trace.unlink()
    Path("inputs/workload.txt").write_text("DATA\n1\n", encoding="utf-16")
    ended = syncline_command("import", "astra", "inputs")
    assert "--workload: there is no workload in the directory" in ended.err
    assert "inputs/workload.txt:1: this is not UTF-8 text" in ended.err
    assert "network.yml" not in ended.err
