"""What counts as an explanation of a claim outside its range: computed from simulated rows, never from words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.studies.reproduction import explanations, ledger
from syncline.studies.reproduction.experiments import Cell, Experiment, Table
from syncline.studies.reproduction.explanations import Explanation
from syncline.studies.reproduction.ledger import Claim, Finding, Value

PAIR = Claim("pair", "tutorial", "", "", [2.0, 5.0], "x", [[2, 3], [4, 6]], "figure")
ONE = Claim("one", "tutorial", "", "", 2.0, "x", [2, 3], "figure")
ORDER = Claim("order", "tutorial", "", "", 1, "1", [1, 1], "ordering")


@pytest.fixture(autouse=True)
def _claims_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "claims", lambda: [PAIR, ONE, ORDER])


def table(claim: Claim, *values: Value | None) -> Table:
    """An experiment that explains a claim, and what came of its rows."""
    described: dict[str, Any] = {
        "id": "varied",
        "source": "tutorial",
        "shows": "x",
        "explains": [claim.id],
        "columns": [{"heading": "time", "measure": "time"}, {"heading": "metric", "claim": claim.id}],
        "rows": [{"label": f"row {number}"} for number in range(len(values))],
    }
    cells = tuple((Cell(1.0), Cell(value)) for value in values)
    return Table(Experiment.model_validate(described), cells)


def explained(claim: Claim, *values: Value | None) -> tuple[str, float, str]:
    """The row that brings a claim nearest, the share that it closes, and how far that explains the claim."""
    found = explanations.of_claim(claim.id, [table(claim, *values)])
    assert found is not None
    return found.row, found.share, explanations.kind_of(found)


def test_a_row_inside_the_range_explains() -> None:
    assert explained(ONE, 1.0, 1.9, 2.5, 2.1) == ("row 2", 1, "inside")
    assert explained(PAIR, [1.0, 7.0], [2.0, 6.0]) == ("row 1", 1, "inside")
    assert explained(ONE, None, None, 3.0) == ("row 2", 1, "inside")


def test_the_share_is_that_of_the_value_which_stays_furthest_away() -> None:
    assert explained(ONE, 1.0, 1.75) == ("row 1", 0.75, "nearer")
    assert explained(PAIR, [1.0, 8.0], [1.5, 6.5], [2.0, 7.5]) == ("row 1", 0.5, "nearer")
    assert explained(ONE, 1.0, 1.25) == ("row 1", 0.25, "not")


def test_what_was_inside_may_leave_but_that_is_said() -> None:
    assert explained(PAIR, [1.0, 5.0], [2.5, 7.0]) == ("row 1", 1, "moved")
    # A row with the whole claim inside is better.
    assert explained(PAIR, [1.0, 5.0], [2.5, 7.0], [2.5, 5.0]) == ("row 2", 1, "inside")
    assert explained(PAIR, [1.0, 5.0], [1.75, 7.0]) == ("row 1", 0.75, "nearer")


def test_a_row_that_goes_beyond_the_range_explains_no_more_than_what_it_closes() -> None:
    assert explained(ONE, 1.0, 4.0) == ("row 1", 0, "not")
    assert explained(ONE, 1.0, 3.5) == ("row 1", 0.5, "nearer")


def test_an_order_is_explained_by_settings_with_which_it_holds() -> None:
    assert explained(ORDER, 0, 0, 1) == ("row 2", 1, "inside")
    assert explained(ORDER, 0, 0) == ("row 1", 0, "not")


def test_nothing_explains_a_claim_that_is_inside_or_has_no_experiment() -> None:
    measuring = table(ONE, 1.0, 2.5)
    no_explanation = Table(measuring.experiment.model_copy(update={"explains": []}), measuring.cells)
    assert explanations.of_table(no_explanation) == []
    assert explanations.of_claim("one", [table(ONE, 2.5, 1.0)]) is None
    assert explanations.of_claim("one", [table(PAIR, [1.0, 8.0], [2.0, 5.0])]) is None


@given(st.floats(-10, 10), st.lists(st.floats(-10, 10), min_size=1, max_size=4))
def test_a_share_is_a_share_and_more_rows_explain_no_less(studied: float, rows: list[float]) -> None:
    found = [explanations.of_claim("one", [table(ONE, studied, *rows[: n + 1])]) for n in range(len(rows))]
    shares = [each.share for each in found if each is not None]
    assert len(shares) == (0 if ONE.holds(studied) else len(rows))
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    if shares:
        assert (shares[-1] == 1) == any(ONE.holds(row) for row in rows)


def test_what_the_page_says_of_each_kind() -> None:
    def said(simulated: Value, share: float, *, leaves: bool = False) -> str:
        explanation = Explanation("one", "varied", "half the links", share, leaves)
        return explanations.verdict(Finding(ONE, simulated, ""), explanation)

    link = "[varied](#varied)"
    assert said(2.5, 1) == "inside"
    assert said(1, 1) == f"**outside**; inside with *half the links* ({link})"
    assert said(1, 0.75) == f"**outside**; *half the links* closes 75 % of the distance ({link})"
    for share in (0.75, 1):
        assert "takes out other values" in said(1, share, leaves=True)
    assert said(1, 0.2).startswith("**outside, not explained**: no row")
    assert explanations.verdict(Finding(ONE, 1, ""), None) == "**outside, not explained**"
    counted = explanations.counted(["inside", "not", "inside"])
    assert counted == "Of the 3 others, 2 are inside in a simulation with other settings, 1 is not explained."
