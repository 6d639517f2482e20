"""Facts about machines that hold whatever their GPUs are called."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from syncline.fabric import notation
from syncline.fabric.allocation import nvlink_components, restricted
from syncline.fabric.graph import C2C, INFINIBAND, NVLINK, NVSWITCH, PCIE, Graph, unreachable
from syncline.fabric.machines import MACHINES

Matrix = list[list[int]]
PATHS = (
    *MACHINES,
    *("dgx1v(nodes=2)", "dgx2(nodes=3, nics=single)", "gb200-nvl72(trays=3)", "gb200-nvl72(nodes=2, trays=2)"),
    *("dgx-h100(nodes=2, nics=4)", "dgx1v(nodes=2, nics=2)", "dgx-a100(nodes=2, nics=16, nic_rate=100Gb/s)"),
)


def build(text: str) -> Graph:
    """The machine of a string."""
    return notation.parse(text).graph()


def nvlinks(graph: Graph) -> Matrix:
    """NVLinks between pairs of GPUs."""
    counts = [[0] * graph.npus for _ in range(graph.npus)]
    for link in graph.links:
        if link.kind == NVLINK:
            counts[link.src][link.dst] += link.count
    return counts


def neighbours(graph: Graph, node: int, kind: str) -> list[int]:
    """Where the links of a class lead to."""
    return [link.dst for link in graph.links if link.src == node and link.kind == kind]


def relabelled(matrix: Matrix, order: tuple[int, ...]) -> Matrix:
    """The matrix of some of the GPUs, in another order."""
    return [[matrix[a][b] for b in order] for a in order]


def test_the_v100_matrix_is_the_published_one() -> None:
    rows = "01122000 10210200 12020010 21200001 20000112 02001021 00101202 00012120"
    published = [[int(count) for count in row] for row in rows.split()]
    assert nvlinks(build("dgx1v")) == published


@pytest.mark.parametrize(("machine", "links"), [("dgx1p", 4), ("dgx1v", 6)])
def test_every_gpu_uses_all_its_links(machine: str, links: int) -> None:
    matrix = nvlinks(build(machine))
    assert [sum(row) for row in matrix] == [links] * 8
    assert matrix == [list(column) for column in zip(*matrix, strict=True)]
    assert sum(count > 0 for row in matrix for count in row) == 2 * 16


def test_the_two_generations_have_the_same_pairs() -> None:
    p100, v100 = nvlinks(build("dgx1p")), nvlinks(build("dgx1v"))
    assert p100 == [[min(count, 1) for count in row] for row in v100]


def test_the_v100_links_are_two_hamiltonian_cycles() -> None:
    matrix = nvlinks(build("dgx1v"))
    for count, cycle in ((2, (0, 3, 2, 1, 5, 6, 7, 4)), (1, (0, 1, 3, 7, 5, 4, 6, 2))):
        pairs = {frozenset(pair) for pair in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
        assert pairs == {frozenset((a, b)) for a in range(8) for b in range(8) if matrix[a][b] == count}


@pytest.mark.parametrize(
    ("machine", "automorphisms", "orbits"), [("dgx1v", 4, [{0, 1, 4, 5}, {2, 3, 6, 7}]), ("dgx1p", 48, [set(range(8))])]
)
def test_symmetry(machine: str, automorphisms: int, orbits: list[set[int]]) -> None:
    matrix = nvlinks(build(machine))
    found = [order for order in itertools.permutations(range(8)) if relabelled(matrix, order) == matrix]
    assert len(found) == automorphisms
    assert [{order[gpu] for order in found} for gpu in (0, 2)] == (orbits if len(orbits) > 1 else orbits * 2)


@pytest.mark.parametrize(("machine", "classes"), [("dgx1v", [5, 14, 14, 10, 2, 1]), ("dgx1p", [2, 4, 3, 3, 1, 1])])
def test_the_allocations_that_blink_counts(machine: str, classes: list[int]) -> None:
    """46 and 14 connected allocations of three GPUs or more that differ by more than labels."""
    graph = build(machine)
    matrix = nvlinks(graph)
    apart = 0
    found = []
    for size in range(3, 9):
        shapes = set()
        for gpus in itertools.combinations(range(8), size):
            if len(nvlink_components(graph, gpus)) > 1:
                apart += 1
            else:
                shapes.add(canonical(relabelled(matrix, gpus)))
        found.append(len(shapes))
    assert found == classes
    assert apart == 38


def canonical(matrix: Matrix) -> tuple[tuple[int, ...], ...]:
    """The same for matrices that differ by labels only: refined colours, then all orders of equals."""
    colours: list[object] = [0] * len(matrix)
    for _ in matrix:
        seen = [
            (str(colours[a]), sorted((row[b], str(colours[b])) for b in range(len(row)) if b != a))
            for a, row in enumerate(matrix)
        ]
        colours = [sorted(map(str, seen)).index(str(signature)) for signature in seen]
    groups = [[a for a in range(len(matrix)) if colours[a] == c] for c in sorted(set(colours), key=str)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return min(tuple(tuple(row) for row in relabelled(matrix, tuple(itertools.chain(*order)))) for order in orders)


def test_gpus_without_nvlinks_talk_over_pcie() -> None:
    graph = build("dgx1v")
    switches = [neighbours(graph, gpu, PCIE) for gpu in range(8)]
    assert [switches[gpu] == switches[gpu + 1] for gpu in (0, 2, 4, 6)] == [True] * 4
    assert len({switch for (switch,) in switches}) == 4
    alone = restricted(graph, (1, 4))
    assert nvlink_components(alone, (0, 1)) == [[0], [1]]
    assert unreachable(alone, (0, 1)) == []
    assert alone.warnings == ()
    (between,) = [link for link in graph.links if link.kind == "QPI" and link.src < link.dst]
    assert between.payload_rate == 6 * 10**9


@pytest.mark.parametrize(
    ("machine", "gpus", "links", "egress"),
    [
        ("dgx2", 16, 6, 150),
        ("dgx-a100", 8, 12, 300),
        ("dgx-h100", 8, 18, 450),
        ("dgx-h200", 8, 18, 450),
        ("dgx-b200", 8, 18, 900),
        ("gb200-nvl72", 72, 18, 900),
        ("gb200-nvl72(trays=1)", 4, 18, 900),
    ],
)
def test_nvswitches_are_a_star_with_the_true_egress(machine: str, gpus: int, links: int, egress: int) -> None:
    graph = build(machine)
    assert (graph.npus, len(graph.nodes)) == (gpus, gpus + 1)
    assert {link.count for link in graph.links} == {links}
    assert [graph.egress_rate(gpu) for gpu in range(gpus)] == [egress * 10**9] * gpus
    entries = graph.specification()["links"]
    assert len(entries) == 2 * gpus
    assert {entry["rate_bytes_per_s"] for entry in entries} == {egress * 10**9}


def test_nvlinks_between_gpus_are_entries_of_their_own() -> None:
    specification = build("dgx1v").specification()
    number = specification["classes"].index(NVLINK)
    entries = [entry for entry in specification["links"] if entry["class"] == number]
    assert len(entries) == 2 * (8 * 2 + 8)
    assert {entry["rate_bytes_per_s"] for entry in entries} == {25 * 10**9}
    assert [entry for entry in entries if (entry["from"], entry["to"]) == (0, 3)] == [entries[0], entries[0]]


@pytest.mark.parametrize("text", PATHS)
def test_every_machine_is_connected_both_ways(text: str) -> None:
    graph = build(text)
    assert graph.warnings == ()
    assert unreachable(graph, range(graph.npus)) == []
    assert Counter((a.src, a.dst, a.kind, a.rate) for a in graph.links) == Counter(
        (a.dst, a.src, a.kind, a.rate) for a in graph.links
    )


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("nics", ["rail", "single"])
def test_clusters(name: str, nics: str) -> None:
    machine = MACHINES[name]
    if nics == "single" and machine.trays:
        with pytest.raises(notation.MachineError, match="not all GPUs reach one common NIC"):
            build(f"{name}(nodes=4, nics=single)")
        return
    graph = build(f"{name}(nodes=4, nics={nics})")
    assert graph.npus == 4 * machine.gpus
    assert [node.host for node in graph.nodes[: graph.npus]] == [h for h in range(4) for _ in range(machine.gpus)]
    adapters = [i for i, node in enumerate(graph.nodes) if node.kind == "nic"]
    assert len(adapters) == 4 * (machine.nics if nics == "rail" else 1)
    assert {link.rate for link in graph.links if link.src in adapters and link.kind == INFINIBAND} == {machine.nic_rate}


def test_rails() -> None:
    graph = build("dgx-h100(nodes=16, nics=rail, oversubscription=2, latency=1us, nic_rate=200Gb/s)")
    number = {node.name: index for index, node in enumerate(graph.nodes)}
    for host, nic in ((0, 0), (7, 3), (15, 7)):
        assert neighbours(graph, number[f"node {host} NIC {nic}"], INFINIBAND) == [number[f"leaf {nic}"]]
    up = [link for link in graph.links if link.src == number["leaf 3"] and link.dst == number["spine"]]
    assert [(link.rate, link.latency) for link in up] == [(16 * 25 * 10**9 // 2, 1_000_000)]
    assert not [node for node in graph.nodes if node.kind == "cpu"]


def test_efficiency_is_the_share_of_payload_on_nvlinks() -> None:
    graph = build("dgx1v(efficiency=80%)")
    assert graph.link_unit == 20 * 10**9
    assert {link.efficiency for link in graph.links if link.kind == NVLINK} == {Fraction(4, 5)}


def test_names_are_numbers_of_the_machine() -> None:
    assert [node.name for node in build("dgx2").nodes][:3] == ["GPU 0", "GPU 1", "GPU 2"]
    assert build("dgx-a100(nodes=2)").nodes[9].name == "node 1 GPU 1"


def test_what_was_filled_in_is_listed() -> None:
    assert build("dgx-a100").assumptions == (
        "links of class NVSwitch take 300ns each",
        "all NVSwitches of a machine are one switch that never blocks",
        "payload gets all of an NVLink (efficiency=100%)",
    )
    cluster = build("dgx-a100(nodes=2, efficiency=90%)").assumptions
    assert "a NIC has 25GB/s each way (that of a DGX A100)" in cluster
    assert not [line for line in cluster if "efficiency" in line]


def test_nvswitch_is_nearer_than_pcie() -> None:
    """Where both lead to a neighbour, the shortest way is the fast one."""
    graph = build("dgx-a100(nodes=2)")
    latency = {link.kind: link.latency for link in graph.links}
    assert latency[NVSWITCH] < latency[PCIE]


def test_racks() -> None:
    """18 trays with two CPUs and four GPUs each; a NIC for every GPU, on the rail of its place in the tray."""
    graph = build("gb200-nvl72(nodes=2)")
    number = {node.name: index for index, node in enumerate(graph.nodes)}
    assert Counter(node.kind for node in graph.nodes) == {"npu": 144, "nic": 144, "cpu": 72, "switch": 2 + 4 + 1}
    for gpu in range(72):
        (cpu,) = neighbours(graph, number[f"node 1 GPU {gpu}"], C2C)
        assert graph.nodes[cpu].name == f"node 1 CPU {gpu // 2}"
        nic = number[f"node 1 NIC {gpu}"]
        assert neighbours(graph, nic, PCIE) == [cpu]
        assert neighbours(graph, nic, INFINIBAND) == [number[f"leaf {gpu % 4}"]]
    (up,) = [link for link in graph.links if link.src == number["leaf 0"] and link.dst == number["spine"]]
    assert up.rate == 2 * 18 * 50 * 10**9
    half = build("gb200-nvl72(trays=9)")
    assert (half.npus, half.name) == (36, "gb200-nvl72(trays=9)")


@pytest.mark.parametrize(
    ("machine", "gt", "coding"), [("dgx1v", 8, Fraction(128, 130)), ("dgx-a100", 16, Fraction(128, 130))]
)
def test_the_payload_of_pcie(machine: str, gt: int, coding: Fraction) -> None:
    """Between NCCL's 75 % and what packets with 256 B of payload and 24 B of headers leave of the coded lanes, which
    acknowledgements and flow control take another 8 to 10 % of. The port of a machine's NIC fits in."""
    (link, *_) = [link for link in build(f"{machine}(nodes=2)").links if link.kind == PCIE]
    assert link.rate == gt * 16 * 10**9 // 8
    packets = coding * Fraction(256, 256 + 24)
    assert Fraction(90, 100) * packets < link.efficiency < Fraction(92, 100) * packets
    assert MACHINES[machine].nic_rate < link.payload_rate


@pytest.mark.parametrize("name", MACHINES)
def test_no_machine_is_built_with_nics_that_its_pcie_cannot_feed(name: str) -> None:
    assert build(f"{name}(nodes=2)").warnings == ()


def test_a_nic_that_pcie_cannot_feed_is_warned_of() -> None:
    graph = build("dgx-h100(nodes=2, nic_rate=100GB/s)")
    (warning,) = graph.warnings
    assert "a NIC has 100GB/s each way" in warning
    assert "carries 52.48GB/s of payload (of 64GB/s on the wire)" in warning
    assert build("dgx-h100(nodes=2, nic_rate=52GB/s)").warnings == ()
    assert build("dgx-h100(nodes=2, nic_rate=100GB/s, pcie_rate=128GB/s)").warnings == ()
    (other,) = build("dgx-h100(nodes=2, pcie_efficiency=75%)").warnings
    assert "carries 48GB/s of payload" in other


def test_pcie_can_be_told_what_payload_gets() -> None:
    graph = build("dgx1v(pcie_efficiency=75%)")
    assert {link.payload_rate for link in graph.links if link.kind == PCIE} == {12 * 10**9}
    assert not [line for line in graph.assumptions if "class PCIe carry" in line]
    said = build("dgx1v").assumptions
    assert "links of class PCIe carry 13.12GB/s of payload, 82 % of 16GB/s on the wire" in said
    assert "links of class QPI carry 6GB/s of payload, 31.25 % of 19.2GB/s on the wire" in said


@pytest.mark.parametrize(
    ("machine", "nics", "gpus_per_switch", "node_rate", "leaves"),
    [
        ("dgx-h100(nodes=2)", 8, 1, 400, 8),
        ("dgx-h100(nodes=2, nics=4)", 4, 2, 200, 4),
        ("dgx-h100(nodes=2, nics=2)", 2, 4, 100, 2),
        ("dgx-h100(nodes=2, nics=16)", 8, 1, 800, 8),
        ("dgx-h100(nodes=2, nics=32, nic_rate=100Gb/s)", 8, 1, 400, 8),
        ("dgx-a100(nodes=2, nics=4)", 4, 2, 100, 4),
        ("dgx2(nodes=2, nics=16)", 16, 2, 200, 16),
        ("dgx1v(nodes=2, nics=2)", 2, 2, 25, 2),
        ("gb200-nvl72(nodes=2, trays=2, nics=4)", 4, 2, 200, 2),
        ("gb200-nvl72(nodes=2, trays=2, nics=16)", 8, 2, 800, 4),
    ],
)
def test_numbers_of_nics(machine: str, nics: int, gpus_per_switch: int, node_rate: int, leaves: int) -> None:
    """NICs per machine with their rate together, GPUs at what they hang off, and leaf switches that carry all."""
    graph = build(machine)
    of_first = [index for index, node in enumerate(graph.nodes) if node.kind == "nic" and node.host == 0]
    assert len(of_first) == nics
    sent = [link.total_rate for link in graph.links if link.src in of_first and link.kind == INFINIBAND]
    assert sum(sent) == node_rate * 10**9
    above = Counter(link.dst for link in graph.links if link.src < graph.npus and link.kind in (PCIE, C2C))
    assert set(above.values()) == {gpus_per_switch}
    up = [link for link in graph.links if graph.nodes[link.dst].name == "spine"]
    assert len(up) == leaves
    assert sum(link.total_rate for link in up) == 2 * node_rate * 10**9


def test_gpus_share_nics_by_position() -> None:
    """Each NIC is behind the switch of its GPUs, and no CPU is in between."""
    graph = build("dgx-h100(nodes=2, nics=4)")
    names = [node.name for node in graph.nodes]
    assert not any(node.kind == "cpu" for node in graph.nodes)
    above = {names[link.src]: link.dst for link in graph.links if link.kind == PCIE and "switch" in names[link.dst]}
    for gpu in range(8):
        assert above[f"node 1 GPU {gpu}"] == above[f"node 1 NIC {gpu // 2}"]
    assert "2 GPUs share a NIC by position, on its PCIe switch" in graph.assumptions


def test_nics_of_a_gpu_that_its_pcie_cannot_feed() -> None:
    assert build("dgx-h100(nodes=2, nics=32, nic_rate=100Gb/s)").warnings == ()
    (warning,) = build("dgx-h100(nodes=2, nics=16)").warnings
    assert "the 2 NICs of a GPU have 100GB/s each way, but the PCIe link of the GPU carries 52.48GB/s" in warning
