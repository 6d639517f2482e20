"""The graph of a run as Chakra execution traces, one for each NPU.

Other programs read what the format has: node types, dependencies, durations, `num_ops` and `tensor_size`, and
collectives with `pg_name`, whose members are in a file of their own in the form of ASTRA-sim. Durations are whole
microseconds there, and nodes of a stream are in order because control dependencies say so. What the format cannot say
is in attributes that begin with `syncline_`, so that Syncline reads the same graph back: picoseconds, streams,
families, and relative ranks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.importers import chakra_format
from syncline.importers.chakra import CONTRIBUTIONS, KINDS, PRIVATE, PS_PER_US
from syncline.importers.chakra_format import COLLECTIVES

MOST: Final = 2**63 - 1
NUMBERS: Final = {kind: COLLECTIVES.index(name) for name, kind in reversed(KINDS.items())}
"""Types of collectives in Chakra, by their names here."""
_GATHERED: Final = frozenset(KINDS[name] for name in CONTRIBUTIONS)


@dataclass(slots=True)
class Traces:
    """What is written: a trace for each NPU, and who is in which communicator."""

    npus: int
    groups: dict[str, list[int]]
    """NPUs of communicators by `pg_name`; that of all NPUs has none."""
    by_npu: dict[int, bytes] = field(default_factory=dict)
    """Traces of NPUs that have nodes; all others have the empty one."""
    empty: bytes = b""

    def content(self, npu: int) -> bytes:
        """The trace of an NPU."""
        return self.by_npu.get(npu, self.empty)


def traces(listing: Mapping[str, Any], npus: int, families: Mapping[str, Any], run: Mapping[str, Any]) -> Traces:
    """The traces of the graph that the engine has listed, of a run on `npus` NPUs. `families` are those of the graph in
    the form of a graph file; `run` has its `element`, which collectives are not cut finer than, its `tail`, and how
    often it repeats the nodes (`iterations`).
    """
    numbers: dict[tuple[int, ...], str] = {}
    names: list[dict[int, tuple[str, tuple[int, ...]]]] = []
    everybody = tuple(range(npus))
    for family in listing["families"]:
        of_npu: dict[int, tuple[str, tuple[int, ...]]] = {}
        for group in map(tuple, family["groups"]):
            name = "" if group == everybody else numbers.setdefault(group, str(len(numbers) + 1))
            of_npu |= dict.fromkeys(group, (name, group))
        names.append(of_npu)
    made = Traces(npus, {name: list(group) for group, name in numbers.items()})
    known = [family["name"] for family in listing["families"]]
    for of in listing["classes"]:
        head = _metadata(families, of, npus, run)
        for npu in of["npus"]:
            made.by_npu[npu] = chakra_format.written([head, *_nodes(of, npu, names, known)])
    made.empty = chakra_format.written([_metadata(families, {"streams": ["in-order"]}, npus, run)])
    return made


def iteration_of(nodes: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int] | None:
    """The nodes of one iteration, with what they wait for in the iteration before as `after_previous`, and how many
    iterations there are; nothing if iterations differ by more than the first having none before it.
    """
    iterations = max((node["iteration"] for node in nodes), default=0) + 1
    count = len(nodes) // iterations
    if count * iterations != len(nodes):
        return None
    found: list[dict[str, Any]] = []
    for place, node in enumerate(nodes):
        iteration, number = divmod(place, count)
        here = [other - iteration * count for other in node["after"] if other >= iteration * count]
        before = [other - (iteration - 1) * count for other in node["after"] if other < iteration * count]
        plain = {**node, "iteration": 0, "after": here, "after_previous": before}
        if node["iteration"] != iteration or any(other < 0 for other in before):
            return None
        if iteration == 0:
            found.append(plain)
        elif iteration == 1 and {**found[number], "after_previous": before} == plain:
            found[number] = plain
        elif found[number] != plain:
            return None
    return found, iterations


def repeated(listing: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The listing of one iteration of a run, and how many there are; all of them as one if they are not alike."""
    folded = [iteration_of(of["nodes"]) for of in listing["classes"]]
    counts = {fold[1] for fold in folded if fold is not None}
    if None in folded or len(counts) != 1:
        return dict(listing), 1
    (count,) = counts
    pairs = zip(listing["classes"], folded, strict=True)
    return {**listing, "classes": [{**of, "nodes": fold[0]} for of, fold in pairs if fold is not None]}, count


def _metadata(families: Mapping[str, Any], of: Mapping[str, Any], npus: int, run: Mapping[str, Any]) -> Any:
    return chakra_format.metadata(
        {
            f"{PRIVATE}families": ("string", json.dumps(families)),
            f"{PRIVATE}streams": ("string", list(of["streams"])),
            f"{PRIVATE}class": ("string", of.get("name", "")),
            f"{PRIVATE}npus": ("uint64", npus),
            f"{PRIVATE}element": ("uint64", run["element"]),
            f"{PRIVATE}tail": ("string", run["tail"]),
            f"{PRIVATE}iterations": ("uint64", run["iterations"]),
        }
    )


def _nodes(
    of: Mapping[str, Any], npu: int, names: list[dict[int, tuple[str, tuple[int, ...]]]], known: list[str]
) -> Iterator[Any]:
    last: dict[int, int] = {}
    """By stream in order, the last node that computes there."""
    for number, node in enumerate(of["nodes"]):
        order: list[int] = []
        if node["op"] == "compute" and of["streams"][node["stream"]] != "by-readiness":
            order = [last[node["stream"]]] if node["stream"] in last else []
            last[node["stream"]] = number
        own: dict[str, tuple[str, Any]] = {f"{PRIVATE}layer": ("string", node["layer"])}
        if node.get("after_previous"):
            own[f"{PRIVATE}previous"] = ("uint64", list(node["after_previous"]))
        if node["pass"] != "forward":
            own[f"{PRIVATE}pass"] = ("string", node["pass"])
        yield _node(number, node, (order, node["after"]), npu, (names, known), own)


def _node(
    number: int,
    node: Mapping[str, Any],
    deps: tuple[list[int], list[int]],
    npu: int,
    families: tuple[list[dict[int, tuple[str, tuple[int, ...]]]], list[str]],
    own: dict[str, tuple[str, Any]],
) -> Any:
    op = node["op"]
    iteration = f"iteration {node['iteration']} " if node["iteration"] else ""
    title = f"{iteration}{node['layer']} {node['pass']}"
    attrs: dict[str, tuple[str, Any]] = {"is_cpu_op": ("bool", False)}
    if op == "compute":
        # Signed, as all numbers here that others read: older readers know no other type.
        attrs |= {name: ("int64", min(node[of], MOST)) for name, of in (("num_ops", "flops"), ("tensor_size", "bytes"))}
        own |= {f"{PRIVATE}ps": ("uint64", node["time_ps"]), f"{PRIVATE}stream": ("uint32", node["stream"])}
        made = chakra_format.node(number, title, "COMP_NODE", deps, attrs | own)
        # At least one microsecond where there is any time: nodes without a duration may be taken for unknown.
        made.duration_micros = max(round(node["time_ps"] / PS_PER_US), int(node["time_ps"] > 0))
        return made
    names, known = families
    group_name, group = names[node["family"]][npu]
    own[f"{PRIVATE}family"] = ("string", known[node["family"]])
    if group_name:
        attrs["pg_name"] = ("string", group_name)
    if op in ("send", "recv"):
        rank = group.index(npu)
        peer = group[(rank + node["peer"]) % len(group)]
        source, target = (npu, peer) if op == "send" else (peer, npu)
        attrs |= {"comm_src": ("int64", source), "comm_dst": ("int64", target), "comm_tag": ("int64", node["tag"])}
        attrs["comm_size"] = ("int64", node["bytes"])
        own[f"{PRIVATE}peer"] = ("sint64", node["peer"])
        kind = "COMM_SEND_NODE" if op == "send" else "COMM_RECV_NODE"
        return chakra_format.node(number, f"{title} {op}", kind, deps, attrs | own)
    if op == "exchange":
        ranks = len(group)
        # The most that a rank sends: other programs want all ranks to agree.
        sent = max(sum(node["bytes"][first : first + ranks]) for first in range(0, ranks * ranks, ranks))
        attrs |= {"comm_type": ("int64", NUMBERS["all-to-all"]), "comm_size": ("int64", sent)}
        own |= {f"{PRIVATE}sizes": ("uint64", list(node["bytes"]))}
        return chakra_format.node(number, f"{title} exchange", "COMM_COLL_NODE", deps, attrs | own)
    size = node["bytes"]
    said = -(-size // len(group)) if node["kind"] in _GATHERED else size
    attrs |= {"comm_type": ("int64", NUMBERS[node["kind"]]), "comm_size": ("int64", said)}
    if node["kind"] in ("broadcast", "reduce", "gather", "scatter"):
        attrs["comm_src"] = ("int64", node["root"])
    own |= {f"{PRIVATE}bytes": ("uint64", size)}
    return chakra_format.node(number, f"{title} {node['kind']}", "COMM_COLL_NODE", deps, attrs | own)
