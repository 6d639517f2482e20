"""`syncline trees --sweep allocations`: rows, files, interruptions, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from support.command import Ended
from syncline.studies.trees import sweep_table

Command = Callable[..., Ended]

PATIENCE_S = 120
SWEEP = ("trees", "--machine", "dgx1v", "--sweep", "allocations")


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


def test_the_allocations_of_the_paper(tmp_path: Path, syncline_command: Command) -> None:
    """46 distinct ones that NVLinks connect, with trees at least as fast as rings (Blink, sections 5 and 5.1)."""
    out = tmp_path / "t.parquet"
    flags = ["--collective", "all-reduce", "--sizes", "3-8", "--json"]
    document = _document(syncline_command(*SWEEP, *flags, "-o", str(out)))
    rows = document["rows"]
    connected = [row for row in rows if row["components"] == 1]
    assert len(connected) == 46
    assert sum(row["allocations"] for row in rows) == document["allocations"] == sum(comb(8, n) for n in range(3, 9))
    assert all(row["trees_rate_links"] == row["bound_rate_links"] > 0 for row in connected)
    assert all(row["theoretical_speedup"] >= 1 for row in connected)
    assert all(row["theoretical_speedup"] is row["depth"] is None for row in rows if row["components"] > 1)
    whole = rows[-1]
    assert (whole["gpus"], whole["trees_rate_links"]) == ("0-7", pytest.approx(24 / 7))
    assert whole["theoretical_speedup"] == pytest.approx(1)
    # The paper counts half of an NVLink for PCIe, which is 6 GB/s here.
    most = max(
        row["trees_rate_links"] / (0.5 * row["rings_rate_links"] / 0.24) for row in connected if row["rings_over_pcie"]
    )
    assert most == pytest.approx(6.4)
    table = pq.read_table(out)
    assert table.to_pylist() == [{name: row.get(name) for name in table.column_names} for row in rows]


def test_the_file_says_what_it_holds(tmp_path: Path, syncline_command: Command) -> None:
    out = tmp_path / "t.parquet"
    flags = ["--sizes", "3", "--compare", "--threads", "1"]
    assert syncline_command(*SWEEP, *flags, "-o", str(out)).status == 0
    schema = pq.read_schema(out)
    assert schema.names == [column.name for column in (*sweep_table.COLUMNS, *sweep_table.COMPARED)]
    for field in schema:
        assert field.metadata[b"unit"]
        assert field.metadata[b"meaning"].endswith(b".")
    about = json.loads(schema.metadata[sweep_table.METADATA.encode()])
    assert about["status"] == "complete"
    assert (about["machine"], about["collective"], about["backend"]) == ("dgx1v", "broadcast", "flow")
    assert (about["size_bytes"], about["endpoint"]) == (100_000_000, "ideal")


def test_simulated_times_are_those_of_the_comparison(syncline_command: Command) -> None:
    flags = ["--collective", "all-reduce", "--size", "30MB", "--compare", "--endpoint", "streams"]
    rows = _document(syncline_command(*SWEEP, "--sizes", "3", *flags, "--threads", "1", "--json"))["rows"]
    for row in (rows[0], rows[1], rows[-1]):
        alone = _document(syncline_command("trees", "--machine", "dgx1v", "--gpus", row["gpus"], *flags, "--json"))
        for entry in alone["comparison"][:-1]:
            name = sweep_table.NAMES[entry["algorithm"]]
            assert row[f"{name}_time_s"] == entry["time_s"]
            assert row[f"{name}_reason"] == entry["reason"]
            assert row[f"{name}_over"] == (None if entry["over"] is None else ", ".join(entry["over"]))
            wanted = entry["algorithm_bandwidth_bytes_per_s"]
            assert row[f"{name}_algorithm_bandwidth_bytes_per_s"] == wanted
        assert (row["trees"], row["trees_rate_links"]) == (len(alone["trees"]), alone["rate_links"])
        assert row["depth"] == max((tree["depth"] for tree in alone["trees"]), default=None)
    assert rows[0]["speedup"] == pytest.approx(rows[0]["rings_time_s"] / rows[0]["trees_time_s"])
    assert rows[-1]["speedup"] is None
    assert rows[-1]["trees_reason"]


def test_several_processes_find_the_same(syncline_command: Command) -> None:
    flags = ["--sizes", "2,3", "--compare", "--json"]
    one, two = (_document(syncline_command(*SWEEP, *flags, "--threads", n)) for n in ("1", "2"))
    assert one["rows"] == two["rows"]


def test_a_row_for_each_has_the_numbers_of_its_kind(syncline_command: Command) -> None:
    """Rates hold for all that is alike, PCIe's among them."""
    alike = _document(syncline_command(*SWEEP, "--collective", "all-reduce", "--json"))["rows"]
    each = _document(syncline_command(*SWEEP, "--collective", "all-reduce", "--every", "--json"))["rows"]
    assert len(each) == 247
    assert {row["allocations"] for row in each} == {1}
    names = (
        "gpu_count",
        "components",
        "trees_rate_links",
        "bound_rate_links",
        "rings_rate_links",
        "rings_over_pcie",
        "theoretical_speedup",
    )

    def counted(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
        found: dict[tuple[Any, ...], int] = {}
        for row in rows:
            key = tuple(row[name] for name in names)
            found[key] = found.get(key, 0) + row["allocations"]
        return found

    assert counted(alike) == counted(each)
    for column in ("theoretical_speedup",):
        assert sweep_table.spreads(alike, column) == sweep_table.spreads(each, column)


def test_the_root_is_the_first_gpu(syncline_command: Command) -> None:
    rows = _document(syncline_command(*SWEEP, "--sizes", "5", "--json"))["rows"]
    assert all(row["root"] == int(row["gpus"][0]) for row in rows)
    rows = _document(syncline_command(*SWEEP, "--sizes", "5", "--collective", "all-gather", "--json"))["rows"]
    assert all(row["root"] is None for row in rows)


def test_some_gpus_of_a_machine(syncline_command: Command) -> None:
    rows = _document(syncline_command(*SWEEP, "--gpus", "1,4,5,6", "--json"))["rows"]
    assert sum(row["allocations"] for row in rows) == 6 + 4 + 1
    assert rows[-1]["gpus"] == "1,4-6"


def test_machines_on_switches_and_files(tmp_path: Path, syncline_command: Command) -> None:
    rows = _document(syncline_command("trees", "--machine", "dgx2", "--sweep", "allocations", "--json"))["rows"]
    assert [row["gpu_count"] for row in rows] == list(range(2, 17))
    assert all(row["theoretical_speedup"] == pytest.approx(1) for row in rows)
    path = tmp_path / "links.yaml"
    path.write_text("npus: 3\nlinks:\n  - {from: 0, to: 1, rate: 20GB/s, latency: 500ns}\n")
    ended = syncline_command("trees", "--topology-file", str(path), "--sweep", "allocations", "--compare", "--json")
    rows = _document(ended)["rows"]
    assert [(row["gpus"], row["components"]) for row in rows] == [("0-1", 1), ("0,2", 2), ("0-2", 2)]
    assert {row["theoretical_speedup"] for row in rows} == {None}
    assert rows[0]["trees_time_s"] > 0
    assert rows[1]["trees_time_s"] is None


def test_tables_as_text(tmp_path: Path, syncline_command: Command) -> None:
    out = tmp_path / "t.csv"
    ended = syncline_command(*SWEEP, "--sizes", "3-4", "-o", str(out))
    assert ended.status == 0
    assert "3 GPUs, trees over rings in theory: 1.00x to 8.33x, median 4.17x (32 allocations)" in ended.out
    table = pyarrow.csv.read_csv(out)
    assert table.column_names == [column.name for column in sweep_table.COLUMNS]
    assert f"table: {out}" in ended.err
    # Its own table is replaced, the journal is kept, and nothing else is overwritten.
    assert syncline_command(*SWEEP, "--sizes", "3-4", "-o", str(out), "--resume").status == 0
    other = tmp_path / "notes.csv"
    other.write_text("mine\n")
    assert syncline_command(*SWEEP, "-o", str(other)).status == 2
    assert other.read_text() == "mine\n"


def test_the_figure_is_the_same_each_time(tmp_path: Path, syncline_command: Command) -> None:
    texts = []
    for name in ("a.svg", "b.svg"):
        ended = syncline_command(*SWEEP, "--sizes", "3-5", "--svg", str(tmp_path / name))
        assert ended.status == 0, ended.err
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]
    shown = "".join(ElementTree.fromstring(texts[0]).itertext())
    for said in ("packed trees", "rings", "bound", "number of GPUs", "0,2-3"):
        assert said in shown


def test_nothing_is_connected(tmp_path: Path, syncline_command: Command) -> None:
    """A figure without a bar, a page without a speed-up."""
    files = ["--svg", str(tmp_path / "f.svg"), "--html", str(tmp_path / "p.html")]
    ended = syncline_command(*SWEEP, "--gpus", "3,4", *files)
    assert ended.status == 0, ended.err
    assert "no allocation is connected" in (tmp_path / "f.svg").read_text()
    assert "No allocation has both trees and rings." in (tmp_path / "p.html").read_text()


def _start(out: Path) -> subprocess.Popen[str]:
    flags = ["--compare", "--endpoint", "streams", "--threads", "2", "-o", str(out)]
    command = [sys.executable, "-m", "syncline", *SWEEP, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def _finished(out: Path) -> int:
    journal = out.with_name(f"{out.name}.journal")
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


def test_interrupted(tmp_path: Path, syncline_command: Command) -> None:
    """What is finished can be read, and is not found again."""
    out = tmp_path / "t.parquet"
    process = _start(out)
    deadline = time.monotonic() + PATIENCE_S
    while _finished(out) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "of 56 allocations are finished" in err
    assert "Traceback" not in err
    partial = pq.read_table(out)
    about = json.loads(partial.schema.metadata[sweep_table.METADATA.encode()])
    assert about["status"] == "partial"
    assert 3 <= partial.num_rows == _finished(out) < 56
    assert set(partial.column("status").to_pylist()) == {"done"}
    again = syncline_command(*SWEEP, "--compare", "--endpoint", "streams", "-o", str(out))
    assert (again.status, "there is a journal of an earlier sweep" in again.err) == (2, True)
    # Another question to the same file finds its own rows, and leaves those of the first alone.
    other = syncline_command(*SWEEP, "--sizes", "2", "--resume", "-o", str(out), "--json")
    assert [row["gpus"] for row in _document(other)["rows"]] == ["0-1", "0,3", "0,5"]


def test_the_page_of_what_is_partial(tmp_path: Path, syncline_command: Command) -> None:
    rows = _document(syncline_command(*SWEEP, "--sizes", "3", "--json"))["rows"]
    rows[0] |= {"status": "failed", "error": "<b>out of memory</b>"}
    about = {"machine": "dgx1v", "collective": "broadcast", "links": "nvlink", "size_bytes": 1, "backend": None}
    table = sweep_table.Table(rows, {**about, "endpoint": None}, 9)
    from syncline.report.trees import sweep_figure, sweep_page

    document = {"failed": table.failed, "warnings": [], "assumptions": []}
    text = sweep_page.build(table, document, sweep_figure.svg(table), "syncline trees")
    assert "Partial: 7 of 9 rows are there, and 1 of them failed." in text
    assert "&lt;b&gt;out of memory" in text
    assert table.status == "partial"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--sweep", "roots"), "--sweep: this is nothing to sweep over"),
        (("--sizes", "1-3"), "accepted: numbers of GPUs from 2 to 8"),
        (("--sizes", "7-9"), "--sizes: there are 8 GPUs to choose from"),
        (("--sizes", "3,3"), "--sizes: size 3 is listed twice"),
        (("--sizes", "3-9999999"), "--sizes: this is beyond any machine"),
        (("--sizes", "many"), "--sizes: 'many' is neither"),
        (("--root", "2"), "--root: in a sweep, the root is the first GPU"),
        (("--format", "plan"), "--format: a sweep writes no plans"),
        (("--gpus", "4"), "--gpus: a sweep needs GPUs to choose from"),
        (("-o", "table.txt"), "FILE.parquet, FILE.csv, FILE.json"),
        (("-o", "/nowhere/t.parquet"), "the directory of this file does not exist"),
        (("--resume",), "--resume: there is nothing to go on with"),
        (("--threads", "0"), "--threads: this is out of range"),
        (("--svg", "/nowhere/f.svg"), "--svg: this cannot be written"),
        (("--collective", "all-to-all"), "this collective is not known"),
    ],
)
def test_wrong_input(flags: tuple[str, ...], said: str, syncline_command: Command) -> None:
    given = SWEEP if "--sweep" not in flags else SWEEP[:3]
    ended = syncline_command(*given, *flags)
    assert ended.status == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("machine", "flags", "said"),
    [
        ("dgx1v(nodes=2)", (), "there are 65519 allocations of 2 to 16 GPUs to look at, more than 2000"),
        ("dgx2", ("--every",), "or no --every"),
        ("gb200-nvl72", (), "more than a table can count"),
        ("dgx-h100(nodes=33)", (), "trees of 264 GPUs take too long"),
    ],
)
def test_too_many_allocations(machine: str, flags: tuple[str, ...], said: str, syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", machine, "--sweep", "allocations", *flags)
    assert ended.status == 2
    assert said in ended.err


def test_spreads_count_allocations() -> None:
    values = ((1.0, 1), (2.0, 1), (3.0, 6))
    rows: list[dict[str, Any]] = [{"gpu_count": 2, "allocations": many, "x": value} for value, many in values]
    rows.append({"gpu_count": 3, "allocations": 5, "x": None})
    (found,) = sweep_table.spreads(rows, "x")
    assert (found.allocations, found.least, found.lower, found.median, found.most) == (8, 1.0, 2.0, 3.0, 3.0)
