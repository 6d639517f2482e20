"""Trees over NVLinks and others over PCIe, at the same time (Blink, section 3.4).

Drivers do not let both kinds of links be one topology: a GPU copies to another one over NVLinks where it may, and over
PCIe once peer access is disabled. So there are two sets of trees, each with a part of the vector, and what goes over
PCIe begins `T_dpa` later: the time to disable peer access and to enable it again, in proportion to the number of GPUs
(section 5.3). Parts are such that both end at the same time. For trees that carry `Bp` and `Bn` bytes per second, this
is equation 8,

    D_pcie = D Bp / (Bp + Bn) - T_dpa Bp Bn / (Bp + Bn)

and nothing goes over PCIe where that is negative. How much trees carry depends on the size, since slices take a while
to reach the last GPU, so `Bp` and `Bn` are those of the parts: the size at which both predicted times meet is found by
halving. It is never more than equation 8 has for the rates of the trees alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.fabric.graph import PCIE, Graph
from syncline.treegen import choice, pack, packing, plan, question, shared_links
from syncline.treegen.costs import PEER_ACCESS_PS
from syncline.treegen.packing import Collective, Packing
from syncline.treegen.question import Question

OF_RANKS: Final = plan.OF_RANKS | {plan.NAMES[name] for name in packing.IN_PARTS}
"""Collectives, as plans call them, whose vector consists of equal shares of ranks."""
PS: Final = 1e-12
MOST_BLOCKS: Final = 2**20
"""Of a plan: the format has room for more, which would tell no more parts apart."""
BLOCK: Final = 256
"""Bytes of a block at least, where there is a choice: what is padded to whole elements is then a small part of it."""
FEW: Final = 64
"""Of a plan that a runtime repeats."""
ROUGHLY: Final = 0.1
"""As `NEARLY`, there."""
NEARLY: Final = 0.002
"""How far the parts of a plan may be from those that were asked for, of the smaller one."""


@dataclass(frozen=True, slots=True)
class Part:
    """The trees over one kind of links."""

    asked: Question
    packed: Packing
    """With the trees that are used."""
    size: int
    """Bytes that go over them."""
    overhead_s: float = choice.OVERHEAD_S
    """What each slice costs beside its bytes."""
    given: int | None = None
    """The number of slices, if it is not the fastest one."""

    @property
    def rate(self) -> float:
        """Bytes per second of all trees together."""
        return float(self.packed.rate)

    @property
    def seconds(self) -> float:
        """The predicted time, without a wait for peer access."""
        return self.seconds_of(self.size)

    def seconds_of(self, size: int) -> float:
        """The predicted time of so many bytes."""
        if size == 0:
            return 0.0
        return choice.seconds(self.packed, self.packed.trees, size, self.overhead_s) if self.packed.trees else math.inf

    @property
    def slices(self) -> int:
        """Into how many slices each tree's bytes are cut."""
        return self.given or choice.slices(self.packed, self.packed.trees, self.size, self.overhead_s)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Both sets of trees."""

    nvlink: Part
    pcie: Part
    switch_s: float
    """What peer access costs."""

    @property
    def seconds(self) -> float:
        """The predicted time."""
        waits = self.switch_s if self.pcie.size else 0.0
        return max(self.nvlink.seconds, self.pcie.seconds + waits)

    @property
    def size(self) -> int:
        """Bytes of the vector."""
        return self.nvlink.size + self.pcie.size

    def sliced(self, slices: int | None) -> Hybrid:
        """The same with so many slices, or as many as are fastest."""
        nvlink, pcie = (replace(part, given=slices) for part in (self.nvlink, self.pcie))
        return replace(self, nvlink=nvlink, pcie=pcie)

    @property
    def best_rate(self) -> Fraction:
        """The bytes per second that no trees over one kind of links each have together."""
        return self.nvlink.packed.best_rate + self.pcie.packed.best_rate

    @property
    def used(self) -> list[Part]:
        """The parts that anything goes over."""
        return [part for part in (self.nvlink, self.pcie) if part.size and part.packed.trees]


def equation_8(size: float, pcie: float, nvlink: float, switch_s: float) -> float:
    """Bytes of `size` that go over PCIe, for trees of these bytes per second: not less than none, nor more than all."""
    if pcie <= 0:
        return 0.0
    return min(max((size * pcie - switch_s * pcie * nvlink) / (pcie + nvlink), 0.0), size)


def of(
    graph: Graph,
    gpus: Sequence[int],
    collective: Collective,
    root: int,
    size: int,
    *,
    switch_ps: int = PEER_ACCESS_PS,
    overhead_s: float = choice.OVERHEAD_S,
) -> Hybrid:
    """The trees of a collective and their parts of so many bytes. The root is a place in the list of GPUs; peer access
    takes `switch_ps` for each GPU. Raises [`InputError`] for GPUs of more than one machine.
    """
    if len({graph.nodes[gpu].host for gpu in gpus}) > 1:
        message = "NVLinks and PCIe are used together within a machine, and these GPUs are in several"
        raise _refused(message, "GPUs of one machine, or links all")

    def part(links: question.Links) -> Part:
        asked = question.asked(graph, gpus, links)
        packed = pack.of(asked, collective, root)
        packed = replace(packed, trees=choice.of(packed, "time", size, overhead_s=overhead_s).trees)
        return Part(
            asked, shared_links.on_shared_links(asked, packed, root) if links == "pcie" else packed, 0, overhead_s
        )

    nvlink, pcie = part("nvlink"), part("pcie")
    switch_s = len(gpus) * switch_ps * PS
    over_pcie = _balanced(nvlink, pcie, size, switch_s)
    return Hybrid(replace(nvlink, size=size - over_pcie), replace(pcie, size=over_pcie), switch_s)


def _refused(message: str, accepted: str) -> InputError:
    return InputError([Problem("trees", None, "links", "hybrid", message, accepted)])


def _balanced(nvlink: Part, pcie: Part, size: int, switch_s: float) -> int:
    """The most bytes over PCIe that are there when those over NVLinks are, or as many as equation 8 has for the rates
    of the trees alone, if these are fewer: that PCIe has shallower trees is no reason to prefer it for a few bytes.
    """
    if not pcie.packed.trees:
        return 0
    if not nvlink.packed.trees:
        return size
    least, most = 0, int(equation_8(size, pcie.rate, nvlink.rate, switch_s))
    while least < most:
        middle = (least + most + 1) // 2
        if pcie.seconds_of(middle) + switch_s <= nvlink.seconds_of(size - middle):
            least = middle
        else:
            most = middle - 1
    return least


def form(
    graph: Graph,
    gpus: Sequence[int],
    collective: Collective,
    root: int,
    size: int,
    *,
    switch_ps: int = PEER_ACCESS_PS,
    overhead_s: float = choice.OVERHEAD_S,
    slices: int | None = None,
    name: str = "hybrid-trees",
) -> dict[str, Any]:
    """The plan of the trees of a collective, with so many slices or as many as are fastest. Where nothing is to go over
    PCIe, it is that of trees over NVLinks. Raises [`InputError`] where there are no trees at all.
    """
    found = of(graph, gpus, collective, root, size, switch_ps=switch_ps, overhead_s=overhead_s)
    return written(graph, found.sliced(slices), name)


def written(graph: Graph, hybrid: Hybrid, name: str) -> dict[str, Any]:
    """The plan of trees whose parts are known."""
    nvlink, pcie = hybrid.nvlink, hybrid.pcie
    if not (nvlink.packed.trees or pcie.packed.trees):
        message = "neither NVLinks nor PCIe connect these GPUs, or there is only one"
        raise _refused(message, "GPUs that reach each other")
    if pcie.size == 0:
        return plan.form(graph, nvlink.asked, nvlink.packed, nvlink.slices, name)
    if nvlink.size == 0:
        return over_pcie(plan.form(graph, pcie.asked, pcie.packed, pcie.slices, name))
    each = [_blocks(plan.form(graph, part.asked, part.packed, 1, name)) for part in (nvlink, pcie)]
    factors = _factors(hybrid, *each)
    if factors is None:
        return plan.form(graph, nvlink.asked, nvlink.packed, _all_slices(nvlink, hybrid.size), name)
    (slices, times), (slices_over_pcie, times_over_pcie) = factors
    first = plan.form(graph, nvlink.asked, nvlink.packed, slices, name)
    second = over_pcie(plan.form(graph, pcie.asked, pcie.packed, slices_over_pcie, name))
    return _side_by_side(first, times, second, times_over_pcie)


def in_one_slice(graph: Graph, hybrid: Hybrid, name: str) -> dict[str, Any]:
    """The same for a runtime that repeats the plan for one part of the vector after the other: each tree has one slice,
    and both kinds of links have nearly the parts that they are to have.
    """
    if not hybrid.pcie.size:
        return plan.form(graph, hybrid.nvlink.asked, hybrid.nvlink.packed, 1, name)
    over = over_pcie(plan.form(graph, hybrid.pcie.asked, hybrid.pcie.packed, 1, name))
    if not hybrid.nvlink.size:
        return over
    trees = plan.form(graph, hybrid.nvlink.asked, hybrid.nvlink.packed, 1, name)
    blocks = _blocks(trees), _blocks(over)
    ratio = hybrid.pcie.size / hybrid.nvlink.size

    def off(times: tuple[int, int]) -> float:
        return abs(blocks[1] * times[1] / (blocks[0] * times[0] * ratio) - 1)

    few = [(one, two) for one in range(1, FEW + 1) for two in range(1, FEW + 1)]
    small = [times for times in few if blocks[0] * times[0] + blocks[1] * times[1] <= max(FEW, 4 * sum(blocks))]
    times = min(small, key=lambda times: (off(times) > ROUGHLY and off(times), sum(times)))
    return _side_by_side(trees, times[0], over, times[1])


def _all_slices(part: Part, size: int) -> int:
    return replace(part, size=size).slices


def _blocks(form: dict[str, Any]) -> int:
    return int(form["programs"][0]["blocks"])


def _factors(hybrid: Hybrid, nvlink: int, pcie: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """For trees over either kind of links, the slices and the blocks that stand for one of theirs, so that their blocks
    are in proportion to their bytes; of either, a slice has so many. None where the vector has too few bytes to be cut
    like this.
    """
    ratio = hybrid.pcie.size / hybrid.nvlink.size
    most = max(min(MOST_BLOCKS, hybrid.size // BLOCK), nvlink + pcie)
    slices = min(hybrid.nvlink.slices, max(1, int(most / (1 + ratio)) // nvlink))
    wanted = hybrid.pcie.slices
    best: tuple[float, int, int, int] | None = None
    for times in range(1, 257):
        blocks = nvlink * slices * times
        target = blocks * ratio
        if blocks + target > most and best is not None:
            break
        for count in range(max(1, wanted - wanted // 8), wanted + wanted // 8 + 1):
            each = max(1, round(target / (pcie * count)))
            off = abs(pcie * count * each / target - 1)
            if best is None or off < best[0]:
                best = off, times, count, each
        if best is not None and best[0] < NEARLY:
            break
    if best is None or best[0] > 1:  # more than twice as much as is to go over PCIe
        return _one_slice(ratio, nvlink, pcie, most)
    return (slices, best[1]), (best[2], best[3])


def _one_slice(ratio: float, nvlink: int, pcie: int, most: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The same for a part that is too small for as many slices as would be fastest."""
    times = max(1, round(pcie / (ratio * nvlink)))
    return ((1, times), (1, 1)) if nvlink * times + pcie <= most else None


def over_pcie(form: dict[str, Any]) -> dict[str, Any]:
    """The plan of trees over PCIe, of which a step would take an NVLink if it did not name its way."""
    for step in _steps(form["programs"][0]["ranks"]):
        if "to" in step:
            step["way"] = {"over": PCIE}
    return form


def _steps(ranks: list[Any]) -> list[dict[str, Any]]:
    return [step for threads in ranks for loops in threads for loop in loops for step in loop["steps"]]


def _side_by_side(first: dict[str, Any], times: int, second: dict[str, Any], times_second: int) -> dict[str, Any]:
    """Two plans of a collective as one, for parts of the vector: a block of either becomes so many.

    Where blocks are those of ranks, each rank's are those of the first plan and then those of the second.
    """
    (one,), (two,) = first["programs"], second["programs"]
    shares = first["grid"][0] if first["collective"] in OF_RANKS else 1
    lengths = one["blocks"] // shares * times, two["blocks"] // shares * times_second
    whole = sum(lengths)
    threads = [len(rank) for rank in one["ranks"]]
    ranks = []
    for rank, (mine, other) in enumerate(zip(one["ranks"], two["ranks"], strict=True)):
        for step in _steps([mine]):
            _spread(step, times, one["blocks"] // shares, whole, 0)
        for step in _steps([other]):
            _spread(step, times_second, two["blocks"] // shares, whole, lengths[0])
            if "into" in step:
                step["into"] = [step["into"][0] + threads[step["to"]], step["into"][1]]
            if "after" in step:
                step["after"] = [step["after"][0] + threads[rank], step["after"][1]]
        ranks.append([*mine, *other])
    return {**first, "programs": [{**one, "blocks": whole * shares, "ranks": ranks}]}


def _spread(step: dict[str, Any], times: int, share: int, whole: int, offset: int) -> None:
    """Blocks of a share of one plan become those of a share of both; a step that only waits has none."""
    if "block" not in step:
        return
    place, within = divmod(step["block"], share)
    step["block"] = place * whole + offset + within * times
    step["count"] *= times
    step["next"]["block"] *= times
