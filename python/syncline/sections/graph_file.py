"""Graphs of compute and communication in files: classes of NPUs, families of communicators, and what NPUs do.

A file is JSON. Nodes have names, so that people can say what waits for what; the engine has numbers. Connection
matrices of htsim are read as well (`matrix_graph`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from syncline.base import described, json_reading
from syncline.base.document import decode
from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, did_you_mean, one_of, shown
from syncline.base.positions import Positions
from syncline.base.section import Section, Violation
from syncline.fabric.allocation import AllocationError
from syncline.fabric.fields import QUANTITY_ERROR, SizeOrZero, TimeOrZero
from syncline.fabric.numbers import NUMBERS_ACCEPTED, numbers
from syncline.models.demands import Gemm, Kernel
from syncline.sections import connection_matrix, matrix_graph
from syncline.sections.collective import Collective, Kind, of_slices
from syncline.sections.wording import accepted_text, describe, message, violations

MAX_BYTES: Final = 64 * 1024 * 1024
MOST_PROBLEMS: Final = 1000
"""Problems of one file that are found places for."""

Numbers = Annotated[list[Annotated[int, Field(ge=0)]] | str, Field(description="NPUs, as a list or as text: 0-3,8.")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Members(Section):
    """The communicators of a family: by rule, or one by one."""

    grid: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=32)] | None = None
    """NPUs along each dimension of a grid on which they stand, the first dimension innermost; with `along`."""
    along: Annotated[list[Annotated[int, Field(ge=0, le=31)]], Field(min_length=1, max_length=32)] | None = None
    """The dimensions of `grid` along which a communicator extends; its ranks run fastest along the first of them."""
    first: Annotated[int, Field(ge=0)] = 0
    """The NPU at the origin of `grid`."""
    groups: Annotated[list[Numbers], Field(min_length=1)] | None = None
    """The members of each communicator, by rank, in place of a grid. Communicators may be of different sizes."""


class Family(Section):
    """Communicators of one purpose. An NPU is in one of them at most."""

    members: Members
    """Its communicators."""
    collective: dict[str, Any] = Field(default={})
    """How its collectives are carried out, where that is not as `collective` of the experiment says: with the same
    keys."""
    priority: Annotated[int, Field(ge=0, le=7)] = 0
    """Who goes first inside an NPU where its families wait for the same thing and something chooses, as the port of an
    ACE does: the larger, and of equal ones the one that is listed first."""
    traffic_class: Annotated[int, Field(ge=0, le=7)] = 0
    """Whose messages go first in the network: those of the larger. On the analytical backend it has no effect."""


Extent = Annotated[int, Field(ge=1, le=2**63 - 1)]


class ComputeKernel(Section):
    """A kernel, or a run of equal ones."""

    flops: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Floating-point operations; those of `gemm` if that is given."""
    bytes: SizeOrZero = 0
    """Bytes to and from main memory."""
    gemm: Annotated[list[Extent], Field(min_length=4, max_length=4)] | None = None
    """Matrix products, if that is what it does: `[m, k, n, count]`, so many of `m x k` times `k x n`. Their shape
    matters to compute models that know more than operations and bytes."""
    operands: Annotated[list[SizeOrZero], Field(min_length=2, max_length=2)] | None = None
    """Bytes of both factors of all products; by default their shares of `bytes`, with equally wide elements."""


class Compute(Section):
    """What a node computes: operations and bytes of one kernel, or several kernels one after the other."""

    flops: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """Floating-point operations."""
    bytes: SizeOrZero = 0
    """Bytes to and from main memory."""
    kernels: Annotated[list[ComputeKernel], Field(min_length=1, max_length=10_000)] | None = None
    """Kernels, in place of `flops` and `bytes`."""


class CollectiveCall(Section):
    """A collective of the NPU's communicator in a family."""

    family: Name
    """The family."""
    kind: Kind
    """Which."""
    size: SizeOrZero
    """The full vector on each NPU."""
    root: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The rank of the root of a broadcast, reduce, gather or scatter."""


class Send(Section):
    """A message to another rank of the NPU's communicator."""

    family: Name
    """The family."""
    to: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
    """The receiver: so many ranks on, around the communicator."""
    tag: Annotated[int, Field(ge=0, le=2**32 - 2)] = 0
    """What messages between two ranks are told apart by."""
    size: SizeOrZero
    """Its length."""


class Recv(Section):
    """A message from another rank of the NPU's communicator."""

    family: Name
    """The family."""
    from_: Annotated[int, Field(alias="from", ge=-(2**31), le=2**31 - 1)]
    """The sender: so many ranks on, around the communicator."""
    tag: Annotated[int, Field(ge=0, le=2**32 - 2)] = 0
    """What messages between two ranks are told apart by."""
    size: SizeOrZero
    """Its length."""


class Exchange(Section):
    """An all-to-all with a size for each pair of ranks."""

    family: Name
    """The family."""
    sizes: Annotated[list[list[SizeOrZero]], Field(min_length=1, max_length=4096)]
    """By sending rank, what it sends to each rank; what is for itself stays where it is."""


class Node(Section):
    """What NPUs of a class do at some point: one of `time`, `compute`, `collective`,
    `barrier`, `exchange`, `send` and `recv`.
    """

    name: Name
    """What other nodes of the class call it."""
    layer: Name | None = None
    """The layer to which results account it; by default its name."""
    pass_: Annotated[Literal["forward", "input-grad", "weight-grad", "update"], Field(alias="pass")] = "forward"
    """The pass to which results account it."""
    stream: Annotated[int, Field(ge=0, le=255)] = 0
    """The stream on which it computes; 0 is the main one, whose waits are reported."""
    after: list[Name] = Field(default=[])
    """Nodes that have to be done before; they stand earlier in the list."""
    after_previous: list[Name] = Field(default=[])
    """Nodes of the iteration before that have to be done before."""
    time: TimeOrZero | None = None
    """Computes for this long."""
    compute: Compute | None = None
    """Computes as long as the NPU takes."""
    collective: CollectiveCall | None = None
    """Takes part in a collective."""
    barrier: Name | None = None
    """Waits for all ranks of the communicator in this family: an all-reduce of one element."""
    exchange: Exchange | None = None
    """Sends to all ranks and receives from all, of each pair another size, all at once."""
    send: Send | None = None
    """Sends a message; done when its last byte has left the NPU."""
    recv: Recv | None = None
    """Receives a message; done when all of it is there."""


WORK: Final = ("time", "compute", "collective", "barrier", "exchange", "send", "recv")


class NpuClass(Section):
    """NPUs that do the same."""

    npus: Numbers
    """Its NPUs."""
    streams: Annotated[list[Literal["in-order", "by-readiness", "host"]], Field(min_length=1, max_length=255)] = Field(
        default=["in-order"]
    )
    """Which node of a stream runs next: the next one of the list, or of those that are ready the first of the list.
    `host` is the next one too, run by the host of the NPU, which takes nothing of the NPU."""
    nodes: list[Node]
    """The nodes of an iteration, in order; iterations repeat them."""


class Graph(Section):
    """What a file holds."""

    format: Literal["syncline-graph"] = "syncline-graph"
    """What kind of file it is."""
    steps: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Iterations that the nodes are, such as the steps of a profile. Results per iteration are divided by them, too."""
    warnings: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=100)] = Field(default=[])
    """What every run of the graph warns of, such as how far a graph is from the trace of which it was made."""
    families: dict[Name, Family] = Field(default={})
    """The families of communicators, by name."""
    classes: Annotated[dict[Name, NpuClass], Field(min_length=1)]
    """The classes of NPUs, by name. NPUs that are of none do nothing."""


_GRAPH: Final = TypeAdapter(Graph)


class Places(Protocol):
    """On which lines of a file its parts stand."""

    def line(self, path: Sequence[str | int]) -> int:
        """The line of the part at a path, or of the smallest one around it."""


@dataclass(frozen=True)
class GraphFile:
    """The graph in a file."""

    file: str
    """The file, as it was named."""
    content: bytes = field(repr=False)
    graph: Graph = field(repr=False, compare=False)
    positions: Places = field(repr=False, compare=False)

    def problem(self, path: Sequence[str | int], message: str, value: object, accepted: str | None) -> Problem:
        """A problem at a place of the file."""
        name = ".".join(str(step) for step in path)
        return Problem(self.file, self.positions.line(path), name, shown(value), message, accepted)

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of its collectives, each once."""
        calls = (node for of in self.graph.classes.values() for node in of.nodes)
        kinds = (n.collective.kind if n.collective else "all-reduce" for n in calls if n.collective or n.barrier)
        return sorted(set(kinds))

    @cached_property
    def computes(self) -> bool:
        """Whether a node computes for as long as the NPU takes."""
        return any(node.compute is not None for of in self.graph.classes.values() for node in of.nodes)

    def violations(self, npus: int) -> Iterator[Problem]:
        """What is wrong with the file on a fabric of so many NPUs."""
        for name, of in self.graph.classes.items():
            if isinstance(self.positions, matrix_graph.Lines) and isinstance(of.npus, list) and of.npus[0] >= npus:
                # The nodes of a matrix are NPUs, whichever send.
                message = f"there is no NPU {of.npus[0]}: the topology has {npus} NPUs"
                yield self.problem(("classes", name, "nodes", 0), message, None, f"flows between 0 and {npus - 1}")
                return
            yield from self._numbers(of.npus, npus, ("classes", name, "npus"))
        for name, family in self.graph.families.items():
            for number, group in enumerate(family.members.groups or []):
                yield from self._numbers(group, npus, ("families", name, "members", "groups", number))

    def _numbers(self, given: list[int] | str, npus: int, path: tuple[str | int, ...]) -> Iterator[Problem]:
        try:
            numbers(given, npus)
        except AllocationError as error:
            yield self.problem(path, str(error), given if isinstance(given, str) else None, NUMBERS_ACCEPTED)

    def engine_classes(self, npus: int) -> list[dict[str, Any]]:
        """The classes as the engine takes them."""
        families = {name: number for number, name in enumerate(self.graph.families)}
        rows = {row: number for number, row in enumerate(self._costs)}
        return [
            {
                "name": name,
                "npus": numbers(of.npus, npus),
                "streams": of.streams,
                "nodes": list(_engine_nodes(of, families, rows)),
            }
            for name, of in self.graph.classes.items()
        ]

    def engine_costs(self) -> list[list[dict[str, Any]]]:
        """The table of costs that nodes of the classes name rows of, as the engine takes it."""
        return [[kernel.described() for kernel in row] for row in self._costs]

    @cached_property
    def _costs(self) -> list[tuple[Kernel, ...]]:
        """What nodes with kernels cost, each once."""
        computes = (node.compute for of in self.graph.classes.values() for node in of.nodes)
        return list(dict.fromkeys(_kernels(compute) for compute in computes if compute and compute.kernels))

    def engine_members(self, family: str, npus: int) -> dict[str, Any]:
        """The communicators of a family as the engine takes them."""
        members = self.graph.families[family].members
        if members.groups is not None:
            return {"by": "list", "groups": [numbers(group, npus) for group in members.groups]}
        return {"by": "grid", "sizes": members.grid, "along": members.along, "first": members.first}


def _kernels(compute: Compute) -> tuple[Kernel, ...]:
    return tuple(_kernel(kernel) for kernel in compute.kernels or [])


def _kernel(given: ComputeKernel) -> Kernel:
    if given.gemm is None:
        return Kernel(given.flops or 0, given.bytes)
    m, k, n, count = given.gemm
    elements = m * k + k * n + m * n
    shares = (given.bytes * m * k // elements, given.bytes * k * n // elements)
    first, second = given.operands or shares
    return Kernel(2 * m * k * n * count, given.bytes, Gemm(m, k, n, count, (first, second)))


def _engine_nodes(
    of: NpuClass, families: Mapping[str, int], rows: Mapping[tuple[Kernel, ...], int]
) -> Iterator[dict[str, Any]]:
    place = {node.name: number for number, node in enumerate(of.nodes)}
    for node in of.nodes:
        yield {
            "layer": node.layer or node.name,
            "pass": node.pass_,
            "stream": node.stream,
            "after": [place[name] for name in node.after],
            "after_previous": [place[name] for name in node.after_previous],
            "work": _engine_work(node, families, rows),
        }


def _engine_work(node: Node, families: Mapping[str, int], rows: Mapping[tuple[Kernel, ...], int]) -> dict[str, Any]:
    if node.compute is not None and node.compute.kernels:
        return {"op": "kernels", "cost": rows[_kernels(node.compute)]}
    if node.compute is not None:
        return {"op": "compute", "flops": node.compute.flops, "bytes": node.compute.bytes}
    if node.collective is not None:
        call = node.collective
        family = families[call.family]
        return {"op": "collective", "family": family, "kind": call.kind, "bytes": call.size, "root": call.root}
    if node.barrier is not None:
        return {"op": "barrier", "family": families[node.barrier]}
    if node.exchange is not None:
        return {"op": "exchange", "family": families[node.exchange.family], "bytes": node.exchange.sizes}
    if node.send is not None:
        sent = node.send
        family = families[sent.family]
        return {"op": "send", "family": family, "peer": sent.to, "tag": sent.tag, "bytes": sent.size}
    if node.recv is not None:
        got = node.recv
        return {"op": "recv", "family": families[got.family], "peer": got.from_, "tag": got.tag, "bytes": got.size}
    return {"op": "time", "time_ps": node.time or 0}


def read(content: bytes, file: str) -> GraphFile:
    """Reads the content of a file. Raises [`InputError`] with all that is wrong with it."""
    text = decode(content, file)
    if connection_matrix.looks_like(text):
        return _of_matrix(connection_matrix.read(content, file))
    try:
        values = json_reading.parse(text)
    except json_reading.NotJsonError as error:
        message = f"this is not JSON: {error.reason}"
        raise InputError([Problem(file, error.line, "", None, message, "a JSON document")]) from None
    positions = Positions(text)
    try:
        graph = _GRAPH.validate_python(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise _refused(file, (_problem(file, positions, detail) for detail in details), len(details)) from None
    found = GraphFile(file, content, graph, positions)
    wrong = list(_broken(graph))
    if wrong:
        problems = (
            found.problem(broken.path, broken.message, _value(values, broken.path), broken.accepted) for broken in wrong
        )
        raise _refused(file, problems, len(wrong))
    return found


def _refused(file: str, problems: Iterator[Problem], count: int) -> InputError:
    """The error with the first of so many problems, whose places take some time to find."""
    found = list(islice(problems, MOST_PROBLEMS))
    if count > len(found):
        found.append(Problem(file, found[-1].line, "", None, f"{count - len(found):,} further things are wrong"))
    return InputError(found)


def _of_matrix(matrix: connection_matrix.Matrix) -> GraphFile:
    """The graph of a connection matrix, which is legal if the matrix is."""
    values, lines = matrix_graph.graph_of(matrix)
    return GraphFile(matrix.file, matrix.content, _GRAPH.validate_python(values), lines)


def _value(values: Any, path: Sequence[str]) -> object:
    for key in path:
        values = values[int(key)] if isinstance(values, list) else values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, str | int | float) else None


def _problem(file: str, positions: Positions, detail: ErrorDetails) -> Problem:
    """A problem of a value's form."""
    path = [step for step in detail["loc"] if step != "[key]"]
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    info = _field(path)
    accepted = None if info is None else accepted_text(info) or describe(info)
    said = message(kind, value, detail["msg"])
    if kind == QUANTITY_ERROR:
        said, accepted = context["message"], context["accepted"]
    elif kind == "missing":
        said, value = "this is missing", None
    elif kind == "extra_forbidden":
        known = _keys(path[:-1])
        said, accepted = f"{UNKNOWN_KEY}{did_you_mean(str(path[-1]), known)}", f"the keys {one_of(known)}"
    name = ".".join(str(step) for step in path if step not in ("str", "list[constrained-int]"))
    return Problem(file, positions.line(path), name, shown(value), said, accepted)


def _models(path: Sequence[str | int]) -> tuple[type[Section] | None, Any]:
    """The section that a path leads into, and the field at its end."""
    models: dict[str, type[Section]] = {
        "members": Members,
        "compute": Compute,
        "kernels": ComputeKernel,
        "collective": CollectiveCall,
        "exchange": Exchange,
        "send": Send,
        "recv": Recv,
    }
    section: type[Section] | None = Graph
    info = None
    steps = iter(path)
    for step in steps:
        if section is None or not isinstance(step, str):
            continue
        found = {i.alias or name: i for name, i in section.model_fields.items()}
        info = found.get(step)
        if section is Graph and step in ("families", "classes"):
            section = Family if step == "families" else NpuClass
            next(steps, None)  # the name of one of them
        elif section is NpuClass and step == "nodes":
            section = Node
            next(steps, None)  # its number
        elif step in models and info is not None and not (section is Family and step == "collective"):
            section = models[step]
        elif info is not None:
            section = None
    return section, info


def _field(path: Sequence[str | int]) -> Any:
    return _models(path)[1]


def _keys(path: Sequence[str | int]) -> list[str]:
    section = _models(path)[0]
    return [] if section is None else [info.alias or name for name, info in section.model_fields.items()]


def _broken(graph: Graph) -> Iterator[Violation]:
    """What is wrong with a graph whose values are legal, each by itself."""
    for name, family in graph.families.items():
        yield from _broken_family(name, family)
    for name, of in graph.classes.items():
        known: set[str] = set()
        every = {node.name for node in of.nodes}
        for number, node in enumerate(of.nodes):
            path = ("classes", name, "nodes", str(number))
            if node.name in known:
                yield Violation((*path, "name"), "another node of the class has this name", "a name of its own")
            if node.stream >= len(of.streams):
                yield Violation((*path, "stream"), "there is no such stream", f"0 to {len(of.streams) - 1}")
            yield from _broken_node(node, path, (known, every))
            yield from _broken_work(node, path, graph)
            known.add(node.name)


def _broken_family(name: str, family: Family) -> Iterator[Violation]:
    path = ("families", name)
    members = family.members
    by_rule = members.grid is not None and members.along is not None
    if (members.groups is not None) == by_rule or (members.grid is None) != (members.along is None):
        yield Violation((*path, "members"), "this names no communicators, or twice", "grid and along, or groups")
    if members.grid is not None and any(dim >= len(members.grid) for dim in members.along or []):
        last = len(members.grid) - 1
        yield Violation((*path, "members", "along"), "there is no such dimension", f"0 to {last}")
    try:
        collective = Collective.model_validate(family.collective)
    except ValidationError as error:
        yield from violations(error, (*path, "collective"))
        return
    if collective.algorithm == "auto" or "auto" in collective.algorithms.values():
        yield Violation((*path, "collective", "algorithm"), "algorithms of families are not chosen", "the name of one")
    yield from of_slices(collective, path)
    if collective.plan:
        yield Violation((*path, "collective", "plan"), "families have no plans", "an algorithm")


def _broken_node(node: Node, path: tuple[str, ...], names: tuple[set[str], set[str]]) -> Iterator[Violation]:
    """What is wrong with a node, given the names of the earlier nodes of its class, and of all of them."""
    earlier, every = names
    works = [work for work in WORK if getattr(node, work) is not None]
    if len(works) != 1:
        said = "this node does nothing" if not works else f"this node does {len(works)} things"
        yield Violation(path, said, f"exactly one of {one_of(WORK)}")
    for number, name in enumerate(node.after):
        if name not in earlier:
            said = (
                "this node does not come before"
                if name in every
                else f"there is no such node{did_you_mean(name, every)}"
            )
            yield Violation((*path, "after", str(number)), said, "the name of an earlier node of the class")
    for number, name in enumerate(node.after_previous):
        if name not in every:
            said = f"there is no such node{did_you_mean(name, every)}"
            yield Violation((*path, "after_previous", str(number)), said, "the name of a node of the class")


def _broken_work(node: Node, path: tuple[str, ...], graph: Graph) -> Iterator[Violation]:
    """What is wrong with what a node does in a family."""
    for work in ("collective", "exchange", "send", "recv"):
        said_of = getattr(node, work)
        if isinstance(said_of, Exchange) and any(len(row) != len(said_of.sizes) for row in said_of.sizes):
            yield Violation((*path, work, "sizes"), "rows and columns are not equally many", "a row for each rank")
        if said_of is not None and said_of.family not in graph.families:
            yield _no_family((*path, work, "family"), said_of.family, graph)
    if node.barrier is not None and node.barrier not in graph.families:
        yield _no_family((*path, "barrier"), node.barrier, graph)
    if node.compute is not None and node.compute.kernels is not None:
        yield from _broken_kernels(node.compute, (*path, "compute"))


def _broken_kernels(compute: Compute, path: tuple[str, ...]) -> Iterator[Violation]:
    """What is wrong with kernels."""
    for name in ("flops", "bytes"):
        if name in compute.model_fields_set:
            yield Violation((*path, name), "the kernels say this", f"no {name}, or no kernels")
    for number, kernel in enumerate(compute.kernels or []):
        at = (*path, "kernels", str(number))
        if kernel.gemm is None:
            if kernel.operands is not None:
                yield Violation((*at, "operands"), "there are no matrix products", "gemm beside it")
            continue
        m, k, n, count = kernel.gemm
        flops = 2 * m * k * n * count
        if flops > 2**63 - 1:
            yield Violation((*at, "gemm"), "the products are more operations than 63 bits count", "smaller products")
        elif kernel.flops is not None and kernel.flops != flops:
            yield Violation((*at, "flops"), f"the matrix products are {flops} operations", f"{flops}, or nothing")


def _no_family(path: tuple[str, ...], name: str, graph: Graph) -> Violation:
    said = f"there is no such family{did_you_mean(name, graph.families)}"
    return Violation(path, said, one_of(graph.families) if graph.families else "a name under families")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described.json_schema(Graph)}
