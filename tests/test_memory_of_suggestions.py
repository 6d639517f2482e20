"""What is suggested in place of a refused value is looked at within the limit of memory."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from support import fake_core
from support.experiments import study
from syncline.base import memory
from syncline.base.errors import InputError
from syncline.engine import runs as engine


def test_a_look_at_an_algorithm_takes_no_more_memory_than_it_may(
    fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    def refuse(spec: str) -> str:
        limits.append(json.loads(spec)["memory_limit_bytes"])
        raise fake_core.refused("collectives.algorithm", "there is no halving-doubling algorithm for all-to-all")

    monkeypatch.setattr(fake_engine, "check", refuse)
    text = "name: a\ntopology: Ring(4)\nworkload: {collective: all-to-all, size: 1MB}\n"
    with pytest.raises(InputError):
        engine.check(study(f"{text}collective: {{algorithm: halving-doubling}}\n").variants)
    assert len(limits) > 10  # one for each algorithm by name
    assert max(limits[1:]) <= min(engine.LOOK_BYTES, memory.limit())


def test_a_limit_of_the_address_space_is_one_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    whole = memory.limit()
    monkeypatch.setattr("resource.getrlimit", lambda _: (10**15, 10**15))
    assert memory.limit() == whole
    monkeypatch.setattr("resource.getrlimit", lambda _: (2**40, 2**40))
    monkeypatch.setattr(memory, "_lines", lambda _: [str((2**40 - 10**9) // 4096)])
    assert memory.limit() <= memory.SHARE * (10**9 + 4096)
