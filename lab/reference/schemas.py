"""JSON Schemas in words: what a field takes, and its default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lab.reference.markdown import code

Schema = dict[str, Any]
LONGEST: Final = 60
"""Characters of a default that is shown; longer ones are those of a section."""
TOO_LONG: Final = "(long)"
_LIMITS: Final = 2**53
"""Limits beyond this are those of the type."""


def referred(schema: Schema) -> list[str]:
    """The definitions that a field's value may be, or hold."""
    found: list[str] = []
    if "$ref" in schema:
        found.append(schema["$ref"].rpartition("/")[2])
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(key, []):
            found += referred(choice)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += referred(schema[key])
    return list(dict.fromkeys(found))


def takes(schema: Schema, links: Mapping[str, str]) -> str:
    """What a field takes, in words; definitions by their links."""
    if "$comment" in schema:
        return str(schema["$comment"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return links.get(name, "mapping")
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            choices = [takes(choice, links) for choice in schema[key] if choice.get("type") != "null"]
            return " or ".join(dict.fromkeys(filter(None, choices)))
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return _one_of(code(str(value)) for value in schema["enum"] if value is not None)
    return _of_type(schema, links)


def _one_of(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _of_type(schema: Schema, links: Mapping[str, str]) -> str:
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return _one_of(_of_type({**schema, "type": one}, links) for one in kind if one != "null")
    if kind == "array":
        items = schema.get("items", schema.get("prefixItems", [{}])[0])
        inside = takes(items, links) or "values"
        return f"list of ({inside})" if " or " in inside and "enum" not in items else f"list of {inside}"
    if kind == "object":
        values = schema.get("additionalProperties")
        inside = takes(values, links) if isinstance(values, dict) else ""
        return f"mapping to {inside}" if inside else "mapping"
    if kind in ("integer", "number"):
        return _number("whole number" if kind == "integer" else "number", schema)
    return {"boolean": "`true` or `false`", "string": "text"}.get(kind, str(kind))


def _number(word: str, schema: Schema) -> str:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    most = None if most is None or most >= _LIMITS else most
    if least is not None and abs(least) >= _LIMITS:
        least = None
    if least is not None and most is not None:
        return f"{word} from {least} to {most}"
    if least is not None:
        return f"{word} from {least} on" if "minimum" in schema else f"{word} above {least}"
    return word if most is None else f"{word} up to {most}"


def default(schema: Schema, *, required: bool) -> str:
    """The default of a field; none where nothing stands for it."""
    if required:
        return "required"
    value = schema.get("default")
    if value is None or value in ({}, [], ""):
        return ""
    if referred(schema) and isinstance(value, dict):
        kind = value.get("kind", value.get("backend"))
        return code(kind) if kind else ""
    written = value if isinstance(value, str) else json.dumps(value)
    return code(written) if len(written) <= LONGEST else TOO_LONG
