"""What a simulation will cost, before it is run: rough, and said to be so.

The engine counts messages, packets and the links that they cross (`preview.rs`); events follow from them, by factors
that were fitted to some two hundred random runs of every backend, endpoint and algorithm:

analytical, flow    2.6 and 3.5 per message
packet              one per packet and link, and 1.5 per message; where endpoints forward, and where all goes around
                    rings, messages are trains between neighbours, of 3 per link and next to nothing for their packets
ACE                 2.2 per packet and link, or per message of the engine
forwarding          where endpoints forward, a message counts once per link that it crosses
sharing             with flows, finding the shares of links may cost a multiple of the events: as at the beginning of
                    a run, which is carried out for that (`of_variant`), but not on machines of thousands of NPUs
                    that have to be set up for it
compute             one per kernel
routes              as many of their links as the engine says are looked up in the time of an event
time                start-up, and 2.5 million events per second of the flow backend, 6 of the others; where NPUs that
                    are simulated as one may turn out to differ, that of all of them on top, which is said
memory              what the engine expects to take, and Python

Tests hold this against real runs: nearly all lie within a factor of three.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from syncline.base.errors import InputError, SimulationFailedError
from syncline.core import facts
from syncline.core.preview import Preview
from syncline.engine import runs as engine
from syncline.experiment import programs
from syncline.experiment.load import Variant
from syncline.fabric.topologies import Wired
from syncline.sections.experiment import Experiment

START_S: Final = 0.1
NOTICED_S: Final = 60
"""A command that takes longer says so before it begins."""
PROBED_EVENTS: Final = 500_000
"""Runs by flows that are shorter are not begun to see what shares of links cost, nor those that take more memory."""
PROBED_BYTES: Final = 2 * 10**9
PROBED_NPUS: Final = 2048
"""Nor those on machines of more NPUs, where setting a run up once more takes longer than most runs."""
PROBE: Final = 300_000
"""Work of such a beginning, in events: a tenth of a second."""
TINY: Final = 256
"""Bytes of a message that is hardly worth its events."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a variant will take, roughly; counts are of all NPUs that are simulated."""

    npus: int
    simulated_npus: int
    steps: int
    chunks_per_npu: int
    bytes_sent_per_npu: int
    messages: int
    packets: int
    message_bytes: int
    """Of a message, in the mean."""
    events: int
    memory_bytes: int
    time_s: float
    time_told_apart_s: float | None
    """If NPUs that are simulated as one turn out to differ, so that the run is carried out again with all of them;
    none if they cannot, or if none are."""
    recommendation: str

    def as_document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return asdict(self)


def of_variant(variant: Variant, preview: Preview, prepared: engine.Prepared | None = None) -> Estimate:
    """The estimate of a variant that the engine has looked at, with what shares of links cost at its beginning."""
    expected = of(variant.experiment, preview)
    dear = variant.experiment.network.has_dear_shares
    if not dear or expected.events < PROBED_EVENTS or expected.memory_bytes > PROBED_BYTES:
        return expected
    if prepared is None and isinstance(variant.experiment.topology, Wired) and preview.npus > PROBED_NPUS:
        return expected
    try:
        begun = engine.attempt(variant, most_work=PROBE, prepared=prepared)
    except (InputError, SimulationFailedError):
        return expected
    return of(variant.experiment, preview, work_of_event=begun.work / max(1, begun.events))


def of(experiment: Experiment, preview: Preview, *, work_of_event: float = 1.0) -> Estimate:
    """The estimate of an experiment that the engine has looked at; `work_of_event`: what an event costs, in events."""
    events = _events(experiment, preview)
    work = events * work_of_event + preview.message_hops / facts.constant("links_of_an_event")
    work += experiment.network.frames(preview)
    time_s = round(START_S + work / experiment.network.EVENTS_PER_S, 3)
    told_apart = None
    if experiment.network.tells_apart and preview.simulated_npus < preview.npus:
        told_apart = round(time_s + (time_s - START_S) * preview.npus / max(1, preview.simulated_npus), 3)
    return Estimate(
        npus=preview.npus,
        simulated_npus=preview.simulated_npus,
        steps=preview.steps,
        chunks_per_npu=preview.chunks,
        bytes_sent_per_npu=round(preview.payload_bytes / experiment.taking_part),
        messages=preview.messages,
        packets=0 if experiment.network.packet_bytes is None else preview.packets,
        message_bytes=preview.byte_hops // max(1, preview.message_hops),
        events=events,
        memory_bytes=preview.memory_bytes,
        time_s=time_s,
        time_told_apart_s=told_apart,
        recommendation=experiment.network.recommendation(time_s),
    )


def warning(name: str, estimate: Estimate) -> str | None:
    """What to know of a simulation before it is begun, if it takes long."""
    if estimate.time_s < NOTICED_S:
        apart = estimate.time_told_apart_s
        if apart is None or apart < NOTICED_S:
            return None
        differ = f"if NPUs differ that are simulated as one ({estimate.simulated_npus:,} for {estimate.npus:,})"
        return f"{name}: about {estimate.time_s:.0f} s, but {_long(apart)} {differ}"
    memory = f"{estimate.memory_bytes / 1e9:,.1f} GB"
    text = f"{name}: about {_long(estimate.time_s)} for {estimate.events:.1e} events, and {memory} of memory"
    if estimate.message_bytes < TINY and estimate.messages:
        chunks = f"{estimate.chunks_per_npu:,} chunks; fewer, larger chunks would cost less"
        text += f"; a message has {estimate.message_bytes} B: {chunks}"
    return text


def warning_of_many(what: str, seconds: Iterable[float], threads: int | None) -> str | None:
    """The same of several simulations, of which some run side by side."""
    each = list(seconds)
    at_once = max(1, min(threads or processors(), len(each)))
    takes = max(sum(each) / at_once, max(each, default=0))
    if takes < NOTICED_S:
        return None
    return f"{what}: about {_long(takes)} for {len(each):,} simulations, {at_once} at once"


def processors() -> int:
    """Simulations that run at once unless it is said how many."""
    import os

    return os.cpu_count() or 1


def _long(seconds: float) -> str:
    minutes = max(1, seconds / 60)
    return f"{minutes:,.0f} min" if minutes < 600 else f"{minutes / 60:,.0f} h"


def _events(experiment: Experiment, preview: Preview) -> int:
    forwards = experiment.transit == "endpoint" or _goes_round(experiment, preview)
    messages = max(preview.messages, preview.message_hops) if forwards else preview.messages
    events: float = experiment.network.events(preview, messages, forwards=forwards)
    events = experiment.endpoint.events(events, messages, preview, experiment.network.packet_bytes)
    return round(events) + preview.kernels


def _goes_round(experiment: Experiment, preview: Preview) -> bool:
    """Whether all messages go to neighbours around rings, so that routers pass nothing on."""
    names = {program.name for program in programs.of(experiment)}
    return names != set() and names <= {"ring", programs.AROUND} and preview.message_hops == preview.messages
