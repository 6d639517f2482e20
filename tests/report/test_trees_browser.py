"""Pages of `syncline trees` in a real browser: they ask for nothing, say no error, and trees can be switched off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.browser import Page
from support.command import Ended
from syncline.fabric import notation
from syncline.fabric.graph import Graph, Link, Node, checked
from syncline.report import html
from syncline.report.trees import page as trees_page
from syncline.studies.trees import document as documents
from syncline.treegen import choice, question

Command = Callable[..., Ended]
SHOWN = "return [...document.querySelectorAll('.trees-wire')].filter((w) => w.getClientRects().length).length"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light")])
@pytest.mark.parametrize(
    ("machine", "flags", "trees", "cut"),
    [
        ("dgx1v", ("--gpus", "1,4,5,6", "--compare"), 2, 3),
        ("dgx1v", ("--collective", "all-reduce", "--compare", "--endpoint", "streams"), 16, 8),
        ("dgx1v", ("--collective", "reduce-scatter"), 16, None),
        ("dgx2", ("--gpus", "0-4", "--compare"), None, None),
        ("dgx1v", ("--gpus", "3,4,5", "--compare"), 0, None),
        (
            "dgx1v",
            (
                "--gpus",
                "6",
            ),
            0,
            0,
        ),
    ],
)
def test_the_page_of_trees(
    machine: str,
    flags: tuple[str, ...],
    trees: int | None,
    cut: int | None,
    width: int,
    theme: str,
    page: Page,
    tmp_path: Path,
    syncline_command: Command,
) -> None:
    path = tmp_path / "trees.html"
    ended = syncline_command("trees", "--machine", machine, *flags, "--html", str(path), "--json")
    assert (ended.status, f"page: {path}" in ended.err) == (0, True)
    document = json.loads(ended.out)
    page.open(path.read_text(encoding="utf-8"), width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    assert page.cut_letters() == []
    edges = [len(tree["edges"]) for tree in document["trees"]]
    assert page.run(SHOWN) == sum(edges)
    boxes = page.run("return document.querySelectorAll('.trees-drawn input').length")
    assert boxes == len(edges) == (len(edges) if trees is None else trees)
    assert page.run("return document.querySelectorAll('.trees-gpu').length") == len(document["gpus"])
    if cut is not None:
        assert page.run("return document.querySelectorAll('.trees-cut').length") == cut
    assert [title.startswith("tree ") for title in page.run(_TITLES)] == [True] * sum(edges)
    if edges:
        page.click("#trees-1")
        assert page.run(SHOWN) == sum(edges) - edges[0]
        page.click("#trees-1")
        assert page.run(SHOWN) == sum(edges)
        assert page.column("trees", 0) == [str(number) for number in range(1, len(edges) + 1)]
    if "--compare" in flags:
        assert page.column("comparison", 0) == [entry["name"] for entry in document["comparison"]]
    page.read_logs()
    assert page.errors == []
    page.screenshot(tmp_path / "trees.png")
    assert (tmp_path / "trees.png").stat().st_size > 20_000


_TITLES = "return [...document.querySelectorAll('.trees-wire title')].map((t) => t.textContent)"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light")])
@pytest.mark.parametrize("more", [(), ("--compare", "--threads", "1")])
def test_the_page_of_allocations(
    more: tuple[str, ...], width: int, theme: str, page: Page, tmp_path: Path, syncline_command: Command
) -> None:
    path = tmp_path / "all.html"
    flags = ["--sizes", "3-8" if not more else "3,8", "--html", str(path), "--json", *more]
    ended = syncline_command("trees", "--machine", "dgx1v", "--sweep", "allocations", *flags)
    assert ended.status == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    page.open(path.read_text(encoding="utf-8"), width, theme)
    assert page.errors == []
    assert page.requests == [page.path.as_uri()]
    assert page.overflow() <= 0
    assert page.cut_letters() == []
    assert page.overlapping() == []
    assert page.column("allocations", 0) == [row["gpus"] for row in rows]
    page.click("[data-table='allocations'] th:nth-child(11) button")
    factors = [float(text.rstrip("\N{MULTIPLICATION SIGN}")) for text in page.column("allocations", 10) if "." in text]
    assert factors == sorted(factors, reverse=True)
    assert len(factors) == sum(row["theoretical_speedup"] is not None for row in rows)


def test_a_section_of_another_page(page: Page) -> None:
    """What the page of a run is given: no script, and a style that leaves the rest as it is."""
    graph = notation.parse("dgx1v").graph()
    asked = question.asked(graph, (1, 4, 5, 6))
    goal = choice.Goal("time", 10**8)
    chosen = choice.best(asked, "broadcast", 0, goal)
    shown = trees_page.Found(graph, asked, chosen.packing, documents.of(graph, asked, chosen, goal))
    found = trees_page.section(shown, name="packed-trees") + trees_page.section(shown, name="others")
    text = html.build({}, {}, "syncline run")
    before = "return getComputedStyle(document.querySelector('h2, h1')).font"
    page.open(text)
    plain = page.run(before)
    page.open(text.replace("</main>", f"{found}</main>"))
    assert page.errors == []
    assert page.run(before) == plain
    assert page.run("return document.querySelectorAll('main script').length") == 0
    edges = sum(len(tree.arcs) for tree in chosen.packing.trees)
    assert page.run(SHOWN) == 2 * edges
    page.click("#others-2")
    assert page.run(SHOWN) == 2 * edges - len(chosen.packing.trees[1].arcs)
    assert page.run("return document.querySelectorAll('#packed-trees h3').length") == 1


@pytest.mark.parametrize("size", [1000, 10**9])
def test_links_that_are_unequal_either_way(page: Page, size: int) -> None:
    """The proof has sets that count so often, and trees to the roots are others than those away from them."""
    links = [(0, 1, 2), (1, 2, 1), (2, 0, 1), (1, 0, 1), (0, 2, 1)]
    nodes = tuple(Node(f"GPU <{number}>", "npu", 0) for number in range(3))
    graph = checked(Graph("unequal", nodes, tuple(Link(a, b, 10**9 * r, 1000, "NVLink") for a, b, r in links)))
    asked = question.asked(graph, range(3))
    goal = choice.Goal("time", size)
    chosen = choice.best(asked, "all-reduce", None, goal)
    assert chosen.packing.bound is not None
    assert chosen.packing.bound.shares, "otherwise this tests nothing"
    found = trees_page.Found(graph, asked, chosen.packing, documents.of(graph, asked, chosen, goal))
    page.open(trees_page.build(found, "syncline trees"))
    assert page.errors == []
    assert page.run("return document.querySelectorAll('.trees-cut').length") == 0
    assert len(page.column("border", 2)) == len(chosen.packing.bound.shares)
    assert page.run(SHOWN) > 0
    if chosen.packing.stages:
        assert set(page.column("trees", 1)) == {"reduce", "broadcast"}


STUDY = (
    'name: t\ntopology: dgx1v\ngpus: "1,4,5,6"\nnetwork: flow\n'
    "workload: {collective: all-reduce, size: 64MB, element: 4B}\n"
    "variants:\n  - {name: Trees, collective: {algorithm: packed-trees}}\n"
    "  - {name: Both, collective: {algorithm: packed-trees, trees: {links: hybrid}}}\n"
    "  - {name: Ring, collective: {algorithm: ring}}\n"
)


def test_the_page_of_a_run_shows_its_trees(page: Page, tmp_path: Path, syncline_command: Command) -> None:
    """Those of every variant that packs some; `report` finds the same again."""
    (tmp_path / "study.yaml").write_text(STUDY)
    folder = tmp_path / "run"
    ended = syncline_command("run", str(tmp_path / "study.yaml"), "--out", str(folder))
    assert ended.status == 0, ended.err
    text = (folder / "report.html").read_text(encoding="utf-8")
    page.open(text)
    assert page.errors == []
    titles = page.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    of_trees = [title for title in titles if title.startswith("Trees")]
    assert [title.partition(": ")[2] for title in of_trees] == ["Trees", "Both", "Both"]
    assert "over PCIe" in of_trees[2]
    assert page.run(SHOWN) > 6
    assert syncline_command("report", str(folder), "-o", str(tmp_path / "again.html")).status == 0
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text


def test_the_page_of_a_run_without_trees_has_no_word_of_them(tmp_path: Path, syncline_command: Command) -> None:
    lines = [line for line in STUDY.splitlines(keepends=True) if "packed-trees" not in line]
    (tmp_path / "study.yaml").write_text("".join(lines))
    folder = tmp_path / "run"
    assert syncline_command("run", str(tmp_path / "study.yaml"), "--out", str(folder)).status == 0
    assert 'href="#trees"' not in (folder / "report.html").read_text(encoding="utf-8")
