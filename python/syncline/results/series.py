"""Window series, made short enough to embed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncline.results.study import Variant, seconds
from syncline.results.units import PS_PER_S, significant


@dataclass(frozen=True)
class Windows:
    """Series over the windows of one variant."""

    edges_s: list[float]
    """Start of each window, and the end of the last."""
    merged: int
    """Windows of the run in one window here."""
    series: dict[str, list[float | None]]
    """One value per window."""

    def means(self) -> dict[str, float | None]:
        """Mean of each series over the windows."""
        return {name: mean(values) for name, values in self.series.items()}


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is known."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def merge(values: Sequence[float | None], count: int) -> list[float | None]:
    """Means over runs of `count` values; the last run may be shorter."""
    if count == 1:
        return list(values)
    return [mean(values[i : i + count]) for i in range(0, len(values), count)]


def merged_count(length: int, limit: int) -> int:
    """How many neighbours to merge so that at most `limit` remain."""
    return max(1, -(-length // max(1, limit)))


def windows(variant: Variant, names: Sequence[str], limit: int) -> Windows | None:
    """The named series of a variant in at most `limit` points; nothing without windows."""
    length = variant.length("windows")
    starts = variant.numbers("windows", "start_ps")
    if length == 0 or any(s is None for s in starts):
        return None
    count = merged_count(length, limit)
    known = [s for s in starts if s is not None]
    total = variant.total_s * PS_PER_S if variant.total_s else None
    if length > 1:
        end = known[-1] + (known[1] - known[0])
        end = end if total is None else min(end, total)
    else:
        end = known[0] + PS_PER_S * 1e-6 if total is None else total
    end = max(end, known[-1] + 1.0)
    edges = [*known[::count], end]
    present = set(variant.columns("windows"))
    return Windows(
        [(seconds(e) or 0.0) for e in edges],
        count,
        {n: merge(variant.numbers("windows", n), count) for n in names if n in present},
    )


def window_width(variant: Variant) -> float | None:
    """Length of the windows of a variant; nothing where there are fewer than two."""
    starts = [s for s in variant.numbers("windows", "start_ps") if s is not None]
    return seconds(starts[1] - starts[0]) if len(starts) > 1 else None


def dimension_columns(variant: Variant) -> list[str]:
    """Link columns of single dimensions, in order."""
    found = [c for c in variant.columns("windows") if c.startswith("link_dim")]
    return sorted(found, key=lambda c: (len(c), c))


def compact(values: Sequence[float | None], digits: int = 3) -> list[float | None]:
    """Values to a few significant digits, because pages are read by eye."""
    return [None if v is None else significant(v, digits) for v in values]
