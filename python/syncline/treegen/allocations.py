"""The allocations of a machine, those whose links are alike taken as one.

Two allocations are alike if the GPUs of one can be renamed to those of the other so that every link keeps its rate;
what forwards (an NVSwitch, a PCIe switch) stays what it is. GPUs that can be exchanged for each other, as all of those
on NVSwitches, are chosen by their number alone, so that a machine of sixteen such GPUs has sixteen allocations to look
at and not 65,535.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb, prod
from typing import Final, TypeAlias

from syncline.treegen.question import Question

Shape: TypeAlias = tuple[tuple[int, ...], ...]

MOST_LISTED: Final = 2000
"""Allocations that are looked at one by one."""
MOST_COUNTED: Final = 2**63 - 1
"""What a column of whole numbers can hold."""
MOST_ORDERS: Final = 50_000
"""Orders of GPUs that are looked at together, to find the first one in the alphabet; eight GPUs have fewer."""


class TooManyError(ValueError):
    """There are more allocations than anyone waits for."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Some GPUs of a machine."""

    gpus: tuple[int, ...]
    """The first, in the order of their numbers, of the allocations that are alike."""
    alike: int
    """How many allocations it stands for, itself included."""


def of(question: Question, sizes: Sequence[int], *, every: bool = False) -> list[Allocation]:
    """The allocations of so many GPUs among those of a question, by their sizes and then their numbers. With `every`,
    each stands for itself. Raises [`TooManyError`].
    """
    links = _links(question)
    places = range(len(question.gpus))
    if every:
        count = sum(comb(len(places), size) for size in sizes)
        _limit(count, sizes)
        return [Allocation(_named(question, chosen), 1) for size in sizes for chosen in combinations(places, size)]
    twins = _twins(links, places, len(question.nodes))
    _limit(sum(_ways([len(group) for group in twins], size) for size in sizes), sizes)
    found: list[Allocation] = []
    for size in sizes:
        alike: dict[Shape, tuple[tuple[int, ...], int]] = {}
        for counts in _counts([len(group) for group in twins], size):
            chosen = tuple(sorted(gpu for group, count in zip(twins, counts, strict=True) for gpu in group[:count]))
            many = prod(comb(len(group), count) for group, count in zip(twins, counts, strict=True))
            key = _shape(links, chosen, len(question.gpus), len(question.nodes))
            first, before = alike.get(key, (chosen, 0))
            alike[key] = min(first, chosen), before + many
        found += sorted((Allocation(_named(question, c), n) for c, n in alike.values()), key=lambda each: each.gpus)
    most = max((each.alike for each in found), default=0)
    if most > MOST_COUNTED:
        raise TooManyError(f"some allocations stand for {most:.3g} of their kind, more than a table can count")
    return found


def shape(question: Question, gpus: Sequence[int]) -> Shape:
    """The same for GPUs whose links are alike. Raises [`TooManyError`] where that takes too long to find out."""
    place = {gpu: number for number, gpu in enumerate(question.gpus)}
    chosen = tuple(place[gpu] for gpu in gpus)
    return _shape(_links(question), chosen, len(question.gpus), len(question.nodes))


_Links: TypeAlias = dict[tuple[int, int], int]


def _links(question: Question) -> _Links:
    return {(src, dst): rate for src, dst, rate in question.arcs}


def _named(question: Question, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(question.gpus[place] for place in places)


def _limit(count: int, sizes: Sequence[int]) -> None:
    if count > MOST_LISTED:
        what = f"{sizes[0]} to {sizes[-1]} GPUs" if len(sizes) > 1 else f"{sizes[0]} GPUs"
        raise TooManyError(f"there are {count} allocations of {what} to look at, more than {MOST_LISTED}")


def _twins(links: _Links, places: Sequence[int], nodes: int) -> list[list[int]]:
    """GPUs in groups whose members can be exchanged for each other without a change of any link."""

    def exchangeable(a: int, b: int) -> bool:
        if links.get((a, b)) != links.get((b, a)):
            return False
        others = (node for node in range(nodes) if node not in (a, b))
        return all(links.get((a, x)) == links.get((b, x)) and links.get((x, a)) == links.get((x, b)) for x in others)

    groups: list[list[int]] = []
    for place in places:
        group = next((group for group in groups if exchangeable(group[0], place)), None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    return groups


def _ways(limits: Sequence[int], total: int) -> int:
    """In how many ways a total is a sum of numbers up to limits."""

    @cache
    def ways(index: int, left: int) -> int:
        if index == len(limits):
            return int(left == 0)
        return sum(ways(index + 1, left - count) for count in range(min(limits[index], left) + 1))

    return ways(0, total)


def _counts(limits: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """These ways, with more from the first groups first."""
    if not limits:
        if total == 0:
            yield ()
        return
    room = sum(limits[1:])
    for count in range(min(limits[0], total), max(0, total - room) - 1, -1):
        for rest in _counts(limits[1:], total - count):
            yield (count, *rest)


def _shape(links: _Links, chosen: tuple[int, ...], terminals: int, nodes: int) -> Shape:
    """The least list of rows over all orders of the GPUs, where the row of a GPU has its links to what forwards and to
    the GPUs before it. Orders that begin equally are extended together, and only the least rows are kept, so that all
    orders that remain have the same list. Of GPUs that can be exchanged one order is enough.
    """
    group = {place: number for number, twins in enumerate(_alone(links, chosen, nodes, terminals)) for place in twins}
    outside = {
        place: tuple(
            rate
            for node in range(terminals, nodes)
            for rate in (links.get((place, node), 0), links.get((node, place), 0))
        )
        for place in chosen
    }
    rows: list[tuple[int, ...]] = []
    orders: list[tuple[int, ...]] = [()]
    for _ in chosen:
        least: tuple[int, ...] | None = None
        kept: list[tuple[int, ...]] = []
        for order in orders:
            seen: set[int] = set()
            for place in chosen:
                if place in order or group[place] in seen:
                    continue
                seen.add(group[place])
                # Minus: GPUs with wide links to those before come first, which tells orders apart early.
                row = (
                    *outside[place],
                    *(-rate for x in order for rate in (links.get((place, x), 0), links.get((x, place), 0))),
                )
                if least is None or row < least:
                    least, kept = row, []
                if row == least:
                    kept.append((*order, place))
        if len(kept) > MOST_ORDERS:
            raise TooManyError(f"whether allocations of {len(chosen)} GPUs are alike takes too long to find out")
        rows.append(least or ())
        orders = kept
    return tuple(rows)


def _alone(links: _Links, chosen: tuple[int, ...], nodes: int, terminals: int) -> list[list[int]]:
    """Groups of exchangeable GPUs where no other GPUs take part."""
    taking = frozenset(chosen)
    left = {ends: rate for ends, rate in links.items() if all(end in taking or end >= terminals for end in ends)}
    return _twins(left, chosen, nodes)
