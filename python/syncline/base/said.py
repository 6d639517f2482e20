"""What pydantic finds wrong with a value, in plain words and with what is accepted, for files of any kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

MESSAGES: Final[dict[str, str]] = {
    "missing": "this is missing",
    "literal_error": "this is not known",
    "string_type": "this is not text (if it is meant as text, put it in quotes)",
    "string_pattern_mismatch": "this is not a legal name",
    "bool_type": "this is neither true nor false",
    "int_type": "this is not a whole number",
    "int_from_float": "this is not a whole number",
    "float_type": "this is not a number",
    "finite_number": "this is not a finite number",
    "list_type": "a list is needed",
    "dict_type": "a mapping is needed",
    "model_type": "a mapping is needed",
    "model_attributes_type": "a mapping is needed",
    "greater_than": "this is too small",
    "greater_than_equal": "this is too small",
    "less_than": "this is too large",
    "less_than_equal": "this is too large",
}
"""What a reader is told, by what pydantic calls an error."""
LENGTHS: Final = {
    "too_short": "short",
    "string_too_short": "short",
    "too_long": "long",
    "string_too_long": "long",
}
"""Errors of how long something is, by what it is."""
NAMES: Final[dict[type, tuple[str, str]]] = {str: ("text", "text of"), dict: ("mapping", "a mapping with")}
BOUNDS: Final = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "{} or more"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "{} or less"),
}


def of(details: ErrorDetails) -> tuple[str, str | None]:
    """What is wrong, and what is accepted, where the error tells."""
    kind, context = details["type"], details.get("ctx", {})
    if kind in LENGTHS:
        return _length(details["input"], LENGTHS[kind], context)
    return MESSAGES.get(kind, details["msg"]), _accepted(kind, context)


def _length(value: object, wrong: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """What is said of text, of a list or of a mapping that is too short or too long."""
    name, whole = next((words for kind, words in NAMES.items() if isinstance(value, kind)), ("list", "a list of"))
    message = f"this {name} is too {wrong}" if value or wrong == "long" else f"this {name} is empty"
    limit, count = ("at least", context["min_length"]) if wrong == "short" else ("up to", context["max_length"])
    one, many = ("character", "characters") if name == "text" else ("entry", "entries")
    return message, f"{whole} {limit} {f'one {one}' if count == 1 else f'{count} {many}'}"


def _accepted(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind in BOUNDS:
        key, words = BOUNDS[kind]
        return words.format(f"{context[key]:g}")
    if kind == "literal_error":
        return ", ".join(word for word in re.findall(r"'([^']*)'", context["expected"]) if word) or None
    return "true, false" if kind == "bool_type" else None
