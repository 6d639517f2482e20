"""Connection matrices of htsim: as the workload of a run, and what is said of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.command import Ended, run
from syncline.base.errors import InputError
from syncline.sections import connection_matrix, graph_file

CHAIN = """# flows that follow each other
Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 20000 send_done_trigger 1
0->2 id 2 trigger 1 size 30000 recv_done_trigger 2
1->3 id 3 start 10000000 size 1000
3->0 id 4 trigger 2 size 100
trigger id 1 oneshot
trigger id 2 barrier count 1
"""
EXPERIMENT = """name: flows
topology: "Switch(4, rate=100Gb/s, latency=500ns)"
workload: {graph: flows.cm}
endpoint: {kind: ideal, step_latency: 0s}
network: ethernet
"""


def ran(folder: Path, text: str, *arguments: str) -> Ended:
    """A run of a matrix."""
    (folder / "flows.cm").write_text(text)
    (folder / "e.yaml").write_text(EXPERIMENT)
    out = () if arguments else ("--out", folder / "run")
    return run(*(arguments or ("run",)), folder / "e.yaml", "--json", *out)


def flows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of connections by their ends."""
    rows = pq.read_table(folder / "run/flows/tables/flows.parquet").to_pylist()
    return {(row["src"].split()[1], row["dst"].split()[1]): row for row in rows}


def test_flows_begin_at_their_starts_and_by_their_triggers(tmp_path: Path) -> None:
    done = ran(tmp_path, CHAIN)
    assert done.status == 0, done.err
    found = flows(tmp_path)
    sizes = {pair: row["bytes"] for pair, row in found.items()}
    # A message without bytes, which takes one of its connection, tells NPU 3 that NPU 2 has taken its flow in.
    assert sizes == {("0", "1"): 20_000, ("0", "2"): 30_000, ("1", "3"): 1000, ("3", "0"): 100, ("2", "3"): 1}
    us = 1_000_000
    assert found["0", "1"]["began_ps"] < us
    assert 10 * us <= found["1", "3"]["began_ps"] < 11 * us
    assert found["2", "3"]["began_ps"] >= found["0", "2"]["ended_ps"]
    assert found["3", "0"]["began_ps"] >= found["2", "3"]["ended_ps"]
    assert json.loads(done.out)["runs"][0]["total_time_s"] == pytest.approx(
        max(row["ended_ps"] for row in found.values()) / 1e12, rel=0.01
    )
    assert sorted(path.suffix for path in (tmp_path / "run/inputs").iterdir()) == [".cm"]


def test_a_permutation_takes_the_time_of_its_frames(tmp_path: Path) -> None:
    lines = [f"{i}->{(i + 1) % 4} id {i + 1} start 0 size 10000" for i in range(4)]
    done = ran(tmp_path, "Nodes 4\nConnections 4\n" + "\n".join(lines) + "\n")
    assert done.status == 0, done.err
    # Six full frames and one of 1312 + 54 B on the first link, the last one on the second, and two latencies.
    expected = 6 * 120.16e-9 + 2 * 109.28e-9 + 1e-6
    assert json.loads(done.out)["runs"][0]["total_time_s"] == pytest.approx(expected, rel=0.05)


def test_nodes_that_do_nothing_need_not_be_there(tmp_path: Path) -> None:
    done = ran(tmp_path, "Nodes 9\nConnections 1\n0->1 start 0 size 1\n", "check")
    assert done.status == 0, done.err


def test_nodes_beyond_the_fabric_are_refused_with_the_line(tmp_path: Path) -> None:
    done = ran(tmp_path, "Nodes 9\nConnections 1\n0->8 start 0 size 1\n", "check")
    assert (done.status, done.out) == (2, "")
    errors = json.loads(done.err)["errors"]
    assert any((error["file"], error["line"]) == ("flows.cm", 3) for error in errors), errors
    assert any("there is no NPU 8" in error["message"] for error in errors), errors


WRONG = {
    "Nodes 4": ("Nodes four", 2, "Nodes", "1 to"),
    "Connections 4": ("Connections 5", 3, "Connections", "4"),
    "Triggers 2": ("Triggers 1", 4, "Triggers", "2"),
    "0->1 id 1": ("0->4 id 1", 5, "destination", "0 to 3"),
    "0->2 id 2": ("0->0 id 2", 6, "destination", "another node"),
    "1->3 id 3 start": ("1-3 id 3 start", 7, "", "a flow such as 1->0"),
    "id 3": ("id 1", 7, "id", "an id of its own"),
    "start 0 size": ("start -1 size", 5, "start", "0 to"),
    "start 0 ": ("", 5, "start", "start or trigger"),
    "size 1000\n": ("\n", 7, "size", "1 to"),
    "size 100\n": ("size 0\n", 8, "size", "1 to"),
    "size 20000": ("size 2 size 3", 5, "size", "each key once"),
    "trigger 2 size": ("trigger 7 size", 8, "trigger", "the id of a trigger line"),
    "send_done_trigger 1": ("send_done 1", 5, "", "id, start"),
    "oneshot": ("sometimes", 9, "", "oneshot"),
    "barrier count 1": ("barrier count 2", 10, "trigger", "the count of a barrier"),
    "barrier count 1\n": ("barrier\n", 10, "count", "1 or more"),
    "id 2 barrier": ("id 1 barrier", 10, "id", "an id of its own"),
    "# flows": ("Failures 1\n# flows", 1, "Failures", "network.faults"),
    "0->1 id 1 start 0": ("0->1 id 1 trigger 2", 5, "trigger", "a trigger that fires"),
    "# flows that": ("hello\n# flows that", 1, "", "Nodes"),
}


@pytest.mark.parametrize("before", WRONG)
def test_damaged_files_are_refused_with_their_line(before: str) -> None:
    after, line, field, accepted = WRONG[before]
    assert before in CHAIN
    with pytest.raises(InputError) as refused:
        connection_matrix.read(CHAIN.replace(before, after, 1).encode(), "flows.cm")
    found = [(problem.file, problem.line, problem.field) for problem in refused.value.problems]
    assert ("flows.cm", line, field) in found, refused.value.as_text()
    assert any(accepted in (problem.accepted or "") for problem in refused.value.problems), refused.value.as_text()


def test_headers_are_needed() -> None:
    with pytest.raises(InputError) as refused:
        connection_matrix.read(b"0->1 start 0 size 1\n", "flows.cm")
    assert [problem.field for problem in refused.value.problems] == ["Nodes", "Connections"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 20),
            st.sampled_from(["", "->", "0", "99999999999999999999", "\n", "trigger ", "start ", "\x00", "\u2028", "é"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_mutated_files_are_read_or_refused(changes: list[tuple[float, int, str]]) -> None:
    text = CHAIN
    for place, length, piece in changes:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    try:
        matrix = connection_matrix.read(text.encode(), "fuzz")
    except InputError as error:
        assert all(problem.message for problem in error.problems)
    else:
        # What is a legal matrix is a legal graph.
        graph = graph_file.read(text.encode(), "fuzz").graph
        sent = sum(node.send.size for of in graph.classes.values() for node in of.nodes if node.send is not None)
        assert sent == sum(flow.size for flow in matrix.flows)
