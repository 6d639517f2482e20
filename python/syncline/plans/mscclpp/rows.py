"""A schedule as rows: the steps of every thread one after the other, with messages, dependencies and what comes before.

The thread blocks of a schedule have one peer either way; those of MSCCL++ have several. So thread blocks that are parts
of one thread become one row, in the order in which they do their steps anyway. Steps that only wait are left out: what
they wait for is waited for by the step that follows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from syncline.plans.plan import READS_LOCALLY, WRITES_LOCALLY, Plan, Rank, Step, ThreadBlock

SENDS: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})

Span = tuple[str, int, int]
"""Chunks: buffer, first, count."""


@dataclass(eq=False, slots=True)
class Move:
    """A step that does something."""

    rank: int
    step: Step
    channel: int
    row: Row
    after: list[Move] = field(default_factory=list)
    """Steps of other rows of its rank that it waits for."""
    sender: Move | None = None
    taker: Move | None = None
    place: int = 0
    """In its row."""
    known: list[int] = field(default_factory=list)
    """How many steps of each row come before it or are it."""

    @property
    def type(self) -> str:
        """What it does."""
        return self.step["type"]

    @property
    def src(self) -> Span | None:
        """The chunks of its rank that it reads."""
        return self._span(self.step.get("src") if self.type in READS_LOCALLY else None)

    @property
    def dst(self) -> Span | None:
        """The chunks of its rank that it writes."""
        return self._span(self.step.get("dst") if self.type in WRITES_LOCALLY else None)

    def _span(self, place: object) -> Span | None:
        if not isinstance(place, dict):
            return None
        return place["buffer"], place["offset"], self.step["count"]

    def comes_before(self, other: Move) -> bool:
        """Whether the schedule says that it comes before another step."""
        return other.known[self.row.number] > self.place


@dataclass(eq=False, slots=True)
class Row:
    """The steps of a thread, in groups that are carried out as one."""

    number: int
    """Among those of all ranks."""
    rank: int
    thread: int
    """The number that a reader gives the thread."""
    moves: list[Move] = field(default_factory=list)

    def units(self) -> list[list[Move]]:
        """Steps that are parts of one, together."""
        found: list[list[Move]] = []
        for move in self.moves:
            whole = move.step.get("whole")
            if found and whole is not None and found[-1][-1].step.get("whole") == whole:
                found[-1].append(move)
            else:
                found.append([move])
        return found


@dataclass(slots=True)
class Rows:
    """All rows, and all steps in an order in which they can be done."""

    rows: list[Row]
    order: list[Move]


def rows(plan: Plan) -> Rows:
    """The rows of a schedule, which must be one that the engine has accepted."""
    made = [row for rank in sorted(plan["ranks"], key=lambda rank: rank["id"]) for row in _rows_of(rank)]
    for number, (row, _) in enumerate(made):
        row.number = number
    blocks = {(row.rank, block["id"]): (row, block) for row, members in made for block in members}
    order = list(_in_order(blocks))
    for move in order:
        _know(move, len(made))
    return Rows([row for row, _ in made], order)


def _rows_of(rank: Rank) -> Iterator[tuple[Row, list[ThreadBlock]]]:
    """Rows without steps, and their thread blocks: those that are named at the place of their name, then the others."""
    blocks = sorted(rank["thread_blocks"], key=lambda block: block["id"])
    named: dict[int, list[ThreadBlock]] = {}
    for block in blocks:
        thread = block.get("thread")
        if thread is not None:
            named.setdefault(thread, []).append(block)
    for thread in sorted(named):
        yield Row(0, rank["id"], thread), named[thread]
    for thread, block in enumerate((b for b in blocks if b.get("thread") is None), max(named, default=-1) + 1):
        yield Row(0, rank["id"], thread), [block]


def _in_order(blocks: dict[tuple[int, int], tuple[Row, ThreadBlock]]) -> Iterator[Move]:
    """Carries the schedule out on connections that hold any number of messages, and adds every step to its row."""
    done: dict[tuple[int, int], list[Move | None]] = {key: [] for key in blocks}
    """Of each thread block the steps that are done; of one that only waits, the last one before, if any."""
    mail: dict[tuple[int, int, int], list[Move]] = {}
    waits: dict[tuple[int, int], list[Move]] = {key: [] for key in blocks}
    progress = True
    while progress:
        progress = False
        for key, (row, block) in blocks.items():
            while len(done[key]) < len(block["steps"]):
                step = block["steps"][len(done[key])]
                on = step.get("depends_on")
                if on is not None and len(done[row.rank, on["thread_block"]]) <= on["step"]:
                    break
                inbox = (
                    mail.setdefault((block["recv"], row.rank, block["channel"]), [])
                    if block["recv"] is not None
                    else []
                )
                if step["type"] in RECEIVES and not inbox:
                    break
                progress = True
                if on is not None:
                    awaited = done[row.rank, on["thread_block"]][on["step"]]
                    waits[key] += [awaited] if awaited is not None else []
                if step["type"] == "nop":
                    done[key].append(done[key][-1] if done[key] else None)
                    continue
                move = Move(row.rank, step, block["channel"], row, [w for w in waits[key] if w.row is not row])
                move.place = len(row.moves)
                row.moves.append(move)
                waits[key] = []
                if step["type"] in RECEIVES:
                    move.sender = inbox.pop(0)
                    move.sender.taker = move
                if step["type"] in SENDS:
                    assert block["send"] is not None
                    mail.setdefault((row.rank, block["send"], block["channel"]), []).append(move)
                done[key].append(move)
                yield move
    assert all(len(done[key]) == len(block["steps"]) for key, (_, block) in blocks.items()), "a schedule that ends"


def _know(move: Move, rows: int) -> None:
    before = [*move.after, *([move.sender] if move.sender else [])]
    before += [move.row.moves[move.place - 1]] if move.place else []
    move.known = (
        list(map(max, *(b.known for b in before)))
        if len(before) > 1
        else list(before[0].known)
        if before
        else [0] * rows
    )
    move.known[move.row.number] = move.place + 1
