"""What `algorithm: auto` comes to stand for, with an engine that takes no time."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any, Final, get_args

import pytest

from support import fake_core
from support.experiments import study
from syncline.base.errors import InputError
from syncline.engine import choice, in_flight
from syncline.engine import runs as engine
from syncline.engine.trials import Basis, Candidate
from syncline.experiment.load import Choice
from syncline.sections.algorithms import Algorithm

BASE = "name: a\ntopology: Torus(4,4)\nworkload: {collective: all-reduce, size: 64MB}\ncollective: {algorithm: auto}\n"


EXPENSIVE: Final[set[str]] = set()
"""Backends of which a run costs more events than it may."""


@pytest.fixture(autouse=True)
def nothing_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_settled", {})


def chosen(text: str = BASE) -> Choice:
    found = choice.settled(study(text)).variants[0].choice
    assert found is not None
    return found


def names(text: str, kind: str | None = None) -> list[str]:
    return choice.candidates(study(text).variants[0].experiment, kind)


def test_every_algorithm_by_name_is_a_candidate_once() -> None:
    others = ("auto", "in-switch", "hierarchical-optimal", "packed-trees")
    every = [name for name in get_args(Algorithm) if name not in others]
    assert names(BASE) == every
    of_one = [name for name in every if name not in names(BASE.replace("4,4", "4,1"))]
    assert of_one == ["hierarchical", "ace-4-phase", "themis"]
    assert "ring-unidirectional" not in names(BASE.replace("auto}", "auto, lanes: one}"))
    assert "in-switch" in names(BASE + "endpoint: {kind: switch-offload, comm_memory_bandwidth: 450GB/s}\n")
    gathered = names(BASE.replace("all-reduce", "all-gather"))
    assert [name for name in every if name not in gathered] == ["ace-4-phase", "six-phase"]
    assert "ring-unidirectional" not in names(BASE, "all-reduce")


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

    def count(spec: str, monitor: object = None) -> dict[str, Any]:
        runs.append(spec)
        return fake_core.run(spec)

    monkeypatch.setattr(fake_engine, "run", count)
    monkeypatch.setattr(in_flight, "left_open", lambda _: None)  # which is tried out as well
    chosen()
    before = len(runs)
    variants = "variants: [{name: A}, {name: B, description: the same}, {name: C, workload: {size: 1MB}}]\n"
    assert len({v.choice.because for v in choice.settled(study(BASE + variants)).variants if v.choice}) == 2
    added = len(runs) - before
    choice._settled.clear()
    chosen(BASE.replace("64MB", "1MB"))
    assert added == len(runs) - before - added > 0


@pytest.fixture
def backends(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that attempts were made on."""
    seen: list[str] = []

    def attempt(spec: str, most_ps: int, most_work: int, monitor: object = None) -> str:
        described = json.loads(spec)
        seen.append(described["network"]["backend"])
        found = json.loads(fake_core.attempt(spec, most_ps, most_work))
        if seen[-1] in EXPENSIVE:
            found |= {"ending": "costly", "events": most_work, "work": most_work, "delivered_bytes": 0}
        return json.dumps(found)

    monkeypatch.setattr(fake_engine, "attempt", attempt)
    monkeypatch.setattr(in_flight, "left_open", lambda _: None)  # chunks are tried out as well, on the flow backend
    return seen


@pytest.mark.parametrize(
    ("expensive", "used", "said"),
    [
        ((), {"packet"}, "tried on the packet backend"),
        (("packet",), {"packet", "flow"}, "tried on the flow backend, as packet would take too long"),
        (("packet", "flow"), {"packet", "flow"}, "from bytes and steps"),
    ],
)
def test_what_is_too_costly_is_tried_on_a_cheaper_backend(
    backends: list[str], monkeypatch: pytest.MonkeyPatch, expensive: tuple[str, ...], used: set[str], said: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EXPENSIVE", set(expensive))
    found = chosen(BASE + "network: packet\n")
    assert set(backends) == used
    assert said in found.because


@pytest.mark.usefixtures("fake_engine")
def test_what_is_too_costly_is_as_many_times_as_long_as_the_best_as_on_the_cheaper_backend() -> None:
    """300 here and 200 there: what takes 500 there takes 750 here."""
    (variant,) = study(BASE.replace("auto", "ring")).variants
    preview = engine.preview(variant)
    best = Candidate("ring", variant, preview, 300, Basis.COMPLETE)
    costly = Candidate("direct", variant, preview)
    cheaper = [replace(best, picoseconds=200), replace(costly, picoseconds=500, basis=Basis.COMPLETE)]
    found = choice._supplemented([best, costly], cheaper, best)
    assert found == [best, replace(costly, picoseconds=750, basis=Basis.CHEAPER)]


def test_a_backend_that_ignores_contention_chooses_nothing(backends: list[str]) -> None:
    found = chosen(BASE + "network: analytical\n")
    assert set(backends) == {"flow"}
    assert "tried on the flow backend, as analytical ignores contention" in found.because


def test_nothing_possible_is_wrong_input(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise fake_core.refused("fold", "the run cannot be folded: it is odd", "auto, off")

    monkeypatch.setattr(fake_engine, "check", refuse)
    with pytest.raises(InputError) as error:
        chosen()
    assert (
        error.value.as_text()
        == "file.yaml:1: fold: the run cannot be folded: it is odd\n    accepted: auto, off\n1 error"
    )
