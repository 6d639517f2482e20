"""The three phases of GPUs in several servers: verified, and held against bounds, closed forms and rings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from support.command import Ended
from syncline.base.errors import InputError
from syncline.fabric import files, notation
from syncline.plans import plan_form
from syncline.studies.reproduction.blink_links import two_servers
from syncline.treegen import loads, pack, question, servers
from syncline.treegen.packing import Collective

Command = Callable[..., Ended]

KINDS: tuple[Collective, ...] = ("all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter")
THREE_AND_FIVE = "0-2,8-12"
WHERE = (
    ("dgx1v(nodes=2)", THREE_AND_FIVE),
    ("dgx1v(nodes=2, nics=single)", THREE_AND_FIVE),
    ("dgx1v(nodes=2)", "0,8-14"),  # one GPU and seven
    ("dgx1v(nodes=2)", "0,8"),
    ("dgx1v(nodes=3)", "0-1,8-10,16-19"),
    ("dgx1v(nodes=2)", "3,4,5,8-10"),  # GPUs 3, 4 and 5 have no NVLinks that connect them
    ("dgx1p(nodes=4)", "0-7,9,17,20,24-26"),
    ("dgx2(nodes=2)", "0-2,16-19"),
)
SAMPLED = [(kind, *where) for kind in KINDS for where in Random(f"0 {kind}").sample(WHERE, 4)]
"""Half of these for each kind of collectives, since they take seconds; all allocations are among them."""


@dataclass(frozen=True, slots=True)
class Case:
    """An allocation on a cluster, and the command that simulates plans on it."""

    machine: str
    gpus: str
    command: Command
    folder: Path

    @property
    def members(self) -> tuple[int, ...]:
        graph = notation.parse(self.machine).graph()
        ends = [tuple(map(int, item.split("-"))) for item in self.gpus.split(",")]
        assert all(end < graph.npus for pair in ends for end in pair)
        return tuple(gpu for pair in ends for gpu in range(pair[0], pair[-1] + 1))

    def found(self, kind: Collective, root: int, size: int) -> servers.Servers:
        return servers.of(notation.parse(self.machine).graph(), self.members, kind, root, size)

    def bound(self, kind: Collective, root: int) -> float:
        """Bytes per second that no schedule exceeds, of the links of the whole cluster."""
        asked = question.asked(notation.parse(self.machine).graph(), self.members, "all")
        return float(pack.of(asked, kind, root).best_rate)

    def planned(self, kind: Collective, root: int, size: int, backend: str = "flow") -> float:
        """Seconds that the plan takes, which is verified."""
        form = servers.form(notation.parse(self.machine).graph(), self.members, kind, root, size)
        path = self.folder / "trees.json"
        path.write_text(plan_form.dumps(form))
        assert self.command("verify", str(path)).status == 0
        return self.seconds(kind, size, backend, "--plan", str(path))

    def seconds(self, kind: Collective, size: int, backend: str, *more: str) -> float:
        where = ["--machine", self.machine, "--gpus", self.gpus, "--backend", backend, "--json"]
        ended = self.command("collective", kind, "--size", f"{size}B", *where, *more)
        assert ended.status == 0, ended.err
        return float(json.loads(ended.out)["time_s"])


@pytest.fixture
def case(tmp_path: Path, syncline_command: Command) -> Callable[[str, str], Case]:
    return lambda machine, gpus: Case(machine, gpus, syncline_command, tmp_path)


def test_the_sample_has_every_allocation() -> None:
    assert {(machine, gpus) for _, machine, gpus in SAMPLED} == set(WHERE)


@pytest.mark.parametrize(("kind", "machine", "gpus"), SAMPLED)
def test_plans_are_verified_and_take_the_time_that_is_predicted(
    kind: Collective, machine: str, gpus: str, case: Callable[[str, str], Case]
) -> None:
    here, size = case(machine, gpus), 500_000_000
    root = len(here.members) - 1 if kind in ("broadcast", "reduce") else 0
    found = here.found(kind, root, size)
    took = here.planned(kind, root, size)
    assert size / took < here.bound(kind, root) * 1.0001
    assert float(found.packed.rate) <= here.bound(kind, root) * 1.0001
    # Over PCIe, messages between servers delay those within.
    careful = 0.8
    late = 1.25 if any(server.links == "pcie" for server in found.servers) else 1.15
    assert careful * found.seconds < took < late * found.seconds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("machine", "gpus"), WHERE)
def test_trees_reach_every_gpu_and_no_link_carries_too_much(kind: Collective, machine: str, gpus: str) -> None:
    here = Case(machine, gpus, lambda *_: Ended(0, "", ""), Path())
    found = here.found(kind, 0, 10**8)
    capacity = {(src, dst): rate for src, dst, rate in found.asked.arcs}
    for tree in found.packed.trees:
        reached = [found.packed.arcs[number].dst for number in tree.arcs]
        assert sorted([tree.root, *reached]) == list(range(len(here.members)))
    for link, each in loads.on_links(loads.connections(found.packed, found.packed.trees)).items():
        assert sum(each) <= capacity[link]
    assert sum(partition.share for partition in found.partitions) == 1
    for partition in found.partitions:
        assert [root in server.ranks for root, server in zip(partition.roots, found.servers, strict=True)] == [
            True for _ in found.servers
        ]


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_slow_nics_are_the_bound(nodes: int, case: Callable[[str, str], Case]) -> None:
    """`2 D (n - 1)/n` over the NIC of each server, whatever is inside."""
    groups = ("0-2", "8-12", "16-17", "24")[:nodes]
    here = case(f"dgx1v(nodes={nodes}, nics=single, nic_rate=20Gb/s)", ",".join(groups))
    size, rate = 1_000_000_000, 2.5e9
    closed = 2 * size * (nodes - 1) / nodes / rate
    assert here.planned("all-reduce", 0, size) == pytest.approx(closed, rel=0.01)


def test_nics_near_the_roots_are_used(case: Callable[[str, str], Case]) -> None:
    """GPUs 0 to 2 are on two PCIe switches with a NIC each; alike servers use all four."""
    for gpus, nics in ((THREE_AND_FIVE, 2), ("0-7,8-15", 4)):
        here = case("dgx1v(nodes=2, nic_rate=10Gb/s)", gpus)
        size = 1_000_000_000
        assert here.planned("all-reduce", 0, size) == pytest.approx(size / (nics * 1.25e9), rel=0.01)


@pytest.mark.parametrize("gigabits", [40, 160, 3200])
def test_the_slower_of_ports_and_nvlinks_is_the_bound(gigabits: int, tmp_path: Path, syncline_command: Command) -> None:
    """Of two servers whose ports PCIe does not limit; inside, an all-reduce has two links."""
    path, plan = tmp_path / "servers.yaml", tmp_path / "trees.json"
    path.write_text(two_servers(gigabits))
    graph, size = files.load(path), 10_000_000_000
    plan.write_text(plan_form.dumps(servers.form(graph, range(8), "all-reduce", 0, size)))
    assert syncline_command("verify", str(plan)).status == 0
    where = ["--topology-file", str(path), "--plan", str(plan), "--backend", "flow", "--json"]
    ended = syncline_command("collective", "all-reduce", "--size", f"{size}B", *where)
    rate = min(gigabits / 8 * 1e9, 2 * 23.5e9)
    assert json.loads(ended.out)["time_s"] == pytest.approx(size / rate, rel=0.025)


@pytest.mark.parametrize(("machine", "gpus"), [WHERE[0], WHERE[1], WHERE[4], WHERE[7]])
def test_trees_are_faster_than_rings(machine: str, gpus: str, case: Callable[[str, str], Case]) -> None:
    here, size = case(machine, gpus), 200_000_000
    assert here.planned("all-reduce", 0, size) < here.seconds("all-reduce", size, "flow", "--algorithm", "ring") / 1.25


def test_packets_agree(case: Callable[[str, str], Case]) -> None:
    here, size = case("dgx1v(nodes=2)", "0,1,8-10"), 4_000_000
    flow, packets = (here.planned("all-reduce", 0, size, backend) for backend in ("flow", "packet"))
    assert packets == pytest.approx(flow, rel=0.06)


@pytest.mark.parametrize("size", [1, 3, 1000, 123_457])
def test_few_bytes(size: int, case: Callable[[str, str], Case]) -> None:
    here = case("dgx1v(nodes=2)", THREE_AND_FIVE)
    for kind in KINDS:
        assert 0 < here.planned(kind, 0, size) < 1e-3


def test_phases_overlap(case: Callable[[str, str], Case]) -> None:
    """One after the other they would take three times as long, if each took as long as the slowest."""
    here, size = case("dgx1v(nodes=2)", THREE_AND_FIVE), 500_000_000
    found = here.found("all-reduce", 0, size)
    inside = min(server.rate or Fraction(0) for server in found.servers)
    apart = size / float(found.packed.rate) + 2 * size / float(inside)
    assert here.planned("all-reduce", 0, size) < 0.6 * apart


def test_servers_are_told_apart() -> None:
    graph = notation.parse("dgx1v(nodes=2)").graph()
    assert servers.groups(graph, (0, 9, 1, 8)) == [(0, 2), (1, 3)]
    with pytest.raises(InputError, match="in one server"):
        servers.of(graph, (0, 1), "all-reduce", 0, 10**6)
    with pytest.raises(InputError, match="do not carry out scatter"):
        servers.of(graph, (0, 8), "scatter", 0, 10**6)


def test_a_way_is_that_of_the_fabric(tmp_path: Path, syncline_command: Command) -> None:
    """Links that a message uses, as the engine reports them."""
    machine = "dgx1v(nodes=2)"
    graph = notation.parse(machine).graph()
    asked = question.asked(graph, (2, 11), "all")
    found = servers.of(graph, (2, 11), "broadcast", 0, 10**6)
    (way,) = loads.connections(found.packed, found.packed.trees)
    names = [graph.nodes[asked.nodes[node]].name for node in way]
    assert names[1:-1] == [
        *("node 0 PCIe switch 1", "node 0 NIC 1", "leaf 1"),
        *("node 1 NIC 1", "node 1 PCIe switch 1"),
    ]
    links = {(link.src, link.dst) for link in graph.links}
    assert all((asked.nodes[a], asked.nodes[b]) in links for a, b in pairwise(way))


def test_a_server_uses_no_more_trees_than_it_needs(tmp_path: Path) -> None:
    """With 160 Gb/s between the servers, 20 GB/s pass; a tree has 23.5."""
    for gigabits, inside in ((160, 1), (280, 2)):
        path = tmp_path / "servers.yaml"
        path.write_text(two_servers(gigabits))
        found = servers.of(files.load(path), range(8), "all-reduce", 0, 10**9)
        assert len(found.packed.trees) == inside * len(found.servers)
        assert float(found.packed.rate) == pytest.approx(gigabits / 8 * 1e9, rel=0.02)


def test_packed_trees_are_those_of_servers(case: Callable[[str, str], Case]) -> None:
    """As an algorithm, with the slices of an experiment."""
    here, size = case("dgx1v(nodes=2)", THREE_AND_FIVE), 500_000_000
    algorithm = ("--algorithm", "packed-trees")
    trees = here.seconds("all-reduce", size, "flow", *algorithm)
    assert trees == pytest.approx(size / float(here.found("all-reduce", 0, size).packed.rate), rel=0.02)
    few = here.seconds("all-reduce", size, "flow", *algorithm, "--set", "collective.slices=4")
    assert few > 1.2 * trees


def test_gpus_that_no_nvlinks_connect_count_as_servers(case: Callable[[str, str], Case]) -> None:
    """GPU 3 has none to 4 and 5. Of three groups, each sends two thirds of the vector to each other one, and those two
    over 6 GB/s between their sockets; a tree over PCIe in their server would send all of it there.
    """
    here, size = case("dgx1v(nodes=2)", "3-5,8-10"), 500_000_000
    found = here.found("all-reduce", 0, size)
    assert [server.ranks for server in found.servers] == [(0,), (1, 2), (3, 4, 5)]
    expected = size * 2 / 3 / 6e9
    assert found.seconds == pytest.approx(expected, rel=0.01)
    trees, ring = (here.seconds("all-reduce", size, "flow", "--algorithm", name) for name in ("packed-trees", "ring"))
    assert trees == pytest.approx(expected, rel=0.01)
    assert trees < 0.7 * ring


def test_packed_trees_over_all_links_are_those_of_the_whole_fabric(case: Callable[[str, str], Case]) -> None:
    here, size = case("dgx1v(nodes=2)", THREE_AND_FIVE), 500_000_000
    fabric = here.seconds(
        "all-reduce", size, "flow", "--algorithm", "packed-trees", "--set", "collective.trees.links=all"
    )
    assert fabric != here.seconds("all-reduce", size, "flow", "--algorithm", "packed-trees")


UNEQUAL = """
npus: 6
links:
  - {from: 0, to: 1, rate: 20GB/s, latency: 500ns, class: NVLink}
  - {from: 1, to: 0, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 1, to: 2, rate: 20GB/s, latency: 500ns, class: NVLink}
  - {from: 2, to: 1, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 2, to: 0, rate: 20GB/s, latency: 500ns, class: NVLink}
  - {from: 0, to: 2, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 3, to: 4, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 4, to: 3, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 4, to: 5, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 5, to: 4, rate: 10GB/s, latency: 500ns, class: NVLink}
  - {from: 0, to: 3, rate: 5GB/s, latency: 500ns, class: Ethernet}
  - {from: 3, to: 0, rate: 5GB/s, latency: 500ns, class: Ethernet}
directed: true
"""


def test_servers_of_a_file_whose_links_are_unequal(tmp_path: Path, syncline_command: Command) -> None:
    """The one link between them is the limit; trees inside are used both ways, whatever is best there alone."""
    path, plan, size = tmp_path / "unequal.yaml", tmp_path / "trees.json", 1_000_000_000
    path.write_text(UNEQUAL)
    graph = files.load(path)
    assert servers.groups(graph, range(6)) == [(0, 1, 2), (3, 4, 5)]
    found = servers.of(graph, range(6), "all-reduce", 0, size)
    assert all(tree.back is None for server in found.servers for tree in server.trees)
    plan.write_text(plan_form.dumps(servers.form(graph, range(6), "all-reduce", 0, size)))
    assert syncline_command("verify", str(plan)).status == 0
    where = ["--topology-file", str(path), "--plan", str(plan), "--backend", "flow", "--json"]
    ended = syncline_command("collective", "all-reduce", "--size", f"{size}B", *where)
    assert json.loads(ended.out)["time_s"] == pytest.approx(size / 5e9, rel=0.02)
