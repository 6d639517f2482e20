"""What a sweep keeps of a simulation: numbers for the columns of its table, under names that carry their units."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

from syncline import choice, engine, results
from syncline.engine import Result
from syncline.errors import InputError, SimulationFailedError
from syncline.schema.load import Study, Variant
from syncline.sweep import columns
from syncline.sweep.columns import Measure
from syncline.sweep.journal import Entry

ROOM: Final = frozenset({"sram_room", "port_buffer"})
"""Resources that are waited for and never busy: they are held, and do not work."""


def simulate(variant: Variant) -> Entry:
    """Simulates a variant; whatever comes of it is an entry of the journal."""
    began = time.monotonic()
    try:
        variant = choice.settled(Study(variant.name, "", (variant,))).variants[0]
        result = engine.run(variant)
    except InputError as error:
        message = "; ".join(problem.message for problem in error.problems)
        return Entry("refused", message, wall_time_s=_since(began))
    except SimulationFailedError as error:
        return Entry("failed", str(error), wall_time_s=_since(began))
    return Entry("done", None, of(variant, result), _since(began), result.summary["events"])


def of(variant: Variant, result: Result) -> dict[str, Any]:
    """The measures of a simulation, in the order of the table."""
    experiment = variant.experiment
    if experiment.is_training:
        entry, own = results.run_entry(variant, result), columns.TRAINING
    else:
        entry, own = results.collective_fields(variant, result), columns.COLLECTIVE
    total_s = results.seconds(result.summary["total_ps"])
    return {
        **_some(entry, own),
        **_some(entry, columns.COMMON),
        **_some(entry["network"], columns.NETWORK),
        "bytes_sent_per_npu": float(entry["network"]["bytes_sent_per_npu"]),  # a mean, not always whole
        **_some(entry["endpoint"], columns.ENDPOINT),
        **_some(entry["endpoint"]["breakdown"], columns.BREAKDOWN),
        **_resources(entry["endpoint"], total_s * experiment.taking_part),
        **_partitions(entry["endpoint"]),
        **_some(entry.get("cost_model", {}), columns.COST),
        **_some(results.fidelity(experiment, result.summary), columns.FIDELITY),
        columns.WARNINGS.name: "; ".join(result.summary["warnings"]) or None,
    }


def _some(values: Mapping[str, Any], measures: tuple[Measure, ...]) -> dict[str, Any]:
    return {measure.name: values[measure.name] for measure in measures if measure.name in values}


def _resources(endpoint: Mapping[str, Any], npu_seconds: float) -> dict[str, Any]:
    """The share of the time that each resource of the endpoint was busy, and how long work waited for it.

    Both over all NPUs: waits are sums over everything that waited, and can exceed the time.
    """
    found: dict[str, Any] = {}
    for resource in endpoint["resources"]:
        name = resource["resource"]
        if name not in ROOM:
            found[name + columns.UTILISATION.name] = results.ratio(
                resource["busy_s"], resource["servers"] * npu_seconds
            )
        found[name + columns.WAIT.name] = resource["wait_s"]
    return found


def _partitions(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """How much there is, and how much was ever held, of each partition of an engine's SRAM, or of a switch's memory."""
    found: dict[str, Any] = {}
    for partition in endpoint["partitions"]:
        name = re.sub(r"[^a-z0-9]+", "_", partition["phase"])
        prefix = name if name == "switch_memory" else f"sram_{name}"
        found[prefix + columns.CAPACITY.name] = partition["capacity_bytes"]
        found[prefix + columns.PEAK.name] = partition["peak_bytes"]
    return found


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)
