"""`syncline trees --links hybrid`: trees over NVLinks and PCIe at the same time, and what goes over either."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.errors import Problem
    from syncline.fabric.graph import Graph
    from syncline.trees.hybrid import Hybrid
    from syncline.trees.packing import Collective

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
    sweep: str | None

    def problems(self) -> list[Problem]:
        """What is wrong with options beside these links, or with those of these links beside others."""
        from syncline.errors import command_line

        found: list[Problem] = []
        if self.links != NAME:
            if self.latency is not None:
                message = "peer access is switched for trees over both kinds of links"
                found += command_line(FLAG, self.latency, message, "--links hybrid beside it").problems
            return found
        for flag, given in (*self.alone, ("--sweep", self.sweep)):
            if given:
                message = "hybrid trees are neither drawn nor compared, and are those that are predicted to be fastest"
                found += command_line(flag, None, message, "--links nvlink, pcie or all beside it").problems
        return [*found, *self._switch_ps()[1]]

    def _switch_ps(self) -> tuple[int, list[Problem]]:
        """What peer access costs for each GPU, and what is wrong with how that is given."""
        from syncline import quantities
        from syncline.endpoints.streams import PEER_ACCESS_PS
        from syncline.errors import command_line

        if self.latency is None:
            return PEER_ACCESS_PS, []
        try:
            return quantities.time(self.latency, zero=True), []
        except quantities.QuantityError as error:
            return 0, list(command_line(FLAG, self.latency, error.message, error.accepted).problems)

    def trees(
        self, graph: Graph, gpus: Sequence[int], collective: Collective, root: int, size: int, overhead_s: float
    ) -> Hybrid:
        """The trees of both kinds of links."""
        from syncline.trees import hybrid

        switch_ps = self._switch_ps()[0]
        return hybrid.of(graph, gpus, collective, root, size, switch_ps=switch_ps, overhead_s=overhead_s)


def plan(graph: Graph, found: Hybrid, gpus: str | None, format_: str) -> dict[str, Any]:
    """The plan. Raises [`InputError`] where there is none, or the format cannot say over which links a message goes."""
    from syncline.errors import command_line
    from syncline.trees import hybrid

    collective = found.nvlink.packed.collective
    if collective not in hybrid.ABLE:
        kinds = ", ".join(sorted(hybrid.ABLE))
        raise command_line("--collective", collective, "plans of hybrid trees do not carry this out yet", kinds)
    if not (found.nvlink.packed.trees or found.pcie.packed.trees):
        message = "there are no trees: neither NVLinks nor PCIe connect these GPUs, or there is only one"
        raise command_line("--gpus", gpus, message, "GPUs that reach each other")
    if format_ == "mscclpp-json" and found.pcie.size:
        message = "execution plans of MSCCL++ do not say over which links data goes, and a part of it goes over PCIe"
        raise command_line("--format", format_, message, "plan or msccl-xml, or --links nvlink")
    name = f"{collective} hybrid trees of {graph.name}"
    # MSCCL's runtimes repeat a schedule for one part of the vector after the other; a plan does so itself.
    return hybrid.written(graph, found, name) if format_ == "plan" else hybrid.in_one_slice(graph, found, name)


def _document(graph: Graph, gpus: Sequence[int], found: Hybrid) -> dict[str, Any]:
    """Both parts and what is predicted of them."""
    from syncline.trees import document as documents
    from syncline.trees.choice import Best, Goal

    parts = []
    for part in (found.nvlink, found.pcie):
        goal = Goal("time", part.size, overhead_s=part.overhead_s)
        whole = documents.of(graph, part.asked, Best(part.packed, None), goal)
        parts.append({name: whole[name] for name in OF_PARTS} | {"predicted_time_s": _finite(part.seconds)})
    only = found.nvlink.seconds_of(found.size) if found.nvlink.packed.trees else None
    warnings = list(graph.warnings)
    for part, name in ((found.nvlink, "NVLinks"), (found.pcie, "PCIe")):
        if not part.packed.trees and len(gpus) > 1:
            warnings.append(f"the GPUs do not all reach each other over {name}")
    return {
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


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None


def show(graph: Graph, gpus: Sequence[int], found: Hybrid, began: float, *, json: bool) -> int:
    """Prints the document, or a table of it, and returns the exit status."""
    from syncline import results

    document = _document(graph, gpus, found)
    document["cost"] = results.cost(time.monotonic() - began, [])
    if json:
        print(results.dumps(document))
        return 0
    from syncline import text_units
    from syncline.cli import tables

    pairs = []
    for part in document["parts"]:
        count = len(part["trees"])
        rate = text_units.bandwidth(part["rate_bytes_per_s"])
        trees = f"{count} trees of {rate}" if count else "no trees"
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
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _seconds(seconds: float | None) -> str:
    from syncline import text_units

    return "none" if seconds is None else text_units.duration(seconds)
