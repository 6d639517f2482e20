"""`syncline trees --links hybrid`: trees over NVLinks and PCIe at the same time, and what goes over either."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from syncline.cli.trees_compare import Case
    from syncline.errors import Problem
    from syncline.fabric.graph import Graph
    from syncline.fabric.machines import Cluster
    from syncline.treegen.hybrid import Hybrid, Part
    from syncline.treegen.packing import Collective

NAME: Final = "hybrid"
FLAG: Final = "--switch-latency"
OF_PARTS: Final = (
    *("links", "rate_links", "optimal_rate_links", "rate_bytes_per_s", "predicted_time_s", "size_bytes"),
    *("trees", "components", "certificate"),
)
"""What the document says of either kind of links."""
OF_BOTH: Final = (
    *("schema_version", "version", "status", "seed", "fidelity", "machine", "gpus"),
    *("collective", "objective", "link_unit_bytes_per_s", "assumptions"),
)


SwitchLatency = Annotated[
    str | None, typer.Option(metavar="TIME", help="With hybrid links, what switching peer access takes for each GPU.")
]


@dataclass(frozen=True, slots=True)
class Given:
    """What is said of links, and beside them."""

    links: str
    latency: str | None
    """What switching peer access takes."""
    alone: tuple[tuple[str, object], ...]
    """Options that have nothing to do with hybrid trees, and whether they are given."""
    endpoint: str | None
    """That of a comparison, if there is one."""

    def problems(self) -> list[Problem]:
        """What is wrong with options beside these links, or with those of these links beside others."""
        from syncline.errors import command_line

        found: list[Problem] = []
        if self.links != NAME:
            if self.latency is not None:
                message = "peer access is switched for trees over both kinds of links"
                found += command_line(FLAG, self.latency, message, "--links hybrid beside it").problems
            return found
        for flag, given in self.alone:
            if given:
                message = "hybrid trees are those of some GPUs, and of one root, that are predicted to be fastest"
                found += command_line(flag, None, message, "--links nvlink, pcie or all beside it").problems
        if self.latency is not None and self._never_waits:
            message = f"with the endpoint {self.endpoint}, nothing waits for peer access"
            found += command_line(FLAG, self.latency, message, "--endpoint streams beside it").problems
        return [*found, *self._switch_ps()[1]]

    @property
    def _never_waits(self) -> bool:
        """Whether trees are compared with an endpoint for which peer access costs nothing."""
        from syncline.cli import trees_compare

        return self.endpoint in trees_compare.ENDPOINTS and not trees_compare.waits_for_peer_access(self.endpoint)

    def _switch_ps(self) -> tuple[int, list[Problem]]:
        """What peer access costs for each GPU, and what is wrong with how that is given."""
        from syncline import quantities
        from syncline.endpoints.streams import PEER_ACCESS_PS
        from syncline.errors import command_line

        if self.latency is None:
            return 0 if self._never_waits else PEER_ACCESS_PS, []
        try:
            return quantities.time(self.latency, zero=True), []
        except quantities.QuantityError as error:
            return 0, list(command_line(FLAG, self.latency, error.message, error.accepted).problems)

    def trees(
        self, graph: Graph, gpus: Sequence[int], collective: Collective, root: int, size: int, overhead_s: float
    ) -> Hybrid:
        """The trees of both kinds of links."""
        from syncline.treegen import hybrid

        switch_ps = self._switch_ps()[0]
        return hybrid.of(graph, gpus, collective, root, size, switch_ps=switch_ps, overhead_s=overhead_s)


def plan(graph: Graph, found: Hybrid, gpus: str | None, format_: str) -> dict[str, Any]:
    """The plan. Raises [`InputError`] where there is none, or the format cannot say over which links a message goes."""
    from syncline.errors import command_line
    from syncline.treegen import hybrid

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
class Shown:
    """What is to be shown of hybrid trees beside the document."""

    svg: Path | None
    html: Path | None
    compared: Case | None
    """How they are compared, if they are."""
    cluster: Cluster | None
    """The machine, where it has a name."""


def _described(graph: Graph, found: Hybrid) -> list[tuple[Part, dict[str, Any]]]:
    """Both parts, with what there is to say of their trees."""
    from syncline.treegen import document as documents
    from syncline.treegen.choice import Best, Goal

    parts = []
    for part in (found.nvlink, found.pcie):
        goal = Goal("time", part.size, overhead_s=part.overhead_s)
        parts.append((part, documents.of(graph, part.asked, Best(part.packed, None), goal)))
    return parts


def _document(graph: Graph, gpus: Sequence[int], found: Hybrid, shown: Shown) -> dict[str, Any]:
    """Both parts and what is predicted of them."""
    described = _described(graph, found)
    parts = [
        {name: whole[name] for name in OF_PARTS} | {"predicted_time_s": _finite(part.seconds)}
        for part, whole in described
    ]
    whole = described[0][1]
    only = found.nvlink.seconds_of(found.size) if found.nvlink.packed.trees else None
    warnings = list(graph.warnings)
    for part, name in ((found.nvlink, "NVLinks"), (found.pcie, "PCIe")):
        if not part.packed.trees and len(gpus) > 1:
            warnings.append(f"the GPUs do not all reach each other over {name}")
    document = {
        **{name: whole[name] for name in OF_BOTH},
        "links": NAME,
        "size_bytes": found.size,
        "switch_latency_s": found.switch_s / len(gpus),
        "switch_s": found.switch_s if found.pcie.size else 0.0,
        "predicted_time_s": _finite(found.seconds) if len(gpus) > 1 else None,
        "nvlink_only_time_s": only,
        "parts": parts,
        "warnings": warnings,
    }
    if shown.compared is not None:
        from syncline.cli import trees_compare

        case = shown.compared
        document["fidelity"] = {"backend": case.backend, "endpoint": case.endpoint}
        document["comparison"] = trees_compare.of_hybrid(case, graph, found, shown.cluster)
        document["warnings"] += trees_compare.warnings(document["comparison"], case.backend)
    return document


def picture(graph: Graph, found: Hybrid) -> str:
    """Both sets of trees as SVG, those over PCIe with double lines."""
    from syncline.fabric.svg import render
    from syncline.treegen import picture as pictures

    parts = [
        pictures.Part(part.asked, part.packed, " over PCIe" if over_pcie else " over NVLinks", over_pcie)
        for part, over_pcie in ((found.nvlink, False), (found.pcie, True))
        if part in found.used
    ]
    return render(pictures.of_parts(graph, parts or [pictures.Part(found.nvlink.asked, found.nvlink.packed)]))


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None


def show(graph: Graph, gpus: Sequence[int], found: Hybrid, shown: Shown, began: float, *, json: bool) -> int:
    """Prints the document, or a table of it, writes the files and returns the exit status."""
    from syncline import results
    from syncline.cli import trees_page

    document = _document(graph, gpus, found, shown)
    document["cost"] = results.cost(time.monotonic() - began, [])
    if json:
        print(results.dumps(document))
    else:
        _print(document, gpus)
    if shown.svg is not None:
        trees_page.draw(shown.svg, len(gpus), lambda: picture(graph, found))
    if shown.html is not None:
        from syncline.cli import trees_options
        from syncline.treegen import hybrid_page

        described = [(part, whole) for part, whole in _described(graph, found) if part in found.used]
        trees_page.save(shown.html, hybrid_page.build(graph, described, document, trees_options.typed()))
    return 0


def _print(document: dict[str, Any], gpus: Sequence[int]) -> None:
    from syncline import text_units
    from syncline.cli import tables

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
        from syncline.cli import trees_compare

        trees_compare.show(document)
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


def _seconds(seconds: float | None) -> str:
    from syncline import text_units

    return "none" if seconds is None else text_units.duration(seconds)
