"""Measured profiles beside a simulated timeline: where they are, when, and what belongs to what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.perfetto_traces import read
from syncline.base.errors import InputError
from syncline.importers import overlay
from syncline.results import perfetto
from syncline.results.timeline import Slice, Timeline, check_nesting, order


def event(category: str, name: str, start: float, dur: float, tid: int = 7, **args: Any) -> dict[str, Any]:
    """A complete event, in microseconds."""
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": dur, "pid": 0, "tid": tid, "args": args}


def reduction(start: float, name: str = "allreduce") -> dict[str, Any]:
    """A kernel of NCCL."""
    return event("kernel", "ncclDevKernel_X", start, 4, 20, stream=20, **{"Collective name": name})


def profile(folder: Path, rank: int, events: list[dict[str, Any]], ranks: int = 2) -> None:
    """Writes the profile of a rank."""
    document = {"distributedInfo": {"rank": rank, "world_size": ranks}, "traceEvents": events}
    (folder / f"m.{rank}.json").write_text(json.dumps(document))


def simulated() -> Timeline:
    """Two all-reduces of NPU 0, and one all-gather of NPU 1."""
    spans = [(0, "all-reduce of iteration 0", 5), (0, "all-reduce of iteration 0, in flight at the end", 9)]
    spans.append((1, "all-gather of iteration 0", 5))
    slices = [Slice(n, f"collective layer{i}", name, at * 10**6, 10**7) for i, (n, name, at) in enumerate(spans)]
    return Timeline(sorted(slices, key=order), notes={"slices_total": 3})


STEPS = [
    event("kernel", "early", 90, 5, stream=7),
    event("user_annotation", "ProfilerStep#4", 95, 4, 1),
    event("user_annotation", "ProfilerStep#5", 100, 50, 1),
    event("cuda_runtime", "cudaLaunchKernel", 101, 2, 1, correlation=9),
    event("kernel", "gemm", 104, 10, stream=7, correlation=9),
    reduction(115),
    reduction(120, "all_gather"),
    reduction(130),
    reduction(140),
]


def test_ranks_begin_with_their_iteration_and_collectives_are_joined(tmp_path: Path) -> None:
    profile(tmp_path, 0, STEPS)
    profile(tmp_path, 1, [event("kernel", "gemm", 7, 10, stream=7), reduction(20, "all_gather")])
    timeline = simulated()
    found = overlay.add(timeline, overlay.read([str(tmp_path / "m")], 2))
    assert check_nesting(timeline.slices) == []
    first, second = found
    assert (first.aligned_at, first.kernels, first.left_out) == ("the start of ProfilerStep#5", 5, 1)
    assert first.measured == {"all-reduce": 3, "all-gather": 1}
    assert (first.simulated, first.matched) == ({"all-reduce": 2}, {"all-reduce": 2})
    assert (second.aligned_at, second.matched) == ("the first event", {"all-gather": 1})
    assert first.sentence() == (
        "rank 0: 5 kernels from the start of ProfilerStep#5 on, 1 from before are left out; all-gather: 0 matched of 1 "
        "measured and 0 simulated; all-reduce: 2 matched of 3 measured and 2 simulated"
    )
    shown = read(perfetto.encode(timeline, "x"))
    assert list(shown.processes.values()) == ["utilisation", "NPU 0", "NPU 1", "rank 0 (measured)", "rank 1 (measured)"]
    gemm = [(s.process, s.track, s.start_ns, s.end_ns) for s in shown.slices if s.name == "gemm"]
    assert gemm == [("rank 1 (measured)", "stream 7", 0, 10_000), ("rank 0 (measured)", "stream 7", 4_000, 14_000)]
    assert {s.track for s in shown.slices if s.category == "call"} == {"host thread 0 1"}
    ends = {flow: s for s in shown.slices for flow in s.ends_of_flows}
    pairs = [(s.track, s.process, ends[flow].process, ends[flow].start_ns) for s in shown.slices for flow in s.flows]
    assert sorted(pairs) == [
        ("collective layer0", "NPU 0", "rank 0 (measured)", 15_000),
        ("collective layer1", "NPU 0", "rank 0 (measured)", 30_000),
        ("collective layer2", "NPU 1", "rank 1 (measured)", 13_000),
    ]
    assert shown.about["measured_rank_0"] == first.sentence()
    assert shown.about["slices_dropped"] == 0


@pytest.mark.parametrize(
    ("rank", "events", "message"),
    [
        (3, STEPS, "distributedInfo.rank: the simulation has no NPU 3"),
        (0, [event("cuda_runtime", "x", 1, 1)], "there is no event of a GPU"),
        (0, [{"ph": "X", "cat": "kernel", "name": "k", "ts": -1}], "ts of this event is out of range"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, rank: int, events: list[dict[str, Any]], message: str) -> None:
    profile(tmp_path, rank, events, ranks=4)
    with pytest.raises(InputError, match=message):
        overlay.read([str(tmp_path)], 2)
