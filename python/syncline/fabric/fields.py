"""Field types: quantities that are read from text with a unit and written back as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from syncline.base import quantities
from syncline.base.quantities import QuantityError
from syncline.fabric import allocation, groups

QUANTITY_ERROR: Final = "quantity"
SAID_ERROR: Final = "said"
"""What is wrong with a value is said elsewhere."""


class Unread:
    """In place of a file that cannot be read, which is said elsewhere."""


@dataclass(frozen=True)
class Accepted:
    """Metadata of a field: what it accepts, in words, and its form in the JSON Schema."""

    text: str
    also: dict[str, Any] | None = None
    """Another form, beside text."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # The description is that of the field where it has one; the comment stays.
        written = {"type": "string", "description": self.text, "$comment": self.text}
        return written if self.also is None else {"anyOf": [written, self.also]}


def refused(message: str, accepted: str) -> PydanticCustomError:
    """The error of a field's value, with what would be accepted."""
    return PydanticCustomError(QUANTITY_ERROR, "{message}", {"message": message, "accepted": accepted})


def said_elsewhere() -> PydanticCustomError:
    """The error of a value whose problems are known already."""
    return PydanticCustomError(SAID_ERROR, "this is wrong")


def _reading(read: Callable[[object], int]) -> BeforeValidator:
    def validate(value: object) -> int:
        try:
            return read(value)
        except QuantityError as error:
            raise refused(error.message, error.accepted) from None

    return BeforeValidator(validate)


def _share(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    try:
        return quantities.share(value)
    except QuantityError as error:
        raise refused(error.message, error.accepted) from None


# Integers in the engine's units. Type checkers see `int`; pydantic sees the annotated forms.
Size = Annotated[
    int,
    _reading(quantities.size),
    PlainSerializer(quantities.SIZE.format, return_type=str),
    Accepted(quantities.SIZE.accepted),
]
SizeOrZero = Annotated[
    int,
    _reading(partial(quantities.size, zero=True)),
    PlainSerializer(quantities.SIZE.format, return_type=str),
    Accepted(quantities.SIZE.accepted),
]
Rate = Annotated[
    int,
    _reading(quantities.rate),
    PlainSerializer(quantities.RATE.format, return_type=str),
    Accepted(quantities.RATE.accepted),
]
Time = Annotated[
    int,
    _reading(quantities.time),
    PlainSerializer(quantities.TIME.format, return_type=str),
    Accepted(quantities.TIME.accepted),
]
TimeOrZero = Annotated[
    int,
    _reading(partial(quantities.time, zero=True)),
    PlainSerializer(quantities.TIME.format, return_type=str),
    Accepted(quantities.TIME.accepted),
]
Frequency = Annotated[
    int,
    _reading(quantities.frequency),
    PlainSerializer(quantities.FREQUENCY.format, return_type=str),
    Accepted(quantities.FREQUENCY.accepted),
]
ComputeRate = Annotated[
    int,
    _reading(quantities.compute_rate),
    PlainSerializer(quantities.COMPUTE.format, return_type=str),
    Accepted(quantities.COMPUTE.accepted),
]
Power = Annotated[
    int,
    _reading(quantities.power),
    PlainSerializer(quantities.POWER.format, return_type=str),
    Accepted(quantities.POWER.accepted),
]
Share = Annotated[
    Fraction,
    BeforeValidator(_share),
    PlainSerializer(quantities.format_share, return_type=str),
    Accepted(quantities.SHARE_ACCEPTED),
]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _numbers(value: object) -> str | None:
    """A list of numbers and ranges as text; None if it is something else."""
    items = value if isinstance(value, list) else [value]
    return ",".join(str(item) for item in items) if all(isinstance(i, str) or _is_number(i) for i in items) else None


def _gpus(value: object) -> str | None:
    text = None if value is None else _numbers(value)
    if value is not None and (text is None or not text.strip()):
        raise refused("this is not a list of GPUs", allocation.ACCEPTED)
    return text


def _groups(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    listed = [_numbers(group) for group in value] if isinstance(value, list) else []
    named = [text for text in listed if text is not None and text.strip()]
    if not named or len(named) != len(listed):
        raise refused("this is not a list of groups", f"a list of lists of NPUs, or {groups.ACCEPTED}")
    return ";".join(named)


GpusText = Annotated[
    str | None,
    BeforeValidator(_gpus),
    Accepted(allocation.ACCEPTED, also={"type": ["array", "null"], "items": {"type": ["integer", "string"]}}),
]
GroupsText = Annotated[
    str | None,
    BeforeValidator(_groups),
    Accepted(
        groups.ACCEPTED,
        also={
            "type": ["array", "null"],
            "items": {"type": ["array", "string"], "items": {"type": ["integer", "string"]}},
            "minItems": 1,
        },
    ),
]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Warps = Annotated[float, Field(ge=0.001, le=64, allow_inf_nan=False)]
"""Warps of an SM, an average over SMs and time; thousandths count."""
SmallCount = Annotated[int, Field(ge=1, le=4096)]

AUTO: Final = -1
"""`auto` on its way to a value that suits the NPU; no complete experiment has it."""


RATE_OR_AUTO_ACCEPTED: Final = f"auto, or {quantities.RATE.accepted}"


def _rate_or_auto(value: object) -> int:
    try:
        return AUTO if value == "auto" else quantities.rate(value)
    except QuantityError as error:
        raise refused(error.message, RATE_OR_AUTO_ACCEPTED) from None


def _count_or_auto(value: object, read: ValidatorFunctionWrapHandler) -> Any:
    return AUTO if value == "auto" else read(value)


RateOrAuto = Annotated[
    int,
    BeforeValidator(_rate_or_auto),
    PlainSerializer(quantities.RATE.format, return_type=str),
    Accepted(RATE_OR_AUTO_ACCEPTED),
]
SmallCountOrAuto = Annotated[
    SmallCount,
    WrapValidator(_count_or_auto),
    Accepted("auto, or a whole number from 1 to 4096", also={"type": "integer", "minimum": 1, "maximum": 4096}),
]
