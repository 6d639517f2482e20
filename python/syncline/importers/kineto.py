"""Profiles of PyTorch as graphs: compute and the host as measured, collectives simulated.

*Threads* of the host wait for the GPU where they call for it, and otherwise as long as was measured for each other.
*Streams.* Each stream of the GPU is one here, in order; the main one is that with the most compute. Each thread of the
host that launches kernels is one, too: between two launches it takes as long as was measured.
*Waits.* A kernel waits for its launch and for what is before it in its stream. A collective waits for the compute that
was launched last before it and had ended when it began (PyTorch has the stream of a process group wait for the current
one). That another kernel waits
for a collective is said by `cuda_sync` events, or seen: it begins after a gap in which nothing else held it. A call
that synchronises waits for what has been launched. What is left of a gap is kept, as a node on a stream of its own.
*Collectives.* Kernels of NCCL are replaced by the collective that their arguments, or those of the
`record_param_comms` of the same External id, say. The clocks of ranks differ: each rank begins with its first event.
*Ranks without a profile* are taken as equal to the next one below that has a profile, with process groups moved along.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from syncline import inputs
from syncline.errors import InputError, Problem, shown
from syncline.importers import chakra, kineto_format, output, ranks
from syncline.importers.assemble import assemble
from syncline.importers.kineto_format import ON_DEVICE, PARAMS, RUNTIME, WAITS, Event, Profile
from syncline.importers.output import Asked, Imported
from syncline.importers.traces import WORLD, Barrier, Collective, Item, Message, Time, Trace, Work

SUFFIXES: Final = (".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz")
KINDS: Final = {
    **dict.fromkeys(("allreduce", "all_reduce", "allreduce_coalesced"), ("all-reduce", "In")),
    **dict.fromkeys(
        ("allgather", "all_gather", "_allgather_base", "allgather_into_tensor_coalesced", "allgather_coalesced"),
        ("all-gather", "Out"),
    ),
    **dict.fromkeys(
        ("reduce_scatter", "reducescatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
        ("reduce-scatter", "In"),
    ),
    **dict.fromkeys(("alltoall", "all_to_all", "all_to_allv", "alltoall_base"), ("all-to-all", "In")),
    **dict.fromkeys(("broadcast", "_broadcast_oop"), ("broadcast", "In")),
    **dict.fromkeys(("reduce", "_reduce_oop"), ("reduce", "In")),
    "gather": ("gather", "Out"),
    "scatter": ("scatter", "In"),
}
"""Collectives by their names in profiles, and which message is the full vector."""
LEAST_GAP_PS: Final = 1_000_000
"""The shortest gap from which a wait for a collective is inferred: a microsecond."""
MOST_STREAMS: Final = 120
MOST_LOOKED_AT: Final = 64
"""Among so many of the last nodes of either kind, that is looked for for which another one has waited."""


@dataclass(slots=True)
class Notes:
    """What was assumed, and of how many events."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Counts one more."""
        self.counts[text] += 1

    def said(self) -> list[str]:
        """All of them."""
        return [f"{text} ({count} times)" for text, count in self.counts.items()]


def imported(arguments: Sequence[str], asked: Asked) -> Imported:
    """Profiles as a graph, with an experiment. Raises [`InputError`]."""
    files = ranks.of(arguments, SUFFIXES)
    profiles: dict[int, Profile] = {}
    problems: list[Problem] = []
    for path in files.by_npu.values():
        try:
            profile = kineto_format.read(
                inputs.read_bytes(inputs.given(path), str(path), kineto_format.MAX_BYTES), str(path)
            )
        except InputError as error:
            problems += error.problems
            continue
        if profile.rank in profiles:
            message = f"rank {profile.rank} has another profile: {profiles[profile.rank].file}"
            problems.append(Problem(str(path), None, "distributedInfo.rank", None, message, "a profile for each rank"))
        profiles[profile.rank] = profile
    if problems:
        raise InputError(problems)
    profiles = dict(sorted(profiles.items()))
    count = _job_size(list(profiles.values()), asked)
    notes = Notes()
    traces = [_Rank(profile, count, notes).trace() for profile in profiles.values()]
    assumptions: list[str] = []
    traces += _without_profile(traces, count, assumptions)
    _even_sizes(traces, notes)
    groups = {name: list(members) for trace in traces for name, members in trace.groups.items()}
    found = assemble(sorted(traces, key=lambda trace: trace.npu), groups, npus=count, dims=output.dimensions(asked))
    topology = asked.topology
    if asked.like is None:
        topology = output.checked_topology(topology, count, assumptions)
    made = Imported("kineto", files.name or "profile", found.graph, topology=topology)
    made.sections = output.sections_of_default(asked.backend)
    made.assumptions = [*assumptions, *notes.said(), "every rank begins with its first event: clocks are not compared"]
    made.facts = chakra.facts(found)
    return made


def _job_size(profiles: Sequence[Profile], asked: Asked) -> int:
    sizes = {profile.ranks for profile in profiles}
    if len(sizes) > 1:
        other = next(p for p in profiles if p.ranks != profiles[0].ranks)
        message = f"a job of {other.ranks} ranks, and {profiles[0].file} is of one of {profiles[0].ranks}"
        raise InputError(
            [Problem(other.file, None, "distributedInfo.world_size", None, message, "profiles of one job")]
        )
    (count,) = sizes
    if asked.npus is not None and asked.npus != count:
        message = f"the profiles are of a job of {count} ranks"
        raise InputError([Problem("command line", None, "--npus", str(asked.npus), message, str(count))])
    return count


@dataclass(slots=True)
class _Begun:
    """What has been launched on the streams of the GPU."""

    syncs: Sequence[Event]
    """Waits of one stream for another, as `cuda_sync` events say them, in order."""
    last: dict[str, Item] = field(default_factory=dict)
    """The last item of each stream."""
    communication: list[tuple[str, Item]] = field(default_factory=list)
    """Collectives and messages with their streams."""
    computing: list[tuple[str, Item]] = field(default_factory=list)
    """Compute with its streams."""
    _launched: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By stream, when each item was launched, and its number."""
    _syncs_seen: dict[str, int] = field(default_factory=dict)

    def add(self, when: int, stream: str, item: Item) -> None:
        """One more, the last of its stream."""
        self.last[stream] = item
        self._launched.setdefault(stream, []).append((when, item.number))
        (self.computing if isinstance(item.work, Time) else self.communication).append((stream, item))

    def ended(self, time: int, ends: Mapping[int, int]) -> set[int]:
        """The last item of each stream that had ended at a time: a call may have waited for it, and for no later
        one."""
        found: set[int] = set()
        for launched in self._launched.values():
            recent = (number for _, number in reversed(launched[-MOST_LOOKED_AT:]) if ends[number] <= time)
            found |= {number for number in [next(recent, None)] if number is not None}
        return found

    def waited_for(self, event: Event, stream: str) -> set[int]:
        """The nodes that an event waits for by `cuda_sync` events which no earlier one of its stream has seen: the last
        one launched on the other stream before each wait.
        """
        found: set[int] = set()
        place = self._syncs_seen.get(stream, 0)
        while place < len(self.syncs) and self.syncs[place].start <= event.start:
            sync = self.syncs[place]
            place += 1
            other = f"stream {sync.args.get('wait_on_stream')}"
            launched = self._launched.get(other, [])
            if f"stream {sync.args.get('stream')}" == stream and other != stream:
                before = bisect_right(launched, (sync.start, 2**62))
                found |= {launched[before - 1][1]} if before else set()
        self._syncs_seen[stream] = place
        return found


@dataclass(slots=True)
class _Rank:
    """A rank whose profile becomes a trace."""

    profile: Profile
    ranks: int
    notes: Notes
    items: list[Item] = field(default_factory=list)
    groups: dict[str, Sequence[int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    """When items ended, as measured."""
    streams: dict[str, int] = field(default_factory=dict)
    """The number of each stream of the GPU, thread of the host, and of the gaps of a stream."""

    def trace(self) -> Trace:
        """The trace."""
        events = self.profile.events
        device = [event for event in events if event.category in ON_DEVICE]
        launches = kineto_format.launches(events)
        launched = {event.correlation for event in device}
        host = [
            event
            for event in events
            if event.category in RUNTIME and (event.correlation in launched or event.name.endswith(WAITS))
        ]
        if not device:
            message = "there is no event of a GPU (kernel, gpu_memcpy, gpu_memset), as in profiles of a CPU alone"
            accepted = "a profile with kernels: of a run on GPUs, with ProfilerActivity.CPU and ProfilerActivity.CUDA"
            raise InputError([Problem(self.profile.file, None, "traceEvents", None, message, accepted)])
        self._number_streams(device)
        params = {e.external: e for e in events if e.name == PARAMS and e.external is not None}
        syncs = [event for event in events if event.category == "cuda_sync"]
        self._go(device, host, launches, params, syncs)
        return Trace(self.profile.rank, self.profile.file, self.items, self.groups, ["in-order"] * len(self.streams))

    def _number_streams(self, device: Sequence[Event]) -> None:
        busy: Counter[str] = Counter()
        for event in device:
            busy[_stream(event)] += 0 if kineto_format.is_communication(event.name) else event.end - event.start
        for name, _ in busy.most_common():
            self._number(name)

    def _number(self, name: str) -> int:
        if name not in self.streams and len(self.streams) >= MOST_STREAMS:
            message = f"there are more than {MOST_STREAMS} streams and threads"
            raise InputError([Problem(self.profile.file, None, "traceEvents", None, message)])
        return self.streams.setdefault(name, len(self.streams))

    def _add(self, event: Event, name: str, work: Work, after: set[int], stream: str) -> Item:
        item = Item(len(self.items), name, work, sorted(after), self._number(stream), event.place)
        self.items.append(item)
        return item

    def _go(
        self,
        device: Sequence[Event],
        host: Sequence[Event],
        launches: dict[int, Event],
        params: dict[int, Event],
        syncs: Sequence[Event],
    ) -> None:
        """Makes items of events, in the order in which the host calls and then the GPU begins."""
        began = min(event.start for event in (*device, *host))
        called: dict[int, int] = {}
        """By index of a call, its item."""
        clock: dict[str, int] = {}
        last_of_thread: dict[str, int] = {}
        begun = _Begun(syncs)
        last = begun.last
        order = sorted((*device, *host), key=lambda e: (_when(e, launches), e.category in ON_DEVICE, e.start, e.index))
        for event in order:
            if event.category in RUNTIME:
                self._call(event, clock.get(event.thread, began), begun, called, last_of_thread)
                clock[event.thread] = event.end
                continue
            stream = _stream(event)
            call = launches.get(event.correlation) if event.correlation is not None else None
            after: set[int] = set()
            free = began
            if call is not None and call.index in called:
                after.add(called[call.index])
                free = max(free, self.ends[called[call.index]])
            if stream in last:
                after.add(last[stream].number)
                free = max(free, self.ends[last[stream].number])
            work = self._communication(event, params)
            for number in begun.waited_for(event, stream):
                after.add(number)
                free = max(free, self.ends[number])
            if not isinstance(work, Time):
                after |= self._current(event, stream, begun)
            elif event.start - free >= LEAST_GAP_PS:
                held = self._held_by(event, stream, begun, free)
                if held is not None:
                    after.add(held)
                    free = max(free, self.ends[held])
            gap = event.start - free
            if gap > 0 and isinstance(work, Time):
                idle = self._add(event, f"gap before {event.name}", Time(gap), after, f"gaps of {stream}")
                self.ends[idle.number] = event.start
                after = {idle.number, *(n for n in after if stream in last and n == last[stream].number)}
            item = self._add(event, event.name, work, after, stream)
            self.ends[item.number] = event.end
            begun.add(_when(event, launches), stream, item)

    def _call(
        self,
        event: Event,
        before: int,
        begun: _Begun,
        called: dict[int, int],
        last_of_thread: dict[str, int],
    ) -> None:
        """The host until a call returns: as measured, less what it waits for."""
        after = {last_of_thread[event.thread]} if event.thread in last_of_thread else set()
        waited = 0
        if event.name.endswith(WAITS):
            ended = begun.ended(event.end, self.ends)
            after |= ended
            until = max((self.ends[number] for number in ended), default=event.start)
            waited = max(0, min(until, event.end) - event.start)
            # What the host does before it waits is a node of its own: it does not wait yet.
            if waited and event.start > before:
                own = {last_of_thread[event.thread]} if event.thread in last_of_thread else set()
                item = self._add(event, f"before {event.name}", Time(event.start - before), own, f"host {event.thread}")
                self.ends[item.number] = event.start
                after.add(item.number)
                before = event.start
        took = max(0, event.end - max(before, 0) - waited) if before < event.end else 0
        item = self._add(event, event.name, Time(took), after, f"host {event.thread}")
        self.ends[item.number] = event.end
        called[event.index] = item.number
        last_of_thread[event.thread] = item.number

    def _current(self, event: Event, stream: str, begun: _Begun) -> set[int]:
        """The compute of another stream that was launched last before a collective, and had ended when that began."""
        for other, item in reversed(begun.computing[-MOST_LOOKED_AT:]):
            if other != stream and self.ends[item.number] <= event.start:
                return {item.number}
        return set()

    def _held_by(self, event: Event, stream: str, begun: _Begun, free: int) -> int | None:
        """The communication of another stream that ended last before an event began, while nothing else held it."""
        found = None
        for other, item in begun.communication[-MOST_LOOKED_AT:]:
            end = self.ends[item.number]
            late = free < end <= event.start + LEAST_GAP_PS
            if other != stream and late and (found is None or end > self.ends[found]):
                found = item.number
        return found

    def _communication(self, event: Event, params: dict[int, Event]) -> Work:
        """What a kernel of NCCL is a part of; the measured time of all others."""
        measured = Time(event.end - event.start)
        if not kineto_format.is_communication(event.name):
            return measured
        args = event.args
        if "Collective name" not in args and event.external in params:
            args = params[event.external].args
        name = args.get("Collective name")
        if not isinstance(name, str):
            self.notes.add("kernels of NCCL that do not say what they are take the measured time")
            return measured
        if name.lower() in ("send", "recv"):
            return self._message(event, args, sends=name.lower() == "send")
        members = self._members(event, args)
        group = WORLD if members == list(range(self.ranks)) else ",".join(str(rank) for rank in members)
        if group != WORLD:
            self.groups[group] = members
        if name.lower() == "barrier":
            return Barrier(group)
        if name.lower() not in KINDS:
            self.notes.add(f"a collective called {shown(name)} takes the measured time")
            return measured
        kind, which = KINDS[name.lower()]
        size = kineto_format.bytes_of(args, which)
        if size is None:
            message = f"it does not say its size ({which} msg nelems, dtype)"
            raise self.profile.refuse(event, message, "a number of elements and a data type of PyTorch")
        root = args.get("Root rank", args.get("Src Rank", 0))
        rooted = kind in ("broadcast", "reduce", "gather", "scatter")
        return Collective(group, kind, size, members.index(root) if rooted and root in members else 0)

    def _members(self, event: Event, args: Any) -> list[int]:
        members = kineto_format.ranks_of(args)
        name = args.get("Process Group Name")
        if members is None and isinstance(name, str):
            members = self.profile.groups.get(name)
        if members is None and args.get("Group size") in (None, self.ranks):
            members = list(range(self.ranks))
        if members is None:
            message = f"nobody says who is in process group {shown(name)}"
            raise self.profile.refuse(event, message, "Process Group Ranks, or ranks in distributedInfo.pg_config")
        if self.profile.rank not in members or not all(0 <= rank < self.ranks for rank in members):
            message = f"rank {self.profile.rank} is not in its process group"
            raise self.profile.refuse(event, message, f"a process group with it, of ranks 0 to {self.ranks - 1}")
        return members

    def _message(self, event: Event, args: Any, *, sends: bool) -> Work:
        peer = args.get("Dst Rank" if sends else "Src Rank")
        size = kineto_format.bytes_of(args, "In" if sends else "Out")
        if type(peer) is not int or size is None:
            raise self.profile.refuse(event, "it does not say to or from whom, or how much", "Src Rank or Dst Rank")
        return Message(sends, peer, size, 0)


def _stream(event: Event) -> str:
    return f"stream {event.args.get('stream', event.thread)}"


def _when(event: Event, launches: dict[int, Event]) -> int:
    """When an event was called for."""
    call = launches.get(event.correlation) if event.correlation is not None else None
    return event.start if call is None or event.category in RUNTIME else min(call.end, event.start)


def _without_profile(traces: Sequence[Trace], count: int, assumptions: list[str]) -> list[Trace]:
    """Traces of ranks that have no profile: those of the next rank below that has one."""
    known = {trace.npu: trace for trace in traces}
    missing = [rank for rank in range(count) if rank not in known]
    copies: list[Trace] = []
    by_model: dict[int, list[int]] = defaultdict(list)
    for rank in missing:
        model = known[max((r for r in known if r <= rank), default=min(known))]
        by_model[model.npu].append(rank)
        copies.append(_moved(model, rank, count))
    for npu, followers in by_model.items():
        assumptions.append(f"rank {output.npus_text(followers)}: no profile, taken as equal to rank {npu}")
    return copies


def _moved(model: Trace, rank: int, count: int) -> Trace:
    """The trace of a rank as that of another one: process groups and peers are moved along."""
    names: dict[str, str] = {}
    groups: dict[str, Sequence[int]] = {}
    for name, members in model.groups.items():
        stride = members[1] - members[0] if len(members) > 1 else 1
        size = len(members)

        def at(npu: int, stride: int = stride, size: int = size) -> list[int]:
            first = npu - npu // stride % size * stride
            return [first + place * stride for place in range(size)]

        regular = stride > 0 and at(model.npu) == list(members) and count % (stride * size) == 0
        if not regular:
            message = f"NPU {rank} has no profile, and process group {shown(name)} of rank {model.npu} has no pattern"
            raise InputError([Problem(model.file, None, "", None, message, "profiles of all ranks")])
        moved = at(rank)
        names[name] = ",".join(str(member) for member in moved)
        groups[names[name]] = moved
    items = [replace(item, work=_moved_work(item.work, names, rank - model.npu, count)) for item in model.items]
    return Trace(rank, model.file, items, groups, model.streams)


def _moved_work(work: Work, names: dict[str, str], by: int, count: int) -> Work:
    if isinstance(work, Collective | Barrier):
        return replace(work, group=names.get(work.group, work.group))
    if isinstance(work, Message):
        return replace(work, peer=(work.peer + by) % count)
    return work


def _even_sizes(traces: Sequence[Trace], notes: Notes) -> None:
    """Gives all members of a communicator the largest size of an all-to-all whose ranks send unequally much."""
    calls: dict[tuple[str, int], list[Item]] = defaultdict(list)
    for trace in traces:
        counts: Counter[str] = Counter()
        for item in trace.items:
            if isinstance(item.work, Collective):
                calls[item.work.group, counts[item.work.group]].append(item)
                counts[item.work.group] += 1
    for items in calls.values():
        works = [item.work for item in items if isinstance(item.work, Collective)]
        sizes = {work.size for work in works}
        if len(sizes) > 1 and all(work.kind == "all-to-all" for work in works):
            notes.add("an all-to-all of unequal sizes has the largest of them on all ranks")
            for item, work in zip(items, works, strict=True):
                item.work = replace(work, size=max(sizes))
