"""What is found out about a machine, as a document: rates, trees, and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncline import _version
from syncline.fabric.graph import Graph
from syncline.treegen import choice
from syncline.treegen.choice import Best, Goal
from syncline.treegen.packing import IN_PARTS, MOST_UNEQUAL, Packing, Tree, lack
from syncline.treegen.question import Question


def of(graph: Graph, asked: Question, chosen: Best, goal: Goal) -> dict[str, Any]:
    """The document of `syncline trees`: rates in links, trees, and what proves that nothing is faster."""
    size, overhead_s = goal.size, goal.overhead_s
    unit, gpu, packed = asked.link_unit, asked.gpus, chosen.packing
    rate, found = packed.rate, bool(packed.trees or packed.stages)
    bound = packed.bound
    return {
        **_version.versions(),
        "status": "complete",
        "seed": None,
        "fidelity": {"backend": None},
        "machine": graph.name,
        "gpus": list(gpu),
        "collective": packed.collective,
        "links": asked.links,
        "objective": goal.objective,
        "link_unit_bytes_per_s": unit,
        "rate_links": float(rate / unit),
        "optimal_rate_links": float(packed.best_rate / unit),
        "rate_bytes_per_s": float(rate),
        "predicted_time_s": choice.seconds(packed, packed.trees, size, overhead_s) if found else None,
        "predicted_times_s": chosen.predicted_s or None,
        "slices": choice.slices(packed, packed.trees, size, overhead_s) if found else None,
        "overhead_s": overhead_s,
        "size_bytes": size,
        "fewest_possible": chosen.at_least,
        "trees": [
            _tree(graph, asked, stage, tree, whole=not packed.stages)
            for stage in packed.stages or (packed,)
            for tree in stage.trees
        ],
        "symmetry": None
        if not packed.generators
        else {"roots": packed.roots, "generators": [[gpu[to] for to in images] for images in packed.generators]},
        "components": [[gpu[place] for place in group] for group in packed.components],
        "certificate": None
        if bound is None
        else {
            "sets": [[graph.nodes[asked.nodes[node]].name for node in nodes] for nodes in bound.sets],
            "capacity_links": float(bound.capacity / unit),
            "rate_links": float(packed.best_rate / unit),
            "times": [
                {"set": [gpu[place] for place in share.nodes], "inward": share.inward, "times": int(share.times)}
                for share in bound.shares
            ],
        },
        "assumptions": list(graph.assumptions),
        "warnings": _warnings(graph, asked, chosen),
    }


def _tree(graph: Graph, asked: Question, packed: Packing, tree: Tree, *, whole: bool) -> dict[str, Any]:
    """A tree in the document; what is a part of an all-reduce says so."""
    gpu = asked.gpus

    def edges(arcs: Sequence[int]) -> list[list[int]]:
        return [[gpu[packed.arcs[arc].src], gpu[packed.arcs[arc].dst]] for arc in arcs]

    def via(arcs: Sequence[int]) -> list[list[str]]:
        return [[graph.nodes[asked.nodes[node]].name for node in packed.arcs[arc].via] for arc in arcs]

    entry: dict[str, Any] = {
        "root": gpu[tree.root],
        "weight": float(tree.weight / asked.link_unit),
        "edges": edges(tree.arcs),
        "depth": tree.depth(packed.arcs),
        "via": via(tree.arcs),
    }
    if packed.collective in IN_PARTS:
        entry["part_of"] = gpu[packed.arcs[tree.arcs[-1]].dst]
    if tree.back is not None:
        entry |= {"edges_to_root": edges(tree.back), "via_to_root": via(tree.back)}
    return entry if whole else {"collective": packed.collective, **entry}


def _warnings(graph: Graph, asked: Question, chosen: Best) -> list[str]:
    warnings, packed = list(graph.warnings), chosen.packing
    if len(packed.components) > 1:
        others = " (--links all takes PCIe, too)" if asked.links == "nvlink" and asked.others else ""
        warnings.append(f"the GPUs do not all reach each other over the links that trees may use{others}")
    if packed.best_rate > packed.rate:
        warnings.append(_below_the_bound(chosen))
    return warnings


def _below_the_bound(chosen: Best) -> str:
    """Why trees are slower than what nothing can exceed."""
    packed = chosen.packing
    if not packed.trees and not packed.stages:
        return lack(packed, "these GPUs")
    share = f"{100 * float(packed.rate / packed.best_rate):.3g} %"
    if packed.stages:
        why = "there are no trees both ways"
        if choice.BOTH_WAYS in chosen.predicted_s:
            why = "for this size they are predicted to take less time than trees both ways"
        return f"a reduce and then a broadcast do not reach the bound, but {share} of it: {why}"
    if packed.is_best:
        return f"these trees do not reach the bound, but {share} of it; a linear program finds no faster ones"
    return (
        f"these trees do not reach the bound, but {share} of it: a root is given, links carry unequal rates either "
        f"way, switches send more than they receive, or they join more than {MOST_UNEQUAL} GPUs by unequal links"
    )
