"""A simulated run as profiles of PyTorch (Kineto), one for each traced NPU, as Holistic Trace Analysis reads them.

Kernels of the main stream are on stream 7 and those of others from stream 8 on. Collectives are kernels of NCCL on
streams from 20 on: as many as run at a time, since kernels of a stream do not overlap. Times are microseconds with
three decimals, both ends rounded down, so that what does not overlap in the run does not overlap here. There are no
launches and no operators of the host: the simulation has none. Messages between two ranks are not in the timeline of a
run, so neither here. A collective that is in flight when the run ends is left out: a kernel that ends where the profile
does would be one of its size that took less time than it takes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

COMPUTE, BACKGROUND, COMMUNICATION = 7, 8, 20
"""Numbers of streams."""
PS_PER_NS: Final = 1000
NAMES: Final = {
    "all-reduce": ("AllReduce", "allreduce"),
    "reduce-scatter": ("ReduceScatter", "_reduce_scatter_base"),
    "all-gather": ("AllGather", "_allgather_base"),
    "broadcast": ("Broadcast", "broadcast"),
    "reduce": ("Reduce", "reduce"),
    "all-to-all": ("SendRecv", "all_to_all"),
    "gather": ("SendRecv", "gather"),
    "scatter": ("SendRecv", "scatter"),
}
"""What NCCL calls the kernel of a collective, and PyTorch the collective."""
DTYPES: Final = {1: ("u8", "Byte"), 2: ("bf16", "BFloat16"), 4: ("f32", "Float"), 8: ("f64", "Double")}
"""Data types by the bytes of an element, in NCCL and in PyTorch."""
_COLLECTIVE = re.compile(r"(?P<kind>[a-z-]+) of iteration (?P<iteration>[0-9]+)(?P<unfinished>, in flight at the end)?")


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of NPUs."""

    contents: Mapping[int, bytes]
    """By the number of the NPU."""
    collectives: int
    """Of the NPU that lacks the most: those of the run."""
    unfinished: int
    """Of the same NPU: those that are not in the profile, since the run ends before they do."""


@dataclass(frozen=True, slots=True)
class Call:
    """A collective of a class, as the graph of the run has it."""

    kind: str
    family: int
    size: int


@dataclass(slots=True)
class Calls:
    """The collectives of a class by layer, kind and iteration, in order."""

    left: dict[tuple[str, str, int], list[Call]] = field(default_factory=lambda: defaultdict(list))

    @staticmethod
    def of(nodes: Iterable[Mapping[str, Any]]) -> Calls:
        """Those of the nodes of a class."""
        made = Calls()
        for node in nodes:
            if node["op"] == "collective":
                call = Call(node["kind"], node["family"], node["bytes"])
                made.left[node["layer"], node["kind"], node["iteration"]].append(call)
        return made

    def take(self, layer: str, kind: str, iteration: int) -> Call | None:
        """The next one of a layer."""
        found = self.left.get((layer, kind, iteration))
        return found.pop(0) if found else None

    def take_elsewhere(self, kind: str, iteration: int) -> Call | None:
        """The next one of any layer. A collective that classes share, such as that of the table that the first and the
        last stage have, has the layer of one of them in the timeline of all.
        """
        keys = (key for key, found in self.left.items() if found and key[1:] == (kind, iteration))
        return next((self.left[key].pop(0) for key in keys), None)


def profiles(
    listing: Mapping[str, Any], slices: Sequence[Mapping[str, Any]], npus: int, element: int, name: str
) -> Profiles:
    """The profiles of the NPUs that have slices. `slices` are rows of the table of that name, `listing` is
    the graph of the run as the engine lists it.
    """
    by_npu: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in slices:
        by_npu[row["npu"]].append(row)
    of_npu = {npu: of for of in listing["classes"] for npu in of["npus"]}
    found: dict[int, bytes] = {}
    lacking = (0, 0)
    for npu, rows in sorted(by_npu.items()):
        calls = Calls.of(of_npu[npu]["nodes"] if npu in of_npu else ())
        groups = [_group(family, npu) for family in listing["families"]]
        found[npu] = _profile(rows, calls, groups, (npu, npus, element, name))
        matches = [match for row in rows if (match := _collective(row)) is not None]
        lacking = max(lacking, (sum(match["unfinished"] is not None for match in matches), len(matches)))
    return Profiles(found, collectives=lacking[1], unfinished=lacking[0])


def _collective(row: Mapping[str, Any]) -> re.Match[str] | None:
    """What a row says of a collective, if it is one."""
    return _COLLECTIVE.fullmatch(row["name"]) if row["track"].startswith("collective ") else None


def _group(family: Mapping[str, Any], npu: int) -> list[int]:
    return next((group for group in family["groups"] if npu in group), [])


def _profile(
    rows: Sequence[Mapping[str, Any]], calls: Calls, groups: list[list[int]], of: tuple[int, int, int, str]
) -> bytes:
    npu, npus, element, name = of
    events: list[dict[str, Any]] = [_named("process_name", npu, 0, {"name": f"NPU {npu}"})]
    free: list[int] = []
    """When each stream of communication is free."""
    last = 0
    streams: set[int] = set()
    rows = sorted(rows, key=lambda row: (row["start_ps"], row["end_ps"], row["track"], row["name"]))
    called = _called(rows, calls)
    for place_of_row, row in enumerate(rows):
        start, end = row["start_ps"], row["end_ps"]
        last = max(last, end)
        track = row["track"]
        if track == "compute" or track.startswith("background"):
            stream = COMPUTE if track == "compute" else BACKGROUND
            args: dict[str, Any] = {}
            title = row["name"]
        elif (match := _collective(row)) is not None and match["unfinished"] is None:
            kind = match["kind"]
            call = called.get(place_of_row)
            place = next((n for n, until in enumerate(free) if until <= start), len(free))
            free[place : place + 1] = [end]
            stream = COMMUNICATION + place
            title, args = _communication(kind, call, groups, element)
        else:
            continue
        streams.add(stream)
        args |= {"stream": stream, "device": npu, "correlation": len(events)}
        events.append(_span("kernel", title, npu, stream, (start, end), args))
    for stream in sorted(streams):
        events.append(_named("thread_name", npu, stream, {"name": f"stream {stream}"}))
    events.append(_span("user_annotation", "ProfilerStep#0", npu, 1, (0, last), {}))
    config = [
        {"pg_name": str(number), "pg_desc": "default_pg" if not number else "", "ranks": group, "pg_size": len(group)}
        for number, group in enumerate(groups)
        if group
    ]
    info = {"backend": "nccl", "rank": npu, "world_size": npus, "pg_count": len(config), "pg_config": config}
    document = {"schemaVersion": 1, "distributedInfo": info, "displayTimeUnit": "ms", "traceName": name}
    head = json.dumps(document)[:-1]
    return (head + ', "traceEvents": [\n' + ",\n".join(json.dumps(event) for event in events) + "\n]}\n").encode()


def _called(rows: Sequence[Mapping[str, Any]], calls: Calls) -> dict[int, Call]:
    """The collectives of rows, by their places."""
    found: dict[int, Call] = {}
    elsewhere: list[tuple[int, str, int]] = []
    for place, row in enumerate(rows):
        match = _collective(row)
        if match is None:
            continue
        kind, iteration = match["kind"], int(match["iteration"])
        call = calls.take(row["track"].removeprefix("collective "), kind, iteration)
        if call is not None:
            found[place] = call
        else:
            elsewhere.append((place, kind, iteration))
    for place, kind, iteration in elsewhere:
        call = calls.take_elsewhere(kind, iteration)
        if call is not None:
            found[place] = call
    return found


def _communication(kind: str, call: Call | None, groups: list[list[int]], element: int) -> tuple[str, dict[str, Any]]:
    """The name of a collective's kernel, and its arguments in PyTorch."""
    short, dtype = DTYPES.get(element, DTYPES[1])
    width = element if element in DTYPES else 1
    kernel, collective = NAMES[kind]
    operation = "RING_LL" if kernel == "SendRecv" else f"Sum_{short}_RING_LL"
    title = f"ncclDevKernel_{kernel}_{operation}(ncclDevComm*, unsigned long, ncclWork*)"
    if kernel in ("AllGather", "Broadcast"):
        title = f"ncclDevKernel_{kernel}_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
    if call is None:
        return title, {}
    ranks = groups[call.family]
    whole = -(-call.size // width)
    part = -(-whole // max(1, len(ranks)))
    sent, received = {
        "reduce-scatter": (whole, part),
        "all-gather": (part, whole),
        "gather": (part, whole),
        "scatter": (whole, part),
    }.get(kind, (whole, whole))
    return title, {
        "Collective name": collective,
        "In msg nelems": sent,
        "Out msg nelems": received,
        "Group size": len(ranks),
        "dtype": dtype,
        "Process Group Name": str(call.family),
        "Process Group Ranks": json.dumps(ranks),
    }


def _span(
    category: str, name: str, process: int, thread: int, ends: tuple[int, int], args: dict[str, Any]
) -> dict[str, Any]:
    start, end = (ps // PS_PER_NS for ps in ends)
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, **times, "args": args}


def _named(what: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": args}
