"""The JSON Schema of experiment files."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel

from syncline.base import described
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.experiment import Experiment
from syncline.sections.networks import NETWORKS


def json_schema() -> dict[str, Any]:
    """The schema: an experiment, and variants that override any part of it.

    A field that every variant brings need not be given above them, so nothing but the name is required at the
    top, and nothing but the name in a variant; `syncline check` knows what is really missing.
    """
    schema = described.json_schema(Experiment)
    _allow_shorthands(schema)
    properties = schema["properties"]
    variant = {key: copy.deepcopy(body) for key, body in properties.items() if key != "calibration"}
    definitions = schema["$defs"]
    definitions["Variant"] = {
        "type": "object",
        "description": "A system to compare: a name, and what differs from the file.",
        "properties": variant,
        "required": ["name"],
        "additionalProperties": False,
    }
    for name, body in definitions.items():
        if name not in ("Variant", "Calibration"):
            body.pop("required", None)
    properties["variants"] = {
        "type": "array",
        "items": {"$ref": "#/$defs/Variant"},
        "minItems": 1,
        "description": "Systems to compare; each is laid over the file.",
    }
    properties["baseline"] = {
        "type": "string",
        "description": "The variant that speed-ups are against; the first if not given.",
    }
    schema["required"] = ["name"]
    schema["title"] = "Syncline experiment"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _allow_shorthands(schema: dict[str, Any]) -> None:
    """`endpoint: ideal` stands for `endpoint: {kind: ideal}`, `network: packet` for its backend. An endpoint is named
    by a word where it needs no further field.
    """
    complete = [name for name, section in ENDPOINTS.items() if not _needed(section)]
    for section, words in (("endpoint", complete), ("network", list(NETWORKS))):
        body = schema["properties"][section]
        choices = body.pop("oneOf", None) or body.pop("anyOf")
        body.pop("discriminator", None)
        body["anyOf"] = [{"enum": words}, *choices]


def _needed(section: type[BaseModel]) -> list[str]:
    """The fields that a section cannot be described without, beside the one that tells which it is."""
    return [name for name, info in section.model_fields.items() if info.is_required() and name != "kind"]
