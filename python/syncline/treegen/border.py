"""The certificate of a rate in words and links: which links cross the border of its sets, and why no rate is larger."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from syncline.treegen.packing import TASKS, TOWARDS_ROOT, Packing
from syncline.treegen.question import Question


@dataclass(frozen=True, slots=True)
class Crossing:
    """Links from one node to another that cross the border of a set."""

    src: int
    dst: int
    """Nodes of the question."""
    rate: int
    """Bytes per second."""


def crossings(question: Question, packing: Packing) -> list[Crossing]:
    """The links over which all has to come into one of the sets of the certificate, or has to leave it where data goes
    towards a root.
    """
    backward = packing.collective in TOWARDS_ROOT
    found: dict[tuple[int, int], int] = {}
    for inside in sets(question, packing):
        for src, dst, rate in question.arcs:
            enters, leaves = (src, dst) if backward else (dst, src)
            if enters in inside and leaves not in inside:
                found[src, dst] = rate
    return [Crossing(src, dst, rate) for (src, dst), rate in sorted(found.items())]


def sets(question: Question, packing: Packing) -> list[frozenset[int]]:
    """The sets of the certificate, as nodes of the question. Those of an all-reduce divide the GPUs, whatever forwards:
    here each has the switches with which least leads into it.
    """
    if packing.bound is None or packing.bound.shares:
        return []
    if TASKS[packing.collective] != "both-ways" or len(question.nodes) == len(question.gpus):
        return [frozenset(nodes) for nodes in packing.bound.sets]
    return [_with_switches(question, frozenset(nodes)) for nodes in packing.bound.sets]


def _with_switches(question: Question, gpus: frozenset[int]) -> frozenset[int]:
    """These GPUs and the switches on their side of a least cut from the others: what a largest flow leaves."""
    left: dict[int, dict[int, int]] = {node: {} for node in range(len(question.nodes))}
    for src, dst, rate in question.arcs:
        left[src][dst] = left[src].get(dst, 0) + rate
        left[dst].setdefault(src, 0)
    while True:
        # From the sets' side, against the arcs that have something left.
        towards: dict[int, int | None] = dict.fromkeys(sorted(gpus))
        waiting = list(towards)
        start = None
        while waiting and start is None:
            node = waiting.pop(0)
            for before in left[node]:
                if before not in towards and left[before][node] > 0:
                    towards[before] = node
                    waiting.append(before)
                    if before < len(question.gpus):
                        start = before
                        break
        if start is None:
            return frozenset(towards)
        way = [start]
        while (following := towards[way[-1]]) is not None:
            way.append(following)
        much = min(left[src][dst] for src, dst in pairwise(way))
        for src, dst in pairwise(way):
            left[src][dst] -= much
            left[dst][src] += much


def reason(question: Question, packing: Packing) -> str:
    """Why nothing is faster than what these links carry together; nothing without a certificate."""
    bound = packing.bound
    if bound is None:
        return ""
    unit, gpus = question.link_unit, len(question.gpus)
    capacity = Fraction(bound.capacity, unit)
    carry = f"{_links(capacity)} together"
    if bound.shares:
        return (
            f"Links carry unequal rates either way. Each of the sets below counts so many times, and a link "
            f"as often as it leads into such sets or out of them, whichever is more: {carry}, which "
            f"limits the rate to {_links(packing.best_rate / unit)} (docs/trees.md)."
        )
    task = TASKS[packing.collective]
    best = packing.best_rate / unit
    backward = packing.collective in TOWARDS_ROOT
    if task == "both-ways" and len(bound.sets) > 1:
        parts = len(bound.sets)
        if capacity / (2 * (parts - 1)) == best:
            return (
                f"The links between these {parts} sets carry {carry}. Every part of the vector crosses from set to set "
                f"at least {_times(parts - 1)} on its way up and as often on its way down, so that no rate exceeds "
                f"{_number(capacity)} / (2 x {parts - 1}) = {_links(best)}."
            )
    if task == "from-all" and len(bound.sets) == 1:
        outside = sum(place not in bound.sets[0] for place in range(gpus))
        if outside and capacity * gpus / outside == best:
            way = "have to leave the set" if backward else "have to come into the set"
            return (
                f"The links across the border carry {carry}. The parts of the {outside} GPUs outside, of {gpus} parts "
                f"of the vector, {way} over them, so that no rate exceeds {_number(capacity)} x {gpus} / {outside} = "
                f"{_links(best)}."
            )
    if task == "to-each" and len(bound.sets) == 1:
        inside = sum(place in bound.sets[0] for place in range(gpus))
        if inside and capacity * gpus / inside == best:
            way = "have to leave the set" if backward else "have to come into the set"
            return (
                f"The links across the border carry {carry}. The parts of the {inside} GPUs inside, of {gpus} parts of "
                f"the vector, {way} over them, so that no rate exceeds {_number(capacity)} x {gpus} / {inside} = "
                f"{_links(best)}."
            )
    if task == "from-root" and capacity == best:
        way = "has to leave the set" if backward else "has to come into the set"
        return f"The links across the border carry {carry}, and the whole vector {way} over them."
    return f"The links across the border carry {carry}, which limits the rate to {_links(best)}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _number(value: Fraction) -> str:
    return f"{float(value):.4g}"


def _links(value: Fraction) -> str:
    return f"{_number(value)} link{'' if value == 1 else 's'}"
