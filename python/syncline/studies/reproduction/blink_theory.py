"""What Blink (MLSys 2020) says of allocations of a DGX-1 without a measurement: topologies, rings, trees, rates.

Rates are in links. A ring of `n` GPUs is one direction of a Hamiltonian cycle; an all-reduce passes it twice but for
what a GPU has itself, so it carries `n / (2 (n - 1))` (section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Final

from syncline.fabric import notation
from syncline.fabric.machines import MACHINES
from syncline.nccl import mesh
from syncline.studies.trees import theory
from syncline.treegen import allocations, choice, fewest, pack, packing, question
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

DGX1V: Final = "dgx1v"
DGX1P: Final = "dgx1p"
SIZES: Final = range(3, 9)
"""GPUs of the allocations that the paper looks at."""
PCIE_RING: Final = Fraction(1, 2)
"""Of a link, where no ring of NVLinks exists: section 5.1."""
EPSILON: Final = 0.02
"""Of the packing by multiplicative weights; the paper does not say which it used."""

Computed = tuple[float | list[float], str]


def _asked(machine: str, gpus: tuple[int, ...]) -> Question:
    return question.asked(notation.parse(machine).graph(), gpus)


def connected(machine: str) -> Iterator[tuple[int, ...]]:
    """The allocations of 3 to 8 GPUs that reach each other over NVLinks."""
    for size in SIZES:
        for gpus in combinations(range(8), size):
            if len(pack.of(_asked(machine, gpus), "broadcast").components) == 1:
                yield gpus


def unique_topologies() -> Computed:
    """`blink-unique-topologies`."""
    counts = []
    for name in (DGX1V, DGX1P):
        whole = _asked(name, tuple(range(8)))
        counts.append(float(len({allocations.shape(whole, gpus) for gpus in connected(name)})))
    return counts, "NVLinks of allocations of 3 to 8 GPUs that these connect, up to the numbers of GPUs"


def rings(machine: str, gpus: tuple[int, ...]) -> Fraction:
    """The rate of an all-reduce over as many rings as there are, in links."""
    rate, over_nvlink = mesh.ring_rate(MACHINES[machine], gpus)
    directions = Fraction(rate, MACHINES[machine].nvlink_rate) if over_nvlink else PCIE_RING
    return directions * (theory.carried("all-reduce", len(gpus)) or 0)


def trees(machine: str, gpus: tuple[int, ...]) -> Fraction:
    """The rate of an all-reduce over packed trees, up and down at the same time, in links."""
    asked = _asked(machine, gpus)
    return pack.of(asked, "all-reduce").rate / asked.link_unit


def speedups() -> Computed:
    """`blink-fig14-theory`."""
    found: list[tuple[Fraction, str]] = []
    for name in (DGX1V, DGX1P):
        for gpus in connected(name):
            found.append((trees(name, gpus) / rings(name, gpus), f"GPUs {', '.join(map(str, gpus))} of a {name}"))
    (least, _), (most, where) = min(found), max(found)
    return [float(least), float(most)], f"largest on {where}; {len(found)} allocations of both machines"


def _broadcast(root: int) -> tuple[Question, Packing]:
    asked = _asked(DGX1V, tuple(range(8)))
    return asked, pack.of(asked, "broadcast", root)


def unit_trees() -> Computed:
    """`blink-dgx1v-trees`."""
    asked, packed = _broadcast(0)
    unit = Fraction(asked.link_unit)
    trees = fewest.of(packed, heaviest=unit).trees
    few = choice.of(packed, "trees", 0).trees
    shallow = choice.of(packed, "depth", 0).trees
    note = (
        f"{len(few)} trees of up to 2 links have the same rate, with depth {max(t.depth(packed.arcs) for t in few)}; "
        f"the shallowest have depth {max(t.depth(packed.arcs) for t in shallow)}"
    )
    return [float(len(trees)), float(sum(tree.weight for tree in trees) / unit)], note


def multiplicative_trees() -> Computed:
    """`blink-dgx1v-mwu-trees`."""
    counts, rates = [], []
    for root in range(8):
        asked, _ = _broadcast(root)
        answer = packing.ask(asked, {"kind": "multiplicative", "root": root, "epsilon": EPSILON})
        counts.append(len(answer["trees"]))
        rates.append(answer["rate"] / asked.link_unit)
    listed = ", ".join(map(str, counts))
    note = (
        f"the most of 8 roots, within {100 * EPSILON:g} % of the optimum: {listed} trees, with rates of "
        f"{min(rates):.4g} links or more; how many depends on ties between equally cheap trees"
    )
    return float(max(counts)), note


def ring_rate() -> Computed:
    """`blink-rings-dgx1p`."""
    gpus = tuple(range(8))
    trees = pack.of(_asked(DGX1P, gpus), "all-reduce")
    unit = _asked(DGX1P, gpus).link_unit
    return float(rings(DGX1P, gpus)), f"4 rings; the optimum of trees is {float(trees.rate / unit):.4g} links"
