"""The critical path against tables worked out by hand, and against what the engine accounts for."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncline
from syncline.studies.reasons import usage
from syncline.studies.reasons.answer import LATENCY, Part, by_resource
from syncline.studies.reasons.path import Span, Timeline
from syncline.studies.reasons.seen import Seen
from syncline.studies.reasons.usage import Usage

Row = tuple[str, str, int, int]


def seen(rows: list[Row], total: int, *, iterations: int = 1) -> Seen:
    """A run of so many picoseconds whose NPU 0 did this: track, name, start and end."""
    names = ("track", "name", "start_ps", "end_ps")
    columns: dict[str, Any] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    entry = {"name": "x", "iterations": iterations, "total_time_s": total / 1e12, "npus": 4, "npu": 0}
    return Seen(entry, {"slices": pa.table({"npu": [0] * len(rows), **columns})})


def walked(rows: list[Row], total: int) -> list[tuple[str, str, int, int]]:
    spans = Timeline.of(seen(rows, total)).critical_path()
    return [(span.what, span.phase or span.kind, span.start, span.end) for span in spans]


def part(phase: int, slot: int, chunk: int, start: int, end: int, layer: str = "l") -> Row:
    name = ["reduce-scatter dim 0", "all-gather dim 0"][phase]
    return (f"phase {phase} {name} slot {slot:02}", f"{layer} chunk {chunk}", start, end)


OVERLAPPED: list[Row] = [
    ("compute", "a weight_grad", 0, 100),
    ("compute", "l weight_grad", 100, 200),
    ("exposed", "waits for l weight_grad", 200, 260),
    ("compute", "l forward", 260, 300),
    ("collective l", "all-reduce of iteration 0", 100, 260),
    part(0, 0, 0, 100, 150),
    part(1, 0, 0, 155, 180),
    part(0, 0, 1, 180, 220),
    part(1, 0, 1, 220, 255),
]
"""A collective that is issued at 100 and waited for from 200 to 260: two chunks, one after the other."""


def test_follows_chunks_back_to_the_issue_and_compute_from_there() -> None:
    assert walked(OVERLAPPED, 300) == [
        ("compute", "weight_grad", 0, 100),
        ("phase", "reduce-scatter dim 0", 100, 150),
        ("queue", "all-gather dim 0", 150, 155),
        ("phase", "all-gather dim 0", 155, 180),
        ("phase", "reduce-scatter dim 0", 180, 220),
        ("phase", "all-gather dim 0", 220, 255),
        ("elsewhere", "all-reduce", 255, 260),
        ("compute", "forward", 260, 300),
    ]


def test_divides_a_wait_among_what_went_on_in_it() -> None:
    spans = Timeline.of(seen(OVERLAPPED, 300)).exposed()
    assert sorted((s.start, s.end, s.what, s.phase) for s in spans) == [
        (200, 220, "phase", "reduce-scatter dim 0"),
        (220, 255, "phase", "all-gather dim 0"),
        (255, 260, "elsewhere", ""),
    ]


def test_shares_of_usage_are_of_the_time_of_communication() -> None:
    """Two chunks from 100 to 180, but for 5, and on to 255: the second waits for the first; the run takes 300."""
    of = seen(OVERLAPPED, 300)
    found = usage.of(of, Timeline.of(of))
    assert found.communication_ps == 75 + 75
    assert (found.in_flight, found.most_in_flight) == (1, 1)
    assert found.backlog == 80 / 150


def test_resources_are_busy_for_a_share_of_the_time_of_all_their_servers() -> None:
    """Of four NPUs with communication for 150: two servers that are busy for 300 in all are half as busy as one."""
    of = seen(OVERLAPPED, 300)
    resources = {"resource": ["memory", "alu", "fsm"], "servers": [1, 2, 16], "busy_ps": [300, 300, 300]}
    tables = {**of.tables, "resources": pa.table({**resources, "wait_ps": [0, 600, 1200]})}
    found = usage.of(Seen(of.entry, tables), Timeline.of(of))
    assert found.resources == {"memory": 300 / (4 * 150), "alu": 300 / (2 * 4 * 150)}
    assert found.waited_for == {"alu": 600 / (4 * 150), "fsm": 1200 / (4 * 150)}
    assert found.busiest_resource == ("memory", 0.5)


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_what_links_leave_of_a_phase_is_the_endpoints_as_far_as_it_is_busy(
    length: int, by_links: float, by_memory: float
) -> None:
    """The busiest resource has as much of the phase as it is busy, or what links leave; the rest is latency."""
    busy = int(length * by_links)
    parts = [Part("phase", "all-reduce dim 1", "all-reduce", length, busy), Part("compute", "forward", "", 7, None)]
    found = Usage(length, resources={"memory": by_memory, "sm": by_memory / 2})
    links = usage.Links(seen([], 0))
    of = by_resource(parts, links, found)
    assert sum(of.values()) == length + 7
    assert (of["compute"], of.get("links", 0)) == (7, busy)
    memory = min(length - busy, int(length * by_memory))
    assert of.get("memory of the endpoint", 0) == memory
    assert of.get(LATENCY, 0) == length - busy - memory


def test_a_chunk_that_waits_for_its_turn_says_so() -> None:
    rows = [part(0, 0, 0, 0, 50), part(0, 0, 1, 70, 100), ("collective l", "all-gather of iteration 0", 0, 100)]
    assert walked(rows, 100) == [
        ("phase", "reduce-scatter dim 0", 0, 50),
        ("start", "reduce-scatter dim 0", 50, 70),
        ("phase", "reduce-scatter dim 0", 70, 100),
    ]


def test_phases_of_a_chunk_that_overlap_count_once() -> None:
    rows = [part(0, 0, 0, 0, 60), part(1, 0, 0, 40, 100), ("collective l", "all-reduce of iteration 0", 0, 100)]
    assert [(s[0], s[2], s[3]) for s in walked(rows, 100)] == [("phase", 0, 40), ("phase", 40, 100)]


def test_chunks_of_other_collectives_may_have_the_same_name() -> None:
    rows = [
        ("collective l", "all-reduce of iteration 0", 0, 40),
        part(0, 0, 0, 0, 20),
        part(1, 0, 0, 20, 40),
        ("compute", "a forward", 0, 60),
        ("exposed", "waits for l weight_grad", 60, 100),
        ("collective l", "all-reduce of iteration 0", 60, 100),
        part(1, 0, 0, 60, 100),
    ]
    assert [s[0] for s in walked(rows, 100)] == ["compute", "phase"]


def test_chunks_of_two_families_are_told_apart() -> None:
    """The gradients of a layer along `data`, and those of a table that it shares: chunks of the same numbers."""
    rows = [
        ("compute", "l weight_grad", 0, 10),
        ("exposed", "waits for l weight_grad", 10, 100),
        ("collective l", "all-reduce of iteration 0", 10, 100),
        ("collective l", "reduce-scatter of iteration 0", 10, 70),
        ("phase 0 data reduce-scatter dim 0 slot 00", "l chunk 0", 10, 70),
        ("phase 1 shared all-gather dim 0 slot 00", "l chunk 0", 60, 100),
        ("phase 0 shared reduce-scatter dim 0 slot 00", "l chunk 0", 10, 60),
    ]
    path = Timeline.of(seen(rows, 100)).critical_path()
    assert [(s.what, s.kind, s.phase, s.start, s.end) for s in path] == [
        ("compute", "weight_grad", "", 0, 10),
        ("phase", "all-reduce", "shared reduce-scatter dim 0", 10, 60),
        ("phase", "all-reduce", "shared all-gather dim 0", 60, 100),
    ]
    assert Timeline.of(seen(rows, 100)).in_flight() == (90, 150, 2)


@pytest.mark.parametrize("last", [0, 1])
def test_a_wait_that_two_collectives_of_a_layer_end_is_that_of_the_later_one(last: int) -> None:
    """Both end in the wait; what held the main stream up is the one that ended last, whichever was issued first: its
    chunk here, and then its end elsewhere.
    """
    kinds, phases = ("all-reduce", "reduce-scatter"), ("data reduce-scatter dim 0", "shared all-gather dim 1")
    ends = (80, 60) if last == 0 else (60, 80)
    rows = [("compute", "l weight_grad", 0, 10), ("exposed", "waits for l weight_grad", 10, 80)]
    for number, issued in enumerate((4, 8)):
        rows.append(("collective l", f"{kinds[number]} of iteration 0", issued, ends[number]))
        rows.append((f"phase {number} {phases[number]} slot 00", "l chunk 0", issued, ends[number] - 5))
    held_up = [("elsewhere", kinds[last], "", 80), ("phase", kinds[last], phases[last], 75)]
    path = Timeline.of(seen(rows, 80)).critical_path()
    assert [(s.what, s.kind, s.phase, s.end) for s in reversed(path) if s.what != "compute"] == held_up
    waits = Timeline.of(seen(rows, 80)).exposed()
    assert [(s.what, s.kind, s.phase, s.end) for s in waits] == held_up
    # Where no chunk was recorded, the wait is the collective's.
    bare = [row for row in rows if not row[0].startswith("phase")]
    (whole,) = Timeline.of(seen(bare, 80)).exposed()
    assert (whole.what, whole.kind, whole.start, whole.end) == ("collective", kinds[last], 10, 80)


def test_bubbles_other_streams_and_what_is_before_are_named() -> None:
    rows = [
        ("compute", "a forward", 10, 30),
        ("exposed", "waits for b forward", 30, 40),
        ("exposed", "waits for background compute", 40, 45),
        ("compute", "a forward", 45, 50),
    ]
    assert [s[0] for s in walked(rows, 50)] == ["idle", "compute", "bubble", "background", "compute"]


@pytest.mark.parametrize("rows", [[], [("exposed", "waits for l forward", 0, 100)]])
def test_covers_a_run_of_which_little_was_recorded(rows: list[Row]) -> None:
    assert covers(Timeline.of(seen(rows, 100)).critical_path(), 100)


def covers(spans: list[Span], total: int) -> bool:
    """Whether spans are adjacent, none is empty, and all together are the run."""
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), total]
    return ends == starts and all(span.length > 0 for span in spans)


def test_covers_whatever_was_recorded() -> None:
    for number in range(300):
        draw = random.Random(number)
        total, rows, at = draw.randint(1, 300), [], 0
        while at < total:
            until = min(total, at + draw.randint(1, 40))
            kind = draw.choice(["compute", "exposed", ""])
            layer = draw.choice("lm")
            name = f"{layer} forward" if kind == "compute" else f"waits for {layer} forward"
            rows += [(kind, name, at, until)] if kind else []
            at = until
        for layer in "lm":
            issued = draw.randint(0, total)
            rows.append((f"collective {layer}", "all-reduce of iteration 0", issued, draw.randint(issued, total)))
            for chunk in range(draw.randint(0, 6)):
                start = draw.randint(0, total)
                rows.append(part(draw.randint(0, 1), chunk, chunk // 2, start, draw.randint(start, total), layer))
        timeline = Timeline.of(seen(rows, total))
        assert covers(timeline.critical_path(), total), number
        waits = sum(end - start for track, _, start, end in rows if track == "exposed")
        assert sum(span.length for span in timeline.exposed()) <= waits


RUNS: list[dict[str, Any]] = [
    {"endpoint": "ideal"},
    {"endpoint": {"kind": "baseline", "comm_memory_bandwidth": "128GB/s", "comm_sms": 2}, "tail": "drain"},
    {"endpoint": {"kind": "ace", "comm_memory_bandwidth": "128GB/s"}},
]


@pytest.mark.parametrize("changes", RUNS)
def test_agrees_with_what_the_engine_accounts_for(changes: dict[str, Any]) -> None:
    experiment = {
        "topology": "Ring(4, rate=20GB/s)_Ring(2, rate=5GB/s, latency=1us)",
        "workload": {"model": "resnet18", "batch": 2},
        "training": {"iterations": 2, "tail": changes.get("tail", "stop")},
        "collective": {"chunk": "512KiB"},
        "endpoint": changes["endpoint"],
    }
    run = syncline.run(experiment)
    (name,) = run.systems
    of = Seen(run.document["runs"][0], run._tables[name])
    timeline = Timeline.of(of)
    spans = timeline.critical_path()
    assert covers(spans, of.total_ps)
    assert sum(span.length for span in timeline.exposed()) == of.picoseconds("exposed_comm_s") > 0
    computing = sum(span.length for span in spans if span.what == "compute")
    assert 0 < computing <= of.picoseconds("compute_time_s")
    assert sum(busy.end - busy.start for busy in timeline.main if not busy.is_wait) == of.picoseconds("compute_time_s")


def test_one_chunk_is_its_phases_and_nothing_else() -> None:
    experiment = {
        "topology": "Ring(4, rate=10GB/s, latency=1us)",
        "workload": {"collective": "all-reduce", "size": "40kB"},
        "collective": {"algorithm": "ring", "chunks": 1, "lanes": "one"},
        "network": "analytical",
        "endpoint": {"kind": "ideal", "step_latency": "1ps"},
    }
    run = syncline.run(experiment)
    (name,) = run.systems
    of = Seen(run.document["runs"][0], run._tables[name])
    (span,) = Timeline.of(of).critical_path()
    # Six steps of a quarter each: 1 us for 10 kB, and 1 us of latency.
    assert span.phase == "all-reduce dim 0"
    assert 0 <= span.length - 6 * 2_000_000 <= 6 * 2
