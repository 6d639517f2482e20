"""Groups of NPUs that run the same collective side by side, as text.

    0-7;8-15             two groups of eight: members by number and range, in the order of their ranks
    0-12:4;1-13:4        ranges with a step
    size 8               every eight NPUs in a row are a group
    stride 8             NPUs whose numbers are equal modulo 8 are a group
    size 4 stride 8      groups of four, their members eight apart

All groups have the same number of members, and an NPU is in one of them at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import eq
from typing import Final, TypeAlias

ACCEPTED: Final = "groups such as 0-7;8-15 or 0-12:4;1-13:4, or a rule such as size 8, stride 8 or size 4 stride 8"
MAX_LENGTH: Final = 2**20
MAX_MEMBERS: Final = 2**20
"""Members of all groups, but for one of all NPUs, which is none."""

Members: TypeAlias = tuple[Sequence[int], ...]
"""The members of each group, by rank; ranges stay ranges, since there may be millions of NPUs."""

Ranges: TypeAlias = list[range]

_ITEM = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9})(?:\s*:\s*([0-9]{1,9}))?)?\s*", re.ASCII)
_RULE = re.compile(r"\s*(?:size\s+([0-9]{1,9}))?\s*(?:stride\s+([0-9]{1,9}))?\s*", re.ASCII)


class GroupError(ValueError):
    """A text that names no groups of the fabric."""

    def __init__(self, message: str, accepted: str = ACCEPTED) -> None:
        self.message = message
        self.accepted = accepted
        super().__init__(message)


@lru_cache(maxsize=16)
def parse(text: str, npus: int) -> Members:
    """The members of each group, by rank, on a fabric with `npus` NPUs."""
    if not text.strip():
        raise GroupError("the list of groups is empty")
    if len(text) > MAX_LENGTH:
        raise GroupError(f"this is longer than {MAX_LENGTH} characters")
    rule = _RULE.fullmatch(text)
    if rule is not None:
        return _by_rule(npus, None if rule[1] is None else int(rule[1]), None if rule[2] is None else int(rule[2]))
    groups = [_group(part, index, npus) for index, part in enumerate(_parts(text))]
    if not _are_all(groups, npus):
        _check(groups, npus)
    return tuple(_joined(group) for group in groups)


def all_npus(groups: Members, npus: int) -> bool:
    """Whether the groups are one of all NPUs, in their order."""
    if len(groups) != 1 or len(groups[0]) != npus:
        return False
    return groups[0] == range(npus) or (not isinstance(groups[0], range) and all(map(eq, groups[0], range(npus))))


def _are_all(groups: Sequence[Ranges], npus: int) -> bool:
    """The same of groups that are not joined yet, as one range."""
    return len(groups) == 1 and groups[0] == [range(npus)]


def canonical(members: Sequence[int]) -> str:
    """The text of a group, as short as ranges and steps make it; the order of ranks is kept."""
    if isinstance(members, range) and len(members) > 2:
        return f"{members[0]}-{members[-1]}" + ("" if members.step == 1 else f":{members.step}")
    runs: list[str] = []
    at = 0
    while at < len(members):
        step = members[at + 1] - members[at] if at + 1 < len(members) else 0
        end = at
        while end + 1 < len(members) and step > 0 and members[end + 1] - members[end] == step:
            end += 1
        if end - at >= 2 or (end > at and step == 1):
            runs.append(f"{members[at]}-{members[end]}" + ("" if step == 1 else f":{step}"))
            at = end + 1
        else:
            runs.append(str(members[at]))
            at += 1
    return ",".join(runs)


def _parts(text: str) -> list[str]:
    parts = text.split(";")
    return parts[:-1] if len(parts) > 1 and not parts[-1].strip() else parts


def _by_rule(npus: int, size: int | None, stride: int | None) -> Members:
    """Groups of `size` NPUs that are `stride` apart; together they are all NPUs."""
    if 0 in (size, stride):
        raise GroupError("a size and a stride are 1 or more")
    apart = stride or 1
    each = size if size is not None else npus // apart
    if each < 1 or npus % (each * apart):
        unit = f"{each * apart}" if size is not None else f"{apart}"
        count = "1 NPU is" if npus == 1 else f"{npus} NPUs are"
        raise GroupError(
            f"{count} not a multiple of {unit}", "a size and a stride whose product divides the number of NPUs"
        )
    block = each * apart
    if block == npus and apart == 1:
        return (range(npus),)
    if npus > MAX_MEMBERS:
        raise GroupError(f"these are more than {MAX_MEMBERS} NPUs", f"up to {MAX_MEMBERS} NPUs in all groups")
    starts = (first + offset for first in range(0, npus, block) for offset in range(apart))
    return tuple(range(start, start + block, apart) for start in starts)


def _group(text: str, index: int, npus: int) -> Ranges:
    members: Ranges = []
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            what = f"'{item.strip()[:20]}' is neither a number nor a range" if item.strip() else "a member is missing"
            raise GroupError(f"in group {index}: {what}")
        members.append(_range(match, item, index, npus))
    return members


def _joined(group: Ranges) -> Sequence[int]:
    """The members of a group."""
    return group[0] if len(group) == 1 else tuple(npu for part in group for npu in part)


def _size(group: Ranges) -> int:
    return sum(len(part) for part in group)


def _range(match: re.Match[str], item: str, index: int, npus: int) -> range:
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise GroupError(f"in group {index}: the range '{item.strip()}' runs backwards", f"{last}-{first}")
    if step == 0:
        raise GroupError(f"in group {index}: '{item.strip()}' has a step of zero", "a step of 1 or more")
    if last >= npus:
        raise GroupError(f"in group {index}: there is no NPU {last}: the fabric has {npus} NPUs", f"0 to {npus - 1}")
    return range(first, last + 1, step)


def _check(groups: Sequence[Ranges], npus: int) -> None:
    """Refuses groups of different sizes, and NPUs in more than one place."""
    sizes = [_size(group) for group in groups]
    if sum(sizes) > MAX_MEMBERS:
        raise GroupError(f"there are more than {MAX_MEMBERS} members", f"up to {MAX_MEMBERS} in all groups")
    taken = bytearray(npus)
    for index, npu in _each(groups):
        if taken[npu]:
            first = next(group for group, other in _each(groups) if other == npu)
            where = f"twice in group {index}" if first == index else f"in group {first} and in group {index}"
            raise GroupError(f"NPU {npu} is {where}", "each NPU at most once, in at most one group")
        taken[npu] = True
    for index, size in enumerate(sizes):
        if size != sizes[0]:
            raise GroupError(f"group 0 has {_members(sizes[0])}, group {index} has {size}", "groups of equal size")


def _each(groups: Sequence[Ranges]) -> Iterator[tuple[int, int]]:
    for index, group in enumerate(groups):
        for part in group:
            for npu in part:
                yield index, npu


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"
