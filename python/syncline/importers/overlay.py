"""Measured profiles of PyTorch (Kineto) beside the NPUs of a simulated timeline.

A measured rank is a process of its own next to the NPU of its number, with its streams and the threads of the host
that launch kernels. *Time*: the first iteration that the profile marks (`ProfilerStep#N`) and that has kernels begins
at time zero, with the first simulated iteration; without such marks, the first event on the GPU or of a launch does.
The clocks of ranks differ, so each is aligned on its own; what was before is left out. *Collectives*: the first
measured all-reduce belongs to the first simulated one of that rank, and so on, for each kind of collective in the order
of their beginnings. An arrow leads from the simulated to the measured one, and what has no counterpart is counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline.base import inputs
from syncline.base.errors import InputError, Problem
from syncline.importers import kineto, kineto_communication, kineto_format, ranks
from syncline.importers.kineto_format import ON_DEVICE, ON_HOST, RUNTIME, STEP, Event, Profile
from syncline.results.timeline import Process, Slice, Timeline, order

MEASURED: Final = 1 << 24
"""The process of rank 0; NPUs have smaller numbers."""
ARROWS: Final = 1 << 48
"""Arrows from here on join what belongs together; those of messages have smaller numbers."""
_COLLECTIVE: Final = re.compile(r"(?P<kind>[a-z-]+) of iteration [0-9]+")


@dataclass(slots=True)
class Overlaid:
    """What became of the profile of a rank."""

    rank: int
    file: str
    aligned_at: str
    """What of the profile is at time zero."""
    kernels: int
    """Kernels and copies that are shown."""
    left_out: int
    """Kernels and copies from before."""
    measured: dict[str, int] = field(default_factory=dict)
    """Collectives by kind."""
    simulated: dict[str, int] = field(default_factory=dict)
    matched: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """The same in words."""
        kinds = sorted({*self.measured, *self.simulated})
        each = [
            f"{kind}: {self.matched.get(kind, 0)} matched of {self.measured.get(kind, 0)} measured and "
            f"{self.simulated.get(kind, 0)} simulated"
            for kind in kinds
        ]
        before = f", {self.left_out} from before are left out" if self.left_out else ""
        found = "; ".join(each) or "no collectives"
        return f"rank {self.rank}: {self.kernels} kernels from {self.aligned_at} on{before}; {found}"


def read(arguments: Sequence[str], npus: int) -> dict[int, Profile]:
    """The profiles that arguments of the command line mean, by rank. Raises [`InputError`], also if a rank is none of
    the `npus` NPUs of the simulation.
    """
    files = ranks.of(arguments, kineto.SUFFIXES)
    found: dict[int, Profile] = {}
    problems: list[Problem] = []
    for path in files.by_npu.values():
        try:
            profile = _profile(path)
        except InputError as error:
            problems += error.problems
            continue
        if profile.rank in found:
            message = f"rank {profile.rank} has another profile: {found[profile.rank].file}"
            problems.append(Problem(str(path), None, "distributedInfo.rank", None, message, "a profile for each rank"))
        elif profile.rank >= npus:
            message = f"the simulation has no NPU {profile.rank}"
            problems.append(Problem(str(path), None, "distributedInfo.rank", None, message, f"0 to {npus - 1}"))
        found[profile.rank] = profile
    if problems:
        raise InputError(problems)
    return dict(sorted(found.items()))


def _profile(path: Path) -> Profile:
    content = inputs.read_bytes(inputs.given(path), str(path), kineto_format.MAX_BYTES)
    profile = kineto_format.read(content, str(path))
    if not any(event.category in ON_DEVICE for event in profile.events):
        message = "there is no event of a GPU (kernel, gpu_memcpy, gpu_memset), as in profiles of a CPU alone"
        raise InputError([Problem(str(path), None, "traceEvents", None, message, "a profile with kernels")])
    return profile


def add(timeline: Timeline, profiles: Mapping[int, Profile]) -> list[Overlaid]:
    """Adds measured ranks to a timeline, and says what was matched."""
    found: list[Overlaid] = []
    arrow = ARROWS
    for rank, profile in profiles.items():
        process = MEASURED + rank
        timeline.beside[process] = Process(f"rank {rank} (measured)", 2 * rank + 1)
        zero, aligned_at = _zero(profile)
        device = [event for event in profile.events if event.category in ON_DEVICE]
        shown = [event for event in device if event.start >= zero]
        overlaid = Overlaid(rank, Path(profile.file).name, aligned_at, len(shown), len(device) - len(shown))
        simulated = _simulated(timeline, rank)
        measured = _measured(profile, shown)
        overlaid.simulated = {kind: len(places) for kind, places in simulated.items()}
        overlaid.measured = {kind: len(events) for kind, events in measured.items()}
        arrows: dict[int, int] = {}
        for kind, events in measured.items():
            for event, place in zip(events, simulated.get(kind, ()), strict=False):
                arrow += 1
                arrows[event.index] = arrow
                timeline.slices[place] = _leaving(timeline.slices[place], arrow)
                overlaid.matched[kind] = overlaid.matched.get(kind, 0) + 1
        calls = [event for event in profile.events if event.category in RUNTIME and event.start >= zero]
        added = [
            *(
                _slice(process, kineto_format.stream_of(event), event, zero, arrows.get(event.index, 0))
                for event in shown
            ),
            *(_slice(process, f"host thread {event.thread}", event, zero) for event in calls),
        ]
        timeline.slices += added
        timeline.notes["slices_total"] = timeline.notes.get("slices_total", 0) + len(added)
        timeline.notes[f"measured_rank_{rank}"] = overlaid.sentence()
        found.append(overlaid)
    timeline.slices.sort(key=order)
    return found


def _slice(process: int, track: str, event: Event, zero: int, arrives: int = 0) -> Slice:
    return Slice(process, track, event.name, event.start - zero, event.end - zero, arrives=arrives)


def _leaving(s: Slice, arrow: int) -> Slice:
    return Slice(s.process, s.track, s.name, s.start_ps, s.end_ps, arrow, s.arrives)


def _zero(profile: Profile) -> tuple[int, str]:
    """The time of a profile that becomes zero, and what is there."""
    device = [event for event in profile.events if event.category in ON_DEVICE]
    for step in (event for event in profile.events if event.category == ON_HOST and event.name.startswith(STEP)):
        if any(step.start <= event.start < step.end for event in device):
            return step.start, f"the start of {step.name}"
    launched = {event.correlation for event in device}
    calls = [event for event in profile.events if event.category in RUNTIME and event.correlation in launched]
    return min(event.start for event in (*device, *calls)), "the first event"


def _simulated(timeline: Timeline, npu: int) -> dict[str, list[int]]:
    """The collectives of an NPU by kind: their places among the slices, in the order of their beginnings."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, s in enumerate(timeline.slices):
        if s.process == npu and s.track.startswith("collective ") and (match := _COLLECTIVE.match(s.name)):
            found[match["kind"]].append(place)
    return found


def _measured(profile: Profile, shown: Sequence[Event]) -> dict[str, list[Event]]:
    """The kernels of collectives by kind, in the order of their beginnings."""
    params = kineto_communication.params_of(profile)
    found: dict[str, list[Event]] = defaultdict(list)
    for event in shown:
        if kineto_format.is_communication(event.name):
            name = kineto_communication.arguments_of(event, params).get("Collective name")
            if isinstance(name, str) and name.lower() in kineto_communication.KINDS:
                found[kineto_communication.KINDS[name.lower()][0]].append(event)
    return found
