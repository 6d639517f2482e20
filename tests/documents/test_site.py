"""The site: it is built without warnings, loads nothing from elsewhere, has notebooks as pages, and is up to date."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mkdocs.exceptions import PluginError

from lab import reference
from website import notebooks

from .page import ROOT

DOCS = ROOT / "docs"
SENT = "Network.requestWillBeSent"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed|track)\b[^>]*\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|icon|preload|preconnect|prefetch|modulepreload|manifest))"""
    r"""[^>]*\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?((?:https?:)?//[^"'\s)]+)|\burl\(\s*["']?((?:https?:)?//[^"'\s)]+)"""
    r"""|\b(?:importScripts|fetch|import)\(\s*["'`]((?:https?:)?//[^"'`\s)]+)""",
    re.IGNORECASE,
)
"""What a browser fetches when it shows a page; a link that a reader may follow is nothing of that kind."""


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds a site by a configuration; warnings are errors."""
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", ROOT))),
    }
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(line, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    ended = build(ROOT / "mkdocs.yml", folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def fetched(folder: Path) -> Iterator[str]:
    """What pages, styles and scripts of a site fetch from elsewhere, each with its file."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".js", ".svg"):
            for match in LOADED.finditer(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(folder)}: {next(filter(None, match.groups()))}"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    assert not list(fetched(site))


def test_light_or_dark_follows_the_system_until_a_reader_chooses() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.SafeLoader)
    media = [palette["media"] for palette in config["theme"]["palette"]]
    assert media == [f"(prefers-color-scheme{which})" for which in ("", ": light", ": dark")]


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_generated_pages_have_whole_marks(name: str) -> None:
    text = re.sub(r"```.*?```", "", reference.pages()[name], flags=re.DOTALL)
    assert "......" not in reference.pages()[name]
    assert ". ." not in text
    for line in text.splitlines():
        assert line.count("`") % 2 == 0, line


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        "<script async src=//cdn/x.js></script>",
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css?family=Roboto">',
        '<link href="https://fonts.gstatic.com" crossorigin rel="preconnect">',
        "<style>@import 'https://x/y.css'</style>",
        "<style>a { background: url(http://x/y.png) }</style>",
        '<img alt="" src="https://img.shields.io/x.svg">',
        '<script>fetch("https://api.github.com/repos")</script>',
    ],
)
def test_what_is_fetched_would_be_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.html").write_text(text)
    assert len(list(fetched(tmp_path))) == 1


def test_links_that_a_reader_may_follow_are_no_requests(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://ui.perfetto.dev">Perfetto</a> <link rel="canonical" href="/">'
    )
    assert not list(fetched(tmp_path))


def test_the_search_works_from_disk(site: Path) -> None:
    """Its index is a script, its worker a frame, and neither is fetched."""
    index = (site / "search/search_index.js").read_text(encoding="utf-8")
    assert "exposed communication" in index
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="assets/iframe-worker.js"' in page
    assert (site / "assets/iframe-worker.js").is_file()


def test_a_page_is_read_and_searched_in_a_browser_without_any_request(site: Path, browser: Any) -> None:
    browser.get_log("performance")
    browser.get((site / "index.html").as_uri())
    field = browser.find_element("css selector", "input.md-search__input")
    browser.execute_script("arguments[0].focus()", field)
    field.send_keys("straggler")
    found = "return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)"
    links = poll(lambda: browser.execute_script(found))
    assert any("glossary.html" in link for link in links)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [message["params"]["request"]["url"] for message in messages if message["method"] == SENT]
    assert any(url.endswith("/search/search_index.js") for url in asked)
    assert not [url for url in asked if url.startswith(("http", "ws", "ftp"))]


def poll(ask: Callable[[], Any], limit_s: float = 20) -> Any:
    """The answer once it is not empty, or the last one."""
    end = time.monotonic() + limit_s
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


def test_every_page_is_in_the_navigation_or_waits_there_for_its_file() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert pages | set(reference.pages()) <= named
    assert not pages & set(reference.pages())


def test_links_of_the_readme_lead_to_files() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    assert len(links) > 20
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_option_and_key_has_a_meaning() -> None:
    """No row of the generated tables of commands and keys ends without one."""
    for name in ("commands", "experiment", "sweep", "search", "figure", "plan", "graph"):
        text = reference.pages()[f"reference/{name}.md"]
        assert not re.findall(r"^\|.*\|  \|$", text, re.MULTILINE), name


def test_every_variable_that_the_code_reads_is_on_its_page() -> None:
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "crates").glob("*/src/**/*.rs")]
    read = {name for path in sources for name in re.findall(r'"(SYNCLINE_[A-Z0-9_]+)"', path.read_text("utf-8"))}
    page = (DOCS / "reference/environment.md").read_text(encoding="utf-8")
    internal = {"SYNCLINE_BENCH_RANK", "SYNCLINE_SOURCES"}  # set by `bench --execute`, and when the engine is built
    assert len(read) > 8
    assert {name for name in read - internal if f"`{name}`" not in page} == set()


def test_the_picture_shows_the_numbers_of_the_demo() -> None:
    """README shows what the demo prints, and another test holds that against a run."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = (DOCS / "assets/demo.svg").read_text(encoding="utf-8")
    demo = readme.partition("$ syncline run ace/resnet50")[2].partition("```")[0]
    printed = re.findall(r"^ (\w+) +([\d.]+) ms +[\d.]+ ms +([\d.]+) ms", demo, re.MULTILINE)
    assert len(printed) == 5
    bars = re.findall(
        r'<text x="12"[^>]*>(\w+)</text>.*?width="([\d.]+)".*?width="([\d.]+)".*?>([\d.]+) ms<', drawn, re.S
    )
    for (name, iteration, compute), (bar, wide, rest, total) in zip(printed, bars, strict=True):
        assert (name, f"{float(iteration):.2f}") == (bar, total), "make picture draws it anew"
        assert float(wide) / (float(wide) + float(rest)) == pytest.approx(float(compute) / float(iteration), abs=0.005)


PIXEL = base64.b64encode(b"not a picture, but nobody looks at it here").decode()


def cell(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "execution_count": 1, "outputs": list(outputs)}


def shown(**data: str) -> dict[str, Any]:
    forms = {key.replace("__", "/").replace("_", "+"): value for key, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": forms}


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    figure = {"data": [{"type": "bar", "x": ["a"], "y": [1]}], "layout": {}}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# A notebook\n", "\n", "With words."]},
        cell("print('hello')", {"output_type": "stream", "name": "stdout", "text": ["hel", "lo <&>\n"]}),
        cell("table", shown(text__html="<table><tr><td>\n\n42 ms</td></tr></table>", text__plain="a table")),
        cell("drawing", shown(image__svg_xml="<svg xmlns='http://www.w3.org/2000/svg'/>", text__plain="a drawing")),
        cell("picture", shown(image__png=PIXEL, text__plain="a picture")),
        cell("chart", {"output_type": "display_data", "data": {"application/vnd.plotly.v1+json": figure}}),
        cell("loaded", shown(text__html='<script src="https://cdn/x.js"></script>', image__png=PIXEL)),
    ]
    path = tmp_path / "docs/notebooks/tiny.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    return path


def test_a_notebook_is_a_page_with_its_outputs(notebook: Path, tmp_path: Path) -> None:
    (tmp_path / "docs/index.md").write_text("# Start\n\n[A notebook](notebooks/tiny.md)\n")
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), yaml.SafeLoader)
    config |= {
        "nav": [{"Start": "index.md"}, {"Notebook": "notebooks/tiny.md"}],
        "hooks": [str(ROOT / "website/notebooks.py")],
        "extra_css": [],
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    ended = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    page = (tmp_path / "site/notebooks/tiny.html").read_text(encoding="utf-8")
    for part in ("With words.", "hello &lt;&amp;&gt;", "42 ms", "data:image/svg+xml;base64,", "Plotly.newPlot"):
        assert part in page
    assert page.count("data:image/png;base64,") == 2
    assert "a table" not in page
    assert 'src="../assets/plotly.min.js"' in page
    assert (tmp_path / "site/assets/plotly.min.js").stat().st_size > 1_000_000
    assert (tmp_path / "site/notebooks/tiny.ipynb").is_file()
    pages = [name for name in fetched(tmp_path / "site") if "plotly.min.js" not in name]
    assert not pages


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (shown(text__html='<script src="https://cdn/x.js"></script>', text__plain="x"), "would have to be fetched"),
        (shown(text__html="<script>require(['plotly'])</script>"), "would have to be fetched"),
        ({"output_type": "error", "ename": "ValueError", "evalue": "no"}, "ended with an error: ValueError: no"),
    ],
)
def test_outputs_that_cannot_be_shown_are_errors(tmp_path: Path, output: dict[str, Any], message: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": [cell("1", output)]}))
    with pytest.raises(PluginError, match=message):
        notebooks.page_of(path)
    path.write_text("{}")
    with pytest.raises(PluginError, match="not a notebook"):
        notebooks.page_of(path)
