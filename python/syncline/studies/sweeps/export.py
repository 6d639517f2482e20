"""The JSON Schema of sweep files."""

from __future__ import annotations

from typing import Any, Final

from syncline.sections.experiment import NAME_PATTERN
from syncline.studies.sweeps.file import MAX_SEEDS

PATH_PATTERN: Final = r"^(?!(name|description)(\.|$))(?!variants(\.[^.]*)?$)[^.]+(\.[^.]+)*$"
"""The path of a field: keys with dots between them."""


def json_schema() -> dict[str, Any]:
    """The schema; whether paths lead to fields and values are legal, `syncline sweep` knows."""
    text = {"type": "string", "minLength": 1}
    values = {"type": "array", "minItems": 1, "description": "The values of the field."}
    group = _fields(values) | {"minProperties": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Syncline sweep",
        "type": "object",
        "description": "One experiment, or several, for all combinations of values of their fields.",
        "properties": {
            "name": {"type": "string", "pattern": NAME_PATTERN, "description": "Name of the sweep."},
            "description": {"type": "string", "description": "For people."},
            "base": {
                "description": "An experiment file, by its path from here, or the name of a study; or several; "
                "or an experiment.",
                "anyOf": [
                    text,
                    {"type": "array", "items": text, "minItems": 1, "uniqueItems": True},
                    {"type": "object"},
                ],
            },
            "variants": {
                "description": "The variants of the experiments that are simulated; all if not given.",
                "type": "array",
                "items": text,
                "minItems": 1,
                "uniqueItems": True,
            },
            "set": _fields({}) | {"description": "Fields of every point, by their paths."},
            "axes": _fields(values) | {"description": "Fields and their values; each is combined with every other."},
            "zip": {
                "description": "Groups of fields that vary together, with equally long lists of values.",
                "anyOf": [group, {"type": "array", "items": group, "minItems": 1}],
            },
            "seeds": {
                "description": "With how many seeds a simulation that loses frames is run; its row has their medians.",
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_SEEDS,
            },
        },
        "required": ["name", "base"],
        "anyOf": [{"required": ["axes"]}, {"required": ["zip"]}],
        "additionalProperties": False,
    }


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    """A mapping of paths to values of one kind."""
    return {"type": "object", "propertyNames": {"pattern": PATH_PATTERN}, "additionalProperties": value}
