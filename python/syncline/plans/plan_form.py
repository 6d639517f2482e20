"""The form of plans in which whole algorithms are written down: version 2 of `syncline-plan`.

It is `crates/collective/src/plan_file/form.rs` once more, for people and their editors (`syncline schema plan`). No
file is read with these classes: files may be large, and the engine checks them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from syncline.base import described

WIDTH: Final = 110
"""Letters of a line up to which a part of a plan is written on one line."""
U32: Final = 2**32 - 1

Number = Annotated[int, Field(ge=0, le=U32)]
Positive = Annotated[int, Field(ge=1, le=U32)]
Change = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Slot = Annotated[list[Number], Field(min_length=2, max_length=2)]
Name = Literal[
    "allreduce", "reduce_scatter", "allgather", "alltoall", "broadcast", "reduce", "gather", "scatter"
]  # fmt: skip


class _Part(BaseModel):
    """A mapping of a plan."""

    model_config = ConfigDict(extra="forbid")


class Place(_Part):
    """The first of some blocks of a buffer."""

    buffer: Literal["i", "o", "s"]
    """`i` input, `o` output, `s` scratch."""
    block: Number
    """The block's number within the buffer."""


class Choice(_Part):
    """Another route that is as good as the fabric's."""

    choice: Annotated[int, Field(ge=0, le=65_535)]
    """Its number, from 0, the fabric's own, and modulo how many there are; 1 is the other way round a ring."""


class Over(_Part):
    """By links of a class."""

    over: str
    """The name of the class, such as `PCIe`; `syncline topology show` lists the classes of a fabric."""


class Link(_Part):
    """By one of the parallel links to the receiver."""

    link: Annotated[int, Field(ge=0, le=65_535)]
    """Its number, from 0."""


class Through(_Part):
    """Through given nodes."""

    through: list[str]
    """The names of the switches, cards and sockets that the message passes, in order; none where a link leads to the
    receiver. Of parallel links between two of them, it takes the fastest."""


class Next(_Part):
    """What changes in a step from one repetition of its loop to the next."""

    block: Change = 0
    """Is added to `block` and to the blocks of `src` and `dst`, modulo the blocks of the vector."""
    origin: Change = 0
    """Is added to `origin`, modulo the ranks."""
    peer: Change = 0
    """Is added to `from` and `to`, modulo the ranks."""
    into: Number = 0
    """Is added to the number of the step in `into`."""
    after: Number = 0
    """Is added to the number of the step in `after`."""


class Step(_Part):
    """A step: what a thread receives, does and sends at once."""

    op: Literal["s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"]
    """`s` sends, `r` receives and keeps, `rcs` receives, keeps and sends on; `rrs` receives, adds the rank's own data
    and sends the sum, `rrc` keeps it, `rrcs` does both; `cpy` copies, `re` adds within the rank; `nop` only waits."""
    block: Number = 0
    """The first block of the vector that the step works on."""
    count: Number = 1
    """How many blocks, from the last on to the first. With 0 a message has no bytes: it only says that something is
    done."""
    origin: Number = 0
    """In an all-to-all, the rank whose data the blocks are."""
    from_: Annotated[Number | None, Field(alias="from")] = None
    """The rank of the line that it receives from."""
    to: Number | None = None
    """The rank of the line that it sends to."""
    into: Slot | None = None
    """Thread and number of the step of the receiver that takes the message."""
    after: Slot | None = None
    """Thread and number of a step of the same rank that has to be done before."""
    way: Choice | Over | Link | Through | None = None
    """The way of the message, if that is not the fabric's route."""
    pace: Literal["free", "one-by-one", "spread"] | None = None
    """When a message that follows it in its thread is sent, if that is not as in all the program: `free` at once,
    `one-by-one` when this one has entered its port, `spread` when few of those before have still to."""
    src: Place | None = None
    """Where the rank's own data lie that it reads, if that is not their place in the vector."""
    dst: Place | None = None
    """Where it puts data, if that is not their place in the vector."""
    next: Next | None = None
    """What changes from one repetition to the next."""


class Loop(_Part):
    """Some steps, and how often they are repeated."""

    times: Positive = 1
    """How often."""
    steps: Annotated[list[Step], Field(min_length=1)]
    """The steps, as they are the first time. The steps of a thread are numbered from 0 over all repetitions."""


Thread = list[Loop]
Rank = list[Thread]


class Program(_Part):
    """What the lines along a dimension do in the phases of a kind."""

    collective: Name
    """What the program achieves."""
    dim: Annotated[int, Field(ge=0, le=31)] = 0
    """The dimension of the grid along which its lines are."""
    blocks: Annotated[int, Field(ge=1, le=2**24)]
    """Blocks of equal length into which the vector of a line is cut; of an all-to-all, a multiple of the ranks."""
    around: bool = False
    """Whether ranks are places of a ring: messages go from neighbour to neighbour, on the lanes of the fabric."""
    switch: bool = False
    """Whether one more rank is written, the last one: the switch of the line, which adds and copies."""
    one_by_one: bool = False
    """Whether messages of a thread that follow one another enter its port one by one."""
    spreads: bool = False
    """Whether messages in a row to different peers wait for a few others only."""
    queues: Annotated[int, Field(ge=0, le=2**16 - 1)] = 0
    """How many connections a rank has to a peer. Threads whose numbers differ by a multiple of it share one; with 0,
    each has its own."""
    rotates: bool = False
    """Whether only rank 0 is written, because every rank does the same from its own place: with the ranks and blocks at
    the same distance, modulo their numbers."""
    ranks: list[Rank]
    """The threads of every rank, each a list of loops."""
    down: list[Rank] | None = None
    """The same for chunks that go around the ring the other way; as `ranks` if left out."""


class PlanForm(_Part):
    """A plan of a collective, version 2 of syncline-plan."""

    format: Literal["syncline-plan"]
    """The format."""
    version: Literal[2]
    """Its version."""
    name: str = ""
    """What people call it."""
    collective: Name
    """What the plan achieves."""
    root: Number = 0
    """The rank of the root of a broadcast, reduce, gather or scatter."""
    grid: Annotated[list[Positive], Field(min_length=1, max_length=32)]
    """The ranks as a grid, the first dimension innermost; with one dimension, a line."""
    composition: Literal["per-dimension", "local-first", "all-scattered"] = "per-dimension"
    """How an all-reduce is composed over the dimensions: in one after the other; reduce-scatter in the first,
    all-reduce in the others, all-gather in the first; or reduce-scatter in every dimension, then all-gather in reverse
    order."""
    balanced: bool = False
    """Whether every chunk goes through the dimensions in an order of its own, which balances their load."""
    programs: list[Program]
    """What the lines along each dimension do, in the phases that the plan has."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of plans."""
    schema = described.json_schema(PlanForm)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Syncline plan"}


def dumps(form: dict[str, Any]) -> str:
    """A plan as the text of a file, in which a step has a line of its own."""
    return f"{_written(form, 0)}\n"


def _written(value: Any, depth: int) -> str:
    """A value, on one line if there is room for it."""
    short = json.dumps(value, ensure_ascii=True)
    if depth + len(short) <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_written(entry, depth + 1)}" for key, entry in value.items()]
    else:
        parts = [_written(item, depth + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{body}\n{' ' * depth}{closing}"
