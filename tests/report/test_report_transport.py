"""The part of the report about networks with a transport, from a run that loses frames and waits for timeouts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.browser import Page
from support.command import Ended
from support.marks import check_charts
from syncline.report import charts_transport, charts_watched

INCAST = """name: incast
topology: "Switch(9, rate=100Gb/s, latency=500ns)"
workload: {collective: gather, size: 18MB, root: 0}
collective: {algorithm: direct}
endpoint: {kind: ideal}
variants:
  - {name: TCP, network: {backend: ethernet, buffer: 64KiB, min_rto: 1ms, watch: [[npu 1, npu 0], [npu 2, npu 0]]}}
  - {name: RoCE, network: {backend: ethernet, transport: roce, congestion_control: none, buffer: 64KiB}}
"""


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    root = tmp_path_factory.mktemp("incast")
    (root / "e.yaml").write_text(INCAST)
    command = [sys.executable, "-m", "syncline", "run", str(root / "e.yaml"), "--out", str(root / "run"), "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (root / "out.txt").write_text(done.stdout)
    return root


def test_the_headline_says_what_timeouts_cost(incast: Path) -> None:
    document = json.loads((incast / "run/summary.json").read_text())
    tcp, roce = document["runs"]
    assert tcp["network"]["rto_events"] > 0
    share = f"{100 * tcp['network']['rto_stalled_s'] / tcp['total_time_s']:.1f} %"
    said = f"TCP: timeouts take {share} of the time"
    assert said in (incast / "out.txt").read_text()
    page = (incast / "run/report.html").read_text()
    assert f'<p class="headline">{said}' in page
    assert "RoCE: timeouts" not in page
    assert roce["network"]["pauses"] > 0


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (800, "dark")])
def test_the_page_draws_queues_and_distributions(incast: Path, page: Page, width: int, theme: str) -> None:
    page.open((incast / "run/report.html").read_text(), width, theme)
    assert page.errors == []
    assert page.overflow() <= 0
    check_charts(page, {"chart-breakdown", "chart-congestion", "chart-completions"})
    names = page.run("return document.querySelector('#chart-congestion').data.map(t => t.name)")
    assert {"longest queue", "frames dropped", "timeouts", "pauses"} <= set(names)


def shown(page: Page, chart: str) -> list[str]:
    """The names of the traces of a chart that are to be seen."""
    return list(
        page.run(
            f"return document.querySelector('#{chart}')._fullData.filter(t => t.visible === true).map(t => t.name)"
        )
    )


def test_links_can_be_coloured_by_what_happened_there(incast: Path, page: Page) -> None:
    page.open((incast / "run/report.html").read_text())
    titles = (
        "return document.querySelector('#chart-heat-{}').data.filter(t => t.visible !== false)"
        ".map(t => t.colorbar.title.text)"
    )
    group = "[data-charts='chart-heat-0 chart-heat-1']"
    options = page.run(f'return [...document.querySelectorAll("{group} button")].map(b => b.dataset.option)')
    assert options == ["busy", "drops", "pauses"]
    chosen = page.run("return document.querySelector('[data-tabs=links] .panel.on').dataset.variant")
    assert page.run(titles.format(chosen)) == ["busy (%)"]
    page.click(f"{group} button[data-option='drops']")
    page.wait(titles.format(chosen) + "[0] === 'frames dropped'")
    page.click(f"[data-tabs='links'] button[data-variant='{1 - int(chosen)}']")
    page.wait(f"return !!document.querySelector('#chart-heat-{1 - int(chosen)} .hm image')")
    assert page.run(titles.format(1 - int(chosen))) == ["frames dropped"]
    page.click("[data-tabs='links'] button[data-variant='0']")
    most = page.run(
        "return Math.max(...document.querySelector('#chart-heat-0').data.find(t => t.visible !== false).z.flat())"
    )
    table = pq.read_table(incast / "run/TCP/tables/queues.parquet").to_pydict()
    assert most == pytest.approx(max(table["drops"]), rel=1e-2)
    assert page.errors == []


def test_a_watched_connection_is_drawn_over_time(incast: Path, page: Page) -> None:
    page.open((incast / "run/report.html").read_text())
    page.click("[data-tabs='links'] button[data-variant='0']")
    page.wait("return !!document.querySelector('#chart-watched-0 .scatterlayer path')")
    series = ["congestion window", "slow-start threshold", "bytes in flight", "round trip"]
    assert shown(page, "chart-watched-0") == series
    window = "return document.querySelector('#chart-watched-0').data.find(t => t.visible !== false).y"
    first = page.run(window)
    page.click("[data-charts='chart-watched-0'] button:nth-of-type(2)")
    page.wait("return document.querySelector('#chart-watched-0').data.findIndex(t => t.visible !== false) > 0")
    assert shown(page, "chart-watched-0") == series
    assert page.run(window) != first
    check_charts(page, {"chart-watched-0"})
    assert page.errors == []


def test_losses_are_marked_above_the_utilisation(incast: Path, page: Page) -> None:
    page.open((incast / "run/report.html").read_text())
    marks = page.run(
        "return Object.fromEntries(document.querySelector('#chart-utilisation').data"
        ".filter(t => t.mode === 'markers').map(t => [t.name, t.customdata.reduce((a, b) => a + b)]))"
    )
    document = json.loads((incast / "run/summary.json").read_text())
    network = document["runs"][0]["network"]
    assert marks == {"frames dropped": network["drops"], "timeouts": network["rto_events"]}


def test_a_run_without_losses_offers_no_colours(syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    text = INCAST.partition("variants:")[0] + "network: {backend: ethernet, buffer: 64MiB}\n"
    (tmp_path / "e.yaml").write_text(text)
    assert syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run"), "-q").status == 0
    page = (tmp_path / "run/report.html").read_text()
    assert 'id="chart-heat-0"' in page
    assert 'data-charts="chart-heat' not in page
    assert "chart-watched" not in page


@pytest.mark.parametrize("count", [3, 100, 9_999])
def test_thinned_series_keep_their_extremes(count: int) -> None:
    values: list[float | None] = [float(i * 7919 % count) if i % 5 else None for i in range(count)]
    kept = charts_watched.thinned(values, 60)
    assert len(kept) <= 60
    known = [x for x in values if x is not None]
    assert {min(known), max(known)} <= {values[i] for i in kept}


def test_a_network_without_transport_has_no_such_part(syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(INCAST.partition("variants:")[0] + "network: flow\n")
    assert syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run"), "-q").status == 0
    assert "chart-congestion" not in (tmp_path / "run/report.html").read_text()


def test_a_distribution_ends_at_all_of_it() -> None:
    assert charts_transport.distribution([1.0, 2.0, 4.0], [1, 2, 1]) == ([1.0, 2.0, 4.0], [0.25, 0.75, 1.0])
    xs, ys = charts_transport.distribution([float(i) for i in range(10_000)], [1.0] * 10_000)
    assert len(xs) <= charts_transport.CDF_POINTS + 1
    assert (xs[-1], ys[-1]) == (9999.0, 1.0)


def test_the_trace_has_counters_of_what_was_lost(incast: Path) -> None:
    events = json.loads((incast / "run/TCP/trace.json").read_text())["traceEvents"]
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"longest queue (bytes)", "frames dropped (per window)", "timeouts (per window)"} <= counters
