"""A file with a plan, whatever its format: MSCCL's XML, an execution plan of MSCCL++, or JSON that writes out steps or
whole algorithms."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline.base import inputs, json_reading
from syncline.base.document import decode
from syncline.base.errors import InputError, Problem, one_of, shown
from syncline.base.positions import Positions
from syncline.plans import msccl_xml, mscclpp, plan
from syncline.plans.msccl_xml import Site
from syncline.plans.mscclpp import read as mscclpp_read

MAX_BYTES: Final = 64 * 1024 * 1024
ACCEPTED: Final = (
    "MSCCL XML (an algo element), an execution plan of MSCCL++ (JSON with 'gpus'), or JSON with "
    f"'format': '{plan.FORMAT}'"
)
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
    document: Any = field(default=None, repr=False)
    """As `one_sided`, of a type that the schema of experiments need not know."""

    @property
    def one_sided(self) -> mscclpp_read.Document | None:
        """Of an execution plan of MSCCL++: what it says, of which `form` is a schedule."""
        found: mscclpp_read.Document | None = self.document
        return found

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
        root = _json(text, file)
        if "format" not in root:
            return _one_sided(mscclpp_read.read(text, root, file), file, content)
        return Loaded(file, plan.FORMAT, text, root, content, positions=Positions(text))
    raise InputError([Problem(file, 1, "", shown(text[:20]), "this is not a schedule", ACCEPTED)])


def _one_sided(document: mscclpp_read.Document, file: str, content: bytes) -> Loaded:
    """An execution plan of MSCCL++; of one that never ends, the form has nothing but its head."""
    head = {"name": document.plan.name, "collective": document.plan.collective}
    form: dict[str, Any] = head if document.schedule is None else dict(document.schedule)
    warnings = document.warnings
    return Loaded(file, mscclpp.FORMAT, json.dumps(form), form, content, warnings=warnings, document=document)


def _json(text: str, file: str) -> dict[str, Any]:
    """What a text says. Raises unless this is the JSON of a plan, in which the engine checks what is in it, or one of
    MSCCL++."""

    def refuse(
        message: str, line: int | None = None, field: str = "", value: object = None, accepted: str = ACCEPTED
    ) -> InputError:
        return InputError([Problem(file, line, field, shown(value), message, accepted)])

    try:
        root: dict[str, Any] = json_reading.parse(text)
    except json_reading.NotJsonError as error:
        raise refuse(f"this is not valid JSON: {error.reason}", error.line) from None
    if "format" in root:
        if root["format"] != plan.FORMAT:
            raise refuse("this format is not known", None, "format", root["format"])
    elif "gpus" in root:
        return root
    else:
        raise refuse("this is not a schedule: there is no 'format'")
    version = root.get("version", plan.VERSION)
    if type(version) is not int or version not in VERSIONS:
        known = one_of(str(number) for number in VERSIONS)
        line = Positions(text).line(("version",))
        raise refuse("this version of the format is not known", line, "version", version, known)
    return root
