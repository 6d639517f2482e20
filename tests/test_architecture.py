"""The frame of the Python side: what import-linter's contracts in `pyproject.toml` leave open."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import syncline
from syncline.commands import cli
from syncline.commands.cli import table

PACKAGE = Path(syncline.__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def late_imports(path: Path) -> Iterator[str]:
    """Imports of the package's own modules within functions. The engine is one of what is heavy."""
    for function in ast.walk(ast.parse(path.read_text())):
        for node in ast.walk(function) if isinstance(function, FUNCTIONS) else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", None)
                names = [alias.name if module is None else f"{module}.{alias.name}" for alias in node.names]
                own = [name for name in names if name.startswith("syncline") and name != "syncline.core._core"]
                yield from (f"{path.relative_to(PACKAGE)}:{node.lineno}: {name}" for name in own)


def test_imports_of_our_own_stand_at_the_top() -> None:
    """The face of the package and the table of commands import by name, so that little is imported for little."""
    assert [found for path in sorted(PACKAGE.rglob("*.py")) for found in late_imports(path)] == []


def test_a_late_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    path = tmp_path / "late.py"
    path.write_text("def f():\n    import numpy\n    from syncline.core import _core\n    from syncline import base\n")
    assert list(late_imports(path)) == ["late.py:4: syncline.base"]


def test_no_modules_lie_loose() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "_version.py"}


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_the_table_says_of_commands_what_they_say(command: table.Command) -> None:
    whole = typer.main.get_command(cli.app).commands[command.name]  # type: ignore[attr-defined]
    assert inspect.cleandoc(whole.help).split("\n\n")[0].replace("\n", " ") == command.says
    assert whole.name == command.name
