"""Pages of reports: read, checked and taken apart."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects what matters."""

    VOID = frozenset({"meta", "link", "br", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.addresses += [found[k] or "" for k in ("src", "href") if k in found]
        self.scripts += tag == "script"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def check_page(page: str) -> Reader:
    """A page that is well formed and refers to nothing outside."""
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.scripts == (4 if charts_of(page) else 3)  # without charts there is no plotly
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(a.startswith("#") or a == "data:," for a in reader.addresses)
    return reader


def charts_of(page: str) -> dict[str, Any]:
    """The charts that the page embeds."""
    found = re.search(r'<script type="text/plain" id="charts">(.*?)</script>', page, re.S)
    assert found is not None
    charts: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1]))) if found[1] else {}
    return charts
