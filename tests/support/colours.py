"""How well one colour can be read upon another."""

from __future__ import annotations

from collections.abc import Sequence


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """The ratio of two colours in sRGB, whose parts are from 0 to 1; 4.5 is the least for text (WCAG 2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Sequence[float]) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3])
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
