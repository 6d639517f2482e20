"""The JSON Schema of figure files."""

from __future__ import annotations

from typing import Any

from syncline.base import described
from syncline.studies.figures.file import Figure


def json_schema() -> dict[str, Any]:
    """The schema; whether columns and runs exist, `syncline figure` knows."""
    schema = described.json_schema(Figure)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Syncline figure"}
