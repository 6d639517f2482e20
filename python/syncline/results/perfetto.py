"""The trace of one variant in Perfetto's own format: packets of Protocol Buffers with track events.

It shows what the trace for Chrome shows, from the same [`timeline`][syncline.results.timeline]: a process per NPU, with
its tracks in groups, arrows as flows, counters with units, times in whole nanoseconds and the exact ones in picoseconds
as annotations where rounding changed them. What is to be known of the trace itself is annotated to an event at time
zero. Names are interned: each is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from syncline.results import perfetto_format as form
from syncline.results.study import Table
from syncline.results.timeline import PS_PER_NS, UTILISATION, Counter, Slice, Timeline, Track, arrows, read, tracks
from syncline.results.trace import MAX_BYTES

MIN_EVENT_BYTES: Final = 30
"""No slice is shorter than this: two packets."""
ABOUT: Final = "about this trace"
_SEQUENCE: Final = 1
_GROUPS: Final = (
    *(("collective", "collectives", "collective"), ("phase", "engine", "phase")),
    *(("sends", "messages", "message"), ("receives", "messages", "message"), ("link", "links", "link")),
    *(("exposed", "", "wait"), ("host", "", "call"), ("stream", "", "kernel"), ("", "", "compute")),
)
"""By how the name of a track begins: the group that it is in, if any, and the category of its events."""
_MARGIN: Final = 0.97
"""Part of what would fit that is kept when a trace is too long."""


def build(tables: Mapping[str, Table], name: str, max_bytes: int = MAX_BYTES, limit: int | None = None) -> bytes:
    """The trace of the variant `name` in at most `max_bytes`. `limit` is the run's `output.trace_limit`."""
    return encode(read(tables, max_bytes // MIN_EVENT_BYTES, limit), name, max_bytes)


def encode(timeline: Timeline, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """A timeline in at most `max_bytes`.

    Too long a trace first loses exact picoseconds, then its counters are averaged over more windows, then the shortest
    slices go, and arrows with either end. What was lost is annotated to the event `about this trace`. Raises
    [`ValueError`] if the limit is too small for anything.
    """
    kept, total = timeline.slices, timeline.notes.get("slices_total", len(timeline.slices))
    exact, merged = len(kept) == total, 1
    while True:
        samples = merged <= timeline.windows
        notes: dict[str, Any] = {
            "variant": name,
            **timeline.notes,
            "slices_total": total,
            "slices_written": len(kept),
            "slices_dropped": total - len(kept),
            "shortest_slice_written_ps": min((s.length_ps for s in kept), default=0),
            "arrows_written": len(arrows(kept)),
            "exact_picoseconds": exact,
            "windows_total": timeline.windows,
            "windows_per_counter_sample": merged if samples else 0,
        }
        written = _Writer(timeline, exact).trace(kept, merged if samples else None, notes)
        if len(written) <= max_bytes:
            return written
        if exact and kept:
            exact = False
        elif samples and (not kept or merged < timeline.windows / 64):
            merged *= 4
        elif kept:
            fits = int(len(kept) * min(_MARGIN, _MARGIN * max_bytes / len(written)))
            longest = sorted(range(len(kept)), key=lambda i: kept[i].length_ps, reverse=True)[:fits]
            kept = [kept[i] for i in sorted(longest)]
        else:
            raise ValueError(f"a trace needs {len(written)} bytes at least, not {max_bytes}")


@dataclass(slots=True)
class _Names:
    """Numbers of names that are written once, from 1."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name."""
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    def write(self, where: Any) -> None:
        """Adds them to a field of interned data."""
        for name, number in self.numbers.items():
            where.add(iid=number, name=_legal(name))


def _legal(text: str) -> str:
    """The text without halves of characters, which UTF-8 has no bytes for."""
    return text.encode("utf-8", "replace").decode("utf-8")


class _Writer:
    """Packets of a trace."""

    def __init__(self, timeline: Timeline, exact: bool) -> None:
        self._timeline = timeline
        self._exact = exact
        self._packet = form.classes()["TracePacket"]
        self._events, self._categories, self._annotations = _Names(), _Names(), _Names()
        self._uuids = 0
        self._descriptors: list[bytes] = []

    def trace(self, slices: Sequence[Slice], merged: int | None, notes: Mapping[str, Any]) -> bytes:
        """All packets, of which the first has the names of all."""
        utilisation = self._process(UTILISATION, 0, -1)
        about = self._about(self._track(ABOUT, utilisation, 0), notes)
        timed: list[tuple[int, bytes]] = []
        for place, counter in enumerate(self._timeline.counters if merged is not None else (), 1):
            timed += self._counter(counter, merged or 1, self._track(counter.name, utilisation, place, counter))
        whole = arrows(slices)
        by_track: dict[Track, list[Slice]] = {}
        for s in slices:
            by_track.setdefault((s.process, s.track), []).append(s)
        processes: dict[int, int] = {}
        groups: dict[tuple[int, str], int] = {}
        for place, (process, track) in enumerate(tracks(slices)):
            if process not in processes:
                of = self._timeline.process(process)
                processes[process] = self._process(of.name, process + 1, of.place)
            parent = processes[process]
            _, group, category = next(found for found in _GROUPS if track.startswith(found[0]))
            if group:
                if (process, group) not in groups:
                    groups[process, group] = self._track(group, parent, place)
                parent = groups[process, group]
            for lane in _lanes(by_track[process, track]):
                timed += self._slices(lane, self._track(track, parent, place), category, whole)
        timed.sort(key=itemgetter(0))  # events of a track keep their order
        first = self._packet(trusted_packet_sequence_id=_SEQUENCE, sequence_flags=form.STATE_CLEARED)
        self._events.write(first.interned_data.event_names)
        self._categories.write(first.interned_data.event_categories)
        self._annotations.write(first.interned_data.debug_annotation_names)
        packets = [first.SerializeToString(), *self._descriptors, about, *(packet for _, packet in timed)]
        return b"".join(b"\x0a" + _varint(len(packet)) + packet for packet in packets)

    def _uuid(self) -> int:
        self._uuids += 1
        return self._uuids

    def _process(self, name: str, pid: int, place: int) -> int:
        packet = self._packet(trusted_packet_sequence_id=_SEQUENCE)
        track = packet.track_descriptor
        track.uuid, track.child_ordering = self._uuid(), form.IN_ORDER
        # Process 0 has a meaning of its own to viewers, so the counters, which are of no NPU, have the last one.
        track.process.pid = pid or 2**31 - 1
        track.process.process_name, track.process.legacy_sort_index = _legal(name), place
        self._descriptors.append(packet.SerializeToString())
        return int(track.uuid)

    def _track(self, name: str, parent: int, place: int, counter: Counter | None = None) -> int:
        packet = self._packet(trusted_packet_sequence_id=_SEQUENCE)
        track = packet.track_descriptor
        track.uuid, track.name, track.parent_uuid, track.sibling_order_rank = self._uuid(), _legal(name), parent, place
        if counter is None:
            track.child_ordering = form.IN_ORDER
        elif counter.unit == "bytes":
            track.counter.unit = form.UNIT_BYTES
        elif counter.unit:
            track.counter.unit_name = counter.unit
        else:
            track.counter.unit = form.UNIT_COUNT
        self._descriptors.append(packet.SerializeToString())
        return int(track.uuid)

    def _event(self, time_ns: int, track: int, kind: int) -> Any:
        packet = self._packet(
            timestamp=max(0, time_ns), trusted_packet_sequence_id=_SEQUENCE, sequence_flags=form.NEEDS_STATE
        )
        packet.track_event.type, packet.track_event.track_uuid = kind, track
        return packet

    def _about(self, track: int, notes: Mapping[str, Any]) -> bytes:
        packet = self._event(0, track, form.INSTANT)
        packet.track_event.name_iid = self._events.number(ABOUT)
        for name, value in notes.items():
            added = packet.track_event.debug_annotations.add(name_iid=self._annotations.number(name))
            if isinstance(value, bool):
                added.bool_value = value
            elif isinstance(value, int):
                added.int_value = value
            else:
                added.string_value = _legal(str(value))
        return bytes(packet.SerializeToString())

    def _counter(self, counter: Counter, merged: int, track: int) -> Iterator[tuple[int, bytes]]:
        for start, value in counter.samples(merged):
            packet = self._event(start, track, form.COUNTER)
            packet.track_event.double_counter_value = value
            yield start, packet.SerializeToString()

    def _slices(
        self, slices: Sequence[Slice], track: int, category: str, whole: set[int]
    ) -> Iterator[tuple[int, bytes]]:
        """Begins and ends of slices that nest."""
        open_: list[int] = []
        number = self._categories.number(category)
        for s in slices:
            while open_ and open_[-1] <= s.start_ps:
                yield self._end(open_.pop(), track)
            start = s.start_ps // PS_PER_NS
            packet = self._event(start, track, form.SLICE_BEGIN)
            event = packet.track_event
            event.name_iid = self._events.number(s.name)
            event.category_iids.append(number)
            if self._exact and (s.start_ps % PS_PER_NS or s.end_ps % PS_PER_NS):
                for name, value in (("start_ps", s.start_ps), ("end_ps", s.end_ps)):
                    event.debug_annotations.add(name_iid=self._annotations.number(name), int_value=value)
            if s.leaves in whole:
                event.flow_ids.append(s.leaves)
            if s.arrives in whole:
                event.terminating_flow_ids.append(s.arrives)
            yield start, packet.SerializeToString()
            open_.append(max(s.end_ps, s.start_ps))
        while open_:
            yield self._end(open_.pop(), track)

    def _end(self, time_ps: int, track: int) -> tuple[int, bytes]:
        end = time_ps // PS_PER_NS
        return end, self._event(end, track, form.SLICE_END).SerializeToString()


def _lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Slices of a track, on as many tracks as it takes for them to nest: one, if nothing is wrong with them."""
    lanes: list[tuple[list[Slice], list[int]]] = []
    for s in slices:
        for _, ends in lanes:
            while ends and ends[-1] <= s.start_ps:
                ends.pop()
        chosen = next((lane for lane in lanes if not lane[1] or s.end_ps <= lane[1][-1]), None)
        if chosen is None:
            chosen = ([], [])
            lanes.append(chosen)
        chosen[0].append(s)
        chosen[1].append(max(s.end_ps, s.start_ps))
    return [lane for lane, _ in lanes]


def _varint(value: int) -> bytes:
    """A length as Protocol Buffers write it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
