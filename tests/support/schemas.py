"""JSON Schemas of documents, for tests."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema

from syncline.commands import catalogue

BY_COMMAND = {command: name for name, (command, _) in catalogue.DOCUMENTS.items()}
"""The schema of what each command prints."""


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, but fields that it does not describe are illegal: what a command prints is to be described."""
    whole = copy.deepcopy(schema)
    for part in (whole, *whole.get("$defs", {}).values()):
        if "properties" in part:
            part["additionalProperties"] = False
    return whole


def problems(name: str, document: object) -> list[str]:
    """What is wrong with a document according to a schema, as if that described all of it."""
    validator = jsonschema.Draft202012Validator(closed(catalogue.SCHEMAS[name]()))
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(document)]
