"""What is asked of trees on a machine, how it is read, and what is found: `trees` without its files and tables."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from syncline.base import collective_names, quantities
from syncline.base.clock import Clock
from syncline.base.errors import InputError, Problem, command_line
from syncline.commands.api import arguments, files, hybrid_trees, machines, single, tree_comparison
from syncline.commands.api.tree_comparison import UNOBSERVED, Case, Goals, Observed
from syncline.fabric import allocation
from syncline.results import entries as results
from syncline.studies.trees import document as documents
from syncline.treegen import choice, packing, question
from syncline.treegen.packing import TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.commands.api.files import AnyPath
    from syncline.fabric.graph import Graph
    from syncline.results.entries import Document
    from syncline.treegen.choice import Best, Goal
    from syncline.treegen.hybrid import Hybrid
    from syncline.treegen.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as the command line says it."""

    machine: str | None = None
    topology_file: str | None = None
    gpus: str | None = None
    collective: str = "broadcast"
    root: str | None = None
    objective: str = "time"
    size: str = "100MB"
    overhead: str | None = None
    links: str = "auto"
    switch_latency: str | None = None
    threshold: str | None = None
    compare: bool = False
    """Whether the trees are simulated beside other schedules."""
    backend: str | None = None
    endpoint: str | None = None
    sweep: bool = False
    """Whether all allocations of the GPUs are asked for."""
    costly: tuple[str, ...] = ()
    """What else is asked for that fewer GPUs can have."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with what is said beside all this."""


@dataclass(frozen=True, slots=True)
class Read:
    """The same, read."""

    graph: Graph
    gpus: tuple[int, ...]
    case: Case
    goals: Goals
    size_bytes: int
    compare: bool
    hybrid: hybrid_trees.Given | None
    """What is said of hybrid links, if trees may use them."""
    began: Clock
    """When this began, for what it took."""


@dataclass(frozen=True, slots=True)
class Found:
    """The trees over one kind of links, or over all of them as one."""

    asked: Question
    wish: Goal
    chosen: Best


def read(asked: Asked) -> Read:
    """What is asked for. Raises [`InputError`] with everything that is wrong."""
    began = Clock()
    graph = graph_of(asked.machine, asked.topology_file)
    gpus = machines.allocated(graph, asked.gpus)
    kind, objective, links, size, share, problems = checked(
        asked.collective, asked.objective, asked.links, asked.size, asked.threshold
    )
    problems += asked.problems
    problems += tree_comparison.problems(asked.backend, asked.endpoint, asked.topology_file, compare=asked.compare)
    endpoint = asked.endpoint or single.DEFAULT_ENDPOINT
    both = hybrid_trees.Given(
        links,
        asked.switch_latency,
        alone=(
            ("--objective", objective != "time"),
            ("--root", asked.root == "auto"),
            ("--sweep", asked.sweep),
        ),
        endpoint=endpoint if asked.compare else None,
    )
    problems += both.problems()
    root, wrong = root_of(asked.root, gpus, kind)
    overhead_s, of_overhead = overhead_of(asked.overhead)
    problems += [*wrong, *of_overhead]
    costly = (
        *((what, True) for what in asked.costly),
        ("a sweep", asked.sweep),
        ("--compare", asked.compare),
        ("--links hybrid", links == hybrid_trees.NAME),
        (f"--root {asked.root}", root == "auto" or (root is not None and kind == "all-reduce")),
        (f"--collective {kind}", kind in packing.IN_PARTS),
    )
    fewer = next((name for name, wanted in costly if wanted), None)
    most = question.MOST_RATED if fewer is None else question.MOST_GPUS
    problems += machines.too_many(gpus, asked.gpus, fewer, most)
    if problems:
        raise InputError(problems)
    case = Case(
        kind=kind,
        size=asked.size,
        machine=asked.machine,
        topology_file=asked.topology_file,
        gpus=asked.gpus,
        ranks=len(gpus),
        root=(root if isinstance(root, int) else 0) if kind in packing.ROOTED else None,
        backend=asked.backend or tree_comparison.DEFAULT_BACKEND,
        endpoint=endpoint,
    )
    is_hybrid = links == hybrid_trees.NAME
    goals = Goals(objective, share, "all" if is_hybrid else links, overhead_s, root)
    return Read(graph, gpus, case, goals, size, asked.compare, both if is_hybrid else None, began)


def found(read: Read) -> Found:
    """The best trees."""
    asked = question.asked(read.graph, read.gpus, read.goals.links)
    wish = read.goals.wish(read.size_bytes, read.case if read.compare else None, read.graph, asked)
    return Found(asked, wish, choice.best(asked, read.case.kind, read.goals.root, wish))  # type: ignore[arg-type]


def found_hybrid(read: Read) -> Hybrid:
    """The best trees over NVLinks and PCIe. Of those that are compared, a slice costs what it costs at their endpoint,
    if nothing is said. Raises [`InputError`] for GPUs of more than one machine.
    """
    assert read.hybrid is not None
    asked = question.asked(read.graph, read.gpus, "all")
    wish = read.goals.wish(read.size_bytes, read.case if read.compare else None, read.graph, asked)
    root = read.goals.root if isinstance(read.goals.root, int) else 0
    kind: Any = read.case.kind
    return read.hybrid.trees(read.graph, read.gpus, kind, root, read.size_bytes, wish.overhead_s)


def document(read: Read, found: Found | Hybrid, observed: Observed = UNOBSERVED) -> Document:
    """The document of `trees --json`: the trees, and if that is asked for the simulations beside others."""
    if isinstance(found, Found):
        made = documents.of(read.graph, found.asked, found.chosen, found.wish)
        if read.compare:
            packing = found.chosen.packing
            entries = tree_comparison.of(
                read.case, read.goals, read.graph, found.asked, packing, read.size_bytes, observed
            )
            tree_comparison.add(made, entries, read.case)
    else:
        made = hybrid_trees.document(read.graph, read.gpus, found)
        if read.compare:
            tree_comparison.add(made, tree_comparison.of_hybrid(read.case, read.graph, found, observed), read.case)
    made["cost"] = results.cost(read.began, [])
    return made


def run(asked: Asked, observed: Observed = UNOBSERVED) -> Document:
    """All of this for a program. Raises [`InputError`] with everything that is wrong."""
    understood = read(asked)
    return document(understood, found(understood) if understood.hybrid is None else found_hybrid(understood), observed)


def of_program(
    problems: list[Problem],
    *,
    machine: str | None,
    topology_file: AnyPath | None,
    gpus: str | Sequence[int] | None,
    collective: str,
    root: int | Literal["auto"] | None = None,
    objective: str,
    size: str | int,
    overhead: str | None,
    links: str,
    switch_latency: str | None = None,
    threshold: str | None,
    compare: bool,
    backend: str | None,
    endpoint: str | None,
    sweep: bool = False,
) -> Asked:
    """What a program asks for. Raises [`InputError`] with what is wrong with the types of its arguments, and with
    `problems`.
    """
    text = arguments.no_text(collective=collective, objective=objective, links=links)
    text += arguments.not_text(
        machine=machine,
        overhead=overhead,
        switch_latency=switch_latency,
        threshold=threshold,
        backend=backend,
        endpoint=endpoint,
    )
    file = files.text_of(text, topology_file, "topology_file")
    listed = arguments.listed(text, "gpus", gpus, arguments.GPUS)
    text += arguments.not_flags(compare=compare)
    if text or problems:
        raise InputError([*text, *problems])
    return Asked(
        machine=machine,
        topology_file=file,
        gpus=listed,
        collective=collective,
        root=None if root is None else str(root),
        objective=objective,
        size=str(arguments.sized(size)),
        overhead=overhead,
        links=links,
        switch_latency=switch_latency,
        threshold=threshold,
        compare=compare,
        backend=backend,
        endpoint=endpoint,
        sweep=sweep,
    )


def graph_of(machine: str | None, file: str | None) -> Graph:
    """The machine, or what is in the file, one of which is named. Raises [`InputError`]."""
    if (machine is None) == (file is None):
        message = "no machine is given" if machine is None else "a machine and --topology-file exclude each other"
        raise command_line("--machine", machine, message, "--machine M or --topology-file FILE")
    return machines.fabric(machine, file)


def checked(collective: str, objective: str, links: str, size: str, threshold: str | None) -> Any:
    """The values of options, and what is wrong with them."""
    problems: list[Problem] = []
    collective = collective_names.chosen("--collective", collective, problems, tuple(packing.TASKS))
    for flag, value, accepted in (
        ("--objective", objective, choice.OBJECTIVES),
        ("--links", links, (*question.LINKS, hybrid_trees.NAME)),
    ):
        if value not in accepted:
            problems += command_line(flag, value, f"this is no known {flag[2:]}", ", ".join(accepted)).problems
    bytes_, share = 0, Fraction(0)
    try:
        bytes_ = quantities.size(size)
    except quantities.QuantityError as error:
        problems += command_line("--size", size, error.message, error.accepted).problems
    try:
        share = Fraction(0) if threshold is None else quantities.share(threshold)
        if share == 1:
            raise quantities.QuantityError("nothing would be left of the rate", "a percentage below 100%")
    except quantities.QuantityError as error:
        problems += command_line("--threshold", threshold, error.message, error.accepted).problems
    if threshold is not None and objective != "trees":
        message = "only fewer trees are worth a loss of rate"
        problems += command_line("--threshold", threshold, message, "--objective trees beside it").problems
    return collective, objective, links, bytes_, float(share), problems


def root_of(root: str | None, gpus: tuple[int, ...], kind: str) -> tuple[int | Literal["auto"] | None, list[Problem]]:
    """The root's place in the list of GPUs, or `auto`, and what is wrong with it."""
    accepted = f"auto, or one of {allocation.canonical(gpus)}"
    if root is None:
        return None, []
    if TASKS.get(kind) == "from-all":  # type: ignore[call-overload]  # other words are refused elsewhere
        message = (
            f"every GPU is a root of the trees of an {kind}"
            if kind[0] in "aeiou"
            else f"every GPU is a root of a {kind}"
        )
        return None, list(command_line("--root", root, message, "no root with it").problems)
    if root == "auto":
        return "auto", []
    if not (root.isascii() and root.isdecimal()):
        return None, list(command_line("--root", root, "this is no GPU", accepted).problems)
    if int(root) not in gpus:
        return None, list(command_line("--root", root, f"GPU {int(root)} does not take part", accepted).problems)
    return gpus.index(int(root)), []


def overhead_of(text: str | None) -> tuple[float | None, list[Problem]]:
    """Seconds, if they are given, and what is wrong with them."""
    if text is None:
        return None, []
    try:
        return quantities.time(text, zero=True) / 1e12, []
    except quantities.QuantityError as error:
        return 0.0, list(command_line("--overhead", text, error.message, error.accepted).problems)
