"""Pictures: well-formed, self-contained, and with everything on them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from support.topologies import CLOUD_XML, dgx1_matrix, dgx1_xml, nvswitch_xml
from syncline.fabric import files, notation, picture, product, topology
from syncline.fabric.graph import Graph
from syncline.fabric.machines import MACHINES
from syncline.fabric.shapes import spread, widths
from syncline.fabric.topology import BLOCKS, Topology

SVG = "{http://www.w3.org/2000/svg}"
CLUSTERS = (
    "gb200-nvl72(nodes=2)",
    "dgx1v(nodes=2)",
    "dgx2(nodes=3, nics=single)",
    "dgx-a100(nodes=4, nics=single)",
    "dgx-h100(nodes=64)",
)
PRODUCTS = (
    *("Ring(1)", "Ring(2)", "Ring(8)", "FullyConnected(8)", "Switch(64)", "Torus(2,2)", "Torus(4,4,4)", "Torus(1,5,1)"),
    *("FullyConnected(4)_Switch(4)", "Switch(3)_FullyConnected(4)_Switch(2)", "Ring(2)_Ring(2)_Ring(2)"),
    *("Torus(2,2,2,2)", "Ring(8)_FullyConnected(64)_Switch(256)", "Ring(67108864)"),
)


def drawn(fabric: Graph | Topology, gpus: tuple[int, ...] | None = None) -> ET.Element:
    """The picture as XML, which needs nothing from elsewhere and has nothing outside its view."""
    text = picture.svg(fabric, gpus)
    root = ET.fromstring(text)
    assert not re.search(r"href|url\(|@import|<script|nan|inf\b", text)
    assert text.count("http") == 1  # the name of the format
    width, height = (float(word) for word in root.attrib["viewBox"].split()[2:])
    assert len(text) < 400_000
    assert 0 < width < 6000
    assert 0 < height < 6000
    group = root.find(f"{SVG}g")
    assert group is not None
    shift = [float(number) for number in re.findall(r"-?[0-9.]+", group.attrib["transform"])]
    for box in group.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x + shift[0] <= x + w + shift[0] <= width
        assert 0 <= y + shift[1] <= y + h + shift[1] <= height
    return root


def boxes(root: ET.Element) -> Counter[str]:
    """How many nodes of which kind are drawn, idle ones apart."""
    kinds = Counter(box.attrib["class"] for box in root.iter(f"{SVG}rect"))
    return Counter({kind: n for kind, n in kinds.items() if kind not in ("ground", "frame")})


def centres(root: ET.Element) -> list[tuple[float, float]]:
    """Where boxes are."""
    rects = [box.attrib for box in root.iter(f"{SVG}rect") if box.attrib["class"] not in ("ground", "frame")]
    return [(float(r["x"]) + float(r["width"]) / 2, float(r["y"]) + float(r["height"]) / 2) for r in rects]


@pytest.mark.parametrize("name", MACHINES)
def test_machines(name: str) -> None:
    graph = notation.parse(name).graph()
    root = drawn(graph)
    assert boxes(root) == Counter(node.kind for node in graph.nodes)
    assert len(set(centres(root))) == len(graph.nodes)
    lines = [path for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]
    assert len(lines) == len({(min(a.src, a.dst), max(a.src, a.dst), a.kind) for a in graph.links})
    words = "".join(root.itertext())
    assert all(kind in words for kind in graph.classes)


@pytest.mark.parametrize("name", CLUSTERS)
def test_clusters(name: str) -> None:
    cluster = notation.parse(name)
    root = drawn(cluster.graph())
    shown = 1 if cluster.machine.trays else min(cluster.hosts, 3)
    assert boxes(root)["npu"] == shown * cluster.machine.gpus
    words = "".join(root.itertext())
    assert (f"{cluster.hosts - shown} more" in words) == (cluster.hosts > shown)
    assert (f"node {cluster.hosts - 1}" in words) == (not cluster.machine.trays)


@pytest.mark.parametrize("text", PRODUCTS)
def test_products(text: str) -> None:
    parsed = topology.parse(text)
    kinds = boxes(drawn(parsed))
    if parsed.npus <= 64 and len([d for d in parsed.dims if d.size > 1]) <= 3:
        assert kinds["npu"] == parsed.npus


@pytest.mark.parametrize("text", [dgx1_xml(), nvswitch_xml(("0:9:0.0",), 12, 80), CLOUD_XML, dgx1_matrix()])
def test_files(text: str) -> None:
    graph = files.read(text.encode(), "<file> & co")
    assert boxes(drawn(graph)) == Counter(node.kind for node in graph.nodes)


def test_gpus_that_take_no_part_are_faint() -> None:
    kinds = boxes(drawn(notation.parse("dgx1v").graph(), (0, 1, 4)))
    assert (kinds["npu"], kinds["npu idle"]) == (3, 5)


def test_what_is_too_large_is_summed_up() -> None:
    links = "".join(f"  - {{from: {npu}, to: S}}\n" for npu in range(300))
    graph = files.read(
        f"npus: 300\nnodes: [{{name: S, kind: switch}}]\ndefaults: {{rate: 1GB/s}}\nlinks:\n{links}".encode(), "f"
    )
    root = drawn(graph)
    assert boxes(root) == {"npu": 1, "switch": 1}
    assert "600 x link" in "".join(root.itertext())


def test_tiers_of_switches_are_rows() -> None:
    text = (
        "nodes: [A, B, C, D, {name: L, kind: switch}, {name: M, kind: switch}, {name: T, kind: switch}]\n"
        "defaults: {rate: 1GB/s}\n"
        "links: [{from: A, to: L}, {from: B, to: L}, {from: C, to: M}, {from: D, to: M}, {from: L, to: T}, "
        "{from: M, to: T}]"
    )
    heights = [y for _, y in centres(drawn(files.read(text.encode(), "f")))]
    assert len(set(heights)) == 3
    assert heights[-1] == min(heights)  # the top of the tree is at the top


def test_the_picture_of_a_machine(snapshot: SnapshotAssertion) -> None:
    assert picture.svg(notation.parse("dgx1v").graph(), (0, 1, 4)) == snapshot


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(list(BLOCKS)), st.integers(1, 6)), min_size=1, max_size=4))
def test_any_product_can_be_drawn(dims: list[tuple[str, int]]) -> None:
    drawn(topology.parse("_".join(f"{block}({size})" for block, size in dims)))


@pytest.mark.parametrize("text", PRODUCTS[:-2])
def test_products_link_by_link(text: str) -> None:
    parsed = topology.parse(text)
    graph = product.graph(parsed)
    assert graph.npus == parsed.npus
    assert [graph.egress_rate(npu) for npu in range(graph.npus)] == [parsed.egress_rate] * parsed.npus
    assert graph.warnings == ()


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(1, 50))
def test_spread_keeps_distances(wanted: list[float], gap: float) -> None:
    places = sorted(spread(wanted, gap))
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(places))


def test_faster_links_are_thicker() -> None:
    assert list(widths([1, 10, 100]).values()) == sorted(widths([1, 10, 100]).values())
    assert widths([]) == {}
    assert set(widths([5, 5]).values()) == {2.4}
