"""Traffic beside that of the run: flows that are given, that arrive at random, or that a connection matrix lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

from syncline.base import quantities
from syncline.base.section import Section
from syncline.fabric.fields import Accepted, Size, Time, TimeOrZero, Unread, refused, said_elsewhere
from syncline.sections.connection_matrix import Matrix
from syncline.sections.networks import sizes as distributions
from syncline.sections.networks.faults import NPU_ACCEPTED, number
from syncline.sections.networks.sizes import Sizes

if TYPE_CHECKING:
    import pyarrow as pa

MILLION: Final = 1_000_000
ALL: Final = "all"
NPUS_ACCEPTED: Final = f"all, {NPU_ACCEPTED}, or a list of such"
LOAD_ACCEPTED: Final = "a percentage from 0% to 100%, such as 30%"
SIZES_ACCEPTED: Final = distributions.ACCEPTED
MATRIX_ACCEPTED: Final = "the path of a connection matrix of htsim, relative to the experiment file"


def _npus(value: object) -> list[int] | None:
    if value == ALL or value is None:
        return None
    named = value if isinstance(value, list) else [value]
    found = []
    for name in named:
        # Numbers are what this has been read to before.
        text = f"npu {name}" if isinstance(name, int) and not isinstance(name, bool) else name
        if not isinstance(text, str) or not text.startswith("npu ") or not text[4:].isascii():
            raise refused("this names no NPU", NPUS_ACCEPTED)
        if not text[4:].isdecimal() or len(text) > 13 or (text[4] == "0" and len(text) > 5):
            raise refused("this names no NPU", NPUS_ACCEPTED)
        found.append(number(text, 0))
    if not found or len(found) > 2**20:
        raise refused("this names no NPU", NPUS_ACCEPTED)
    return found


def _npus_text(value: list[int] | None) -> str | list[str]:
    if value is None:
        return ALL
    return f"npu {value[0]}" if len(value) == 1 else [f"npu {npu}" for npu in value]


Npus = Annotated[
    list[int] | None,
    BeforeValidator(_npus),
    PlainSerializer(_npus_text),
    Accepted(NPUS_ACCEPTED, also={"type": "array", "items": {"type": "string"}}),
]


def _load(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    try:
        return Fraction(0) if isinstance(value, str) and value.strip() == "0%" else quantities.share(value)
    except quantities.QuantityError as error:
        raise refused(error.message, LOAD_ACCEPTED) from None


Load = Annotated[
    Fraction,
    BeforeValidator(_load),
    PlainSerializer(quantities.format_share, return_type=str),
    Accepted(LOAD_ACCEPTED),
]


def _sizes(value: object) -> Sizes:
    if isinstance(value, Unread):
        raise said_elsewhere()
    found = value if isinstance(value, Sizes) else distributions.named(value) if isinstance(value, str) else None
    if found is None:
        raise refused("this names no distribution of sizes", SIZES_ACCEPTED)
    return found


def _matrix(value: object) -> Matrix:
    if isinstance(value, Unread):
        raise said_elsewhere()
    if not isinstance(value, Matrix):
        raise refused("this names no file", MATRIX_ACCEPTED)
    return value


_PATH: Final = WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 4096}, {"type": "null"}]})


class Traffic(Section):
    """Flows beside the run: given ones (`from`, `to`, `size`), random ones (`load`), or those of a file (`matrix`)."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: Annotated[Npus, Field(alias="from")] = None
    """The NPU that sends; of random flows, those that send."""
    to: Npus = None
    """The NPU that receives; of random flows, those among which the receiver is drawn."""
    size: Size | None = None
    """Payload of each flow."""
    start: TimeOrZero = 0
    """When the first of given flows begins."""
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How many given flows there are, one after the other."""
    every: Time | None = None
    """The time from the beginning of one to that of the next."""
    load: Load | None = None
    """Flows arrive at random, as a Poisson process at each sender; their payload takes this share of the rate of its
    link on average."""
    sizes: Annotated[
        Any,
        PlainValidator(_sizes),
        PlainSerializer(lambda of: None if of is None else of.name),
        Accepted(SIZES_ACCEPTED),
        _PATH,
    ] = None
    """How large random flows are, in place of one size: a distribution by name, or a file with its points."""
    matrix: Annotated[
        Any,
        PlainValidator(_matrix),
        PlainSerializer(lambda of: None if of is None else of.file),
        Accepted(MATRIX_ACCEPTED),
        _PATH,
    ] = None
    """A connection matrix of htsim, whose flows are given. It has no triggers."""

    def wrong(self) -> Iterator[tuple[str, str, str]]:
        """What is wrong with its fields taken together: a field, why, and what is accepted."""
        given = {"size": self.size, "start": self.start, "every": self.every, "repeat": self.repeat - 1}
        written = [name for name, value in given.items() if value]
        if self.matrix is not None:
            ends = {"from": self.from_, "to": self.to, "load": self.load, "sizes": self.sizes}
            others = [*(name for name, value in ends.items() if value is not None), *written]
            if others:
                yield others[0], "the file says all of its flows", "matrix alone"
            triggered = next((flow for flow in self.matrix.flows if flow.trigger is not None), None)
            if triggered is not None:
                message = (
                    f"line {triggered.line} of it begins by a trigger, which needs a run: nobody waits for these flows"
                )
                yield "matrix", message, "flows with a start; or workload.graph, which has triggers"
        elif self.load is not None:
            for name in written:
                if name != "size":
                    yield name, "random flows begin at random times", "load without it"
            if (self.size is None) == (self.sizes is None):
                yield "size", "random flows need a size, or a distribution of sizes", "size or sizes, and not both"
            if (
                self.from_ is not None
                and self.to is not None
                and set(self.from_) == set(self.to)
                and len(set(self.to)) < 2
            ):
                yield "to", "there is nobody to send to", "another NPU"
        else:
            yield from self._wrong_given()

    def _wrong_given(self) -> Iterator[tuple[str, str, str]]:
        for name, npus in (("from", self.from_), ("to", self.to)):
            if npus is None or len(npus) != 1:
                yield name, "a given flow has one sender and one receiver", "an NPU; or load, for random flows"
        if self.from_ is not None and self.from_ == self.to:
            yield "to", "an NPU would send to itself", "another NPU"
        if self.sizes is not None:
            yield "sizes", "given flows have one size", "size; or load, for random flows"
        elif self.size is None:
            yield "size", "a given flow needs a size", "a size; or load, for random flows"
        if self.repeat > 1 and self.every is None:
            yield "every", "flows that repeat need a time between them", quantities.TIME.accepted
        if self.repeat == 1 and self.every is not None:
            yield "every", "one flow has no next one", "repeat of 2 or more"

    def specification(self) -> list[dict[str, Any]]:
        """The engine's description."""
        if self.matrix is not None:
            return [_given((flow.src, flow.dst), flow.size, flow.start or 0) for flow in self.matrix.flows]
        if self.load is not None:
            points = self.sizes.points if self.sizes is not None else ((self.size, MILLION),)
            load = int(self.load * MILLION)
            ends = {"from": self.from_, "to": self.to}
            return [{"arrivals": "poisson", **ends, "load_millionths": load, "sizes": points}]
        if self.from_ is None or self.to is None or self.size is None:
            return []
        return [_given((self.from_[0], self.to[0]), self.size, self.start, self.repeat, self.every or 0)]


def _given(ends: tuple[int, int], size: int, start: int, count: int = 1, every: int = 0) -> dict[str, Any]:
    times = {"start_ps": start, "count": count, "every_ps": every}
    return {"arrivals": "given", "from": ends[0], "to": ends[1], "size_bytes": size, **times}


def specification(traffic: Sequence[Traffic]) -> list[dict[str, Any]]:
    """All of it in the engine's description."""
    return [source for each in traffic for source in each.specification()]


def named_npus(traffic: Sequence[Traffic]) -> Iterator[tuple[tuple[str, ...], int]]:
    """NPUs that it names outside files: the path of the field, and the number."""
    for i, each in enumerate(traffic):
        for name, npus in (("from", each.from_), ("to", each.to)):
            for npu in npus or ():
                yield (str(i), name), npu


def notes_of(tables: Mapping[str, pa.Table]) -> list[str]:
    """What a reader has to know of the traffic beside a run that is over."""
    if "transport" not in tables:
        return []
    (row,) = tables["transport"].select(["background_left_out", "background_failed"]).to_pylist()
    notes = []
    if row["background_left_out"]:
        notes.append(
            f"{row['background_left_out']:,} flows beside the run did not begin: a run has 2^20 of them at most"
        )
    if row["background_failed"]:
        notes.append(f"{row['background_failed']:,} flows beside the run were given up by their transport")
    return notes
