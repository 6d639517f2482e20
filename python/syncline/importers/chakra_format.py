"""Chakra execution traces as bytes: messages of Protocol Buffers 3 (package ChakraProtoMsg), each after its length.

The first message is a GlobalMetadata, all others are Nodes, to the end of the file; there is no magic number. A file
may be compressed with gzip. The schema is built here from its field numbers, in a pool of its own, so that neither a
compiler nor a version of generated code is needed and another copy of the schema in the same process does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from syncline.base.errors import InputError, Problem
from syncline.importers.packed import inflated

MAX_BYTES: Final = 512 * 1024 * 1024
"""Most that is read of a trace, compressed or not."""
MOST_NODES: Final = 4_000_000
VERSION: Final = "0.0.4"
ACCEPTED: Final = "a Chakra execution trace: messages of Protocol Buffers, each after its length, gzip or not"

NODE_TYPES: Final = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE"),
    *("COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
"""Types of nodes, by number."""
COLLECTIVES: Final = (
    *("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER"),
    *("BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"),
)
"""Types of collectives, by number."""
_VALUES: Final = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
"""Types of attributes: `<type>_val` has field number 3, 5, ... and `<type>_list` the next one."""
_LONGEST_VARINT: Final = 10


@cache
def _classes() -> dict[str, Any]:
    """The messages, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="ChakraProtoMsg", syntax="proto3")

    def message(name: str, fields: Sequence[tuple[str, int, str, bool]], oneof: str | None = None) -> None:
        made = file.message_type.add(name=name)
        if oneof is not None:
            made.oneof_decl.add(name=oneof)
        for field, number, kind, repeated in fields:
            known = getattr(of, f"TYPE_{kind.upper()}", None)
            label = of.LABEL_REPEATED if repeated else of.LABEL_OPTIONAL
            added = made.field.add(name=field, number=number, label=label, type=known or of.TYPE_MESSAGE)
            if known is None:
                added.type_name = f".ChakraProtoMsg.{kind}"
            if oneof is not None and number > 2:
                added.oneof_index = 0

    lists = {kind: f"{kind.capitalize()}List" for kind in _VALUES}
    for kind, name in lists.items():
        message(name, [("values", 1, kind, True)])
    values = [
        entry
        for place, kind in enumerate(_VALUES)
        for entry in ((f"{kind}_val", 3 + 2 * place, kind, False), (f"{kind}_list", 4 + 2 * place, lists[kind], False))
    ]
    message("AttributeProto", [("name", 1, "string", False), ("doc_string", 2, "string", False), *values], "value")
    message("IOInfo", [("values", 1, "string", False), ("shapes", 2, "string", False), ("types", 3, "string", False)])
    message("GlobalMetadata", [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)])
    message(
        "Node",
        [
            *(("id", 1, "uint64", False), ("name", 2, "string", False)),
            ("type", 3, "int32", False),  # an enumeration on the wire; numbers that are not known are refused by name
            *(("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True)),
            *(("start_time_micros", 6, "uint64", False), ("duration_micros", 7, "uint64", False)),
            *(("inputs", 8, "IOInfo", False), ("outputs", 9, "IOInfo", False)),
            ("attr", 10, "AttributeProto", True),
        ],
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("GlobalMetadata", "Node", "AttributeProto")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in names
    }


def frames(data: bytes, file: str) -> Iterator[tuple[int, bytes]]:
    """The messages of a file with the offsets of their lengths. Raises [`InputError`] with the byte where it breaks."""
    at, end = 0, len(data)
    while at < end:
        begins, length = at, 0
        for place in range(_LONGEST_VARINT + 1):
            if at >= end:
                raise _broken(file, begins, "the file ends within the length of a message")
            if place == _LONGEST_VARINT:
                raise _broken(file, begins, "this is not a length: a number of more than 64 bits")
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        if length > end - at:
            left = end - at
            raise _broken(file, begins, f"a message of {length} bytes begins here, and only {left} bytes follow")
        yield begins, data[at : at + length]
        at += length


def read(content: bytes, file: str) -> tuple[Any, list[tuple[int, Any]]]:
    """The metadata of a trace, and its nodes with their offsets. Raises [`InputError`] with the place of what is
    wrong."""
    from google.protobuf.message import DecodeError

    data = inflated(content, file, MAX_BYTES)
    classes = _classes()
    metadata: Any = None
    nodes: list[tuple[int, Any]] = []
    for at, message in frames(data, file):
        # A trace without metadata begins with a node, whose first field is its number.
        kind = "GlobalMetadata" if metadata is None and message[:1] != b"\x08" else "Node"
        made = classes[kind]()
        try:
            made.ParseFromString(message)
        except DecodeError:
            article = "a node" if kind == "Node" else "the metadata of a trace"
            raise _broken(file, at, f"the message that begins here cannot be read as {article}") from None
        if kind == "GlobalMetadata":
            metadata = made
            continue
        metadata = classes["GlobalMetadata"]() if metadata is None else metadata
        if len(nodes) >= MOST_NODES:
            raise _broken(file, at, f"the trace has more than {MOST_NODES} nodes")
        nodes.append((at, made))
    if metadata is None:
        raise InputError([Problem(file, None, "", None, "the file is empty", ACCEPTED)])
    return metadata, nodes


def attributes(message: Any) -> dict[str, Any]:
    """The attributes of a message: numbers, texts, and lists of them, by name."""
    found: dict[str, Any] = {}
    for attribute in message.attr:
        which = attribute.WhichOneof("value")
        if which is None:
            found[attribute.name] = None
        else:
            value = getattr(attribute, which)
            found[attribute.name] = list(value.values) if which.endswith("_list") else value
    return found


def metadata(attrs: dict[str, tuple[str, Any]]) -> Any:
    """The metadata of a trace, with attributes as `node` takes them."""
    made = _classes()["GlobalMetadata"](version=VERSION)
    _add(made, attrs)
    return made


def node(number: int, name: str, kind: str, deps: tuple[Sequence[int], Sequence[int]], attrs: dict[str, Any]) -> Any:
    """A node with control and data dependencies, and with attributes: by name, a type such as `uint64` and a value,
    which may be a list.
    """
    made = _classes()["Node"](id=number, name=name, type=NODE_TYPES.index(kind), ctrl_deps=deps[0], data_deps=deps[1])
    _add(made, attrs)
    return made


def _add(made: Any, attrs: dict[str, tuple[str, Any]]) -> None:
    for name, (kind, value) in attrs.items():
        attribute = made.attr.add(name=name)
        if isinstance(value, list):
            # A list without values has to be set all the same.
            getattr(attribute, f"{kind}_list").SetInParent()
            getattr(attribute, f"{kind}_list").values.extend(value)
        else:
            setattr(attribute, f"{kind}_val", value)


def written(messages: Sequence[Any]) -> bytes:
    """A file of messages."""
    pieces: list[bytes] = []
    for message in messages:
        data = message.SerializeToString(deterministic=True)
        pieces += [_varint(len(data)), data]
    return b"".join(pieces)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _broken(file: str, at: int, message: str) -> InputError:
    return InputError([Problem(file, None, f"byte {at}", None, message, ACCEPTED)])
