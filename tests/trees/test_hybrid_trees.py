"""Trees over NVLinks and PCIe at the same time: the split, the plan and its time, held against closed forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import Ended
from syncline.base.errors import InputError
from syncline.fabric import notation
from syncline.fabric.graph import Graph
from syncline.plans import plan_form
from syncline.treegen import choice, hybrid, pack, plan, question
from syncline.treegen.costs import PEER_ACCESS_PS
from syncline.treegen.hybrid import Hybrid

Command = Callable[..., Ended]

GB = 10**9
KINDS = ("broadcast", "reduce", "all-reduce", "all-gather", "reduce-scatter", "scatter", "gather")
BARE = ("copy_overhead", "kernel_overhead", "event_overhead")
WHERE = ((0, 1, 2), (0, 1, 4), (0, 1, 2, 3), tuple(range(7)), tuple(range(8)))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return notation.parse("dgx1v").graph()


class Simulated:
    """Simulations of plans, with streams that have no overheads but what peer access costs."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder, self.command = folder, command

    def seconds(self, form: dict[str, Any], kind: str, gpus: tuple[int, ...], size: int, *more: str) -> float:
        path = self.folder / "trees.json"
        path.write_text(plan_form.dumps(form))
        where = ["--machine", "dgx1v", "--gpus", ",".join(map(str, gpus)), "--backend", "flow"]
        ran = self.command("collective", kind, "--size", f"{size}B", *where, "--plan", str(path), *more, "--json")
        assert ran.status == 0, ran.err
        return float(json.loads(ran.out)["time_s"])

    def switching(self, form: dict[str, Any], kind: str, gpus: tuple[int, ...], size: int, switch_ps: int) -> float:
        bare = [option for name in BARE for option in ("--set", f"endpoint.{name}=0us")]
        bare += ["--set", "endpoint.reduce_rate=900TB/s", "--set", f"endpoint.peer_access_latency={switch_ps}ps"]
        return self.seconds(form, kind, gpus, size, "--endpoint", "streams", *bare)


@pytest.fixture
def simulated(tmp_path: Path, syncline_command: Command) -> Simulated:
    return Simulated(tmp_path, syncline_command)


@given(
    size=st.integers(1, 10**12),
    pcie=st.integers(0, 50 * GB),
    nvlink=st.integers(0, 300 * GB),
    wait=st.floats(0, 10),
)
def test_equation_8_makes_both_end_together(size: int, pcie: int, nvlink: int, wait: float) -> None:
    part = hybrid.equation_8(size, pcie, nvlink, wait)
    assert 0 <= part <= size
    if pcie == 0 or (nvlink and wait >= size / nvlink):
        assert part == 0
    elif nvlink and 0 < part < size:
        assert part / pcie + wait == pytest.approx((size - part) / nvlink, rel=1e-6)


@pytest.mark.parametrize("gpus", WHERE)
@pytest.mark.parametrize("switch_ps", [0, 200_000_000])
def test_parts_are_those_of_equation_8(graph: Graph, gpus: tuple[int, ...], switch_ps: int) -> None:
    """With the bandwidths at which trees carry their parts; and of large vectors with those of the trees alone."""
    for size in (10**8, 10**10):
        found = hybrid.of(graph, gpus, "broadcast", 0, size, switch_ps=switch_ps)
        assert found.switch_s == pytest.approx(len(gpus) * switch_ps * 1e-12)
        pcie, nvlink = (part.size / part.seconds if part.size else 0.0 for part in (found.pcie, found.nvlink))
        rates = found.pcie.rate, found.nvlink.rate
        parts = [hybrid.equation_8(size, *each, found.switch_s) for each in ((pcie, nvlink), rates)]
        assert found.pcie.size == pytest.approx(min(parts), rel=1e-3, abs=2)
    assert found.pcie.size == pytest.approx(hybrid.equation_8(size, *rates, found.switch_s), rel=0.05)


@pytest.mark.parametrize("gpus", WHERE)
@pytest.mark.parametrize("kind", KINDS)
def test_plans_hold_what_they_promise(
    kind: str, gpus: tuple[int, ...], graph: Graph, tmp_path: Path, syncline_command: Command
) -> None:
    for size in (30_000_000, 3 * GB):
        form = hybrid.form(graph, gpus, kind, len(gpus) - 1, size, switch_ps=0)  # type: ignore[arg-type]
        ways = [
            step.get("way") for rank in form["programs"][0]["ranks"] for thread in rank for step in thread[0]["steps"]
        ]
        assert {"over": "PCIe"} in ways
        path = tmp_path / "trees.json"
        path.write_text(plan_form.dumps(form))
        assert syncline_command("verify", str(path)).status == 0


@pytest.mark.parametrize("gpus", WHERE)
@pytest.mark.parametrize("switch_ps", [0, 500_000_000])
def test_a_broadcast_takes_the_slower_of_both_parts(
    gpus: tuple[int, ...], switch_ps: int, graph: Graph, simulated: Simulated
) -> None:
    """Within 1 % of `max(T_pcie + T_dpa, T_nvl)`, where slices follow one another at the rate of the trees."""
    size = 100 * GB
    found = hybrid.of(graph, gpus, "broadcast", 0, size, switch_ps=switch_ps)
    form = hybrid.written(graph, found, "hybrid")
    took = simulated.switching(form, "broadcast", gpus, size, switch_ps)
    expected = max(
        part.size / part.rate + wait for part, wait in ((found.pcie, found.switch_s), (found.nvlink, 0.0)) if part.size
    )
    assert took == pytest.approx(expected, rel=0.01)
    assert took < 0.99 * size / found.nvlink.rate


@pytest.mark.parametrize("kind", KINDS)
def test_both_kinds_of_links_are_faster_than_one(kind: str, graph: Graph, simulated: Simulated) -> None:
    gpus, size = (0, 1, 4), 5 * GB
    found = hybrid.of(graph, gpus, kind, 0, size, switch_ps=0)  # type: ignore[arg-type]
    only = replace(found, nvlink=replace(found.nvlink, size=size), pcie=replace(found.pcie, size=0))
    both, alone = (simulated.seconds(hybrid.written(graph, each, "trees"), kind, gpus, size) for each in (found, only))
    assert both == pytest.approx(found.seconds, rel=0.04)
    assert both < 0.9 * alone


@pytest.mark.parametrize("switch_ps", [0, 1_000_000_000])
def test_other_splits_are_slower(switch_ps: int, graph: Graph, simulated: Simulated) -> None:
    gpus, size = (0, 1, 2, 3), 2 * GB
    found = hybrid.of(graph, gpus, "broadcast", 0, size, switch_ps=switch_ps)

    def took(pcie: int) -> float:
        split = replace(found, pcie=replace(found.pcie, size=pcie), nvlink=replace(found.nvlink, size=size - pcie))
        return simulated.switching(hybrid.written(graph, split, "trees"), "broadcast", gpus, size, switch_ps)

    best = took(found.pcie.size)
    assert all(best < took(round(found.pcie.size * factor)) for factor in (0.6, 0.85, 1.15, 1.5))


def test_a_switch_that_takes_too_long_leaves_everything_to_nvlinks(graph: Graph) -> None:
    for gpus in combinations(range(8), 3):
        alone = pack.of(question.asked(graph, gpus, "nvlink"), "broadcast")
        if len(alone.components) > 1:
            continue
        found = hybrid.of(graph, gpus, "broadcast", 0, 10**8, switch_ps=10**12)
        assert found.pcie.size == 0
        trees = found.nvlink.packed
        slices = choice.slices(trees, trees.trees, 10**8)
        only = plan.form(graph, found.nvlink.asked, trees, slices, "hybrid-trees")
        assert hybrid.form(graph, gpus, "broadcast", 0, 10**8, switch_ps=10**12) == only


def test_gpus_that_no_nvlinks_connect_use_pcie_alone(graph: Graph, simulated: Simulated) -> None:
    found = hybrid.of(graph, (3, 4), "broadcast", 0, GB)
    assert (found.nvlink.size, found.pcie.size) == (0, GB)
    form = hybrid.written(graph, found, "pcie")
    took = simulated.switching(form, "broadcast", (3, 4), GB, PEER_ACCESS_PS)
    assert took == pytest.approx(2 * PEER_ACCESS_PS * 1e-12 + GB / found.pcie.rate, rel=0.01)


@pytest.mark.parametrize("size", [1, 7, 64, 4096, 65_537, 1_000_003])
@pytest.mark.parametrize("kind", KINDS)
def test_few_bytes(kind: str, size: int, graph: Graph, simulated: Simulated) -> None:
    form = hybrid.form(graph, (0, 1, 2), kind, 0, size, switch_ps=0)  # type: ignore[arg-type]
    assert form["programs"][0]["blocks"] <= max(size // hybrid.BLOCK, 64)
    assert 0 < simulated.seconds(form, kind, (0, 1, 2), size) < 1e-3


def test_gpus_without_trees(graph: Graph) -> None:
    with pytest.raises(InputError, match="only one"):
        hybrid.form(graph, (3,), "broadcast", 0, GB)
    cluster = notation.parse("dgx1v(nodes=2)").graph()
    with pytest.raises(InputError, match="in several"):
        hybrid.form(cluster, (3, 8), "broadcast", 0, GB)
    switched = notation.parse("dgx2").graph()
    found: Hybrid = hybrid.of(switched, tuple(range(4)), "broadcast", 0, GB)
    assert (found.pcie.size, found.pcie.packed.trees) == (0, ())


class TestCommand:
    """`syncline trees --links hybrid`."""

    LINE = ("trees", "--machine", "dgx1v", "--gpus", "0,1,4", "--links", "hybrid", "--size", "500MB")

    def test_the_document_has_both_parts(self, syncline_command: Command) -> None:
        document = json.loads(syncline_command(*self.LINE, "--switch-latency", "1ms", "--json").out)
        nvlink, pcie = document["parts"]
        assert (nvlink["links"], pcie["links"], document["links"]) == ("nvlink", "pcie", "hybrid")
        assert nvlink["size_bytes"] + pcie["size_bytes"] == document["size_bytes"] == 500_000_000
        rates = pcie["rate_bytes_per_s"], nvlink["rate_bytes_per_s"]
        assert rates == (6e9, 25e9)
        assert pcie["size_bytes"] == pytest.approx(hybrid.equation_8(5e8, *rates, 3e-3), rel=1e-6)
        assert document["switch_s"] == pytest.approx(3e-3)
        assert document["predicted_time_s"] == pytest.approx(pcie["predicted_time_s"] + 3e-3)
        assert document["predicted_time_s"] < document["nvlink_only_time_s"] == pytest.approx(0.02, rel=1e-2)
        assert "over PCIe" in syncline_command(*self.LINE).out

    @pytest.mark.parametrize("format_", ["plan", "msccl-xml"])
    def test_formats_that_say_over_which_links(self, format_: str, tmp_path: Path, syncline_command: Command) -> None:
        path = tmp_path / "trees"
        assert syncline_command(*self.LINE, "--format", format_, "-o", str(path)).status == 0
        assert any(way in path.read_text() for way in ('"over": "PCIe"', 'way="choice:65280"'))
        assert syncline_command("verify", str(path)).status == 0

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (("--format", "mscclpp-json"), "MSCCL++ do not say over which links"),
            (("--switch-latency", "3"), "--switch-latency: the unit is missing"),
            (("--switch-latency", "-3us"), "--switch-latency"),
            (("--objective", "trees"), "--objective: hybrid trees are those of some GPUs"),
            (("--root", "auto"), "--root: hybrid trees are those of some GPUs, and of one root"),
            (("--compare", "--switch-latency", "3us"), "with the endpoint ideal, nothing waits for peer access"),
            (("--sweep", "allocations"), "--sweep: hybrid trees"),
            (("--links", "nvlink", "--switch-latency", "3us"), "--links hybrid beside it"),
            (("--gpus", "4", "--format", "plan"), "there is only one"),
        ],
    )
    def test_wrong_input(self, more: tuple[str, ...], said: str, syncline_command: Command) -> None:
        ended = syncline_command(*self.LINE, *more)
        assert (ended.status, ended.out) == (2, "")
        assert said in ended.err

    def test_trees_of_both_kinds_are_drawn(self, tmp_path: Path, syncline_command: Command) -> None:
        picture, page = tmp_path / "trees.svg", tmp_path / "trees.html"
        ended = syncline_command(*self.LINE, "--svg", str(picture), "--html", str(page), "--json")
        assert ended.status == 0, ended.err
        nvlink, pcie = json.loads(ended.out)["parts"]
        drawn = picture.read_text()
        for number, (tree, over) in enumerate(
            [*((tree, "NVLinks") for tree in nvlink["trees"]), *((tree, "PCIe") for tree in pcie["trees"])], start=1
        ):
            assert drawn.count(f"<title>tree {number} over {over}: ") == len(tree["edges"])
        text = page.read_text()
        assert "Trees over NVLinks" in text
        assert "Trees over PCIe" in text
        assert text.count('class="trees-drawn"') == 2

    def test_a_picture_without_pcie_is_that_of_nvlinks(self, tmp_path: Path, syncline_command: Command) -> None:
        path = tmp_path / "trees.svg"
        assert syncline_command(*self.LINE, "--switch-latency", "1s", "--svg", str(path)).status == 0
        assert "over PCIe" not in path.read_text()

    @pytest.mark.parametrize("endpoint", ["ideal", "streams"])
    def test_they_are_compared_with_trees_over_nvlinks(self, endpoint: str, syncline_command: Command) -> None:
        document = json.loads(syncline_command(*self.LINE, "--compare", "--endpoint", endpoint, "--json").out)
        both, only, ring, *_, bound = document["comparison"]
        assert (both["name"], only["name"]) == ("hybrid trees", "trees over NVLinks alone")
        assert both["over"] == ["NVLink", "PCIe", "QPI"]
        assert only["over"] == ["NVLink"]
        assert both["time_s"] == pytest.approx(document["predicted_time_s"], rel=0.02)
        assert bound["time_s"] < both["time_s"] < only["time_s"] < ring["time_s"]
        assert both["theory_bytes_per_s"] == 31e9 == bound["theory_bytes_per_s"]
        assert document["switch_s"] == (0.0 if endpoint == "ideal" else pytest.approx(3 * PEER_ACCESS_PS * 1e-12))
        if endpoint == "ideal":
            assert both["share_of_bound"] == pytest.approx(1, rel=0.01)

    def test_a_comparison_has_the_latency_that_is_given(self, syncline_command: Command) -> None:
        line = (*self.LINE, "--compare", "--endpoint", "streams", "--json", "--switch-latency")
        short, long = (json.loads(syncline_command(*line, latency).out)["comparison"][0] for latency in ("0s", "1ms"))
        assert short["time_s"] < long["time_s"]

    def test_execution_plans_where_nothing_goes_over_pcie(self, syncline_command: Command) -> None:
        ended = syncline_command(*self.LINE, "--switch-latency", "1s", "--format", "mscclpp-json")
        assert ended.status == 0, ended.err

    def test_several_servers(self, syncline_command: Command) -> None:
        ended = syncline_command("trees", "--machine", "dgx1v(nodes=2)", "--links", "hybrid")
        assert (ended.status, "these GPUs are in several" in ended.err) == (2, True)


class TestAlgorithm:
    """`packed-trees` with hybrid links."""

    def rate(self, command: Command, endpoint: str, *more: str) -> float:
        line = ["collective", "broadcast", "--size", "500MB", "--machine", "dgx1v", "--gpus", "0,1,4"]
        line += ["--algorithm", "packed-trees", "--backend", "flow", "--endpoint", endpoint]
        ended = command(*line, *(item for setting in more for item in ("--set", setting)), "--json")
        assert ended.status == 0, ended.err
        return float(json.loads(ended.out)["algorithm_bandwidth_bytes_per_s"])

    def test_an_ideal_endpoint_switches_for_nothing(self, syncline_command: Command) -> None:
        both = self.rate(syncline_command, "ideal", "collective.trees.links=hybrid")
        assert both == pytest.approx(31e9, rel=0.01)
        assert self.rate(syncline_command, "ideal", "collective.trees.links=nvlink") == pytest.approx(25e9, rel=0.01)
        assert self.rate(syncline_command, "ideal", "collective.trees.links=pcie") == pytest.approx(6e9, rel=0.01)

    def test_streams_switch_peer_access(self, syncline_command: Command) -> None:
        hybrid_links, name = "collective.trees.links=hybrid", "endpoint.peer_access_latency"
        none, some, long = (
            self.rate(syncline_command, "streams", hybrid_links, f"{name}={latency}") for latency in ("0s", "1ms", "1s")
        )
        assert none > some > long
        assert long == self.rate(syncline_command, "streams", "collective.trees.links=nvlink")

    def test_slices_are_those_of_the_experiment(self, syncline_command: Command) -> None:
        few, many = (
            self.rate(syncline_command, "streams", "collective.trees.links=hybrid", f"collective.slices={slices}")
            for slices in (300, 3000)
        )
        assert few > 1.1 * many

    def test_several_servers(self, syncline_command: Command) -> None:
        line = [
            "collective",
            "broadcast",
            "--size",
            "1MB",
            "--machine",
            "dgx1v(nodes=2)",
            "--algorithm",
            "packed-trees",
        ]
        ended = syncline_command(*line, "--set", "collective.trees.links=hybrid")
        assert (ended.status, "these GPUs are in several" in ended.err) == (2, True)
