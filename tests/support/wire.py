"""Protocol Buffers by hand: just enough to write and read Chakra traces without the package under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = int | bytes
DOUBLE, INT64, BOOL, STRING, BYTES = 3, 9, 27, 29, 31
"""Field numbers of scalar attributes; that of a list is one more."""


def varint(number: int) -> bytes:
    """A number of up to 64 bits; negative ones take ten bytes."""
    number &= 2**64 - 1
    out = b""
    while number > 127:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def entry(number: int, value: int | str | bytes) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number * 8 + 2) + varint(len(data)) + data


def attribute(name: str, value: Any) -> bytes:
    """An attribute of a node."""
    if isinstance(value, list):
        inner = entry(BOOL + 1 if isinstance(value[0], bool) else INT64 + 1, b"".join(entry(1, int(v)) for v in value))
    elif isinstance(value, bool):
        inner = entry(BOOL, int(value))
    elif isinstance(value, int):
        inner = entry(INT64, value)
    else:
        inner = entry(STRING, value)
    return entry(10, entry(1, name) + inner)


def node(
    number: int,
    kind: int,
    name: str = "",
    after: Sequence[int] = (),
    control: Sequence[int] = (),
    us: int = 0,
    inputs: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    start: int = 0,
) -> bytes:
    """A node."""
    found = entry(1, number) + entry(2, name) + entry(3, kind)
    found += b"".join(entry(4, n) for n in control)
    found += entry(5, b"".join(varint(n) for n in after)) if after else b""
    found += entry(6, start) if start else b""
    found += entry(7, us) if us else b""
    found += entry(8, entry(1, inputs)) if inputs is not None else b""
    return found + b"".join(attribute(key, value) for key, value in (attrs or {}).items())


def trace(*nodes: bytes, version: str = "0.0.4") -> bytes:
    """A file."""
    return b"".join(varint(len(message)) + message for message in (entry(1, version), *nodes))


def split(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message: their numbers and values, numbers or bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key % 8 == 0:
            yield key // 8, number()
            continue
        assert key % 8 == 2, key
        length = number()
        assert at + length <= len(data)
        yield key // 8, data[at : at + length]
        at += length


@dataclass
class Read:
    """A node, as it was read."""

    number: int = 0
    name: str = ""
    kind: int = 0
    control: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    us: int = 0
    attrs: dict[str, Any] = field(default_factory=dict)


def messages(data: bytes) -> Iterator[bytes]:
    """The messages of a file."""
    at = 0
    while at < len(data):
        length, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            length += (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield data[at : at + length]
        at += length
    assert at == len(data)


def _numbers(value: Value) -> list[int]:
    """Repeated numbers: one, or several packed."""
    if isinstance(value, int):
        return [value]
    return [
        inner for _, inner in split(b"".join(b"\x08" + piece for piece in _pieces(value))) if isinstance(inner, int)
    ]


def _pieces(packed: bytes) -> Iterator[bytes]:
    begin = 0
    for place, byte in enumerate(packed):
        if byte < 128:
            yield packed[begin : place + 1]
            begin = place + 1


def read(data: bytes) -> list[Read]:
    """The nodes of a file."""
    found: list[Read] = []
    for message in list(messages(data))[1:]:
        made = Read()
        for number, value in split(message):
            if isinstance(value, int):
                match number:
                    case 1:
                        made.number = value
                    case 3:
                        made.kind = value
                    case 7:
                        made.us = value
            if number == 2 and isinstance(value, bytes):
                made.name = value.decode()
            elif number in (4, 5):
                (made.control if number == 4 else made.after).extend(_numbers(value))
            elif number == 10 and isinstance(value, bytes):
                parts = dict(split(value))
                name = parts.pop(1)
                assert isinstance(name, bytes)
                (of,) = parts.items() or [(0, 0)]
                made.attrs[name.decode()] = of[1].decode() if of[0] == STRING and isinstance(of[1], bytes) else of[1]
        found.append(made)
    return found
