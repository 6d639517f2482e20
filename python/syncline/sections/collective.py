"""How collectives are carried out: the section `collective` of an experiment, of a job and of a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from syncline.base import collective_names
from syncline.base.section import Section, Violation
from syncline.fabric.fields import Accepted, Count, Size, Unread, refused, said_elsewhere
from syncline.plans.planned import PlanFile
from syncline.sections import algorithms
from syncline.sections.algorithms import Algorithm
from syncline.sections.packed import MIAD, MOST_SLICES, Trees

DEFAULT_CHUNK: Final = 64 * 1024
"""Bytes of a chunk, unless the fabric needs more."""
DEFAULT_IN_FLIGHT: Final = 16
"""Chunks in flight, unless the fabric needs more."""


class _AnySpelling:
    """In the JSON Schema: the names, which editors complete, and their other spellings."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": _pattern()}]}


def _pattern() -> str:
    def letter(character: str) -> str:
        return "[-_ ]?" if character == "-" else f"[{character.upper()}{character}]"

    return f"^({'|'.join(''.join(map(letter, name)) for name in collective_names.NAMES)})$"


def _of_value(value: Any) -> Any:
    return collective_names.settled(value) if isinstance(value, str) else value


def _each_once(value: Any) -> Any:
    """A mapping whose keys are collectives, none of them under two names."""
    seen: dict[str, str] = {}
    for key in value if isinstance(value, dict) else ():
        if isinstance(key, str) and (other := seen.setdefault(collective_names.settled(key), key)) != key:
            raise refused(f"{other} and {key} are the same collective", "each collective once")
    return value


Kind = Annotated[collective_names.Name, BeforeValidator(_of_value), _AnySpelling()]
"""A field that names a collective."""
EACH_ONCE: Final = BeforeValidator(_each_once)
"""On a mapping from collectives: the same one under two names is refused."""


SLICES_ACCEPTED: Final = "auto, miad, or a whole number from 1 to 1048576"


def _slices(value: object) -> int | str | None:
    if value is None or value == "auto":
        return None
    if value == MIAD:
        return MIAD
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SLICES:
        raise refused("this is not a number of slices", SLICES_ACCEPTED)
    return value


Slices = Annotated[
    int | Literal["miad"] | None,
    BeforeValidator(_slices),
    PlainSerializer(lambda value: "auto" if value is None else value, return_type=str | int),
    WithJsonSchema({"anyOf": [{"enum": ["auto", MIAD]}, {"type": "integer", "minimum": 1, "maximum": MOST_SLICES}]}),
]


PLANS_ACCEPTED: Final = "the path of a file with a plan, relative to the experiment file, or a list of such paths"


def _plans(value: object) -> tuple[PlanFile, ...]:
    if value is None or value == []:
        return ()
    if isinstance(value, Unread):
        raise said_elsewhere()
    if isinstance(value, tuple) and all(isinstance(plan, PlanFile) for plan in value):
        return value
    raise refused("this names no files", PLANS_ACCEPTED)


def _plans_text(plans: tuple[PlanFile, ...]) -> str | list[str] | None:
    named = [plan.file for plan in plans]
    return named[0] if len(named) == 1 else named or None


_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 4096}
Plans = Annotated[
    tuple[PlanFile, ...],
    PlainValidator(_plans),
    PlainSerializer(_plans_text),
    Accepted(PLANS_ACCEPTED),
    WithJsonSchema({"anyOf": [_PATH, {"type": "array", "items": _PATH}, {"type": "null"}]}),
]

EXCHANGE: Final = "all-to-all"
COMPOSED_BY: Final = frozenset({"algorithm", "per_dimension"})
"""Settings that say of all kinds of collectives how they are composed."""


class Collective(Section):
    """How collectives are carried out."""

    algorithm: Algorithm = Field(default="six-phase", description=algorithms.DESCRIPTION)
    algorithms: Annotated[dict[Kind, Algorithm], EACH_ONCE] = Field(default={})
    """Algorithms for single kinds of collectives, such as `{all-to-all: direct}`; `{all-to-all: auto}` takes the
    fastest one for that kind. Where neither this nor `algorithm` or `per_dimension` says how all-to-alls are carried
    out, they are `direct` on machines, networks and topology files whose NPUs are joined by switches alone."""
    plan: Plans = ()
    """Files with plans, which take the place of algorithms: each for the kind of collectives that it implements. A file
    is MSCCL XML or JSON of `syncline-plan`, and is verified when it is read."""
    loops: Annotated[int, Field(ge=1, le=65_536)] = 1
    """How often each thread block of a schedule does its steps for a chunk, each time for a part of it, as in MSCCL's
    runtime: one that is done begins its next loop, whatever the others do."""
    per_dimension: (
        Annotated[
            list[Literal["ring", "direct", "halving-doubling", "double-binary-tree", "one-hop-trees", "in-switch"]],
            Field(min_length=1, max_length=32),
        ]
        | None
    ) = None
    """The algorithm of a composition along each dimension; by default the one that suits the dimension."""
    trees: Trees = Trees()
    """Which trees `packed-trees` packs."""
    slices: Slices = None
    """Blocks over which trees and chains pipeline a chunk; `auto`: as many as are fastest according to trials with a
    few of them, and no more than needed. `miad`: of packed trees, as many as are found over iterations that come before
    the run, as Blink finds them: the size of a slice is doubled while that is faster, and then made smaller again."""
    slice: Size | None = None
    """The most bytes of a slice of packed trees, instead of `slices`: every chunk has as many as it needs."""
    padding: Literal["equal", "none"] = "equal"
    """`equal` pads every chunk so that all its blocks are equally long, as libraries do; `none` sends no extra
    bytes."""
    scheduling: Literal["fifo", "lifo"] = "lifo"
    """From which issued collective the next chunk is taken: the earliest (`fifo`) or the latest (`lifo`). All ranks
    take chunks in one order, and the first that has room for another chunk chooses it, from what it has issued itself.
    With `lifo`, NPUs that are ahead may so choose what a slower one has not issued, and all wait until it has."""
    priority: Annotated[list[Kind], Field(max_length=8)] = Field(default=[])
    """Kinds of collectives that go before all others, the most urgent first; chunks in flight are not pre-empted."""
    chunk: Size | None = None
    """Size of a chunk: a collective has as many chunks as it needs, whose lengths differ by one block at most. Where
    neither `chunk` nor `chunks` is given, what is fastest when it is tried out with the run's own endpoint; with ACE
    64KiB, and larger where blocks would be smaller than a packet; with trees the whole, which they cut into slices."""
    chunks: Count | None = None
    """Number of chunks of each collective, instead of `chunk`; fewer where they would be smaller than `least_chunk`."""
    chunks_of: Annotated[dict[Kind, Count], EACH_ONCE] = Field(default={})
    """Numbers of chunks of single kinds of collectives, such as `{all-to-all: 16}`."""
    least_chunk: Size = 4 * 1024
    """The least size of a chunk where `chunks` or `chunks_of` states a number: small collectives have fewer chunks.
    With 1B, they are cut into the stated number of chunks, however small those are."""
    inflight: Annotated[int, Field(ge=1, le=65_536)] = DEFAULT_IN_FLIGHT
    """The most chunks that an NPU has in flight. Where neither this nor a size or number of chunks is given, what is
    fastest when it is tried out. An ACE has limits of its own instead."""
    inflight_per_dimension: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """The most chunks that an NPU has in any phase along a dimension, those of all its communicators together; not
    limited if it is left out. With 1, chunks go through each phase one after the other, in the order in which they
    began; an ACE has limits of its own instead."""
    lanes: Literal["alternate", "split", "one"] = "alternate"
    """How chunks use the directions and parallel links of a ring: in turn, each split over all, or only the first."""
    _has_direct_exchanges: bool = PrivateAttr(default=False)

    def completed(self, usual: Mapping[str, Any]) -> Collective:
        """With the defaults of an endpoint where nothing was stated; it is still known what was."""
        stated = self.model_fields_set
        missing = {name: value for name, value in usual.items() if name not in stated}
        if "chunk" in stated:
            missing.pop("chunks", None)
        if "per_dimension" in stated:
            missing.pop("algorithm", None)
        found = self.model_copy(update=missing)
        object.__setattr__(found, "__pydantic_fields_set__", set(stated))
        return found

    def with_direct_exchanges(self) -> Collective:
        """With direct all-to-alls, unless something is stated by which they have another algorithm; it is still known
        what was stated.
        """
        return self if self.model_fields_set & COMPOSED_BY else self._with_direct_exchanges()

    def _with_direct_exchanges(self) -> Collective:
        if any(kind == EXCHANGE for kind in self.algorithms):
            return self
        found = self.model_copy(update={"algorithms": {**self.algorithms, EXCHANGE: "direct"}})
        object.__setattr__(found, "__pydantic_fields_set__", set(self.model_fields_set))
        found._has_direct_exchanges = True
        return found

    @property
    def has_direct_exchanges(self) -> bool:
        """Whether all-to-alls are direct because nothing was stated of them."""
        return self._has_direct_exchanges

    def changed(self, values: Mapping[str, Any]) -> Collective:
        """With other values: all-to-alls that are direct by default remain so unless these compose them."""
        if not self._has_direct_exchanges:
            return self.model_copy(update=dict(values))
        stated = values.get("algorithms", {kind: name for kind, name in self.algorithms.items() if kind != EXCHANGE})
        found = self.model_copy(update={**values, "algorithms": stated})
        found._has_direct_exchanges = False
        return found if COMPOSED_BY & values.keys() else found._with_direct_exchanges()

    def with_algorithm(self, name: str) -> Collective:
        """With an algorithm for all kinds, if it has another one."""
        return self if name == self.algorithm else self.changed({"algorithm": name})

    def algorithm_of(self, kind: str) -> str:
        """The algorithm of a kind of collectives that has no plan."""
        return next((own for of, own in self.algorithms.items() if of == kind), self.algorithm)


def of_slices(own: Collective, path: tuple[str, ...]) -> Iterator[Violation]:
    """What is wrong with the slices of collectives that a job or a family has of its own."""
    if own.slices == MIAD:
        message = "slices are found from iteration to iteration for a whole run, and not for a part of it"
        yield Violation((*path, "collective", "slices"), message, "auto, a number, or slice in place of it")
    yield from sliced_once(own, (*path, "collective"))


def sliced_once(collective: Collective, path: tuple[str, ...]) -> Iterator[Violation]:
    """Refuses both a number of slices and a size."""
    if collective.slice is not None and collective.slices is not None:
        message = "slices and slice exclude each other: one is their number, the other their size"
        yield Violation((*path, "slice"), message, "one of them")
