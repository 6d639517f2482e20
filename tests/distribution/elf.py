"""What a shared library asks of a system: read from the ELF file itself, with no tool.

The layout is that of the System V ABI (gABI 4.1, chapters 4 and 5) and of the GNU extension for versions of symbols
(LSB core, "Symbol versioning"). Only what is in use is read: 64 bits, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x7fELF\x02\x01"
MACHINES: Final = {62: "x86_64", 183: "aarch64"}
DYNSYM, DYNAMIC, VERNEED = 11, 6, 0x6FFFFFFE
DT_NEEDED: Final = 1


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library."""

    machine: str
    needed: tuple[str, ...]
    """Libraries that have to be there."""
    versions: frozenset[str]
    """Versions of their symbols: `GLIBC_2.17`."""
    imported: frozenset[str]
    """Symbols that others have to define."""

    @property
    def glibc(self) -> tuple[int, ...]:
        """The oldest glibc that has all versions; `(0,)` if none is named."""
        named = (version.removeprefix("GLIBC_") for version in self.versions if version.startswith("GLIBC_"))
        return max((tuple(int(part) for part in version.split(".")) for version in named), default=(0,))


def read(data: bytes) -> Library:
    """Reads a library. Raises [`ValueError`] for what is none, or of another kind."""
    if not data.startswith(MAGIC):
        raise ValueError("this is no ELF file of 64 bits, little-endian")
    (machine,) = struct.unpack_from("<H", data, 18)
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [_section(data, table + i * size) for i in range(count)]
    needed: list[str] = []
    versions: list[str] = []
    imported: list[str] = []
    for section in sections:
        text = sections[section.link] if section.link < len(sections) else section
        if section.kind == DYNAMIC:
            for at in range(section.offset, section.offset + section.size, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == DT_NEEDED:
                    needed.append(_text(data, text.offset + value))
        elif section.kind == VERNEED:
            versions += _versions(data, section, text)
        elif section.kind == DYNSYM:
            for at in range(section.offset + section.entry, section.offset + section.size, section.entry):
                name, _, _, defined_in = struct.unpack_from("<IBBH", data, at)
                if defined_in == 0:
                    imported.append(_text(data, text.offset + name))
    named = MACHINES.get(machine, str(machine))
    return Library(named, tuple(needed), frozenset(versions), frozenset(imported))


def _section(data: bytes, at: int) -> _Section:
    _, kind, _, _, offset, size, link, info, _, entry = struct.unpack_from("<IIQQQQIIQQ", data, at)
    return _Section(kind, offset, size, link, info, entry)


def _versions(data: bytes, section: _Section, text: _Section) -> Iterator[str]:
    at = section.offset
    for _ in range(section.info):
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        inner = at + first
        for _ in range(count):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, inner)
            yield _text(data, text.offset + name)
            inner += step
        at += following


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
