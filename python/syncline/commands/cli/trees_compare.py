"""`syncline trees --compare`: the comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from syncline.base import text_units
from syncline.commands.cli import layout, tables
from syncline.fabric.graph import PCIE

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.results.entries import Document


def show(document: Document) -> None:
    """Prints the comparison, and why something is missing in it."""
    tables.show(_table(document))
    for sentence in reasons(document["comparison"]):
        print(tables.wrapped(sentence))


def _table(document: Document) -> Table:
    """The comparison on a terminal."""
    unit, entries = document["link_unit_bytes_per_s"], document["comparison"]
    fidelity = document["fidelity"]
    size = text_units.size(document["size_bytes"])
    title = f"{document['collective']} of {size}, {fidelity['backend']} backend, {fidelity['endpoint']} endpoint"
    found = layout.table(title=title)
    found.add_column("schedule")
    for heading in ("in theory", "", "time", "algbw", "busbw", "of the bound", "over"):
        found.add_column(heading, justify="right")
    for entry in entries:
        theory = entry["theory_bytes_per_s"]
        over_pcie = " (PCIe)" if entry["theory_over"] == PCIE else ""
        found.add_row(
            entry["name"],
            "-" if theory is None else f"{theory / unit:.4g} links{over_pcie}",
            text_units.bandwidth(theory),
            "-" if entry["time_s"] is None else text_units.duration(entry["time_s"]),
            text_units.bandwidth(entry["algorithm_bandwidth_bytes_per_s"]),
            text_units.bandwidth(entry["bus_bandwidth_bytes_per_s"]),
            text_units.percent(entry["share_of_bound"]),
            ", ".join(entry["over"] or ()),
        )
    return found


def reasons(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Why something has no time, a line each."""
    return [f"{entry['name']}: {entry['reason']}" for entry in entries if entry["reason"] is not None]
