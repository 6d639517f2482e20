"""Reproductions are ended from outside, have a limit of memory, and are a page."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import syncline
from syncline.engine import runs as engine
from syncline.engine.runs import Result
from syncline.experiment.load import Variant

LONG = "hoti-fig16-iteration"
QUICK = "tutorial-torus-volume"


def test_is_cancelled_inside_of_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel = syncline.Cancellation()
    run, began, ended, has_ended = engine.run, threading.Event(), [], threading.Event()

    def seen(variant: Variant, **known: Any) -> Result:
        began.set()
        try:
            return run(variant, **known)
        except syncline.CancelledError:
            ended.append(variant.name)
            has_ended.set()
            raise

    def hear(standing: syncline.Standing) -> None:
        if began.is_set() and not standing.is_over:
            cancel.cancel()

    monkeypatch.setattr(engine, "run", seen)
    with pytest.raises(syncline.CancelledError):
        syncline.reproduce(LONG, threads=1, progress=hear, cancel=cancel)
    assert has_ended.wait(60)
    assert len(ended) == 1
    with pytest.raises(syncline.CancelledError):
        syncline.reproduce(QUICK, cancel=cancel)


def test_each_simulation_has_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: set[int | None] = set()
    run = engine.run

    def seen(variant: Variant, **known: Any) -> Result:
        limits.add(variant.memory_limit)
        return run(variant, **known)

    monkeypatch.setattr(engine, "run", seen)
    found = syncline.reproduce(QUICK, memory_limit="1GB")
    assert limits == {10**9}
    assert found.findings == syncline.reproduce(QUICK).findings
    assert limits == {10**9, None}


def test_says_what_is_wrong() -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.reproduce(QUICK, memory_limit="1KB", cancel="now", seed=-1)  # type: ignore[arg-type]
    assert [problem.field for problem in caught.value.problems] == ["seed", "memory_limit", "cancel"]
    found = syncline.reproduce(QUICK, experiments=True)
    with pytest.raises(syncline.InputError, match="claims: the page holds all claims and experiments"):
        found.page()
