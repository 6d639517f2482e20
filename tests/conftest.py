"""What all tests share: a stand-in for the engine, and the command line as a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import syncline
from support import fake_core
from support.command import Ended
from syncline import cli


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The engine, replaced by one that takes no time."""
    fake = fake_core.module()
    monkeypatch.setitem(sys.modules, "syncline._core", fake)
    monkeypatch.setattr(syncline, "_core", fake, raising=False)
    return fake


@pytest.fixture
def syncline_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs `syncline` with arguments, within this process."""
    monkeypatch.setenv("COLUMNS", "160")

    def command(*arguments: str) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["syncline", *arguments])
        status = cli.run(arguments)
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return command
