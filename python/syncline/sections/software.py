"""Constants of the software model, by the name of a class or by the file that has them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from syncline.base.errors import one_of
from syncline.fabric.fields import Accepted, Unread, refused, said_elsewhere
from syncline.nccl import constants
from syncline.nccl.constants import Software


class Named:
    """Constants under the name by which an experiment has them."""

    def __init__(self, name: str, software: Software, content: bytes = b"") -> None:
        self.name, self.software, self.content = name, software, content


def accepted() -> str:
    """What names constants."""
    return f"{one_of(constants.names())}, or the path of a file that calibrate --out has written"


ACCEPTED: Final = "a class of machines, such as a100-nvswitch, or the path of a file that calibrate --out has written"


def _software(value: object) -> Named | None:
    if value is None or isinstance(value, Named):
        return value
    if isinstance(value, Unread):
        raise said_elsewhere()
    if isinstance(value, str) and value in constants.names():
        return Named(value, constants.load(value))
    raise refused("this names no constants of software", accepted())


SoftwareField = Annotated[
    Any,
    PlainValidator(_software),
    PlainSerializer(lambda value: None if value is None else value.name),
    Accepted(ACCEPTED),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 4096}, {"type": "null"}]}),
]
