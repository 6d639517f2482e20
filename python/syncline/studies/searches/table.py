"""The table of a search: a row for each candidate, with what is known of it, the best first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import atomic, json_reading
from syncline.core import facts
from syncline.engine.runs import PS_PER_S
from syncline.results import entries as results
from syncline.results import parquet
from syncline.studies.searches.run import Finding, Found

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "syncline.search"
FIRST: Final = ("rank", "candidate", "status", "topology")
DIVISION: Final = (
    *("tensor", "context", "expert", "pipeline", "data", "micro_batch", "schedule", "virtual", "zero"),
    *("recompute", "sequence", "order", "algorithm"),
)
"""Columns that say which division it is."""
COST: Final = ("wall_time_s", "events")
TYPES: Final[dict[str, type]] = {
    "rank": int, "candidate": int, "status": str, "topology": str, "tensor": int, "context": int, "expert": int,
    "pipeline": int, "data": int, "micro_batch": int, "schedule": str, "virtual": int, "zero": int, "recompute": str,
    "sequence": bool, "order": str, "algorithm": str, "npus": int, "micro_batches": int, "bound_s": float,
    "estimate_s": float, "iteration_time_s": float, "samples_per_s_per_npu": float, "exposed_comm_share": float,
    "bubble_s": float, "memory_bytes": int, "available_bytes": int, "stage": int,
    **{f"{n}_bytes": int for n in ("weights", "gradients", "optimiser", "activations", "exchange", "libraries")},
    "reason": str, "key": str, "wall_time_s": float, "events": int,
}  # fmt: skip
"""The columns, with the types of their values."""
MEANINGS: Final = {
    "rank": ("index", "Place among those that were simulated, by the objective."),
    "candidate": ("index", "Number of the candidate."),
    "status": (facts.TEXT, "Outcome: simulated, estimated, excluded by its bound, too large, refused or failed."),
    "topology": (facts.TEXT, "Fabric of the candidate."),
    "tensor": ("count", "NPUs that share each layer."),
    "context": ("count", "NPUs that share each sequence."),
    "expert": ("count", "NPUs that share the experts of a layer."),
    "pipeline": ("count", "Stages of the pipeline."),
    "data": ("count", "Copies of the model."),
    "micro_batch": ("count", "Samples of a micro-batch."),
    "schedule": (facts.TEXT, "Schedule of the pipeline."),
    "virtual": ("count", "Parts of the model that each NPU of a pipeline has."),
    "zero": ("index", "Stage of ZeRO."),
    "recompute": (facts.TEXT, "What is computed again in back-propagation."),
    "sequence": ("truth value", "Whether tensor parallelism divides sequences as well."),
    "order": (facts.TEXT, "Order of the axes, that of neighbouring NPUs first."),
    "algorithm": (facts.TEXT, "Algorithm of the collectives."),
    "npus": ("count", "NPUs of the topology."),
    "micro_batches": ("count", "Micro-batches of an iteration."),
    "bound_s": ("s", "Time that an iteration takes at least."),
    "estimate_s": ("s", "Time that an iteration takes about."),
    "iteration_time_s": (
        "s",
        "Simulated time of an iteration: what one more costs, where weights come beside the next.",
    ),
    "samples_per_s_per_npu": ("1/s", "Samples of the global batch divided by simulated time and NPUs."),
    "exposed_comm_share": ("share", "Share of the total time that the compute engine waited for communication."),
    "bubble_s": ("s", "Waits for messages of other stages, in an iteration."),
    "memory_bytes": (facts.BYTES, "Memory of an NPU of the stage that needs most."),
    "available_bytes": (facts.BYTES, "Memory that an NPU may use."),
    "stage": ("index", "The stage that needs most memory."),
    "weights_bytes": (facts.BYTES, "Weights in it."),
    "gradients_bytes": (facts.BYTES, "Gradients in it."),
    "optimiser_bytes": (facts.BYTES, "State of the optimiser in it."),
    "activations_bytes": (facts.BYTES, "Activations in it."),
    "exchange_bytes": (facts.BYTES, "Buffers of communication in it."),
    "libraries_bytes": (facts.BYTES, "Workspaces of matrix products in it."),
    "reason": (facts.TEXT, "Why there is no simulated time."),
    "key": (facts.TEXT, "Key of the simulation, equal where experiment and engine are the same."),
    "wall_time_s": ("s", "Time that the simulation took on this machine."),
    "events": ("count", "Events of the simulation."),
}
"""The unit of each column, and what it says."""


def rows(found: Found) -> list[dict[str, Any]]:
    """A row for each candidate: those that were simulated first, the best ahead; then by estimate, then by memory."""
    places = {id(finding): place for place, finding in enumerate(found.ranked, start=1)}

    def order(finding: Finding) -> tuple[float, ...]:
        about = finding.predicted.estimate if finding.predicted else 0
        last = found.cost(finding, about) if finding.candidate.fits else finding.candidate.needed.total
        return (not finding.candidate.fits, places.get(id(finding), len(places) + 1), last, finding.candidate.number)

    return [_row(finding, places.get(id(finding))) for finding in sorted(found.findings, key=order)]


def _row(finding: Finding, rank: int | None) -> dict[str, Any]:
    candidate, predicted, entry = finding.candidate, finding.predicted, finding.entry
    measures = {} if entry is None else entry.measures
    seconds = finding.seconds
    batch = candidate.setting.micros * (candidate.parallel.data or 1) * candidate.parallel.micro_batch
    return {
        "rank": rank,
        "candidate": candidate.number,
        "status": finding.status,
        **candidate.values(("topology", *DIVISION)),
        "npus": candidate.npus,
        "micro_batches": candidate.setting.micros,
        "bound_s": None if predicted is None else predicted.bound / PS_PER_S,
        "estimate_s": None if predicted is None else predicted.estimate / PS_PER_S,
        "iteration_time_s": seconds,
        "samples_per_s_per_npu": None if not seconds else batch / seconds / candidate.npus,
        "exposed_comm_share": measures.get("exposed_comm_share"),
        "bubble_s": measures["bubble_s"] / measures["iterations"] if "bubble_s" in measures else None,
        "memory_bytes": candidate.needed.total,
        "available_bytes": candidate.available,
        "stage": candidate.needed.stage,
        **{f"{name}_bytes": size for name, size in candidate.needed.terms().items()},
        "reason": finding.reason,
        "key": finding.key,
        "wall_time_s": None if entry is None else entry.wall_time_s,
        "events": None if entry is None else entry.events,
    }


def as_arrow(found: Sequence[dict[str, Any]], about: dict[str, Any]) -> pa.Table:
    """The rows with what they are about as metadata."""
    import pyarrow as pa

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    fields = [
        pa.field(name, types[kind], metadata=dict(zip(("unit", "meaning"), MEANINGS[name], strict=True)))
        for name, kind in TYPES.items()
    ]
    return pa.Table.from_pylist(list(found), pa.schema(fields, {METADATA: json.dumps(about)}))


def about(found: Found) -> dict[str, Any]:
    """What the table is about."""
    search = found.search
    return {
        "name": search.name,
        "version": _version.version(),
        "status": "partial" if found.interrupted else "complete",
        "objective": search.objective,
        "axes": [
            name
            for name in ("topology", *DIVISION)
            if name in search.axes or (len(search.bases) > 1 and name == "topology")
        ],
    }


def write(path: Path, found: Sequence[dict[str, Any]], document: dict[str, Any], described: dict[str, Any]) -> None:
    """Writes the table in the format of its suffix, as a whole or not at all."""
    if path.suffix == ".json":
        atomic.write(path, results.dumps(document) + "\n")
    else:
        atomic.write(path, parquet.content(as_arrow(found, described), path.suffix))


def is_search(path: Path) -> bool:
    """Whether a file looks like a table that a search has written."""
    if path.suffix == ".json":
        try:
            return bool(json_reading.parse(path.read_text("utf-8")).get("kind") == METADATA)
        except (OSError, ValueError, AttributeError):
            return False
    return parquet.looks_like(path, METADATA, FIRST)
