"""The Ethernet backend against ns-3: what is recorded reaches the aims, and still is what comes out."""

from __future__ import annotations

import pytest

from syncline.ns3 import page, runs

ROWS = runs.rows()
RECORDED = [row.found for row in runs.rows(runs.RECORD)]
PAIRS = list(zip(ROWS, RECORDED, strict=True))
SINGLE = [pair for pair in PAIRS if pair[0].given["pattern"] == "single"]


def test_rows_without_losses_reach_the_aims() -> None:
    lossless = [pair for pair in PAIRS if pair[0].is_lossless]
    assert len(lossless) > 20
    assert not [row.given for row, found in lossless if page.misses(row, found)]


def test_rows_with_losses_reach_the_aims() -> None:
    """All of the reference rows; of the further ones, which have other settings as well, nine in ten."""
    lossy = [pair for pair in PAIRS if not pair[0].is_lossless]
    apart = [abs(row.rounds(row.found) - row.rounds(found)) for row, found in lossy]
    assert max(apart) <= page.MOST_ROUNDS
    assert sum(each <= page.ROUNDS for each in apart) >= page.SHARE * len(apart)
    reference = [pair for pair in lossy if pair[0].given["source"] == "reference"]
    assert not [row.given for row, found in reference if {"drops", "retransmissions"} & set(page.misses(row, found))]
    missed = [row for row, found in lossy if page.misses(row, found)]
    assert len(missed) <= 0.1 * len(lossy)


@pytest.mark.parametrize("number", range(len(SINGLE)))
def test_what_is_recorded_is_what_comes_out(number: int) -> None:
    row, recorded = SINGLE[number]
    found = runs.simulate(row, 1)
    assert found.completion_us == pytest.approx(recorded.completion_us, rel=1e-5)
    assert found.segments_sent == recorded.segments_sent


def test_an_incast_comes_out_as_recorded() -> None:
    row, recorded = next(pair for pair in PAIRS if pair[0].given["pattern"] == "incast" and not pair[0].is_lossless)
    found = runs.median([runs.simulate(row, seed) for seed in range(1, row.seeds + 1)])
    assert (found.drops, found.retransmissions) == (recorded.drops, recorded.retransmissions)
    assert found.completion_us == pytest.approx(recorded.completion_us, rel=1e-5)
