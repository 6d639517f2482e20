"""The graph of a class in the making: nodes in the engine's form, by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from syncline.strategies.costs import Costs, Kernels

FORWARD: Final = "forward"
INPUT_GRAD: Final = "input-grad"
WEIGHT_GRAD: Final = "weight-grad"
UPDATE: Final = "update"
MAIN: Final = 0
SERVER: Final = 1
"""The stream of a parameter server, which takes what is ready."""
HOST: Final = 2
"""The stream of the host that issues what the NPU does, in order."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message between two ranks."""

    family: str
    peer: int
    """The other rank: so many on, around the communicator."""
    tag: int
    """What messages between the two are told apart by."""
    size: int
    """Bytes."""


class Node(NamedTuple):
    """A node as the engine takes it: in JSON a list of these (`GraphNodeSpec` in `crates/system/src/spec/graph.rs`). A
    large model on thousands of NPUs has millions, so nodes share what they have in common.
    """

    layer: str
    pass_: str
    stream: int
    after: tuple[int, ...]
    """Nodes of the iteration that must be done before."""
    after_previous: tuple[int, ...]
    """Nodes of the iteration before that must be done before."""
    work: Mapping[str, Any]


@dataclass(slots=True)
class Nodes:
    """Nodes of an iteration. The main stream computes in their order; what communicates names what it waits for."""

    families: Mapping[str, int]
    """The numbers of families. Those that are missing have one rank each: they have nothing to say."""
    costs: Costs
    host_kernel_time: int = 0
    """Picoseconds that the host takes to launch a kernel, a collective or a message; 0 for no host."""
    layer: str = ""
    """The layer to which nodes are accounted."""
    nodes: list[Node] = field(default_factory=list)
    last: int | None = None
    """The last node of the main stream."""
    pending: list[int] = field(default_factory=list)
    """Communication that the next node of the main stream waits for."""
    _gathered: dict[str, int] = field(default_factory=dict)
    """By family, the last gather of weights."""
    _issuing: int = 0
    """Kernels of the node before that the host has not issued yet when that node begins."""
    _awaited: list[int] = field(default_factory=list)
    """What the host waits for before it issues more."""
    _works: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    """What nodes do, each once."""

    def compute(self, pass_: str, kernels: Kernels, after: Iterable[int] = ()) -> int | None:
        """Computes on the main stream, once `pending` is done; does nothing if there are no kernels."""
        return self._main(pass_, {"op": "kernels", "cost": self.costs.row(kernels)}, after) if kernels else self.last

    def meet(self, pass_: str) -> int:
        """A node of the main stream that does nothing but wait for `pending`."""
        return self._main(pass_, {"op": "time", "time_ps": 0})

    def _main(self, pass_: str, work: dict[str, Any], after: Iterable[int] = ()) -> int:
        number = self._add(pass_, work, [*after, *self.pending])
        self.pending = []
        self.last = number
        return number

    def beside(self, pass_: str, kernels: Kernels, after: Iterable[int | None]) -> int:
        """Computes on the stream of the parameter server."""
        work = {"op": "kernels", "cost": self.costs.row(kernels)}
        return self._add(pass_, work, after, SERVER)

    def ready(self) -> list[int]:
        """What has to be done for all that has been said so far to be."""
        return [*([] if self.last is None else [self.last]), *self.pending]

    def collective(self, pass_: str, family: str, kind: str, size: int, after: Iterable[int | None]) -> int | None:
        """A collective of so many bytes, unless there is nobody or nothing to say."""
        if family not in self.families or size == 0:
            return None
        work = {"op": "collective", "family": self.families[family], "kind": kind, "bytes": size, "root": 0}
        return self._add(pass_, work, after)

    def gather(self, pass_: str, family: str, size: int, after: Iterable[int | None]) -> list[int]:
        """An all-gather of weights, unless there is nobody or nothing to say.

        It follows the gather before it in its family, as on a stream: layers need their weights in the order in which
        these are gathered, while collectives that are issued together go in whatever order their scheduling has.
        """
        number = self.collective(pass_, family, "all-gather", size, [*after, self._gathered.get(family)])
        if number is None:
            return []
        self._gathered[family] = number
        return [number]

    def exchange(self, pass_: str, family: str, sizes: list[list[int]], after: Iterable[int | None]) -> int | None:
        """An all-to-all of so many bytes from rank to rank."""
        if family not in self.families:
            return None
        return self._add(pass_, {"op": "exchange", "family": self.families[family], "bytes": sizes}, after)

    def message(self, pass_: str, op: str, message: Message, after: Iterable[int | None] = ()) -> int:
        """A `send` or `recv` of a message."""
        family = self.families[message.family]
        work = {"op": op, "family": family, "peer": message.peer, "tag": message.tag, "bytes": message.size}
        return self._add(pass_, work, after)

    def wait(self, *numbers: int | None) -> None:
        """Has the next node of the main stream wait for these."""
        self.pending += [number for number in numbers if number is not None and number not in self.pending]

    def host_waits(self, number: int) -> None:
        """Has the host wait for a node before it issues more."""
        self._awaited = [number]

    def _issue(self, pass_: str, kernels: int) -> int:
        """The host's part of a node: a node may begin when its first kernel has been issued, and what follows it when
        the others have.
        """
        time = (self._issuing + 1) * self.host_kernel_time
        self._issuing = kernels - 1
        number = self._append(pass_, {"op": "time", "time_ps": time}, self._awaited, HOST)
        self._awaited = []
        return number

    def _add(self, pass_: str, work: dict[str, Any], after: Iterable[int | None], stream: int = MAIN) -> int:
        if self.host_kernel_time and work["op"] != "time":
            kernels = len(self.costs.rows[work["cost"]]) if work["op"] == "kernels" else 1
            after = [*after, self._issue(pass_, kernels)]
        return self._append(pass_, work, after, stream)

    def _append(self, pass_: str, work: dict[str, Any], after: Iterable[int | None], stream: int) -> int:
        named = sorted({number for number in after if number is not None})
        if work["op"] != "exchange":
            work = self._works.setdefault(tuple(work.values()), work)
        self.nodes.append(Node(self.layer, pass_, stream, tuple(named), (), work))
        return len(self.nodes) - 1

    def is_main(self, number: int) -> bool:
        """Whether a node computes on the main stream."""
        node = self.nodes[number]
        return node.stream == MAIN and node.work["op"] in ("kernels", "time")

    def after_previous(self, number: int, before: Iterable[int | None]) -> None:
        """Has a node wait for nodes of the iteration before."""
        known = list(self.nodes[number].after_previous)
        known += [one for one in before if one is not None and one not in known]
        self.nodes[number] = self.nodes[number]._replace(after_previous=tuple(known))
