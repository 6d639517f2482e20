"""The engine that is missing, or was built from other sources."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from support.command import Ended
from syncline import core
from syncline.core import binding

COLLECTIVE = ("collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)")
COMMANDS = (
    COLLECTIVE,
    ("run", "ace/allreduce"),
    ("check", "ace/allreduce"),
    ("sweep", "ace/fig5", "--out", "nowhere.parquet"),
    ("verify", "examples/plans/ring4.xml"),
)


@pytest.fixture
def anew() -> Iterator[None]:
    """The engine is looked at anew, now and afterwards."""
    binding.require.cache_clear()
    yield
    binding.require.cache_clear()


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_an_engine_of_other_sources_is_one_message(
    command: tuple[str, ...],
    fake_engine: ModuleType,
    syncline_command: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fake_engine, "sources", lambda: 1)
    ended = syncline_command(*command)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "syncline: engine: it was built from other sources\n"
        "    accepted: an engine that is built from these sources: run make\n1 error\n"
    )
    monkeypatch.delattr(fake_engine, "sources")  # as in engines that did not say
    assert syncline_command(*command).err == ended.err


@pytest.mark.usefixtures("anew")
def test_a_missing_engine_is_one_message(
    syncline_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "syncline.core._core", None)
    monkeypatch.delattr(core, "_core", raising=False)
    ended = syncline_command(*COLLECTIVE, "--json")
    assert (ended.status, ended.out) == (2, "")
    (error,) = json.loads(ended.err)["errors"]
    assert "cannot be loaded" in error["message"]
    assert "run make" in error["accepted"]


@pytest.mark.usefixtures("anew")
def test_the_engine_that_is_tested_is_of_these_sources() -> None:
    from syncline.core import _core

    binding.require()
    assert _core.sources() == binding.sources()


@pytest.mark.usefixtures("anew")
def test_without_sources_beside_it_any_engine_will_do(
    fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(binding, "CRATES", tmp_path)
    monkeypatch.setattr(fake_engine, "sources", lambda: 1)
    binding.require()
