"""Traces of NPUs as a graph file: nodes in order, communicators as families, equal NPUs as classes.

*Order.* Nodes are sorted so that each comes after what it waits for and, among those that may come next, the one with
the smallest number first. On streams by readiness the order is the priority of nodes that are ready.
*Families.* A communicator joins the first family of communicators of its size that share no NPU with it and that its
members use at the same point (as their first, second, ... communicator), so that tensor groups meet tensor groups.
*Classes.* NPUs are of one class if their nodes are equal: work, relative ranks, families, dependencies and streams.
Names may differ; those of the first NPU are taken.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import InputError, Problem, one_of
from syncline.fabric.numbers import numbers
from syncline.importers.traces import (
    WORLD,
    Barrier,
    Collective,
    Compute,
    Exchange,
    Item,
    Message,
    Relative,
    Time,
    Trace,
    unique_names,
)

MOST_SIZE: Final = 2**63 - 1
MOST_TAG: Final = 2**32 - 2
MOST_FAMILIES: Final = 255
MOST_SHOWN: Final = 8
"""Nodes of a cycle that are named."""


@dataclass(slots=True)
class Assembled:
    """A graph, and what was found in the traces."""

    graph: dict[str, Any]
    npus: int
    nodes: int
    """Nodes of all NPUs."""
    families: dict[str, int] = field(default_factory=dict)
    """Communicators of each family."""
    traces: Sequence[Trace] = ()
    """The traces that it was made of."""


def assemble(
    traces: Sequence[Trace],
    groups: Mapping[str, Sequence[int]],
    families: Mapping[str, dict[str, Any]] | None = None,
    npus: int | None = None,
    dims: Sequence[int] = (),
) -> Assembled:
    """The graph of traces, one for each NPU, with communicators by name. `families` are those that are known by name,
    in the form of a graph file; collectives of others are looked for in `groups` and in the traces' own. `dims` are
    NPUs along each dimension of a product topology, if that is what there is. Raises
    [`InputError`] with what is wrong with traces: missing dependencies, cycles, what nobody receives.
    """
    problems: list[Problem] = []
    ordered = {trace.npu: _ordered(trace, problems) for trace in traces}
    _raise(problems)
    count = npus if npus is not None else len(traces)
    known = _known_groups(traces, groups, count, problems)
    given = dict(families or {})
    members_of_given = {name: groups_of(family) for name, family in given.items()}
    used = _used(traces, ordered, known, members_of_given, problems)
    _raise(problems)
    _check_values(traces, ordered, problems)
    _check_messages(traces, ordered, members_of_given, count, problems)
    _check_collectives(traces, ordered, known, members_of_given, problems)
    _raise(problems)
    found, family_of = _families(used, known, given, dims)
    if len(found) > MOST_FAMILIES:
        message = f"the communicators need {len(found)} families"
        raise InputError([Problem(traces[0].file, None, "", None, message, f"up to {MOST_FAMILIES}")])
    classes = _classes(traces, ordered, family_of, count)
    graph = {"format": "syncline-graph", "families": found, "classes": classes}
    nodes = sum(len(items) for items in ordered.values())
    sizes = {name: len(groups_of(family)) for name, family in found.items()}
    return Assembled(graph, count, nodes, sizes, traces)


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise InputError(problems)


def _ordered(trace: Trace, problems: list[Problem]) -> list[Item]:
    """The nodes of a trace in order."""
    by_number: dict[int, Item] = {}
    for item in trace.items:
        if item.number in by_number:
            problems.append(trace.problem(item, "another node has the same number", "a number of its own"))
        by_number[item.number] = item
    waits: dict[int, int] = {}
    followers: dict[int, list[int]] = defaultdict(list)
    is_whole = True
    for item in trace.items:
        needed = set(item.after)
        for number in needed:
            if number not in by_number:
                is_whole = False
                message = f"it waits for node {number}, which is not in the file"
                problems.append(trace.problem(item, message, "nodes of the same file"))
            followers[number].append(item.number)
        waits[item.number] = len(needed)
        for number in item.after_previous:
            if number not in by_number:
                message = f"it waits for node {number} of the iteration before, which is not in the file"
                problems.append(trace.problem(item, message, "nodes of the same file"))
    if not is_whole or len(by_number) < len(trace.items):
        return []
    if trace.in_file_order:
        return list(trace.items)
    ready = [number for number, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order: list[Item] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(by_number[number])
        for follower in followers[number]:
            waits[follower] -= 1
            if waits[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) < len(trace.items):
        problems.append(_cycle(trace, by_number, {number for number, count in waits.items() if count > 0}))
    return order


def _cycle(trace: Trace, by_number: Mapping[int, Item], left: set[int]) -> Problem:
    """Nodes that wait for each other."""
    at = min(left)
    path: list[int] = []
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(number for number in by_number[at].after if number in left)
    cycle = path[seen[at] :]
    names = [str(number) for number in cycle[:MOST_SHOWN]] + ["..."] * (len(cycle) > MOST_SHOWN)
    said = f"nodes wait for each other: {' waits for '.join([*names, str(cycle[0])])}"
    return trace.problem(by_number[cycle[0]], said, "dependencies without a cycle")


def _known_groups(
    traces: Sequence[Trace], groups: Mapping[str, Sequence[int]], npus: int, problems: list[Problem]
) -> dict[str, tuple[int, ...]]:
    """Communicators by name: those that are given, and those that traces define."""
    known = {name: tuple(members) for name, members in groups.items()}
    for trace in traces:
        for name, members in trace.groups.items():
            if known.setdefault(name, tuple(members)) != tuple(members):
                message = f"communicator {name} has other members here than in another trace"
                problems.append(Problem(trace.file, None, "", None, message, "one list of members"))
    for name, members in known.items():
        wrong = [npu for npu in members if not 0 <= npu < npus]
        if wrong or not members or len(set(members)) < len(members):
            said = f"there is no NPU {wrong[0]}" if wrong else "its members are not different NPUs"
            message = f"communicator {name}: {said}"
            problems.append(Problem(traces[0].file, None, "", None, message, f"NPUs from 0 to {npus - 1}, each once"))
    known.setdefault(WORLD, tuple(range(npus)))
    return known


def groups_of(family: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The communicators of a family of a graph file whose members are lists or a grid."""
    members = family["members"]
    if members.get("groups") is not None:
        return [tuple(numbers(group, 2**26)) for group in members["groups"]]
    sizes, along, first = members["grid"], members["along"], members.get("first", 0)
    strides = [1]
    for size in sizes:
        strides.append(strides[-1] * size)

    def offsets(dims: Sequence[int]) -> list[int]:
        found = [0]
        for dim in dims:
            found = [base + place * strides[dim] for place in range(sizes[dim]) for base in found]
        return found

    rest = [dim for dim in range(len(sizes)) if dim not in along]
    return [tuple(first + base + offset for offset in offsets(along)) for base in offsets(rest)]


def _used(
    traces: Sequence[Trace],
    ordered: Mapping[int, list[Item]],
    known: Mapping[str, tuple[int, ...]],
    given: Mapping[str, Sequence[tuple[int, ...]]],
    problems: list[Problem],
) -> dict[str, int]:
    """The communicators that nodes name, and at which place among those of a member each is used, the first of them."""
    first: dict[str, int] = {}
    world = False
    for trace in traces:
        seen: set[str] = set()
        for item in ordered[trace.npu]:
            work = item.work
            world = world or isinstance(work, Message)
            if not isinstance(work, Collective | Barrier | Exchange) or work.group in seen:
                continue
            name = work.group
            seen.add(name)
            if name in given:
                if not any(trace.npu in members for members in given[name]):
                    problems.append(trace.problem(item, f"NPU {trace.npu} is in no communicator of family {name}"))
            elif name not in known:
                names = [group for group in known if group != WORLD]
                accepted = one_of(names[:20]) if names else "a file with communicators (--groups FILE)"
                problems.append(trace.problem(item, f"nobody says who is in communicator {name}", accepted))
            elif trace.npu not in known[name]:
                problems.append(trace.problem(item, f"NPU {trace.npu} is not in communicator {name}"))
            else:
                first[name] = min(first.get(name, len(seen)), len(seen))
    if world:
        first.setdefault(WORLD, 0)
    return first


def _families(
    used: Mapping[str, int],
    known: Mapping[str, tuple[int, ...]],
    given: Mapping[str, dict[str, Any]],
    dims: Sequence[int],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The families of a graph file, and the family of each communicator."""
    families: dict[str, dict[str, Any]] = dict(given)
    family_of = {name: name for name in given}
    joined: dict[str, set[int]] = {}
    alike: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name, place in used.items():
        members = known[name]
        if name == WORLD:
            # Communicators along dimensions use their rings in both directions.
            is_product = len(dims) > 1 and math.prod(dims) == len(members)
            grid = {"grid": list(dims), "along": list(range(len(dims)))}
            families[WORLD] = {"members": grid if is_product else {"groups": [_listed(members)]}}
            family_of[WORLD] = WORLD
            continue
        of_shape = alike[len(members), place]
        family = next((f for f in of_shape if joined[f].isdisjoint(members)), None)
        if family is None:
            family = f"group {name}"
            while family in families:
                family += "'"
            of_shape.append(family)
            families[family] = {"members": {"groups": []}}
            joined[family] = set()
        families[family]["members"]["groups"].append(_listed(members))
        joined[family] |= set(members)
        family_of[name] = family
    return families, family_of


def _listed(members: Sequence[int]) -> str | list[int]:
    """Members as a graph file has them: a range where they are one."""
    in_a_row = len(members) > 2 and list(members) == list(range(members[0], members[0] + len(members)))
    return f"{members[0]}-{members[-1]}" if in_a_row else list(members)


def _check_values(traces: Sequence[Trace], ordered: Mapping[int, list[Item]], problems: list[Problem]) -> None:
    """Numbers that no graph file can hold."""
    for trace in traces:
        for item in ordered[trace.npu]:
            work = item.work
            numbers = {
                "bytes": getattr(work, "size", getattr(work, "bytes", 0)),
                "operations": getattr(work, "flops", 0),
                "picoseconds": getattr(work, "ps", 0),
            }
            for unit, number in numbers.items():
                if not 0 <= number <= MOST_SIZE:
                    problems.append(trace.problem(item, f"{number} {unit}", f"0 to {MOST_SIZE}"))


def _check_messages(
    traces: Sequence[Trace],
    ordered: Mapping[int, list[Item]],
    given: Mapping[str, Sequence[tuple[int, ...]]],
    npus: int,
    problems: list[Problem],
) -> None:
    """Messages that nobody receives, or nobody sends, or whose sizes differ."""
    ends: dict[tuple[int, int, int, str], tuple[list[tuple[Trace, Item]], list[tuple[Trace, Item]]]] = {}
    for trace in traces:
        for item in ordered[trace.npu]:
            work = item.work
            if not isinstance(work, Message | Relative):
                continue
            family, peer = WORLD, getattr(work, "peer", 0)
            if isinstance(work, Relative):
                family = work.family
                members = next((group for group in given.get(family, ()) if trace.npu in group), None)
                if members is None:
                    problems.append(trace.problem(item, f"NPU {trace.npu} is in no communicator of family {family}"))
                    continue
                peer = members[(members.index(trace.npu) + work.peer) % len(members)]
            if not 0 <= peer < npus or peer == trace.npu:
                said = "to or from itself" if peer == trace.npu else f"there is no NPU {peer}"
                problems.append(trace.problem(item, said, f"another NPU from 0 to {npus - 1}"))
                continue
            if not 0 <= work.tag <= MOST_TAG:
                problems.append(trace.problem(item, f"a tag of {work.tag}", f"0 to {MOST_TAG}"))
                continue
            way = (trace.npu, peer) if work.sends else (peer, trace.npu)
            ends.setdefault((*way, work.tag, family), ([], []))[0 if work.sends else 1].append((trace, item))
    for (source, target, tag, _), (sent, received) in ends.items():
        both = min(len(sent), len(received))
        for trace, item in sent[both:]:
            message = f"no node of NPU {target} receives this message (from NPU {source}, tag {tag})"
            problems.append(trace.problem(item, message, "a receive for each send"))
        for trace, item in received[both:]:
            message = f"no node of NPU {source} sends this message (to NPU {target}, tag {tag})"
            problems.append(trace.problem(item, message, "a send for each receive"))
        for (trace, item), (other, twin) in zip(sent, received, strict=False):
            size, expected = getattr(item.work, "size", 0), getattr(twin.work, "size", 0)
            if size != expected:
                message = f"it sends {size} bytes, and {twin.title} of {other.file} receives {expected}"
                problems.append(trace.problem(item, message, "equal sizes"))


def _check_collectives(
    traces: Sequence[Trace],
    ordered: Mapping[int, list[Item]],
    known: Mapping[str, tuple[int, ...]],
    given: Mapping[str, Sequence[tuple[int, ...]]],
    problems: list[Problem],
) -> None:
    """Communicators whose members do not ask for the same collectives in the same order."""
    asked: dict[tuple[str, tuple[int, ...]], dict[int, list[tuple[Trace, Item]]]] = defaultdict(dict)
    for trace in traces:
        for item in ordered[trace.npu]:
            work = item.work
            if isinstance(work, Collective | Barrier | Exchange):
                lists = given.get(work.group, ())
                members = next((group for group in lists if trace.npu in group), known.get(work.group, ()))
                asked[work.group, members].setdefault(trace.npu, []).append((trace, item))
    by_npu = {trace.npu: trace for trace in traces}
    for (name, members), of_npu in asked.items():
        first = next(iter(of_npu.values()))
        if isinstance(first[0][1].work, Collective) and any(
            w.root >= len(members) for _, i in first if isinstance(w := i.work, Collective)
        ):
            problems.append(first[0][0].problem(first[0][1], f"communicator {name} has no such root"))
        for npu in members:
            if npu not in by_npu:
                continue
            mine = of_npu.get(npu, [])
            for place, (trace, item) in enumerate(first):
                if place >= len(mine):
                    message = f"NPU {npu} takes no part in this collective, number {place + 1} of communicator {name}"
                    problems.append(trace.problem(item, f"{message} ({by_npu[npu].file})", "the same on all members"))
                    break
                other, twin = mine[place]
                if item.work != twin.work:
                    message = (
                        f"number {place + 1} of communicator {name} is {_said(twin.work)} here, and {_said(item.work)} "
                        f"in {item.title} of {trace.file}"
                    )
                    problems.append(other.problem(twin, message, "the same on all members"))
                    break
            for trace, item in mine[len(first) :][:1]:
                message = f"NPU {first[0][0].npu} takes no part in this collective of communicator {name}"
                problems.append(trace.problem(item, message, "the same on all members"))


def _said(work: Any) -> str:
    if isinstance(work, Collective):
        root = f" from or to rank {work.root}" if work.root else ""
        return f"{work.kind} of {work.size} bytes{root}"
    return "a barrier" if isinstance(work, Barrier) else "an exchange"


def _classes(
    traces: Sequence[Trace], ordered: Mapping[int, list[Item]], family_of: Mapping[str, str], npus: int
) -> dict[str, dict[str, Any]]:
    alike: dict[Any, list[int]] = {}
    for trace in traces:
        items = ordered[trace.npu]
        if not items:
            continue
        place = {item.number: number for number, item in enumerate(items)}
        key = tuple(
            (
                _relative(item.work, trace.npu, npus, family_of),
                item.stream,
                item.pass_,
                tuple(sorted({place[number] for number in item.after})),
                tuple(sorted({place[number] for number in item.after_previous})),
            )
            for item in items
        )
        alike.setdefault((tuple(trace.streams), trace.title, key), []).append(trace.npu)
    if not alike:
        raise InputError([Problem(traces[0].file, None, "", None, "no trace has any node", "a trace with nodes")])
    by_npu = {trace.npu: trace for trace in traces}
    classes: dict[str, dict[str, Any]] = {}
    for (streams, title, key), members in alike.items():
        items = ordered[members[0]]
        names = list(unique_names(items))
        nodes = list(_nodes(items, names, key))
        of = {"npus": _listed(members), **_streams(streams, by_npu[members[0]], items), "nodes": nodes}
        name = title[:180] or f"NPU {members[0]}" + (" and alike" if len(members) > 1 else "")
        name = "all NPUs" if len(alike) == 1 and not title else name
        while name in classes:
            name += "'"
        classes[name] = of
    return classes


def _streams(streams: Sequence[str], trace: Trace, items: Sequence[Item]) -> dict[str, Any]:
    most = max((item.stream for item in items), default=0)
    default = "in-order" if trace.in_file_order else "by-readiness"
    return {"streams": list(streams) or [default] * (most + 1)}


def _relative(work: Any, npu: int, npus: int, family_of: Mapping[str, str]) -> tuple[str, dict[str, Any] | str] | Any:
    """The work as an entry of a node: hashable, so that nodes can be compared."""
    if isinstance(work, Time):
        return ("time", work.ps)
    if isinstance(work, Compute):
        return ("compute", work.flops, work.bytes)
    if isinstance(work, Collective):
        return ("collective", family_of[work.group], work.kind, work.size, work.root)
    if isinstance(work, Barrier):
        return ("barrier", family_of[work.group])
    if isinstance(work, Exchange):
        return ("exchange", family_of[work.group], work.sizes)
    if isinstance(work, Relative):
        return ("send" if work.sends else "recv", work.family, work.peer, work.size, work.tag)
    # Sender and receiver have to agree on the way around the communicator.
    on = (work.peer - npu if work.sends else npu - work.peer) % npus
    on = on - npus if on > npus // 2 else on
    return ("send" if work.sends else "recv", WORLD, on if work.sends else -on, work.size, work.tag)


def _nodes(items: Sequence[Item], names: Sequence[str], key: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for item, name, (work, stream, pass_, after, previous) in zip(items, names, key, strict=True):
        node: dict[str, Any] = {"name": name}
        if item.layer is not None and item.layer[:200] not in ("", name):
            node["layer"] = item.layer[:200]
        if pass_ != "forward":
            node["pass"] = pass_
        if stream:
            node["stream"] = stream
        if after:
            node["after"] = [names[number] for number in after]
        if previous:
            node["after_previous"] = [names[number] for number in previous]
        yield node | _entry(work)


def _entry(work: Sequence[Any]) -> dict[str, Any]:
    op = work[0]
    if op == "time":
        return {"time": f"{work[1]}ps" if work[1] else "0s"}
    if op == "compute":
        return {"compute": {"flops": work[1], "bytes": f"{work[2]}B"}}
    if op == "barrier":
        return {"barrier": work[1]}
    if op == "exchange":
        return {"exchange": {"family": work[1], "sizes": [[f"{size}B" for size in row] for row in work[2]]}}
    if op == "collective":
        _, family, kind, size, root = work
        return {"collective": {"family": family, "kind": kind, "size": f"{size}B", **({"root": root} if root else {})}}
    _, family, peer, size, tag = work
    way = "to" if op == "send" else "from"
    return {op: {"family": family, way: peer, "size": f"{size}B", **({"tag": tag} if tag else {})}}
