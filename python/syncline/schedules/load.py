"""A file with a schedule, whatever its format: MSCCL's XML or a plan in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline import inputs
from syncline.document import read_text
from syncline.errors import InputError, Problem, shown
from syncline.schedules import msccl_xml, plan
from syncline.schedules.msccl_xml import Site

MAX_BYTES: Final = 64 * 1024 * 1024
ACCEPTED: Final = f"MSCCL XML (an algo element), or JSON with 'format': '{plan.FORMAT}'"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A schedule as the engine takes it, and the lines on which a person finds its parts."""

    file: str
    format: str
    plan_json: str
    lines: dict[Site, int] = field(default_factory=dict)
    warnings: tuple[Problem, ...] = ()


def load(path: Path) -> Loaded:
    """Reads a file. Raises [`InputError`] if it holds no schedule."""
    file = str(path)
    return parse(read_text(inputs.given(path), file, MAX_BYTES), file)


def parse(text: str, file: str) -> Loaded:
    """Reads the text of a file."""
    begin = text.lstrip()[:1]
    if begin == "<":
        document = msccl_xml.read(text, file)
        return Loaded(file, "msccl-xml", json.dumps(document.plan), document.lines, tuple(document.warnings))
    if begin == "{":
        _check_json(text, file)
        return Loaded(file, plan.FORMAT, text)
    raise InputError([Problem(file, 1, "", shown(text[:20]), "this is not a schedule", ACCEPTED)])


def _check_json(text: str, file: str) -> None:
    """Raises unless this is the JSON of a plan; the engine checks what is in it."""

    def refuse(message: str, line: int | None = None, field: str = "", value: object = None) -> InputError:
        return InputError([Problem(file, line, field, shown(value), message, ACCEPTED)])

    try:
        root: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise refuse(f"this is not valid JSON: {error.msg}", error.lineno) from None
    except (RecursionError, ValueError):
        raise refuse("this is not valid JSON: nested too deeply, or with a number beyond all bounds") from None
    if "format" in root:
        if root["format"] != plan.FORMAT:
            raise refuse("this format is not known", None, "format", root["format"])
    elif "gpus" in root:
        raise refuse("MSCCL++ execution plans cannot be verified in this version")
    else:
        raise refuse("this is not a schedule: there is no 'format'")
