"""What commands about trees have in common: the machine, and how many GPUs may take part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncline.cli import topology

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.fabric.graph import Graph


def fabric(machine: str | None, topology_file: str | None) -> Graph:
    """The machine, or what is in the file, one of which is named."""
    from syncline import inputs
    from syncline.fabric import files

    if machine is not None:
        return topology.machine_named(machine).graph()
    return files.load(inputs.given(topology_file or ""))


def too_many(gpus: Sequence[int], text: str | None, asked: str | None = None, most: int | None = None) -> list[Problem]:
    """What is wrong with more GPUs than trees are found for in time; `text` is what `--gpus` says, and `asked` names
    what has fewer of them.
    """
    from syncline.errors import command_line
    from syncline.treegen.question import MOST_GPUS

    most = MOST_GPUS if most is None else most
    if len(gpus) <= most:
        return []
    why = "" if asked is None else f" with {asked}"
    message = f"trees of {len(gpus)} GPUs take too long in this version{why}"
    return list(command_line("--gpus", text, message, f"up to {most} GPUs{why}").problems)
