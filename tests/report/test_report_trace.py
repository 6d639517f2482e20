"""The trace: valid JSON, slices that nest in every viewer, honest about what it left out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.results import timeline, traces

Span = tuple[int, int, str]


def parse(data: bytes) -> dict[str, Any]:
    """The trace with times as exact decimals."""
    parsed: dict[str, Any] = json.loads(data, parse_float=Decimal)
    return parsed


def slices_of(parsed: dict[str, Any]) -> list[dict[str, Any]]:
    """Complete events."""
    return [e for e in parsed["traceEvents"] if e["ph"] == "X"]


def as_seen(events: list[dict[str, Any]], nanoseconds: Callable[[Any], int]) -> list[timeline.Slice]:
    """Slices as a viewer has them that turns each number into nanoseconds on its own."""
    seen = []
    for e in events:
        start = nanoseconds(e["ts"])
        end = start + nanoseconds(e["dur"])
        seen.append(timeline.Slice(e["pid"], str(e["tid"]), e["name"], start, end))
    return seen


def exactly(value: Any) -> int:
    """A reader of decimals."""
    scaled = Decimal(value) * 1000
    assert scaled == int(scaled)
    return int(scaled)


def rounded(value: Any) -> int:
    """A viewer that computes in floating point and rounds."""
    return math.floor(float(value) * 1000.0 + 0.5)


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 3_000_000, depth: int = 3) -> list[Span]:
    """Spans that nest: disjoint children within each, at odd picoseconds."""
    count = draw(st.integers(0, 4))
    cuts = sorted(draw(st.lists(st.integers(start, end), min_size=2 * count, max_size=2 * count)))
    spans: list[Span] = []
    for a, b in zip(cuts[::2], cuts[1::2], strict=True):
        spans.append((a, b, f"depth {depth}"))
        if depth and b > a:
            spans += draw(nested(a, b, depth - 1))
    return spans


def test_structure(study: Any) -> None:
    _, variants = study
    parsed = parse(traces.build(".json", variants["ACE"], "ACE"))
    names: dict[tuple[str, int, int | None], str] = {}
    for e in parsed["traceEvents"]:
        assert isinstance(e["pid"], int)
        assert e["pid"] > 0
        assert isinstance(e["name"], str)
        if e["ph"] == "M" and e["name"].endswith("_name"):
            key = (e["name"], e["pid"], e.get("tid"))
            assert key not in names
            names[key] = e["args"]["name"]
        elif e["ph"] == "X":
            assert e["ts"] >= 0
            assert e["dur"] >= 0
            assert ("thread_name", e["pid"], e["tid"]) in names
        elif e["ph"] == "C":
            assert isinstance(e["args"]["value"], (int, Decimal))
        else:
            assert e["ph"] == "M"
    processes = [n for (what, _, _), n in names.items() if what == "process_name"]
    assert processes == ["utilisation", "NPU 0", "NPU 1"]
    threads = [n for (what, pid, _), n in names.items() if what == "thread_name" and pid == 1]
    assert threads[:2] == ["compute", "exposed"]
    phases = [n for n in threads if n.startswith("phase 0")]
    assert phases == [f"phase 0 lane 0 slot {i}" for i in (0, 4, 8)], "numbers in their order"
    counters = {e["name"] for e in parsed["traceEvents"] if e["ph"] == "C"}
    assert len(counters) == 5
    starts = [e["ts"] for e in slices_of(parsed)]
    assert starts == sorted(starts)
    assert parsed["otherData"]["slices_dropped"] == 0
    assert "nesting_problems" not in parsed["otherData"]


def test_every_slice_is_there_to_the_picosecond(study: Any) -> None:
    _, variants = study
    table = variants["ACE"]["slices"]
    events = slices_of(parse(traces.build(".json", variants["ACE"], "ACE")))
    found = sorted(
        (
            e["args"]["start_ps"] if "args" in e else exactly(e["ts"]) * 1000,
            e["args"]["end_ps"] if "args" in e else exactly(e["ts"] + e["dur"]) * 1000,
            e["name"],
        )
        for e in events
    )
    assert found == sorted((s.start_ps, s.end_ps, s.name) for s in timeline.read_slices(table))


def test_same_input_gives_the_same_bytes(study: Any) -> None:
    _, variants = study
    for limit in (50_000_000, 100_000):
        assert traces.build(".json", variants["ACE"], "ACE", limit) == traces.build(
            ".json", variants["ACE"], "ACE", limit
        )


@given(nested())
def test_slices_nest_for_every_viewer(make_table: Any, spans: list[Span]) -> None:
    table = make_table("npu track name start_ps end_ps", [[0, "t", n, a, b] for a, b, n in spans])
    assert timeline.check_nesting(sorted(timeline.read_slices(table), key=timeline.order)) == []
    events = slices_of(parse(traces.build(".json", {"slices": table}, "x")))
    assert len(events) == len(spans)
    for reader in (exactly, rounded):
        assert timeline.check_nesting(as_seen(events, reader)) == []


def test_rounding_each_number_on_its_own_would_overlap() -> None:
    """Why times are put on the nanosecond grid: two halves of a nanosecond are one too many."""
    naive = [
        {"pid": 1, "tid": 1, "name": "a", "ts": 0.0005, "dur": 0.0015},
        {"pid": 1, "tid": 1, "name": "b", "ts": 0.002, "dur": 0.5},
    ]
    assert timeline.check_nesting(as_seen(naive, rounded)) != []


def test_check_nesting_sees_what_is_wrong() -> None:
    def check(*spans: tuple[int, int]) -> list[str]:
        slices = [timeline.Slice(0, "t", f"{a}-{b}", a, b) for a, b in spans]
        found: list[str] = timeline.check_nesting(sorted(slices, key=timeline.order))
        return found

    assert check((0, 10), (10, 20), (0, 5), (5, 10), (20, 20)) == []
    assert len(check((0, 10), (5, 15))) == 1
    assert "'5-15'" in check((0, 10), (5, 15))[0]
    assert len(check((0, 10), (2, 8), (6, 9))) == 1
    assert "ends before it starts" in check((7, 3))[0]


def test_tracks_do_not_disturb_each_other() -> None:
    slices = [timeline.Slice(0, "a", "x", 0, 10), timeline.Slice(0, "b", "y", 5, 15)]
    assert timeline.check_nesting([*slices, timeline.Slice(1, "a", "z", 5, 15)]) == []


def test_overlaps_in_the_input_are_stated(make_table: Any) -> None:
    table = make_table("npu track name start_ps end_ps", [[0, "t", "a", 0, 9], [0, "t", "b", 5, 12]])
    other = parse(traces.build(".json", {"slices": table}, "x"))["otherData"]
    assert other["nesting_problems"] == 1
    assert "'b'" in other["first_nesting_problem"]


@pytest.mark.parametrize("limit", [200_000, 60_000, 20_000, 5_000])
def test_what_is_dropped_is_counted(study: Any, limit: int) -> None:
    _, variants = study
    data = traces.build(".json", variants["ACE"], "ACE", limit)
    assert len(data) <= limit
    parsed = parse(data)
    other, events = parsed["otherData"], slices_of(parsed)
    assert other["slices_written"] == len(events)
    assert other["slices_written"] + other["slices_dropped"] == other["slices_total"] == 868
    lengths = sorted((s.end_ps - s.start_ps for s in timeline.read_slices(variants["ACE"]["slices"])), reverse=True)
    if events:
        assert other["shortest_slice_written_ps"] == lengths[len(events) - 1], "the longest stay"
    assert timeline.check_nesting(as_seen(events, rounded)) == []
    assert other["exact_picoseconds"] is False


def test_more_slices_than_could_ever_fit(make_table: Any) -> None:
    rows = [[0, "t", "s", 1000 * i, 1000 * i + i % 997] for i in range(5_000)]
    table = make_table("npu track name start_ps end_ps", rows)
    parsed = parse(traces.build(".json", {"slices": table}, "x", 30_000))
    assert parsed["otherData"]["slices_total"] == 5_000
    assert parsed["otherData"]["shortest_slice_written_ps"] > 900


def test_a_limit_that_nothing_fits_is_refused(study: Any) -> None:
    _, variants = study
    with pytest.raises(ValueError, match="a trace needs"):
        traces.build(".json", variants["ACE"], "ACE", 100)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.text(max_size=8),
            st.text(max_size=8),
            st.integers(0, 10**15),
            st.integers(0, 10**12),
        ),
        max_size=20,
    ),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), max_size=20),
)
def test_odd_tables_make_valid_json(
    make_table: Any, rows: list[tuple[int, str, str, int, int]], values: list[float | None]
) -> None:
    tables = {
        "slices": make_table("npu track name start_ps end_ps", [[*r[:3], r[3], r[3] + r[4]] for r in rows]),
        "windows": make_table("window start_ps compute", [[i, 1000 * i, v] for i, v in enumerate(values)]),
    }
    parsed = parse(traces.build(".json", tables, "\u2028<odd>"))
    assert len(slices_of(parsed)) == len(rows)


def test_nothing_at_all() -> None:
    parsed = parse(traces.build(".json", {}, "empty"))
    assert parsed["traceEvents"] == []
    assert parsed["otherData"]["slices_total"] == 0
