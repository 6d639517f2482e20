"""Imported profiles take as long as was recorded, whatever the GPU did at a time, and say how long that was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from importers.test_kineto import call, kernel, nccl, profile
from support.command import Ended

Command = Callable[..., Ended]
Event = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(command: Command, *flags: str) -> dict[str, Any]:
    """The document of an import."""
    ended = command("import", "kineto", "p", "-o", "out", "--json", *flags)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def run(command: Command, *flags: str) -> dict[str, Any]:
    """The document of a run of what was imported."""
    ended = command("run", "out/experiment.yaml", "--json", *flags)
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def annotation(number: int, start: float, dur: float, category: str = "user_annotation") -> Event:
    """The annotation of an iteration."""
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 1, "ts": start, "dur": dur, "args": {}}


def cuda_graphs() -> list[Event]:
    """Two launches of a CUDA graph with 50 short kernels beside a long one, all on one stream."""
    events: list[Event] = []
    for launch, at in enumerate((0.0, 1200.0), 1):
        events.append(call("cudaGraphLaunch", at, 20, launch))
        events.append(kernel("long", at + 31, 1000, correlation=launch))
        events += [kernel(f"short {n}", at + 32 + 20 * n, 5, correlation=launch) for n in range(50)]
    return events


def two_threads() -> list[Event]:
    """Two threads of the host that launch on two streams, with idle times that overlap."""
    events: list[Event] = []
    for thread, stream in ((1, 7), (2, 8)):
        for n in range(20):
            number = 100 * thread + n
            start = 13 * thread + 50 * n
            events.append(call("cudaLaunchKernel", start, 4, number, thread))
            events.append(kernel(f"k{n}", start + 30, 15, stream, number))
    return events


def one_stream_of_two_threads() -> list[Event]:
    """Two threads that launch on one stream, where the call that begins first returns last."""
    return [
        call("cudaLaunchKernel", 0, 40, 1, thread=1),
        call("cudaLaunchKernel", 5, 5, 2, thread=2),
        kernel("first", 20, 30, correlation=1),
        kernel("second", 50, 30, correlation=2),
        call("cudaDeviceSynchronize", 45, 50, thread=1),
    ]


def nested_calls() -> list[Event]:
    """Calls of the driver within calls of the runtime, and kernels that begin before their launch returns."""
    return [
        call("cudaLaunchKernel", 0, 30, 1),
        {**call("cuLaunchKernelEx", 5, 20, 2), "cat": "cuda_driver"},
        kernel("early", 10, 15, correlation=2),
        kernel("late", 26, 10, correlation=1),
        call("cudaDeviceSynchronize", 31, 20),
        {**call("cuCtxSynchronize", 33, 10), "cat": "cuda_driver"},
        call("cudaLaunchKernel", 60, 5, 3),
        kernel("last", 62, 10, correlation=3),
    ]


def waits_of_streams() -> list[Event]:
    """Streams that wait for each other by events, of which one was recorded long before it is waited for."""
    wait = {"stream": 8, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 50, "correlation": 51}
    return [
        call("cudaLaunchKernel", 0, 2, 1),
        call("cudaEventRecord", 3, 1, 50),
        call("cudaLaunchKernel", 5, 2, 2),
        call("cudaStreamWaitEvent", 8, 1, 51),
        {**kernel("", 8, 0, 8), "cat": "cuda_sync", "name": "Stream Wait Event", "args": wait},
        call("cudaLaunchKernel", 10, 2, 3),
        kernel("awaited", 20, 30, 7, 1),
        kernel("not awaited", 50, 100, 7, 2),
        kernel("waits", 53, 10, 8, 3),
    ]


def clocks_that_disagree() -> list[Event]:
    """Kernels that begin before they are launched, and a call that returns before what it waits for has ended."""
    return [
        call("cudaLaunchKernel", 10, 5, 1),
        kernel("k", 8, 20, correlation=1),
        call("cudaStreamSynchronize", 16, 10),
        call("cudaLaunchKernel", 40, 5, 2),
        kernel("l", 38, 20, correlation=2),
    ]


def random_profile(seed: int) -> list[Event]:
    """Kernels, communication, threads and waits at random."""
    chance = Random(seed)
    events: list[Event] = []
    for n in range(1, 40):
        at, thread, stream = chance.uniform(0, 500), chance.randint(1, 3), chance.choice((7, 8, 20))
        kind = chance.randrange(6)
        if kind == 0:
            events.append(call(chance.choice(("cudaDeviceSynchronize", "cudaEventSynchronize")), at, 30, thread=thread))
            continue
        if kind == 1:
            waits = {"stream": stream, "wait_on_stream": chance.choice((7, 8, 20))}
            events.append({**kernel("", at, 0, stream), "cat": "cuda_sync", "name": "wait", "args": waits})
            continue
        if kind != 2:
            events.append(call("cudaLaunchKernel", at, chance.uniform(1, 20), n, thread))
        for _ in range(chance.choice((1, 1, 1, 5))):
            start = round(at + chance.uniform(-2, 60), 3)
            if stream == 20:
                event = nccl(start, round(chance.uniform(0, 80), 3), ranks="[0]")
                event["args"] |= {"correlation": n, "Group size": 1}
            else:
                event = kernel(f"k{n}", max(0.0, start), round(chance.uniform(0, 50), 3), stream, n)
            events.append({**event, "ts": max(0.0, start)})
    return events


KINDS = {
    "CUDA graphs": cuda_graphs(),
    "two threads": two_threads(),
    "one stream of two threads": one_stream_of_two_threads(),
    "nested calls": nested_calls(),
    "waits of streams": waits_of_streams(),
    "clocks that disagree": clocks_that_disagree(),
    **{f"random {seed}": random_profile(seed) for seed in range(12)},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_replay_takes_as_long_as_the_record(name: str, syncline_command: Command) -> None:
    events = KINDS[name]
    profile(0, events, ranks=1)
    document = imported(syncline_command)
    record = document["record"]
    device = [e for e in events if e["cat"] == "kernel"]
    launched = {e["args"]["correlation"] for e in device}
    calls = [e for e in events if "args" in e and "cuda_" in e["cat"] and e["cat"] != "cuda_sync"]
    waits = [e for e in calls if e["name"].endswith("Synchronize")]
    taken = [*device, *waits, *(e for e in calls if e["args"]["correlation"] in launched)]
    began = min(e["ts"] for e in taken)
    ended = max(e["ts"] + e["dur"] for e in (*device, *waits))
    assert record["time_s"] * 1e6 == pytest.approx(ended - began, abs=2e-3)
    assert record["difference"] == 0
    assert not document["warnings"]
    if not any("nccl" in e["name"] for e in events):
        assert run(syncline_command)["runs"][0]["total_time_s"] == pytest.approx(record["time_s"], rel=1e-12)


def test_kernels_of_a_graph_run_beside_each_other(syncline_command: Command) -> None:
    profile(0, cuda_graphs(), ranks=1)
    assert imported(syncline_command)["record"]["time_s"] == pytest.approx(2231e-6)
    (entry,) = run(syncline_command)["runs"]
    # All kernels of the second launch wait for all of the first, so only the long ones are on the main stream.
    assert entry["compute_time_s"] == pytest.approx(2000e-6)


def test_a_wait_for_a_collective_is_exposed_up_to_its_end(syncline_command: Command) -> None:
    # The last kernel begins 3 us after the collective has ended: these are not exposed to communication.
    for rank in range(2):
        profile(rank, [kernel("k", 0, 5), nccl(5, 90), kernel("l", 98, 5)])
    record = imported(syncline_command, "--topology", "Ring(2, rate=1GB/s, latency=0s)")["record"]
    assert (record["exposed_comm_s"], record["communication_s"]) == (90e-6, 90e-6)
    assert record["exposed_comm_share"] == pytest.approx(90 / 103)
    (entry,) = run(syncline_command)["runs"]
    # Two steps of 2,000 bytes at 1 GB/s, and two cycles.
    assert entry["exposed_comm_s"] == pytest.approx(4e-6, abs=4e-9)
    assert entry["background_wait_s"] == pytest.approx(3e-6, abs=1e-9)
    assert entry["total_time_s"] == pytest.approx(entry["exposed_comm_s"] + 13e-6, abs=1e-9)


def test_exposed_communication_of_the_record_is_that_beside_no_compute(syncline_command: Command) -> None:
    # Communication from 10 to 70; compute from 0 to 20 and from 40 to 50, on two streams; a copy is no compute.
    copy = {**kernel("Memcpy DtoD", 20, 10, 9), "cat": "gpu_memcpy"}
    unnamed = {"Collective name": None}
    events = [kernel("a", 0, 20), kernel("b", 40, 10, 8), copy, nccl(10, 50, args=unnamed), nccl(55, 15, args=unnamed)]
    profile(0, events, ranks=1)
    document = imported(syncline_command)
    assert document["record"]["communication_s"] == pytest.approx(60e-6)
    assert document["record"]["exposed_comm_s"] == pytest.approx(40e-6)
    assert document["record"]["exposed_comm_share"] == pytest.approx(40 / 70)
    # What a run cannot know as communication is warned of at import, and by every run.
    (warning,) = document["warnings"]
    assert warning.startswith("2 kernels of NCCL do not say which collective they are (rank 0): they take the recorded")
    assert warning.endswith("in the record, exposed communication is 57.1 % of the time of rank 0")
    assert run(syncline_command)["warnings"] == [warning]
    ended = syncline_command("import", "kineto", "p", "-o", "out", "--quiet")
    assert ended.err == f"warning: {warning}\n"
    shown = syncline_command("import", "kineto", "p", "-o", "out").out
    assert "exposed communication, recorded" in shown
    assert "40.000 us (57.1 %)" in shown


def steps(lag: float = 400.0, *, extra: bool = False) -> list[Event]:
    """Five iterations of 90 to 130 us on the GPU, which the host is done with 10 us after it has begun them."""
    events: list[Event] = []
    at = lag
    for n, took in enumerate((90, 100, 130, 110, 120)):
        begin = 20.0 * n
        events.append(annotation(n + 3, begin, 10))
        events.append(call("cudaLaunchKernel", begin + 1, 2, 10 * n + 1))
        events.append(call("cudaLaunchKernel", begin + 4, 2, 10 * n + 2))
        events.append(kernel("forward", at, took / 2, correlation=10 * n + 1))
        events.append(kernel("backward", at + took / 2, took / 2, correlation=10 * n + 2))
        at += took
    if extra:
        # The next iteration is cut off; what was launched before the profile began is still under way.
        events += [annotation(8, 100, 5), call("cudaLaunchKernel", 101, 2, 91), kernel("forward", at, 50, 7, 91)]
        events.append(kernel("before", lag - 300, 300, 7, 99))
    return events


@pytest.mark.parametrize("extra", [False, True])
def test_an_iteration_is_the_mean_of_the_complete_steps(extra: bool, syncline_command: Command) -> None:
    profile(0, steps(extra=extra), ranks=1)
    document = imported(syncline_command)
    record = document["record"]
    assert (record["steps"], record["difference"]) == (5, 0)
    assert record["iteration_time_s"] == pytest.approx(110e-6)
    assert record["replayed_iteration_time_s"] == pytest.approx(110e-6)
    (entry,) = run(syncline_command)["runs"]
    assert (entry["iterations"], entry["total_time_s"]) == (5, pytest.approx(550e-6))
    assert entry["iteration_time_s"] == pytest.approx(110e-6)
    (again,) = run(syncline_command, "--set", "training.iterations=2")["runs"]
    assert (again["iterations"], again["iteration_time_s"]) == (10, pytest.approx(110e-6))
    assert again["steady_iteration_time_s"] == pytest.approx(110e-6)
    (assumed,) = (text for text in document["assumptions"] if "ProfilerStep" in text)
    left_out = "2 of 12 events of GPUs are outside, and are left out"
    assert assumed.startswith("the complete iterations (ProfilerStep#3 to #7) are taken")
    assert (left_out in assumed) == extra


@pytest.mark.parametrize("before", [False, True])
def test_the_first_step_waits_for_the_host_like_the_others(before: bool, syncline_command: Command) -> None:
    """Steps of 100 us, of which the GPU waits 30 for the host; work of a warm-up may end after the first has begun."""
    events: list[Event] = []
    for n in range(5):
        begin = 100.0 * n
        launch = call("cudaLaunchKernel", begin + 29, 1, n + 1)
        events += [annotation(n, begin, 100), launch, kernel("k", begin + 30, 70, correlation=n + 1)]
    if before:
        events.append(kernel("warm-up", 0, 10, correlation=99))
    profile(0, events, ranks=1)
    record = imported(syncline_command)["record"]
    assert (record["steps"], record["difference"]) == (5, 0)
    assert record["iteration_time_s"] == pytest.approx(98e-6 if before else 100e-6)


def test_steps_may_be_marked_by_the_clock_of_the_gpu_alone(syncline_command: Command) -> None:
    kernels = [event for event in steps() if event["cat"] == "kernel"]
    marks = [annotation(n, at, took, "gpu_user_annotation") for n, at, took in ((3, 400, 90), (4, 490, 100))]
    profile(0, [*kernels, *marks], ranks=1)
    record = imported(syncline_command)["record"]
    assert (record["steps"], record["iteration_time_s"]) == (2, pytest.approx(95e-6))


def test_steps_that_ranks_do_not_have_in_common_are_left_out(syncline_command: Command) -> None:
    def events(numbers: range) -> list[Event]:
        found: list[Event] = []
        for n in numbers:
            found += [annotation(n, 100.0 * n, 100), kernel("k", 100.0 * n, 60), nccl(100.0 * n + 60, 40)]
        return found

    profile(0, events(range(1, 5)))
    profile(1, events(range(2, 6)))
    document = imported(syncline_command)
    assert document["record"]["steps"] == 3
    graph = json.loads(Path("out/graph.json").read_text())
    assert graph["steps"] == 3
    assert all(sum("collective" in node for node in of["nodes"]) == 3 for of in graph["classes"].values())


def test_times_since_1970_are_read_exactly(syncline_command: Command) -> None:
    # Binary numbers of 64 bits are a quarter of a microsecond apart there: back to back kernels seemed to overlap.
    lines = [json.dumps(kernel(f"k{n}", 0, 0)) for n in range(200)]
    text = ",\n".join(
        line.replace('"ts": 0, "dur": 0', f'"ts": 1712195495519{600 + n // 10}.{n % 10}37, "dur": 0.1')
        for n, line in enumerate(lines)
    )
    info = '{"rank": 0, "world_size": 1}'
    Path("p.0.json").write_text(f'{{"distributedInfo": {info}, "traceEvents": [{text}]}}')
    document = imported(syncline_command)
    assert document["record"]["time_s"] == pytest.approx(20e-6, rel=1e-12)
    assert not any("before an earlier one" in text for text in document["assumptions"])


@pytest.mark.parametrize("size", [-5, 1e300, 0, "2", 2.5, True, 70_000])
def test_a_group_size_that_is_none_is_refused_by_its_field(size: object, syncline_command: Command) -> None:
    profile(0, [nccl(0, 5, args={"Group size": size})])
    ended = syncline_command("import", "kineto", "p", "-o", "out")
    assert ended.status == 2
    assert "p.0.json: traceEvents.1.args.Group size: this is no number of ranks" in ended.err
    assert "accepted: the ranks of the process group, 1 to 65536" in ended.err


def test_listed_ranks_go_before_a_group_size_that_differs(syncline_command: Command) -> None:
    for rank in range(2):
        profile(rank, [nccl(0, 5, args={"Group size": 7})])
    assumed = imported(syncline_command)["assumptions"]
    assert "a process group has the ranks that are listed, though its Group size is another (2 times)" in assumed
