"""`syncline.trees`: the best rate of a collective on a machine, and spanning trees that reach it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

from syncline.api import arguments, display, machines, tables
from syncline.api.arguments import ARGUMENTS
from syncline.api.documented import Documented
from syncline.api.systems import Entry
from syncline.api.tables import Table
from syncline.errors import InputError, command_line
from syncline.text_units import bandwidth, duration

if TYPE_CHECKING:
    from syncline.api.files import AnyPath
    from syncline.fabric.graph import Graph
    from syncline.results import Document

HYBRID: Final = "hybrid"
"""Links of trees over NVLinks and PCIe at the same time."""
SHOWN: Final = 20
"""Trees that a notebook shows."""


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
    threshold: str | None = None


def run(asked: Asked) -> Document:
    """The document of `trees --json`. Raises [`InputError`] with everything that is wrong."""
    from syncline import results
    from syncline.treegen import choice, packing, question
    from syncline.treegen import document as documents

    began = time.monotonic()
    graph = graph_of(asked.machine, asked.topology_file)
    gpus = machines.allocated(graph, asked.gpus)
    kind, objective, links, size, share, problems = checked(
        asked.collective, asked.objective, asked.links, asked.size, asked.threshold
    )
    if links == HYBRID:
        message = "trees over both kinds of links are found by `syncline trees` only"
        problems += command_line("--links", links, message, "nvlink, pcie, all, auto").problems
    root, wrong = root_of(asked.root, gpus, kind)
    overhead_s, of_overhead = overhead_of(asked.overhead)
    problems += [*wrong, *of_overhead]
    costly = (
        (f"--root {asked.root}", root == "auto" or (root is not None and kind == "all-reduce")),
        (f"--collective {kind}", kind in packing.IN_PARTS),
    )
    fewer = next((name for name, wanted in costly if wanted), None)
    most = question.MOST_RATED if fewer is None else question.MOST_GPUS
    problems += machines.too_many(gpus, asked.gpus, fewer, most)
    if problems:
        raise InputError(problems)
    looked_at = question.asked(graph, gpus, links)
    wish = choice.Goal(objective, size, share, choice.OVERHEAD_S if overhead_s is None else overhead_s)
    document = documents.of(graph, looked_at, choice.best(looked_at, kind, root, wish), wish)
    document["cost"] = results.cost(time.monotonic() - began, [])
    return document


def graph_of(machine: str | None, file: str | None) -> Graph:
    """The machine, or what is in the file, one of which is named. Raises [`InputError`]."""
    from syncline.api import machines
    from syncline.errors import command_line

    if (machine is None) == (file is None):
        message = "no machine is given" if machine is None else "a machine and --topology-file exclude each other"
        raise command_line("--machine", machine, message, "--machine M or --topology-file FILE")
    return machines.fabric(machine, file)


def checked(collective: str, objective: str, links: str, size: str, threshold: str | None) -> Any:
    """The values of options, and what is wrong with them."""
    from syncline import collective_names, quantities
    from syncline.errors import command_line
    from syncline.treegen import choice, packing, question

    problems: list[Any] = []
    collective = collective_names.chosen("--collective", collective, problems, tuple(packing.TASKS))
    for flag, value, accepted in (
        ("--objective", objective, choice.OBJECTIVES),
        ("--links", links, (*question.LINKS, HYBRID)),
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


def root_of(root: str | None, gpus: tuple[int, ...], kind: str) -> tuple[int | Literal["auto"] | None, list[Any]]:
    """The root's place in the list of GPUs, or `auto`, and what is wrong with it."""
    from syncline.errors import command_line
    from syncline.fabric import allocation
    from syncline.treegen.packing import TASKS

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


def overhead_of(text: str | None) -> tuple[float | None, list[Any]]:
    """Seconds, if they are given, and what is wrong with them."""
    from syncline import quantities
    from syncline.errors import command_line

    if text is None:
        return None, []
    try:
        return quantities.time(text, zero=True) / 1e12, []
    except quantities.QuantityError as error:
        return 0.0, list(command_line("--overhead", text, error.message, error.accepted).problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree(Entry):
    """A spanning tree."""

    root: int
    """The GPU that data comes from or goes to."""
    weight: float
    """The part of the rate that goes over it, in links of the machine."""
    depth: int
    """Edges from the root to the leaf that is furthest from it."""
    edges: tuple[Sequence[int], ...]
    """Pairs of GPUs, each from one to the next."""
    collective: str | None = None
    """Of an all-reduce, the part that the tree is of."""


class Trees(Documented):
    """The best rate of a collective on a machine, trees that reach it, and what proves that nothing is faster."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.trees: tuple[Tree, ...] = tuple(Tree.of(tree) for tree in document["trees"])
        """The trees; where GPUs are alike, those of some roots, whose images are those of all others."""
        self.table: Table = tables.of_entries("trees", document["trees"])
        """The same as a table, without their edges."""

    def __repr__(self) -> str:
        return f"<Trees of {self.collective} on {self.machine}: {display.counted(len(self.trees), 'tree')}>"

    def _repr_html_(self) -> str:
        rows = [{**tree, "edges": " ".join(f"{a}-{b}" for a, b in tree["edges"])} for tree in self.document["trees"]]
        about = f"{self.collective} on {self.machine}: {self.rate_links:g} of {self.optimal_rate_links:g} links"
        names = ("root", "collective", "weight", "depth", "edges")
        text = display.rows(about, rows, names, SHOWN, "trees.trees has all of them.")
        notes = [f"rate: {bandwidth(self.rate_bytes_per_s)}"]
        if self.predicted_time_s is not None:
            notes.append(f"predicted time: {duration(self.predicted_time_s)}")
        return text + display.paragraphs([*notes, *self.warnings])

    @property
    def machine(self) -> str:
        """The machine, or the file."""
        return str(self.document["machine"])

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that take part."""
        return tuple(self.document["gpus"])

    @property
    def collective(self) -> str:
        """The collective."""
        return str(self.document["collective"])

    @property
    def rate_bytes_per_s(self) -> float:
        """The rate of the whole vector over these trees."""
        return float(self.document["rate_bytes_per_s"])

    @property
    def rate_links(self) -> float:
        """The same in links of the machine."""
        return float(self.document["rate_links"])

    @property
    def optimal_rate_links(self) -> float:
        """What no schedule can exceed, in links of the machine: the certificate of the document proves it."""
        return float(self.document["optimal_rate_links"])

    @property
    def predicted_time_s(self) -> float | None:
        """What the collective is predicted to take; `None` where there are no trees."""
        found: float | None = self.document["predicted_time_s"]
        return found


def trees(
    machine: str | None = None,
    *,
    topology_file: AnyPath | None = None,
    gpus: str | Sequence[int] | None = None,
    collective: str = "broadcast",
    root: int | Literal["auto"] | None = None,
    objective: str = "time",
    size: str | int = "100MB",
    overhead: str | None = None,
    links: str = "auto",
    threshold: str | None = None,
) -> Trees:
    """Finds the best rate of a collective on a machine, and spanning trees that reach it (Blink, MLSys 2020).

    One of `machine` (`"dgx1v"`) and `topology_file` names the fabric; `gpus` take part (`"1,4-6"`, or a list).
    `collective` is broadcast, reduce, scatter, gather, all-gather, reduce-scatter or all-reduce; `root` a GPU, or
    `"auto"` for the best one. `objective` is time (fastest for `size`), trees (as few as possible, for which
    `threshold` of the rate, such as `"5%"`, may be given up) or depth. `overhead` is what each slice of the vector
    costs beside its bytes (`"5us"`). `links` are nvlink, pcie, all, or auto: nvlink within a machine, all in a cluster.

    Rates are those of the whole vector. Raises [`InputError`] with everything that is wrong.
    """
    problems = arguments.not_text(
        machine=machine,
        topology_file=topology_file,
        collective=collective,
        objective=objective,
        overhead=overhead,
        links=links,
        threshold=threshold,
    )
    if problems:
        raise InputError(problems)
    asked = Asked(
        machine=machine,
        topology_file=None if topology_file is None else str(topology_file),
        gpus=arguments.listed(gpus),
        collective=collective,
        root=None if root is None else str(root),
        objective=objective,
        size=f"{size}B" if isinstance(size, int) else str(size),
        overhead=overhead,
        links=links,
        threshold=threshold,
    )
    with arguments.spelled(ARGUMENTS):
        return Trees(run(asked))
