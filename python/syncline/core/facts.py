"""What the engine says of itself: algorithms, endpoints and backends by name, kinds of operators, tables with their
columns, fields of the summary, and constants (`Facts` in `crates/system/src/describe.rs`).

The engine is asked once, when a fact is first needed: importing this module loads nothing. What has to be known before
that, such as the words that a field of an experiment takes, is written in the schema, and held equal by tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from syncline.core import binding

PICOSECONDS: Final = "ps"
BYTES: Final = "B"
TEXT: Final = "text"
"""Units of the engine's columns that are shown in others, and of those that are not numbers."""
SUFFIXES: Final = {PICOSECONDS: "_ps", BYTES: "_bytes"}
"""What names of columns end with, by unit."""

Stored = Literal["int", "optional-int", "float", "text"]
"""What the values of a column are stored as."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of a run."""

    name: str
    unit: str
    """What its values are measured in; of those that are not measured, what they are."""
    meaning: str
    """What a value says, in a full phrase."""
    stored: Stored
    always: bool
    """Whether every table of this name has it."""

    @property
    def title(self) -> str:
        """The name in words, without its unit."""
        return self.name.removesuffix(SUFFIXES.get(self.unit, "")).replace("_", " ")

    @property
    def metadata(self) -> dict[str, str]:
        """What the column says of itself in a file."""
        return {"unit": self.unit, "meaning": self.meaning}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a run."""

    name: str
    meaning: str
    """What a row is."""
    columns: dict[str, Column]
    """Its columns by name, in order."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the summary of a run, or of a record in it."""

    name: str
    unit: str
    meaning: str
    fields: dict[str, Field]
    """Fields of its own, by name."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation."""

    name: str
    is_rooted: bool
    """Whether one rank, the root, plays a part of its own."""
    is_summed: bool
    """Whether it adds what ranks have."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How ranks work together, over all dimensions of a group."""

    name: str
    same_as: str | None
    """An earlier algorithm of which this is another name."""
    implements: list[str]
    """The collectives that it implements."""
    composes: list[str]
    """The programs that it may be composed of, a choice for each dimension; none if it does the same in all of them."""
    composition: str
    """How it composes an all-reduce over dimensions."""
    is_balanced: bool
    """Whether every chunk goes through the dimensions in an order of its own, which balances them."""
    is_flat: bool
    """Whether it sees a group as a line, even if that is a whole product of dimensions."""


@dataclass(frozen=True, slots=True)
class Program:
    """What ranks do along a dimension."""

    name: str
    implements: list[str]
    """The collectives that it implements."""
    pipelined: list[str]
    """Those that are cut into slices, of which an experiment says the number."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network backend."""

    name: str
    has_packets: bool
    has_contention: bool
    """Whether a link carries no more than it can, however many messages share it."""
    attributes: list[str]
    """The attributes of nodes that it knows."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size of a kind of operators."""

    name: str
    least: int
    most: int
    is_optional: bool


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """A kind of operators of model files."""

    name: str
    description: str
    sizes: dict[str, Size]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the engine says of itself; everything is in its order, and what has a name is found by it."""

    collectives: dict[str, Collective]
    algorithms: dict[str, Algorithm]
    programs: dict[str, Program]
    endpoints: list[str]
    networks: dict[str, Network]
    operators: dict[str, OperatorKind]
    words: dict[str, list[str]]
    """The words that fields of the engine's description take, by the path of the field."""
    tables: dict[str, Table]
    summary: dict[str, Field]
    constants: dict[str, tuple[int, ...]]
    """Numbers of the engine that others reckon with."""


@cache
def engine() -> Facts:
    """What the engine says of itself. Raises [`EngineUnusableError`] if there is none."""
    binding.require()
    from syncline.core import _core

    return read(json.loads(_core.describe()))


def read(described: Mapping[str, Any]) -> Facts:
    """Facts from the JSON value that the engine gives."""

    def by_name(of: Callable[..., Any], key: str) -> dict[str, Any]:
        return {entry["name"]: of(**entry) for entry in described[key]}

    return Facts(
        collectives=by_name(Collective, "collectives"),
        algorithms=by_name(Algorithm, "algorithms"),
        programs=by_name(Program, "programs"),
        endpoints=described["endpoints"],
        networks=by_name(Network, "networks"),
        operators=by_name(_operator, "operators"),
        words=described["words"],
        tables={table["name"]: _table(**table) for table in described["tables"]},
        summary=_fields(described["summary"]),
        constants={constant["name"]: tuple(constant["values"]) for constant in described["constants"]},
    )


def _operator(name: str, description: str, sizes: list[dict[str, Any]]) -> OperatorKind:
    return OperatorKind(name, description, {size["name"]: Size(**size) for size in sizes})


def _table(name: str, meaning: str, columns: list[dict[str, Any]]) -> Table:
    return Table(name, meaning, {column["name"]: Column(**column) for column in columns})


def _fields(described: list[dict[str, Any]]) -> dict[str, Field]:
    return {field["name"]: Field(**field | {"fields": _fields(field["fields"])}) for field in described}


def column(table: str, name: str) -> Column:
    """A column of a table of a run."""
    return engine().tables[table].columns[name]


def field(path: str) -> Field:
    """A field of the summary of a run, its names separated by dots: `endpoint.resources.wait_ps`."""
    first, *rest = path.split(".")
    found = engine().summary[first]
    for name in rest:
        found = found.fields[name]
    return found


def constant(name: str) -> int:
    """A number of the engine."""
    (value,) = constants(name)
    return value


def constants(name: str) -> tuple[int, ...]:
    """Numbers of the engine."""
    return engine().constants[name]


class Names(Set[str]):
    """Names that the engine is asked for when they are first looked at, in its order."""

    def __init__(self, choose: Callable[[Facts], Iterable[str]]) -> None:
        """With what chooses the names among the facts."""
        self._choose = choose

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._choose(engine()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        """What operators such as `&` make."""
        return frozenset(names)
