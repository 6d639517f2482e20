"""What importers make of a trace: the work of an NPU, in one vocabulary for all formats.

NPUs are numbered as in the trace. What a node names (communicators, peers, other nodes) is as the trace says it;
`assemble` turns it into families, relative ranks and classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from syncline.base.errors import Problem, shown

WORLD: Final = "all"
"""The communicator of all NPUs."""
MAIN, CPU, MEMORY, NOTHING = range(4)
"""Streams of traces whose format knows kinds of work rather than streams: what the accelerator computes, what its host
does, loads and stores, and nodes that do nothing."""


@dataclass(frozen=True, slots=True)
class Time:
    """Computes for so many picoseconds."""

    ps: int


@dataclass(frozen=True, slots=True)
class Compute:
    """Computes as long as the NPU takes for so many operations, and bytes of main memory."""

    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Collective:
    """Takes part in a collective of a communicator; bytes are those of the full vector."""

    group: str
    kind: str
    size: int
    root: int = 0


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for all ranks of a communicator."""

    group: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """An all-to-all with a size for each pair of ranks, by sender."""

    group: str
    sizes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """Sends to an NPU, or receives from it."""

    sends: bool
    peer: int
    size: int
    tag: int


@dataclass(frozen=True, slots=True)
class Relative:
    """The same with a peer so many ranks on in a communicator of a family that is known by name."""

    sends: bool
    family: str
    peer: int
    size: int
    tag: int


Work: TypeAlias = "Time | Compute | Collective | Barrier | Exchange | Message | Relative"


@dataclass(slots=True)
class Item:
    """A node of a trace."""

    number: int
    """What other nodes call it."""
    name: str
    work: Work
    after: Sequence[int]
    """The nodes that have to be done before."""
    stream: int = MAIN
    place: str = ""
    """Where it stands in its file: `byte 42`, or `event 7`."""
    layer: str | None = None
    pass_: str = "forward"
    after_previous: Sequence[int] = ()
    recorded: tuple[int, int] | None = None
    """When it began and ended, in picoseconds, as recorded; where the trace says so."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"node {self.number} ({shown(self.name)})" if self.name else f"node {self.number}"


@dataclass(frozen=True, slots=True)
class Record:
    """The recorded time of an NPU, in picoseconds."""

    time: int
    """From the first to the last of the events that are taken."""
    communication: int
    """In which some communication is under way."""
    exposed: int
    """In which some communication is under way and nothing computes."""
    steps: int | None = None
    """Iterations that this time is of, where the trace tells them apart."""


@dataclass(slots=True)
class Trace:
    """The work of an NPU."""

    npu: int
    file: str
    """The file that it is from."""
    items: list[Item]
    """In any order; `assemble` sorts them."""
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The NPUs of communicators that the trace names, by rank."""
    streams: Sequence[str] = ()
    """The order of each stream; by readiness where nothing is said."""
    in_file_order: bool = False
    """Whether nodes of a stream are in the order of the file, whatever their numbers; dependencies then point back."""
    title: str = ""
    """The class of the NPU, where the trace names one; NPUs of other titles are of other classes."""
    record: Record | None = None
    """The recorded time, where the trace says when its nodes began and ended."""

    def problem(self, item: Item, message: str, accepted: str | None = None) -> Problem:
        """Something that is wrong with a node."""
        return Problem(self.file, None, item.place, None, f"{item.title}: {message}", accepted)


def unique_names(items: Sequence[Item]) -> Iterator[str]:
    """Names that are unique within a class, none of them empty or too long."""
    taken: set[str] = set()
    for item in items:
        base = item.name[:180] or f"node {item.number}"
        name = base
        if name in taken:
            name = f"{base} #{item.number}"
        while name in taken:
            name += "'"
        taken.add(name)
        yield name
