"""Notebooks of the documentation: executed in a kernel of their own, and brought into the one form that is stored.

The stored form has nothing in it that differs from one execution to the next: no times, no numbers of the kernel, ids
of cells by their places, keys in order. Figures are SVG.
"""

from __future__ import annotations

import difflib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

import nbformat
from nbclient import NotebookClient

FOLDER: Final = Path(__file__).parents[2] / "docs" / "notebooks"
MOST_BYTES: Final = 300_000
TIMEOUT_S: Final = 300
KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}
_TEXTS: Final = ("text/plain", "text/html")
_IMAGES: Final = ("image/svg+xml", "image/png")
_ARGUMENTS: Final = ["--InlineBackend.figure_formats=svg", "--HistoryManager.enabled=False", "--log-level=ERROR"]


def all_notebooks() -> list[Path]:
    """The notebooks, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(text: str, folder: Path) -> str:
    """A notebook, as a text, after all its cells were executed in a folder, in the form that is stored.

    Raises:
        CellExecutionError: A cell fails.
    """
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="nb-") as private:
        settings = {
            # Files that matplotlib writes have no date, and the same ids every time.
            "SOURCE_DATE_EPOCH": "0",
            "MATPLOTLIBRC": str(Path(__file__).parent / "matplotlibrc"),
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "PYTHONHASHSEED": "0",
            "NO_COLOR": "1",
            # Nothing of the home of whoever runs this is read or written.
            "IPYTHONDIR": private,
            "JUPYTER_RUNTIME_DIR": private,
            "JUPYTER_CONFIG_DIR": private,
        }
        with mock.patch.dict(os.environ, settings):
            client = NotebookClient(
                notebook,
                kernel_name=KERNEL["name"],
                timeout=TIMEOUT_S,
                resources={"metadata": {"path": str(folder)}},
                extra_arguments=_ARGUMENTS,
            )
            client.execute()
    return stored(notebook)


def stored(notebook: Mapping[str, Any]) -> str:
    """A notebook in the form that is stored."""
    cells = [_cell(number, cell) for number, cell in enumerate(notebook["cells"], 1)]
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _cell(number: int, cell: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cell_type": cell["cell_type"],
        "id": f"cell-{number:02}",
        "metadata": {},
        "source": _lines(_text(cell["source"])),
    }
    if cell["cell_type"] == "code":
        found["execution_count"] = cell["execution_count"]
        found["outputs"] = [_output(output) for output in _joined(cell["outputs"])]
    return found


def _joined(outputs: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Outputs, of which what a cell prints is one, however it arrived."""
    last: dict[str, Any] | None = None
    for output in outputs:
        each = dict(output)
        if last is not None and each["output_type"] == "stream" and each.get("name") == last.get("name"):
            last["text"] = _text(last["text"]) + _text(each["text"])
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _output(output: Mapping[str, Any]) -> dict[str, Any]:
    if output["output_type"] == "stream":
        return {"name": output["name"], "output_type": "stream", "text": _lines(_text(output["text"]))}
    data = {kind: _lines(_text(output["data"][kind])) for kind in (*_TEXTS, *_IMAGES) if kind in output["data"]}
    found = {"data": data, "metadata": {}, "output_type": output["output_type"]}
    if output["output_type"] == "execute_result":
        found["execution_count"] = output["execution_count"]
    return found


def differences(kept: str, found: str) -> list[str]:
    """What a reader would see that differs: texts line by line, and of figures that there is one."""
    return list(difflib.unified_diff(_readable(kept), _readable(found), "stored", "executed", lineterm="", n=2))


def _readable(text: str) -> list[str]:
    lines: list[str] = []
    for cell in json.loads(text)["cells"]:
        lines += [f"== {cell['id']}", *_text(cell["source"]).split("\n")]
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                lines += [f"-- {output['name']}", *_text(output["text"]).split("\n")]
                continue
            for kind, value in sorted(output["data"].items()):
                lines += [f"-- {kind}", *(_text(value).split("\n") if kind in _TEXTS else [])]
    return lines


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _lines(text: str) -> list[str]:
    """A text as notebooks keep it."""
    return text.splitlines(keepends=True)
