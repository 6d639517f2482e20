"""Trees over NVLinks and PCIe at the same time, and what goes over either: `trees --links hybrid`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncline.base import quantities
from syncline.base.errors import command_line
from syncline.commands.api import tree_comparison
from syncline.studies.trees import document as documents
from syncline.treegen import hybrid
from syncline.treegen.choice import Best, Goal
from syncline.treegen.costs import PEER_ACCESS_PS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.base.errors import Problem
    from syncline.fabric.graph import Graph
    from syncline.results.entries import Document
    from syncline.treegen.hybrid import Hybrid, Part
    from syncline.treegen.packing import Collective

NAME: Final = "hybrid"
"""What these links are called."""
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
        return self.endpoint in tree_comparison.ENDPOINTS and not tree_comparison.waits_for_peer_access(self.endpoint)

    def _switch_ps(self) -> tuple[int, list[Problem]]:
        """What peer access costs for each GPU, and what is wrong with how that is given."""
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
        switch_ps = self._switch_ps()[0]
        return hybrid.of(graph, gpus, collective, root, size, switch_ps=switch_ps, overhead_s=overhead_s)


def described(graph: Graph, found: Hybrid) -> list[tuple[Part, dict[str, Any]]]:
    """Both parts, with what there is to say of their trees."""
    parts = []
    for part in (found.nvlink, found.pcie):
        goal = Goal("time", part.size, overhead_s=part.overhead_s)
        parts.append((part, documents.of(graph, part.asked, Best(part.packed, None), goal)))
    return parts


def document(graph: Graph, gpus: Sequence[int], found: Hybrid) -> Document:
    """Both parts and what is predicted of them."""
    parts = described(graph, found)
    whole = parts[0][1]
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
        "parts": [
            {name: of_part[name] for name in OF_PARTS} | {"predicted_time_s": _finite(part.seconds)}
            for part, of_part in parts
        ],
        "warnings": warnings,
    }


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None
