"""The certificate of a rate in words and links: which links cross the border of its sets, and why no rate is larger."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from syncline.trees.packing import TASKS, TOWARDS_ROOT, Packing
from syncline.trees.question import Question


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
    if packing.bound is None:
        return []
    backward = packing.collective in TOWARDS_ROOT
    found: dict[tuple[int, int], int] = {}
    for nodes in packing.bound.sets:
        inside = frozenset(nodes)
        for src, dst, rate in question.arcs:
            enters, leaves = (src, dst) if backward else (dst, src)
            if enters in inside and leaves not in inside:
                found[src, dst] = rate
    return [Crossing(src, dst, rate) for (src, dst), rate in sorted(found.items())]


def reason(question: Question, packing: Packing) -> str:
    """Why nothing is faster than what these links carry together; nothing without a certificate."""
    bound = packing.bound
    if bound is None:
        return ""
    unit, gpus = question.link_unit, len(question.gpus)
    capacity = Fraction(bound.capacity, unit)
    carry = f"{_links(capacity)} together"
    task = TASKS[packing.collective]
    best = packing.best_rate / unit
    backward = packing.collective in TOWARDS_ROOT
    if task == "both-ways" and len(bound.sets) > 1:
        parts = len(bound.sets)
        if capacity / (2 * (parts - 1)) == best:
            return (
                f"The links between these {parts} sets carry {carry}. Every part of the vector crosses from set to set "
                f"at least {parts - 1} times on its way up and as often on its way down, so that no rate exceeds "
                f"{_number(capacity)} / (2 x {parts - 1}) = {_links(best)}."
            )
    if task == "from-all" and len(bound.sets) == 1:
        outside = sum(place not in bound.sets[0] for place in range(gpus))
        if outside and capacity * gpus / outside == best:
            way = "leaves the set for" if backward else "comes into the set from"
            return (
                f"The links across the border carry {carry}. Over them {way} each of the {outside} GPUs outside its "
                f"part of the vector, one of {gpus}, so that no rate exceeds {_number(capacity)} x {gpus} / {outside} "
                f"= {_links(best)}."
            )
    if task == "from-root" and capacity == best:
        way = "has to leave the set" if backward else "has to come into the set"
        return f"The links across the border carry {carry}, and the whole vector {way} over them."
    return f"The links across the border carry {carry}, which limits the rate to {_links(best)}."


def _number(value: Fraction) -> str:
    return f"{float(value):.4g}"


def _links(value: Fraction) -> str:
    return f"{_number(value)} link{'' if value == 1 else 's'}"
