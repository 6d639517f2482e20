"""The answer of `explain` for a system: its critical path in shares, its limit, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.results.entries import Document, ratio, seconds
from syncline.sections.experiment import Experiment
from syncline.studies.reasons import limits, path, usage
from syncline.studies.reasons.limits import Limit, Rerun
from syncline.studies.reasons.path import Span, Timeline
from syncline.studies.reasons.seen import Seen
from syncline.studies.reasons.usage import Usage

ROOM: Final = "room for chunks"
LATENCY: Final = "latency and other NPUs"
NAMES: Final = {
    "queue": "chunks wait between phases",
    "start": "chunks wait to be put in flight",
    "elsewhere": "the end on other NPUs",
    "collective": "communication",
    "bubble": "messages of other classes (bubble)",
    "background": "compute of other streams",
    "idle": "before the NPU begins",
}
"""What spans are called that are neither compute nor a phase."""


@dataclass(frozen=True, slots=True)
class Part:
    """What spans have in common, and how long they are together."""

    what: path.What
    name: str
    """The pass, the phase, or what was waited for."""
    kind: str
    """The kind of the collective, if it is one."""
    length: int
    """Picoseconds of the whole run."""
    links_busy: int | None
    """Of them, those in which links of the phase were busy."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a system takes as long as it does."""

    seen: Seen
    npu: int | None
    parts: tuple[Part, ...]
    resources: Mapping[str, int]
    """The critical path by what was in use, in picoseconds."""
    usage: Usage
    accounting: tuple[str, str]


def of(seen: Seen, experiment: Experiment) -> Reasons:
    """The critical path of a system, and what its records say of the limit."""
    timeline = Timeline.of(seen)
    spans = timeline.critical_path()
    found = usage.of(seen, timeline)
    accounting = limits.by_accounting(experiment, spans, found)
    links = usage.Links(seen)
    parts = grouped(spans, links)
    return Reasons(seen, timeline.npu, tuple(parts), by_resource(parts, links, found), found, accounting)


def grouped(spans: Iterable[Span], links: usage.Links | None) -> list[Part]:
    """Spans of the same pass, phase or wait together, the longest first."""
    lengths: dict[tuple[path.What, str, str], list[int]] = {}
    for span in spans:
        name = span.kind if span.what == "compute" else span.phase if span.what == "phase" else NAMES[span.what]
        kind = "" if span.what == "compute" else span.kind
        both = lengths.setdefault((span.what, name, kind), [0, 0])
        both[0] += span.length
        if span.what == "phase" and links is not None:
            both[1] += links.busy_ps(span)
    return [
        Part(what, name, kind, length, busy if what == "phase" and links is not None else None)
        for (what, name, kind), (length, busy) in sorted(lengths.items(), key=lambda item: (-item[1][0], item[0]))
    ]


def entry(reasons: Reasons, limit: Limit, reruns: Sequence[Rerun] | None) -> Document:
    """A system in the document of `explain`. Of the path, `_ps` are exact and add up to `total_ps`."""
    seen = reasons.seen
    total = seen.total_ps
    ends = seen.values("collectives", "completed_ps")
    return {
        "name": seen.name,
        "iteration_time_s": seen.entry.get("iteration_time_s"),
        "iterations": int(seen.entry.get("iterations") or 0),
        "npu": reasons.npu,
        "total_ps": total,
        "critical_path": [_part(part, total, seen.iterations) for part in reasons.parts],
        "limit": dict(limits.as_entry(limit)),
        "by_resource": [
            {"name": name, "ps": length, "share": ratio(length, total)} for name, length in reasons.resources.items()
        ],
        "collectives": len(ends),
        "in_flight_at_end": sum(end is None for end in ends),
        "network_is_idle": limits.network_is_idle(limit, reruns or ()),
        "evidence": reasons.usage.rows(),
        "what_if": None if reruns is None else [_rerun(rerun) for rerun in ranked(reruns)],
    }


def by_resource(parts: Iterable[Part], links: usage.Links, found: Usage) -> dict[str, int]:
    """The critical path by what was in use, in picoseconds that add up to the run, the longest first.

    Of a phase, its links have the time in which they were busy. Of the rest, the endpoint's busiest resource has as
    much as it was busy in the mean while there was communication; what is left is latency, and waiting for other NPUs.
    """
    lengths: dict[str, int] = {}

    def add(name: str, length: int) -> None:
        if length:
            lengths[name] = lengths.get(name, 0) + length

    busiest = found.busiest_resource
    for part in parts:
        if part.what != "phase":
            add(
                "compute" if part.what == "compute" else ROOM if part.what in ("queue", "start") else part.name,
                part.length,
            )
            continue
        busy = part.links_busy or 0
        add(links.name(path.dimension_of(part.name)), busy)
        left = part.length - busy
        if busiest is not None:
            taken = min(left, int(part.length * busiest[1]))
            add(f"{busiest[0].replace('_', ' ')} of the endpoint", taken)
            left -= taken
        add(LATENCY, left)
    return dict(sorted(lengths.items(), key=lambda item: (-item[1], item[0])))


def ranked(reruns: Iterable[Rerun]) -> list[Rerun]:
    """Reruns by what they gain; those that could not be run come last."""
    return sorted(reruns, key=lambda rerun: (rerun.gain is None, -(rerun.gain or 0.0)))


def _part(part: Part, total: int, iterations: int) -> dict[str, Any]:
    return {
        "what": part.what,
        "name": part.name,
        "collective": part.kind or None,
        "ps": part.length,
        "time_s": seconds(part.length) / iterations,
        "share": ratio(part.length, total),
        "links_busy_ps": part.links_busy,
        "links_busy_share": None if part.links_busy is None else ratio(part.links_busy, part.length),
    }


def _rerun(rerun: Rerun) -> dict[str, Any]:
    return {
        "change": rerun.change.label,
        "what": rerun.change.what,
        "relieves": rerun.change.limit,
        "iteration_time_s": None if rerun.time_ps is None else seconds(rerun.time_ps),
        "gain": rerun.gain,
        "set": list(rerun.settings),
        "refused": rerun.refused or None,
    }
