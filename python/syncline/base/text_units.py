"""Numbers in plain text: a unit that fits, in ASCII, as terminals and messages have them."""

from __future__ import annotations


def duration(value: float) -> str:
    """Seconds, in a unit that fits."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if value >= factor:
            return f"{value / factor:.3f} {unit}"
    return "0" if value == 0 else f"{value / 1e-12:.0f} ps"


def size(value: float) -> str:
    """Bytes, in a decimal unit that fits."""
    return _scaled(value, "B")


def memory(value: float) -> str:
    """Bytes of main memory, in GiB as tools of GPUs count them."""
    return f"{value / 2**30:.4g} GiB"


def bandwidth(value: float | None) -> str:
    """Bytes per second, in a decimal unit that fits."""
    return "-" if value is None else _scaled(value, "B/s")


def percent(share: float | None) -> str:
    """A share."""
    return "-" if share is None else f"{100 * share:.1f} %"


def times(factor: float) -> str:
    """How many times one is the other."""
    return f"{factor:.2f}x"


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.1f} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def cells(text: str) -> int:
    """Columns of a terminal that a text takes: some characters take two."""
    from rich.cells import cell_len

    return cell_len(text)
