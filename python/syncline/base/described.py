"""JSON Schemas in which each field is described by the docstring below it.

pydantic's `use_attribute_docstrings` reads the sources of all models when they are imported, which was a fifth of the
CPU time that a command takes to start. Here they are read where a JSON Schema is made.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a model and of all models in it."""
    return model.model_json_schema(schema_generator=_DescribedSchema)


@cache
def _docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Docstrings of the fields that a model declares itself, by the name of the field."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


class _DescribedSchema(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for model in reversed(schema["cls"].__mro__):
            if issubclass(model, BaseModel) and model is not BaseModel:
                for name, text in _docstrings(model).items():
                    field = model.model_fields.get(name)
                    if field is not None and (written := field.alias or name) in properties:
                        properties[written]["description"] = field.description or text
        return found
