"""Pictures of fabrics: which drawing fits which fabric, and what is written around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from syncline.fabric import circle_layout, description, machine_layout, product, product_layout, summary_layout
from syncline.fabric.allocation import canonical
from syncline.fabric.graph import Graph
from syncline.fabric.shapes import Drawing
from syncline.fabric.svg import render
from syncline.fabric.topology import NAMES, Topology

MOST_NODES: Final = 160
"""Up to so many nodes of a fabric without machines are drawn one by one."""
MOST_PRODUCT_NPUS: Final = 64
MOST_PRODUCT_DIMS: Final = 3


def svg(fabric: Graph | Topology, gpus: Sequence[int] | None = None) -> str:
    """The picture of a fabric as SVG; NPUs that are not among `gpus` are shown as idle."""
    return render(_product(fabric) if isinstance(fabric, Topology) else _graph(fabric, gpus))


def _product(topology: Topology) -> Drawing:
    dims = [dim for dim in topology.dims if dim.size > 1]
    count, rate = description.counted(topology.npus, "NPU"), description.rate(topology.egress_rate)
    title = "_".join(f"{NAMES[dim.block]}({dim.size})" for dim in topology.dims)
    drawing = Drawing(title, f"{count}, {rate} of payload out of each")
    if topology.npus <= MOST_PRODUCT_NPUS and len(dims) <= MOST_PRODUCT_DIMS:
        product_layout.lay_out(drawing, topology)
    else:
        summary_layout.dimensions(drawing, topology)
    drawing.legend = [
        (product.class_name(number), f"dimension {number}: {product_layout.words(dim)}")
        for number, dim in enumerate(topology.dims)
        if dim.size > 1
    ]
    return drawing


def _graph(graph: Graph, gpus: Sequence[int] | None) -> Drawing:
    taking_part = frozenset(range(graph.npus) if gpus is None else gpus)
    subtitle = description.summary(graph)
    if len(taking_part) < graph.npus:
        subtitle += f"; taking part: {canonical(taking_part)}"
    drawing = Drawing(title=graph.name, subtitle=subtitle, legend=_legend(graph))
    hosts = {node.host for node in graph.nodes if node.host is not None}
    direct = any(graph.nodes[link.src].kind == graph.nodes[link.dst].kind == "npu" for link in graph.links)
    cpus = any(node.kind == "cpu" for node in graph.nodes)
    if not hosts and len(graph.nodes) > MOST_NODES:
        summary_layout.kinds(drawing, graph)
    elif direct and not cpus and not hosts and graph.npus <= circle_layout.MOST_DRAWN:
        circle_layout.lay_out(drawing, graph, taking_part)
    else:
        machine_layout.lay_out(drawing, graph, taking_part)
    return drawing


def _legend(graph: Graph) -> list[tuple[str, str]]:
    """The classes with the rates of their links."""
    legend = []
    for kind in graph.classes:
        links = [bundle for bundle in description.bundles(graph) if bundle.kind == kind]
        rates, latencies = sorted({b.rate for b in links}), sorted({b.latency for b in links})
        rate = description.rate(rates[0]) + (f" to {description.rate(rates[-1])}" if len(rates) > 1 else "")
        counts = {b.count for b in links}
        many = f"{max(counts)} x " if len(counts) == 1 and max(counts) > 1 else ""
        latency = description.latency(latencies[0]) if len(latencies) == 1 else "various latencies"
        legend.append((kind, f"{kind}: {many}{rate} a link, {latency}"))
    return legend
