"""Pages of the keys of files that commands read, made of their JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from lab.reference import schemas
from lab.reference.markdown import GENERATED, anchor, code, sentence, table
from lab.reference.schemas import Schema
from syncline.commands import catalogue

TITLES: Final = {
    "experiment": "Keys of an experiment",
    "sweep": "Keys of a sweep",
    "search": "Keys of a search",
    "figure": "Keys of a figure",
    "plan": "Keys of a plan",
    "graph": "Keys of a graph",
    "model": "Keys of a model",
}
"""The pages, by the file that each is about."""
SAYS: Final = {
    "experiment": "An experiment is read by `run`, `check`, `explain`, `fit` and others\n"
    "([experiments](../experiments.md)). `variants` are a list of mappings, each with a `name` and any of the keys\n"
    "below, which take the place of those at the top. With `--set`, and in sweeps, keys are named by their paths:\n"
    "`collective.chunk`, `training.stragglers.0.factor`, `variants.Engine.endpoint.fsms`. Quantities carry\n"
    "[units](units.md).",
    "sweep": "A sweep is read by `syncline sweep` ([sweeps](../sweeps.md)).",
    "search": "A search is an [experiment](experiment.md) with a section `search`, read by `syncline search` "
    "([search](../search.md)). What an axis is not given for is as the experiment says.",
    "figure": "A figure file is read by `syncline figure` ([figures](../figures.md)).",
    "plan": "A plan of version 2 of `syncline-plan` is read by `verify` and wherever `--plan` is; `export` writes it "
    "([schedules](../schedules.md)).",
    "graph": "A graph is named by `workload: {graph: FILE}` ([graphs](../graphs.md)).",
    "model": "A model is named by `workload: {model: FILE}` ([models](../models.md)).",
}
TAGS: Final = ("kind", "backend")
"""Keys that say which of several kinds a section is."""
HIDDEN: Final = ("Variant",)
"""Definitions that repeat what stands elsewhere."""
LONG: Final = 240
"""Characters of a cell; longer texts stand below the table."""


def page(name: str) -> str:
    """The page of a file."""
    schema = catalogue.FILES[name]()
    head = f"# {TITLES[name]}\n\n{GENERATED} `syncline schema {name}` prints the JSON Schema.\n\n{SAYS[name]}\n"
    return "\n".join([head, *_Page(name, schema).sections()])


class _Page:
    """Sections of a page: one for every mapping, under the path of the key that has it."""

    def __init__(self, name: str, schema: Schema) -> None:
        self._name = name
        self._definitions: dict[str, Schema] = {
            key: body for key, body in schema.get("$defs", {}).items() if key not in HIDDEN
        }
        self._titles: dict[str, str] = {}
        self._order: list[str] = []
        self._top = schema
        properties = dict(schema.get("properties", {}))
        if name == "search":
            properties = {"search": properties["search"]}
        self._properties = properties
        self._inline: dict[str, Schema] = {}
        self._name_sections("", properties)

    def _name_sections(self, path: str, properties: dict[str, Schema]) -> None:
        """Gives every definition the path under which it is met first, parents before their children."""
        met: list[tuple[str, Schema]] = []
        for key, body in properties.items():
            within = f"{path}.{key}" if path else key
            if "properties" in body:
                self._inline[within] = body
                met.append((within, body))
                continue
            names = [one for one in schemas.referred(body) if one in self._definitions and one not in self._titles]
            items = "[]" if body.get("type") == "array" or _is_list(body) else ""
            several = len(names) > 1
            for one in names:
                tag = _tag(self._definitions[one]) or _told_by(one, self._definitions[one])
                self._titles[one] = f"{within}{items}: {tag}" if several else f"{within}{items}"
                self._order.append(one)
                met.append((f"{within}{items}", self._definitions[one]))
        for within, body in met:
            self._name_sections(within, body.get("properties", {}))

    def sections(self) -> Iterator[str]:
        """The table of the top, and those of all sections."""
        if self._properties and self._name != "search":
            yield "## At the top\n"
            yield from self._table(self._properties, self._top.get("required", []))
        for path, body in self._inline.items():
            yield f"## `{path}`\n"
            yield from self._section(body)
        for name in self._order:
            path, _, kind = self._titles[name].partition(": ")
            yield f"## `{path}`: {kind}\n" if kind else f"## `{path}`\n"
            yield from self._section(self._definitions[name])

    def _section(self, body: Schema) -> Iterator[str]:
        if body.get("description"):
            yield f"{sentence(_flat(body['description']))}\n"
        if "properties" in body:
            yield from self._table(body["properties"], body.get("required", []))
        elif says := schemas.takes(body, self._links()):
            yield f"{sentence(says)}\n"

    def _says(self, body: Schema) -> str:
        """What a key means; where nothing is said, that is what its mapping is."""
        names = schemas.referred(body)
        usual = self._definitions.get(names[0], {}).get("description", "") if len(names) == 1 else ""
        return str(body.get("description", usual))

    def _is_needed(self, key: str, body: Schema) -> bool:
        """Whether a key of an experiment has to be given, there or by every variant; its schema requires nothing, since
        one of the two is enough.
        """
        return self._name == "experiment" and "default" not in body and key not in ("variants", "baseline")

    def _links(self) -> dict[str, str]:
        found = {}
        for name, title in self._titles.items():
            path, _, kind = title.partition(": ")
            heading = f"`{path}`: {kind}" if kind else f"`{path}`"
            found[name] = f"[{kind or 'mapping'}](#{anchor(heading)})"
        return found

    def _table(self, properties: dict[str, Schema], required: list[str]) -> Iterator[str]:
        links = self._links()
        rows: list[tuple[str, str, str, str]] = []
        below: list[str] = []
        for key, body in properties.items():
            says = sentence(_flat(self._says(body)))
            takes = "mapping" if "properties" in body else schemas.takes(body, links)
            if key == "topology" and self._name in ("experiment", "search"):
                takes = "[topology](topologies.md)" if self._name == "experiment" else takes
            if len(says) > LONG:
                below.append(f"* `{key}`: {says}")
                says = "See below."
            if len(takes) > LONG:
                below.append(f"* `{key}` takes {takes}.")
                takes = "see below"
            default = schemas.default(body, required=key in required or self._is_needed(key, body))
            if default == schemas.TOO_LONG:
                below.append(f"* The default of `{key}` is {code(json.dumps(body['default']))}.")
                default = "see below"
            rows.append((code(key), takes, default, says))
        yield from table(("key", "takes", "default", "meaning"), rows)
        if below:
            yield from below
            yield ""


def _is_list(body: Schema) -> bool:
    return any(choice.get("type") == "array" for key in ("anyOf", "oneOf") for choice in body.get(key, []))


def _tag(body: Schema) -> str:
    """The word that says that a section is of this kind."""
    for key in TAGS:
        tag: Any = body.get("properties", {}).get(key, {})
        if "const" in tag:
            return str(tag["const"])
    return ""


def _told_by(name: str, body: Schema) -> str:
    """What tells a section from others, where no word does: the first key that it needs."""
    needed = [key for key, field in body.get("properties", {}).items() if "default" not in field]
    return f"with {' and '.join(needed)}" if needed else name


def _flat(text: str) -> str:
    return " ".join(text.split())
