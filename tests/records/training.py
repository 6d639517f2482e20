"""Measured iterations, as they are simulated: `record.csv` and `changes.csv` of `lab/training_times`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import isclose
from typing import Any

from lab.training_times import page, points
from lab.training_times.points import Point

from .record import Record

DIGITS = 1e-5
"""Records have six digits."""


def records() -> Iterator[Record]:
    """All points, and those that were simulated with something changed."""
    recorded, changed = page.recorded(), page.recorded_changes()
    for point in points.points():
        yield _record(f"iteration {point.name}", point, {}, recorded[point.name].simulated_s)
    for change in page.CHANGES:
        for point in change.points():
            recorded_s = changed[change.name, point.name]
            yield _record(f"iteration if {change.name}: {point.name}", point, change.sections, recorded_s)


def _record(name: str, point: Point, changed: Mapping[str, Any], recorded_s: float) -> Record:
    return Record(name, partial(_cost_s, point), partial(_differences, point, changed, recorded_s))


def _cost_s(point: Point) -> float:
    """A micro-batch takes a millisecond in a layer; to count events would take as long as to simulate them."""
    micros = point.batch // (point.data * point.micro_batch)
    return 0.05 + 1e-3 * point.layers * micros


def _differences(point: Point, changed: Mapping[str, Any], recorded_s: float) -> list[str]:
    found_s = points.simulated_s(point, changed)
    return [] if isclose(found_s, recorded_s, rel_tol=DIGITS) else [f"{found_s:g} s, recorded {recorded_s:g} s"]
