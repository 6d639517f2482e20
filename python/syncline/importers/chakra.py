"""Chakra execution traces: what each node type and attribute means here.

| node | becomes |
|---|---|
| COMP | its recorded duration, or operations (`num_ops`) and bytes (`tensor_size`) that the NPU is to compute |
| MEM_LOAD, MEM_STORE | a time on a stream of its own: recorded, or that of so many bytes of main memory |
| COMM_COLL | a collective, or a barrier; an all-gather or gather has N times `comm_size` bytes in all |
| COMM_SEND, COMM_RECV | a message, matched by sender, receiver, `comm_tag` and order |
| METADATA, INVALID | a node without time, which keeps what depends on it in order |

An NPU computes one thing at a time for its accelerator, and one for its host (`is_cpu_op`); of the nodes that are ready
the first in the order of numbers goes first. That is how ASTRA-sim executes traces, too.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from syncline.base import inputs, json_reading
from syncline.base.errors import MOST_LISTED, InputError, Problem, shown
from syncline.fabric.numbers import numbers
from syncline.importers import chakra_format, groups_file, output, ranks, similar
from syncline.importers.assemble import Assembled, assemble
from syncline.importers.chakra_format import COLLECTIVES, NODE_TYPES
from syncline.importers.output import Asked, Imported
from syncline.importers.record import COMMUNICATION, Span, of_spans
from syncline.importers.traces import (
    CPU,
    MAIN,
    MEMORY,
    NOTHING,
    WORLD,
    Barrier,
    Collective,
    Compute,
    Exchange,
    Item,
    Message,
    Record,
    Relative,
    Time,
    Trace,
    Work,
)
from syncline.sections.graph_file import Family

PS_PER_US: Final = 10**6
KINDS: Final = {
    "ALL_REDUCE": "all-reduce",
    "REDUCE": "reduce",
    "ALL_GATHER": "all-gather",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "BROADCAST": "broadcast",
    "ALL_TO_ALL": "all-to-all",
    "REDUCE_SCATTER": "reduce-scatter",
    "REDUCE_SCATTER_BLOCK": "reduce-scatter",
}
"""Collectives by their names in Chakra; `BARRIER` is a barrier."""
CONTRIBUTIONS: Final = ("ALL_GATHER", "GATHER")
"""Collectives whose `comm_size` is what one rank contributes, rather than the full vector."""
PRIVATE: Final = "syncline_"
"""What the attributes of traces begin with that `export_chakra` has written, and no other program knows."""
USED: Final = frozenset(
    {
        *("is_cpu_op", "num_ops", "tensor_size", "tensor_loc", "runtime", "comm_type", "comm_size", "comm_src"),
        *("comm_dst", "comm_tag", "comm_priority", "pg_name", "comm_group", "involved_dim"),
    }
)
"""Attributes that are known; others are counted and named."""
GLOBAL_GROUPS: Final = ("", "0")
"""Names of the communicator of all NPUs."""
MOST_TEXT: Final = 2**20
"""Characters of a list of process groups."""


@dataclass(slots=True)
class Rules:
    """How traces are read."""

    computed: bool = False
    """Whether operations and bytes go before recorded durations."""
    least_ps: int = 0
    """The least that a recorded node takes."""
    memory: Callable[[int], int] | None = None
    """Picoseconds of a load or store of so many bytes; by default those recorded, or of main memory."""
    refuse_memory: str | None = None
    """Why there are no loads and stores, if there are none."""
    dims: Sequence[int] = ()
    """NPUs along each dimension of the topology, for collectives along some of them."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Attributes that were seen and have no meaning here."""
    notes: dict[str, int] = field(default_factory=dict)
    """What was assumed of nodes, and of how many."""

    def note(self, text: str) -> None:
        """Counts an assumption."""
        self.notes[text] = self.notes.get(text, 0) + 1


@dataclass(slots=True)
class Own:
    """What a trace says that Syncline itself has written."""

    families: dict[str, dict[str, Any]]
    streams: list[str]
    npus: int
    element: int
    tail: str = "drain"
    """What `training.tail` of the run was."""
    iterations: int = 1
    """How often the run repeats the nodes."""
    title: str = ""
    """The class of the NPU."""

    def is_of_run(self, other: Own | None) -> bool:
        """Whether both are of one run."""
        return other is not None and replace(self, streams=[], title="") == replace(other, streams=[], title="")


@dataclass(slots=True)
class _Node:
    """A node, and where it stands."""

    trace: Trace
    at: int
    raw: Any
    attrs: dict[str, Any]

    def refuse(self, message: str, accepted: str | None = None) -> InputError:
        name = f"node {self.raw.id} ({shown(self.raw.name)})" if self.raw.name else f"node {self.raw.id}"
        return InputError([Problem(self.trace.file, None, f"byte {self.at}", None, f"{name}: {message}", accepted)])

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        value = self.attrs.get(name, default)
        if value is None:
            raise self.refuse(f"it has no attribute {name}", "a whole number")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise self.refuse(f"attribute {name} is {shown(value)}", "a whole number from 0 to 2^63 - 1")
        return int(value)

    def text(self, name: str) -> str:
        value = self.attrs.get(name, "")
        if not isinstance(value, str | int):
            raise self.refuse(f"attribute {name} is {shown(value)}", "text")
        return str(value)


def read(content: bytes, file: str, npu: int, rules: Rules) -> tuple[Trace, Own | None]:
    """The trace of an NPU, and what Syncline has written about it, if it has. Raises [`InputError`]."""
    metadata, raw_nodes = chakra_format.read(content, file)
    own = _own(chakra_format.attributes(metadata), file)
    groups: dict[str, Sequence[int]] = {}
    trace = Trace(npu, file, [], groups, own.streams if own else (), own is not None, own.title if own else "")
    problems: list[Problem] = []
    for at, raw in raw_nodes:
        node = _Node(trace, at, raw, chakra_format.attributes(raw))
        try:
            if raw.type == NODE_TYPES.index("METADATA_NODE"):
                groups.update(_process_groups(raw.inputs.values))
            trace.items.append(_item(node, rules, own))
        except InputError as error:
            problems += error.problems
            if len(problems) >= MOST_LISTED:
                break
    if problems:
        raise InputError(problems)
    if own is None and not rules.computed and any(raw.start_time_micros for _, raw in raw_nodes):
        trace.record = _record([raw for _, raw in raw_nodes], trace.items)
    return trace, own


def _record(nodes: Sequence[Any], items: Sequence[Item]) -> Record:
    """The time of a trace that says when its nodes began, which its items get as well."""
    spans: dict[bool, list[Span]] = {True: [], False: []}
    every: list[Span] = []
    for raw, item in zip(nodes, items, strict=True):
        if not raw.start_time_micros and not raw.duration_micros:
            continue
        start = raw.start_time_micros * PS_PER_US
        item.recorded = start, start + raw.duration_micros * PS_PER_US
        every.append(item.recorded)
        if isinstance(item.work, COMMUNICATION):
            spans[True].append(item.recorded)
        elif raw.type == NODE_TYPES.index("COMP_NODE") and item.stream == MAIN:
            spans[False].append(item.recorded)
    time = max(end for _, end in every) - min(start for start, _ in every)
    return of_spans(time, spans[True], spans[False])


def _item(node: _Node, rules: Rules, own: Own | None) -> Item:
    raw, attrs = node.raw, node.attrs
    if not 0 <= raw.type < len(NODE_TYPES):
        raise node.refuse(f"a type of {raw.type}", f"0 ({NODE_TYPES[0]}) to 7 ({NODE_TYPES[-1]})")
    for name in attrs:
        if name not in USED and not name.startswith(PRIVATE):
            rules.ignored[name] += 1
    after = list(raw.data_deps) if own is not None else [*raw.ctrl_deps, *raw.data_deps]
    work, stream = _work(node, rules)
    item = Item(raw.id, raw.name, work, after, stream, f"byte {node.at}")
    if own is not None:
        _take_own(node, item, own)
    return item


def _work(node: _Node, rules: Rules) -> tuple[Work, int]:
    kind = NODE_TYPES[node.raw.type]
    if kind == "COMP_NODE":
        on_host = bool(node.attrs.get("is_cpu_op", False))
        return _compute(node, rules, on_host=on_host), CPU if on_host else MAIN
    if kind in ("MEM_LOAD_NODE", "MEM_STORE_NODE"):
        return _memory(node, rules), MEMORY
    if kind == "COMM_COLL_NODE":
        return _collective(node, rules), MAIN
    if kind in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
        sends = kind == "COMM_SEND_NODE"
        peer, size = node.number("comm_dst" if sends else "comm_src"), node.number("comm_size")
        return Message(sends, peer, size, node.number("comm_tag", 0)), MAIN
    return Time(0), NOTHING


def _recorded(node: _Node, rules: Rules) -> int:
    """The recorded picoseconds."""
    us: int = node.raw.duration_micros
    if not us and "runtime" in node.attrs:
        us = node.number("runtime")
    return max(us * PS_PER_US, rules.least_ps)


def _compute(node: _Node, rules: Rules, *, on_host: bool) -> Work:
    ops, size = node.number("num_ops", 0), node.number("tensor_size", 0)
    recorded = bool(node.raw.duration_micros) or "runtime" in node.attrs
    if on_host or (recorded and not rules.computed):
        return Time(_recorded(node, rules))
    if rules.computed and "num_ops" in node.attrs:
        if size == 0:
            rules.note("compute nodes without tensor_size take no time, as in ASTRA-sim")
            return Time(0)
        return Compute(ops, size)
    if not recorded and (ops or size):
        rules.note(
            "compute nodes without a recorded duration take as long as the NPU needs for num_ops and tensor_size"
        )
        return Compute(ops, size)
    if not recorded:
        rules.note("compute nodes with neither a duration nor operations take no time")
    return Time(_recorded(node, rules))


def _memory(node: _Node, rules: Rules) -> Work:
    size = node.number("tensor_size", 0)
    if rules.refuse_memory is not None:
        raise node.refuse(f"it loads or stores, and {rules.refuse_memory}", "another memory-type")
    if rules.memory is not None:
        return Time(rules.memory(size))
    if node.raw.duration_micros or "runtime" in node.attrs:
        return Time(_recorded(node, rules))
    rules.note("loads and stores without a recorded duration take as long as main memory needs for tensor_size")
    return Compute(0, size)


def _collective(node: _Node, rules: Rules) -> Work:
    number = node.number("comm_type")
    if number >= len(COLLECTIVES):
        raise node.refuse(f"a collective of type {number}", f"0 ({COLLECTIVES[0]}) to 9 ({COLLECTIVES[-1]})")
    name = COLLECTIVES[number]
    group = _group(node, rules)
    if name == "BARRIER":
        return Barrier(group)
    root = 0
    if name in ("REDUCE", "GATHER", "SCATTER", "BROADCAST"):
        root = node.number("comm_src", 0)
        if "comm_src" not in node.attrs:
            rules.note("collectives with a root and no comm_src (its rank) have the first rank as their root")
    # Whose contributions these are is known when communicators are: `gathered`.
    return Collective(
        group, f"{KINDS[name]}*" if name in CONTRIBUTIONS else KINDS[name], node.number("comm_size"), root
    )


def _group(node: _Node, rules: Rules) -> str:
    """The communicator of a collective: named, or along some dimensions of the topology."""
    name = node.text("pg_name") or node.text("comm_group")
    if name not in GLOBAL_GROUPS:
        return name
    involved = node.attrs.get("involved_dim")
    if involved is None or not isinstance(involved, list) or all(involved[: len(rules.dims) or None]):
        return WORLD
    if not rules.dims:
        accepted = "all dimensions, or a topology of blocks (--topology), such as Ring(4)_Switch(2)"
        raise node.refuse("involved_dim names some dimensions of the topology only", accepted)
    along = [dim for dim in range(len(rules.dims)) if dim >= len(involved) or involved[dim]]
    if not along:
        raise node.refuse("involved_dim names no dimension of the topology", "at least one true")
    return f"{WORLD} along {','.join(str(dim) for dim in along)}"


def along_dimensions(traces: Sequence[Trace], dims: Sequence[int]) -> dict[str, dict[str, Any]]:
    """The families of communicators along dimensions that traces name."""
    prefix = f"{WORLD} along "
    names = {item.work.group for trace in traces for item in trace.items if isinstance(item.work, Collective | Barrier)}
    return {
        name: {"members": {"grid": list(dims), "along": [int(dim) for dim in name.removeprefix(prefix).split(",")]}}
        for name in sorted(names)
        if name.startswith(prefix)
    }


def gathered(traces: Sequence[Trace], ranks: Callable[[str], int]) -> None:
    """Turns the contributions of all-gathers and gathers into full vectors; `ranks` says how many members a
    communicator has.
    """
    for trace in traces:
        for item in trace.items:
            work = item.work
            if isinstance(work, Collective) and work.kind.endswith("*"):
                size = work.size * ranks(work.group)
                item.work = Collective(work.group, work.kind.removesuffix("*"), size, work.root)


def _process_groups(text: str) -> dict[str, list[int]]:
    """The communicators that a metadata node of a PyTorch trace lists; what is no such list says nothing."""
    if "pg_name" not in text or len(text) > MOST_TEXT:
        return {}
    value: Any = text
    for _ in range(3):
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
            value = value[0]
        if not isinstance(value, str):
            break
        try:
            value = json_reading.parse(value)
        except json_reading.NotJsonError:
            value = _python_literal(value)
    entries = value if isinstance(value, list) else []
    found: dict[str, list[int]] = {}
    for entry in entries:
        ranks = entry.get("ranks") if isinstance(entry, Mapping) else None
        if not isinstance(ranks, list) or not all(type(rank) is int for rank in ranks):
            continue
        name = str(entry.get("pg_name"))
        if ranks and name not in GLOBAL_GROUPS:
            found[name] = ranks
    return found


def _python_literal(text: str) -> Any:
    """What a literal of Python stands for; nothing where a text is none that can be evaluated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes that Python does not know
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _own(attrs: Mapping[str, Any], file: str) -> Own | None:
    """What `export_chakra` has written into the metadata."""
    if f"{PRIVATE}families" not in attrs:
        return None
    families, streams = attrs[f"{PRIVATE}families"], attrs.get(f"{PRIVATE}streams")
    npus, element, tail = (attrs.get(f"{PRIVATE}{name}") for name in ("npus", "element", "tail"))
    iterations = attrs.get(f"{PRIVATE}iterations")
    try:
        read = json_reading.parse(families) if isinstance(families, str) else None
    except json_reading.NotJsonError:
        read = None
    legal = (
        isinstance(read, dict)
        and isinstance(streams, list)
        and all(isinstance(stream, str) for stream in streams)
        and isinstance(npus, int)
        and 1 <= npus <= 2**26
        and isinstance(element, int)
        and 0 < element < 2**31
        and tail in ("stop", "drain")
        and type(iterations) is int
        and 1 <= iterations <= 10_000
    )
    if (
        not legal
        or not isinstance(read, dict)
        or not isinstance(npus, int)
        or not isinstance(element, int)
        or not isinstance(streams, list)
    ):
        message = f"the attributes {PRIVATE}... of the metadata are damaged"
        raise InputError([Problem(file, None, "metadata", None, message, "those that syncline export-trace writes")])
    _check_families(read, npus, file)
    return Own(read, streams, npus, element, str(tail), iterations or 1, str(attrs.get(f"{PRIVATE}class", "")))


def _check_families(families: Any, npus: int, file: str) -> None:
    """Refuses families that no graph file of so many NPUs may have."""
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(dict[str, Family]).validate_python(families)
        size = 1
        for family in families.values():
            members = family["members"]
            grid = members.get("grid") or [1]
            size = max(size, members.get("first", 0) + math.prod(grid))
            for group in members.get("groups") or []:
                numbers(group, npus)
            if (members.get("groups") is None) == (members.get("grid") is None or members.get("along") is None):
                raise ValueError("no members")
            if any(dim >= len(grid) for dim in members.get("along") or []) or size > npus:
                raise ValueError("no such grid")
    except (ValidationError, ValueError, RecursionError) as error:
        message = f"the families in the metadata are not legal: {str(error).splitlines()[0]}"
        raise InputError([Problem(file, None, "metadata", None, message, "families of a graph file")]) from None


def _take_own(node: _Node, item: Item, own: Own) -> None:
    """What a trace says beside the attributes of Chakra, if Syncline has written it."""
    attrs = node.attrs
    item.stream = node.number(f"{PRIVATE}stream", item.stream)
    if item.stream >= max(1, len(own.streams)):
        raise node.refuse(f"there is no stream {item.stream}", f"0 to {len(own.streams) - 1}")
    item.layer, item.pass_ = node.text(f"{PRIVATE}layer") or None, node.text(f"{PRIVATE}pass") or "forward"
    previous = attrs.get(f"{PRIVATE}previous", [])
    if not isinstance(previous, list) or not all(type(number) is int for number in previous):
        raise node.refuse(f"attribute {PRIVATE}previous is no list of nodes", "numbers of nodes")
    item.after_previous = previous
    work = item.work
    if f"{PRIVATE}ps" in attrs and isinstance(work, Time | Compute):
        item.work = Time(node.number(f"{PRIVATE}ps"))
    family = node.text(f"{PRIVATE}family")
    if isinstance(work, Message | Collective | Barrier) and family not in own.families:
        raise node.refuse(f"there is no family {shown(family)}", "a family of the metadata")
    if isinstance(work, Message):
        peer = attrs.get(f"{PRIVATE}peer")
        if not isinstance(peer, int) or not -(2**31) <= peer < 2**31:
            raise node.refuse(f"attribute {PRIVATE}peer is {shown(peer)}", "a whole number")
        item.work = Relative(work.sends, family, peer, work.size, work.tag)
    elif isinstance(work, Collective) and f"{PRIVATE}sizes" in attrs:
        sizes = attrs[f"{PRIVATE}sizes"]
        ranks = int(len(sizes) ** 0.5) if isinstance(sizes, list) else 0
        if not ranks or ranks * ranks != len(sizes) or not all(isinstance(s, int) and 0 <= s < 2**63 for s in sizes):
            raise node.refuse(f"attribute {PRIVATE}sizes is no square of sizes", "a size for each pair of ranks")
        item.work = Exchange(family, tuple(tuple(sizes[i * ranks : (i + 1) * ranks]) for i in range(ranks)))
    elif isinstance(work, Collective):
        item.work = Collective(family, work.kind.removesuffix("*"), node.number(f"{PRIVATE}bytes"), work.root)
    elif isinstance(work, Barrier):
        item.work = Barrier(family)


SUFFIXES: Final = (".et", ".et.gz")


def imported(arguments: Sequence[str], asked: Asked) -> Imported:
    """Traces as a graph, with an experiment. Raises [`InputError`]."""
    files = ranks.of(arguments, SUFFIXES)
    ranks.require_all(files)
    rules = Rules(computed=asked.times == "computed")
    rules.dims = similar.asked_dimensions(asked)
    groups = {} if asked.groups is None else groups_file.read(asked.groups)
    found, own = assembled(files, rules, groups)
    assumptions: list[str] = []
    topology = asked.topology
    if asked.like is None:
        topology = output.checked_topology(topology, found.npus, assumptions)
    made = Imported("chakra", files.name, found.graph, topology=topology, assumptions=assumptions)
    made.sections = output.sections_of_default(asked.backend)
    if own is not None:
        made.workload["element"] = f"{own.element}B"
        made.sections["training"] = {"iterations": own.iterations, "tail": own.tail}
    made.assumptions += said(rules)
    made.facts = facts(found)
    made.traces = found.traces
    return made


def assembled(files: ranks.Files, rules: Rules, groups: Mapping[str, Sequence[int]]) -> tuple[Assembled, Own | None]:
    """The graph of the traces in files, and what Syncline has said of them. Raises [`InputError`]."""
    traces: list[Trace] = []
    own: Own | None = None
    problems: list[Problem] = []
    for npu, path in files.by_npu.items():
        try:
            content = inputs.read_bytes(inputs.given(path), str(path), chakra_format.MAX_BYTES)
            trace, said_of = read(content, str(path), npu, rules)
        except InputError as error:
            problems += error.problems
            continue
        if traces and (own is not None or said_of is not None) and not (own is not None and own.is_of_run(said_of)):
            message = f"its metadata differs from that of {traces[0].file}"
            problems.append(Problem(str(path), None, "metadata", None, message, "traces of one run"))
        traces.append(trace)
        own = said_of
    if problems:
        raise InputError(problems)
    npus = max(files.by_npu) + 1
    if own is not None and own.npus != npus:
        message = f"the traces are of {own.npus} NPUs, and there are {npus} files"
        raise InputError([Problem(traces[0].file, None, "metadata", None, message, "a file for each NPU")])
    families = own.families if own is not None else along_dimensions(traces, rules.dims)
    sizes = {name: len(members) for trace in traces for name, members in trace.groups.items()}
    sizes |= {name: len(members) for name, members in groups.items()}

    def members(name: str) -> int:
        if name in families:
            dims = families[name]["members"].get("along") or []
            return int(math.prod(rules.dims[dim] for dim in dims))
        if name == WORLD:
            return npus
        return sizes.get(name, 1)

    if own is None:
        gathered(traces, members)
    return assemble(traces, groups, families, npus, rules.dims), own


def said(rules: Rules) -> list[str]:
    """What was assumed of nodes."""
    notes = [f"{text} ({count} nodes)" for text, count in rules.notes.items()]
    if rules.ignored:
        names = [name[:40] for name, _ in rules.ignored.most_common(10)]
        more = len(rules.ignored) - len(names)
        notes.append(f"attributes without a meaning here: {', '.join(names)}{f' and {more} more' if more > 0 else ''}")
    return notes


def facts(found: Assembled) -> dict[str, Any]:
    """What a document says of a graph."""
    classes = {name: len(of["nodes"]) for name, of in found.graph["classes"].items()}
    return {
        "npus": found.npus,
        "nodes": found.nodes,
        "classes": [{"name": name, "nodes": nodes} for name, nodes in classes.items()],
        "families": [{"name": name, "communicators": count} for name, count in found.families.items()],
    }
