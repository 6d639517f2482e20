"""The JSON Schema of model files."""

from __future__ import annotations

from typing import Any, Final

from syncline.core import facts
from syncline.models import expressions
from syncline.models.file import BETWEEN, LABEL_ACCEPTED, packaged
from syncline.models.model import AXES

_NUMBER: Final[dict[str, Any]] = {
    "type": ["integer", "string", "boolean"],
    "description": f"A number: {expressions.ACCEPTED}.",
}
_NAME: Final[dict[str, Any]] = {"type": ["string", "integer"], "description": f"A name: {LABEL_ACCEPTED}."}
_REPEATED: Final[dict[str, Any]] = {
    "repeat": {"$ref": "#/$defs/number", "description": "How often it is there."},
    "as": {"type": "string", "description": "The name of the number of a repetition, from 0; index if not given."},
    "let": {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/number"},
        "description": "Names for values, each of which may depend on those before.",
    },
}


def json_schema() -> dict[str, Any]:
    """The schema: a model with layers, or one that is like another."""
    text = {"type": "string", "minLength": 1, "maxLength": 2000}
    layers = {"type": "array", "items": {"$ref": "#/$defs/layer"}, "minItems": 1}
    properties = {
        "name": {"$ref": "#/$defs/name"},
        "description": {**text, "description": "What it is."},
        "source": {**text, "description": "Where its shapes were published."},
        "like": {"enum": packaged(), "description": "A model whose layers it has, with other parameters."},
        "parameters": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/number"},
            "description": "Names for numbers that experiments can set.",
        },
        "sequence": {"$ref": "#/$defs/number", "description": "Tokens of a sample by default."},
        "hidden": {"$ref": "#/$defs/number", "description": "Elements between layers for each token."},
        "layers": {**layers, "description": "In the order of the forward pass."},
        "tied": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
            "description": "Pairs of layers that share the table of an embedding.",
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Syncline model",
        "type": "object",
        "properties": properties,
        "required": ["name", "description", "source"],
        "additionalProperties": False,
        "oneOf": [{"required": ["layers"]}, {"required": ["like"]}],
        "$defs": {"number": _NUMBER, "name": _NAME, "layer": _layer(layers), "operator": _operators()},
    }


def _layer(layers: dict[str, Any]) -> dict[str, Any]:
    own = {
        "name": {"type": ["string", "integer"], "description": "Its name, with expressions in braces."},
        "block": {"type": "boolean", "default": True, "description": "Whether it is a block of a pipeline's stages."},
        "operators": {"type": "array", "items": {"$ref": "#/$defs/operator"}, "minItems": 1},
    }
    layer = {"properties": {**own, **_REPEATED}, "required": ["name", "operators"], "additionalProperties": False}
    group = {"properties": {**_REPEATED, "layers": layers}, "required": ["layers"], "additionalProperties": False}
    return {"type": "object", "anyOf": [layer, group]}


def _operators() -> dict[str, Any]:
    """An operator of any kind."""
    kinds = []
    for kind in facts.engine().operators.values():
        sizes = {name: {"$ref": "#/$defs/number"} for name in kind.sizes}
        axes = {axis: {"enum": [*kind.sizes, BETWEEN]} for axis in AXES}
        own = {
            "name": {"$ref": "#/$defs/name"},
            "kind": {"const": kind.name, "description": kind.description},
            "when": {"$ref": "#/$defs/number", "description": "It is there unless this is 0."},
            "split": {"type": "object", "properties": axes, "additionalProperties": False},
        }
        needed = ["kind", *(name for name, size in kind.sizes.items() if not size.is_optional)]
        kinds.append({"properties": {**own, **sizes}, "required": needed, "additionalProperties": False})
    return {"type": "object", "anyOf": kinds}
