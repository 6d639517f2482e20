"""Profiles of PyTorch: compute and host as measured, collectives simulated."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended

Command = Callable[..., Ended]
Event = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def kernel(name: str, start: float, dur: float, stream: int = 7, correlation: int = 0, **args: Any) -> Event:
    """A kernel of the GPU."""
    known = {"stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur, "args": known}


def call(name: str, start: float, dur: float, correlation: int = 0, thread: int = 1) -> Event:
    """A call of the host."""
    args = {"correlation": correlation}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 9,
        "tid": thread,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def nccl(start: float, dur: float, name: str = "allreduce", args: Event | None = None, ranks: str = "[0, 1]") -> Event:
    """A kernel of NCCL."""
    said = {"Collective name": name, "In msg nelems": 1000, "Out msg nelems": 2000, "dtype": "Float"}
    more = {"Process Group Name": "0", "Process Group Ranks": ranks, "Group size": 2}
    return kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", start, dur, 20, **{**said, **more, **(args or {})}
    )


def profile(rank: int, events: list[Event], ranks: int = 2, **info: Any) -> None:
    """Writes the profile of a rank."""
    document = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks, **info},
        "traceEvents": [{"ph": "M", "name": "process_name", "pid": 0, "args": {}}, *events],
    }
    Path(f"p.{rank}.json").write_text(json.dumps(document, indent=1))


def graph(command: Command, *flags: str) -> dict[str, Any]:
    ended = command("import", "kineto", "p", "-o", "out", *flags)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(Path("out/graph.json").read_text())
    return found


def refused(command: Command, *flags: str) -> str:
    ended = command("import", "kineto", "p", "-o", "out", *flags)
    assert (ended.status, ended.out) == (2, "")
    return ended.err


def total_s(command: Command) -> float:
    """How long the import takes."""
    ended = command("run", "out/experiment.yaml", "--json")
    assert ended.status == 0, ended.err
    return float(json.loads(ended.out)["runs"][0]["total_time_s"])


STEP = [
    call("cudaLaunchKernel", 100, 4, 1),
    call("cudaLaunchKernel", 106, 4, 2),
    kernel("gemm", 112, 50, correlation=1),
    kernel("gelu", 162, 10, correlation=2),
    call("cudaDeviceSynchronize", 115, 60),
    call("cudaLaunchKernel", 180, 4, 3),
    kernel("gemm", 190, 50, correlation=3),
]
"""Two kernels that the host launches, and one after it has waited for them; in all from 100 to 240."""


def test_without_communication_a_profile_takes_as_long_as_was_measured(syncline_command: Command) -> None:
    profile(0, STEP, ranks=1)
    (of,) = graph(syncline_command)["classes"].values()
    assert total_s(syncline_command) == pytest.approx(140e-6, abs=1e-9)
    assert [node["name"] for node in of["nodes"] if node.get("stream", 0) == 0] == ["gemm", "gelu", "gemm #9"]
    on_host = [node for node in of["nodes"] if "cuda" in node["name"]]
    times = [int(node["time"].removesuffix("ps").removesuffix("s")) // 10**6 for node in on_host]
    # Launches end at 104 and 110; the host waits from 115 until gelu ends at 172, and returns at 175.
    assert times == [4, 6, 5, 3, 9]


def test_a_faster_kernel_would_let_the_host_go_on_earlier(syncline_command: Command) -> None:
    shorter = [dict(event) for event in STEP]
    profile(0, shorter, ranks=1)
    found = graph(syncline_command)
    for node in found["classes"]["all NPUs"]["nodes"]:
        if node["name"] == "gemm":
            node["time"] = "20us"
    Path("out/graph.json").write_text(json.dumps(found))
    assert total_s(syncline_command) == pytest.approx(110e-6, abs=1e-9)


def test_a_profile_of_an_h100_takes_as_long_as_was_measured(syncline_command: Command) -> None:
    # Two training steps of a small transformer block under DistributedDataParallel, one rank: PyTorch 2.11, NCCL 2.28.
    file = Path(__file__).parent / "h100.0.json.gz"
    ended = syncline_command("import", "kineto", str(file), "-o", "out")
    assert ended.status == 0, ended.err
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    kernels = [event for event in events if event["cat"] in ("kernel", "gpu_memcpy")]
    launched = {event["args"]["correlation"] for event in kernels}
    calls = [e for e in events if e["args"].get("correlation") in launched or e["name"].endswith("Synchronize")]
    began, ended_at = (f(e["ts"] + e["dur"] * w for e in calls) for f, w in ((min, 0), (max, 1)))
    (run,) = json.loads(syncline_command("run", "out/experiment.yaml", "--json").out)["runs"]
    assert run["total_time_s"] * 1e6 == pytest.approx(ended_at - began, rel=1e-3)
    assert run["compute_time_s"] * 1e6 == pytest.approx(sum(event["dur"] for event in kernels), rel=1e-6)


def ddp(start: float) -> list[Event]:
    """Backward, an all-reduce beside it, and an optimiser step that waits for both."""
    return [
        kernel("backward 1", start, 50),
        nccl(start + 51, 70),
        kernel("backward 2", start + 50, 30),
        kernel("step", start + 121, 5),
    ]


def test_kernels_wait_for_collectives_and_these_for_what_was_launched_before(syncline_command: Command) -> None:
    for rank in range(2):
        profile(rank, ddp(1000.0 * rank))
    (of,) = graph(syncline_command, "--topology", "Ring(2, rate=1GB/s, latency=0s)")["classes"].values()
    nodes = {node["name"]: node for node in of["nodes"]}
    (name,) = (name for name in nodes if name.startswith("nccl"))
    assert nodes[name]["collective"] == {"family": "all", "kind": "all-reduce", "size": "4000B"}
    # What is left of the gap before the collective, a microsecond, is kept.
    (gap,) = nodes[name]["after"]
    assert (nodes[gap]["after"], nodes[gap]["time"]) == (["backward 1"], "1000000ps")
    assert set(nodes["step"]["after"]) == {name, "backward 2"}
    # 4000 bytes over two directions of 1 GB/s: 2 us after backward, within the second part of it.
    assert total_s(syncline_command) == pytest.approx(85e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "kind", "size"),
    [
        ("allreduce", "all-reduce", 4000),
        ("_allgather_base", "all-gather", 8000),
        ("_reduce_scatter_base", "reduce-scatter", 4000),
        ("all_to_all", "all-to-all", 4000),
        ("broadcast", "broadcast", 4000),
    ],
)
def test_collectives_have_their_full_vectors(name: str, kind: str, size: int, syncline_command: Command) -> None:
    for rank in range(2):
        profile(rank, [kernel("k", 0, 5), nccl(6, 9, name)])
    (of,) = graph(syncline_command)["classes"].values()
    (found,) = (node["collective"] for node in of["nodes"] if "collective" in node)
    assert found == {"family": "all", "kind": kind, "size": f"{size}B"}


def test_what_a_collective_is_may_be_said_by_the_host(syncline_command: Command) -> None:
    for rank in range(2):
        said = nccl(0, 0)["args"]
        params = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 1, "ts": 1, "dur": 1}
        event = kernel("ncclKernel_AllReduce_RING_LL_Sum_float", 6, 9, 20, **{"External id": 77})
        profile(rank, [kernel("k", 0, 5), event, {**params, "args": {**said, "External id": 77}}])
    (of,) = graph(syncline_command)["classes"].values()
    assert any("collective" in node for node in of["nodes"])


def test_messages_and_barriers(syncline_command: Command) -> None:
    names = {0: ("send", {"Dst Rank": 1}), 1: ("recv", {"Src Rank": 0, "Out msg nelems": 1000})}
    for rank, (name, args) in names.items():
        profile(rank, [kernel("k", 0, 5), nccl(6, 9, name, args), nccl(20, 1, "barrier")])
    found = graph(syncline_command)
    works = [next(node for node in of["nodes"] if rank in node) for rank, of in zip(
        ("send", "recv"), found["classes"].values(), strict=True
    )]  # fmt: skip
    assert works[0]["send"] == {"family": "all", "to": 1, "size": "4000B"}
    assert works[1]["recv"] == {"family": "all", "from": -1, "size": "4000B"}
    assert total_s(syncline_command) > 0


def test_ranks_without_a_profile_are_like_the_next_one_below(syncline_command: Command) -> None:
    tensor, data = "[0, 1]", "[0, 2, 4, 6]"
    profile(0, [kernel("k", 0, 5), nccl(6, 9, ranks=tensor), nccl(20, 9, ranks=data)], ranks=8)
    found = graph(syncline_command)
    assert [family["members"]["groups"] for family in found["families"].values()] == [
        [[0, 1], [2, 3], [4, 5], [6, 7]],
        [[0, 2, 4, 6], [1, 3, 5, 7]],
    ]
    assert found["classes"]["all NPUs"]["npus"] == "0-7"
    text = Path("out/experiment.yaml").read_text()
    assert "rank 1, 2, 3, 4, 5, 6, 7: no profile, taken as equal to rank 0" in text
    profile(0, [kernel("k", 0, 5), nccl(6, 9, ranks="[0, 3]")], ranks=8)
    assert "has no pattern" in refused(syncline_command)


@pytest.mark.parametrize("known", [[0], [0, 2], [0, 3]])
def test_messages_of_ranks_without_a_profile_go_to_and_come_from_their_own_neighbours(
    known: list[int], syncline_command: Command
) -> None:
    """Around a ring of four: each sends to the next and receives from the one before."""
    for rank in known:
        to, of = {"Dst Rank": (rank + 1) % 4}, {"Src Rank": (rank - 1) % 4, "Out msg nelems": 1000}
        profile(rank, [kernel("k", 0, 5), nccl(6, 9, "send", to), nccl(20, 9, "recv", of)], ranks=4)
    found = graph(syncline_command)
    assert len(found["classes"]) == 1
    (of_class,) = found["classes"].values()
    assert of_class["npus"] == "0-3"
    assert [node["send"]["to"] for node in of_class["nodes"] if "send" in node] == [1]
    assert [node["recv"]["from"] for node in of_class["nodes"] if "recv" in node] == [-1]
    assert total_s(syncline_command) > 0


def test_uneven_all_to_alls_take_the_largest_size(syncline_command: Command) -> None:
    for rank in range(2):
        profile(rank, [kernel("k", 0, 5), nccl(6, 9, "all_to_allv", {"In msg nelems": 100 + rank})])
    (of,) = graph(syncline_command)["classes"].values()
    assert next(node["collective"]["size"] for node in of["nodes"] if "collective" in node) == "404B"


def test_groups_may_be_listed_beside_the_events(syncline_command: Command) -> None:
    config = [{"pg_name": "5", "ranks": [1, 0], "pg_size": 2}]
    args = {"Process Group Ranks": "[0, ..., 1]", "Process Group Name": "5"}
    for rank in range(2):
        profile(rank, [kernel("k", 0, 5), nccl(6, 9, args=args)], pg_config=config)
    assert list(graph(syncline_command)["families"]) == ["group 1,0"]


def test_profiles_may_be_compressed(syncline_command: Command) -> None:
    profile(0, STEP, ranks=1)
    wanted = graph(syncline_command)
    Path("p.0.json.gz").write_bytes(gzip.compress(Path("p.0.json").read_bytes()))
    Path("p.0.json").unlink()
    assert graph(syncline_command) == wanted


@pytest.mark.parametrize(
    ("events", "info", "said"),
    [
        ([], {}, "p.0.json: traceEvents: there is no event of a GPU"),
        ([kernel("k", -1, 5)], {}, "p.0.json: traceEvents.1.ts: ts of this event is out of range"),
        ([kernel("k", 0, 5), 7], {}, "traceEvents.2: this is no event"),
        ([kernel("k", 0, 5)], {"world_size": 0}, "distributedInfo: these are no rank and world_size"),
        (
            [nccl(0, 5, args={"dtype": "Quad"})],
            {},
            "traceEvents.1: ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*): it does",
        ),
        ([nccl(0, 5, ranks="[0, 9]")], {}, "rank 0 is not in its process group"),
        ([nccl(0, 5, args={"Group size": 7}, ranks="[1, ..., 9]")], {}, "nobody says who is in process group 0"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_with_the_event(
    events: list[Any], info: Event, said: str, syncline_command: Command
) -> None:
    profile(0, events, ranks=2, **info)
    assert said in refused(syncline_command)


def test_damaged_documents(syncline_command: Command) -> None:
    profile(0, STEP, ranks=1)
    text = Path("p.0.json").read_text()
    for content, said in (
        (text[:-30], "this is not JSON"),
        ("[" * 100_000, "this is not JSON"),
        (text.replace("100,", "NaN,", 1), "this is not JSON: NaN is no number of JSON"),
        ("{}", "p.0.json:1: traceEvents: this is no profile"),
    ):
        Path("p.0.json").write_text(content)
        assert said in refused(syncline_command)
    Path("p.0.json").write_bytes(b'{"a": "\xff"}')
    assert "p.0.json:1: this is not UTF-8 text" in refused(syncline_command)
