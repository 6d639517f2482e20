"""What is said of a file that is no XML, in particular of one that ends too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.parsers import expat

from syncline.base.errors import shown

_AT_THE_END: Final = frozenset(
    {
        expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
        expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
        expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
        expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
    }
)


def message(error: expat.ExpatError, still_open: Sequence[tuple[str, int]]) -> str:
    """The message of an error; `still_open` are the elements that have not ended, with their lines, outermost first."""
    if error.code in _AT_THE_END and still_open:
        tag, line = still_open[-1]
        return f"the XML ends too early: the element '{shown(tag)}' of line {line} has no end"
    return f"this is not valid XML: {expat.errors.messages.get(error.code, 'unreadable')}"
