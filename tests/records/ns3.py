"""Runs of ns-3, as the Ethernet backend has them: `lab/ns3/record.csv`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from math import isclose

from lab.ns3 import runs
from lab.ns3.runs import Found, Row
from syncline.engine import estimate
from syncline.engine import runs as engine

from .record import Record

DIGITS = 1e-5
"""Records have six digits."""


def records() -> Iterator[Record]:
    """All rows."""
    for row, recorded in zip(runs.rows(), runs.rows(runs.RECORD), strict=True):
        given = row.given
        name = f"ns-3: {given['pattern']}, {given['hosts']} hosts, {given['size_bytes']} B, {'; '.join(row.settings())}"
        yield Record(name, partial(_cost_s, row), partial(_differences, row, recorded.found))


def _cost_s(row: Row) -> float:
    variant = runs.variant(row, 1)
    return row.seeds * estimate.of(variant.experiment, engine.preview(variant)).time_s


def _differences(row: Row, recorded: Found) -> list[str]:
    found = asdict(runs.median([runs.simulate(row, seed) for seed in range(1, row.seeds + 1)]))
    return [
        f"{name}: {found[name]:g}, recorded {value:g}"
        for name, value in asdict(recorded).items()
        if not isclose(found[name], value, rel_tol=DIGITS)
    ]
