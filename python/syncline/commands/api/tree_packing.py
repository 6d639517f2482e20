"""`syncline.trees`: the best rate of a collective on a machine, and spanning trees that reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from syncline.base.text_units import bandwidth, duration
from syncline.base.text_units import size as size_text
from syncline.commands.api import arguments, compared_trees, display, tables, tree_questions
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.compared_trees import Comparison
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.systems import Entry
from syncline.commands.api.tables import Table
from syncline.commands.api.tree_comparison import Observed
from syncline.core import cancelling

if TYPE_CHECKING:
    from syncline.commands.api.files import AnyPath
    from syncline.core.cancelling import Cancellation
    from syncline.results.entries import Document

SHOWN: Final = 20
"""Trees that a notebook shows."""


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
    links: str | None = None
    """Of hybrid trees, the links that it goes over: `nvlink` or `pcie`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfTrees(Entry):
    """Of hybrid trees, those over one kind of links, and their part of the vector."""

    links: str
    """`nvlink` or `pcie`."""
    size_bytes: int
    """Their part of the vector."""
    rate_bytes_per_s: float
    """Their rate."""
    rate_links: float
    """The same in links of the machine."""
    optimal_rate_links: float
    """What no trees over these links can exceed, in links of the machine."""
    predicted_time_s: float | None
    """What they are predicted to take for their part; `None` where there are none."""
    trees: tuple[Tree, ...]
    """The trees."""
    components: tuple[Sequence[int], ...]
    """Groups of GPUs that reach each other over these links."""


class Trees(Documented):
    """The best rate of a collective on a machine, trees that reach it, and what proves that nothing is faster."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.parts: tuple[PartOfTrees, ...] = tuple(_part(part) for part in document.get("parts") or ())
        """Of hybrid trees, those over NVLinks and those over PCIe; empty for others."""
        entries = _entries(document)
        self.trees: tuple[Tree, ...] = tuple(Tree.of(tree) for tree in entries)
        """The trees; where GPUs are alike, those of some roots, whose images are those of all others."""
        self.table: Table = tables.of_entries("trees", entries)
        """The same as a table, without their edges."""
        self.comparison: Comparison | None = Comparison(document) if "comparison" in document else None
        """The trees and other schedules, simulated; `None` if they were not compared."""

    def __repr__(self) -> str:
        return f"<Trees of {self.collective} on {self.machine}: {display.counted(len(self.trees), 'tree')}>"

    def _repr_html_(self) -> str:
        rows = [{**tree, "edges": " ".join(f"{a}-{b}" for a, b in tree["edges"])} for tree in _entries(self.document)]
        about = f"{self.collective} on {self.machine}: {self.rate_links:g} of {self.optimal_rate_links:g} links"
        names = ("root", "links", "collective", "weight", "depth", "edges")
        text = display.rows(about, rows, names, SHOWN, "trees.trees has all of them.")
        notes = [f"rate: {bandwidth(self.rate_bytes_per_s)}"]
        notes += [f"{part['links']}: {size_text(part['size_bytes'])}" for part in self.document.get("parts") or ()]
        if self.predicted_time_s is not None:
            notes.append(f"predicted time: {duration(self.predicted_time_s)}")
        compared = compared_trees.shown(self.document) if self.comparison is not None else ""
        return text + display.paragraphs(notes) + compared + display.paragraphs(self.warnings)

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
    def links(self) -> str:
        """The links that trees may use: nvlink, pcie, all, or hybrid."""
        return str(self.document["links"])

    @property
    def size_bytes(self) -> int:
        """The vector that trees are chosen for."""
        return int(self.document["size_bytes"])

    @property
    def rate_bytes_per_s(self) -> float:
        """The rate of the whole vector over these trees; of hybrid ones, over both kinds of links together."""
        return float(sum(part["rate_bytes_per_s"] for part in self.document.get("parts") or (self.document,)))

    @property
    def rate_links(self) -> float:
        """The same in links of the machine."""
        return self._whole("rate_links")

    @property
    def optimal_rate_links(self) -> float:
        """What no schedule can exceed, in links of the machine: the certificate of the document proves it, of hybrid
        trees those of both parts together.
        """
        return self._whole("optimal_rate_links")

    def _whole(self, name: str) -> float:
        """A rate of the document in links, or the sum of those of its parts. Where links have no one rate, parts are
        in units of their own, which are whole numbers of bytes per second.
        """
        unit: int = self.document["link_unit_bytes_per_s"]
        found = 0.0
        for part in self.document.get("parts") or (self.document,):
            own = round(part["rate_bytes_per_s"] / part["rate_links"]) if part["rate_links"] else unit
            found += part[name] * (own / unit)
        return found

    @property
    def predicted_time_s(self) -> float | None:
        """What the collective is predicted to take; `None` where there are no trees."""
        found: float | None = self.document["predicted_time_s"]
        return found

    @property
    def switch_latency_s(self) -> float | None:
        """Of hybrid trees, what switching peer access takes for each GPU; `None` for others."""
        return self.document.get("switch_latency_s")

    @property
    def switch_s(self) -> float | None:
        """The same for all GPUs, and 0 if nothing goes over PCIe; `None` for trees that are not hybrid."""
        return self.document.get("switch_s")

    @property
    def nvlink_only_time_s(self) -> float | None:
        """Of hybrid trees, what the collective is predicted to take over NVLinks alone; `None` for others, and where
        these do not connect the GPUs.
        """
        return self.document.get("nvlink_only_time_s")


def _entries(document: Document) -> list[dict[str, Any]]:
    """The trees of a document, those of hybrid ones with their links."""
    if "parts" not in document:
        return list(document["trees"])
    return [{**tree, "links": part["links"]} for part in document["parts"] for tree in part["trees"]]


def _part(part: dict[str, Any]) -> PartOfTrees:
    return PartOfTrees.of(part, trees=tuple(Tree.of({**tree, "links": part["links"]}) for tree in part["trees"]))


@arguments.plain_arguments
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
    switch_latency: str | None = None,
    threshold: str | None = None,
    compare: bool = False,
    backend: str | None = None,
    endpoint: str | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Trees:
    """Finds the best rate of a collective on a machine, and spanning trees that reach it (Blink, MLSys 2020).

    One of `machine` (`"dgx1v"`) and `topology_file` names the fabric; `gpus` take part (`"1,4-6"`, or a list).
    `collective` is broadcast, reduce, scatter, gather, all-gather, reduce-scatter or all-reduce; `root` a GPU, or
    `"auto"` for the best one. `objective` is time (fastest for `size`), trees (as few as possible, for which
    `threshold` of the rate, such as `"5%"`, may be given up) or depth. `overhead` is what each slice of the vector
    costs beside its bytes (`"5us"`). `links` are nvlink, pcie, all, or auto: nvlink within a machine, all in a cluster;
    or hybrid: trees over NVLinks and PCIe at the same time, which divide the vector by the rates of both (section 3.4
    of the paper); the result has both in `parts`. `switch_latency` (`"100us"`) is what switching peer access takes for
    each GPU before anything goes over PCIe.

    With `compare`, the trees are simulated beside rings as NCCL has them and double binary trees, as
    [`collective`] does it, on a `backend` (flow) with an `endpoint` (ideal or streams): `comparison` has a row for
    each. What a schedule is refused for, or fails with, is the reason in its row. `progress` and `cancel` are those of
    the simulations.

    Rates are those of the whole vector. Raises [`InputError`] with everything that is wrong, [`CancelledError`] when
    `cancel` is called.
    """
    token, problems = arguments.cancellation(cancel)
    asked = tree_questions.of_program(
        problems,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        collective=collective,
        root=root,
        objective=objective,
        size=size,
        overhead=overhead,
        links=links,
        switch_latency=switch_latency,
        threshold=threshold,
        compare=compare,
        backend=backend,
        endpoint=endpoint,
    )
    observed = Observed(watch_of(progress), warn_of(progress), token)
    cancelling.check(token)
    with arguments.spelled(ARGUMENTS):
        return Trees(tree_questions.run(asked, observed))
