"""What NPUs do along each dimension for each kind of collectives, as far as a description tells.

The engine decides it in `crates/system/src/place.rs`; this is what of that decides which settings act.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

from syncline.core import facts
from syncline.fabric.topologies import Wired
from syncline.sections.algorithms import Algorithm
from syncline.sections.collective import DEFAULT_CHUNK, EXCHANGE, Collective
from syncline.sections.experiment import Experiment
from syncline.sections.packed import PACKED
from syncline.sections.workloads import (
    ROOTED,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    kinds_of,
)

COMPOSITIONS: Final = facts.Names(
    lambda engine: (
        name for name in get_args(Algorithm) if name in engine.algorithms and engine.algorithms[name].composes
    )
)
"""Algorithms that may do something else along each dimension, in the order of the schema."""
FLAT: Final = facts.Names(lambda engine: (a.name for a in engine.algorithms.values() if a.is_flat))
"""Algorithms that see a group as a line, whatever its shape."""
TREES: Final = facts.Names(
    lambda engine: (p.name for p in engine.programs.values() if p.pipelined and p.pipelined == p.implements)
)
"""Programs that are pipelined whatever the collective."""
PLAN: Final = "plan"
"""In place of an algorithm: a plan."""
DIRECT: Final = "direct"
AROUND: Final = "around"
"""What a plan does around rings, over their lanes."""
STEPS: Final = "steps"
"""What else a plan does: messages that are routed."""
IN_SWITCH: Final = "in-switch"
IN_SWITCHES: Final = facts.Names(lambda engine: engine.programs[IN_SWITCH].implements)
"""Collectives that have a sum or a copy for a switch to make."""
SUMS: Final = facts.Names(lambda engine: (c.name for c in engine.collectives.values() if c.is_summed))
"""Collectives that have a sum."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the NPUs of a line do for a kind of collectives."""

    kind: str
    algorithm: str
    name: str
    block: str
    """What connects the line; `line` for a group of any shape."""
    lanes: int
    """Ways to go around, if it is a ring; more than one if that is not known."""


def is_one_chunk(collective: Collective, kind: str) -> bool:
    """Whether collectives of a kind are one chunk because nothing is said: trees cut it into slices themselves."""
    unsaid = collective.chunk is None and collective.chunks is None and kind not in collective.chunks_of
    return unsaid and collective.algorithm_of(kind) in (PACKED, *TREES)


def kinds(experiment: Experiment) -> list[str]:
    """The kinds of collectives of a run: of a model that is divided, all-to-alls only if its experts are."""
    found = kinds_of(experiment.workload)
    if isinstance(experiment.workload, DividedWorkload) and experiment.parallel.expert == 1:
        found.remove(EXCHANGE)
    return found


def algorithms(experiment: Experiment, kind: str) -> list[str]:
    """The algorithms that a kind may have: one, or all where it is left to be chosen; with a plan, none."""
    if experiment.plan_of(kind) is not None:
        return []
    name = experiment.collective.algorithm_of(kind)
    if name != "auto":
        return [name]
    return [other for other in get_args(Algorithm) if other != "auto"]


def of(experiment: Experiment) -> Iterator[Program]:
    """What is done along every dimension of more than one NPU, for every kind of collectives."""
    for kind in kinds(experiment):
        yield from _planned(experiment, kind)
        for algorithm in algorithms(experiment, kind):
            yield from _along(experiment, kind, algorithm)


def chunks(experiment: Experiment) -> int:
    """Chunks of a single collective."""
    collective, workload = experiment.collective, experiment.workload
    assert isinstance(workload, CollectiveWorkload)
    if is_one_chunk(collective, workload.collective):
        return 1
    given = collective.chunks_of.get(workload.collective, collective.chunks)
    if given is not None:
        return min(given, max(1, workload.size // collective.least_chunk))
    return -(-workload.size // (collective.chunk or DEFAULT_CHUNK))


def numbers_of_chunks(experiment: Experiment) -> list[int]:
    """The numbers of chunks that are stated for collectives of the run, those of families, axes and jobs included."""
    workload, own = experiment.workload, []
    if isinstance(workload, GraphWorkload):
        own = [family.collective for family in workload.file.graph.families.values()]
    elif isinstance(workload, DividedWorkload):
        own = list(experiment.parallel.collectives.values())
    elif isinstance(workload, JobsWorkload):
        own = [job.collective for job in workload.jobs]
    sections = [experiment.collective, *map(Collective.model_validate, own)]
    numbers = [number for section in sections for number in (section.chunks, *section.chunks_of.values())]
    return [number for number in numbers if number is not None]


def has_pipelines(experiment: Experiment) -> bool:
    """Whether anything is cut into slices: trees, and rings of collectives with a root, which are chains."""
    return any(
        p.name in TREES or (p.name == "ring" and p.kind in ROOTED) or p.algorithm == PACKED for p in of(experiment)
    )


def has_packed_trees(experiment: Experiment) -> bool:
    """Whether trees are packed."""
    return any(p.algorithm == PACKED for p in of(experiment))


def has_schedules(experiment: Experiment) -> bool:
    """Whether a plan is a schedule, whose thread blocks may loop."""
    plans = (experiment.plan_of(kind) for kind in kinds_of(experiment.workload))
    return any(plan is not None and plan.loaded.is_schedule for plan in plans)


def has_direct(experiment: Experiment) -> bool:
    """Whether ranks send to all others directly, in an order that can be chosen."""
    return any(p.name == DIRECT for p in of(experiment))


def has_lanes(experiment: Experiment) -> bool:
    """Whether a ring can go around in several ways, among which `lanes` chooses."""
    if experiment.collective.algorithm == "ring-unidirectional" and not experiment.collective.plan:
        return False
    return any(p.name in ("ring", AROUND) and p.lanes > 1 for p in of(experiment))


def has_phases(experiment: Experiment) -> bool:
    """Whether a collective has more than one phase."""
    found = list(of(experiment))
    composed = any(p.algorithm in COMPOSITIONS and p.algorithm != "hierarchical" for p in found)
    return len(found) > 1 or (composed and any(p.kind == "all-reduce" for p in found))


def passes_npus(experiment: Experiment) -> bool:
    """Whether messages may pass NPUs that they are not for."""
    fabric = experiment.topology
    used = {name for kind in kinds(experiment) for name in algorithms(experiment, kind)}
    routed = any(program.name == STEPS for program in of(experiment))
    if not routed and not any(name in FLAT for name in used) and experiment.groups is None:
        return False
    return isinstance(fabric, Wired) or fabric.forwards


def _planned(experiment: Experiment, kind: str) -> Iterator[Program]:
    """What the plan of a kind has its lines do, if it has one."""
    plan = experiment.plan_of(kind)
    for line in () if plan is None else plan.lines:
        name = AROUND if line.around else IN_SWITCH if line.switch else STEPS
        yield Program(line.kind, PLAN, name, "line", 2 if line.around else 1)


def _along(experiment: Experiment, kind: str, algorithm: str) -> Iterator[Program]:
    if algorithm == PACKED:
        yield Program(kind, algorithm, STEPS, "line", 1)
        return
    fabric, members = experiment.topology, experiment.members
    whole = None if isinstance(fabric, Wired) or members is not None else fabric
    ring = algorithm in ("ring", "ring-unidirectional")
    if algorithm in FLAT or (ring and whole is None):
        yield Program(kind, algorithm, "ring" if ring else algorithm, "line", 2)
        return
    per_dimension = experiment.collective.per_dimension
    own = kind in experiment.collective.algorithms
    offloads = experiment.endpoint.adds_in_switches and kind in IN_SWITCHES
    for index, size in enumerate(experiment.grid):
        if size == 1:
            continue
        dim = None if whole is None else whole.dims[index]
        block = dim.block if dim is not None else "switch" if fabric.is_switched else "line"
        lanes = 1
        if dim is not None and dim.block == "ring":
            lanes = 2
        elif dim is not None and dim.block == "fully-connected":
            lanes = (size - 1) * dim.links
        names = ["ring" if ring else algorithm]
        if algorithm in COMPOSITIONS:
            # Along a line, the routes decide.
            names = {"ring": ["ring"], "line": ["ring", DIRECT]}.get(block, [DIRECT])
            if offloads and (dim is None or dim.block == "switch"):
                names = [IN_SWITCH]
            if per_dimension is not None and not own:
                names = [per_dimension[index]]
        for name in names:
            yield Program(kind, algorithm, name, block, lanes)
