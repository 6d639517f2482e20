"""What messages between two ranks cost with the endpoint `nccl`: NCCL's send and receive.

They are simulated with the bytes that they have. Before it sends, a rank waits for what NCCL takes more than the links:
launch, latency, and what data does not reach of the rate of a link. One message after the other waits so, as kernels
on a stream do. So a message alone takes the time of the software model, and one that shares links longer. All-to-alls
with a size for each pair, as experts have them, wait for what NCCL takes more for an all-to-all of the largest rank.

In the graph of a class the wait is a node on a stream of its own before each node that sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from syncline.nccl import derived, wire
from syncline.strategies.nodes import Node

if TYPE_CHECKING:
    from syncline.engine.places import Place, Places
    from syncline.nccl.model import Model

PS_PER_S: Final = 10**12
STREAMS: Final = ("in-order", "by-readiness", "host", "by-readiness")
"""The streams of a class, with the one on which messages are launched."""
LAUNCHES: Final = 3
SENDS: Final = frozenset({"send", "exchange"})

Groups = Callable[[int], Sequence[Sequence[int]] | None]
"""The communicators of a family, by its number."""
ModelOf = Callable[[tuple[int, ...], str], "Model"]
"""The software model of some GPUs and a kind of collectives."""


@dataclass(slots=True)
class Messages:
    """Puts what messages cost into graphs."""

    places: Places
    groups: Groups
    model: ModelOf
    _known: dict[tuple[Place, str, int], int] = field(default_factory=dict)
    _ranks: dict[int, dict[int, tuple[Sequence[int], int]]] = field(default_factory=dict)

    def priced(self, graph: dict[str, Any]) -> dict[str, Any]:
        """The graph with what its messages cost."""
        return graph | {"classes": [self._of_class(of) for of in graph["classes"]]}

    def _of_class(self, of: dict[str, Any]) -> dict[str, Any]:
        nodes: list[Node] = of["nodes"]
        waits = list(self._waits(of["npus"], nodes))
        if not any(waits):
            return of
        places, added = [], 0
        for number, wait in enumerate(waits):
            added += wait > 0
            places.append(number + added)
        found: list[Node] = []
        for node, wait in zip(nodes, waits, strict=True):
            after = tuple(places[number] for number in node.after)
            previous = tuple(places[number] for number in node.after_previous)
            if wait:
                work = {"op": "time", "time_ps": wait}
                found.append(Node(node.layer, node.pass_, LAUNCHES, after, previous, work))
                after, previous = (len(found) - 1,), ()
            found.append(node._replace(after=after, after_previous=previous))
        return of | {"streams": list(STREAMS), "nodes": found}

    def _waits(self, npus: Sequence[int], nodes: Sequence[Node]) -> Iterator[int]:
        """Picoseconds before each node, the longest of an NPU of the class."""
        known: dict[int, int] = {}
        for node in nodes:
            work = node.work
            if work["op"] not in SENDS:
                yield 0
                continue
            if id(work) not in known:
                known[id(work)] = max((self._wait(npu, work) for npu in npus), default=0)
            yield known[id(work)]

    def _wait(self, npu: int, work: Any) -> int:
        family = work["family"]
        if family not in self._ranks:
            groups = self.groups(family) or ()
            self._ranks[family] = {one: (group, rank) for group in groups for rank, one in enumerate(group)}
        if npu not in self._ranks[family]:
            return 0
        group, rank = self._ranks[family][npu]
        if work["op"] == "send":
            members = (npu, group[(rank + work["peer"]) % len(group)])
            return self._more(members, "sendrecv", work["bytes"]) if members[0] != members[1] else 0
        most = max(sum(row) - row[place] for place, row in enumerate(work["bytes"]))
        return self._more(tuple(group), "all-to-all", most * len(group) // max(1, len(group) - 1)) if most else 0

    def _more(self, members: tuple[int, ...], kind: str, size: int) -> int:
        """Picoseconds that NCCL takes more than the links."""
        key = (self.places.of(members), kind, size)
        if key not in self._known:
            model = self.model(members, kind)
            seconds = model.time(size) - self._links(model, kind, size) if size else 0.0
            self._known[key] = max(0, round(seconds * PS_PER_S))
        return self._known[key]

    def _links(self, model: Model, kind: str, size: int) -> float:
        """Seconds that the links take."""
        where = model.platform
        if not where.switched:
            return model.candidates(size)[0].wire
        if kind == "sendrecv":
            on_links = wire.sendrecv(where.nodes, where.nic_groups, size)
            return on_links.seconds(where.nvlink_rate, where.node_nic_rate)
        return derived.wires(where, kind, wire.DIRECT, size)
