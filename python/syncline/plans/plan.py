"""The form of a schedule: the JSON of `crates/collective/src/schedule/form.rs`, version 1 of the files of plans.

What is typed here is a schedule that this package has made. What comes from a file is text that the engine checks.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, NotRequired, TypedDict

FORMAT: Final = "syncline-plan"
VERSION: Final = 1
"""Of schedules."""
PLAN_VERSION: Final = 2
"""Of plans in which whole algorithms are written down (`plan_form`)."""

COLLECTIVES: Final = (
    *("allreduce", "allgather", "reduce_scatter", "alltoall"),
    *("broadcast", "reduce", "gather", "scatter", "custom"),
)
KINDS: Final = {
    "allreduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    **{name: name for name in ("broadcast", "reduce", "gather", "scatter")},
}
"""Collectives of files by what experiments call them; a `custom` one is nothing that an experiment could ask for."""
PROTOCOLS: Final = ("Simple", "LL", "LL128")
BUFFERS: Final = ("i", "o", "s")

READS_LOCALLY: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re", "ra"})
"""Types of steps that have a source on their own rank."""
WRITES_LOCALLY: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re", "ra"})
"""Types of steps that have a destination on their own rank."""
STEP_TYPES: Final = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "ra", "nop")

Buffer = Literal["i", "o", "s"]


class Place(TypedDict):
    """The first of some chunks of a rank's input, output or scratch buffer."""

    buffer: Buffer
    offset: int


class Dependency(TypedDict):
    """A step of another thread block of the same rank."""

    thread_block: int
    step: int


class Pacing(TypedDict):
    """How messages of a thread that follow one another go to the network."""

    one_by_one: bool
    spreads: bool
    queues: int


PACING: Final[tuple[Literal["one_by_one"], Literal["spreads"]]] = ("one_by_one", "spreads")
PACES: Final = ("free", "one-by-one", "spread")

Way = dict[str, int | str | list[str]]
"""One of `{"choice": 1}`, `{"over": "PCIe"}`, `{"link": 0}` and `{"through": ["NIC 0", "leaf 0"]}`."""


class Step(TypedDict):
    """One step of a thread block."""

    id: int
    type: str
    src: NotRequired[Place | None]
    dst: NotRequired[Place | None]
    count: int
    depends_on: NotRequired[Dependency | None]
    way: NotRequired[Way | None]
    pace: NotRequired[str | None]
    whole: NotRequired[int | None]
    has_dependents: NotRequired[bool]


class ThreadBlock(TypedDict):
    """Steps in order, with one peer to send to and one to receive from at most."""

    id: int
    send: int | None
    recv: int | None
    thread: NotRequired[int | None]
    channel: int
    steps: list[Step]


class Rank(TypedDict):
    """What one rank does."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    thread_blocks: list[ThreadBlock]


class Plan(TypedDict):
    """A schedule."""

    format: str
    version: int
    name: str
    collective: str
    in_place: bool
    root: NotRequired[int | None]
    protocol: str
    min_bytes: NotRequired[int | None]
    max_bytes: NotRequired[int | None]
    threads: NotRequired[int | None]
    channels: NotRequired[int | None]
    chunks_per_loop: NotRequired[int | None]
    pacing: NotRequired[Pacing | None]
    ranks: list[Rank]


def dumps(plan: Plan) -> str:
    """A plan as the text of a plan file."""
    return json.dumps(plan, indent=1, ensure_ascii=True) + "\n"


def phases_of(form: dict[str, Any]) -> list[tuple[str, int]]:
    """The phases of a legal plan of version 2: what each achieves, and along which dimension."""
    kind, composition = form["collective"], form.get("composition", "per-dimension")
    dims = [dim for dim, size in enumerate(form["grid"]) if size > 1]
    scattered, across = dims, list[int]()
    if kind == "allreduce":
        if composition == "per-dimension":
            return [(kind, dim) for dim in dims]
        if composition == "local-first":
            scattered, across = dims[:1], dims[1:]
        there = [("reduce_scatter", dim) for dim in scattered]
        back = [("allgather", dim) for dim in reversed(scattered)]
        return [*there, *((kind, dim) for dim in across), *back]
    outermost_first = kind in ("broadcast", "scatter", "allgather")
    return [(kind, dim) for dim in (reversed(dims) if outermost_first else dims)]


def step(
    number: int,
    kind: str,
    *,
    src: tuple[Buffer, int] | None = None,
    dst: tuple[Buffer, int] | None = None,
    count: int = 1,
) -> Step:
    """A step that waits for nothing."""
    made = Step(id=number, type=kind, count=count)
    if src is not None:
        made["src"] = Place(buffer=src[0], offset=src[1])
    if dst is not None:
        made["dst"] = Place(buffer=dst[0], offset=dst[1])
    return made
