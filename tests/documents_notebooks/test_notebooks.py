"""Every notebook of the documentation, executed; and that the comparison sees what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError

from .notebooks import MOST_BYTES, all_notebooks, differences, executed, stored


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored(path: Path, tmp_path: Path) -> None:
    kept = path.read_text(encoding="utf-8")
    found = executed(kept, tmp_path)
    assert not differences(kept, found), "\n".join(
        [*differences(kept, found), "`python -m tests.documents_notebooks --update` stores what was executed"]
    )


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_stored_in_its_one_form_and_small(path: Path) -> None:
    kept = path.read_text(encoding="utf-8")
    assert stored(json.loads(kept)) == kept
    assert len(kept.encode()) < MOST_BYTES
    cells = [cell for cell in json.loads(kept)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/svg+xml" in output.get("data", {}) for cell in cells for output in cell["outputs"])


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_can_be_run_again_where_its_files_are(path: Path) -> None:
    """Executing each twice would take too long: a folder that is made is what fails."""
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert not [source for source in sources if "mkdir(" in source and "exist_ok=True" not in source]


def test_there_are_notebooks() -> None:
    assert {path.stem for path in all_notebooks()} >= {"compare_endpoints", "dgx_cluster", "import_and_sweep"}


def notebook(*sources: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": f"x{at}", "source": source} for at, source in enumerate(sources)]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_an_execution_has_one_form_and_what_differs_is_seen(tmp_path: Path) -> None:
    figure = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2], label='a')"
    text = stored(notebook("print('one')\nprint('two')", "{'b': 1, 'a': 2}", figure))
    found = executed(text, tmp_path)
    assert stored(json.loads(found)) == found
    printed, shown, drawn = (cell["outputs"] for cell in json.loads(found)["cells"])
    assert printed == [{"name": "stdout", "output_type": "stream", "text": ["one\n", "two\n"]}]
    assert shown[0]["data"] == {"text/plain": ["{'b': 1, 'a': 2}"]}
    assert "image/svg+xml" in drawn[0]["data"]
    assert not differences(found, found)
    for wrong in (found.replace("two", "three"), found.replace("'b': 1, 'a'", "'b': 1, 'c'"), text):
        assert differences(wrong, found)
    moved = found.replace('"M ', '"M 1 1 L ', 1)
    assert not differences(moved, found)  # of figures, what they look like is not compared


def test_a_cell_that_fails_fails(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(stored(notebook("1 / 0")), tmp_path)
