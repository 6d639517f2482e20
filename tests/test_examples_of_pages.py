"""Experiments and models that pages of the documentation show can be run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended

PAGES = Path(__file__).parents[1] / "docs"


def block(page: str, containing: str) -> str:
    """The first YAML block of a page that contains a text."""
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    return next(found for found in blocks if containing in found)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked(command: Callable[..., Ended], text: str) -> None:
    Path("e.yaml").write_text(text)
    ended = command("check", "e.yaml")
    assert ended.status == 0, ended.err


def test_the_division_of_the_page_on_strategies(syncline_command: Callable[..., Ended]) -> None:
    checked(syncline_command, "name: page\n" + block("strategies.md", "parallel:"))


def test_the_model_of_the_page_on_models(syncline_command: Callable[..., Ended]) -> None:
    Path("tiny.yaml").write_text(block("models.md", "name: tiny"))
    rest = "topology: dgx-a100(nodes=1)\nworkload: {model: tiny.yaml, global_batch: 8}\nnetwork: analytical\n"
    checked(syncline_command, f"name: page\n{rest}parallel: {{tensor: 2, sequence: true, pipeline: 2}}\n")


def test_the_search_of_the_page_on_search(syncline_command: Callable[..., Ended]) -> None:
    """Its experiment on a sixteenth of the machine, with one division; those that it lists take a minute."""
    experiment = block("search.md", "search:").partition("search:")[0]
    experiment = experiment.replace("nodes=128", "nodes=8").replace("1536", "16")
    checked(syncline_command, experiment + "parallel: {tensor: 8, pipeline: 8, micro_batch: 1, sequence: true}\n")


def test_the_examples_of_the_page_on_python(capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as a reader would type them."""
    page = (PAGES / "python.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, Any] = {}
    for text in blocks:
        exec(text, names)
    assert {"seed", "topology"} <= set(capsys.readouterr().out.split())
    assert names["verification"].verified
    assert names["page"].startswith("<!DOCTYPE html>")
    assert names["svg"].startswith("<?xml")
    assert names["cancel"].cancelled
