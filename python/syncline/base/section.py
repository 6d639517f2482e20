"""What all sections of an experiment have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Discriminator, GetJsonSchemaHandler, Tag
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

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema, in which defaults stand as they are written in files: quantities with their units."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        defaults = cls.model_construct()
        for name, info in cls.model_fields.items():
            written = info.alias or name
            if not info.is_required() and "default" in properties.get(written, {}):
                dumped = defaults.model_dump(mode="json", include={name}, by_alias=True)
                properties[written]["default"] = dumped[written]
        return schema


class ModelSection(Section):
    """A section that describes one of the engine's models of the same part: an endpoint, a network backend."""

    PART: ClassVar[str]
    """What experiments, and the engine, call the section."""
    ENGINE_NAMES: ClassVar[Mapping[str, str]] = {}
    """Fields of the engine's description that have other names here."""


def one_of_sections(sections: Mapping[str, type[Section]], key: str, usual: str = "") -> Any:
    """The type of a section that is one of several, by what the file names it under `key`."""

    def tag(value: Any) -> str:
        return str(value.get(key, usual)) if isinstance(value, dict) else str(getattr(value, key, usual))

    return Annotated[reduce(or_, [Annotated[s, Tag(name)] for name, s in sections.items()]), Discriminator(tag)]
