"""`syncline trees --links hybrid`: trees over NVLinks and PCIe at the same time, as they are printed and written."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.base import text_units
from syncline.base.errors import command_line
from syncline.commands.api import hybrid_trees
from syncline.commands.cli import tables, trees_compare, trees_options, trees_page
from syncline.fabric.svg import render
from syncline.report.trees import hybrid_page
from syncline.report.trees import picture as pictures
from syncline.results import entries as results
from syncline.treegen import hybrid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from syncline.fabric.graph import Graph
    from syncline.results.entries import Document
    from syncline.treegen.hybrid import Hybrid

SwitchLatency = Annotated[
    str | None, typer.Option(metavar="TIME", help="With hybrid links, what switching peer access takes for each GPU.")
]


def plan(graph: Graph, found: Hybrid, gpus: str | None, format_: str) -> dict[str, Any]:
    """The plan. Raises [`InputError`] where there is none, or the format cannot say over which links a message goes."""
    collective = found.nvlink.packed.collective
    if not (found.nvlink.packed.trees or found.pcie.packed.trees):
        message = "there are no trees: neither NVLinks nor PCIe connect these GPUs, or there is only one"
        raise command_line("--gpus", gpus, message, "GPUs that reach each other")
    if format_ == "mscclpp-json" and found.pcie.size:
        message = "execution plans of MSCCL++ do not say over which links data goes, and a part of it goes over PCIe"
        raise command_line("--format", format_, message, "plan or msccl-xml, or --links nvlink")
    name = f"{collective} hybrid trees of {graph.name}"
    # MSCCL's runtimes repeat a schedule for one part of the vector after the other; a plan does so itself.
    return hybrid.written(graph, found, name) if format_ == "plan" else hybrid.in_one_slice(graph, found, name)


@dataclass(frozen=True, slots=True)
class Files:
    """What is drawn."""

    svg: Path | None
    html: Path | None


def picture(graph: Graph, found: Hybrid) -> str:
    """Both sets of trees as SVG, those over PCIe with double lines."""
    parts = [
        pictures.Part(part.asked, part.packed, " over PCIe" if over_pcie else " over NVLinks", over_pcie)
        for part, over_pcie in ((found.nvlink, False), (found.pcie, True))
        if part in found.used
    ]
    return render(pictures.of_parts(graph, parts or [pictures.Part(found.nvlink.asked, found.nvlink.packed)]))


def show(graph: Graph, gpus: Sequence[int], found: Hybrid, document: Document, files: Files, *, json: bool) -> int:
    """Prints the document, or a table of it, writes the files and returns the exit status."""
    if json:
        print(results.dumps(document))
    else:
        _print(document, gpus)
    if files.svg is not None:
        trees_page.draw(files.svg, len(gpus), lambda: picture(graph, found))
    if files.html is not None:
        described = [(part, whole) for part, whole in hybrid_trees.described(graph, found) if part in found.used]
        trees_page.save(files.html, hybrid_page.build(graph, described, document, trees_options.typed()))
    return 0


def _print(document: dict[str, Any], gpus: Sequence[int]) -> None:
    pairs = []
    for part in document["parts"]:
        count = len(part["trees"])
        rate = text_units.bandwidth(part["rate_bytes_per_s"])
        trees = f"{count} tree{'' if count == 1 else 's'} of {rate}" if count else "no trees"
        name = "over PCIe" if part["links"] == "pcie" else "over NVLinks"
        pairs.append((name, f"{text_units.size(part['size_bytes'])} of {trees}"))
    pairs.append(("peer access", _seconds(document["switch_s"])))
    pairs.append(("predicted", _seconds(document["predicted_time_s"])))
    pairs.append(("NVLinks alone", _seconds(document["nvlink_only_time_s"])))
    listed = ", ".join(map(str, gpus))
    tables.show(tables.pairs(f"{document['collective']} on {document['machine']}, GPUs {listed}", pairs))
    for part in document["parts"]:
        for tree in part["trees"]:
            edges = " ".join(f"{src}-{dst}" for src, dst in tree["edges"])
            print(
                f"  {part['links']}, root {tree['root']}, weight {tree['weight']:.4g}, depth {tree['depth']}: {edges}"
            )
    if document.get("comparison"):
        trees_compare.show(document)
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


def _seconds(seconds: float | None) -> str:
    return "none" if seconds is None else text_units.duration(seconds)
