"""A short campaign, and that the harness sees what it is there to see. `make fuzz` runs a long one."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from . import campaign, corpus
from .case import GENERATORS, Case, Corpus, case_of, turn
from .verdict import Ended, judge
from .worker import Worker

CASES = 300
SEED = 20
LONG_ONLY = {"hostile-size"}
"""Takes gigabytes."""


def test_a_short_campaign_finds_nothing() -> None:
    names = [name for name in GENERATORS if name not in LONG_ONLY]
    outcome = campaign.run(SEED, range(CASES), names)
    assert not outcome.failures, "\n".join(str(failure) for failure in outcome.failures)
    assert outcome.cases.total() == CASES
    found = outcome.record()
    assert found["statuses"]["0"] > CASES / 5  # not everything is refused: simulations and reports are reached
    assert set(found["generators"]) == set(names)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus.build(tmp_path_factory.mktemp("fuzz") / "corpus")


def test_cases_depend_on_their_number_only(made: Corpus) -> None:
    for number in range(60):
        name = turn(3, number)
        assert turn(3, number) == name
        assert case_of(3, name, number, made) == case_of(3, name, number, made)
        assert case_of(3, name, number, made) != case_of(4, name, number, made)


OBJECT = json.dumps({"errors": [{"message": "no"}]}).encode()
FLAWS: dict[str, tuple[list[str], Ended]] = {
    "traceback": (["run"], Ended(None, ended_by="traceback", detail="KeyError")),
    "hang": (["run"], Ended(None, ended_by="hang")),
    "abort": (["run"], Ended(None, ended_by="abort")),
    "panic": (["run"], Ended(1, b"", b"thread 'x' panicked at lib.rs")),
    "status": (["run"], Ended(139, b"", b"x")),
    "output beside an error": (["run"], Ended(2, b"table", b"x: no\n1 error\n")),
    "no message": (["run"], Ended(2)),
    "no object on standard error": (["run", "--json"], Ended(2, b"", b"x: no\n1 error\n")),
    "no single document": (["run", "--json"], Ended(0, b"{}{}", b"")),
    "warning of a library": (["figure"], Ended(0, b"", b"/x/axis.py:3: UserWarning: singular\n")),
    "encoding": (["run"], Ended(0, b"\xff", b"")),
}


@pytest.mark.parametrize("kind", FLAWS)
def test_flaws_are_seen(kind: str) -> None:
    flaw = judge(*FLAWS[kind])
    assert flaw is not None
    assert flaw.kind == kind


@pytest.mark.parametrize(
    ("arguments", "ended"),
    [
        (["run"], Ended(0, b"a table", b"")),
        (["run"], Ended(1, b"", b"the simulation failed: no\n")),
        (["run"], Ended(2, b"", b"x: no\n1 error\n")),
        (["run", "--json"], Ended(2, b"", b"warning: slow\n" + OBJECT + b"\n")),
        (["run", "--json"], Ended(0, b"{}\n", b"")),
        (["topology", "show", "Ring(2)", "--svg", "--json"], Ended(0, b"a table", b"")),  # a file of that name
    ],
)
def test_what_is_as_it_should_be(arguments: list[str], ended: Ended) -> None:
    assert judge(arguments, ended) is None


def test_no_option_reaches_the_next_case() -> None:
    """`--memory-limit` is handed to the processes of a sweep by the environment."""
    worker = Worker(multiprocessing.get_context("spawn"))
    asked = ["collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4194304)", "--fold", "off"]
    small = [*asked, "--algorithm", "ring", "--memory-limit", "200MB"]
    try:
        (with_limit,) = worker.run(Case([small]))
        (without,) = worker.run(Case([small[:-2]]))
        assert b"of which 200 MB may be taken" in with_limit.err
        assert b"200 MB" not in without.err
    finally:
        worker.end()


def test_the_last_words_of_a_worker_are_kept() -> None:
    worker = Worker(multiprocessing.get_context("spawn"))
    try:
        assert worker.run(Case([["schema", "sweep"]]))[0].status == 0
        (ended,) = worker.run(Case([["schema"]], {"\0": b""}))
        assert ended.ended_by == "abort"
        assert ended.detail.startswith("exit status 1 Process ")
        assert "embedded null byte" in ended.detail
    finally:
        worker.end()


def test_a_worker_that_is_gone_is_replaced(tmp_path: Path) -> None:
    worker = Worker(multiprocessing.get_context("spawn"))
    try:
        impossible = Case([["schema"]], {"\0": b""})
        assert [ended.ended_by for ended in worker.run(impossible)] == ["abort"]
        (ended,) = worker.run(Case([["schema", "sweep"]]))
        assert ended.status == 0
        assert json.loads(ended.out)["title"] == "Syncline sweep"
    finally:
        worker.end()
