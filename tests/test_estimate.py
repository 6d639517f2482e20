"""What a simulation will cost, said before it is begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType

import pytest

from support import fake_core
from support.command import Ended

COLLECTIVE = ("all-reduce", "--size", "1GB", "--topology", "Ring(4)", "--endpoint", "baseline", "--backend", "packet")


@pytest.fixture
def tiny_messages(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(spec: str) -> str:
        preview = json.loads(fake_core.check(spec))
        tiny = {"chunks": 10_000_000, "messages_per_npu": 60_000_000, "bytes_sent_per_npu": 960_000_000}
        return json.dumps(preview | tiny)

    monkeypatch.setattr(fake_engine, "check", check)


@pytest.mark.usefixtures("tiny_messages")
def test_a_long_simulation_is_warned_of_before_it_is_begun(
    syncline_command: Callable[..., Ended], fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(spec: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_engine, "run", interrupted)
    ended = syncline_command("collective", *COLLECTIVE)
    assert ended.err.startswith("warning: all-reduce: about ")
    assert " a message has 16 B: 10,000,000 chunks" in ended.err.splitlines()[0]
    assert "warning" not in syncline_command("collective", *COLLECTIVE, "--quiet").err


@pytest.mark.usefixtures("tiny_messages")
def test_check_and_run_warn_of_it(syncline_command: Callable[..., Ended]) -> None:
    checked = syncline_command("check", "ace/allreduce", "--json")
    warnings = [text for text in json.loads(checked.out)["warnings"] if " events" in text]
    assert [text.split(":")[0] for text in warnings] == ["Ideal", "Baseline", "ACE"]
    for text in warnings:
        assert f"warning: {text}\n" in syncline_command("run", "ace/allreduce").err


@pytest.mark.usefixtures("fake_engine")
def test_a_short_one_is_not(syncline_command: Callable[..., Ended]) -> None:
    assert "events" not in syncline_command("collective", *COLLECTIVE).err


def test_the_engine_is_asked_how_many_messages_there_are(syncline_command: Callable[..., Ended]) -> None:
    """A chunk of 64 B on a ring of four is six messages of 16 B, each a packet and three events, on one NPU for all."""
    ended = syncline_command("check", "ace/allreduce", "--set", "topology=Ring(4)", "--set", "collective.chunk=64B",
                             "--set", "workload.size=320MB", "--json")  # fmt: skip
    (estimate,) = [e for e in json.loads(ended.out)["estimates"] if e["name"] == "Baseline"]
    assert (estimate["messages"], estimate["packets"], estimate["events"]) == (30_000_000, 30_000_000, 90_000_000)
