"""`syncline trees --compare`: the numbers of `syncline collective`, and closed forms that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from syncline.fabric import notation
from syncline.studies.trees import theory

Command = Callable[..., Ended]

NAMES = ["packed trees", "NCCL-like rings", "double binary trees", "bound of the certificate"]
LINKS = """
npus: 4
links:
  - {from: 0, to: 1, rate: 20GB/s, latency: 500ns}
  - {from: 1, to: 2, rate: 10GB/s, latency: 500ns}
"""


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


def _compared(command: Command, *flags: str) -> dict[str, dict[str, Any]]:
    document = _document(command("trees", "--compare", *flags, "--json"))
    assert [entry["name"] for entry in document["comparison"]] == NAMES
    return {entry["algorithm"] or "bound": entry for entry in document["comparison"]}


@pytest.mark.parametrize(
    ("kind", "machine", "gpus", "more"),
    [
        ("broadcast", "dgx1v", "1,4,5,6", ("--root", "5")),
        ("reduce", "dgx1p", "0-7", ("--endpoint", "streams")),
        ("all-reduce", "dgx1v", "0-7", ("--endpoint", "streams")),
        ("all-reduce", "dgx2", "0-4", ("--backend", "analytical")),
        ("all-gather", "dgx1v", "0-4", ("--size", "7MB")),
        ("reduce-scatter", "dgx1v", "0,1", ()),
        ("broadcast", "dgx1v(nodes=2)", "0-2,8-9", ()),
    ],
)
def test_numbers_are_those_of_the_collective_command(
    kind: str, machine: str, gpus: str, more: tuple[str, ...], syncline_command: Command
) -> None:
    """Every number, of every schedule; and the other command refuses what has a reason here."""
    entries = _compared(syncline_command, "--machine", machine, "--gpus", gpus, "--collective", kind, *more)
    given = dict(zip(more[::2], more[1::2], strict=True))
    # Of several servers, the command has trees of each, unless links are named.
    links = ["--set", "collective.trees.links=all"] if "nodes" in machine else []
    flags = ["--machine", machine, "--gpus", gpus, "--size", given.get("--size", "100MB")]
    flags += ["--backend", given.get("--backend", "flow"), "--endpoint", given.get("--endpoint", "ideal")]
    if "--root" in given:
        members = [int(gpu) for gpu in gpus.split(",")]
        flags += ["--root", str(members.index(int(given["--root"])))]
    for algorithm in ("packed-trees", "ring", "double-binary-tree"):
        entry = entries[algorithm]
        own = links if algorithm == "packed-trees" else []
        ended = syncline_command("collective", kind, *flags, "--algorithm", algorithm, *own, "--json")
        if entry["reason"] is not None:
            assert ended.status == 2
            assert entry["reason"] in json.loads(ended.err)["errors"][0]["message"]
            continue
        alone = _document(ended)
        for name in ("time_s", "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s", "steps"):
            assert entry[name] == alone[name], (algorithm, name)
    assert entries["packed-trees"]["time_s"] is not None


@pytest.mark.parametrize("objective", ["trees", "depth"])
def test_other_trees_are_compared_as_they_run(objective: str, syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--size", "20MB"]
    entry = _compared(syncline_command, *flags, "--objective", objective)["packed-trees"]
    trees = ["--algorithm", "packed-trees", "--set", f"collective.trees.objective={objective}"]
    ran = _document(syncline_command("collective", "broadcast", *flags, *trees, "--backend", "flow", "--json"))
    assert entry["time_s"] == ran["time_s"]


@pytest.mark.parametrize("objective", ["time", "trees"])
def test_trees_of_several_servers_are_those_that_are_printed(objective: str, syncline_command: Command) -> None:
    """And not those of each server, whose rate and time the document does not have."""
    flags = ["--machine", "dgx-a100(nodes=2)", "--gpus", "0-2,8,9", "--size", "300MB", "--objective", objective]
    document = _document(syncline_command("trees", *flags, "--compare", "--json"))
    entry = document["comparison"][0]
    assert entry["algorithm"] == "packed-trees"
    assert entry["time_s"] == pytest.approx(document["predicted_time_s"], rel=0.02)


def test_fewer_trees_at_a_loss_are_compared_as_their_plan(tmp_path: Path, syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--size", "20MB"]
    goal = ["--objective", "trees", "--threshold", "20%", "--overhead", "5us"]
    entry = _compared(syncline_command, *flags, *goal)["packed-trees"]
    path = str(tmp_path / "trees.json")
    assert syncline_command("trees", *flags, *goal, "--format", "plan", "-o", path).status == 0
    ran = _document(syncline_command("collective", "broadcast", *flags, "--plan", path, "--backend", "flow", "--json"))
    assert entry["time_s"] == ran["time_s"]


def test_a_root_of_an_all_reduce_is_compared_as_its_plan(tmp_path: Path, syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--size", "20MB", "--collective", "all-reduce", "--root", "5", "--overhead", "5us"]
    entry = _compared(syncline_command, *flags)["packed-trees"]
    path = str(tmp_path / "trees.json")
    assert syncline_command("trees", *flags, "--format", "plan", "-o", path).status == 0
    given = ["--machine", "dgx1v", "--size", "20MB", "--plan", path, "--backend", "flow", "--json"]
    assert entry["time_s"] == _document(syncline_command("collective", "all-reduce", *given))["time_s"]


def test_the_best_root_is_that_of_all_schedules(syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--gpus", "1,4-6", "--collective", "scatter"]
    trees = _document(syncline_command("trees", *flags, "--root", "auto", "--json"))["trees"]
    root = trees[0]["root"]
    assert root != 1, "otherwise this tests nothing"
    auto = _compared(syncline_command, *flags, "--root", "auto")
    named = _compared(syncline_command, *flags, "--root", str(root))
    assert auto == named
    assert auto != _compared(syncline_command, *flags)


def test_slices_are_those_that_suit_the_endpoint(tmp_path: Path, syncline_command: Command) -> None:
    """A command in a stream costs more than what a plan is cut for by itself."""
    flags, goal = ["--machine", "dgx1v", "--size", "20MB"], ["--objective", "trees"]
    path = str(tmp_path / "trees.json")
    assert syncline_command("trees", *flags, *goal, "--format", "plan", "-o", path).status == 0
    streams = ["--backend", "flow", "--endpoint", "streams"]
    by_itself = _document(syncline_command("collective", "broadcast", *flags, "--plan", path, *streams, "--json"))
    entry = _compared(syncline_command, *flags, *goal, "--endpoint", "streams")["packed-trees"]
    assert entry["time_s"] < 0.8 * by_itself["time_s"]


def test_few_deep_trees_are_slower_than_shallow_ones(syncline_command: Command) -> None:
    """Otherwise the objective would not reach the comparison."""
    times = [
        _compared(syncline_command, "--machine", "dgx1v", "--size", "20MB", "--objective", goal)["packed-trees"]
        for goal in ("trees", "depth")
    ]
    assert times[0]["time_s"] > times[1]["time_s"]


def test_links_decide_which_trees_are_compared(syncline_command: Command) -> None:
    """Trees over PCIe, where no NVLinks connect the GPUs; `packed-trees` by itself has none there."""
    flags = ["--machine", "dgx1v", "--gpus", "3,4,5"]
    apart = _compared(syncline_command, *flags)
    assert "do not connect" in apart["packed-trees"]["reason"]
    assert apart["packed-trees"]["time_s"] is apart["packed-trees"]["share_of_bound"] is None
    assert apart["ring"]["time_s"] > 0
    assert apart["ring"]["share_of_bound"] is None
    assert "do not connect" in apart["bound"]["reason"]
    joined = _compared(syncline_command, *flags, "--links", "all")
    assert 0.9 < joined["packed-trees"]["share_of_bound"] <= 1
    assert joined["bound"]["algorithm_bandwidth_bytes_per_s"] == 6e9


@pytest.mark.parametrize(
    ("machine", "gpus", "kind", "links"),
    [
        ("dgx1v", "0-7", "all-reduce", 6 * 8 / 14),
        ("dgx1v", "0-7", "broadcast", 6),
        ("dgx1v", "0-7", "all-gather", 6 * 8 / 7),
        ("dgx1v", "0-2,4-6", "all-reduce", 4 * 6 / 10),
        ("dgx1p", "0-7", "reduce", 4),
        ("dgx1v", "0,3", "all-reduce", 2),
        ("dgx1v", "1,4-6", "broadcast", 0.24),
        ("dgx1v", "1,4-6", "all-reduce", 0.24 * 4 / 6),
        ("dgx2", "0-15", "all-reduce", 6 * 16 / 30),
        ("dgx2", "0-4", "reduce-scatter", 6 * 5 / 4),
        ("dgx-h100(efficiency=80%)", "0-7", "broadcast", 18),
    ],
)
def test_rings_in_theory_are_what_a_large_vector_gets(
    machine: str, gpus: str, kind: str, links: float, syncline_command: Command
) -> None:
    """Closed form, written out here, and simulation: neither knows of the other."""
    document = _document(
        syncline_command(
            *("trees", "--machine", machine, "--gpus", gpus, "--collective", kind),
            *("--size", "2GB", "--compare", "--json"),
        )
    )
    ring = next(entry for entry in document["comparison"] if entry["algorithm"] == "ring")
    assert ring["theory_bytes_per_s"] / document["link_unit_bytes_per_s"] == pytest.approx(links)
    assert ring["theory_over"] == ("PCIe" if links < 1 else "NVLink")
    assert ("PCIe" in ring["over"]) == (links < 1)
    assert ring["algorithm_bandwidth_bytes_per_s"] == pytest.approx(ring["theory_bytes_per_s"], rel=0.03)
    assert ring["algorithm_bandwidth_bytes_per_s"] <= ring["theory_bytes_per_s"] * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce"])
def test_nothing_over_nvlinks_beats_the_bound(kind: str, syncline_command: Command) -> None:
    for machine in ("dgx1v", "dgx1p", "dgx2"):
        flags = ["--machine", machine, "--gpus", "0-7", "--collective", kind, "--size", "200MB"]
        entries = _compared(syncline_command, *flags)
        bound = entries["bound"]
        assert bound["share_of_bound"] == 1
        assert bound["time_s"] == pytest.approx(2e8 / bound["algorithm_bandwidth_bytes_per_s"])
        for name in ("packed-trees", "ring"):
            assert entries[name]["share_of_bound"] <= 1 + 1e-9
            assert entries[name]["time_s"] >= bound["time_s"] * (1 - 1e-9)
            share = entries[name]["algorithm_bandwidth_bytes_per_s"] / bound["algorithm_bandwidth_bytes_per_s"]
            assert entries[name]["share_of_bound"] == pytest.approx(share)
        assert entries["packed-trees"]["theory_bytes_per_s"] == pytest.approx(bound["theory_bytes_per_s"])


def test_what_links_were_used_is_seen_and_not_guessed(syncline_command: Command) -> None:
    """No cycle of NVLinks has these three GPUs, so that theory has a ring over PCIe. The simulated ring goes along the
    ranks: a broadcast passes 0-2-6 over NVLinks, an all-reduce has to come back to 0.
    """
    flags = ["--machine", "dgx1v", "--gpus", "0,2,6"]
    for kind, over in (("broadcast", ["NVLink"]), ("all-reduce", ["NVLink", "PCIe", "QPI"])):
        entries = _compared(syncline_command, *flags, "--collective", kind)
        assert entries["ring"]["theory_over"] == "PCIe"
        assert entries["ring"]["over"] == over
        assert entries["packed-trees"]["over"] == ["NVLink"]


def test_one_gpu_has_nothing_to_compare(syncline_command: Command) -> None:
    for entry in _compared(syncline_command, "--machine", "dgx2", "--gpus", "7").values():
        assert (entry["time_s"], entry["reason"]) == (None, "there is one GPU, which needs no other")


def test_what_is_no_ring_and_no_tree(syncline_command: Command) -> None:
    """A scatter sends a part to each GPU only, and its bound knows that."""
    document = _document(
        syncline_command("trees", "--machine", "dgx1v", "--collective", "scatter", "--compare", "--json")
    )
    entries = {entry["algorithm"]: entry for entry in document["comparison"]}
    assert entries["ring"]["theory_bytes_per_s"] is None
    assert "no double-binary-tree algorithm for scatter" in entries["double-binary-tree"]["reason"]
    assert entries["ring"]["share_of_bound"] <= 1 + 1e-9
    assert 0.8 < entries["packed-trees"]["share_of_bound"] <= 1 + 1e-9
    assert entries[None]["algorithm_bandwidth_bytes_per_s"] == pytest.approx(25e9 * 48 / 7)


def test_a_file_has_no_closed_form_of_rings(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "links.yaml"
    path.write_text(LINKS)
    entries = _compared(syncline_command, "--topology-file", str(path), "--gpus", "0-2", "--root", "1")
    assert entries["ring"]["theory_bytes_per_s"] is entries["ring"]["theory_over"] is None
    assert entries["bound"]["algorithm_bandwidth_bytes_per_s"] == 10e9
    assert entries["packed-trees"]["time_s"] > 1e8 / 10e9


def test_closed_forms_know_their_limits() -> None:
    assert theory.rings(notation.parse("dgx1v(nodes=2)"), range(16)) is None
    assert theory.rings(notation.parse("dgx1v"), (3,)) is None
    assert theory.ring_rate(notation.parse("dgx1v"), (0, 1, 2), "scatter") is None
    assert theory.rings(notation.parse("dgx1v(pcie_efficiency=50%)"), (1, 4, 5, 6)) is None
    assert theory.carried("all-reduce", 1) is None


def test_the_table(syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1v", "--collective", "all-gather", "--compare")
    assert ended.status == 0
    for said in (
        "all-gather of 100.0 MB, flow backend, ideal endpoint",
        *NAMES,
        "algbw",
        "of the bound",
        "6.857 links",
    ):
        assert said in ended.out
    assert "double binary trees: there is no double-binary-tree algorithm for all-gather" in ended.out


def test_a_backend_without_contention_is_no_judge(syncline_command: Command) -> None:
    flags = ["trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--compare", "--json"]
    for backend, warned in (("analytical", True), ("flow", False)):
        warnings = _document(syncline_command(*flags, "--backend", backend))["warnings"]
        assert any("do not slow each other down" in warning for warning in warnings) == warned


def test_nothing_changes_without_it(syncline_command: Command) -> None:
    document = _document(syncline_command("trees", "--machine", "dgx1v", "--json"))
    assert "comparison" not in document
    assert document["fidelity"] == {"backend": None}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--backend", "flow"), "--backend: this has no meaning without --compare"),
        (("--endpoint", "streams"), "--endpoint: this has no meaning without --compare"),
        (("--compare", "--backend", "fluid"), "analytical"),
        (("--compare", "--endpoint", "ace"), "accepted: ideal, streams"),
        (("--compare", "--format", "plan"), "a plan is no comparison"),
        (("--compare", "--size", "0B"), "more than zero"),
        (("--threads", "2"), "--threads: this has no meaning without --sweep"),
        (("--sizes", "3-4"), "--sizes: this has no meaning without --sweep"),
        (("--every",), "--every: this has no meaning without --sweep"),
        (("--resume",), "--resume: this has no meaning without --sweep"),
        (("--html", "/nowhere/page.html"), "--html: this cannot be written"),
    ],
)
def test_wrong_input(flags: tuple[str, ...], said: str, syncline_command: Command) -> None:
    ended = syncline_command("trees", "--machine", "dgx1v", "--gpus", "0-2", *flags)
    assert ended.status == 2
    assert said in ended.err


def test_standard_input_is_read_once(syncline_command: Command) -> None:
    ended = syncline_command("trees", "--topology-file", "-", "--compare")
    assert ended.status == 2
