"""`--algorithm packed-trees` of `syncline collective`: a plan of trees for the machine, made for the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.cli import topology
from syncline.cli.single import Flags

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.fabric.graph import Graph

NAME: Final = "packed-trees"
WITHOUT_PLANS: Final = frozenset({"gather", "scatter"})
"""Collectives that have trees, but no plans of them."""


def planned(flags: Flags, folder: Path) -> Flags:
    """The flags with a plan of trees, written into a folder, in place of the algorithm. Raises [`InputError`] where
    there are none.
    """
    from syncline import quantities
    from syncline.errors import InputError, command_line
    from syncline.schedules import plan_form
    from syncline.trees import choice, packing, plan, question

    problems = [*_problems(flags)]
    if problems:
        raise InputError(problems)
    graph = fabric(flags.machine, flags.topology_file)
    gpus = topology.allocated(graph, flags.gpus)
    root = flags.root or 0
    try:
        size = quantities.size(flags.size)
    except quantities.QuantityError as error:
        problems += command_line("--size", flags.size, error.message, error.accepted).problems
        size = 0
    if not 0 <= root < len(gpus):
        message = f"there is no rank {root}: {len(gpus)} GPUs take part"
        problems += command_line("--root", str(root), message, f"0 to {len(gpus) - 1}").problems
    problems += too_many(gpus, flags.gpus)
    if problems:
        raise InputError(problems)
    asked = question.asked(graph, gpus)
    packed = packing.of(asked, flags.kind, root)  # type: ignore[arg-type]  # checked above
    overhead = _overhead_s(flags)
    trees = choice.of(packed, "time", size, overhead_s=overhead).trees
    if not trees:
        message = "the links that trees use do not connect these GPUs, or there is only one"
        raise command_line("--algorithm", NAME, message, "another algorithm")
    packed = replace(packed, trees=trees)
    path = folder / "trees.json"
    form = plan.form(graph, asked, packed, choice.slices(packed, trees, size, overhead), NAME)
    path.write_text(plan_form.dumps(form), encoding="utf-8")
    return replace(flags, algorithm=None, plan=str(path))


def _overhead_s(flags: Flags) -> float:
    """What a slice costs beside its bytes: with streams a copy and a wait, as these are if nothing else is said."""
    from syncline.endpoints import streams
    from syncline.trees import choice

    of_streams = (streams.COPY_COMMANDS + 1) * streams.COMMAND_PS / 1e12
    return of_streams if flags.endpoint == "streams" else choice.OVERHEAD_S


def _problems(flags: Flags) -> list[Problem]:
    """What trees do not do."""
    from syncline.errors import command_line
    from syncline.trees import packing

    found: list[Problem] = []
    if flags.plan is not None:
        found += command_line(
            "--algorithm", NAME, "the algorithm is given twice, by --plan, too", "one of them"
        ).problems
    if flags.kind not in packing.TASKS or flags.kind in WITHOUT_PLANS:
        able = ", ".join(name for name in packing.TASKS if name not in WITHOUT_PLANS)
        found += command_line("--algorithm", NAME, f"no trees carry out {flags.kind}", f"{able} with it").problems
    if flags.topology is not None or (flags.machine is None) == (flags.topology_file is None):
        message = "trees are packed on a machine or a topology file"
        found += command_line("--algorithm", NAME, message, "--machine M or --topology-file FILE with it").problems
    if flags.groups:
        message = "trees are packed for one group"
        found += command_line("--group", ";".join(flags.groups), message, "--gpus in place of groups").problems
    return found


def fabric(machine: str | None, topology_file: str | None) -> Graph:
    """The machine, or what is in the file, one of which is named."""
    from syncline import inputs
    from syncline.fabric import files

    if machine is not None:
        return topology.machine_named(machine).graph()
    return files.load(inputs.given(topology_file or ""))


def too_many(gpus: Sequence[int], text: str | None, most: int | None = None) -> list[Problem]:
    """What is wrong with more GPUs than trees are found for in time; `text` is what `--gpus` says."""
    from syncline.errors import command_line
    from syncline.trees.question import MOST_GPUS

    most = MOST_GPUS if most is None else most
    if len(gpus) <= most:
        return []
    message = f"trees of {len(gpus)} GPUs take too long in this version"
    return list(command_line("--gpus", text, message, f"up to {most} GPUs").problems)
