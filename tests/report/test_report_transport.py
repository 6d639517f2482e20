"""The part of the report about networks with a transport, from a run that loses frames and waits for timeouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.browser import Page
from support.command import Ended, run
from support.marks import check_charts
from syncline.report import charts, charts_fabric, charts_heat, charts_transport, charts_watched
from syncline.results import study

INCAST = """name: incast
topology: "Switch(9, rate=100Gb/s, latency=500ns)"
workload: {collective: gather, size: 18MB, root: 0}
collective: {algorithm: direct}
endpoint: {kind: ideal}
variants:
  - {name: TCP, network: {backend: ethernet, buffer: 64KiB, min_rto: 1ms, watch: [[npu 1, npu 0], [npu 2, npu 0]]}}
  - {name: RoCE, network: {backend: ethernet, transport: roce, congestion_control: none, buffer: 64KiB}}
"""


def ran(root: Path, text: str) -> str:
    """Runs an experiment into `run` of a directory, and gives what it prints."""
    (root / "e.yaml").write_text(text)
    done = run("run", root / "e.yaml", "--out", root / "run", "-q")
    assert done.status == 0, done.err
    return done.out


@pytest.fixture(scope="module")
def incast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    root = tmp_path_factory.mktemp("incast")
    (root / "out.txt").write_text(ran(root, INCAST))
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


def test_merged_windows_have_the_longest_queue_and_all_events() -> None:
    columns: dict[str, list[float]] = {
        "start_ps": [0, 1e6, 2e6, 3e6, 4e6],
        "peak_queue_bytes": [100, 500, 200, 700, 300],
        "drops": [1, 0, 2, 3, 0],
        "timeouts": [0, 0, 0, 0, 2],
        "pauses": [1, 1, 0, 0, 0],
    }

    class Recorded:
        def numbers(self, table: str, name: str) -> list[float]:
            assert table == charts_transport.CONGESTION
            return columns[name]

    recorded: Any = Recorded()
    merged = charts_transport._over_time(recorded, 3)
    assert merged is not None
    assert merged.edges_s == pytest.approx([0, 2e-6, 4e-6, 5e-6])
    assert merged.series == {
        "peak_queue_bytes": [500, 700, 300],
        **{"drops": [1, 5, 0], "timeouts": [0, 0, 2], "pauses": [2, 0, 0]},
    }


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
    group = "[data-charts='chart-heat-0 chart-fabric-0 chart-heat-1 chart-fabric-1']"
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


FAT_TREE = """name: tree
topology: "FatTree(k=4, rate=100Gb/s)"
network: {backend: ethernet, buffer: 16KiB, min_rto: 1ms}
workload: {collective: all-to-all, size: 2MB}
collective: {algorithm: direct}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run on a fat tree."""
    root = tmp_path_factory.mktemp("tree")
    ran(root, FAT_TREE)
    return root / "run"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (800, "dark")])
def test_links_are_drawn_on_the_fabric(tree: Path, page: Page, width: int, theme: str) -> None:
    page.open((tree / "report.html").read_text(), width, theme)
    page.wait("return !!document.querySelector('#chart-fabric-0 .scatterlayer path')")
    check_charts(page, {"chart-heat-0", "chart-fabric-0"})
    page.click("[data-charts='chart-heat-0 chart-fabric-0'] button[data-option='drops']")
    dots = "document.querySelector('#chart-fabric-0').data.find(t => t.visible !== false && t.mode === 'markers')"
    page.wait(f"return {dots}.marker.colorbar.title.text === 'frames dropped'")
    drops = dict(page.run(f"const t = {dots}; return t.text.map((name, i) => [name, t.marker.color[i]])"))
    table = pq.read_table(tree / "tree/tables/queues.parquet").to_pydict()
    links = zip(table["node"], table["to"], table["drops"], strict=True)
    assert drops == {f"{src} to {dst}": lost for src, dst, lost in links}
    assert sum(table["drops"]) > 0
    # Lines of several colours, the widest of which belong to the link that lost most.
    lines = page.run(
        "return document.querySelector('#chart-fabric-0').data.filter(t => t.visible !== false && t.mode === 'lines')"
        ".map(t => [t.line.color, t.line.width])"
    )
    assert len(lines) == len({colour for colour, _ in lines}) > 2
    assert all(colour.startswith("rgb(") for colour, _ in lines)
    assert page.errors == []


def figure_of(queues: list[tuple[int, str, str, int]], npus: int) -> charts.Figure | None:
    """The drawing of links: number and name of a node, the one that its link leads to, frames that it dropped."""
    numbers, names, ends, drops = (list(column) for column in zip(*queues, strict=True))
    ports = [f"to {end}" for end in ends]
    tables = {
        "links": pa.table({"node": numbers, "port": ports, "dim": [0] * len(queues), "busy_ps": [5] * len(queues)}),
        "queues": pa.table({"node": names, "port": ports, "to": ends, "drops": drops}),
    }
    run = {"name": "a", "npus": npus, "total_time_s": 1e-11}
    found = study.read({"runs": [run]}, {"a": tables}).variants[0]
    return charts_fabric.drawn(found, {charts_heat.BUSY: 0.5, "drops": max(drops)})


def places(figure: charts.Figure) -> dict[str, tuple[float, float]]:
    """Where nodes are."""
    nodes = figure["data"][-1]
    return dict(zip(nodes["customdata"], zip(nodes["x"], nodes["y"], strict=True), strict=True))


def both(pairs: list[tuple[int, str, int, str]]) -> list[tuple[int, str, str, int]]:
    """Links in both directions, of which the first one drops frames."""
    return [(a, left, right, 7) for a, left, _, right in pairs] + [(b, right, left, 0) for _, left, b, right in pairs]


def test_nodes_are_in_rows_by_their_distance_from_npus() -> None:
    pairs = [(n, f"NPU {n}", 4 + n // 2, f"leaf {n // 2}") for n in range(4)]
    pairs += [(4 + leaf, f"leaf {leaf}", 6, "spine") for leaf in range(2)]
    figure = figure_of(both(pairs), 4)
    assert figure is not None
    at = places(figure)
    rows = {name: y for name, (_, y) in at.items()}
    assert rows == {**{f"NPU {n}": 0 for n in range(4)}, "leaf 0": 1, "leaf 1": 1, "spine": 2}
    assert at["NPU 0"][0] < at["NPU 1"][0] < at["NPU 2"][0] < at["NPU 3"][0]
    assert at["leaf 0"][0] < at["spine"][0] < at["leaf 1"][0]


def test_parallel_links_are_one_line_and_halves_meet_in_the_middle() -> None:
    figure = figure_of([(0, "NPU 0", "s", 3), (0, "NPU 0", "s", 4), (1, "s", "NPU 0", 0)], 1)
    assert figure is not None
    dots = [t for t in figure["data"] if t["mode"] == "markers" and t["meta"]["option"] == "drops"]
    assert dots[0]["text"] == ["NPU 0 to s", "s to NPU 0"]
    assert dots[0]["marker"]["color"] == [7, 0]
    lines = [t for t in figure["data"] if t["mode"] == "lines" and t["meta"]["option"] == "drops"]
    # The end that drops nothing is the paler one.
    assert [(t["line"]["color"], t["y"]) for t in lines] == [
        ("@heat:0.0625", [1, 0.5, None]),
        ("@heat:0.9375", [0, 0.5, None]),
    ]


def test_npus_without_switches_are_on_a_circle() -> None:
    ring = [(n, f"NPU {n}", (n + 1) % 5, f"NPU {(n + 1) % 5}") for n in range(5)]
    figure = figure_of(both(ring), 5)
    assert figure is not None
    assert {round(x * x + y * y, 3) for x, y in places(figure).values()} == {1.0}


def test_large_fabrics_are_not_drawn_node_by_node() -> None:
    star = [(n, f"NPU {n}", 200, "switch") for n in range(charts_fabric.MOST_NODES)]
    assert figure_of(both(star), 200) is None
    assert figure_of(both(star[:-1]), 200) is not None


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
    assert charts_transport.distribution([1.0, 2.0, 4.0], [1, 2, 1]) == ([1.0, 1.0, 2.0, 4.0], [0.0, 0.25, 0.75, 1.0])
    xs, ys = charts_transport.distribution([float(i) for i in range(10_000)], [1.0] * 10_000)
    assert len(xs) <= charts_transport.CDF_POINTS + 1
    assert (xs[-1], ys[-1]) == (9999.0, 1.0)


def test_the_trace_has_counters_of_what_was_lost(incast: Path) -> None:
    events = json.loads((incast / "run/TCP/trace.json").read_text())["traceEvents"]
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"longest queue (bytes)", "frames dropped (per window)", "timeouts (per window)"} <= counters
