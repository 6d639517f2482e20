"""The messages of Perfetto's trace format that traces use (Protocol Buffers, package perfetto.protos).

The schema is built here from the numbers of the fields that are written, in a pool of its own, so that neither a
compiler nor a version of generated code is needed and another copy of the schema in the same process does no harm.
Names and numbers are those of Perfetto's public schema (protos/perfetto/trace/perfetto_trace.proto), and a test reads
what is written with the classes that the project itself generates of it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

PACKAGE: Final = "perfetto.protos"
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
"""Types of events."""
STATE_CLEARED, NEEDS_STATE = 1, 2
"""Flags of a packet: interned names begin anew, or are needed."""
IN_ORDER: Final = 3
"""Children of a track are shown by their rank."""
UNIT_COUNT, UNIT_BYTES = 2, 3
"""Units of counters."""
_MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "EventName": (("iid", 1, "uint64"), ("name", 2, "string")),
    "EventCategory": (("iid", 1, "uint64"), ("name", 2, "string")),
    "DebugAnnotationName": (("iid", 1, "uint64"), ("name", 2, "string")),
    "DebugAnnotation": (
        *(("name_iid", 1, "uint64"), ("bool_value", 2, "bool"), ("int_value", 4, "int64")),
        *(("string_value", 6, "string"), ("name", 10, "string")),
    ),
    "InternedData": (
        ("event_categories", 1, "*EventCategory"),
        ("event_names", 2, "*EventName"),
        ("debug_annotation_names", 3, "*DebugAnnotationName"),
    ),
    "ProcessDescriptor": (("pid", 1, "int32"), ("legacy_sort_index", 3, "int32"), ("process_name", 6, "string")),
    "CounterDescriptor": (("unit", 3, "int32"), ("unit_name", 6, "string")),
    "TrackDescriptor": (
        *(("uuid", 1, "uint64"), ("name", 2, "string"), ("process", 3, "ProcessDescriptor")),
        *(("parent_uuid", 5, "uint64"), ("counter", 8, "CounterDescriptor")),
        *(("child_ordering", 11, "int32"), ("sibling_order_rank", 12, "int32")),
    ),
    "TrackEvent": (
        *(("category_iids", 3, "*uint64"), ("debug_annotations", 4, "*DebugAnnotation"), ("type", 9, "int32")),
        *(("name_iid", 10, "uint64"), ("track_uuid", 11, "uint64"), ("double_counter_value", 44, "double")),
        *(("flow_ids", 47, "*fixed64"), ("terminating_flow_ids", 48, "*fixed64")),
    ),
    "TracePacket": (
        *(("timestamp", 8, "uint64"), ("trusted_packet_sequence_id", 10, "uint32")),
        *(("track_event", 11, "TrackEvent"), ("interned_data", 12, "InternedData"), ("sequence_flags", 13, "uint32")),
        ("track_descriptor", 60, "TrackDescriptor"),
    ),
    "Trace": (("packet", 1, "*TracePacket"),),
}
"""Fields by message: name, number, and type; enumerations are numbers on the wire, and `*` is a repeated field."""


@cache
def classes() -> dict[str, Any]:
    """The messages, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="perfetto_trace.proto", package=PACKAGE, syntax="proto2")
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            label = of.LABEL_REPEATED if kind.startswith("*") else of.LABEL_OPTIONAL
            each = kind.removeprefix("*")
            known = getattr(of, f"TYPE_{each.upper()}", None)
            added = made.field.add(name=name, number=number, label=label, type=known or of.TYPE_MESSAGE)
            if known is None:
                added.type_name = f".{PACKAGE}.{each}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _MESSAGES
    }
