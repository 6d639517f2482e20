"""Networks of switches: their notation, what they consist of, the buffers of their switches, and their pictures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.command import Ended
from syncline.base import quantities
from syncline.fabric import picture, scale_out_notation, topologies
from syncline.fabric.graph import BUFFER, Graph
from syncline.fabric.scale_out import MOST_LINKS
from syncline.fabric.topologies import Wired
from syncline.fabric.topology import TopologyError

Command = Callable[..., Ended]

SVG = "{http://www.w3.org/2000/svg}"
GB = 10**9


def graph(text: str) -> Graph:
    fabric = topologies.parse(text)
    assert isinstance(fabric, Wired)
    return fabric.graph


def ports(network: Graph) -> Counter[int]:
    """The outgoing links of every node."""
    return Counter(link.src for link in network.links)


def distances(network: Graph, start: int) -> dict[int, tuple[int, int]]:
    """By NPU, the number of links on the shortest ways from `start` and how many such ways there are."""
    after: dict[int, list[int]] = {}
    for link in network.links:
        after.setdefault(link.src, []).append(link.dst)
    found = {start: (0, 1)}
    waiting = [start]
    for node in waiting:
        for there in after[node] if node == start or network.nodes[node].kind != "npu" else ():
            hops, ways = found.get(there, (found[node][0] + 1, 0))
            if there not in found:
                waiting.append(there)
            if hops == found[node][0] + 1:
                found[there] = (hops, ways + found[node][1])
    return {node: at for node, at in found.items() if network.nodes[node].kind == "npu"}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "LeafSpine(leaves=4, hosts=8, spines=2)",
            "LeafSpine(leaves=4, hosts=8, spines=2, rate=50GB/s, uplink_rate=200GB/s, latency=500ns)",
        ),
        (
            " LeafSpine( leaves=4,hosts=8,spines=2,rate=10Gb/s,oversubscription=2, latency=1us, efficiency=94%)",
            "LeafSpine(leaves=4, hosts=8, spines=2, rate=1250MB/s, uplink_rate=2500MB/s, latency=1us, efficiency=94%)",
        ),
        (
            "LeafSpine(leaves=1, hosts=1, spines=1, uplink_rate=800Gb/s, buffer=1MB, spine_switch_buffer=64MiB)",
            "LeafSpine(leaves=1, hosts=1, spines=1, rate=50GB/s, uplink_rate=100GB/s, latency=500ns, buffer=1MB, "
            "spine_switch_buffer=64MiB)",
        ),
        ("FatTree(k=4)", "FatTree(k=4, rate=50GB/s, latency=500ns)"),
        ("FatTree(k=4, oversubscription=3:2)", "FatTree(k=4, oversubscription=3:2, rate=50GB/s, latency=500ns)"),
        (
            "SuperNodes",
            "SuperNodes(groups=16, size=8, switches=7, local_rate=150GB/s, local_latency=500ns, rate=12500MB/s, "
            "latency=500ns)",
        ),
        (
            "SuperNodes(groups=2, size=4, switches=2, local_rate=10GB/s, switch_buffer=1GB, local_switch_buffer=64MB)",
            "SuperNodes(groups=2, size=4, switches=2, local_rate=10GB/s, local_latency=500ns, rate=12500MB/s, "
            "latency=500ns, switch_buffer=1GB, local_switch_buffer=64MB)",
        ),
        ("SuperNodes(groups=9, size=1, latency=0s)", "SuperNodes(groups=9, size=1, rate=12500MB/s, latency=0s)"),
    ],
)
def test_networks_as_text(text: str, canonical: str) -> None:
    network = scale_out_notation.parse(text)
    assert str(network) == canonical
    assert scale_out_notation.parse(canonical) == network
    assert (network.graph().npus, len(network.graph().links)) == (network.npus, network.links)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fattree(k=4)", "'fattree' is not a topology; did you mean 'FatTree'?"),
        ("SuperNode()", "'SuperNode' is not a topology; did you mean 'SuperNodes'?"),
        ("FatTree()", "in FatTree: k is missing"),
        ("FatTree(4)", "in FatTree: '4' is not a parameter"),
        ("FatTree(k=)", "in FatTree: k has no value"),
        ("FatTree(k=4, k=4)", "in FatTree: k is given twice"),
        ("FatTree(k=4, rat=1GB/s)", "in FatTree: 'rat' is not a parameter; did you mean 'rate'?"),
        ("FatTree(k=4", "this is not a FatTree"),
        ("FatTree(k=4)_Ring(4)", "FatTree is a whole topology: no block is joined to it"),
        *((f"FatTree(k={k})", f"in FatTree: k={k}: this is not an even number") for k in ("5", "0", "-4", "36", "1e9")),
        ("FatTree(k=6, oversubscription=1.5)", "in FatTree: oversubscription=1.5: an edge switch would have 3 x 1.5"),
        ("FatTree(k=4, oversubscription=0.5)", "in FatTree: oversubscription=0.5: this is not a ratio"),
        ("FatTree(k=34, oversubscription=2)", "in FatTree: this has 78,608 links, each direction counted"),
        ("FatTree(k=4, rate=0GB/s)", "in FatTree: rate=0GB/s: the rate must be more than zero"),
        ("FatTree(k=4, latency=-1ns)", "in FatTree: latency=-1ns: a time cannot be negative"),
        ("FatTree(k=4, rate=1B/s, efficiency=50%)", "in FatTree: rate times efficiency is less than one byte per"),
        ("FatTree(k=4, buffer=1MB, switch_buffer=4MB)", "in FatTree: buffer and switch_buffer both state the buffer"),
        ("FatTree(k=4, core_switch_buffer=3B)", "in FatTree: core_switch_buffer=3B: this leaves each of 4 ports less"),
        ("FatTree(k=4, core_buffer=0B)", "in FatTree: core_buffer=0B: the size must be more than zero"),
        ("LeafSpine(leaves=2, hosts=2)", "in LeafSpine: spines is missing"),
        ("LeafSpine(leaves=2, hosts=0, spines=2)", "in LeafSpine: hosts=0: this is not a whole number"),
        ("LeafSpine(leaves=65536, hosts=65536, spines=1)", "in LeafSpine: this has 8,590,065,664 links"),
        (
            "LeafSpine(leaves=2, hosts=2, spines=2, uplink_rate=400Gb/s, oversubscription=2)",
            "in LeafSpine: uplink_rate=400Gb/s makes an oversubscription of 1, not 2",
        ),
        (
            "LeafSpine(leaves=2, hosts=1, spines=64, rate=1B/s)",
            "in LeafSpine: a link between leaf and spine would carry 0 B/s",
        ),
        ("SuperNodes(groups=0)", "in SuperNodes: groups=0: this is not a whole number"),
        ("SuperNodes(groups=3000)", "in SuperNodes: this has 384,000 links"),
        ("SuperNodes(size=1, switches=7)", "in SuperNodes: switches has no meaning for super-nodes of size 1"),
        ("SuperNodes(size=1, local_buffer=1MB)", "in SuperNodes: local_buffer has no meaning for super-nodes of size"),
        ("SuperNodes(local_rate=3B/s)", "in SuperNodes: each of 7 links to local switches would carry less than one"),
        ("SuperNodes(rate=10000000000TB/s)", "in SuperNodes: rate=10000000000TB/s: the rate is too large"),
    ],
)
def test_refusals_say_why(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        topologies.parse(text)
    assert refused.value.message.startswith(message)
    assert refused.value.accepted


def test_commands_refuse_with_one_message(syncline_command: Command, tmp_path: Path) -> None:
    svg = tmp_path / "none.svg"
    ended = syncline_command("topology", "show", "FatTree(k=5)", "--svg", str(svg))
    assert (ended.status, ended.out, svg.exists()) == (2, "", False)
    assert ended.err.count("error") == 1
    line = ("--size", "1MB", "--topology", "LeafSpine(leaves=2, hosts=2)")
    ended = syncline_command("collective", "all-reduce", *line)
    assert (ended.status, ended.out) == (2, "")
    assert "in LeafSpine: spines is missing" in ended.err
    assert ended.err.rstrip().endswith("1 error")
    ended = syncline_command("topology", "show", "dgx-a100(nodes=2)")
    assert "this is a machine" in ended.err


@settings(max_examples=20, deadline=None)
@given(half=st.integers(1, 4), over=st.integers(1, 3), rate=st.sampled_from([10, 25, 100, 400, 800]))
def test_a_fat_tree_is_the_one_of_the_closed_forms(half: int, over: int, rate: int) -> None:
    k = 2 * half
    network = graph(f"FatTree(k={k}, oversubscription={over}, rate={rate}Gb/s)")
    hosts = k**3 // 4
    assert network.npus == over * hosts
    assert Counter(link.kind for link in network.links) == {
        "host": 2 * over * hosts,
        "aggregation": 2 * hosts,
        "core": 2 * hosts,
    }
    assert {link.rate for link in network.links} == {rate * GB // 8}
    kinds = Counter(node.name.split(" ")[0] for node in network.nodes)
    assert kinds == {"NPU": over * hosts, "edge": k * half, "aggregation": k * half, "core": half**2}
    has = ports(network)
    expected = {"NPU": 1, "edge": (1 + over) * half, "aggregation": k, "core": k}
    assert all(has[number] == expected[node.name.split(" ")[0]] for number, node in enumerate(network.nodes))
    pod, edge = over * half**2, over * half
    for npu, at in distances(network, 0).items():
        nearest = [npu == 0, npu < edge, npu < pod, True].index(True)
        assert at == [(0, 1), (2, 1), (4, half), (6, half**2)][nearest]


@settings(max_examples=20, deadline=None)
@given(leaves=st.integers(1, 5), hosts=st.integers(1, 5), spines=st.integers(1, 5), over=st.sampled_from([1, 2, 4]))
def test_a_leaf_spine_is_that_of_the_closed_forms(leaves: int, hosts: int, spines: int, over: int) -> None:
    text = f"leaves={leaves}, hosts={hosts}, spines={spines}, rate=60GB/s, oversubscription={over}"
    network = graph(f"LeafSpine({text})")
    assert (network.npus, len(network.links)) == (leaves * hosts, 2 * leaves * (hosts + spines))
    up = sum(link.rate for link in network.links if link.kind == "uplink" and link.src < link.dst)
    assert up == pytest.approx(network.npus * 60 * GB / over)
    for npu, at in distances(network, 0).items():
        assert at == ((0, 1) if npu == 0 else (2, 1) if npu < hosts else (4, spines))
    stated = f"leaves={leaves}, hosts={hosts}, spines={spines}, rate=60GB/s"
    rate = next(link.rate for link in network.links if link.kind == "uplink")
    again = graph(f"LeafSpine({stated}, uplink_rate={quantities.RATE.format(rate)}, oversubscription={over})")
    assert again.links == network.links  # both may be stated where they agree


@settings(max_examples=20, deadline=None)
@given(groups=st.integers(1, 5), size=st.integers(2, 9), rate=st.integers(1, 800))
def test_super_nodes_are_those_of_table_iii(groups: int, size: int, rate: int) -> None:
    network = graph(f"SuperNodes(groups={groups}, size={size}, local_rate=1200Gb/s, rate={rate}Gb/s)")
    switches = size - 1
    assert network.npus == groups * size
    assert network.classes == ["scale-up", "scale-out"]
    local = [link for link in network.links if link.kind == "scale-up"]
    assert {link.rate for link in local} == {150 * GB // switches}
    assert len(local) == 2 * groups * size * switches
    assert Counter(link.src for link in local)[0] == switches
    assert all(network.nodes[link.src].host == network.nodes[link.dst].host for link in local)
    outer = [link for link in network.links if link.kind == "scale-out"]
    assert (len(outer), {link.rate for link in outer}) == (2 * network.npus, {rate * GB // 8})
    assert {link.latency for link in network.links} == {500_000}
    fabric = topologies.parse(network.name)
    assert topologies.grid(fabric, None) == ([size, groups] if groups > 1 else [size])


def test_super_nodes_of_one_are_flat() -> None:
    network = graph("SuperNodes(groups=128, size=1)")
    assert (network.npus, len(network.links), network.classes) == (128, 256, ["scale-out"])
    assert topologies.grid(topologies.parse("SuperNodes(groups=128, size=1)"), None) == [128]
    assert network.specification()["routing"] == {"by": "destination"}
    routing = graph("SuperNodes(groups=2, size=4)").specification()["routing"]
    assert routing == {"by": "groups", "size": 4, "class": 0}
    assert "routing" not in graph("dgx-a100(nodes=2)").specification()


def test_buffers_are_divided_evenly_among_ports() -> None:
    network = graph("SuperNodes(local_switch_buffer=64MB, switch_buffer=1GB)")
    buffers = Counter(attribute["value"] for attribute in network.attributes())
    assert buffers == {8_000_000: 16 * 7, 10**9 // 128: 1}
    assert {attribute["name"] for attribute in network.attributes()} == {BUFFER}
    only_global = graph("SuperNodes(groups=3, size=2, buffer=5MB)")
    assert only_global.attributes() == [{"node": 6 + 3, "name": BUFFER, "value": 5_000_000}]
    uneven = graph("SuperNodes(groups=3, size=2, switch_buffer=100B)")
    assert uneven.attributes()[0]["value"] == 100 // 6


def test_kinds_of_switches_have_buffers_of_their_own() -> None:
    tree = graph("FatTree(k=4, oversubscription=2, switch_buffer=60kB, core_buffer=1kB)")
    of = {tree.nodes[a["node"]].name.split(" ")[0]: a["value"] for a in tree.attributes()}
    assert of == {"edge": 60_000 // 6, "aggregation": 60_000 // 4, "core": 1_000}
    leaves = graph("LeafSpine(leaves=3, hosts=4, spines=2, leaf_switch_buffer=6MB)")
    assert [(leaves.nodes[a["node"]].name, a["value"]) for a in leaves.attributes()] == [
        (f"leaf {leaf}", 1_000_000) for leaf in range(3)
    ]
    assert graph("FatTree(k=4)").attributes() == []


def test_what_was_filled_in_is_said() -> None:
    assert graph("LeafSpine(leaves=2, hosts=4, spines=2, rate=1GB/s, efficiency=90%)").assumptions == (
        "latency=500ns (default)",
        "uplink_rate=2GB/s (oversubscription=1 by default)",
    )
    assert graph("FatTree(k=4, rate=1GB/s, latency=1us, efficiency=100%)").assumptions == ()


def test_a_thousand_hosts_are_quick() -> None:
    scale_out_notation.parse("FatTree(k=2)").graph()
    began = perf_counter()
    network = scale_out_notation.parse("FatTree(k=16, rate=400Gb/s)").graph()
    network.specification()
    assert perf_counter() - began < 1
    assert network.npus == 1024


def test_the_largest_fat_tree_fits_the_engine() -> None:
    largest = scale_out_notation.parse(f"FatTree(k={scale_out_notation.MAX_K})")
    assert largest.links <= MOST_LINKS < 6 * (scale_out_notation.MAX_K + 2) ** 3 // 4


def drawn(text: str) -> dict[str, tuple[float, float]]:
    """Where boxes are, by what a pointer that rests on them is told."""
    root = ET.fromstring(picture.svg(graph(text)))
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        for box in group.iter(f"{SVG}rect"):
            title = box.find(f"{SVG}title")
            if title is not None and title.text:
                boxes[title.text] = (float(box.attrib["x"]), float(box.attrib["y"]))
    return boxes


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("LeafSpine(leaves=4, hosts=8, spines=4)", ("spine", "leaf", "NPU")),
        ("FatTree(k=4)", ("core", "aggregation", "edge", "NPU")),
        ("FatTree(k=6)", ("core", "aggregation", "edge", "NPU")),
    ],
)
def test_pictures_have_layers(text: str, layers: tuple[str, ...]) -> None:
    boxes = drawn(text)
    assert len(boxes) == len(graph(text).nodes)
    heights = [{y for name, (_, y) in boxes.items() if name.startswith(layer)} for layer in layers]
    assert all(len(height) == 1 for height in heights)
    assert [min(height) for height in heights] == sorted(min(height) for height in heights)
    for layer in layers:
        row = sorted(x for name, (x, _) in boxes.items() if name.startswith(layer))
        assert all(b - a > 30 for a, b in pairwise(row))  # boxes do not lie on each other


def test_large_networks_are_summarised() -> None:
    boxes = drawn("FatTree(k=16)")
    assert list(boxes) == ["1,024 NPUs", "128 edge switches", "128 aggregation switches", "64 core switches"]
    super_nodes = drawn("SuperNodes()")
    hosts = {name.split(" ")[1] for name in super_nodes if name.startswith("super-node")}
    assert hosts == {"0", "1", "15"}
    assert "global switch" in super_nodes
    assert super_nodes["global switch"][1] < min(y for name, (_, y) in super_nodes.items() if "super-node" in name)
    text = picture.svg(graph("SuperNodes()"))
    assert "13 more" in text
    assert ">super-node 15<" in text


def test_show(syncline_command: Command) -> None:
    ended = syncline_command("topology", "show", "SuperNodes(local_switch_buffer=64MB)", "--json")
    document = json.loads(ended.out)
    assert (ended.status, document["npus"], document["nodes"]["switch"]) == (0, 128, 16 * 7 + 1)
    assert document["switch_buffers"] == [
        {"switches": 112, "ports": 8, "buffer_per_port_bytes": 8_000_000},
    ]
    ended = syncline_command("topology", "show", "FatTree(k=4, switch_buffer=64MB)")
    assert ended.status == 0
    assert "16 NPUs, 20 switches" in ended.out
    assert "16MB" in ended.out
