"""What is found out about a machine, as a document: rates, trees, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import syncline
from syncline import results
from syncline.fabric.graph import Graph
from syncline.trees import choice
from syncline.trees.choice import Chosen
from syncline.trees.packing import Packing
from syncline.trees.question import Question


@dataclass(frozen=True, slots=True)
class Wanted:
    """What trees were chosen for."""

    objective: str
    size: int
    """Bytes of the vector."""


def of(graph: Graph, asked: Question, packed: Packing, chosen: Chosen, wanted: Wanted) -> dict[str, Any]:
    """The document of `syncline trees`: rates in links, trees, and what proves that nothing is faster."""
    unit = asked.link_unit
    gpu = asked.gpus
    rate = sum(tree.weight for tree in chosen.trees)
    warnings = list(graph.warnings)
    if len(packed.components) > 1:
        others = " (--links all takes PCIe, too)" if asked.links == "nvlink" and asked.others else ""
        warnings.append(f"the GPUs do not all reach each other over the links that trees may use{others}")
    if packed.best_rate > packed.rate and len(packed.components) == 1:
        warnings.append(
            "these trees do not reach the bound: links carry unequal rates either way, or switches send more than "
            "they receive"
        )
    bound = packed.bound
    return {
        "schema_version": results.SCHEMA_VERSION,
        "version": syncline.__version__,
        "status": "complete",
        "seed": None,
        "fidelity": {"backend": None},
        "machine": graph.name,
        "gpus": list(gpu),
        "collective": packed.collective,
        "links": asked.links,
        "objective": wanted.objective,
        "link_unit_bytes_per_s": unit,
        "rate_links": float(rate / unit),
        "optimal_rate_links": float(packed.best_rate / unit),
        "rate_bytes_per_s": float(rate),
        "predicted_time_s": choice.seconds(packed, chosen.trees, wanted.size) if chosen.trees else None,
        "size_bytes": wanted.size,
        "fewest_possible": chosen.at_least,
        "trees": [
            {
                "root": gpu[tree.root],
                "weight": float(tree.weight / unit),
                "edges": [[gpu[packed.arcs[arc].src], gpu[packed.arcs[arc].dst]] for arc in tree.arcs],
                "depth": tree.depth(packed.arcs),
                "via": [[graph.nodes[asked.nodes[node]].name for node in packed.arcs[arc].via] for arc in tree.arcs],
            }
            for tree in chosen.trees
        ],
        "components": [[gpu[place] for place in group] for group in packed.components],
        "certificate": None
        if bound is None
        else {
            "sets": [[graph.nodes[asked.nodes[node]].name for node in nodes] for nodes in bound.sets],
            "capacity_links": float(bound.capacity / unit),
            "rate_links": float(packed.best_rate / unit),
        },
        "assumptions": list(graph.assumptions),
        "warnings": warnings,
    }
