"""The trace in Perfetto's format, read with Perfetto's own classes, shows what the trace for Chrome shows."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.perfetto_traces import Read, read
from syncline.results import perfetto, timeline, traces


def of_chrome(content: bytes) -> dict[str, Any]:
    """What the trace for Chrome shows, in the same words."""
    parsed = json.loads(content, parse_float=Decimal)
    events = parsed["traceEvents"]
    meta = [e for e in events if e["ph"] == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in meta if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta if e["name"] == "thread_name"}

    def ns(value: Any) -> int:
        return int(Decimal(value) * 1000)

    slices = Counter(
        (
            *(processes[e["pid"]], threads[e["pid"], e["tid"]], e["name"]),
            *(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])),
            tuple(sorted(e.get("args", {}).items())),
        )
        for e in events
        if e["ph"] == "X"
    )
    counters: dict[str, list[tuple[int, float]]] = {}
    for e in events:
        if e["ph"] == "C":
            counters.setdefault(e["name"], []).append((ns(e["ts"]), float(e["args"]["value"])))
    flows = {
        kind: {
            e["id"]: (processes[e["pid"]], threads[e["pid"], e["tid"]], ns(e["ts"])) for e in events if e["ph"] == kind
        }
        for kind in "sf"
    }
    return {"slices": slices, "counters": counters, "flows": flows, "other": parsed["otherData"]}


def compare(found: Read, chrome: dict[str, Any]) -> None:
    """Asserts that both traces show the same."""
    slices = Counter(
        (s.process, s.track, s.name, s.start_ns, s.end_ns, tuple(sorted(s.exact.items()))) for s in found.slices
    )
    assert slices == chrome["slices"]
    titled = {}
    for name, samples in found.counters.items():
        unit = {"UNIT_SIZE_BYTES": "bytes", "UNIT_COUNT": ""}.get(found.units[name], found.units[name])
        titled[f"{name} ({unit})" if unit else name] = samples
    assert titled == chrome["counters"]
    for kind, field in (("s", "flows"), ("f", "ends_of_flows")):
        ends = {flow: (s.process, s.track, s.start_ns) for s in found.slices for flow in getattr(s, field)}
        assert ends == chrome["flows"][kind]
    shared = ("variant", "slices_total", "slices_written", "slices_dropped", "arrows_written", "windows_total")
    assert {key: found.about[key] for key in shared} == {key: chrome["other"][key] for key in shared}


@pytest.fixture(name="exchange")
def exchange_(make_table: Any) -> dict[str, Any]:
    """Two NPUs and a switch: three messages that overlap, one of which has not arrived, and busy links."""
    return {
        "slices": make_table(
            "npu track name start_ps end_ps",
            [
                [n, t, f"{t} of {n}", 0, 90_500]
                for n in (0, 1)
                for t in ("compute", "collective fc", "phase 0 ring slot 00")
            ],
        ),
        "messages": make_table(
            "src src_port dst dst_port bytes sent_ps arrived_ps",
            [
                [0, "up", 1, "down", 4096, 1_000, 21_250],
                [0, "up", 1, "down", 3 * 2**20, 1_000, 30_000],
                [1, "down", 0, "up", 100, 5_000, 5_999],
                [0, "up", 1, "down", 100, 40_000, None],
                [2, "a", 1, "b", 100, 10_000, 20_000],
                [0, "", 0, "", 7, 50_000, 51_000],
            ],
        ),
        "link_spans": make_table(
            "node port to start_ps end_ps busy_ps",
            [[0, "up", 1, 1_000, 20_999, 19_999], [0, "up", 1, 30_000, 40_000, 2_500], [2, "p", 1, 0, 10, 10]],
        ),
        "windows": make_table(
            "window start_ps compute links sram_bytes", [[i, 10_000 * i, i % 3 / 2, 0.25, 1000 * i] for i in range(9)]
        ),
    }


def test_it_shows_what_the_trace_for_chrome_shows(study: Any, exchange: Any) -> None:
    _, variants = study
    for tables in (variants["ACE"], exchange):
        found = read(perfetto.build(tables, "ACE"))
        compare(found, of_chrome(traces.build(".json", tables, "ACE")))
        assert found.about["exact_picoseconds"] is True


def test_slices_are_those_of_the_table(study: Any) -> None:
    _, variants = study
    rows = timeline.read_slices(variants["ACE"]["slices"])
    found = read(perfetto.build(variants["ACE"], "ACE"))
    exact = Counter(
        (s.track, s.name, s.exact.get("start_ps", 1000 * s.start_ns), s.exact.get("end_ps", 1000 * s.end_ns))
        for s in found.slices
    )
    assert exact == Counter((s.track, s.name, s.start_ps, s.end_ps) for s in rows)


def test_processes_groups_and_categories(exchange: Any) -> None:
    found = read(perfetto.build(exchange, "x"))
    assert sorted(found.processes.values()) == ["NPU 0", "NPU 1", "utilisation"]
    groups = {
        (s.track.split(",")[0].rstrip(" 0123456789"), s.groups, s.category)
        for s in found.slices
        if s.process == "NPU 0"
    }
    assert groups == {
        ("compute", (), "compute"),
        ("collective fc", ("collectives",), "collective"),
        ("phase 0 ring slot", ("engine",), "phase"),
        ("sends by up", ("messages",), "message"),
        ("sends to itself", ("messages",), "message"),
        ("receives", ("messages",), "message"),
        ("link up", ("links",), "link"),
    }
    assert found.units == {"compute busy": "%", "links busy": "%", "SRAM held": "UNIT_SIZE_BYTES"}


def test_arrows_lead_from_who_sent_to_who_received_at_the_times_of_the_table(exchange: Any) -> None:
    found = read(perfetto.build(exchange, "x"))
    begin = {flow: s for s in found.slices for flow in s.flows}
    end = {flow: s for s in found.slices for flow in s.ends_of_flows}
    rows = exchange["messages"].to_pylist()
    assert begin.keys() == end.keys() == {1, 2, 3, 6}, "neither what has not arrived nor what an untraced node sent"
    for flow, sender in begin.items():
        row = rows[flow - 1]
        assert sender.process == f"NPU {row['src']}"
        assert end[flow].process == f"NPU {row['dst']}"
        assert (sender.start_ns, end[flow].start_ns) == (row["sent_ps"] // 1000, row["arrived_ps"] // 1000)
    assert begin[2].track == "sends by up, slot 01", "the first one is still under way"
    names = [s.name for s in found.slices if s.track.startswith("sends")]
    assert "3 MiB to NPU 1" in names
    assert "100 B to NPU 1, under way at the end" in names
    assert [s.name for s in found.slices if s.track == "receives" and not s.ends_of_flows] == ["100 B from node 2"]


def test_links_are_busy_as_the_table_says(exchange: Any) -> None:
    found = read(perfetto.build(exchange, "x"))
    links = [(s.process, s.track, s.name, s.start_ns, s.end_ns) for s in found.slices if s.groups == ("links",)]
    assert sorted(links) == [
        ("NPU 0", "link up", "25 % busy", 30, 40),
        ("NPU 0", "link up", "busy", 1, 20),
        ("NPU 1", "link of node 2, p", "busy", 0, 0),
    ]


def test_a_folded_run_says_where_its_arrows_end(exchange: Any, make_table: Any) -> None:
    exchange["links"] = make_table("node copies port", [[0, 8, "up"]])
    found = read(perfetto.build(exchange, "x"))
    assert found.about["folded"] == timeline.FOLDED
    assert "4 KiB by up" in {s.name for s in found.slices}


def test_a_table_that_is_full_is_said_to_be_cut(exchange: Any) -> None:
    assert read(perfetto.build(exchange, "x", limit=120)).about["messages_cut_at_ps"] == 50_000
    assert "messages_cut_at_ps" not in read(perfetto.build(exchange, "x", limit=121)).about


@pytest.mark.parametrize("limit", [60_000, 20_000, 5_000])
def test_what_is_dropped_is_counted(study: Any, limit: int) -> None:
    _, variants = study
    content = perfetto.build(variants["ACE"], "ACE", limit)
    assert len(content) <= limit
    found = read(content)
    assert found.about["slices_written"] == len(found.slices)
    assert found.about["slices_written"] + found.about["slices_dropped"] == found.about["slices_total"] == 868
    lengths = sorted((s.length_ps for s in timeline.read_slices(variants["ACE"]["slices"])), reverse=True)
    if found.slices:
        assert found.about["shortest_slice_written_ps"] == lengths[len(found.slices) - 1], "the longest stay"
    assert content == perfetto.build(variants["ACE"], "ACE", limit)


def test_arrows_go_with_either_of_their_ends(exchange: Any) -> None:
    size = len(perfetto.build(exchange, "x"))
    found = read(perfetto.build(exchange, "x", size * 2 // 3))
    begin = {flow for s in found.slices for flow in s.flows}
    assert begin == {flow for s in found.slices for flow in s.ends_of_flows}
    assert len(begin) == found.about["arrows_written"] < 4


def test_a_limit_that_nothing_fits_is_refused(study: Any) -> None:
    with pytest.raises(ValueError, match="a trace needs"):
        perfetto.build(study[1]["ACE"], "ACE", 100)


ROWS = st.tuples(
    st.integers(0, 5), st.text(max_size=8), st.text(max_size=8), st.integers(0, 10**15), st.integers(0, 10**12)
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(ROWS, max_size=20))
def test_odd_names_and_slices_that_overlap_are_all_there(
    make_table: Any, rows: list[tuple[int, str, str, int, int]]
) -> None:
    table = make_table("npu track name start_ps end_ps", [[*r[:3], r[3], r[3] + r[4]] for r in rows])
    found = read(perfetto.build({"slices": table}, "\u2028<odd>"))
    assert Counter((s.process, s.track, s.name, s.start_ns, s.end_ns) for s in found.slices) == Counter(
        (f"NPU {npu}", track, name, start // 1000, (start + length) // 1000) for npu, track, name, start, length in rows
    )


def test_halves_of_characters_in_names(make_table: Any) -> None:
    found = read(perfetto.build({}, "\ud800"))
    assert found.about["variant"] == "?"


@pytest.mark.skipif("TRACE_PROCESSOR" not in os.environ, reason="TRACE_PROCESSOR names no trace processor")
def test_the_trace_processor_opens_it(exchange: Any, tmp_path: Path) -> None:
    place, query = tmp_path / "x.pftrace", tmp_path / "query.sql"
    place.write_bytes(perfetto.build(exchange, "x"))
    query.write_text(
        "select (select count(*) from slice where dur >= 0), (select count(*) from flow),"
        " (select count(*) from counter), (select sum(value) from stats where severity = 'error');"
    )
    command = [os.environ["TRACE_PROCESSOR"], "-q", str(query), str(place)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = read(place.read_bytes())
    flows = sum(len(s.flows) for s in found.slices)
    expected = [len(found.slices) + 1, flows, sum(map(len, found.counters.values())), 0]
    assert [int(float(word)) for word in out.splitlines()[-1].split(",")] == expected
