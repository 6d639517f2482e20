"""A file with a plan, whatever its format: MSCCL's XML, or JSON that writes out steps or whole algorithms."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline import inputs
from syncline.document import decode
from syncline.errors import InputError, Problem, one_of, shown
from syncline.schedules import msccl_xml, plan
from syncline.schedules.msccl_xml import Site
from syncline.schedules.positions import Positions

MAX_BYTES: Final = 64 * 1024 * 1024
ACCEPTED: Final = f"MSCCL XML (an algo element), or JSON with 'format': '{plan.FORMAT}'"
VERSIONS: Final = (plan.VERSION, plan.PLAN_VERSION)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plan as the engine takes it, and the lines on which a person finds its parts."""

    file: str
    format: str
    plan_json: str
    """What the engine is told; of JSON, as it was written."""
    form: dict[str, Any] = field(repr=False)
    """The same, read."""
    content: bytes = field(repr=False)
    lines: dict[Site, int] = field(default_factory=dict, repr=False)
    """Of XML: where ranks, thread blocks and steps stand."""
    positions: Positions | None = field(default=None, repr=False)
    """Of JSON: where anything stands."""
    warnings: tuple[Problem, ...] = ()

    @property
    def is_schedule(self) -> bool:
        """Whether it writes out all steps of all ranks, with buffers and thread blocks (version 1, XML)."""
        return self.form.get("version") != plan.PLAN_VERSION

    @property
    def name(self) -> str:
        """What people call it: the name in the file, or that of the file."""
        name = self.form.get("name")
        return name if isinstance(name, str) and name.strip() else Path(self.file).name


def load(path: Path) -> Loaded:
    """Reads a file. Raises [`InputError`] if it holds no plan."""
    return read(inputs.given(path), str(path))


def read(path: Path, label: str) -> Loaded:
    """Reads the file at `path`, which is called `label`. Raises [`InputError`] if it holds no plan."""
    return parse(inputs.read_bytes(path, label, MAX_BYTES), label)


def parse(content: bytes, file: str) -> Loaded:
    """Reads the content of a file."""
    text = decode(content, file)
    begin = text.lstrip()[:1]
    if begin == "<":
        document = msccl_xml.read(text, file)
        form: dict[str, Any] = dict(document.plan)
        warnings = tuple(document.warnings)
        return Loaded(file, "msccl-xml", json.dumps(form), form, content, document.lines, warnings=warnings)
    if begin == "{":
        return Loaded(file, plan.FORMAT, text, _json(text, file), content, positions=Positions(text))
    raise InputError([Problem(file, 1, "", shown(text[:20]), "this is not a schedule", ACCEPTED)])


def _json(text: str, file: str) -> dict[str, Any]:
    """What a text says. Raises unless this is the JSON of a plan; the engine checks what is in it."""

    def refuse(
        message: str, line: int | None = None, field: str = "", value: object = None, accepted: str = ACCEPTED
    ) -> InputError:
        return InputError([Problem(file, line, field, shown(value), message, accepted)])

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
    version = root.get("version", plan.VERSION)
    if type(version) is not int or version not in VERSIONS:
        known = one_of(str(number) for number in VERSIONS)
        line = Positions(text).line(("version",))
        raise refuse("this version of the format is not known", line, "version", version, known)
    return root
