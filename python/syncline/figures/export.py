"""The JSON Schema of figure files."""

from __future__ import annotations

from typing import Any

from syncline.figures.file import Figure


def json_schema() -> dict[str, Any]:
    """The schema; whether columns and runs exist, `syncline figure` knows."""
    schema = Figure.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Syncline figure"}
