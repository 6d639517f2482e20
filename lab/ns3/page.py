"""The table of docs/validation.md: ns-3 and the Ethernet backend side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lab.ns3.runs import RECORD, ROWS, Found, Row, rows

TIME: Final = 0.03
SEGMENTS: Final = 0.01
FACTOR: Final = 2
NUMBER: Final = 20
ROUNDS: Final = 1
MOST_ROUNDS: Final = 2
SHARE: Final = 0.8
"""The aims. Without losses the time is within 3 % and segments within 1 %; with losses the numbers of drops and of
retransmissions are within a factor of two or 20, and rounds of timeouts within one in 80 % of the rows, within two in
all."""

TEXT: Final = """## The Ethernet backend against ns-3

`python -m lab.ns3 --record` simulates what ns-3.37 was given: TCP between hosts around one switch (100 Gb/s, 0.5
us per link), with the profile `ns3-3.37`. *Reference* rows are those that the model was made with; *further* rows were
run with ns-3 afterwards: other congestion controls, recoveries, orders and numbers of hosts. Rows without losses are
one run; those with losses are the median of five seeds against one run of ns-3, since start times decide which frames
are lost. A round is one least timeout of 50 ms. The aims are a time within 3 % and segments within 1 % without losses;
with losses, drops and retransmissions within a factor of two or 20 in number, and rounds within one in 80 % of the rows
and two in all."""


def near(one: float, other: float) -> bool:
    """Whether two numbers are within a factor of two, or 20."""
    return abs(one - other) <= NUMBER or (min(one, other) > 0 and max(one, other) / min(one, other) <= FACTOR)


def misses(row: Row, ours: Found) -> list[str]:
    """What of the aims a row misses."""
    if row.is_lossless:
        off = {
            "time": abs(ours.completion_us / row.found.completion_us - 1) > TIME,
            "segments": abs(ours.segments_sent / row.found.segments_sent - 1) > SEGMENTS,
        }
    else:
        off = {
            "drops": not near(row.found.drops, ours.drops),
            "retransmissions": not near(row.found.retransmissions, ours.retransmissions),
            "rounds": abs(row.rounds(row.found) - row.rounds(ours)) > ROUNDS,
        }
    return [name for name, is_off in off.items() if is_off]


def section() -> Iterator[str]:
    """The section; nothing before anything was recorded."""
    if RECORD.is_file():
        yield "\n".join(_lines(rows(ROWS), [row.found for row in rows(RECORD)]))


def _lines(all_rows: Sequence[Row], ours: Sequence[Found]) -> Iterator[str]:
    pairs = list(zip(all_rows, ours, strict=True))
    yield from (TEXT, "")
    for source in ("reference", "further"):
        chosen = [pair for pair in pairs if pair[0].given["source"] == source]
        lossy = [pair for pair in chosen if not pair[0].is_lossless]
        apart = [abs(row.rounds(row.found) - row.rounds(found)) for row, found in lossy]
        counted = [pair for pair in lossy if not {"drops", "retransmissions"} & set(misses(*pair))]
        exact = [pair for pair in chosen if pair[0].is_lossless and not misses(*pair)]
        yield (
            f"* {source}: without losses {len(exact)} of {len(chosen) - len(lossy)} rows reach the aims; with losses "
            f"{len(counted)} of {len(lossy)} those of the counts, rounds are within one in "
            f"{sum(each <= ROUNDS for each in apart)} and within two in {sum(each <= MOST_ROUNDS for each in apart)}."
        )
    yield ""
    yield (
        "| source | pattern | hosts | size | buffer | control | us, ns-3 | us | segments, ns-3 | segments | drops, ns-3"
        " | drops | again, ns-3 | again | timeouts, ns-3 | timeouts | missed |"
    )
    yield "|---|---|" + "---:|" * 3 + "---|" + "---:|" * 10 + "---|"
    for row, found in pairs:
        yield _line(row, found)


def _line(row: Row, found: Found) -> str:
    given, theirs = row.given, row.found
    control = [given["congestion_control"], given["recovery"]] + (["no SACK"] if given["sack"] == "0" else [])
    cells = [given["source"], given["pattern"], given["hosts"], given["size_bytes"], given["buffer_bytes"]]
    cells += [", ".join(control), f"{theirs.completion_us:,.1f}", f"{found.completion_us:,.1f}"]
    for name in ("segments_sent", "drops", "retransmissions", "rto_events"):
        cells += [f"{getattr(theirs, name):.0f}", f"{getattr(found, name):.0f}"]
    return f"| {' | '.join([*cells, ', '.join(misses(row, found))])} |"
