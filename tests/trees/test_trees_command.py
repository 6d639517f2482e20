"""`syncline trees` by its contract, and what it says of wrong input."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.command import Ended

Command = Callable[..., Ended]

LINKS = """
npus: 4
links:
  - {from: 0, to: 1, rate: 20GB/s, latency: 500ns}
  - {from: 1, to: 2, rate: 10GB/s, latency: 500ns}
"""


def test_the_document(syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--json")
    assert (ended.status, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert document["rate_links"] == document["optimal_rate_links"] == 2
    assert document["link_unit_bytes_per_s"] == 25e9
    assert document["certificate"]["sets"] == [["GPU 4", "GPU 5", "GPU 6"]]
    assert document["components"] == [[1, 4, 5, 6]]
    assert {tree["root"] for tree in document["trees"]} == {1}
    assert {tuple(edge) for tree in document["trees"] for edge in tree["edges"]} >= {(1, 5), (5, 4), (5, 6)}
    assert sum(tree["weight"] for tree in document["trees"]) == 2
    again = json.loads(syncline_command("trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--json").out)
    assert {**again, "cost": None} == {**document, "cost": None}


def test_gpus_that_no_links_connect(syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1v", "--gpus", "3,4,5", "--json")
    document = json.loads(ended.out)
    assert ended.status == 0
    assert (document["rate_links"], document["trees"], document["components"]) == (0, [], [[3], [4, 5]])
    over_pcie = json.loads(
        syncline_command("trees", "--machine", "dgx1v", "--gpus", "3,4,5", "--links", "all", "--json").out
    )
    assert 0 < over_pcie["rate_links"] < 1
    alone = syncline_command("trees", "--machine", "dgx2", "--gpus", "7")
    assert alone.status == 0
    assert "there is one GPU" in alone.out


def test_the_objective_decides(syncline_command: Command) -> None:
    def trees(*flags: str) -> tuple[int, int]:
        found = json.loads(syncline_command("trees", "--machine", "dgx1v", *flags, "--json").out)["trees"]
        return len(found), max(tree["depth"] for tree in found)

    assert trees("--objective", "trees") == (4, 7)
    assert trees("--objective", "depth") == (6, 4)
    assert trees("--size", "100MB") == (6, 4)


@pytest.mark.parametrize("kind", ["scatter", "gather"])
def test_every_kind_has_rates(kind: str, syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1p", "--collective", kind, "--root", "3", "--json")
    document = json.loads(ended.out)
    assert document["rate_links"] == document["certificate"]["rate_links"] == pytest.approx(4 * 8 / 7)
    parts = {gpu: sum(path["weight"] for path in document["trees"] if path["part_of"] == gpu) for gpu in range(8)}
    assert parts == {gpu: pytest.approx(0 if gpu == 3 else 4 / 7) for gpu in range(8)}
    for path in document["trees"]:
        ends = [3, *(dst for _, dst in path["edges"])]
        assert path["edges"] == [list(edge) for edge in itertools.pairwise(ends)]
        assert (path["depth"], path["part_of"]) == (len(path["edges"]), ends[-1])


def test_links_from_a_file(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "links.yaml"
    path.write_text(LINKS)
    ended = syncline_command("trees", "--topology-file", str(path), "--gpus", "0-2", "--root", "1", "--json")
    document = json.loads(ended.out)
    assert document["rate_bytes_per_s"] == 10e9


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--root", "9"), "--root: GPU 9 does not take part"),
        (("--gpus", "0-8"), "there is no GPU 8"),
        (("--collective", "all-to-all"), "--collective: this collective is not known"),
        (("--objective", "speed"), "time, trees, depth"),
        (("--links", "pci"), "auto, nvlink, pcie, all, hybrid"),
        (("--size", "64"), "the unit is missing"),
        (("--size", "0B"), "more than zero"),
        (("--threshold", "5%"), "--objective trees"),
        (("--objective", "trees", "--threshold", "100%"), "nothing would be left"),
        (("--format", "xml"), "json, plan, msccl-xml, mscclpp-json"),
        (("-o", "trees.json"), "--format plan"),
        (("--format", "plan", "--json"), "--json"),
        (("--root", "first"), "this is no GPU"),
        (("--root", "-1"), "this is no GPU"),
        (("--root", "auto", "--collective", "all-gather"), "every GPU is a root"),
        (("--overhead", "5"), "the unit is missing"),
        (("--overhead", "-1us"), "--overhead"),
        (("--format", "plan", "--gpus", "3,4,5"), "not all GPUs reach each other"),
        (("--format", "plan", "-o", "/nowhere/trees.json"), "cannot be written"),
        (("--topology-file", "links.yaml"), "exclude each other"),
    ],
)
def test_wrong_input(flags: tuple[str, ...], said: str, syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1v", *flags)
    assert ended.status == 2
    assert said in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(("kind", "drawn"), [("broadcast", 6), ("all-gather", 16)])
def test_trees_are_drawn(kind: str, drawn: int, tmp_path: Path, syncline_command: Command) -> None:
    """An arrow for each edge, a box for each GPU, and a colour and a line of the legend for each tree."""
    path = tmp_path / "trees.svg"
    ended = syncline_command("trees", "--machine", "dgx1v", "--collective", kind, "--svg", str(path), "--json")
    assert (ended.status, ended.err) == (0, f"picture: {path}\n")
    root = ElementTree.fromstring(path.read_text())
    arrows = [line for line in root.iter() if line.get("class") == "wire"]
    assert len(arrows) == 7 * len(json.loads(ended.out)["trees"]) == 7 * drawn
    assert len([box for box in root.iter() if box.get("class") == "npu"]) == 8
    assert len([text for text in root.itertext() if text.startswith("tree ") and "root GPU" in text]) == drawn
    assert "of all trees" in path.read_text() or kind == "all-gather"


def test_what_is_not_drawn(tmp_path: Path, syncline_command: Command) -> None:
    many = syncline_command("trees", "--machine", "gb200-nvl72", "--objective", "depth", "--svg", str(tmp_path / "x"))
    assert (many.status, "trees of 72 GPUs are not drawn" in many.err) == (2, True)
    nowhere = syncline_command("trees", "--machine", "dgx2", "--svg", str(tmp_path / "no" / "trees.svg"))
    assert (nowhere.status, "cannot be written" in nowhere.err) == (2, True)


def test_few_trees_of_many_gpus(syncline_command: Command) -> None:
    """The choice ends although the trees of 64 GPUs are too many to be looked at, and names a few nodes only."""
    flags = ["--machine", "dgx1v(nodes=8)", "--objective", "trees"]
    document = json.loads(syncline_command("trees", *flags, "--json").out)
    assert document["rate_links"] == document["optimal_rate_links"] == 2
    assert 1 <= document["fewest_possible"] <= len(document["trees"])
    assert " more nodes" in syncline_command("trees", *flags).out


def test_more_gpus_than_anyone_waits_for(syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx-h100(nodes=145)")
    assert ended.status == 2
    assert "trees of 1160 GPUs take too long" in ended.err
    plan = syncline_command("trees", "--machine", "dgx-h100(nodes=33)", "--format", "plan")
    assert (plan.status, "trees of 264 GPUs take too long" in plan.err) == (2, True)


@pytest.mark.parametrize(
    "flags",
    [
        ("--root", "auto"),
        ("--collective", "scatter"),
        ("--compare",),
        ("--links", "hybrid"),
        ("--collective", "all-reduce", "--root", "3"),
    ],
)
def test_what_takes_longer_has_fewer_gpus(flags: tuple[str, ...], syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx-h100(nodes=33)", *flags)
    assert ended.status == 2
    assert f"up to 256 GPUs with {' '.join(flags[-2:])}" in ended.err


def test_trees_of_one_root_stand_for_those_of_all(syncline_command: Command) -> None:
    """Of 264 GPUs, the trees of one are named, with permutations that make all others of them."""
    flags = ["--machine", "dgx-h100(nodes=33)", "--collective", "all-gather"]
    document = json.loads(syncline_command("trees", *flags, "--json").out)
    # What enters a server of 8 cards with 2 links' rate each, for the 256 GPUs outside of it.
    assert document["rate_links"] == document["optimal_rate_links"] == pytest.approx(264 * 16 / 256)
    assert {tree["root"] for tree in document["trees"]} == {0}
    assert sum(tree["weight"] for tree in document["trees"]) * 264 == pytest.approx(document["rate_links"])
    assert document["symmetry"]["roots"] == 264
    reached = {0}
    while more := {images[gpu] for images in document["symmetry"]["generators"] for gpu in reached} - reached:
        reached |= more
    assert reached == set(range(264))
    assert "those of all 264" in syncline_command("trees", *flags).out


def test_few_trees_over_switches(syncline_command: Command) -> None:
    """One chain has all that a GPU on NVSwitches can send, and shallow trees are named for the other objective."""

    def trees(objective: str) -> tuple[int, int, int]:
        flags = ["--machine", "dgx2", "--objective", objective]
        document = json.loads(syncline_command("trees", *flags, "--json").out)
        assert document["rate_links"] == document["optimal_rate_links"] == 6
        return (
            len(document["trees"]),
            max(tree["depth"] for tree in document["trees"]),
            document["fewest_possible"],
        )

    assert trees("trees") == (1, 15, 1)
    assert trees("depth") == (15, 2, 1)


def test_no_machine(syncline_command: Command) -> None:
    assert "no machine is given" in syncline_command("trees").err
