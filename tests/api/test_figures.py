"""`syncline.figure`: widths of papers, and sweeps that are given as values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

import syncline

EXPERIMENT: Final[dict[str, Any]] = {
    "name": "tiny",
    "topology": "Ring(4)",
    "workload": {"collective": "all-reduce", "size": "64KiB"},
    "network": "analytical",
}
SWEEP: Final[dict[str, Any]] = {
    "name": "chunks",
    "base": EXPERIMENT,
    "axes": {"collective.chunk": ["16KiB", "32KiB"]},
}
FIGURE: Final[dict[str, Any]] = {
    "name": "mine",
    "title": "Chunks",
    "sweeps": [SWEEP],
    "panels": [{"kind": "bars", "title": "Time", "x": "collective.chunk", "series": "variant", "y": "time_s"}],
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sweep_may_be_a_mapping_and_a_figure_as_wide_as_a_column() -> None:
    found = syncline.figure(FIGURE, threads=1, paper="column", out="again")
    assert len(found.table) == 2
    assert Path("again/chunks.parquet").exists()
    (width,) = re.findall(r'<svg [^>]*width="([\d.]+)pt"', found.svg)
    assert float(width) == pytest.approx(3.3 * 72)


@pytest.mark.parametrize(
    ("given", "known", "said"),
    [
        (FIGURE, {"paper": "poster"}, "arguments: paper: there is no such width"),
        (FIGURE, {"paper": ["column"]}, "arguments: paper: there is no such width"),
        (FIGURE | {"sweeps": [SWEEP | {"axes": 4}]}, {}, "figure: sweeps.0.axes: "),
        (FIGURE | {"sweeps": [3]}, {}, "figure: sweeps.0: this is not text"),
    ],
)
def test_what_is_wrong_with_a_figure_is_said(given: dict[str, Any], known: dict[str, Any], said: str) -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.figure(given, **known)
    assert said in str(caught.value)


def test_a_study_that_was_loaded_is_no_base_of_a_sweep() -> None:
    with pytest.raises(syncline.InputError, match="sweep: base: a study that has been loaded cannot be varied"):
        syncline.sweep(SWEEP | {"base": [syncline.load(EXPERIMENT)]})
