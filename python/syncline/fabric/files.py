"""Reads a fabric from a file, whichever of the formats it is in."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

from syncline.base import document, inputs, json_reading
from syncline.base.errors import InputError, Problem
from syncline.fabric import edges, elements, htsim, matrix, nccl
from syncline.fabric.gpu_products import Stated
from syncline.fabric.graph import Graph

MAX_TEXT: Final = 2**20


def load(path: Path, label: str | None = None) -> Graph:
    """The fabric in a file. Raises [`InputError`] with everything that is wrong."""
    name = str(path) if label is None else label
    return read(content(path, name), name)


def content(path: Path, label: str) -> bytes:
    """What is in a file that may hold a fabric. Raises [`InputError`] if it cannot be read."""
    return inputs.read_bytes(path, label, elements.MAX_BYTES)


def read(data: bytes, file: str, stated: Stated | None = None) -> Graph:
    """The fabric in the content of a file, by what it looks like. What is `stated` beside it matters to files of
    machines of GPUs, where they do not say it.
    """
    if (
        data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        or data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"<"
    ):
        return nccl.read(data, file, stated)
    if len(data) > MAX_TEXT:
        raise InputError([Problem(file, None, "", None, f"the file is larger than {MAX_TEXT} bytes")])
    text = document.decode(data, file)
    if not text.strip():
        raise InputError([Problem(file, None, "", None, "the file is empty", edges.ACCEPTED)])
    if matrix.looks_like(text):
        return matrix.read(text, file, stated)
    if htsim.looks_like(text):
        return htsim.read(text, file)
    return edges.read(_without_tabs(text), file)


def _without_tabs(text: str) -> str:
    """JSON may be indented with tabs, which YAML, as which it is read, does not accept; its strings have none."""
    if "\t" in text and text.lstrip()[:1] in "{[":
        try:
            json_reading.parse(text)
        except json_reading.NotJsonError:
            return text
        return text.replace("\t", " ")
    return text
