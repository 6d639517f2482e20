"""The page in a real browser: it asks for nothing, says no error, and every chart has marks."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncline.report import html

COMMAND = "syncline run study.yaml --seed 1"
CHARTS = {
    "chart-breakdown",
    "chart-utilisation",
    "chart-ace-3",
    "chart-partitions-3",
    "chart-links",
    "chart-heat-3",
}
FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync hide-scrollbars"
)

# Per trace of a chart that is meant to be seen: how many marks of a size that can be seen it has.
MARKS = """
const area = (e) => {
  const box = e.getBoundingClientRect();
  return box.width > 0.5 && box.height > 0.5;
};
const length = (e) => e.getTotalLength() > 2;
const kinds = {
  bar: (p) => p.querySelectorAll(".barlayer .trace"),
  scatter: (p) => p.querySelectorAll(".scatterlayer .trace"),
  heatmap: (p) => p.querySelectorAll(".hm"),
};
const shapes = { bar: ".point path", scatter: "path.js-line", heatmap: "image" };
const sized = { bar: area, scatter: length, heatmap: area };
const found = {};
for (const place of document.querySelectorAll(".chart")) {
  if (place.offsetParent === null) continue;
  // What the page asked for, not what plotly made of it: it hides traces without data.
  const data = (place.data || []).filter((t) => t.visible !== false);
  const groups = {};
  for (const t of data) (groups[t.type] = groups[t.type] || []).push(t);
  const marks = [];
  for (const [type, wanted] of Object.entries(groups)) {
    const drawn = [...kinds[type](place)];
    wanted.forEach((_, i) => {
      marks.push(drawn[i] ? [...drawn[i].querySelectorAll(shapes[type])].filter(sized[type]).length : 0);
    });
  }
  found[place.id] = marks;
}
return found;
"""


def browser_paths() -> tuple[str, str] | None:
    """Chromium and its driver, where installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser without a head; without one the tests are skipped, but not in CI."""
    paths = browser_paths()
    if paths is None or importlib.util.find_spec("selenium") is None:
        message = "no chromium, chromedriver or selenium: the page is not tested in a browser"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for flag in FLAGS.split():
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths[1]))
    yield driver
    driver.quit()


class Page:
    """A page opened from disk."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser, self.path = browser, path
        self.requests: list[str] = []
        self.errors: list[str] = []

    def open(self, text: str, width: int = 1280, theme: str = "light") -> Page:
        """Writes the page and opens it."""
        self.path.write_text(text, encoding="utf-8")
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
        self.cdp("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.browser.get("about:blank")
        self.read_logs()
        self.requests, self.errors = [], []
        self.browser.get(self.path.as_uri())
        self.wait("return document.documentElement.dataset.ready !== undefined")
        self.read_logs()
        return self

    def cdp(self, command: str, arguments: dict[str, Any]) -> Any:
        return self.browser.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 60) -> None:
        """Waits for a script to return true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)

    def read_logs(self) -> None:
        """Collects what was requested and what went wrong since the last time."""
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = message["params"]["request"]["url"]
                if not address.startswith("data:"):  # heat maps are drawn as inline images
                    self.requests.append(address)
        for entry in self.browser.get_log("browser"):
            if entry["level"] in ("SEVERE", "WARNING"):
                self.errors.append(entry["message"])

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def column(self, table: str, index: int) -> list[str]:
        """Texts of a column of a table."""
        script = (
            "return [...document.querySelectorAll(`[data-table='${arguments[0]}'] tbody tr`)]"
            ".map((r) => r.cells[arguments[1]].lastChild.textContent)"
        )
        found: list[str] = self.run(script, table, index)
        return found

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        width: int = self.run("return document.documentElement.scrollWidth - window.innerWidth")
        return width

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        size = self.run("return [window.innerWidth, Math.ceil(document.documentElement.scrollHeight)]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        options = {"captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.cdp("Page.captureScreenshot", options)["data"]))


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Page:
    """A page to open."""
    return Page(browser, tmp_path / "report.html")


def check_charts(page: Page, expected: set[str]) -> None:
    """Every expected chart is there, and every trace of every visible chart has marks."""
    marks = page.run(MARKS)
    missing = expected - set(marks)
    assert not missing, f"charts that are not on the page: {sorted(missing)}"
    for name, counts in marks.items():
        assert counts, f"{name} has no trace"
        assert all(counts), f"{name} has traces without marks: {counts}"


@pytest.fixture(scope="module")
def text(study: Any) -> str:
    """The page of the whole study."""
    document, variants = study
    return html.build(document, variants, COMMAND)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (800, "light"), (800, "dark")])
def test_whole_study(page: Page, text: str, tmp_path: Path, width: int, theme: str) -> None:
    page.open(text, width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    check_charts(page, CHARTS)
    empty = page.run(
        "return [...document.querySelectorAll('table')].filter((t) => !t.tBodies[0].rows.length)"
        ".map((t) => t.dataset.table)"
    )
    assert empty == []
    assert len(page.column("layers-3", 0)) == 54
    assert len(page.column("collectives-3", 0)) == 108
    page.screenshot(tmp_path / f"report-{width}-{theme}.png")
    assert (tmp_path / f"report-{width}-{theme}.png").stat().st_size > 50_000


def test_names_are_shown_as_text(page: Page, text: str) -> None:
    page.open(text)
    assert "<script>alert('layer')</script>" in page.column("layers-3", 1)
    assert page.run("return document.querySelectorAll('main script').length") == 0


def test_every_variant_can_be_chosen(page: Page, text: str) -> None:
    page.open(text)
    for i in range(5):
        page.click(f"[data-tabs='links'] button[data-variant='{i}']")
        page.wait(f"return !!document.querySelector('#chart-heat-{i} .hm image')")
        check_charts(page, {f"chart-heat-{i}"})
        shown = page.run("return [...document.querySelectorAll('.panel.on')].map((p) => p.dataset.variant)")
        # layers, ACE (which only variant 3 has), links, collectives
        assert shown == [str(i), "3", str(i), str(i)]
    page.read_logs()
    assert page.errors == []


def test_links_of_one_dimension_can_be_chosen(page: Page, text: str) -> None:
    page.open(text)
    seen = (
        "return document.getElementById('chart-utilisation')._fullData"
        ".filter((t) => t.visible === true).map((t) => t.name)"
    )
    assert page.run(seen) == ["compute", "all links"] * 5
    page.click("[data-links] button[data-option='link_dim1']")
    page.wait("return document.querySelector('#chart-utilisation .legend').textContent.includes('1')")
    assert page.run(seen) == ["compute", "links of dim 1"] * 5
    check_charts(page, CHARTS)


def test_tables_sort_by_click(page: Page, text: str) -> None:
    page.open(text)
    exposed = 12
    header = f"[data-table='layers-3'] th:nth-child({exposed + 1})"
    before = page.column("layers-3", exposed)

    def number(shown: str) -> float:
        return float(shown.replace(",", "").replace("<", ""))

    page.click(f"{header} button")
    down = page.column("layers-3", exposed)
    assert down != before
    assert sorted(down) == sorted(before)
    assert [number(x) for x in down] == sorted((number(x) for x in before), reverse=True)
    page.click(f"{header} button")
    assert [number(x) for x in page.column("layers-3", exposed)] == sorted(map(number, before))
    page.click("[data-table='layers-3'] th:nth-child(2) button")
    names = page.column("layers-3", 1)
    assert names.index("conv2_1.3x3") < names.index("conv3_1.3x3") < names.index("fc1000")
    completed = 9
    page.click(f"[data-table='collectives-3'] th:nth-child({completed + 1}) button")
    shown = page.column("collectives-3", completed)
    finished = [s for s in shown if s != "in flight"]
    assert shown == finished + ["in flight"] * (len(shown) - len(finished)), "absent ones last"


def test_bars_in_cells_are_drawn(page: Page, text: str) -> None:
    page.open(text)
    widths = page.run(
        "return [...document.querySelectorAll(\"[data-table='exposed'] .bar\")]"
        ".map((b) => b.getBoundingClientRect().width)"
    )
    assert len(widths) > 40
    assert min(widths) > 1
    assert max(widths) > 40


def test_print_fits_the_paper(page: Page, text: str) -> None:
    page.open(text, theme="dark")
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    widths = page.run(
        "return [...document.querySelectorAll('.chart .main-svg')]"
        ".map((s) => s.getBoundingClientRect().width).filter((w) => w)"
    )
    assert max(widths) <= 690
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.run("window.dispatchEvent(new Event('afterprint'))")
    page.wait("return document.querySelector('#chart-links .main-svg').clientWidth > 900")
    pdf = base64.b64decode(page.cdp("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")


def degenerate(make_study: Callable[..., Any], what: str) -> tuple[str, set[str]]:
    """A page with little on it, and the charts that it must have."""
    if what == "one variant, one window":
        document, variants = make_study(1, ["ACE"])
        return html.build(document, variants, COMMAND), {"chart-breakdown", "chart-utilisation"}
    document, variants = make_study(20, ["ACE", "Ideal"])
    if what == "no tables":
        return html.build(document, {}, COMMAND), {"chart-breakdown", "chart-partitions-0"}
    if what == "long names":
        names = ["W" * 400, "A variant with a name of many words " * 8]
        for run, name in zip(document["runs"], names, strict=True):
            run["name"] = name
        variants = dict(zip(names, variants.values(), strict=True))
        return html.build(document, variants, "x" * 900), {"chart-breakdown", "chart-links"}
    assert what == "nothing"
    return html.build({}, {}, COMMAND), set()


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("what", ["one variant, one window", "no tables", "long names", "nothing"])
def test_degenerate_studies(page: Page, make_study: Callable[..., Any], tmp_path: Path, what: str, width: int) -> None:
    text, expected = degenerate(make_study, what)
    page.open(text, width)
    assert page.errors == []
    assert page.overflow() <= 0
    check_charts(page, expected)
    page.screenshot(tmp_path / "report.png")


@pytest.mark.parametrize("chart", sorted(CHARTS))
def test_the_check_sees_an_empty_series(page: Page, text: str, chart: str) -> None:
    """Without this the check of the charts could pass on a page without any mark."""
    head, rest = text.split('id="charts">', 1)
    data, tail = rest.split("</script>", 1)
    figures = json.loads(data)
    trace = figures[chart]["data"][-1 if chart != "chart-utilisation" else 0]
    key = "z" if trace["type"] == "heatmap" else "y" if trace["type"] == "scatter" else "x"
    trace[key] = [[None] * len(r) for r in trace[key]] if key == "z" else [None for _ in trace[key]]
    page.open(f'{head}id="charts">{json.dumps(figures)}</script>{tail}')
    with pytest.raises(AssertionError, match=f"{chart} has traces without marks"):
        check_charts(page, CHARTS)


def test_the_check_sees_a_missing_chart(page: Page, make_study: Callable[..., Any]) -> None:
    document, variants = make_study(20)
    for tables in variants.values():
        tables["windows"] = tables["windows"].slice(0, 0)
    page.open(html.build(document, variants, COMMAND))
    with pytest.raises(AssertionError, match=r"not on the page.*chart-utilisation"):
        check_charts(page, CHARTS)
