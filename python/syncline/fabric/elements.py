"""Reads XML into elements that know their lines.

On expat itself rather than ElementTree, which forgets lines. Nothing is ever fetched or expanded: a document type or
an entity of its own ends the reading, and size, depth and number of elements are limited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from syncline.base import xml_errors
from syncline.base.errors import InputError, Problem, shown

MAX_BYTES: Final = 8 * 2**20
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 100_000


@dataclass(slots=True)
class Element:
    """A tag, its attributes and what is inside; text is left out."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def get(self, name: str) -> str:
        """An attribute, or nothing."""
        return self.attributes.get(name, "")

    def problem(self, file: str, name: str, message: str, accepted: str | None = None) -> Problem:
        """A problem with an attribute."""
        where = f"{self.tag}.{name}" if name else self.tag
        return Problem(file, self.line, where, shown(self.attributes.get(name)), message, accepted)


def read(data: bytes, file: str) -> Element:
    """The root element. Raises [`InputError`]."""
    if len(data) > MAX_BYTES:
        raise InputError([Problem(file, None, "", None, f"the file is larger than {MAX_BYTES} bytes")])
    reader = _Reader(file)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        message = xml_errors.message(error, [(element.tag, element.line) for element in reader.open])
        raise InputError([Problem(file, error.lineno, "", None, message)]) from None
    except (ValueError, LookupError):
        raise InputError([Problem(file, 1, "", None, "this is not valid XML: unknown encoding")]) from None
    if reader.root is None:
        raise InputError([Problem(file, None, "", None, "the file is empty")])
    return reader.root


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, self.parser.CurrentLineNumber)
        self.count += 1
        if len(self.open) >= MAX_DEPTH:
            raise self._refused(f"nested deeper than {MAX_DEPTH} levels")
        if self.count > MAX_ELEMENTS:
            raise self._refused(f"there are more than {MAX_ELEMENTS} elements")
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, _: str) -> None:
        self.open.pop()

    def _doctype(self, name: str, system: str | None, *_: object) -> None:
        hint = "; this is a file of hwloc, not of NCCL" if "hwloc" in (system or "") else ""
        raise self._refused(f"document types such as {shown(name)} are not accepted{hint}")

    def _entity(self, *_: object) -> None:
        raise self._refused("entities are not accepted")

    def _refused(self, message: str) -> InputError:
        return InputError([Problem(self.file, self.parser.CurrentLineNumber, "", None, message)])
