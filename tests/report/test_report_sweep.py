"""The page of a sweep: complete, escaped, and right about what is best."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import Ended
from support.experiments import THREE_SYSTEMS
from support.pages import charts_of, check_page
from support.sweeps import ABOUT, row
from syncline.report import sweep

Command = Callable[..., Ended]

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@given(POINTS)
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one != other and one[0] <= other[0] and one[1] >= other[1]

    front = sweep.pareto(points)
    assert sorted(front) == [i for i, p in enumerate(points) if not any(beats(q, p) for q in points)]
    assert [points[i][0] for i in front] == sorted(points[i][0] for i in front)


def test_maps_and_fronts() -> None:
    rows = [row(s, f, t) for s in (1, 4) for f in (8, 16) for t in ("Ring(4)", "Ring(8)")]
    page = sweep.build(rows, ABOUT)
    reader = check_page(page)
    assert [i for i in reader.ids if i in dict(sweep.TITLES)] == ["headline", "area", "maps", "rows"]
    charts = charts_of(page)
    assert set(charts) == {"chart-area", "chart-map-0", "chart-map-1"}
    (heat,) = charts["chart-map-0"]["data"]
    assert heat["text"] == [["111.1", "58.8"], ["83.3", "50.0"]]
    assert charts["chart-map-0"]["layout"]["yaxis"]["ticktext"] == ["1MiB", "4MiB"]
    front = next(t for t in charts["chart-area"]["data"] if t["mode"] == "lines+markers")
    assert front["x"] == [1.08, 1.16, 4.16]
    assert front["y"] == [45, 85, 100]
    text = " ".join("".join(reader.text).split())
    assert "Fastest with 50.00 \u00b5s: endpoint.sram 4MiB, endpoint.fsms 16" in text


def test_rows_without_a_result_and_odd_names() -> None:
    attack = "<script>alert('name')</script>"
    failed = row(1, 8, attack, status="failed", error=attack, iteration_time_s=None)
    page = sweep.build([failed, row(4, 8, attack)], ABOUT)
    text = "".join(check_page(page).text)
    assert attack not in page
    assert attack in text
    assert "1 of 2" in text


@pytest.mark.parametrize("rows", [[], [row(1, 8, status="refused", error="no", iteration_time_s=None)]])
def test_nothing_to_show(rows: list[dict[str, Any]]) -> None:
    assert "No simulation of this sweep has a result" in "".join(check_page(sweep.build(rows, ABOUT)).text)


@pytest.mark.usefixtures("fake_engine")
def test_from_the_table_of_a_sweep(syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(THREE_SYSTEMS)
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nbase: three.yaml\naxes: {npu.sms: [20, 40], npu.bus: [1GB/s, 2GB/s]}\n")
    out = tmp_path / "s.parquet"
    assert syncline_command("sweep", str(path), "--threads", "1", "--out", str(out)).status == 0
    assert syncline_command("report", str(out)).status == 0
    charts = charts_of((tmp_path / "s.html").read_text())
    assert sorted(charts) == ["chart-map-0", "chart-map-1", "chart-map-2"]
    assert syncline_command("report", str(out), "-o", str(tmp_path / "other.html")).status == 0
    assert (tmp_path / "other.html").read_bytes() == (tmp_path / "s.html").read_bytes()


def test_another_file_is_refused(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_text(json.dumps({}))
    ended = syncline_command("report", str(path))
    assert (ended.status, ended.out) == (2, "")
    assert "not a Parquet table, or it is damaged" in ended.err


@pytest.mark.parametrize("name", ["s.csv", "s.json", "nowhere.parquet"])
def test_only_parquet_is_accepted(name: str, syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('"point","name"\n0,"a"\n')
    (tmp_path / "s.json").write_text("{}")
    ended = syncline_command("report", str(tmp_path / name))
    assert (ended.status, ended.out) == (2, "")
    assert "a Parquet table that sweep --out FILE.parquet has written, not CSV or JSON" in ended.err
