"""The types of experiments for editors and type checkers, written from the JSON Schema of experiment files.

    python -m lab.reference.typed > python/syncline/sections/typed.py

prints the module `syncline.sections.typed`, which `ruff format` then lays out. The schema knows what a file accepts,
which is text where the experiment itself has integers with units; so these types are those of the schema, and a test
holds the module equal to what is printed here.
"""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Schema = Mapping[str, Any]

WIDTH: Final = 110
HEAD: Final = '''"""Experiments as objects: what a file accepts, with completion in editors.

`python -m lab.reference.typed` has written this module from the JSON Schema of experiment files; it is not edited by
hand. Sections are mappings as in a file, which these types describe; a section may also be made by its type, as
`AceEndpoint(kind="ace", fsms=8)`, which is the same mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict
'''
CLASS_HEAD: Final = '''
class Experiment:
    """An experiment, given as values: what a file says, field by field.

    Quantities are text with a unit, such as `"64KiB"` or `"25GB/s"`. A field that is `None` has its default, but for
    `topology` and `workload`, which have none. Nothing is checked when this is made, not even that these two are given:
    what loads, checks or runs it raises one [`syncline.InputError`] with all that is wrong and missing.
'''
CLASS_TAIL: Final = '''
        self._values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"Experiment({', '.join(f'{key}={value!r}' for key, value in self._values.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._values == other._values

    def __hash__(self) -> int:
        return hash(repr(self))

    def as_mapping(self) -> dict[str, Any]:
        """The experiment as a mapping, with the fields that are given."""
        return dict(self._values)
'''
SIMPLE: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def module() -> str:
    """The text of the module, before it is laid out."""
    from syncline.experiment import export

    schema = export.json_schema()
    sections: dict[str, str] = {}
    for name, body in schema["$defs"].items():
        sections[name] = "".join(_section(name, body, sections))
    experiment = "".join(_experiment(schema, sections))
    return HEAD + "\n" + "\n\n".join(sections.values()) + "\n" + CLASS_HEAD + experiment + CLASS_TAIL


def _section(name: str, body: Schema, sections: dict[str, str]) -> Iterator[str]:
    """A section as a `TypedDict`; sections that are described within it are added to `sections`."""
    properties = body.get("properties", {})
    types = {key: _type(each, f"{name}{_title(key)}", sections) for key, each in properties.items()}
    if any(not key.isidentifier() or keyword.iskeyword(key) for key in types):
        yield f"{name} = TypedDict(\n    {name!r},\n    {{\n"
        for key, of in types.items():
            yield f"        {key!r}: {of!r},\n"
        yield "    },\n    total=False,\n)\n"
        yield _docstring(_described(body, properties), "")
        return
    yield f"class {name}(TypedDict, total=False):\n"
    yield _docstring(body.get("description") or f"The section {name}.", "    ")
    for key, of in types.items():
        yield f"    {key}: {of}\n"
        if "description" in properties[key]:
            yield _docstring(properties[key]["description"], "    ")


def _described(body: Schema, properties: Mapping[str, Schema]) -> str:
    """What a section and its fields mean, where fields cannot say so themselves."""
    fields = "; ".join(
        f"`{key}`: {each['description'].rstrip('.')}" for key, each in properties.items() if "description" in each
    )
    return f"{body.get('description', '')} {fields}.".strip()


def _experiment(schema: Schema, sections: dict[str, str]) -> Iterator[str]:
    """The class of the experiment up to where it takes its values."""
    properties: Mapping[str, Schema] = schema["properties"]
    types = {key: _type(each, _title(key), sections) for key, each in properties.items()}
    yield "\n    Arguments:\n"
    for key, each in properties.items():
        yield textwrap.fill(
            f"{key}: {_meaning(each, schema)}", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12
        )
        yield "\n"
    yield '    """\n\n    __slots__ = ("_values",)\n\n    def __init__(\n        self,\n'
    yield '        name: str = "experiment",\n        *,\n'
    for key, of in types.items():
        if key != "name":
            yield f"        {key}: {of if of.endswith('| None') else f'{of} | None'} = None,\n"
    yield "    ) -> None:\n        given: dict[str, Any] = {\n"
    for key in properties:
        yield f"            {key!r}: {key},\n"
    yield "        }"


def _meaning(body: Schema, schema: Schema) -> str:
    """What a field of the experiment means; where it does not say, what its section means."""
    section = schema["$defs"].get(str(body.get("$ref", "")).rpartition("/")[2], {})
    return " ".join(str(body.get("description") or section.get("description") or "").split())


def _type(body: Schema, name: str, sections: dict[str, str]) -> str:
    """The type of what a schema accepts; `name` is for a section that is described within it."""
    if "$ref" in body:
        return str(body["$ref"]).rpartition("/")[2]
    if "const" in body:
        return f"Literal[{body['const']!r}]"
    if "enum" in body:
        return f"Literal[{', '.join(repr(value) for value in body['enum'])}]"
    for key in ("anyOf", "oneOf"):
        if key in body:
            has_words = any("enum" in each for each in body[key])  # other spellings of words are for files alone
            each_of = [each for each in body[key] if not (has_words and "pattern" in each)]
            return _union([_type(each, name, sections) for each in each_of])
    kinds = body.get("type", [])
    return _union([_of_kind(kind, body, name, sections) for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def _of_kind(kind: str, body: Schema, name: str, sections: dict[str, str]) -> str:
    if kind == "array":
        return f"Sequence[{_type(body.get('items', {}), name, sections)}]"
    if kind != "object":
        return SIMPLE[kind]
    if "properties" in body:
        own = name + _title(next(iter(body["properties"])))
        sections[own] = "".join(_section(own, body, sections))
        return own
    below = body.get("additionalProperties")
    return f"Mapping[str, {_type(below, name, sections) if isinstance(below, Mapping) else 'Any'}]"


def _union(types: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(types)) or "Any"


def _title(key: str) -> str:
    return "".join(word.title() for word in key.split("_"))


def _docstring(text: str, indent: str) -> str:
    body = textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent=indent)
    last = "\n" + indent if "\n" in body else ""
    return f'{indent}"""{body}{last}"""\n'


if __name__ == "__main__":
    print(module(), end="")
