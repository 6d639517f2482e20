"""The profile of a rank as the work of an NPU, which takes as long as was measured if communication does.

*Streams.* Each stream of the GPU is one here, in the order in which its kernels began. Where kernels of a stream
overlap, as those of a CUDA graph may, it becomes as many streams as run at a time. The main stream is that with most
compute.
*Threads* of the host that launch kernels are streams, too: they take as long between two launches as was measured, and
wait for the GPU where they call for it.
*Waits.* A kernel begins after its launch, after all that ended before on its stream, and after the beginning of what
still runs there. A collective waits, too, for the compute that was launched last before it and had ended when it began
(PyTorch has the stream of a process group wait for the current one). That another kernel waits for a collective is said
by `cuda_sync` events, or seen: it begins after a gap in which nothing else held it. A call that synchronises waits for
what has been launched. Nothing waits for what had not ended when it began.
*Gaps.* What is left of the time before a kernel, when all that it waits for has ended, is a node of its own. While it
lasts nothing runs on the stream of the kernel, so gaps of different streams overlap. Those of the main stream are on a
stream beside it, for its waits are reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from syncline.base.errors import InputError, Problem
from syncline.importers import kineto_format
from syncline.importers.kineto_communication import Communication, Notes
from syncline.importers.kineto_format import ON_DEVICE, RUNTIME, WAITS, Event, Profile
from syncline.importers.kineto_steps import Window
from syncline.importers.record import COMMUNICATION, MOST_STREAMS, Span, of_spans
from syncline.importers.traces import Item, Record, Time, Trace, Work

LEAST_GAP_PS: Final = 1_000_000
"""The shortest gap from which a wait for a collective is inferred: a microsecond."""
MOST_LOOKED_AT: Final = 64
"""How many of the last items of a kind are searched for the one that another waited for."""
OVERLAP: Final = "kernels begin before an earlier one of their stream ends, as in CUDA graphs: they run beside it"
_IDLE: Final = "idle main stream"


def calls_of(profile: Profile) -> list[Event]:
    """The calls of the host that launch what runs on the GPU, or wait for it."""
    launched = {event.correlation for event in profile.events if event.category in ON_DEVICE}
    launched.discard(None)
    return [
        event
        for event in profile.events
        if event.category in RUNTIME and (event.correlation in launched or event.name.endswith(WAITS))
    ]


def trace_of(profile: Profile, window: Window, notes: Notes) -> Trace:
    """The trace of a rank. Raises [`InputError`]."""
    made = _Rank(profile, window, notes, Communication(profile, notes))
    made.make_items()
    groups = dict(made.communication.groups)
    return Trace(profile.rank, profile.file, made.items, groups, ["in-order"] * len(made.streams), record=made.record())


@dataclass(slots=True)
class _Lane:
    """A stream of the GPU or, where kernels of one overlap, a part of it."""

    name: str
    end: int = 0
    """When the last of its events that was placed ends."""
    busy: int = 0
    """How long it computes."""
    items: list[tuple[int, int]] = field(default_factory=list)
    """When each of its items was launched, and its number."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A moment of a thread of the host at which it launches something, begins to wait, or has waited."""

    time: int
    what: Literal["launches", "waits", "has waited"]
    call: Event


@dataclass(slots=True)
class _Rank:
    """A rank whose profile becomes a trace."""

    profile: Profile
    window: Window
    notes: Notes
    communication: Communication
    items: list[Item] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """By number of an item, when it ended, as measured."""
    streams: dict[str, int] = field(default_factory=dict)
    """The number of each lane, of each thread of the host, and of the gaps of the main stream."""
    lanes: dict[str, list[_Lane]] = field(default_factory=dict)
    """By stream of the GPU, its parts."""
    lane_of: dict[int, _Lane] = field(default_factory=dict)
    """By index of an event, its lane."""
    main: str = ""
    """The lane that is the main stream."""
    launches: Mapping[int, Event] = field(default_factory=dict)
    """The calls of the host, by correlation."""
    launched: dict[int, int] = field(default_factory=dict)
    """By correlation, the item that ends when its call launches something."""
    points: dict[int, int] = field(default_factory=dict)
    """By correlation, when that is."""
    threads: dict[str, int] = field(default_factory=dict)
    """The last item of each thread."""
    communicating: list[tuple[str, Item]] = field(default_factory=list)
    """Communication with its streams of the GPU."""
    computing: list[tuple[str, Item]] = field(default_factory=list)
    """Compute with its streams of the GPU."""
    syncs: dict[str, list[tuple[int, Event]]] = field(default_factory=dict)
    """By stream of the GPU, its waits for others, as `cuda_sync` events say them, with their times."""

    def make_items(self) -> None:
        """Makes items of events, in the order in which the host calls and the GPU is called."""
        device = self.window.device
        self._assign_lanes(device)
        self.launches = kineto_format.launches(self.profile.events)
        self._find_waits()
        host = list(self._points(device))
        order: list[tuple[int, bool, int, Event | _Point]] = [
            (point.time, False, place, point) for place, point in enumerate(host)
        ]
        latest: dict[str, int] = {}
        for place, event in enumerate(device):
            stream = kineto_format.stream_of(event)
            launched = self.points.get(event.correlation or 0, event.start)
            # Streams are in order, also where two threads launch on one.
            latest[stream] = max(latest.get(stream, 0), min(launched, event.start))
            order.append((latest[stream], True, place, event))
        for key, _, _, each in sorted(order, key=lambda entry: entry[:3]):
            if isinstance(each, _Point):
                self._call(each)
            else:
                self._run(each, key)

    def record(self) -> Record:
        """The recorded time. Copies between memories are neither compute nor communication."""
        communicating: list[Span] = []
        computing: list[Span] = []
        for event in self.window.device:
            if kineto_format.is_communication(event.name):
                communicating.append((event.start, event.end))
            elif event.category == "kernel":
                computing.append((event.start, event.end))
        time = max(self.ends, default=self.window.start) - self.window.start
        return of_spans(time, communicating, computing, self.window.steps)

    def _assign_lanes(self, device: Sequence[Event]) -> None:
        """Finds the lanes, and numbers them: the main stream first."""
        for event in device:
            stream = kineto_format.stream_of(event)
            lanes = self.lanes.setdefault(stream, [])
            if any(lane.end > event.start for lane in lanes):
                self.notes.add(OVERLAP)
            lane = next((lane for lane in lanes if lane.end <= event.start), None)
            if lane is None:
                lane = _Lane(f"{stream} lane {len(lanes)}")
                lanes.append(lane)
                if len(lanes) > MOST_STREAMS:
                    raise self._too_many()
            lane.end = max(lane.end, event.end)
            if not kineto_format.is_communication(event.name):
                lane.busy += event.end - event.start
            self.lane_of[event.index] = lane
        every = [lane for lanes in self.lanes.values() for lane in lanes]
        every.sort(key=lambda lane: -lane.busy)
        self.main = every[0].name
        for lane in every:
            self._number(lane.name)

    def _number(self, name: str) -> int:
        if name not in self.streams and len(self.streams) >= MOST_STREAMS:
            raise self._too_many()
        return self.streams.setdefault(name, len(self.streams))

    def _too_many(self) -> InputError:
        message = f"there are more than {MOST_STREAMS} streams, kernels at a time on them, and threads"
        return InputError([Problem(self.profile.file, None, "traceEvents", None, message)])

    def _find_waits(self) -> None:
        for event in self.profile.events:
            if event.category == "cuda_sync" and "wait_on_stream" in event.args:
                self.syncs.setdefault(f"stream {event.args.get('stream')}", []).append((event.start, event))
        for waits in self.syncs.values():
            waits.reverse()

    def _points(self, device: Sequence[Event]) -> Iterator[_Point]:
        """The moments of the host that matter, within the window."""
        first: dict[int, int] = {}
        for event in device:
            if event.correlation is not None:
                first.setdefault(event.correlation, event.start)
        start, end = self.window.start, self.window.end
        for call in calls_of(self.profile):
            if call.name.endswith(WAITS):
                points = [_Point(call.start, "waits", call), _Point(call.end, "has waited", call)]
            elif call.correlation in first:
                # What is launched may begin before the call returns.
                point = _Point(min(call.end, first[call.correlation]), "launches", call)
                self.points[call.correlation] = point.time
                points = [point]
            else:
                continue
            until = points[-1].time
            yield from (point for point in points if start < point.time and (end is None or until <= end))

    def _add(self, name: str, work: Work, after: Iterable[int], stream: str, event: Event) -> Item:
        """Adds an item, which begins as soon as it may."""
        item = Item(len(self.items), name, work, sorted(set(after)), self._number(stream), event.place)
        took = work.ps if isinstance(work, Time) else event.end - event.start
        self.items.append(item)
        self.ends.append(self._ended(item.after) + took)
        return item

    def _ended(self, numbers: Iterable[int]) -> int:
        """When the last of some items ended; the start of the window if there are none."""
        return max((self.ends[number] for number in numbers), default=self.window.start)

    def _call(self, point: _Point) -> None:
        """A thread of the host up to a point: as long as was measured, less what it waits for."""
        call = point.call
        after = {self.threads[call.thread]} if call.thread in self.threads else set()
        name = f"before {call.name}" if point.what == "waits" else call.name
        if point.what == "has waited":
            after |= set(self._done_at(point.time, call.start))
        took = point.time - self._ended(after)
        if took or point.what == "has waited" or not after:
            item = self._add(name, Time(took), after, f"thread {call.thread}", call)
            self.threads[call.thread] = item.number
        if point.what == "launches" and call.correlation is not None:
            self.launched[call.correlation] = self.threads[call.thread]

    def _done_at(self, time: int, launched: int) -> Iterator[int]:
        """The last item of each lane that was launched up to one time and had ended at another."""
        for lanes in self.lanes.values():
            for lane in lanes:
                recent = reversed(lane.items[-MOST_LOOKED_AT:])
                done = (number for when, number in recent if when <= launched and self.ends[number] <= time)
                yield from [number for number in [next(done, None)] if number is not None]

    def _run(self, event: Event, key: int) -> None:
        """What runs on the GPU, after all that it waits for and what is left of a gap."""
        stream, lane = kineto_format.stream_of(event), self.lane_of[event.index]
        after = {
            *([self.launched[event.correlation]] if event.correlation in self.launched else []),
            *self._before_on(stream, event),
            *self._waited_for(stream, event, key),
        }
        communicates = kineto_format.is_communication(event.name)
        if communicates:
            after |= self._current(stream, event)
        elif event.start - self._ended(after) >= LEAST_GAP_PS:
            after |= self._held_by(stream, event, self._ended(after))
        gap = event.start - self._ended(after)
        if gap > 0:
            beside = _IDLE if lane.name == self.main else lane.name
            if lane.name == self.main and any(isinstance(self.items[n].work, COMMUNICATION) for n in after):
                # The main stream waits for communication up to here, and for no longer.
                after = {self._add(f"end of wait before {event.name}", Time(0), after, lane.name, event).number}
            after = {self._add(f"gap before {event.name}", Time(gap), after, beside, event).number}
        work = self.communication.work(event) if communicates else Time(event.end - event.start)
        item = self._add(event.name, work, after, lane.name, event)
        if communicates:
            item.recorded = event.start, event.end
        lane.items.append((key, item.number))
        (self.communicating if communicates else self.computing).append((stream, item))

    def _before_on(self, stream: str, event: Event) -> set[int]:
        """The last items of a stream, or what those waited for that still run."""
        found: set[int] = set()
        for lane in self.lanes[stream]:
            if lane.items:
                last = lane.items[-1][1]
                found |= {last} if self.ends[last] <= event.start else set(self.items[last].after)
        return found

    def _waited_for(self, stream: str, event: Event, key: int) -> set[int]:
        """What an event waits for by `cuda_sync` events that no earlier one of its stream has seen: the last item on
        the other stream that was launched before what is waited for was recorded.
        """
        found: set[int] = set()
        waits = self.syncs.get(stream, [])
        while waits and waits[-1][0] <= (key if waits[-1][1].correlation in self.launches else event.start):
            when, sync = waits.pop()
            record = self.launches.get(_correlation(sync.args.get("wait_on_cuda_event_record_corr_id")))
            until = when if record is None else record.start
            other = f"stream {sync.args.get('wait_on_stream')}"
            for lane in self.lanes.get(other, ()) if other != stream else ():
                place = bisect_right(lane.items, (until, len(self.items)))
                before = reversed(lane.items[max(0, place - MOST_LOOKED_AT) : place])
                ended = (number for _, number in before if self.ends[number] <= event.start)
                found |= {number for number in [next(ended, None)] if number is not None}
        return found

    def _current(self, stream: str, event: Event) -> set[int]:
        """The compute of another stream that was launched last before a collective, and had ended when that began."""
        for other, item in reversed(self.computing[-MOST_LOOKED_AT:]):
            if other != stream and self.ends[item.number] <= event.start:
                return {item.number}
        return set()

    def _held_by(self, stream: str, event: Event, free: int) -> set[int]:
        """The communication of another stream that ended last before an event began, while nothing else held it."""
        recent = [item.number for other, item in self.communicating[-MOST_LOOKED_AT:] if other != stream]
        late = [number for number in recent if free < self.ends[number] <= event.start]
        return {max(late, key=lambda number: self.ends[number])} if late else set()


def _correlation(value: object) -> int:
    """A correlation; 0, which none has, for what is none."""
    return value if type(value) is int else 0
