"""The Ethernet backend against ns-3: what is recorded reaches the aims. Whether it still comes out: `records`."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from lab.ns3 import page, pair, runs
from syncline.base.errors import InputError

ROWS = runs.rows()
RECORDED = [row.found for row in runs.rows(runs.RECORD)]
PAIRS = list(zip(ROWS, RECORDED, strict=True))


def test_records_are_of_the_rows() -> None:
    found = {field.name for field in fields(runs.Found)}
    ours, theirs = (
        [{name: value for name, value in row.given.items() if name not in found} for row in each]
        for each in (runs.rows(runs.RECORD), ROWS)
    )
    assert ours == theirs


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


def test_a_first_flight_of_jumbo_segments_stays_below_the_window_of_a_syn_ack() -> None:
    """An all-to-all of 128 hosts, whose switch has 512 KiB for a port: ns-3 takes 1.356 ms and drops nothing."""
    given = {**ROWS[0].given, "pattern": "a2a", "hosts": "128", "size_bytes": str(8 << 20), "segment_bytes": "8948"}
    row = replace(ROWS[0], given={**given, "jitter_ns": "1000", "delayed_ack": "1"})
    found = runs.simulate(row, 1)
    assert (found.drops, found.retransmissions) == (0, 0)
    assert found.completion_us == pytest.approx(1356, rel=page.TIME)


def test_the_first_acknowledgement_does_not_wait() -> None:
    """ns-3 acknowledges the first segment at once, also where it acknowledges every second one."""
    row = next(row for row in ROWS if row.given["pattern"] == "single" and row.given["delayed_ack"] == "2")
    assert runs.simulate(row, 1).completion_us == pytest.approx(row.found.completion_us, rel=1e-5)


PROGRAM = """#!/bin/sh
for option in "$@"; do case "$option" in --csv=*) out="${option#--csv=}";; esac; done
echo "$@" > SEEN
printf 'user_cpu_s,switch_pkts_fwd\\n2.5,1234\\n' > "$out"
"""


def program(folder: Path, text: str) -> Path:
    path = folder / "star"
    path.write_text(text.replace("SEEN", str(folder / "seen")))
    path.chmod(0o755)
    return path


def test_a_row_is_timed_beside_a_program_that_carries_it_out(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.given["pattern"] == "incast")
    found = pair.run(program(tmp_path, PROGRAM), row)
    assert (found.frames, found.theirs_s) == (1234, 2.5)
    assert 0 < found.ours_s < 60
    assert found.ratio == pytest.approx(2.5 / found.ours_s)
    seen = (tmp_path / "seen").read_text().split()
    assert {f"--n={row.given['hosts']}", f"--k={int(row.given['hosts']) - 1}", "--pattern=incast"} <= set(seen)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\necho no ns-3 >&2; exit 3\n", "status 3: no ns-3"),
        ("#!/bin/sh\n", "it wrote no row"),
        (PROGRAM.replace("switch_pkts_fwd", "other"), "lacks user_cpu_s or switch_pkts_fwd"),
    ],
)
def test_a_program_that_carries_out_nothing_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        pair.run(program(tmp_path, text), ROWS[0])
    with pytest.raises(InputError, match="cannot be run"):
        pair.run(tmp_path / "nowhere", ROWS[0])
