"""How busy everything was while there was communication: the evidence for what limits a run.

All shares are of the time in which the traced NPU had chunks in flight, not of the run: links that idle while nothing
is to be sent are no sign of anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.studies.reasons.path import Span, Timeline
from syncline.studies.reasons.seen import Seen

GROUPS: Final[Mapping[str, str]] = {
    "memory": "memory",
    "sm": "sms",
    "bus_tx": "bus",
    "bus_rx": "bus",
    "bus": "bus",
    "sram_read": "sram ports",
    "sram_write": "sram ports",
    "alu": "alus",
}
"""Resources of endpoints that serve work one piece after the other, by what they are part of."""


HELD: Final[Mapping[str, str]] = {"held_sms": "SMs", "held_memory": "memory bandwidth"}
"""What communication holds of NPUs on which it is not served, so that kernels do not have it."""


_COLUMN: Final = "link_dim"
"""What columns of windows begin with that are about links of a class."""


@dataclass(frozen=True, slots=True)
class Fsms:
    """The state machines of an ACE for a phase."""

    phase: str
    fsms: int
    peak: int
    busy: float
    """Chunks in the phase over its state machines, the mean while there is communication; may exceed 1."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How busy everything was while there was communication."""

    communication_ps: int
    """Picoseconds in which the traced NPU had chunks in flight."""
    links: Mapping[str, float] = field(default_factory=dict)
    """By class, the share of the time in which its links were busy: the mean of its links that carried anything."""
    busiest: Mapping[str, float] = field(default_factory=dict)
    """By class, the same of its busiest link."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """By resource of the endpoint, the share in which its servers were busy."""
    held: Mapping[str, float] = field(default_factory=dict)
    """Of the SMs and the memory bandwidth of an NPU, the share that communication held, the mean."""
    in_flight: float = 0.0
    """Chunks in flight, the mean."""
    most_in_flight: int = 0
    backlog: float = 0.0
    """The share of the time in which chunks waited to be put in flight."""
    fsms: tuple[Fsms, ...] = ()
    partitions: Mapping[str, float] = field(default_factory=dict)
    """By partition of an ACE's SRAM, how much of it was held at most."""
    waited_for: Mapping[str, float] = field(default_factory=dict)
    """By resource, time that work waited for it, of all NPUs, over the time of communication of all NPUs."""
    stalled: float = 0.0
    """The share of the run in which nothing was on any link until a retransmission timer expired."""
    timeouts: int = 0

    @property
    def busiest_resource(self) -> tuple[str, float] | None:
        """The resource of the endpoint that is busy most, and the share."""
        return max(self.resources.items(), key=lambda item: item[1], default=None)

    def rows(self) -> list[dict[str, Any]]:
        """As lines of a document: what was measured, how much of it, and in which unit."""
        found = [_row("links", name, share, "share") for name, share in self.links.items()]
        found += [_row("busiest link", name, share, "share") for name, share in self.busiest.items()]
        found += [_row("resource", name, share, "share") for name, share in self.resources.items()]
        found += [_row("held by communication", name, share, "share") for name, share in self.held.items()]
        found += [_row("state machines", each.phase, each.busy, "share") for each in self.fsms]
        found += [_row("sram partition", name, share, "share") for name, share in self.partitions.items()]
        if self.communication_ps:
            found.append(_row("chunks in flight", "mean", self.in_flight, "count"))
            found.append(_row("chunks in flight", "most", float(self.most_in_flight), "count"))
            found.append(_row("chunks waiting", "to be put in flight", self.backlog, "share"))
        if self.timeouts:
            found.append(_row("time-outs", "stalled", self.stalled, "share of the run"))
        return found


def _row(what: str, name: str, value: float, unit: str) -> dict[str, Any]:
    return {"what": what, "name": name, "value": value, "unit": unit}


def of(seen: Seen, timeline: Timeline) -> Usage:
    """How busy everything was in a run."""
    communication, chunks, most = timeline.in_flight()
    if not communication:
        communication = 0 if seen.is_training and not timeline.main else seen.total_ps
    if not communication:
        return Usage(0)
    mean, busiest = _links(seen, communication)
    network = seen.entry.get("network") or {}
    return Usage(
        communication_ps=communication,
        links=mean,
        busiest=busiest,
        resources=_resources(seen, communication),
        held={HELD[name]: share for name, share in _shares(seen, communication) if name in HELD},
        in_flight=chunks / communication,
        most_in_flight=most,
        backlog=min(1.0, timeline.waiting() / communication),
        fsms=tuple(_fsms(seen, communication)),
        partitions=_partitions(seen),
        waited_for=_waits(seen, communication),
        stalled=float(network.get("rto_stalled_s") or 0.0) / max(1e-30, seen.total_ps * 1e-12),
        timeouts=int(network.get("rto_events") or 0),
    )


def _links(seen: Seen, communication: int) -> tuple[dict[str, float], dict[str, float]]:
    loads: dict[str, list[tuple[int, int]]] = {}
    for dim, size, busy, copies in seen.columns("links", "dim", "bytes", "busy_ps", "copies"):
        if size and copies:
            loads.setdefault(seen.link_class(dim), []).append((busy, copies))
    # Other NPUs may communicate for longer than the one that is traced.
    communication = max([communication, *(busy for found in loads.values() for busy, _ in found)])
    mean = {
        name: sum(busy * copies for busy, copies in found) / (communication * sum(copies for _, copies in found))
        for name, found in loads.items()
    }
    return mean, {name: max(busy for busy, _ in found) / communication for name, found in loads.items()}


def _shares(seen: Seen, communication: int) -> Iterator[tuple[str, float]]:
    """By resource, the share of the time of communication in which its servers were busy."""
    for name, servers, busy in seen.columns("resources", "resource", "servers", "busy_ps"):
        if servers and busy:
            yield name, busy / (servers * seen.npus * communication)


def _resources(seen: Seen, communication: int) -> dict[str, float]:
    return {name: share for name, share in _shares(seen, communication) if name in GROUPS}


def _waits(seen: Seen, communication: int) -> dict[str, float]:
    waits = seen.columns("resources", "resource", "wait_ps")
    return {name: wait / (seen.npus * communication) for name, wait in waits if wait}


def _fsms(seen: Seen, communication: int) -> Iterable[Fsms]:
    for name, fsms, peak, active in seen.columns("phases", "name", "fsms", "fsm_peak", "active_ps"):
        if fsms:
            yield Fsms(name, fsms, peak, active / (fsms * communication))


def _partitions(seen: Seen) -> dict[str, float]:
    found: dict[str, float] = {}
    for partition in (seen.entry.get("endpoint") or {}).get("partitions") or []:
        if partition.get("capacity_bytes"):
            found[str(partition.get("phase"))] = (partition.get("peak_bytes") or 0) / partition["capacity_bytes"]
    return found


class Links:
    """How busy links were at any time, from the windows of a run."""

    def __init__(self, seen: Seen) -> None:
        names = [name for name in seen.named("windows", _COLUMN) if name.removeprefix(_COLUMN).isdecimal()]
        rows = list(seen.columns("windows", "start_ps", *names))
        self._starts = [int(row[0]) for row in rows]
        self._ends = [*self._starts[1:], max(seen.total_ps, self._starts[-1] + 1)] if rows else []
        self._shares: dict[int, Sequence[float]] = {
            int(name.removeprefix(_COLUMN)): [float(row[column]) for row in rows]
            for column, name in enumerate(names, start=1)
        }
        self._by_dimension = all(name.startswith("dim ") for name in seen.entry.get("link_classes") or [""])

    def name(self, dimension: int | None) -> str:
        """What links are called that a phase along a dimension uses."""
        return f"links of dim {dimension}" if self._by_dimension and dimension is not None else "links"

    def busy_ps(self, span: Span) -> int:
        """Picoseconds of a span in which links were busy that its phase uses: those of its dimension, the mean of them,
        or in machines those of the busiest class.
        """
        if not self._starts or not self._shares:
            return 0
        dimension = span.dimension if self._by_dimension else None
        index = max(0, bisect_right(self._starts, span.start) - 1)
        busy = 0.0
        while index < len(self._starts) and self._starts[index] < span.end:
            overlap = min(span.end, self._ends[index]) - max(span.start, self._starts[index])
            if dimension in self._shares:
                share = self._shares[dimension][index]
            else:
                share = max(shares[index] for shares in self._shares.values())
            busy += max(0, overlap) * share
            index += 1
        return min(span.length, int(busy))
