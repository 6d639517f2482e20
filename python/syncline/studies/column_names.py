"""What people call the columns of tables."""

from __future__ import annotations

from typing import Final

SUFFIXES: Final = ("_bytes", "_bytes_per_s", "_s", "_hz", "_flops_per_s", "_um2", "_w", "_j")


def called(column: str) -> str:
    """What people call a column: its last part, without its unit."""
    name = column.rpartition(".")[2]
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(s)), "")
    return name.removesuffix(suffix).replace("_", " ")
