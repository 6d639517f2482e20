"""Trees beside other schedules, as programs have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncline.base.text_units import bandwidth, duration, percent, size
from syncline.commands.api import display, tables
from syncline.commands.api.systems import Entry

if TYPE_CHECKING:
    from syncline.commands.api.tables import Table
    from syncline.results.entries import Document

HEADINGS: Final = ("schedule", "in theory", "time", "algbw", "busbw", "of the bound", "over")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Entry):
    """A schedule that was simulated, or the bound, which has none. What is not known is `None`."""

    name: str
    """What is compared: `NCCL-like rings`, say."""
    algorithm: str | None
    """The algorithm that was simulated; `None` of the bound."""
    theory_bytes_per_s: float | None
    """Its rate in theory."""
    theory_over: str | None
    """The class of links that theory has it on."""
    over: tuple[str, ...] | None
    """The classes of links that it sent something over."""
    time_s: float | None
    """Its simulated time; of the bound, the time that no trees can beat."""
    algorithm_bandwidth_bytes_per_s: float | None
    """The size over the time."""
    bus_bandwidth_bytes_per_s: float | None
    """That times the factor of nccl-tests."""
    steps: int | None
    """Steps of a chunk."""
    share_of_bound: float | None
    """Its algorithm bandwidth over that of the bound. More than 1 is reached over links that trees do not use."""
    reason: str | None
    """Why there is no time."""


class Comparison:
    """Packed trees, rings and double binary trees that carry out a collective on the same GPUs, and the bound."""

    def __init__(self, document: Document) -> None:
        self.rows: tuple[Compared, ...] = tuple(Compared.of(entry) for entry in document["comparison"])
        """The schedules, the bound last."""
        entries = [{**entry, "over": _over(entry)} for entry in document["comparison"]]
        self.table: Table = tables.of_entries("comparison", entries)
        """The same as a table. Times are seconds, rates bytes per second."""
        self.backend: str = document["fidelity"]["backend"]
        """The network model of the simulations."""
        self.endpoint: str = document["fidelity"]["endpoint"]
        """Their endpoint model."""
        self._document = document

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rows)} on the {self.backend} backend with the {self.endpoint} endpoint>"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Compared]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        return shown(self._document)


def shown(document: Document) -> str:
    """The comparison of a document of trees as a table, and why something is missing in it."""
    entries, fidelity = document["comparison"], document["fidelity"]
    rows = [
        (
            str(entry["name"]),
            bandwidth(entry["theory_bytes_per_s"]),
            "-" if entry["time_s"] is None else duration(entry["time_s"]),
            bandwidth(entry["algorithm_bandwidth_bytes_per_s"]),
            bandwidth(entry["bus_bandwidth_bytes_per_s"]),
            percent(entry["share_of_bound"]),
            _over(entry) or "-",
        )
        for entry in entries
    ]
    of = f"{document['collective']} of {size(document['size_bytes'])}"
    caption = f"{of}, {fidelity['backend']} backend, {fidelity['endpoint']} endpoint"
    reasons = (f"{entry['name']}: {entry['reason']}" for entry in entries if entry["reason"] is not None)
    return display.table(caption, HEADINGS, rows) + display.paragraphs(reasons)


def _over(entry: Mapping[str, Any]) -> str | None:
    """The classes of links as one text."""
    return None if entry["over"] is None else ", ".join(entry["over"])
