"""The timeline of a simulation as one file: the part of `syncline.export_trace` for Chrome's and Perfetto's formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import outputs
from syncline.base.errors import command_line, one_of
from syncline.engine import runs as engine
from syncline.importers import overlay as overlays
from syncline.results import timeline, traces

if TYPE_CHECKING:
    from syncline.experiment.load import Variant
    from syncline.importers.overlay import Overlaid

FORMATS: Final = {"chrome": ".json", "perfetto": ".pftrace"}
"""Formats by name, and the suffixes of their files."""


@dataclass(frozen=True, slots=True)
class Written:
    """A trace that was written."""

    path: Path
    size: int
    overlaid: Sequence[Overlaid]


def suffix(format_: str, out: Path | None) -> str:
    """The suffix of the file, which has to be one of the format.

    Raises [`InputError`](syncline.base.errors.InputError).
    """
    if out is None:
        return FORMATS[format_]
    allowed = traces.PERFETTO if format_ == "perfetto" else traces.CHROME
    found = traces.suffix_of(out.name)
    if found not in allowed:
        raise command_line("--out", str(out), f"this is no name of a file of the format {format_}", one_of(allowed))
    return found


def write(variant: Variant, npus: Sequence[int] | None, overlay: Sequence[str], path: Path, suffix_: str) -> Written:
    """Simulates a variant and writes its timeline, with measured profiles beside its NPUs. Without `npus`, those are
    traced that the experiment names (`output.trace_npus`, NPU 0 if there are none), and those that were measured.
    """
    kind = outputs.TIMELINES[suffix_]
    outputs.check(path, kind)
    experiment = variant.experiment
    profiles = overlays.read(overlay, experiment.topology.npus) if overlay else {}
    if npus is None:
        npus = sorted({*(experiment.traced or ([] if profiles else [0])), *profiles})
    output = experiment.output.model_copy(update={"trace_npus": list(npus)})
    result = engine.run(replace(variant, experiment=experiment.model_copy(update={"output": output})))
    shown = timeline.read(result.tables, traces.most(suffix_), output.trace_limit)
    overlaid = overlays.add(shown, profiles)
    content = traces.encode(suffix_, shown, variant.name)
    outputs.write_into(path.parent, {path.name: (content, kind)})
    return Written(path, len(content), overlaid)
