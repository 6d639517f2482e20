"""`syncline.verify` gives what the command gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncline
from support.command import Ended

PLAN = Path(__file__).parents[2] / "examples/plans/ring4.xml"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A schedule that copies where it has to add."""
    text = PLAN.read_text()
    assert 'type="rrcs"' in text
    path = tmp_path / "<wrong>.xml"
    path.write_text(text.replace('type="rrcs"', 'type="rcs"'))
    return path


@pytest.mark.parametrize("buffering", [None, "eager", 2])
def test_equals_the_command(syncline_command: Callable[..., Ended], wrong: Path, buffering: str | int | None) -> None:
    flags = [] if buffering is None else ["--buffering", str(buffering)]
    for plan, right in ((PLAN, True), (wrong, False)):
        ended = syncline_command("verify", str(plan), "--json", *flags)
        found = syncline.verify(plan, buffering=buffering)
        assert {**found.document, "cost": 0} == {**json.loads(ended.out), "cost": 0}
        assert (found.verified, bool(found), ended.status) == (right, right, 0 if right else 1)
        assert found.collective == "allreduce"


def test_says_what_is_wrong(wrong: Path) -> None:
    found = syncline.verify(wrong)
    assert all(problem.line is not None for problem in found.errors)
    assert "finding" in repr(found)
    assert "<wrong>" not in found._repr_html_()
    assert found.counts is not None
    assert "correct" in syncline.verify(PLAN)._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"root": -1}, "arguments: root: this is out of range"),
        ({"root": "1"}, "arguments: root: this is out of range"),
        ({"root": 7}, "arguments: root: "),
        ({"buffering": 0}, "arguments: buffering: this is not known"),
        ({"buffering": True}, "arguments: buffering: this is not known"),
        ({"plan": "-"}, "arguments: plan: standard input is read by the command line only"),
        ({"plan": {}}, "arguments: plan: a schedule cannot be given as dict"),
        ({"plan": "nosuch.xml"}, "nosuch.xml: "),
    ],
)
def test_what_is_no_schedule(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.verify(**{"plan": PLAN, **arguments})
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
