"""Fat trees in the form of htsim: how many switches and links there are, and what does not fit."""

from __future__ import annotations

from collections import Counter

import pytest

from syncline.base.errors import InputError
from syncline.fabric import files
from syncline.fabric.graph import Graph

LEAVES = """# Four leaves with eight nodes each, and two spines
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 500
"""
PODS = """Nodes 432
Tiers 3
Podsize 36
Tier 0
Downlink_speed_Gbps 100
Radix_Down 6
Radix_Up 6
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 6
Radix_Up 6
Downlink_Latency_ns 1000
Tier 2
Downlink_speed_Gbps 100
Radix_Down 36
Downlink_Latency_ns 600000
Bundle 3
"""


def read(text: str) -> Graph:
    """The fabric in a file."""
    return files.read(text.encode(), "tree.topo")


def switches(graph: Graph) -> Counter[str]:
    """Switches by their kinds."""
    return Counter(node.name.split()[0] for node in graph.nodes if node.kind == "switch")


def test_two_tiers_are_leaves_and_spines() -> None:
    graph = read(LEAVES)
    assert (graph.npus, switches(graph)) == (32, {"edge": 4, "spine": 2})
    links = Counter((link.kind, link.rate, link.latency) for link in graph.links)
    assert links == {("host", 12_500_000_000, 1_000_000): 64, ("uplink", 12_500_000_000, 500_000): 16}
    assert graph.routing.by == "destination"


def test_three_tiers_have_pods_and_bundles() -> None:
    graph = read(PODS)
    assert (graph.npus, switches(graph)) == (432, {"edge": 72, "aggregation": 72, "core": 12})
    to_cores = [link for link in graph.links if link.kind == "core"]
    assert len(to_cores) == 2 * 72 * 2
    assert {link.count for link in to_cores} == {3}
    # Switch i of each pod is linked to the cores i and i + 6.
    names = [node.name for node in graph.nodes]
    cores = {names[link.dst] for link in to_cores if names[link.src] == "aggregation 5/4"}
    assert cores == {"core 4", "core 10"}
    ports = Counter(link.src for link in to_cores for _ in range(link.count))
    assert {ports[names.index(f"core {core}")] for core in range(12)} == {36}


def test_faster_links_up_are_fewer() -> None:
    text = LEAVES.replace("Radix_Up 2", "Radix_Up 1").replace("Gbps 100\nRadix_Down 4", "Gbps 400\nRadix_Down 2")
    text = text.replace("Oversubscribed 4", "Oversubscribed 2").replace("Radix_Down 2\n", "Radix_Down 4\n")
    graph = read(text)
    assert switches(graph) == {"edge": 4, "spine": 1}
    assert {link.rate for link in graph.links if link.kind == "uplink"} == {50_000_000_000}


def test_latencies_of_switches_are_those_of_links_that_leave_them() -> None:
    graph = read(LEAVES.replace("Radix_Up 2", "Radix_Up 2\nSwitch_Latency_ns 300"))
    names = [node.name.split()[0] for node in graph.nodes]
    latency = {(names[link.src], names[link.dst]): link.latency for link in graph.links}
    assert latency == {
        ("NPU", "edge"): 1_000_000,
        ("edge", "NPU"): 1_300_000,
        ("edge", "spine"): 800_000,
        ("spine", "edge"): 500_000,
    }
    assert graph.assumptions == ("the latency of a switch is part of that of the links that leave it",)


def test_queues_are_buffers_of_ports() -> None:
    graph = read(LEAVES.replace("Radix_Up 2", "Radix_Up 2\nQueue_Up 150000\nQueue_Down 150000"))
    buffers = {node.name.split()[0]: node.buffer for node in graph.nodes}
    assert buffers == {"NPU": None, "edge": 150_000, "spine": None}


WRONG = {
    "Nodes 32": ("Nodes thirty", 2, "Nodes", "1 to 1048576"),
    "Tiers 2": ("Tiers 4", 3, "Tiers", "2 to 3"),
    "Podsize 32": ("Podsize 5", 4, "podsize", "a divisor of 32"),
    "Radix_Up 2": ("Radix_Up 3", 9, "Tier 0, radix_up", "2"),
    "Radix_Down 8": ("Radix_Down 7", 8, "Tier 0, radix_down", "a divisor of 32"),
    "Radix_Down 4": ("Radix_Down 3", 15, "Tier 1, radix_down", "a divisor of 8"),
    "Oversubscribed 4": ("Oversubscribed 7", 11, "Tier 0, oversubscribed", "a divisor of 3200"),
    "Tier 1\n": ("Tier 0\n", 13, "Tier", "each tier once"),
    "Downlink_Latency_ns 500\n": ("", 13, "Tier 1, downlink_latency_ns", "a number of 1 or more"),
    "32\nTiers 2": ("32\nFnord 1\nTiers 2", 3, "", "tier, nodes, tiers, podsize"),
    "Radix_Down 8\n": ("Radix_Down 8\nRadix_Down 8\n", 9, "Radix_Down", "each name once"),
    "Radix_Down 4\n": ("Radix_Down 4\nBundle 2\n", 9, "Tier 0, radix_up", "4"),
    "Oversubscribed 4\n": ("Bundle 2\n", 11, "Tier 0, bundle", "1"),
    "Radix_Up 2\n": ("Radix_Up 2\nQueue_Up 5\nQueue_Down 6\n", 10, "Tier 0, queue_up", "6"),
    "Radix_Down 4\nDownlink": ("Radix_Down 4\nRadix_Up 4\nDownlink", 16, "Tier 1, radix_up", "none"),
}


@pytest.mark.parametrize("before", WRONG)
def test_what_does_not_fit_is_refused_with_its_line(before: str) -> None:
    after, line, field, accepted = WRONG[before]
    assert before in LEAVES
    text = LEAVES.replace(before, after, 1)
    with pytest.raises(InputError) as refused:
        read(text)
    found = [(problem.file, problem.line, problem.field) for problem in refused.value.problems]
    assert ("tree.topo", line, field) in found, found
    assert any(accepted in (problem.accepted or "") for problem in refused.value.problems), refused.value.as_text()


def test_a_tree_with_too_many_links_is_refused() -> None:
    text = PODS.replace("432", str(36 * 1200)).replace("Radix_Down 36", "Radix_Down 3600")
    with pytest.raises(InputError) as refused:
        read(text)
    assert "up to 65535" in refused.value.as_text()
