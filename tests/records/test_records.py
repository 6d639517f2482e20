"""What is committed of simulations still comes out: a sample of it, and how differences are found."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from lab.ns3 import runs
from lab.training_times import page as training_page
from syncline.studies.reproduction import experiments

from . import __main__ as program
from . import every as every_record
from . import ledger, ns3, training
from .record import Record, sample

SAMPLED_S = {"ns-3": 1.5, "iteration": 1.5, "ledger": 2.0}
"""Processor time of a sample, as it is estimated, by the first word of the names of records."""


@pytest.fixture(scope="module")
def every() -> list[Record]:
    return list(every_record())


@pytest.mark.parametrize("family", SAMPLED_S)
def test_a_sample_of_what_is_committed_comes_out_again(every: list[Record], family: str) -> None:
    chosen = list(sample([record for record in every if record.name.startswith(family)], SAMPLED_S[family]))
    assert len(chosen) >= 4
    assert {record.name: found for record in chosen if (found := record.differences())} == {}


def test_everything_that_is_committed_is_a_record(every: list[Record]) -> None:
    names = [record.name for record in every]
    assert sum(name.startswith("ns-3") for name in names) == len(runs.rows(runs.RECORD))
    iterations = len(training_page.recorded()) + len(training_page.recorded_changes())
    assert sum(name.startswith("iteration") for name in names) == iterations
    written = ledger.committed().lines
    verdicts = [line for line in written if re.match(r"\| `[a-z0-9-]+`, ", line)]
    outside = [line for line in verdicts if "| **outside" in line]
    rows = [experiment.rows for experiment in experiments.load()]
    confirmed = [line for line in written if line.endswith("| equal |")]
    in_ledger = len(verdicts) + len(outside) + sum(map(len, rows)) + len(confirmed)
    assert sum(name.startswith("ledger") for name in names) == in_ledger


def test_an_explanation_costs_no_less_than_its_claim(every: list[Record]) -> None:
    """Its claim is simulated for it; one of minutes was taken for a sample of seconds."""
    costs = {record.name: record.cost_s() for record in every if "hoti-fig7-orderings" in record.name}
    (claim,) = (cost for name, cost in costs.items() if name.startswith("ledger: claim"))
    (explanation,) = (cost for name, cost in costs.items() if name.startswith("ledger: explanation"))
    assert explanation >= claim > 60


@pytest.mark.parametrize(
    ("name", "before", "after", "difference"),
    [
        (
            "claim tutorial-torus-volume",
            "| 3.5, 4.25 | 3.5, 4.25 | 3.5, 4.25 |",
            "| 3.5, 4.25 | 3.5, 4.26 | 3.5, 4.25 |",
            "3.5, 4.25; the page has 3.5, 4.26",
        ),
        (
            "claim ace-fig4b-dlrm",
            "| **outside**; inside with *two lookups at once* ([ace-fig4b-sms](#ace-fig4b-sms)) |",
            "| inside |",
            "it is outside",
        ),
        (
            "tutorial-dimensions, row 1: 1x64x1, 64 KiB",
            "| 126 | 63.3 us |",
            "| 126 | 63.4 us |",
            "63.3 us; the page has 63.4 us",
        ),
        (
            "explanation of ace-fig4b-dlrm",
            "two lookups at once*",
            "11 SMs*",
            "the page has **outside**; inside with *11 SMs*",
        ),
        (
            "tutorial/torus 4x4x4, unfolded",
            "| 64 (4x4x4) | 1 | | equal |",
            "| 64 (4x4x4) | 2 | | equal |",
            "1; the page has 2",
        ),
    ],
)
def test_a_line_of_the_page_that_says_something_else_is_named(
    name: str, before: str, after: str, difference: str
) -> None:
    written = ledger.committed()
    assert any(before in line for line in written.lines)
    changed = ledger.Committed(tuple(line.replace(before, after) for line in written.lines))
    (record,) = [record for record in ledger.records(changed) if record.name == f"ledger: {name}"]
    assert any(difference in found for found in record.differences())


def test_a_row_that_says_something_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with runs.RECORD.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0]["segments_sent"] = "47"
    with (tmp_path / "record.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(runs, "RECORD", tmp_path / "record.csv")
    assert next(ns3.records()).differences() == ["segments_sent: 46, recorded 47"]


def test_an_iteration_that_takes_another_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "megatron h6144 l48 s2048 b4 m4 t8 d1 p1 selective"
    recorded = training_page.recorded()
    was_s = recorded[name].simulated_s
    monkeypatch.setattr(training_page, "recorded", lambda: recorded | {name: training_page.Outcome(1.0001 * was_s)})
    (record,) = [record for record in training.records() if record.name == f"iteration {name}"]
    (difference,) = record.differences()
    assert difference == f"{was_s:g} s, recorded {1.0001 * was_s:g} s"


def test_what_differs_is_listed_and_makes_the_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = Record("one", lambda: 1, list), Record("other", lambda: 1, lambda: ["2 us; the page has 1 us"])
    monkeypatch.setattr(program, "every", lambda _: [one, other])
    for arguments, printed in (
        ([], ["one: as committed", "other: 2 us; the page has 1 us", "1 of 2 records differ"]),
        (["one"], ["one: as committed", "0 of 1 records differ"]),
    ):
        monkeypatch.setattr("sys.argv", ["records", *arguments, "--threads", "1"])
        assert program.main() == (not arguments)
        assert capsys.readouterr().out.splitlines() == printed


def test_samples_keep_to_their_budget_and_change_with_the_seed() -> None:
    every = [Record(str(cost), lambda cost=cost: cost / 10, list) for cost in range(1, 100)]  # type: ignore[misc]
    found = [[record.name for record in sample(every, 8, seed)] for seed in range(10)]
    assert found == [[record.name for record in sample(every, 8, seed)] for seed in range(10)]
    assert len({tuple(names) for names in found}) == 10
    for names in found:
        costs = [int(name) / 10 for name in names]
        assert 4 < sum(costs) <= 8
        assert max(costs) <= 4
