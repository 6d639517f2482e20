"""What all tests share: a stand-in for the engine, and the command line as a function."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

from support import browser as browsers
from support import command, fake_core, inputs, tiers
from support.browser import Page
from support.command import Ended
from syncline import core
from syncline.engine import choice


def pytest_configure(config: pytest.Config) -> None:
    """Says what markers mean, and that examples may take their time."""
    for meaning in (
        "torch: needs PyTorch, which is not installed with the rest (make test-torch)",
        "slow: is left to make test-all (tests/slow.txt)",
    ):
        config.addinivalue_line("markers", meaning)
    # How long an example takes says more about what else the machine does than about the code.
    unhurried = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("unhurried", deadline=None, suppress_health_check=unhurried)
    hypothesis.settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)  # before others leave out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that are slow, and skips tests that need PyTorch where there is none."""
    slow = {test.name for test in tiers.slow()}
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)
    if importlib.util.find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch") is not None:
                item.add_marker(pytest.mark.skip(reason="PyTorch is not installed (make test-torch)"))


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and the commands under test would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The engine, replaced by one that takes no time. What `auto` chooses with it is not kept for other tests."""
    fake = fake_core.module()
    monkeypatch.setattr(choice, "_settled", {})
    monkeypatch.setitem(sys.modules, "syncline.core._core", fake)
    monkeypatch.setattr(core, "_core", fake, raising=False)
    return fake


@pytest.fixture
def syncline_command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs `syncline` with arguments, within this process, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "160")
    return command.run


@pytest.fixture(scope="session")
def _inputs_of_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all commands, made once."""
    folder = tmp_path_factory.mktemp("inputs")
    inputs.write(folder)
    return folder


@pytest.fixture
def folder(_inputs_of_commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The inputs of all commands, where the command runs."""
    shutil.copytree(_inputs_of_commands, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser for pages; tests that want one are skipped where there is none, but not in CI."""
    yield from browsers.start(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Page:
    """A page to open."""
    return Page(browser, tmp_path / "report.html")
