"""What all sections of an experiment have in common."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the field to blame, what is wrong, and what would be accepted."""

    path: tuple[str, ...]
    message: str
    accepted: str | None = None


class Section(BaseModel):
    """A mapping of the file. Unknown keys are errors, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema, in which defaults stand as they are written in files: quantities with their units."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        defaults = cls.model_construct()
        for name, info in cls.model_fields.items():
            if not info.is_required() and "default" in properties.get(name, {}):
                properties[name]["default"] = defaults.model_dump(mode="json", include={name})[name]
        return schema
