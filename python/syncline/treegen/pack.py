"""The optimal rate of a collective on a machine, and trees that reach it: the engine's, or better ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from syncline.treegen import directed, undirected, unequal
from syncline.treegen.packing import IN_PARTS, ROOTED, TASKS, TOWARDS_ROOT, Arc, Bound, Collective, Packing, Tree, ask
from syncline.treegen.question import MOST_GPUS, Question

KEPT: Final = 64
"""Answers that are kept: collectives of several sizes have the same trees to choose from."""


def of(question: Question, collective: Collective, root: int = 0) -> Packing:
    """The optimal rate of a collective, and trees that reach it. The root is a place in the list of GPUs. Where more
    than [`MOST_GPUS`] send, the trees are those of one root, or of one of each kind.
    """
    return _of(question, collective, root)


@lru_cache(KEPT)
def _of(question: Question, collective: Collective, root: int) -> Packing:
    kind = TASKS[collective]
    task: dict[str, Any] = {"kind": kind}
    if collective in ROOTED:
        task["root"] = root
    elif len(question.gpus) > MOST_GPUS:
        task["one_root"] = True
    packed = _found(question, collective, task)
    if collective in IN_PARTS:
        return _with_capacities(question, packed)
    if collective == "all-reduce":
        packed = undirected.improved(question, packed)
    best = directed.improved(question, packed, root if collective in ROOTED else None)
    if best is not None:
        return best
    packed = _or_on_even_links(question, packed, task)
    return unequal.improved(question, packed) if collective == "all-reduce" else packed


def _found(question: Question, collective: Collective, task: dict[str, Any]) -> Packing:
    """What the engine finds, from one root over switches with fewer trees beside the others."""
    packed = _asked(question, collective, task)
    if task["kind"] == "from-root" and len(question.nodes) > len(question.gpus) and packed.trees:
        packed = _with_few(packed, _asked(question, collective, task | {"few": True}))
    return packed


def _or_on_even_links(question: Question, packed: Packing, task: dict[str, Any]) -> Packing:
    """The packing, or if its trees do not reach the bound over switches, faster trees on what links have both ways
    alike: of such links, switches are removed without a loss.
    """
    if packed.rate == packed.best_rate or len(question.nodes) == len(question.gpus):
        return packed
    rates = {(src, dst): rate for src, dst, rate in question.arcs}
    both = {(src, dst): min(rate, rates.get((dst, src), 0)) for (src, dst), rate in rates.items()}
    if both == rates:
        return packed
    even = replace(question, arcs=tuple((*ends, rate) for ends, rate in both.items() if rate))
    found = _with_capacities(question, _found(even, packed.collective, task))
    return packed if found.rate <= packed.rate else replace(found, components=packed.components, bound=packed.bound)


def _asked(question: Question, collective: Collective, task: dict[str, Any]) -> Packing:
    """What the engine says, in bytes per second."""
    backward = collective in TOWARDS_ROOT
    answer = ask(question, task, backward=backward)
    unit = Fraction(answer["unit"], answer["factor"])
    best, widest = answer["best"], answer["widest"]
    single = {(dst, src) if backward else (src, dst): Fraction(rate) for src, dst, rate in question.single}
    return Packing(
        collective,
        tuple(map(tuple, answer["components"])),
        None
        if best is None
        else Bound(
            Fraction(best["rate"]["num"], best["rate"]["den"]), tuple(map(tuple, best["sets"])), best["capacity"]
        ),
        tuple(
            Arc(src, dst, capacity * unit, tuple(via), None if via else single.get((src, dst)))
            for src, dst, capacity, via in answer["arcs"]
        ),
        tuple(answer["opposite"]),
        tuple(Tree(tree["root"], tree["weight"] * unit, tuple(tree["arcs"])) for tree in answer["trees"]),
        widest=None if widest is None else Fraction(widest),
        generators=tuple(map(tuple, answer["generators"])),
    )


def _with_few(packed: Packing, other: Packing) -> Packing:
    """A packing with the trees of another one, of as large a rate, beside its own."""
    arcs = list(packed.arcs)
    number = {(arc.src, arc.dst, arc.via): place for place, arc in enumerate(arcs)}
    places = []
    for arc in other.arcs:
        place = number.setdefault((arc.src, arc.dst, arc.via), len(arcs))
        if place == len(arcs):
            arcs.append(replace(arc, capacity=Fraction(0)))
        places.append(place)
    few = tuple(replace(tree, arcs=tuple(places[arc] for arc in tree.arcs)) for tree in other.trees)
    same = few if other.rate == packed.rate else ()
    return replace(packed, arcs=tuple(arcs), own=len(packed.arcs), few=same)


def _with_capacities(question: Question, packed: Packing) -> Packing:
    """The same trees or paths, on arcs that have all of a link between GPUs, not only what these take."""
    backward = packed.collective in TOWARDS_ROOT
    rates = {(dst, src) if backward else (src, dst): Fraction(rate) for src, dst, rate in question.arcs}
    arcs = (arc if arc.via else replace(arc, capacity=rates[arc.src, arc.dst]) for arc in packed.arcs)
    return replace(packed, arcs=tuple(arcs))
