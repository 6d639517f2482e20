"""The part of the report about networks with a transport, from a run that loses frames and waits for timeouts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.browser import Page
from support.command import Ended
from support.marks import check_charts
from syncline.report import charts_transport

INCAST = """name: incast
topology: "Switch(9, rate=100Gb/s, latency=500ns)"
workload: {collective: gather, size: 18MB, root: 0}
collective: {algorithm: direct}
endpoint: {kind: ideal}
variants:
  - {name: TCP, network: {backend: ethernet, buffer: 64KiB, min_rto: 1ms}}
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


def test_a_network_without_transport_has_no_such_part(syncline_command: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(INCAST.partition("variants:")[0] + "network: flow\n")
    assert syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run"), "-q").status == 0
    assert "chart-congestion" not in (tmp_path / "run/report.html").read_text()


def test_a_distribution_ends_at_all_of_it() -> None:
    assert charts_transport.distribution([1.0, 2.0, 4.0], [1, 2, 1]) == ([1.0, 2.0, 4.0], [0.25, 0.75, 1.0])
    xs, ys = charts_transport.distribution([float(i) for i in range(10_000)], [1.0] * 10_000)
    assert len(xs) <= charts_transport.CDF_POINTS + 1
    assert (xs[-1], ys[-1]) == (9999.0, 1.0)
