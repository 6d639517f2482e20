"""Allocations: which NPUs of a machine take part, as `0,1,3` or `0-3,8-11`.

The rest of the machine stays: switches, NICs and CPUs forward as before. GPUs without work do not.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from syncline.fabric.graph import NVLINK, NVSWITCH, Graph, checked, components

ACCEPTED: Final = "numbers and ranges, such as 0,1,3 or 0-3,8-11"
NVLINK_CLASSES: Final = frozenset({NVLINK, NVSWITCH})
MAX_LENGTH: Final = 2**16

_ITEM = re.compile(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", re.ASCII)


class AllocationError(ValueError):
    """A text that names no NPUs of the machine."""

    def __init__(self, message: str, accepted: str = ACCEPTED) -> None:
        self.message = message
        self.accepted = accepted
        super().__init__(message)


def ends(item: str) -> tuple[int, int]:
    """The first and the last NPU of a number or a range. Raises [`AllocationError`]."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise AllocationError(f"'{item.strip()[:20]}' is neither a number nor a range")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise AllocationError(f"the range '{item.strip()}' runs backwards", f"{last}-{first}")
    return first, last


def parse(text: str, npus: int) -> tuple[int, ...]:
    """The NPUs of an allocation on a machine with `npus` of them, in ascending order, each once."""
    if not text.strip():
        raise AllocationError("the list of GPUs is empty")
    if len(text) > MAX_LENGTH:
        raise AllocationError(f"this is longer than {MAX_LENGTH} characters")
    chosen: list[int] = []
    for item in text.split(","):
        first, last = ends(item)
        if last >= npus:
            raise AllocationError(f"there is no GPU {last}: the machine has {npus} GPUs", f"0 to {npus - 1}")
        chosen += range(first, last + 1)
        if len(chosen) > npus:
            break
    if len(set(chosen)) != len(chosen):
        twice = next(gpu for gpu in chosen if chosen.count(gpu) > 1)
        raise AllocationError(f"GPU {twice} is listed twice", "each GPU at most once")
    return tuple(sorted(chosen))


def canonical(gpus: Collection[int]) -> str:
    """The text of an allocation, as short as it gets."""
    runs: list[list[int]] = []
    for gpu in sorted(gpus):
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def nvlink_components(graph: Graph, gpus: Collection[int]) -> list[list[int]]:
    """The NPUs in groups that reach each other over NVLink, directly or through NVSwitches and each other."""
    return components(graph, gpus, NVLINK_CLASSES)


def restricted(graph: Graph, gpus: Collection[int]) -> Graph:
    """The fabric without the GPUs that do not take part; the others are numbered anew, in ascending order."""
    chosen = frozenset(gpus)
    kept = [index for index, node in enumerate(graph.nodes) if node.kind != "npu" or index in chosen]
    number = {old: new for new, old in enumerate(kept)}
    links = (
        replace(link, src=number[link.src], dst=number[link.dst])
        for link in graph.links
        if link.src in number and link.dst in number
    )
    name = f"{graph.name} [{canonical(gpus)}]"
    nodes = tuple(graph.nodes[index] for index in kept)
    return checked(Graph(name, nodes, tuple(links), graph.link_unit, graph.assumptions))
