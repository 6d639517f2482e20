"""What limits a run: named from how busy everything was, and decided by reruns where there are some.

*By accounting.* What the critical path consists of mostly decides between compute and communication. Communication is
limited by what was busy nearly all the time that there was communication; if nothing was, by chunks in flight where
others waited to be, and otherwise by latency: few chunks that go through many steps.

*By reruns.* The limit is what gains most when there is twice as much of it. Accounting cannot see everything: two
resources may be busy one after the other, and chunks in flight wait for latency. Where several reliefs gain about as
much, the limit is the one that accounting names, or else the first of them. Several things together (all links, memory
and SMs) are the limit only where none of them alone gains most of what they gain together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.base.text_units import percent
from syncline.sections.experiment import Experiment
from syncline.studies.reasons import changes, usage
from syncline.studies.reasons.path import Span
from syncline.studies.reasons.usage import Usage

BUSY: Final = 0.8
"""The share of the time of communication from which something counts as busy throughout."""
NOTICED: Final = 0.01
"""The least gain that counts: less does not tell one thing from another."""
ALIKE: Final = 0.1
"""Gains that differ by less than this part of the best one are alike."""
MOSTLY: Final = 0.8
"""The part of what several things gain together from which one of them is the limit."""
NOTHING: Final = "nothing"
"""The limit of a run that no relief makes faster."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A change, and what came of it."""

    change: changes.Change
    settings: tuple[str, ...]
    """What repeats it: values of `--set`."""
    time_ps: float | None = None
    """Of an iteration; nothing where it could not be run."""
    gain: float | None = None
    """The part of the time that it saves; negative if it takes longer."""
    refused: str = ""
    """Why it could not be run."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits a run."""

    name: str
    by: str
    """`reruns`, or `accounting` alone."""
    because: str
    """The evidence in a sentence."""
    accounting: str
    """What accounting names."""


def by_accounting(experiment: Experiment, spans: Sequence[Span], found: Usage) -> tuple[str, str]:
    """The limit, and the number that led to it, in words."""
    total = sum(span.length for span in spans)
    computing = sum(span.length for span in spans if span.what in ("compute", "background"))
    bubbles = sum(span.length for span in spans if span.what == "bubble")
    if total and 2 * (computing + bubbles) >= total:
        rest = f", and waiting for other classes {percent(bubbles / total)}" if bubbles else ""
        return changes.COMPUTE, f"compute is {percent(computing / total)} of the critical path{rest}"
    if found.timeouts and found.stalled >= 1 - BUSY:
        return changes.TIMEOUTS, (
            f"nothing was on any link for {percent(found.stalled)} of the run, until a retransmission timer expired"
        )
    busy = sorted(_busy(found), key=lambda item: -item[1])
    if busy and busy[0][1] >= BUSY:
        name, share, what = busy[0]
        return name, f"{what} for {percent(share)} of the time in which there is communication"
    return _by_room(experiment, found, busy)


def _busy(found: Usage) -> Iterator[tuple[str, float, str]]:
    """What may be busy all the time: the limit that it is, the share, and what was busy in words."""
    for name, share in found.links.items():
        yield changes.link(name), share, f"links of {name} are busy"
    groups = {"memory": changes.MEMORY, "sms": changes.SMS, "bus": changes.BUS}
    groups |= {"sram ports": changes.ENGINE_CLOCK, "alus": changes.ENGINE_CLOCK}
    for name, share in found.resources.items():
        limit = groups[usage.GROUPS[name]]
        yield limit, share, f"{name.replace('_', ' ')} of the endpoint is busy"


def _by_room(experiment: Experiment, found: Usage, busy: Sequence[tuple[str, float, str]]) -> tuple[str, str]:
    """The limit where nothing is busy all the time: room for chunks, or latency."""
    most = (
        f"{busy[0][2].replace(' is busy', '').replace(' are busy', '')} most, with {percent(busy[0][1])}"
        if busy
        else ""
    )
    idle = f"nothing is busy throughout ({most}), and " if busy else ""
    if experiment.endpoint.has_own_window:
        waits = found.waited_for
        full = [each for each in found.fsms if each.peak >= each.fsms and each.busy >= BUSY]
        if waits.get("sram_room", 0.0) > waits.get("fsm", 0.0):
            return changes.SRAM, f"{idle}chunks wait for room in the SRAM"
        if full and waits.get("fsm", 0.0) > 0:
            each = max(full, key=lambda fsm: fsm.busy)
            return changes.FSMS, f"{idle}all {each.fsms} FSMs of {each.phase} are in use"
        if found.backlog > 0.5 and found.partitions:
            name, held = max(found.partitions.items(), key=lambda item: item[1])
            return changes.SRAM, f"{idle}chunks wait for SRAM, of which {name} holds up to {percent(held)} of its part"
    limit = experiment.collective.inflight
    if not experiment.endpoint.has_own_window and found.backlog > 0.5 and found.most_in_flight >= limit:
        return (
            changes.IN_FLIGHT,
            f"{idle}{found.in_flight:.1f} of at most {limit} chunks are in flight while others wait",
        )
    return changes.LATENCY, f"{idle}{found.in_flight:.1f} chunks are in flight and none waits to be"


def decided(accounting: tuple[str, str], reruns: Iterable[Rerun]) -> Limit:
    """The limit, with reruns where there are some."""
    name, because = accounting
    reliefs = [r for r in reruns if r.change.what == "relief" and r.change.limit is not None and r.gain is not None]
    if not reliefs:
        return Limit(name, "accounting", because, name)
    gains = {r: r.gain or 0.0 for r in reliefs}
    if max(gains.values()) < NOTICED:
        said = f"no change of one thing makes it faster by {percent(NOTICED)} or more"
        return Limit(NOTHING, "reruns", f"{said}; {because}", name)
    singles = [r for r in reliefs if r.change.limit not in changes.COMBINED]
    if max((gains[r] for r in singles), default=0.0) >= MOSTLY * max(gains.values()):
        reliefs = singles
    best = max(gains[r] for r in reliefs)
    alike = [r for r in reliefs if gains[r] >= best - max(ALIKE * best, NOTICED / 2)]
    chosen = next((r for r in alike if r.change.limit == name), alike[0])
    said = f"{chosen.change.label} saves {percent(gains[chosen])}"
    evidence = because if chosen.change.limit == name else f"accounting names {name}: {because}"
    return Limit(str(chosen.change.limit), "reruns", f"{said}; {evidence}", name)


def network_is_idle(limit: Limit, reruns: Sequence[Rerun]) -> str | None:
    """What is said of a run that does not react to its network; nothing where it does, or where that is not known."""
    links = [r for r in reruns if (r.change.limit or "").startswith(changes.ALL_LINKS) and r.gain is not None]
    if not links or any((r.gain or 0.0) >= NOTICED for r in links):
        return None
    widest = max(links, key=lambda r: r.change.limit == changes.ALL_LINKS)
    if abs(widest.gain or 0.0) >= NOTICED:
        return None
    rest = "" if limit.name == NOTHING else f"; what limits it is {limit.name}"
    changed = f"{widest.change.label} changes it by {percent(abs(widest.gain or 0.0))}"
    if all(r.change.limit in (changes.link(changes.NIC_LINKS), changes.NICS_AND_PCIE) for r in links):
        # Links inside of a machine have no setting, so that nothing is known of them.
        return f"the time does not react to the network between machines: {changed}{rest}"
    return f"the time does not react to the network: {changed}{rest}"


def as_entry(limit: Limit) -> Mapping[str, Any]:
    """The limit in a document."""
    return {"name": limit.name, "by": limit.by, "because": limit.because, "by_accounting": limit.accounting}
