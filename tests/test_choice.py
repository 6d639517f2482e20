"""What `algorithm: auto` comes to stand for, with an engine that takes no time."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from support import fake_core
from support.experiments import study
from syncline import choice
from syncline.errors import InputError
from syncline.schema.load import Choice

BASE = "name: a\ntopology: Torus(4,4)\nworkload: {collective: all-reduce, size: 64MB}\ncollective: {algorithm: auto}\n"


@pytest.fixture(autouse=True)
def nothing_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_settled", {})


def chosen(text: str = BASE) -> Choice:
    found = choice.settled(study(text)).variants[0].choice
    assert found is not None
    return found


def test_candidates_suit_the_collective_and_the_dimensions() -> None:
    assert choice.candidates("all-to-all", 1) == ["ring", "direct"]
    assert "double-binary-tree" in choice.candidates("broadcast", 1)
    assert "six-phase" in choice.candidates("all-reduce", 2)
    assert "themis" in choice.candidates("all-gather", 2)
    assert "themis" not in choice.candidates("all-reduce", 1)


@pytest.mark.usefixtures("fake_engine")
def test_other_algorithms_are_left_alone() -> None:
    variant = choice.settled(study(BASE.replace("auto", "ring"))).variants[0]
    assert (variant.choice, variant.experiment.collective.algorithm) == (None, "ring")


@pytest.mark.usefixtures("fake_engine")
def test_the_fastest_is_taken_and_the_experiment_says_so() -> None:
    variant = choice.settled(study(BASE)).variants[0]
    assert variant.experiment.collective.algorithm == chosen().chosen == "six-phase"


def test_equal_experiments_are_tried_once(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def count(spec: str) -> dict[str, Any]:
        runs.append(spec)
        return fake_core.run(spec)

    monkeypatch.setattr(fake_engine, "run", count)
    chosen()
    before = len(runs)
    variants = "variants: [{name: A}, {name: B, description: the same}, {name: C, workload: {size: 1MB}}]\n"
    assert len({v.choice.because for v in choice.settled(study(BASE + variants)).variants if v.choice}) == 2
    assert len(runs) == 2 * before


def test_trying_is_done_on_a_cheap_backend(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    backends: set[str] = set()

    def note(spec: str) -> dict[str, Any]:
        backends.add(json.loads(spec)["network"]["backend"])
        return fake_core.run(spec)

    monkeypatch.setattr(fake_engine, "run", note)
    chosen(BASE.replace("64MB", "64kB"))
    assert backends == {"packet"}
    chosen(BASE.replace("64MB", "64GB"))
    assert backends == {"packet", "flow"}
    monkeypatch.setattr(choice, "MOST_EVENTS_ELSE", 1)
    assert "with every link charged" in chosen(BASE.replace("64MB", "32GB")).because
    assert backends == {"packet", "flow", "analytical"}


@pytest.mark.usefixtures("fake_engine")
def test_a_busy_link_counts_where_contention_is_ignored(
    fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crowded(spec: str) -> dict[str, Any]:
        result = fake_core.run(spec)
        if json.loads(spec)["collectives"]["algorithm"] == "six-phase":
            result["tables"]["links"]["busy_ps"] = fake_core.ints(1, 10**12)
        return result

    monkeypatch.setattr(choice, "MOST_EVENTS_ELSE", 1)
    monkeypatch.setattr(fake_engine, "run", crowded)
    found = chosen()
    assert found.chosen == "ace-4-phase"
    assert {"algorithm": "six-phase", "predicted_time_s": 1.0} in found.candidates


@pytest.mark.usefixtures("fake_engine")
def test_what_takes_too_long_is_judged_by_bytes_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_EVENTS_ELSE", 1)
    monkeypatch.setattr(choice, "MOST_EVENTS", {})
    found = chosen()
    assert "from bytes and steps" in found.because
    assert found.chosen == "ring"


def test_nothing_possible_is_wrong_input(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise fake_core.SpecError("fold: the run cannot be folded: it is odd; accepted: auto, off")

    monkeypatch.setattr(fake_engine, "check", refuse)
    with pytest.raises(InputError) as error:
        chosen()
    assert (
        error.value.as_text()
        == "file.yaml:1: fold: the run cannot be folded: it is odd\n    accepted: auto, off\n1 error"
    )
