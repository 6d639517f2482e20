"""The page of the fields of all documents that commands print, made of their JSON Schemas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from lab.reference import schemas
from lab.reference.markdown import GENERATED, anchor, code, sentence, table
from lab.reference.schemas import Schema
from syncline.commands import catalogue

HEAD: Final = f"""# Fields of documents

{GENERATED} `syncline schema NAME` prints the JSON Schema of each. What holds for
all documents, and which versions can be read, is on the page on [documents](../documents.md).

Every field may be absent unless the schema says that it is required; numbers are in the unit that their name ends with
(`_s`, `_bytes`, `_bytes_per_s`), and those without are counts, shares or ratios.
"""
SHARED: Final = 2
"""A part of so many documents has a section of its own, at the end."""


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    documents = {name: catalogue.SCHEMAS[name]() for name in catalogue.SCHEMAS if name not in catalogue.FILES}
    shared = _shared(documents)
    links = {name: f"[{name}](#{anchor(_title(name))})" for name in shared}
    yield from table(("document", "of"), ((f"[`{name}`](#{anchor(name)})", _of(name)) for name in documents))
    for name, schema in documents.items():
        yield f"## `{name}`\n"
        yield f"{_of(name)}\n"
        own = {part: body for part, body in schema.get("$defs", {}).items() if part not in shared}
        known = links | {part: f"[{part}](#{anchor(f'{name}-{part}')})" for part in own}
        yield from _table(schema, known)
        for part, body in own.items():
            yield f"### {part} of `{name}` {{ #{anchor(f'{name}-{part}')} }}\n"
            yield from _part(body, known)
    yield "## Parts of several documents\n"
    for name, body in shared.items():
        yield f"### {_title(name)}\n"
        yield from _part(body, links)


def _title(part: str) -> str:
    return f"Part {part}"


def _of(name: str) -> str:
    if name in catalogue.DOCUMENTS:
        return f"What `syncline {catalogue.DOCUMENTS[name][0]} --json` prints."
    return {
        "errors": "What every command prints with `--json` on standard error, where its input is wrong.",
        "manifest": "`manifest.json` in the directory of a run.",
    }[name]


def _shared(documents: Mapping[str, Schema]) -> dict[str, Schema]:
    """Parts that are the same in several documents, and in no other document something else."""
    forms: dict[str, Counter[str]] = {}
    for schema in documents.values():
        for part, body in schema.get("$defs", {}).items():
            forms.setdefault(part, Counter())[json.dumps(body, sort_keys=True)] += 1
    return {
        part: json.loads(next(iter(of))) for part, of in sorted(forms.items()) if len(of) == 1 and of.total() >= SHARED
    }


def _part(body: Schema, links: Mapping[str, str]) -> Iterator[str]:
    if body.get("description"):
        yield f"{sentence(' '.join(body['description'].split()))}\n"
    yield from _table(body, links)


def _table(schema: Schema, links: Mapping[str, str]) -> Iterator[str]:
    required = schema.get("required", [])
    rows = [
        (
            code(key) + (", required" if key in required else ""),
            schemas.takes(body, links),
            sentence(" ".join(body.get("description", "").split())),
        )
        for key, body in schema.get("properties", {}).items()
    ]
    yield from table(("field", "value", "meaning"), rows)
