"""Tables about fabrics, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from syncline.base.quantities import SIZE
from syncline.base.text_units import memory
from syncline.commands.cli import layout
from syncline.fabric import description
from syncline.fabric.allocation import NVLINK_CLASSES, canonical, nvlink_components
from syncline.fabric.gpus import Gpu
from syncline.fabric.graph import Graph

SHOWN_GROUPS = 8

if TYPE_CHECKING:
    from rich.table import Table


def all_of(graph: Graph, gpus: Sequence[int]) -> Iterator[Table]:
    """The links, what each GPU can send, how they are connected, and which hang together over NVLink."""
    yield _links(graph)
    yield _egress(graph, gpus)
    if description.switch_buffers(graph):
        yield _buffers(graph)
    if len(gpus) <= description.MATRIX_NPUS:
        yield _matrix(graph, gpus)
    if any(link.kind in NVLINK_CLASSES for link in graph.links):
        yield _components(graph, gpus)


def _table(title: str, *columns: str) -> Table:
    table = layout.table(title, show_header=bool(columns))
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return table


def _links(graph: Graph) -> Table:
    title = f"{graph.name}: {description.summary(graph)}"
    table = _table(title, "class", ">between", ">parallel links", ">link", ">payload", ">share", ">latency")
    for bundle in description.bundles(graph):
        table.add_row(
            bundle.kind,
            f"{bundle.pairs:,} pair" + ("" if bundle.pairs == 1 else "s"),
            str(bundle.count),
            description.rate(bundle.rate),
            description.rate(bundle.payload_rate),
            f"{100 * bundle.payload_rate / bundle.rate:.4g} %",
            description.latency(bundle.latency),
        )
    return table


def gpu(gpu: Gpu) -> Table:
    """What a machine computes with."""
    title = f"{gpu.title}: {gpu.sms} SMs at {gpu.clock / 1e6:g} MHz, {memory(gpu.memory)}"
    table = _table(title, ">memory", *(f">{precision}" for precision in gpu.peaks))
    table.add_row(description.rate(gpu.memory_bandwidth), *(f"{peak / 1e12:g} TFLOP/s" for peak in gpu.peaks.values()))
    return table


def _egress(graph: Graph, gpus: Sequence[int]) -> Table:
    groups = description.egress_groups(graph, gpus)
    kinds = [kind for kind in graph.classes if any(kind in rates for _, rates in groups)]
    table = _table("what a GPU can send, payload each way", "GPUs", *(f">{kind}" for kind in kinds))
    for names, rates in groups[:SHOWN_GROUPS]:
        table.add_row(names, *(description.rate(rates[kind]) if kind in rates else "-" for kind in kinds))
    if len(groups) > SHOWN_GROUPS:
        table.add_row(f"{len(groups) - SHOWN_GROUPS} more groups", *("" for _ in kinds))
    return table


def _buffers(graph: Graph) -> Table:
    table = _table("buffers of switches", ">switches", ">ports", ">of a port")
    for alike in description.switch_buffers(graph):
        table.add_row(f"{alike.switches:,}", str(alike.ports), SIZE.format(alike.per_port))
    return table


def _matrix(graph: Graph, gpus: Sequence[int]) -> Table:
    names = [graph.nodes[gpu].name for gpu in gpus]
    table = _table("connections (the best of each pair)", "", *(f">{gpu}" for gpu in gpus))
    for name, row in zip(names, description.matrix(graph, gpus), strict=True):
        table.add_row(name, *row)
    return table


def _components(graph: Graph, gpus: Sequence[int]) -> Table:
    groups = nvlink_components(graph, gpus)
    whole = len(groups) == 1
    title = "over NVLink, all of them hang together" if whole else "over NVLink, these hang together"
    table = _table(title, "GPUs", ">number")
    for group in groups[:SHOWN_GROUPS]:
        table.add_row(canonical(group), str(len(group)))
    if len(groups) > SHOWN_GROUPS:
        table.add_row(f"{len(groups) - SHOWN_GROUPS} more groups", "")
    return table
