"""What is wrong with the value of a field, and what is accepted in its place, in words."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from syncline.base import said
from syncline.base.errors import one_of
from syncline.base.section import Violation
from syncline.fabric.fields import Accepted

TRUTH_WORDS = frozenset({"on", "off", "yes", "no", "y", "n"})
TRUTH_KINDS = frozenset({"bool_type", "bool_parsing"})
WHOLE_KINDS = frozenset({"int_type", "int_from_float"})


def violations(error: ValidationError, path: tuple[str, ...]) -> Iterator[Violation]:
    """What is wrong with a section that stands at `path` of another one."""
    for detail in error.errors(include_url=False):
        at = (*path, *(str(step) for step in detail["loc"]))
        context = detail.get("ctx", {})
        said = context["message"] if "message" in context else message(detail["type"], None, detail["msg"])
        yield Violation(at, said, context.get("accepted"))


def message(kind: str, value: object, fallback: str) -> str:
    """What is wrong with a value, by the kind of the error."""
    if isinstance(value, str) and kind in TRUTH_KINDS and value.lower() in TRUTH_WORDS:
        return "this is text, not a truth value"
    if isinstance(value, str) and kind in WHOLE_KINDS and value.strip("+-").isdigit():
        return "this is text, or a number with leading zeros, not a whole number"
    if kind in said.LENGTHS:
        return f"this is too {said.LENGTHS[kind]}"
    return said.MESSAGES.get(kind, fallback)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def literals(annotation: Any) -> Iterator[Any]:
    """The values that an annotation names."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for argument in get_args(annotation):
            yield from literals(argument)


def accepted_text(info: FieldInfo) -> str | None:
    """What a field accepts, where its type says so in words: quantities do."""
    metadata = [*info.metadata, *_metadata(info.annotation)]
    return next((item.text for item in metadata if isinstance(item, Accepted)), None)


def describe(info: FieldInfo) -> str | None:
    """What a field accepts, from its annotation."""
    metadata = [*info.metadata, *_metadata(info.annotation)]
    if (text := accepted_text(info)) is not None:
        return text
    choices = list(literals(info.annotation))
    if choices:
        return one_of(str(c) for c in choices)
    names = {a for a in inner_types(info.annotation) if isinstance(a, type)}
    if bool in names:
        return "true or false"
    listed = next((part for part in inner_types(info.annotation) if get_origin(part) is list), None)
    if listed is not None:
        least = ", at least one" if any(isinstance(m, MinLen) for m in metadata) else ""
        return f"a list of {_items(listed)}{least}"
    if get_origin(info.annotation) is dict and (free := [one_of(literals(a)) for a in get_args(info.annotation)])[0]:
        return f"a mapping from any of {free[0]} to any of {free[1]}"
    bounds = _bounds(metadata)
    if int in names:
        return f"a whole number{bounds}"
    if float in names:
        return f"a number{bounds}"
    if str in names:
        lengths = [str(m.max_length) for m in metadata if isinstance(m, MaxLen)]
        return "text" + (f" of up to {lengths[0]} characters" if lengths else "")
    keys = dict.fromkeys(key for model in models_in(info.annotation) for key in model.model_fields)
    return f"a mapping with any of the keys {one_of(keys)}" if keys else None


def _items(listed: Any) -> str:
    """What the items of a list are called."""
    (item,) = get_args(listed)
    if choices := list(literals(item)):
        return f"any of {one_of(str(choice) for choice in choices)}"
    if next(models_in(item), None) is not None:
        return "mappings"
    return "whole numbers" if int in inner_types(item) else "items"


def inner_types(annotation: Any) -> Iterator[Any]:
    """An annotation and what it is put together from."""
    yield annotation
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        for argument in get_args(annotation):
            yield from inner_types(argument)
    else:
        yield from get_args(annotation)


def _metadata(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Annotated:
        yield from get_args(annotation)[1:]
    for argument in get_args(annotation):
        yield from _metadata(argument)


def _bounds(metadata: list[Any]) -> str:
    flat = [part for item in metadata for part in (getattr(item, "metadata", None) or [item])]
    low = next((f"from {m.ge}" for m in flat if isinstance(m, Ge)), None)
    above = next((f"above {m.gt}" for m in flat if isinstance(m, Gt)), None)
    high = next((f"to {m.le}" for m in flat if isinstance(m, Le)), None)
    below = next((f"below {m.lt}" for m in flat if isinstance(m, Lt)), None)
    if above and high:
        return f" {above} and up {high}"
    parts = [part for part in (low or above, high or below) if part]
    return " " + " ".join(parts) if parts else ""
