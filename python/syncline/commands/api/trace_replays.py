"""Replays of imported traces: how long their nodes take in the engine, with communication as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.base.errors import InputError, SimulationFailedError
from syncline.base.text_units import duration, percent
from syncline.engine import runs as engine
from syncline.experiment.load import Variant
from syncline.importers import output, record
from syncline.importers.assemble import assemble
from syncline.importers.output import Imported
from syncline.importers.traces import Record, Trace
from syncline.results.entries import ratio, seconds
from syncline.sections import graph_file
from syncline.sections.experiment import Experiment

FAR: Final = 0.02
"""Relative difference between a replay and the record from which it is warned of."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The recorded time of an NPU, and how long a replay takes."""

    npu: int
    record: Record
    replayed_ps: int | None
    """Nothing if the trace does not say how long its communication took."""

    @property
    def difference(self) -> float | None:
        """How far the replay is from the record, relative to that."""
        return None if self.replayed_ps is None else ratio(self.replayed_ps - self.record.time, self.record.time)

    def document(self) -> dict[str, Any]:
        """As plain values. Times are seconds."""
        steps = self.record.steps or 1
        time = seconds(self.record.time)
        replayed = None if self.replayed_ps is None else seconds(self.replayed_ps)
        return {
            "npu": self.npu,
            "steps": self.record.steps,
            "time_s": time,
            "iteration_time_s": time / steps,
            "communication_s": seconds(self.record.communication),
            "exposed_comm_s": seconds(self.record.exposed),
            "exposed_comm_share": ratio(self.record.exposed, self.record.time),
            "replayed_time_s": replayed,
            "replayed_iteration_time_s": None if replayed is None else replayed / steps,
            "difference": self.difference,
        }


def of(imported: Imported) -> list[Replay]:
    """The replays of all traces whose recorded time is known."""
    return [
        Replay(trace.npu, trace.record, _replayed_ps(trace)) for trace in imported.traces if trace.record is not None
    ]


def slowest(replays: Sequence[Replay]) -> Replay:
    """The replay of the NPU whose record is the longest, which is the record of the job."""
    return max(replays, key=lambda replay: replay.record.time)


def document(replays: Sequence[Replay]) -> dict[str, Any] | None:
    """What a document says of the record: that of the slowest NPU, and those of all; nothing if there is none."""
    if not replays:
        return None
    return {**slowest(replays).document(), "npus": [replay.document() for replay in replays]}


def facts(replays: Sequence[Replay]) -> list[tuple[str, str]]:
    """The record and its replay as rows of a table."""
    if not replays:
        return []
    found = slowest(replays).document()
    steps, replayed = found["steps"], found["replayed_iteration_time_s"]
    what = "" if steps is None else f", the mean of {steps} iterations" if steps > 1 else ", an iteration"
    rows = [("recorded", duration(found["iteration_time_s"]) + what)]
    if replayed is not None:
        rows.append(("with communication as recorded", f"{duration(replayed)} ({_signed(found['difference'])})"))
    exposed = f"{duration(found['exposed_comm_s'] / (steps or 1))} ({percent(found['exposed_comm_share'])})"
    return [*rows, ("exposed communication, recorded", exposed)]


def _signed(share: float | None) -> str:
    return f"{100 * (share or 0):+.1f} %"


def warnings(replays: Sequence[Replay]) -> list[str]:
    """What has to be said of replays that are far from the record, or that there are none of."""
    found = []
    far = [replay for replay in replays if abs(replay.difference or 0) > FAR]
    if far:
        worst = max(far, key=lambda replay: abs(replay.difference or 0))
        took, recorded = (duration(seconds(ps)) for ps in (worst.replayed_ps or 0, worst.record.time))
        more = f"; {len(far)} of {len(replays)} traces are more than {FAR:.0%} away" if len(far) > 1 else ""
        found.append(
            "the graph is no faithful model of the trace: with communication as recorded "
            f"NPU {worst.npu} takes {took}, and {recorded} were recorded ({_signed(worst.difference)}){more}"
        )
    unknown = [replay.npu for replay in replays if replay.replayed_ps is None]
    if unknown:
        found.append(
            f"it is not known how far the graph is from the record of NPU {output.npus_text(unknown)}: the trace does "
            "not say how long all of its communication took, or has times that cannot be simulated"
        )
    return found


def _replayed_ps(trace: Trace) -> int | None:
    """How long the engine takes for the nodes of a trace with communication as recorded, in picoseconds; nothing where
    a trace lacks what that needs, or times are out of all proportion.
    """
    alone = record.as_recorded(trace)
    if alone is None:
        return None
    try:
        return _run(alone)
    except (InputError, SimulationFailedError):
        return None


def _run(alone: Trace) -> int:
    text = output.graph_text(assemble([alone], {}, npus=1).graph).encode("utf-8", "replace")
    values = {
        "name": "replay",
        "topology": "Switch(1)",
        "workload": {"graph": graph_file.read(text, alone.file)},
        "network": {"backend": "analytical"},
        "endpoint": {"kind": "ideal"},
        "training": {"iterations": 1},
    }
    experiment = Experiment.model_validate(values)
    took: int = engine.run(Variant("replay", experiment)).summary["total_ps"]
    return took
