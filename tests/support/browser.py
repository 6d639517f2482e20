"""Pages in a real browser: opened from disk, looked at, and listened to."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync hide-scrollbars"
)


# Text of charts that has room neither in its drawing nor beside it; a pixel of slack for rounding.
CUT = """
const cut = [];
for (const drawing of document.querySelectorAll(".chart, .figure svg")) {
  if (drawing.getClientRects().length === 0) continue;
  const room = drawing.getBoundingClientRect();
  for (const text of drawing.querySelectorAll("text")) {
    const box = text.getBoundingClientRect();
    if (box.width === 0 || !text.textContent.trim()) continue;
    const sides = [room.left - box.left, box.right - room.right, room.top - box.top, box.bottom - room.bottom];
    if (Math.max(...sides) > 1) cut.push(text.textContent);
  }
}
return cut;
"""


# Level texts of a drawing whose middles are hidden by each other: a quarter of a line may touch.
OVERLAPPING = """
const pairs = [];
for (const drawing of document.querySelectorAll(".figure svg")) {
  const level = (t) => !/rotate\\(-?[1-9]/.test(t.getAttribute("transform") || "");
  const texts = [...drawing.querySelectorAll("text")].filter((t) => t.textContent.trim() && level(t));
  const boxes = texts.map((t) => t.getBoundingClientRect());
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > Math.min(a.height, b.height) / 4) {
      pairs.push([texts[i].textContent, texts[i + 1 + j].textContent]);
    }
  }));
}
return pairs;
"""


def browser_paths() -> tuple[str, str] | None:
    """Chromium and its driver, where installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


def start(profile: Path) -> Iterator[Any]:
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
    options.add_argument(f"--user-data-dir={profile}")
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

    def press_enter(self, selector: str) -> None:
        """Reaches an element by the keyboard and presses Enter on it."""
        self.run("document.querySelector(arguments[0]).focus()", selector)
        self.browser.switch_to.active_element.send_keys("\ue007")

    def cut_letters(self) -> list[str]:
        """Texts of charts and drawings that reach out of them, and so cannot be read."""
        found: list[str] = self.run(CUT)
        return found

    def overlapping(self) -> list[list[str]]:
        """Pairs of texts of a drawing that run into each other."""
        found: list[list[str]] = self.run(OVERLAPPING)
        return found

    def column(self, table: str, index: int) -> list[str]:
        """Texts of a column of a table."""
        script = (
            "return [...document.querySelectorAll(`[data-table='${arguments[0]}'] tbody tr`)]"
            ".map((r) => r.cells[arguments[1]]).map((c) => (c.lastChild || c).textContent)"
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
