"""Traces in Perfetto's format as what they show, read with the classes that Perfetto generates of its schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


@dataclass(slots=True)
class Shown:
    """A slice as a viewer has it."""

    process: str
    track: str
    groups: tuple[str, ...]
    name: str
    category: str
    start_ns: int
    end_ns: int = -1
    exact: dict[str, int] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    ends_of_flows: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Read:
    """A trace."""

    slices: list[Shown] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """By name, times in nanoseconds and values."""
    units: dict[str, str] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)


def read(content: bytes) -> Read:
    """A trace; asserts what the format asks for."""
    trace = schema.Trace()
    assert trace.ParseFromString(content) == len(content)
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == len(content), "every field is one of the schema, of its type"
    found = Read()
    tracks: dict[int, Any] = {}
    names: dict[str, dict[int, str]] = {}
    stacks: dict[int, list[Shown]] = {}
    first, *rest = trace.packet
    assert first.sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for kind in ("event_names", "event_categories", "debug_annotation_names"):
        each = getattr(first.interned_data, kind)
        names[kind] = {entry.iid: entry.name for entry in each}
        assert len(names[kind]) == len(each)
        assert 0 not in names[kind]
    before = 0
    for packet in rest:
        assert packet.trusted_packet_sequence_id == first.trusted_packet_sequence_id != 0
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in {0, *tracks}
            assert not track.parent_uuid or track.parent_uuid in tracks
            tracks[track.uuid] = track
            if track.HasField("process"):
                assert track.process.pid > 0
                assert track.process.pid not in found.processes
                found.processes[track.process.pid] = track.process.process_name
            continue
        event = packet.track_event
        assert packet.sequence_flags & schema.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        process, groups = _above(tracks, event.track_uuid)
        track = tracks[event.track_uuid]
        if event.type == schema.TrackEvent.TYPE_INSTANT:
            found.about = _said(event, names["debug_annotation_names"])
            continue
        assert packet.timestamp >= before, "events are in order"
        before = packet.timestamp
        if event.type == schema.TrackEvent.TYPE_COUNTER:
            found.counters.setdefault(track.name, []).append((packet.timestamp, event.double_counter_value))
            counter = track.counter
            found.units[track.name] = counter.unit_name or schema.CounterDescriptor.Unit.Name(counter.unit)
        elif event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
            [category] = event.category_iids
            exact = _said(event, names["debug_annotation_names"])
            shown = Shown(
                process,
                track.name,
                groups,
                names["event_names"][event.name_iid],
                names["event_categories"][category],
                packet.timestamp,
                exact=exact,
                flows=list(event.flow_ids),
                ends_of_flows=list(event.terminating_flow_ids),
            )
            found.slices.append(shown)
            stacks.setdefault(event.track_uuid, []).append(shown)
        else:
            assert event.type == schema.TrackEvent.TYPE_SLICE_END
            stacks[event.track_uuid].pop().end_ns = packet.timestamp
    assert not any(stacks.values()), "every slice ends"
    return found


def _said(event: Any, names: dict[int, str]) -> dict[str, Any]:
    """The annotations of an event: each has one value beside its name."""
    found = {}
    for annotation in event.debug_annotations:
        [found[names[annotation.name_iid]]] = [
            value for field, value in annotation.ListFields() if field.name != "name_iid"
        ]
    return found


def _above(tracks: dict[int, Any], uuid: int) -> tuple[str, tuple[str, ...]]:
    """The process of a track, and the groups between them."""
    groups: list[str] = []
    uuid = tracks[uuid].parent_uuid
    while not tracks[uuid].HasField("process"):
        groups.insert(0, tracks[uuid].name)
        uuid = tracks[uuid].parent_uuid
    return tracks[uuid].process.process_name, tuple(groups)
