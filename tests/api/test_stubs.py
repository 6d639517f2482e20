"""What a type checker reads is what there is."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import syncline

PACKAGE = Path(__file__).parents[2] / "python"


def test_the_stubs_of_the_engine() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "syncline.core._core", "--concise"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE)}
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr


def test_names_that_are_looked_up_late_are_those_that_a_checker_sees() -> None:
    """`syncline.__init__` says each name three times: where it is, that it is public, and what imports it."""
    tree = ast.parse((PACKAGE / "syncline/__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: (node.module or "").removeprefix("syncline.")
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == syncline._MODULES
    assert sorted([*seen, "__version__"]) == sorted(syncline.__all__)
