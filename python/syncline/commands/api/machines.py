"""Machines and those of their GPUs that take part, as they are named; what is wrong is said as of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncline.base import inputs
from syncline.base.errors import command_line
from syncline.fabric import allocation, files, notation
from syncline.fabric.allocation import AllocationError
from syncline.fabric.notation import MachineError
from syncline.treegen.question import MOST_GPUS

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.fabric.graph import Graph
    from syncline.fabric.machines import Cluster


def machine_named(text: str) -> Cluster:
    """The machine of `--machine`."""
    try:
        return notation.parse(text)
    except MachineError as error:
        raise command_line("--machine", text, error.message, error.accepted) from None


def allocated(graph: Graph, text: str | None) -> tuple[int, ...]:
    """The NPUs of `--gpus`; all, where it is not given."""
    if text is None:
        return tuple(range(graph.npus))
    try:
        return allocation.parse(text, graph.npus)
    except AllocationError as error:
        raise command_line("--gpus", text, error.message, error.accepted) from None


def fabric(machine: str | None, topology_file: str | None) -> Graph:
    """The machine, or what is in the file, one of which is named."""
    if machine is not None:
        return machine_named(machine).graph()
    return files.load(inputs.given(topology_file or ""))


def too_many(gpus: Sequence[int], text: str | None, asked: str | None = None, most: int | None = None) -> list[Problem]:
    """What is wrong with more GPUs than trees are found for in time; `text` is what `--gpus` says, and `asked` names
    what has fewer of them.
    """
    most = MOST_GPUS if most is None else most
    if len(gpus) <= most:
        return []
    why = "" if asked is None else f" with {asked}"
    message = f"trees of {len(gpus)} GPUs take too long in this version{why}"
    return list(command_line("--gpus", text, message, f"up to {most} GPUs{why}").problems)
